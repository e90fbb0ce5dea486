/* The command tree: help, completion, man page and did-you-mean all come from these tables. */
#include "base/base.h"
#include "spotctl/ctl.h"

#define END {0}
static const struct ctl_opt market_opts[] = {
	{"gpu", 'g', "NAME", "only this GPU, such as A100 or H100-80GB", "gpu"},
	{"provider", 'p', "NAME", "only this provider", "provider"},
	{"region", 'r', "NAME", "only this region", "region"},
	{"zone", 0, "ID", "only this zone", "zone"},
	{"type", 't', "NAME", "only this instance type", "instance_type"},
	{"market", 'm', "MARKET", "spot, on_demand or reserved", "market"},
	{"state", 0, "STATE", "fresh, stale, frozen or implausible prices", "state"},
	{"max", 0, "USD", "at most this per hour", "max_usd"},
	{"limit", 'n', "N", "at most so many (default 100)", "limit"},
	END};
static const struct ctl_opt pool_show_opts[] = {{"history", 0, "TIME", "price history, such as 7d", "history"}, END};
static const struct ctl_opt submit_opts[] = {
	{"wait", 'w', NULL, "wait for the end; the exit code is the job's fate", NULL},
	{"follow", 'f', NULL, "print its log until it ends", NULL},
	{"key", 0, "KEY", "idempotency key (default: a fresh one)", NULL}, END};
static const struct ctl_opt job_ls_opts[] = {
	{"state", 's', "LIST", "states, comma separated, or 'active'", "state"},
	{"team", 0, "NAME", "only this team", "team"},
	{"project", 0, "NAME", "only this project", "project"},
	{"class", 0, "NAME", "only this workload class", "class"},
	{"owner", 'u', "NAME", "only this owner", "owner"},
	{"name", 0, "NAME", "only this name", "name"},
	{"limit", 'n', "N", "at most so many (default 100)", "limit"}, END};
static const struct ctl_opt job_show_opts[] = {{"why", 0, NULL, "every decision with its inputs, and the events", NULL}, END};
static const struct ctl_opt logs_opts[] = {
	{"follow", 'f', NULL, "go on until the job ends", NULL},
	{"epoch", 0, "N", "only this attempt", NULL}, END};
static const struct ctl_opt wait_opts[] = {{"timeout", 0, "SECONDS", "give up after this long (exit 6)", NULL}, END};
static const struct ctl_opt scale_opts[] = {
	{"nodes", 0, "N", "wanted nodes", NULL}, {"gpus", 0, "N", "wanted GPUs", NULL}, END};
static const struct ctl_opt node_ls_opts[] = {
	{"state", 's', "LIST", "states, comma separated, or 'live' (default)", "state"},
	{"provider", 'p', "NAME", "only this provider", "provider"},
	{"job", 'j', "ID", "only nodes of this job", "job"},
	{"fleet", 0, "ID", "only nodes of this fleet", "fleet"},
	{"all", 'a', NULL, "also nodes that are gone", NULL},
	{"limit", 'n', "N", "at most so many (default 100)", "limit"}, END};
static const struct ctl_opt node_rm_opts[] = {
	{"force", 0, NULL, "do not wait for a checkpoint: unsaved work is lost", NULL}, END};
static const struct ctl_opt rebalance_opts[] = {
	{"dry-run", 0, NULL, "only say what would move and why", NULL},
	{"timeout", 0, "SECONDS", "how long to wait for the outcome (default 120)", NULL}, END};
static const struct ctl_opt cost_opts[] = {
	{"by", 'b', "LIST", "team, project, class, provider, gpu, job, market, kind (default team)", "by"},
	{"since", 0, "TIME", "from here on: a time, or a duration back such as 7d", NULL},
	{"until", 0, "TIME", "up to here", NULL},
	{"job", 'j', "ID", "one job, with its savings", NULL}, END};
static const struct ctl_opt event_opts[] = {
	{"follow", 'f', NULL, "go on as they happen", NULL},
	{"job", 'j', "ID", "only of this job", "job"},
	{"node", 0, "ID", "only of this node", "node"},
	{"after", 0, "ID", "only later than this event", "after"},
	{"limit", 'n', "N", "at most so many (default 100)", "limit"}, END};
static const struct ctl_opt token_opts[] = {
	{"role", 0, "ROLE", "admin, lead, engineer, viewer or service (default engineer)", NULL},
	{"team", 0, "NAME", "whose", NULL},
	{"expires", 0, "TIME", "such as 90d (default: never)", NULL}, END};

