/* The command tree: help, completion, manual page and did-you-mean all come from these tables. */
#include "base/base.h"
#include "spotctl/ctl.h"

#include "base/text/text.h"

#define END \
	{ \
		0 \
	}
#define LIMIT_HELP "maximum number to list (default 100; json, csv and name: all)"
#define MARKET_HELP "spot, on_demand, reserved, interruptible or flex_start"
static const struct ctl_opt market_opts[] = {
	{ "gpu", 'g', "NAME", "only this GPU, such as A100 or H100-80GB", "gpu" },
	{ "provider", 'p', "NAME", "only this provider", "provider" },
	{ "region", 'r', "NAME", "only this region", "region" },
	{ "zone", 0, "ID", "only this zone", "zone" },
	{ "type", 't', "NAME", "only this instance type", "instance_type" },
	{ "market", 'm', "MARKET", MARKET_HELP, "market" },
	{ "state", 0, "STATE", "fresh, stale, frozen or implausible prices", "state" },
	{ "max", 0, "USD", "maximum price per hour", "max_usd" },
	{ "limit", 'n', "N", LIMIT_HELP, NULL }, END
};
static const struct ctl_opt price_opts[] = {
	{ "gpu", 'g', "NAME", "only this GPU, such as A100 or H100-80GB; cheapest GPU-hour first",
	    "gpu" },
	{ "provider", 'p', "NAME", "only this provider", "provider" },
	{ "region", 'r', "NAME", "only this region", "region" },
	{ "zone", 0, "ID", "only this zone", "zone" },
	{ "type", 't', "NAME", "only this instance type", "instance_type" },
	{ "market", 'm', "MARKET", MARKET_HELP, "market" },
	{ "state", 0, "STATE", "fresh, stale, frozen or implausible prices", "state" },
	{ "max", 0, "USD", "maximum price per hour", "max_usd" },
	{ "cheapest", 0, NULL,
	    "the cheapest place of each GPU, provider and market, with age, source, reclaims and "
	    "capacity",
	    NULL },
	{ "refused", 0, NULL, "rejected prices with the reason", NULL },
	{ "limit", 'n', "N", LIMIT_HELP, NULL }, END
};
static const struct ctl_opt pool_show_opts[] = {
	{ "history", 0, "TIME", "price history, such as 7d", "history" }, END
};
static const struct ctl_opt plan_opts[] = {
	{ "seed", 0, "N", "seed of the simulated runs (default 1)", "seed" }, END
};
static const struct ctl_opt submit_opts[] = {
	{ "wait", 'w', NULL, "wait for the end; exit 0 only if the job succeeded", NULL },
	{ "follow", 'f', NULL, "print the log until the job ends", NULL },
	{ "key", 0, "KEY", "idempotency key (default: a random one)", NULL }, END
};
static const struct ctl_opt job_ls_opts[] = {
	{ "state", 's', "LIST", "states separated by commas, or 'active'", "state" },
	{ "team", 0, "NAME", "only this team", "team" },
	{ "project", 0, "NAME", "only this project", "project" },
	{ "class", 0, "NAME", "only this workload class", "class" },
	{ "owner", 'u', "NAME", "only this owner", "owner" },
	{ "name", 0, "NAME", "only this name", "name" }, { "limit", 'n', "N", LIMIT_HELP, NULL },
	END
};
static const struct ctl_opt job_show_opts[] = { { "why", 0, NULL,
						    "decisions with their inputs, verdicts about "
						    "its machines with the evidence, and events",
						    NULL },
	END };
static const struct ctl_opt logs_opts[] = { { "follow", 'f', NULL,
						"follow the log until the job ends", NULL },
	{ "epoch", 0, "N", "only this attempt", NULL },
	{ "rank", 0, "N", "rank of the node, for jobs of several nodes (default 0)", NULL }, END };
