/* The manual page spotctl(1) in scdoc, made from the command tree, so that it cannot say anything
 * else than --help. */
#include "base/base.h"
#include "spotctl/ctl.h"

/* scdoc(5): these begin markup. */
static void put(const char *s)
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
		put(o->arg);
	}
	printf("\n\t");
	put(o->help);
	printf("\n\n");
}

static void put_command(const struct ctl_cmd *k)
{
	printf("## %s%s%s ", k->noun, *k->verb != '\0' ? " " : "", k->verb);
	put(k->args);
	printf("\n\n");
	put(k->help);
	printf(".\n\n");
	for (const struct ctl_opt *o = k->opts; o != NULL && o->name != NULL; o++) {
		put_option(o);
	}
}

static const char head[] =
    "spotctl(1)\n\n# NAME\n\nspotctl - the command line of the Spotbroker daemon\n\n"
    "# SYNOPSIS\n\n*spotctl* COMMAND [ARGUMENTS] [OPTIONS]\n\n"
    "# DESCRIPTION\n\n"
    "Shows spot prices, plans and runs jobs on the cheapest GPU capacity, and says what it cost. "
    "It speaks to *spotd*(8) over "
    "its REST interface and keeps no state of its own but the address and the token of a server "
    "(*login*).\n\n"
    "Data go to standard output, everything else to standard error.\n\n"
    "Ids have a letter: j12 a job, n7 a node, f3 a fleet, p44 a pool, t2 a token; bare numbers do "
    "where the noun is clear.\n\n";
static const char output[] = "# OUTPUT\n\n"
			     "On a terminal lists are aligned tables; into a pipe the same columns "
			     "are separated by tabs. *-o wide* has more columns. "
			     "*-o csv* has all columns with exact values, *-o json* the reply of "
			     "the daemon ({\"items\": [...], \"next\": ...} for lists), "
			     "*-o name* one id per line. Tables show 100 rows unless *--limit* "
			     "says otherwise; json, csv and name all of them.\n\n"
			     "Money is in US dollars, times are UTC. NO\\_COLOR (not empty) or "
			     "*--no-color* gives plain text.\n\n";
static const char traces[] =
    "# TRACES\n\n"
    "*simulate* reads recorded supply: one JSON object per file, {\"metadata\": "
    "{\"gap\\_seconds\": G}, \"data\": [...]}; a value holds for G seconds. "
    "With *--trace* it is 0 or 1, or how many machines could be had; with *--price-trace* USD per "
    "hour. A name such as "
    "us-east-1a\\_v100\\_1.json gives zone and region. Several *--trace* are zones side by side: "
    "the job is in one of them at a time. They "
    "and their prices are used up to where the first of them ends. All policies begin at the same "
    "places, and a policy sees the past only; of a "
    "*--history* that is a *--trace*, too, it learns what is before the start.\n\n"
    "*-o json* is {\"policies\": {NAME: {*runs*, *mean\\_cost*, *median\\_cost*, "
    "*mean\\_cost\\_vs\\_on\\_demand*, "
    "*mean\\_cost\\_vs\\_optimal*, *deadline\\_misses*, *mean\\_changeovers*}}}, costs in USD; "
    "with *--per-run* also *per\\_run*: [{*start*, "
    "*cost*, *finish*, *changeovers*, *missed*}], times in hours.\n\n"
    "*backtest* gives the same from the daemon's own past, as it was known then: each round (a "
    "day, of long times a thirtieth) the "
    "five cheapest pools are picked by the prices at its begin; a run sees the pools of the round "
    "it begins in, and those of later rounds "
    "once these begin. On demand is paid at the price of the begin, on the cheapest machine that "
    "meets *--deadline*. A move "
    "between regions costs the dearest egress among them times *checkpoint.size\\_gb* of the file. "
    "Supply is known where we tried ourselves; "
    "elsewhere it is drawn from hazard and odds as believed now (the same *--seed*, the same "
    "supply), or taken as *--unknown* says. "
    "*-o json* has *supply\\_known* (the share of all samples), *mean\\_cost\\_if\\_unknown*: "
    "{*up*, *down*} with each policy's "
    "mean cost were all of the unknown there, or nothing of it, and *pools\\_known*, "
    "*pools\\_picked*, *pools\\_tried*, *transfer\\_usd*.\n\n";
static const char tail[] =
    "# ENVIRONMENT\n\n"
    "*SPOTCTL\\_URL*\n\tThe daemon. *--url* goes before it.\n\n"
    "*SPOTCTL\\_TOKEN\\_FILE*\n\tFile with the API token, mode 0600 or 0400. *--token-file* goes "
    "before it.\n\n"
    "*SPOTCTL\\_CA\\_FILE*\n\tCertificate authority of the daemon. *--ca-file* goes before it.\n\n"
    "*NO\\_COLOR*\n\tIf not empty: no colours.\n\n"
    "# FILES\n\n"
    "_$XDG\\_CONFIG\\_HOME/spotctl/config.ini_, or _~/.config/spotctl/config.ini_\n\tWritten by "
    "*login*: [server] with url, "
    "token\\_file and ca\\_file. The token is used for that url only.\n\n"
    "_$XDG\\_DATA\\_HOME/spotbroker/admin-token_, or _~/.local/share/spotbroker/admin-token_, "
    "root: "
    "_/var/lib/spotbroker/admin-token_\n\tLeft by *spotd --local*; used for a daemon on this "
    "machine when no other token is named.\n\n"
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
	printf("# COMMON OPTIONS\n\nThey may also stand in front of the command.\n\n");
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
