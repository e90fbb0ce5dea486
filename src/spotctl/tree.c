/* The command tree: help, completion, manual page and did-you-mean all come from these tables. */
#include "base/base.h"
#include "spotctl/ctl.h"

#include "base/text/near.h"

#define END \
	{ \
		0 \
	}
#define LIMIT_HELP "at most so many (default 100; json, csv and name: all)"
static const struct ctl_opt market_opts[] = {
	{ "gpu", 'g', "NAME", "only this GPU, such as A100 or H100-80GB", "gpu" },
	{ "provider", 'p', "NAME", "only this provider", "provider" },
	{ "region", 'r', "NAME", "only this region", "region" },
	{ "zone", 0, "ID", "only this zone", "zone" },
	{ "type", 't', "NAME", "only this instance type", "instance_type" },
	{ "market", 'm', "MARKET", "spot, on_demand or reserved", "market" },
	{ "state", 0, "STATE", "fresh, stale, frozen or implausible prices", "state" },
	{ "max", 0, "USD", "at most this per hour", "max_usd" },
	{ "limit", 'n', "N", LIMIT_HELP, NULL }, END
};
static const struct ctl_opt price_opts[] = {
	{ "gpu", 'g', "NAME", "only this GPU, such as A100 or H100-80GB", "gpu" },
	{ "provider", 'p', "NAME", "only this provider", "provider" },
	{ "region", 'r', "NAME", "only this region", "region" },
	{ "zone", 0, "ID", "only this zone", "zone" },
	{ "type", 't', "NAME", "only this instance type", "instance_type" },
	{ "market", 'm', "MARKET", "spot, on_demand or reserved", "market" },
	{ "state", 0, "STATE", "fresh, stale, frozen or implausible prices", "state" },
	{ "max", 0, "USD", "at most this per hour", "max_usd" },
	{ "cheapest", 0, NULL,
	    "the cheapest place of each GPU, cloud and market, with age, source, reclaims and "
	    "capacity",
	    NULL },
	{ "refused", 0, NULL, "prices that were not believed, and why", NULL },
	{ "limit", 'n', "N", LIMIT_HELP, NULL }, END
};
static const struct ctl_opt pool_show_opts[] = {
	{ "history", 0, "TIME", "price history, such as 7d", "history" }, END
};
static const struct ctl_opt plan_opts[] = {
	{ "seed", 0, "N", "of the runs that give the distribution (default 1)", "seed" }, END
};
static const struct ctl_opt submit_opts[] = {
	{ "wait", 'w', NULL, "wait for the end; the exit code is the job's fate", NULL },
	{ "follow", 'f', NULL, "print its log until it ends", NULL },
	{ "key", 0, "KEY", "idempotency key (default: a fresh one)", NULL }, END
};
static const struct ctl_opt job_ls_opts[] = { { "state", 's', "LIST",
						  "states, comma separated, or 'active'", "state" },
	{ "team", 0, "NAME", "only this team", "team" },
	{ "project", 0, "NAME", "only this project", "project" },
	{ "class", 0, "NAME", "only this workload class", "class" },
	{ "owner", 'u', "NAME", "only this owner", "owner" },
	{ "name", 0, "NAME", "only this name", "name" }, { "limit", 'n', "N", LIMIT_HELP, NULL },
	END };
static const struct ctl_opt job_show_opts[] = { { "why", 0, NULL,
						    "decisions with their inputs, what was seen of "
						    "its machines and by whom, and the events",
						    NULL },
	END };
static const struct ctl_opt logs_opts[] = { { "follow", 'f', NULL, "go on until the job ends",
						NULL },
	{ "epoch", 0, "N", "only this attempt", NULL },
	{ "rank", 0, "N", "that of this rank, of a job of several nodes (0)", NULL }, END };
static const struct ctl_opt wait_opts[] = {
	{ "timeout", 0, "SECONDS", "give up after this long (exit 6); default: never", NULL }, END
};
static const struct ctl_opt scale_opts[] = { { "nodes", 0, "N", "wanted nodes", NULL },
	{ "gpus", 0, "N", "wanted GPUs", NULL }, END };