static const struct ctl_opt wait_opts[] = {
	{ "timeout", 0, "SECONDS", "give up after this time with exit code 6 (default: never)",
	    NULL },
	END
};
static const struct ctl_opt scale_opts[] = { { "nodes", 0, "N", "wanted number of nodes", NULL },
	{ "gpus", 0, "N", "wanted number of GPUs", NULL }, END };
static const struct ctl_opt fleet_set_opts[] = { { "min", 0, "N", "least size", NULL },
	{ "max", 0, "N", "largest size", NULL },
	{ "target", 0, "N", "size at the start and at each opening; taken at once", NULL },
	{ "headroom", 0, "N", "warm spares on top of the need", NULL }, END };
static const struct ctl_opt demand_opts[] = {
	{ "replicas", 0, "N", "wanted replicas of what the fleet serves", NULL },
	{ "nodes", 0, "N", "wanted nodes", NULL }, { "gpus", 0, "N", "wanted GPUs", NULL },
	{ "ttl", 0, "TIME", "how long it holds, such as 5m (default 2m)", NULL }, END
};
static const struct ctl_opt node_ls_opts[] = {
	{ "state", 's', "LIST", "states separated by commas, or 'live' (default)", "state" },
	{ "provider", 'p', "NAME", "only this provider", "provider" },
	{ "job", 'j', "JOB", "only nodes of this job, by id or name", "job" },
	{ "fleet", 0, "FLEET", "only nodes of this fleet, by its id or name", "fleet" },
	{ "all", 'a', NULL, "also ended nodes", NULL }, { "limit", 'n', "N", LIMIT_HELP, NULL }, END
};
static const struct ctl_opt node_rm_opts[] = {
	{ "force", 0, NULL, "do not wait for a checkpoint; unsaved work is lost", NULL }, END
};
static const struct ctl_opt rebalance_opts[] = {
	{ "dry-run", 0, NULL, "only show the moves and their reasons", NULL },
	{ "fleet", 0, "FLEET", "only this fleet, by its id or name", NULL },
	{ "timeout", 0, "SECONDS", "time to wait for the outcome (default 120)", NULL }, END
};
static const struct ctl_opt moves_opts[] = {
	{ "since", 0, "TIME", "start: a time, or a duration back such as 7d (default 30d)", NULL },
	{ "fleet", 0, "FLEET", "only moves of this fleet, by its id or name", "fleet" }, END
};
static const struct ctl_opt cost_opts[] = {
	{ "by", 'b', "LIST",
	    "team, project, class, provider, gpu, job, market, kind (default team)", "by" },
	{ "since", 0, "TIME", "start: a time, or a duration back such as 7d", NULL },
	{ "until", 0, "TIME", "end: a time, or a duration back", NULL },
	{ "job", 'j', "JOB", "one job with its savings, by id or name", NULL }, END
};
static const struct ctl_opt event_opts[] = { { "follow", 'f', NULL, "follow new events", NULL },
	{ "job", 'j', "JOB", "only events of this job, by id or name", "job" },
	{ "node", 0, "ID", "only events of this node", "node" },
	{ "after", 0, "ID", "only events after this one", NULL },
	{ "limit", 'n', "N", "maximum number to list (default 100, with -f 10; at most 1000)",
	    NULL },
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
	    "found (ended after [engine] orphan_grace), kept, ending or gone (default: all but "
	    "gone)",
	    "state" },
	END };
static const struct ctl_opt leak_say_opts[] = {
	{ "provider", 'p', "NAME", "the provider, if several have a leak of this name", NULL }, END
};
static const struct ctl_opt fleet_ls_opts[] = { { "state", 's', "STATE",
						    "ACTIVE, CLOSING or CLOSED", "state" },
	{ "team", 0, "NAME", "only this team", "team" }, { "limit", 'n', "N", LIMIT_HELP, NULL },
	END };