static const struct ctl_cmd commands[] = {
	{"prices", "", "", 0, 0, "current prices of every pool, cheapest first", market_opts, cmd_prices},
	{"pools", "", "", 0, 0, "pools with hazard, signals and our own record", market_opts, cmd_pools},
	{"pools", "show", "POOL", 1, 1, "one pool, with price history", pool_show_opts, cmd_pool_show},
	{"providers", "", "", 0, 0, "providers, their feeds and how they are doing", NULL, cmd_providers},
	{"quota", "", "", 0, 0, "account limits as the providers report them", NULL, cmd_quota},
	{"plan", "", "FILE", 1, 1, "where a job would run and what it would cost; starts nothing", NULL, cmd_plan},
	{"job", "submit", "FILE", 1, 1, "submit a job file ('-' = standard input)", submit_opts, cmd_job_submit},
	{"job", "ls", "", 0, 0, "jobs, newest first", job_ls_opts, cmd_job_ls},
	{"job", "show", "JOB", 1, 1, "one job: attempts, checkpoints, cost", job_show_opts, cmd_job_show},
	{"job", "why", "JOB", 1, 1, "every decision about a job, with its inputs", NULL, cmd_job_why},
	{"job", "logs", "JOB", 1, 1, "what the job printed", logs_opts, cmd_job_logs},
	{"job", "cancel", "JOB", 1, 8, "stop jobs and give their capacity back", NULL, cmd_job_cancel},
	{"job", "wait", "JOB", 1, 1, "wait for the end; exit 0 only if it succeeded", wait_opts, cmd_job_wait},
	{"fleet", "create", "FILE", 1, 1, "create a fleet from a file ('-' = standard input)", NULL, cmd_fleet_create},
	{"fleet", "ls", "", 0, 0, "fleets", NULL, cmd_fleet_ls},
	{"fleet", "show", "FLEET", 1, 1, "one fleet and its nodes", NULL, cmd_fleet_show},
	{"fleet", "scale", "FLEET", 1, 1, "change how much it wants", scale_opts, cmd_fleet_scale},
	{"fleet", "rm", "FLEET", 1, 1, "give all of it back", NULL, cmd_fleet_rm},
	{"node", "ls", "", 0, 0, "nodes", node_ls_opts, cmd_node_ls},
	{"node", "show", "NODE", 1, 1, "one node: notices, samples, events", NULL, cmd_node_show},
	{"node", "drain", "NODE", 1, 1, "checkpoint what runs there, then give it back", NULL, cmd_node_drain},
	{"node", "rm", "NODE", 1, 1, "terminate it", node_rm_opts, cmd_node_rm},
	{"rebalance", "", "", 0, 0, "move running jobs where that pays", rebalance_opts, cmd_rebalance},
	{"cost", "", "", 0, 0, "what was spent, by whom, on what", cost_opts, cmd_cost},
	{"events", "", "", 0, 0, "what happened", event_opts, cmd_events},
	{"token", "ls", "", 0, 0, "API tokens (admin)", NULL, cmd_token_ls},
	{"token", "create", "NAME", 1, 1, "a new API token, shown once (admin)", token_opts, cmd_token_create},
	{"token", "rm", "ID", 1, 1, "revoke an API token (admin)", NULL, cmd_token_rm},
	{"login", "", "URL", 1, 1, "remember a server; the token is read from standard input", NULL, cmd_login},
	{"whoami", "", "", 0, 0, "the token's name, role and team", NULL, cmd_whoami},
	{"version", "", "", 0, 0, "versions of this program and of the server", NULL, cmd_version},
	{"completion", "", "SHELL", 1, 1, "completion script for bash, zsh or fish", NULL, cmd_completion},
	{"help", "", "[COMMAND]", 0, 2, "this list, or one command", NULL, cmd_help_run},
};

const struct ctl_cmd *tree_find(const char *noun, const char *verb, bool *ret_noun_known)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i].noun, noun) == 0) {
			*ret_noun_known = true;
			if (strcmp(commands[i].verb, verb) == 0) {
				return &commands[i];
			}
		}
	}
	return NULL;
}

void tree_help(FILE *to, const char *noun)
{
	fprintf(to, "usage: spotctl COMMAND [ARGUMENTS] [-o table|wide|json|csv|name] [--watch]\n\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		const struct ctl_cmd *k = &commands[i];
		char left[64];

		if (noun != NULL && strcmp(noun, k->noun) != 0) {
			continue;
		}
		snprintf(left, sizeof(left), "%s%s%s %s", k->noun, *k->verb != '\0' ? " " : "", k->verb, k->args);
		fprintf(to, "  %-22s %s\n", left, k->help);
	}
	fprintf(to, "\n'spotctl COMMAND --help' tells the options. Server: --url, SPOTCTL_URL or 'spotctl login URL'.\n");
}

