/* Help texts, made from the command tree. */
#include "base/base.h"
#include "spotctl/ctl.h"

const char *const exit_words[][2] = { { "0", "ok" }, { "1", "failed" }, { "2", "usage" },
	{ "3", "not found" }, { "4", "conflict" }, { "5", "not allowed" },
	{ "6", "unreachable or timed out" }, { "7", "no capacity, quota or budget" },
	{ "8", "partly done" }, { "130", "interrupted" }, { NULL, NULL } };

void tree_help(FILE *to, const char *noun)
{
	fprintf(to,
	    "usage: spotctl COMMAND [ARGUMENTS] [-o table|wide|json|csv|name] [--watch]\n\n");
	for (const struct ctl_cmd *k = ctl_commands; k->noun != NULL; k++) {
		char left[64];

		if (k->help == NULL || (noun != NULL && strcmp(noun, k->noun) != 0)) {
			continue;
		}
		snprintf(left, sizeof(left), "%s%s%s %s", k->noun, *k->verb != '\0' ? " " : "",
		    k->verb, k->args);
		fprintf(to, "  %-22s %s\n", left, k->help);
	}
	fprintf(to,
	    "\n'spotctl COMMAND --help' lists the options. Server: --url, SPOTCTL_URL or 'spotctl "
	    "login URL'.\n");
}

/* k: only those common options that apply to it; NULL: all. */
static void opts_help(FILE *to, const struct ctl_opt *o, const struct ctl_cmd *k)
{
	for (; o != NULL && o->name != NULL; o++) {
		char left[64], letter[8] = "    ";

		if (k != NULL && !opt_applies(k, o)) {
			continue;
		}
		if (o->letter != 0) {
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		}
		snprintf(left, sizeof(left), "%s--%s %s", letter, o->name,
		    o->arg != NULL ? o->arg : "");
		fprintf(to, "  %-24s %s\n", left, o->help);
	}
}

/* Of a noun that does something alone: what else it does. */
static void verbs_help(FILE *to, const struct ctl_cmd *alone)
{
	for (const struct ctl_cmd *k = ctl_commands; *alone->verb == '\0' && k->noun != NULL; k++) {
		if (strcmp(k->noun, alone->noun) == 0 && *k->verb != '\0' && k->help != NULL) {
			fprintf(to, "       spotctl %s %s%s%s: %s\n", k->noun, k->verb,
			    *k->args != '\0' ? " " : "", k->args, k->help);
		}
	}
}

void cmd_help(FILE *to, const struct ctl_cmd *k)
{
	fprintf(to, "usage: spotctl %s%s%s%s%s\n", k->noun, *k->verb != '\0' ? " " : "", k->verb,
	    *k->args != '\0' ? " " : "", k->args);
	verbs_help(to, k);
	fprintf(to, "\n%s\n\n", k->help != NULL ? k->help : "");
	opts_help(to, k->opts, NULL);
	opts_help(to, common_opts, k);
	fprintf(to, "\nexit:");
	for (int i = 0; exit_words[i][0] != NULL; i++) {
		fprintf(to, "%s%s %s",
		    i == 0       ? " "
			: i == 6 ? ",\n      "
				 : ", ",
		    exit_words[i][0], exit_words[i][1]);
	}
	fputc('\n', to);
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
	if (c->args_n > 1) {
		say("spotctl %s: no action '%s'", c->args[0], c->args[1]);
	}
	tree_help(c->args_n > 1 ? stderr : stdout, c->args[0]);
	return c->args_n > 1 ? CTL_USAGE : CTL_OK;
}
