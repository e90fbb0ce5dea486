/* The routes of jobs. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"

static const struct route rows[] = {
	ROUTE_READ("/v1/classes", get_classes, "", "ClassList",
	    "Lists the workload classes: the built-in ones, as changed by [class NAME] in the "
	    "configuration file."),
	ROUTE_READ("/v1/gpus", get_gpus, "", "GpuList",
	    "Lists the GPUs with known speed, by the names that job files, fleets and classes "
	    "use."),
	ROUTE_READ("/v1/queue", get_queue, "team", "QueueList",
	    "Lists the waiting jobs in scheduling order, each with the reason for its position."),
	ROUTE_READ("/v1/shares", get_shares, "", "ShareList",
	    "Lists each team's share of scarce capacity and its recent spending. Older spending "
	    "counts less."),
	ROUTE("PUT", "/v1/shares", ADMIN, put_share, ROUTE_BODY_SMALL, "", 200, "ShareAsk",
	    "ShareList",
	    "Sets a team's weight relative to other teams; 1 is normal. Overrides the "
	    "configuration file; null removes the override."),

	ROUTE("POST", "/v1/plan", ENGINEER, post_plan, ROUTE_BODY_FILE, "seed", 200, "JobFile",
	    "Plan",
	    "Ranks the offers for a job file with every term of the score, and simulates the "
	    "chosen one. Starts nothing."),
	ROUTE("POST", "/v1/backtest", VIEWER, post_backtest, ROUTE_BODY_FILE, "from to deadline_s",
	    200, "JobFile", "Backtest",
	    "Returns recorded prices and supply for a job file. Each round has the pools that were "
	    "cheapest at its start. `spotctl backtest` runs policies over them."),
	ROUTE_CLAIM("/v1/jobs", ENGINEER, post_job, show_job, ROUTE_BODY_FILE, 201, "JobFile",
	    "Job", "Submits a job file."),
	ROUTE_READ("/v1/jobs", get_jobs, ROUTE_PAGE "state team project class owner name",
	    "JobList",
	    "Lists jobs, newest first. `state` takes states separated by commas, `active` or "
	    "`terminal`."),
	ROUTE_READ("/v1/jobs/{job}", get_job, "wait_state timeout_s", "JobDetail",
	    "Shows one job with its attempts, checkpoints and cost. `wait_state` (states separated "
	    "by commas, `active` or `terminal`) holds the reply until the job has such a state."),
	ROUTE_READ("/v1/jobs/{job}/why", get_job_why, "", "JobWhy",
	    "Explains one job: decisions with their inputs, verdicts about its machines with the "
	    "evidence, and events."),
	ROUTE("GET", "/v1/jobs/{job}/logs", VIEWER, get_job_logs, 0, "offset epoch rank follow_s",
	    200, NULL, NULL,
	    "Returns log text from `offset` on. X-Log-Epoch and X-Log-Next go into the next "
	    "request; X-Log-End: 1 means that the log is complete."),
	ROUTE_READ("/v1/recovery", get_recovery, "since", "RecoveryReport",
	    "Reports by provider how jobs recovered from notices and losses since `since` "
	    "(default: 30 days ago). Shows the success rate, the saves inside the notice window, "
	    "and the time of each phase."),
	ROUTE_READ("/v1/checkpoints/{checkpoint}", get_checkpoint, "", "CheckpointDetail",
	    "Shows one checkpoint and the location of each of its chunks."),
	ROUTE("POST", "/v1/jobs/{job}/cancel", ENGINEER, post_job_cancel, ROUTE_BODY_SMALL, "", 202,
	    NULL, "JobDetail", "Cancels a job. The engine ends its machines afterwards."),
	ROUTE("PATCH", "/v1/jobs/{job}", ENGINEER, patch_job, ROUTE_BODY_SMALL, "", 200, "JobPatch",
	    "JobDetail",
	    "Sets the total budget of a job; null removes it. A parked job resumes when the budget "
	    "suffices."),
};

const struct route_table job_routes = { rows, ARRAY_LEN(rows) };