static const struct ctl_opt node_ls_opts[] = {
	{ "state", 's', "LIST", "states, comma separated, or 'live' (default)", "state" },
	{ "provider", 'p', "NAME", "only this provider", "provider" },
	{ "job", 'j', "ID", "only nodes of this job", "job" },
	{ "fleet", 0, "ID", "only nodes of this fleet", "fleet" },
	{ "all", 'a', NULL, "also nodes that are gone", NULL },
	{ "limit", 'n', "N", LIMIT_HELP, NULL }, END
};
static const struct ctl_opt node_rm_opts[] = {
	{ "force", 0, NULL, "do not wait for a checkpoint: unsaved work is lost", NULL }, END
};
static const struct ctl_opt rebalance_opts[] = { { "dry-run", 0, NULL,
						     "only say what would move and why", NULL },
	{ "timeout", 0, "SECONDS", "how long to wait for the outcome (default 120)", NULL }, END };
static const struct ctl_opt moves_opts[] = {
	{ "since", 0, "TIME",
	    "moves from here on: a time, or a duration back such as 7d (default 30d)", NULL },
	END
};
static const struct ctl_opt cost_opts[] = {
	{ "by", 'b', "LIST",
	    "team, project, class, provider, gpu, job, market, kind (default team)", "by" },
	{ "since", 0, "TIME", "from here on: a time, or a duration back such as 7d", NULL },
	{ "until", 0, "TIME", "up to here", NULL },
	{ "job", 'j', "ID", "one job, with its savings", NULL }, END
};
static const struct ctl_opt event_opts[] = { { "follow", 'f', NULL, "go on as they happen", NULL },
	{ "job", 'j', "ID", "only of this job", "job" },
	{ "node", 0, "ID", "only of this node", "node" },
	{ "after", 0, "ID", "only later than this event", NULL },
	{ "limit", 'n', "N", "at most so many (default 100, with -f 10; at most 1000)", NULL },
	END };
static const struct ctl_opt quota_opts[] = { { "provider", 'p', "NAME", "only this provider",
						 "provider" },
	{ "region", 'r', "NAME", "only this region", "region" }, END };
static const struct ctl_opt queue_opts[] = { { "team", 0, "NAME", "only this team", "team" }, END };
static const struct ctl_opt supply_opts[] = { { "provider", 'p', "NAME", "only this provider",
						  "provider" },
	{ "region", 'r', "NAME", "only this region", "region" },
	{ "gpu", 'g', "NAME", "only this GPU", "gpu" },
	{ "state", 's', "STATE", "easy or tight", "state" }, END };
static const struct ctl_opt leak_opts[] = { { "provider", 'p', "NAME", "only this provider",
						"provider" },
	{ "state", 's', "STATE",
	    "found (ended after [engine] orphan_grace), kept, ending, or gone: those that were "
	    "ended (default: all that are open)",
	    "state" },
	END };
static const struct ctl_opt leak_say_opts[] = {
	{ "provider", 'p', "NAME", "of this provider, where several have one of that name", NULL },
	END
};
static const struct ctl_opt fleet_ls_opts[] = { { "state", 's', "STATE",
						    "ACTIVE, CLOSING or CLOSED", "state" },
	{ "team", 0, "NAME", "only this team", "team" }, { "limit", 'n', "N", LIMIT_HELP, NULL },
	END };
static const struct ctl_opt fleet_create_opts[] = {
	{ "dry-run", 0, NULL,
	    "only show where its nodes would go, what they would cost and what limits it", NULL },
	{ "key", 0, "KEY", "idempotency key (default: a fresh one)", NULL }, END
};
static const struct ctl_opt token_ls_opts[] = { { "limit", 'n', "N", LIMIT_HELP, NULL }, END };
static const struct ctl_opt token_opts[] = {
	{ "role", 0, "ROLE", "admin, lead, engineer, viewer or service (default engineer)", NULL },
	{ "team", 0, "NAME", "whose", NULL },
	{ "expires", 0, "TIME", "such as 90d (default: never)", NULL }, END
};

