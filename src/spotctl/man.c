/* The manual page spotctl(1) in scdoc, generated from the command tree, so that it agrees with
 * --help. */
#include "base/base.h"
#include "spotctl/ctl.h"

/* scdoc(5): these begin markup. */
static void man_put(const char *s)
{
	for (; *s != '\0'; s++) {
		if (strchr("*_\\#~`", *s) != NULL) {
			putchar('\\');
		}
		putchar(*s);
	}
}

static void put_option(const struct ctl_opt *o)
{
	if (o->letter != 0) {
		printf("*-%c*, ", o->letter);
	}
	printf("*--%s*", o->name);
	if (o->arg != NULL) {
		printf(" ");
		man_put(o->arg);
	}
	printf("\n\t");
	man_put(o->help);
	printf("\n\n");
}

static void put_command(const struct ctl_cmd *k)
{
	printf("## %s%s%s ", k->noun, *k->verb != '\0' ? " " : "", k->verb);
	man_put(k->args);
	printf("\n\n");
	man_put(k->help);
	printf(".\n\n");
	for (const struct ctl_opt *o = k->opts; o != NULL && o->name != NULL; o++) {
		put_option(o);
	}
}

static const char head[] =
    "spotctl(1)\n\n# NAME\n\nspotctl - the command line of the Spotbroker daemon\n\n"
    "# SYNOPSIS\n\n*spotctl* COMMAND [ARGUMENTS] [OPTIONS]\n\n"
    "# DESCRIPTION\n\n"
    "spotctl shows spot prices, plans and runs jobs on the cheapest GPU capacity, and reports "
    "their cost. "
    "It uses the REST interface of *spotd*(8). It stores only the address and the token of a "
    "server (*login*).\n\n"
    "Data go to standard output, everything else to standard error.\n\n"
    "Ids begin with a letter: j12 is a job, n7 a node, f3 a fleet, p44 a pool, t2 a token. A bare "
    "number works if the kind is clear.\n\n";
static const char output[] = "# OUTPUT\n\n"
			     "On a terminal, lists are aligned tables; in a pipe, tabs separate "
			     "the same columns. A table wider than the terminal leaves out "
			     "its less important columns. *-o wide* has all of them. "
			     "*-o csv* has all columns with exact values. *-o json* is the reply "
			     "of the daemon ({\"items\": [...], \"next\": ...} for lists). "
			     "*-o name* prints one id per line. Tables show 100 rows unless "
			     "*--limit* says otherwise; json, csv and name show all rows.\n\n"
			     "Money is in US dollars, times are UTC. *--no-color* or a non-empty "
			     "NO\\_COLOR gives plain text.\n\n";
static const char traces[] =
    "# TRACES\n\n"
    "*simulate* reads recorded supply, one JSON object per file: {\"metadata\": "
    "{\"gap\\_seconds\": G}, \"data\": [...]}. "
    "Each value holds for G seconds. In a *--trace* the values are 0 and 1, or the number of "
    "available machines. "
    "In a *--price-trace* they are USD per hour. A file name such as us-east-1a\\_v100\\_1.json "
    "names zone and region.\n\n"
    "Several *--trace* are zones side by side; the job is in one of them at a time. Data after the "
    "end of the shortest trace are not used. "
    "All policies start at the same places, and a policy sees only the past. From a *--history* "
    "that is also a *--trace*, "
    "a policy learns only the part before the start.\n\n"
    "*-o json* is {\"policies\": {NAME: {*runs*, *mean\\_cost*, *median\\_cost*, "
    "*mean\\_cost\\_vs\\_on\\_demand*, "
    "*mean\\_cost\\_vs\\_optimal*, *deadline\\_misses*, *mean\\_changeovers*}}}, with costs in "
    "USD. "
    "*--per-run* adds *per\\_run*: [{*start*, *cost*, *finish*, *changeovers*, *missed*}], with "
    "times in hours.\n\n"
    "*backtest* does the same with the daemon's own records, as they were known at the time. A "
    "round is a day, or a thirtieth of a long span. "
    "At the start of each round, the five cheapest pools are picked by their prices. A run sees "
    "the pools of the round in which it starts, "
    "and those of later rounds once they begin. On-demand is paid at the price of the start, on "
    "the cheapest machine that meets *--deadline*. "
    "A move between regions costs the highest egress among them times *checkpoint.size\\_gb* of "
    "the file.\n\n"
    "Supply is known if the broker tried the pool at that time. Unknown supply is drawn from the "
    "current hazard and launch odds "
    "(the same *--seed* gives the same supply), or set by *--unknown*. *-o json* has "
    "*supply\\_known* (the share of known samples), "
    "*mean\\_cost\\_if\\_unknown*: {*up*, *down*} (the mean cost of each policy if all unknown "
    "supply were up or down), "
    "*pools\\_known*, *pools\\_picked*, *pools\\_tried* and *transfer\\_usd*.\n\n";