static const struct ctl_opt fleet_create_opts[] = {
	{ "dry-run", 0, NULL, "only show the plan: pools, cost and limits", NULL },
	{ "key", 0, "KEY", "idempotency key (default: a random one)", NULL }, END
};
static const struct ctl_opt token_ls_opts[] = { { "limit", 'n', "N", LIMIT_HELP, NULL }, END };
static const struct ctl_opt token_opts[] = {
	{ "role", 0, "ROLE", "admin, lead, engineer, viewer or service (default engineer)", NULL },
	{ "team", 0, "NAME", "team of the token", NULL },
	{ "expires", 0, "TIME", "lifetime such as 90d (default: no expiry)", NULL }, END
};

static const struct ctl_opt doctor_opts[] = {
	{ "consistency", 0, NULL,
	    "check that jobs, nodes, checkpoints and money agree, and that the store has the "
	    "checkpoints; checks only this unless providers are named",
	    NULL },
	{ "all", 'a', NULL, "show the checks that are ok on a terminal, too", NULL },
	{ "timeout", 0, "SECONDS", "time to wait for the outcome (default 60)", NULL }, END
};

static const struct ctl_opt simulate_opts[] = {
	{ "trace", 't', "FILE", "recorded supply of a zone; repeat it for several zones", NULL },
	{ "price-trace", 0, "FILE",
	    "spot prices of the --trace at the same position; one for each, or none", NULL },
	{ "work", 0, "HOURS", "work of the job", NULL },
	{ "deadline", 0, "HOURS", "deadline, from the start of the job", NULL },
	{ "changeover", 0, "HOURS",
	    "time without progress after each start on another instance (default 0.2)", NULL },
	{ "spot-price", 0, "USD", "spot price per hour, if there is no --price-trace", NULL },
	{ "on-demand-price", 0, "USD", "per hour", NULL },
	{ "transfer-fee", 0, "USD", "cost of a move to another region (default 0)", NULL },
	{ "nodes", 0, "N",
	    "machines needed at once, in traces with counts (default 1); prices are for all of "
	    "them",
	    NULL },
	{ "policy", 'p', "NAME",
	    "auto, uniform-progress, greedy, on-demand, optimal or all (default); repeatable",
	    NULL },
	{ "starts", 'n', "N", "number of runs, from random places of the trace (default 100)",
	    NULL },
	{ "start-hours", 0, "H,H,..", "start at these hours of the trace, not at random", NULL },
	{ "seed", 0, "N", "seed of the random places, the same for all policies (default 1)",
	    NULL },
	{ "history", 0, "FILE", "another trace for the policies to learn from", NULL },
	{ "per-run", 0, NULL, "also each run", NULL },
	{ "decisions", 0, NULL, "also the decisions of each run with their reasons", NULL }, END
};

static const struct ctl_opt backtest_opts[] = {
	{ "from", 0, "TIME", "start: a time, or a duration back (default 14d before --to)", NULL },
	{ "to", 0, "TIME", "end (default now)", NULL },
	{ "deadline", 0, "HOURS",
	    "deadline from the start of each run (default: that of the job file)", NULL },
	{ "unknown", 0, "HOW",
	    "unknown supply: prior (drawn from hazard and odds; default), up or down", NULL },
	{ "policy", 'p', "NAME",
	    "auto, uniform-progress, greedy, on-demand, optimal or all (default); repeatable",
	    NULL },
	{ "starts", 'n', "N", "number of runs, from random moments (default 100)", NULL },
	{ "start-hours", 0, "H,H,..", "start at these hours after --from, not at random", NULL },
	{ "seed", 0, "N", "seed of the random moments, the same for all policies (default 1)",
	    NULL },
	{ "per-run", 0, NULL, "also each run", NULL },
	{ "decisions", 0, NULL, "also the decisions of each run with their reasons", NULL }, END
};