static const struct ctl_opt doctor_opts[] = {
	{ "consistency", 0, NULL,
	    "check that the rows of jobs, nodes, checkpoints and money agree, and that the store "
	    "has the checkpoints; alone unless providers are named",
	    NULL },
	{ "all", 'a', NULL, "also what is as it should be, in full (a table shows it short)",
	    NULL },
	{ "timeout", 0, "SECONDS", "how long to wait for the outcome (default 60)", NULL }, END
};

static const struct ctl_opt simulate_opts[] = {
	{ "trace", 't', "FILE",
	    "recorded supply of a zone; several: zones the job may move between", NULL },
	{ "price-trace", 0, "FILE",
	    "spot price over time of the --trace at the same place; one for each or none", NULL },
	{ "work", 0, "HOURS", "work of the job", NULL },
	{ "deadline", 0, "HOURS", "from its start", NULL },
	{ "changeover", 0, "HOURS",
	    "paid without progress after each start on another instance (default 0.2)", NULL },
	{ "spot-price", 0, "USD", "per hour, where there is no price trace", NULL },
	{ "on-demand-price", 0, "USD", "per hour", NULL },
	{ "transfer-fee", 0, "USD", "of a move to another region (default 0)", NULL },
	{ "nodes", 0, "N",
	    "how many must be had at once, in traces that count (default 1); prices are for all",
	    NULL },
	{ "policy", 'p', "NAME",
	    "auto, uniform-progress, greedy, on-demand, optimal or all (default); several times",
	    NULL },
	{ "starts", 'n', "N", "runs, begun at random places of the trace (default 100)", NULL },
	{ "start-hours", 0, "H,H,..", "begin there instead: hours from the start of the trace",
	    NULL },
	{ "seed", 0, "N", "of the random places; the same for all policies (default 1)", NULL },
	{ "history", 0, "FILE", "another trace that the policies may learn from", NULL },
	{ "per-run", 0, NULL, "each run too", NULL },
	{ "decisions", 0, NULL, "and what was decided in it, when and why", NULL }, END
};

static const struct ctl_opt backtest_opts[] = {
	{ "from", 0, "TIME", "from here on: a time, or a duration back (default 14d before --to)",
	    NULL },
	{ "to", 0, "TIME", "up to here (default now)", NULL },
	{ "deadline", 0, "HOURS", "from the start of each run; else the file's", NULL },
	{ "unknown", 0, "HOW",
	    "supply that nobody tried: prior (drawn from hazard and odds; default), up or down",
	    NULL },
	{ "policy", 'p', "NAME",
	    "auto, uniform-progress, greedy, on-demand, optimal or all (default); several times",
	    NULL },
	{ "starts", 'n', "N", "runs, begun at random moments of that time (default 100)", NULL },
	{ "start-hours", 0, "H,H,..", "begin there instead: hours from --from", NULL },
	{ "seed", 0, "N", "of the random moments; the same for all policies (default 1)", NULL },
	{ "per-run", 0, NULL, "each run too", NULL },
	{ "decisions", 0, NULL, "and what was decided in it, when and why", NULL }, END
};