static void opts_help(FILE *to, const struct ctl_opt *o)
{
	for (; o != NULL && o->name != NULL; o++) {
		char left[64], letter[8] = "    ";

		if (o->letter != 0) {
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		}
		snprintf(left, sizeof(left), "%s--%s %s", letter, o->name, o->arg != NULL ? o->arg : "");
		fprintf(to, "  %-24s %s\n", left, o->help);
	}
}

void cmd_help(FILE *to, const struct ctl_cmd *k)
{
	fprintf(to, "usage: spotctl %s%s%s %s\n\n%s\n\n", k->noun, *k->verb != '\0' ? " " : "", k->verb, k->args, k->help);
	opts_help(to, k->opts);
	opts_help(to, common_opts);
	fprintf(to, "\nexit: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict, 5 not allowed, 6 unreachable or timed out,\n"
	            "      7 no capacity, 8 partly done, 130 interrupted\n");
}

int cmd_help_run(struct ctl *c)
{
	bool known = false;
	const struct ctl_cmd *k;

	if (c->args_n == 0) {
		tree_help(stdout, NULL);
		return CTL_OK;
	}
	k = tree_find(c->args[0], c->args_n > 1 ? c->args[1] : "", &known);
	if (k != NULL) {
		cmd_help(stdout, k);
		return CTL_OK;
	}
	if (!known) {
		say("spotctl: no command '%s'", c->args[0]);
		return CTL_USAGE;
	}
	tree_help(stdout, c->args[0]);
	return CTL_OK;
}

/* Edit distance, small words only. */
static int distance(const char *a, const char *b)
{
	int row[32], n = (int)strlen(b);

	if (n >= (int)ARRAY_LEN(row)) {
		return 99;
	}
	for (int j = 0; j <= n; j++) {
		row[j] = j;
	}
	for (int i = 1; a[i - 1] != '\0'; i++) {
		int diagonal = row[0];

		row[0] = i;
		for (int j = 1; j <= n; j++) {
			int keep = row[j];

			row[j] = MIN(MIN(row[j] + 1, row[j - 1] + 1), diagonal + (a[i - 1] != b[j - 1]));
			diagonal = keep;
		}
	}
	return row[n];
}

const char *tree_suggest(const char *word)
{
	const char *best = NULL;
	int least = 3;

	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		int d = distance(word, commands[i].noun);

		if (d < least) {
			least = d;
			best = commands[i].noun;
		}
	}
	return best;
}

static void complete_bash(void)
{
	const char *last = "";

	printf("_spotctl() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} words=\n\tcase $COMP_CWORD in\n\t1) words=\"");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(last, commands[i].noun) != 0) {
			printf("%s ", commands[i].noun);
		}
		last = commands[i].noun;
	}
	printf("\" ;;\n\t2) case ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (*commands[i].verb != '\0' && (i == 0 || strcmp(commands[i - 1].noun, commands[i].noun) != 0 ||
		    *commands[i - 1].verb == '\0')) {
			printf("\t   %s) words=\"", commands[i].noun);
			for (size_t j = i; j < ARRAY_LEN(commands) && strcmp(commands[j].noun, commands[i].noun) == 0; j++) {
				printf("%s ", commands[j].verb);
			}
			printf("\" ;;\n");
		}
	}
	printf("\t   esac ;;\n\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	       "\t[ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- \"$cur\"))\n}\ncomplete -F _spotctl spotctl\n");
}

int cmd_completion(struct ctl *c)
{
	if (strcmp(c->args[0], "bash") == 0) {
		complete_bash();
		return CTL_OK;
	}
	if (strcmp(c->args[0], "zsh") == 0) {
		printf("autoload -U +X bashcompinit && bashcompinit\n");
		complete_bash();
		return CTL_OK;
	}
	if (strcmp(c->args[0], "fish") == 0) {
		for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
			const struct ctl_cmd *k = &commands[i];

			if (*k->verb == '\0') {
				printf("complete -c spotctl -n __fish_use_subcommand -a %s -d '%s'\n", k->noun, k->help);
			} else {
				printf("complete -c spotctl -n '__fish_seen_subcommand_from %s' -a %s -d \"%s\"\n", k->noun, k->verb, k->help);
			}
		}
		return CTL_OK;
	}
	say("spotctl completion: bash, zsh or fish");
	return CTL_USAGE;
}
