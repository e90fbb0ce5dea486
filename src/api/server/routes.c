/*
 * The route table: the whole surface of the API. A new route is a row here, a handler in the noun's
 * file, its statements in src/store/sql/api_*.sql and its schemas in schemas.json. The scope is a
 * positional argument, so that no route can lack one. The OpenAPI document is made from this table.
 */
#include "base/base.h"
#include "api/server/api_priv.h"

#include "spot/agent.h"

#define ROUTE(m, p, s, r, b, q, st, i, o, d) \
	{ \
		.method = (m), .path = (p), .scope = SCOPE_##s, .run = (r), .body_max = (b), \
		.query = (q), .status = (st), .in = (i), .out = (o), .doc = (d) \
	}
#define PAGE "limit cursor "
#define JOB_MAX (1024 * 1024)
#define SMALL (64 * 1024)
/* with paths of 1024 bytes; more than are allowed can still be told so */
#define CHUNKS_MAX (SPOT_AGENT_FILES_MAX * 1200)

const struct route api_routes[] = {
	ROUTE("GET", "/healthz", PUBLIC, get_healthz, 0, "", 200, NULL, NULL,
	    "The process is alive."),
	ROUTE("GET", "/readyz", PUBLIC, get_readyz, 0, "", 200, NULL, "Ready",
	    "The database answers and its schema is there; says whether an engine leads."),
	ROUTE("GET", "/metrics", METRICS, get_metrics, 0, "", 200, NULL, NULL, "Prometheus text."),
	ROUTE("GET", "/v1/openapi.json", PUBLIC, get_openapi, 0, "", 200, NULL, NULL,
	    "This document."),
	ROUTE("GET", "/v1/version", PUBLIC, get_version, 0, "", 200, NULL, "Version",
	    "Program and installation."),
	ROUTE("GET", "/v1/whoami", VIEWER, get_whoami, 0, "", 200, NULL, "Whoami",
	    "Whose token this is."),

	ROUTE("GET", "/v1/prices", VIEWER, get_prices, 0,
	    PAGE "gpu provider region zone instance_type market state max_usd", 200, NULL,
	    "PoolDetailList", "Current prices with hazard and signals, cheapest first."),
	ROUTE("GET", "/v1/prices/gpus", VIEWER, get_prices_gpus, 0, "gpu provider region", 200,
	    NULL, "GpuPriceList",
	    "The cheapest believed price per GPU-hour of each GPU, provider and market, side by "
	    "side, with hazard and signals."),
	ROUTE("GET", "/v1/prices/refused", VIEWER, get_prices_refused, 0,
	    "limit gpu provider region instance_type market", 200, NULL, "RefusedPriceList",
	    "Prices that were not believed, newest first, and why."),
	ROUTE("GET", "/v1/pools", VIEWER, get_pools, 0,
	    PAGE "gpu provider region zone instance_type market state max_usd", 200, NULL,
	    "PoolDetailList", "Pools with shape, price, signals, hazard, own record."),
	ROUTE("GET", "/v1/pools/{pool}", VIEWER, get_pool, 0, "history", 200, NULL, "PoolDetail",
	    "One pool; ?history=7d adds its price points."),
	ROUTE("GET", "/v1/providers", VIEWER, get_providers, 0, "", 200, NULL, "ProviderList",
	    "Providers with the age of their feeds."),
	ROUTE("GET", "/v1/quotas", VIEWER, get_quotas, 0, "provider region", 200, NULL, "QuotaList",
	    "Account limits."),
	ROUTE("GET", "/v1/supply", VIEWER, get_supply, 0, "provider region gpu state", 200, NULL,
	    "SupplyList",
	    "How tight the supply of spot is per provider, region and GPU, where we tried lately."),
	ROUTE("GET", "/v1/classes", VIEWER, get_classes, 0, "", 200, NULL, "ClassList",
	    "What the workload classes mean here: built in, and changed by [class NAME] of the "
	    "configuration file."),
	ROUTE("GET", "/v1/gpus", VIEWER, get_gpus, 0, "", 200, NULL, "GpuList",
	    "GPUs whose speed is known, by the names that job files, fleets and classes use."),
	ROUTE("GET", "/v1/queue", VIEWER, get_queue, 0, "team", 200, NULL, "QueueList",
	    "Jobs that wait for a place, in the order in which they get one, each with what put it "
	    "there."),
	ROUTE("GET", "/v1/shares", VIEWER, get_shares, 0, "", 200, NULL, "ShareList",
	    "What teams may have of what is scarce, and what they used of it: dollars that fade "
	    "with time."),
	ROUTE("PUT", "/v1/shares", ADMIN, put_share, SMALL, "", 200, "ShareAsk", "ShareList",
	    "Sets the share of a team against the others; 1 is ordinary. It stands before the "
	    "configuration file; null takes it back."),

	ROUTE("POST", "/v1/plan", ENGINEER, post_plan, JOB_MAX, "seed", 200, "JobFile", "Plan",
	    "Ranks offers for a job file with every term, and plays the choice through; nothing is "
	    "started."),
	ROUTE("POST", "/v1/backtest", VIEWER, post_backtest, JOB_MAX, "from to deadline_s", 200,
	    "JobFile", "Backtest",
	    "Prices and supply over past time, out of our own rows, of the pools that were the "
	    "cheapest for a job file at the begin of each round; spotctl backtest runs policies "
	    "over them."),
	ROUTE("POST", "/v1/jobs", ENGINEER, post_job, JOB_MAX, "", 201, "JobFile", "Job",
	    "Submits a job file."),
	ROUTE("GET", "/v1/jobs", VIEWER, get_jobs, 0, PAGE "state team project class owner name",
	    200, NULL, "JobList", "Jobs, newest first; state is a comma list or `active`."),
	ROUTE("GET", "/v1/jobs/{job}", VIEWER, get_job, 0, "wait_state timeout_s", 200, NULL,
	    "JobDetail",
	    "One job with attempts, checkpoints and cost; wait_state (a comma list or `terminal`) "
	    "holds the reply."),
	ROUTE("GET", "/v1/jobs/{job}/why", VIEWER, get_job_why, 0, "", 200, NULL, "JobWhy",
	    "Decisions with their inputs, verdicts about its machines with what was seen by whom, "
	    "and events."),
	ROUTE("GET", "/v1/jobs/{job}/logs", VIEWER, get_job_logs, 0, "offset epoch rank follow_s",
	    200, NULL, NULL,
	    "Log text from an offset on; X-Log-Epoch, X-Log-Next and X-Log-End say where to go "
	    "on."),
	ROUTE("GET", "/v1/jobs/{job}/cost", VIEWER, get_job_cost, 0, "", 200, NULL, "JobCost",
	    "Ledger lines by kind and the savings against the baselines."),
	ROUTE("GET", "/v1/checkpoints/{checkpoint}", VIEWER, get_checkpoint, 0, "", 200, NULL,
	    "CheckpointDetail", "One checkpoint and where each of its chunks lies."),
	ROUTE("POST", "/v1/jobs/{job}/cancel", ENGINEER, post_job_cancel, SMALL, "", 202, NULL,
	    "JobDetail", "Asks for cancellation."),
	ROUTE("PATCH", "/v1/jobs/{job}", ENGINEER, patch_job, SMALL, "", 200, "JobPatch",
	    "JobDetail",
	    "Sets what the job may cost in all; null lifts the limit. A parked job goes on by "
	    "itself when that suffices."),

	ROUTE("POST", "/v1/fleets", ENGINEER, post_fleet, JOB_MAX, "", 201, "FleetSpec", "Fleet",
	    "Creates a fleet."),
	ROUTE("POST", "/v1/fleets/plan", ENGINEER, post_fleet_plan, JOB_MAX, "", 200, "FleetSpec",
	    "FleetDraft",
	    "Where a fleet's nodes would go, what they would cost, what limits it and how near it "
	    "is to the least cost; nothing is "
	    "started."),
	ROUTE("GET", "/v1/fleets", VIEWER, get_fleets, 0, PAGE "state team", 200, NULL, "FleetList",
	    "Fleets, newest first."),
	ROUTE("GET", "/v1/fleets/{fleet}", VIEWER, get_fleet, 0, "", 200, NULL, "Fleet",
	    "One fleet with its nodes; ETag."),
	ROUTE("PATCH", "/v1/fleets/{fleet}", ENGINEER, patch_fleet, SMALL, "", 200, "FleetPatch",
	    "Fleet", "Changes the wanted size; If-Match carries the ETag."),
	ROUTE("DELETE", "/v1/fleets/{fleet}", ENGINEER, delete_fleet, 0, "", 202, NULL, "Fleet",
	    "Closes the fleet: its nodes are given back."),
	ROUTE("GET", "/v1/nodes", VIEWER, get_nodes, 0, PAGE "state provider job fleet", 200, NULL,
	    "NodeList", "Nodes, newest first; state is a comma list or `live`."),
	ROUTE("GET", "/v1/nodes/{node}", VIEWER, get_node, 0, "", 200, NULL, "NodeDetail",
	    "One node with notices, samples, events, and verdicts about it."),
	ROUTE("POST", "/v1/nodes/{node}/drain", ENGINEER, post_node_drain, SMALL, "", 202, NULL,
	    "NodeDetail", "Checkpoint what runs there and give the node back."),
	ROUTE("DELETE", "/v1/nodes/{node}", LEAD, delete_node, 0, "force", 202, NULL, "NodeDetail",
	    "Ends the node; a running job is checkpointed first unless ?force=1."),
	ROUTE("GET", "/v1/leaks", VIEWER, get_leaks, 0, "provider state", 200, NULL, "LeakList",
	    "Machines and what they left behind, with our tag, that no node accounts for; what "
	    "they cost. ?state=gone: those that were ended."),
	ROUTE("POST", "/v1/leaks", ADMIN, post_leak, SMALL, "", 200, "LeakAsk", "LeakList",
	    "Says what is to be done with a leak: end it at once, or keep it whatever the sweeper "
	    "would do."),
	ROUTE("POST", "/v1/rebalance", ENGINEER, post_rebalance, SMALL, "", 202, "RebalanceAsk",
	    "Rebalance", "Asks for a rebalancing pass."),
	ROUTE("GET", "/v1/rebalance/{decision}", VIEWER, get_rebalance, 0, "timeout_s", 200, NULL,
	    "Rebalance",
	    "Outcome of a rebalancing pass; timeout_s holds the reply until it is done."),
	ROUTE("GET", "/v1/moves", VIEWER, get_moves, 0, "since", 200, NULL, "Moves",
	    "Planned moves since then (30 days), each with what staying would have cost, and what "
	    "they earned."),
	ROUTE("POST", "/v1/doctor", ENGINEER, post_doctor, SMALL, "", 202, "DoctorAsk", "Doctor",
	    "Asks for an examination of providers and of the daemon; nothing is created."),
	ROUTE("GET", "/v1/doctor/{run}", VIEWER, get_doctor, 0, "timeout_s", 200, NULL, "Doctor",
	    "What an examination saw and what to do; timeout_s holds the reply until it is done."),

	ROUTE("GET", "/v1/cost", VIEWER, get_cost, 0, "by since until", 200, NULL, "Cost",
	    "Ledger sums by team, project, class, provider, gpu, job, market, kind."),
	ROUTE("GET", "/v1/events", VIEWER, get_events, 0, "after job node limit", 200, NULL,
	    "EventList",
	    "Events; with Accept: text/event-stream a stream that resumes by Last-Event-ID."),
	ROUTE("GET", "/v1/tokens", ADMIN, get_tokens, 0, PAGE, 200, NULL, "TokenList",
	    "Tokens, without their values."),
	ROUTE("POST", "/v1/tokens", ADMIN, post_token, SMALL, "", 201, "TokenAsk", "Token",
	    "Makes a token; its value is shown this once."),
	ROUTE("DELETE", "/v1/tokens/{token}", ADMIN, delete_token, 0, "", 200, NULL, "Empty",
	    "Revokes a token."),

	ROUTE("GET", "/v1/agent/download/{file}", PUBLIC, get_download, 0, "", 200, NULL, NULL,
	    "The agent's binaries; X-Sha256 is what user data pins. A request with that header "
	    "gets just that one."),
	ROUTE("POST", "/v1/agent/enrol", PUBLIC, post_enrol, SMALL, "", 200, "AgentEnrol",
	    "AgentSession", "A node presents its one-time token."),
	ROUTE("POST", "/v1/agent/poll", NODE, post_poll, SMALL, "", 200, "AgentPoll", "AgentWant",
	    "What the node should be doing; held until that differs from what it has."),
	ROUTE("POST", "/v1/agent/notice", NODE, post_notice, SMALL, "", 200, "AgentNotice", "Empty",
	    "A notice was heard."),
	ROUTE("POST", "/v1/agent/report", NODE, post_report, SMALL, "", 200, "AgentReport", "Empty",
	    "Phase of an attempt."),
	ROUTE("POST", "/v1/agent/checkpoint", NODE, post_checkpoint, CHUNKS_MAX, "", 200,
	    "AgentCheckpoint", "AgentUploads",
	    "Opens a checkpoint; answers with where to put what is new."),
	ROUTE("POST", "/v1/agent/commit", NODE, post_commit, SMALL, "", 200, "AgentCommit", "Empty",
	    "All of a checkpoint is uploaded."),
	ROUTE("POST", "/v1/agent/log", NODE, post_log, SPOT_AGENT_LOG_BYTES, "job epoch offset",
	    200, NULL, "AgentLogNext", "Appends log bytes."),
	ROUTE("POST", "/v1/agent/sample", NODE, post_sample, SMALL, "", 200, "AgentSample", "Empty",
	    "Utilisation."),
};
const size_t api_routes_n = ARRAY_LEN(api_routes);