#define LIST (CTL_OUT | CTL_WATCH)
const struct ctl_cmd ctl_commands[] = {
	{ "prices", "", "", 0, 0,
	    "the clouds side by side per GPU; with any option every pool, cheapest first",
	    price_opts, cmd_prices, LIST },
	{ "pools", "", "", 0, 0, "pools with hazard, signals and our own record", market_opts,
	    cmd_pools, LIST },
	{ "pools", "show", "POOL", 1, 1, "one pool, with price history", pool_show_opts,
	    cmd_pool_show, LIST },
	{ "providers", "", "", 0, 0, "providers, their feeds and how they are doing", NULL,
	    cmd_providers, LIST },
	{ "doctor", "", "[PROVIDER...]", 0, CTL_ARGS_MAX,
	    "examine providers and the daemon, and say what to fix", doctor_opts, cmd_doctor,
	    CTL_OUT },
	{ "quota", "", "", 0, 0, "account limits as the providers report them", quota_opts,
	    cmd_quota, LIST },
	{ "supply", "", "", 0, 0, "how tight spot is, where we tried lately", supply_opts,
	    cmd_supply, LIST },
	{ "queue", "", "", 0, 0, "jobs that wait, in their order, and why", queue_opts, cmd_queue,
	    LIST },
	{ "classes", "", "", 0, 0,
	    "workload classes: spot or not, priority, preemption, the GPUs they may have", NULL,
	    cmd_classes, LIST },
	{ "gpus", "", "", 0, 0, "GPUs whose speed is known, by the names that files use", NULL,
	    cmd_gpus, LIST },
	{ "leaks", "", "", 0, 0,
	    "what has our tag at the providers and no node accounts for, in dollars", leak_opts,
	    cmd_leaks, LIST },
	{ "leaks", "end", "REF", 1, 1, "end it now, whatever it is (admin)", leak_say_opts,
	    cmd_leak_end, CTL_OUT },
	{ "leaks", "keep", "REF", 1, 1, "leave it alone until somebody says otherwise (admin)",
	    leak_say_opts, cmd_leak_keep, CTL_OUT },
	{ "shares", "", "", 0, 0, "teams: what they may have of what is scarce, and what they used",
	    NULL, cmd_shares, LIST },
	{ "shares", "set", "TEAM WEIGHT", 2, 2,
	    "a team's share against the others'; 1 is ordinary; stands before the daemon's file "
	    "(admin)",
	    NULL, cmd_share_set, CTL_OUT },
	{ "shares", "unset", "TEAM", 1, 1,
	    "takes back what was set: the daemon's file counts, or the ordinary share (admin)",
	    NULL, cmd_share_unset, CTL_OUT },
	{ "plan", "", "FILE", 1, 1, "where a job would run and what it would cost; starts nothing",
	    plan_opts, cmd_plan, CTL_OUT },
	{ "backtest", "", "FILE", 1, 1,
	    "deadline policies for a job file over one's own past prices and reclaims",
	    backtest_opts, cmd_backtest, CTL_OUT },
	{ "simulate", "", "", 0, 0,
	    "deadline policies over recorded traces: what would it have cost? no daemon needed",
	    simulate_opts, cmd_simulate, CTL_OUT | CTL_OFFLINE },
	{ "job", "submit", "FILE", 1, 1, "submit a job file ('-' = standard input)", submit_opts,
	    cmd_job_submit, CTL_OUT },
	{ "job", "ls", "", 0, 0, "jobs, newest first", job_ls_opts, cmd_job_ls, LIST },
	{ "job", "show", "JOB", 1, 1, "one job: attempts, checkpoints, cost", job_show_opts,
	    cmd_job_show, LIST },
	{ "job", "why", "JOB", 1, 1, "every decision about a job, with its inputs", NULL,
	    cmd_job_why, LIST },
	{ "job", "logs", "JOB", 1, 1, "what the job printed", logs_opts, cmd_job_logs, 0 },
	{ "job", "cancel", "JOB...", 1, CTL_ARGS_MAX, "stop jobs and give their capacity back",
	    NULL, cmd_job_cancel, 0 },
	{ "job", "budget", "JOB [USD]", 1, 2,
	    "what a job may cost in all, and what is left of that; with an amount, or none, sets "
	    "it",
	    NULL, cmd_job_budget, CTL_OUT },
	{ "job", "wait", "JOB", 1, 1, "wait for the end; exit 0 only if it succeeded", wait_opts,
	    cmd_job_wait, CTL_OUT },
	{ "fleet", "create", "FILE", 1, 1, "create a fleet from a file ('-' = standard input)",
	    fleet_create_opts, cmd_fleet_create, CTL_OUT },
	{ "fleet", "ls", "", 0, 0, "fleets", fleet_ls_opts, cmd_fleet_ls, LIST },
	{ "fleet", "show", "FLEET", 1, 1, "one fleet, its nodes and its plan", NULL, cmd_fleet_show,
	    LIST },
	{ "fleet", "scale", "FLEET", 1, 1, "change how much it wants", scale_opts, cmd_fleet_scale,
	    CTL_OUT },
	{ "fleet", "rm", "FLEET", 1, 1, "give all of it back", NULL, cmd_fleet_rm, CTL_OUT },
	{ "node", "ls", "", 0, 0, "nodes", node_ls_opts, cmd_node_ls, LIST },
	{ "node", "show", "NODE", 1, 1, "one node: notices, attempts, events", NULL, cmd_node_show,
	    LIST },
	{ "node", "drain", "NODE", 1, 1, "checkpoint what runs there, then give it back", NULL,
	    cmd_node_drain, CTL_OUT },
	{ "node", "rm", "NODE", 1, 1, "terminate it; what runs there is checkpointed first",
	    node_rm_opts, cmd_node_rm, CTL_OUT },
	{ "rebalance", "", "", 0, 0, "move running jobs where that pays", rebalance_opts,
	    cmd_rebalance, CTL_OUT },
	{ "rebalance", "report", "", 0, 0, "what the moves earned, each against staying",
	    moves_opts, cmd_rebalance_report, LIST },
	{ "cost", "", "", 0, 0, "what was spent, by whom, on what", cost_opts, cmd_cost, LIST },
	{ "events", "", "", 0, 0, "what happened", event_opts, cmd_events, LIST },
	{ "token", "ls", "", 0, 0, "API tokens (admin)", token_ls_opts, cmd_token_ls, LIST },
	{ "token", "create", "NAME", 1, 1, "a new API token, shown once (admin)", token_opts,
	    cmd_token_create, CTL_OUT },
	{ "token", "rm", "TOKEN", 1, 1, "revoke an API token (admin)", NULL, cmd_token_rm,
	    CTL_OUT },
	{ "login", "", "URL", 1, 1, "remember a server; the token is read from standard input",
	    NULL, cmd_login, CTL_OFFLINE },
	{ "whoami", "", "", 0, 0, "the name, role and team of the token", NULL, cmd_whoami,
	    CTL_OUT },
	{ "version", "", "", 0, 0, "versions of this program and of the server", NULL, cmd_version,
	    CTL_OUT | CTL_OFFLINE },
	{ "completion", "", "SHELL", 1, 1, "completion script for bash, zsh or fish", NULL,
	    cmd_completion, CTL_OFFLINE },
	{ "help", "", "[COMMAND]", 0, 2, "this list, or one command", NULL, cmd_help_run,
	    CTL_OFFLINE },
	/* for the build: the manual page as scdoc */
	{ "man", "", "", 0, 0, NULL, NULL, cmd_man, CTL_OFFLINE }, { 0 }
};