static const char tail[] =
    "# ENVIRONMENT\n\n"
    "*SPOTCTL\\_URL*\n\tAddress of the daemon. *--url* overrides it.\n\n"
    "*SPOTCTL\\_TOKEN\\_FILE*\n\tFile with the API token, mode 0600 or 0400. *--token-file* "
    "overrides it.\n\n"
    "*SPOTCTL\\_CA\\_FILE*\n\tCertificate authority of the daemon. *--ca-file* overrides it.\n\n"
    "*NO\\_COLOR*\n\tA non-empty value turns colours off.\n\n"
    "# FILES\n\n"
    "_$XDG\\_CONFIG\\_HOME/spotctl/config.ini_, or _~/.config/spotctl/config.ini_\n\tWritten by "
    "*login*: [server] with url, token\\_file and ca\\_file. spotctl sends this token only to this "
    "url.\n\n"
    "_$XDG\\_DATA\\_HOME/spotbroker/admin-token_, or _~/.local/share/spotbroker/admin-token_, "
    "root: "
    "_/var/lib/spotbroker/admin-token_\n\tWritten by *spotd --local*. spotctl uses it for a daemon "
    "on this machine if no other token is named.\n\n"
    "# EXAMPLES\n\n"
    "\tspotctl prices --gpu A100 --market spot\n\n"
    "\tspotctl plan train.yaml -o wide\n\n"
    "\tspotctl job submit train.yaml --follow\n\n"
    "\tspotctl job ls --state active --watch\n\n"
    "\tspotctl backtest train.yaml --from 14d --deadline 30\n\n"
    "\tspotctl simulate --trace us-east-1a\\_v100\\_1.json --work 48 --deadline 60 --spot-price "
    "0.9731 --on-demand-price 3.06 -o json\n\n"
    "\tspotctl rebalance --dry-run\n\n"
    "\tspotctl rebalance report --since 30d\n\n"
    "\tspotctl cost --by team,project --since 30d -o csv\n\n"
    "\tspotctl events -f --job j12\n\n"
    "# SEE ALSO\n\n*spotd*(8), *spotbroker-job*(5)\n";

int cmd_man(struct ctl *c)
{
	(void)c;
	fputs(head, stdout);
	printf("# COMMANDS\n\n");
	for (const struct ctl_cmd *k = ctl_commands; k->noun != NULL; k++) {
		if (k->help != NULL) {
			put_command(k);
		}
	}
	printf("# COMMON OPTIONS\n\nThey may also precede the command.\n\n");
	for (const struct ctl_opt *o = common_opts; o->name != NULL; o++) {
		put_option(o);
	}
	fputs(output, stdout);
	fputs(traces, stdout);
	printf("# EXIT STATUS\n\n");
	for (int i = 0; exit_words[i][0] != NULL; i++) {
		printf("*%s*\n\t%s\n\n", exit_words[i][0], exit_words[i][1]);
	}
	fputs(tail, stdout);
	return CTL_OK;
}