#define LIST (CTL_OUT | CTL_WATCH)
const struct ctl_cmd ctl_commands[] = {
	{ "prices", "", "", 0, 0,
	    "compare providers per GPU; with any option list every pool, cheapest first",
	    price_opts, cmd_prices, LIST },
	{ "pools", "", "", 0, 0, "list pools with hazard, signals and the broker's own record",
	    market_opts, cmd_pools, LIST },
	{ "pools", "show", "POOL", 1, 1, "show one pool with its price history", pool_show_opts,
	    cmd_pool_show, LIST },
	{ "providers", "", "", 0, 0, "list providers with the state of their feeds", NULL,
	    cmd_providers, LIST },
	{ "doctor", "", "[PROVIDER...]", 0, CTL_ARGS_MAX,
	    "examine providers and the daemon, and suggest fixes", doctor_opts, cmd_doctor,
	    CTL_OUT },
	{ "quota", "", "", 0, 0, "list account limits as reported by the providers", quota_opts,
	    cmd_quota, LIST },
	{ "supply", "", "", 0, 0, "show how tight spot supply is, where it was tried recently",
	    supply_opts, cmd_supply, LIST },
	{ "queue", "", "", 0, 0, "list queued jobs in order with the reason", queue_opts, cmd_queue,
	    LIST },
	{ "classes", "", "", 0, 0,
	    "list workload classes: tolerance, priority, preemption, allowed GPUs", NULL,
	    cmd_classes, LIST },
	{ "gpus", "", "", 0, 0, "list GPUs with known speed, by the names that job files use", NULL,
	    cmd_gpus, LIST },
	{ "leaks", "", "", 0, 0, "list tagged resources that belong to no node, with their cost",
	    leak_opts, cmd_leaks, LIST },
	{ "leaks", "end", "REF", 1, 1, "terminate a leak now (admin)", leak_say_opts, cmd_leak_end,
	    CTL_OUT },
	{ "leaks", "keep", "REF", 1, 1, "protect a leak from the sweeper (admin)", leak_say_opts,
	    cmd_leak_keep, CTL_OUT },
	{ "shares", "", "", 0, 0, "list the teams' shares of scarce capacity, and their spending",
	    NULL, cmd_shares, LIST },
	{ "shares", "set", "TEAM WEIGHT", 2, 2,
	    "set a team's weight relative to other teams; 1 is normal; overrides the daemon's file "
	    "(admin)",
	    NULL, cmd_share_set, CTL_OUT },
	{ "shares", "unset", "TEAM", 1, 1,
	    "remove a team's override: the daemon's file counts again, or the default (admin)",
	    NULL, cmd_share_unset, CTL_OUT },
	{ "plan", "", "FILE", 1, 1, "show where a job would run and its cost; starts nothing",
	    plan_opts, cmd_plan, CTL_OUT },
	{ "backtest", "", "FILE", 1, 1,
	    "run deadline policies for a job file over recorded prices and reclaims", backtest_opts,
	    cmd_backtest, CTL_OUT },
	{ "simulate", "", "", 0, 0, "run deadline policies over recorded traces; needs no daemon",
	    simulate_opts, cmd_simulate, CTL_OUT | CTL_OFFLINE },
	{ "job", "submit", "FILE", 1, 1, "submit a job file ('-' = standard input)", submit_opts,
	    cmd_job_submit, CTL_OUT },
	{ "job", "ls", "", 0, 0, "list jobs, newest first", job_ls_opts, cmd_job_ls, LIST },
	{ "job", "show", "JOB", 1, 1, "show one job: attempts, checkpoints, cost", job_show_opts,
	    cmd_job_show, LIST },
	{ "job", "why", "JOB", 1, 1, "show every decision about a job with its inputs", NULL,
	    cmd_job_why, LIST },
	{ "job", "logs", "JOB", 1, 1, "print the log of a job", logs_opts, cmd_job_logs, 0 },
	{ "job", "cancel", "JOB...", 1, CTL_ARGS_MAX, "stop jobs and release their machines", NULL,
	    cmd_job_cancel, 0 },
	{ "job", "budget", "JOB [USD]", 1, 2, "show a job's budget; an amount, or 'none', sets it",
	    NULL, cmd_job_budget, CTL_OUT },
	{ "job", "wait", "JOB", 1, 1, "wait for a job to end; exit 0 only if it succeeded",
	    wait_opts, cmd_job_wait, CTL_OUT },
	{ "fleet", "create", "FILE", 1, 1, "create a fleet from a file ('-' = standard input)",
	    fleet_create_opts, cmd_fleet_create, CTL_OUT },
	{ "fleet", "ls", "", 0, 0, "list fleets, newest first", fleet_ls_opts, cmd_fleet_ls, LIST },
	{ "fleet", "show", "FLEET", 1, 1, "show one fleet with its nodes and plan", NULL,
	    cmd_fleet_show, LIST },
	{ "fleet", "scale", "FLEET", 1, 1, "change the wanted size of a fleet", scale_opts,
	    cmd_fleet_scale, CTL_OUT },
	{ "fleet", "set", "FLEET", 1, 1,
	    "change the range and the headroom of a fleet that follows demand", fleet_set_opts,
	    cmd_fleet_set, CTL_OUT },
	{ "fleet", "demand", "FLEET", 1, 1,
	    "ask for capacity for a limited time; without an amount show the demand", demand_opts,
	    cmd_fleet_demand, CTL_OUT },
	{ "fleet", "rm", "FLEET", 1, 1, "close a fleet and release its nodes", NULL, cmd_fleet_rm,
	    CTL_OUT },
	{ "node", "ls", "", 0, 0, "list nodes, newest first", node_ls_opts, cmd_node_ls, LIST },
	{ "node", "show", "NODE", 1, 1, "show one node: notices, attempts, events", NULL,
	    cmd_node_show, LIST },
	{ "node", "drain", "NODE", 1, 1, "checkpoint the job of a node, then release the node",
	    NULL, cmd_node_drain, CTL_OUT },
	{ "node", "rm", "NODE", 1, 1, "terminate a node after checkpointing its job", node_rm_opts,
	    cmd_node_rm, CTL_OUT },
	{ "rebalance", "", "", 0, 0, "move running jobs and fleets to save money", rebalance_opts,
	    cmd_rebalance, CTL_OUT },
	{ "rebalance", "report", "", 0, 0, "show what the moves earned, compared with staying",
	    moves_opts, cmd_rebalance_report, LIST },
	{ "report", "recovery", "", 0, 0,
	    "show by cloud how jobs recovered from reclaims, and how long each phase took",
	    moves_opts, cmd_report_recovery, LIST },
	{ "cost", "", "", 0, 0, "show spending by team, project and more", cost_opts, cmd_cost,
	    LIST },
	{ "events", "", "", 0, 0, "list events", event_opts, cmd_events, LIST },
	{ "token", "ls", "", 0, 0, "list API tokens (admin)", token_ls_opts, cmd_token_ls, LIST },
	{ "token", "create", "NAME", 1, 1, "create an API token; its value is shown once (admin)",
	    token_opts, cmd_token_create, CTL_OUT },
	{ "token", "rm", "TOKEN", 1, 1, "revoke an API token (admin)", NULL, cmd_token_rm,
	    CTL_OUT },
	{ "login", "", "URL", 1, 1,
	    "save a server and its token, which is read from standard input", NULL, cmd_login,
	    CTL_OFFLINE },
	{ "whoami", "", "", 0, 0, "show the name, role and team of the token", NULL, cmd_whoami,
	    CTL_OUT },
	{ "version", "", "", 0, 0, "show the versions of spotctl and of the server", NULL,
	    cmd_version, CTL_OUT | CTL_OFFLINE | CTL_SERVER },
	{ "completion", "", "SHELL", 1, 1, "print a completion script for bash, zsh or fish", NULL,
	    cmd_completion, CTL_OFFLINE },
	{ "help", "", "[COMMAND]", 0, 2, "show this list, or one command", NULL, cmd_help_run,
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