const struct ctl_cmd *tree_find(const char *noun, const char *verb, bool *ret_noun_known)
{
	for (const struct ctl_cmd *k = ctl_commands; k->noun != NULL; k++) {
		if (strcmp(k->noun, noun) == 0) {
			*ret_noun_known = true;
			if (strcmp(k->verb, verb) == 0) {
				return k;
			}
		}
	}
	return NULL;
}

const char *tree_suggest_noun(const char *word)
{
	const char *best = NULL;
	int least = NEAR_LEAST;

	for (const struct ctl_cmd *k = ctl_commands; k->noun != NULL; k++) {
		if (k->help != NULL) {
			best = near_better(word, k->noun, best, &least);
		}
	}
	return best;
}

bool tree_has_verbs(const char *noun)
{
	for (const struct ctl_cmd *k = ctl_commands; k->noun != NULL; k++) {
		if (strcmp(k->noun, noun) == 0 && *k->verb != '\0') {
			return true;
		}
	}
	return false;
}

const char *tree_suggest_verb(const char *noun, const char *word)
{
	const char *best = NULL;
	int least = NEAR_LEAST;

	for (const struct ctl_cmd *k = ctl_commands; k->noun != NULL; k++) {
		if (strcmp(k->noun, noun) == 0 && *k->verb != '\0') {
			best = near_better(word, k->verb, best, &least);
		}
	}
	return best;
}
