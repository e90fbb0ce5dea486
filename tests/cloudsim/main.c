/* cloudsim: options, signals, the end. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

#include <getopt.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
    "usage: cloudsim --dir DIR [options]\n"
    "  --dir DIR            state: cloudsim.json when ready, instances/, s3/\n"
    "  --port N             clouds' port (0 = pick one)\n"
    "  --control-port N     control API's port\n"
    "  --imds-port N        metadata services below /<instance-id>/\n"
    "  --data DIR           market data (default: as built)\n"
    "  --agents             instances run their user data as local processes\n"
    "  --seed N             repeatable ids and chances (0 = real randomness)\n"
    "  --time-scale X       replay of prices and supply runs X times faster\n"
    "  --supply SET         open (default), or a set of aws_supply.csv\n"
    "  --supply-unit N      instances that the 1 of a 0/1 trace stands for (4)\n"
    "  --market FILE        control requests to apply at start (repeatable)\n"
    "  --lag-ms N           new instances are invisible to lists that long (0)\n"
    "  --boot-ms N          launch to running (300)\n"
    "  --terminate-ms N     shutting-down to terminated (300)\n"
    "  --notice-ms N        notice of a reclaim by replay (120000)\n"
    "  --quota-vcpus N      applied quota of every class (100000)\n"
    "  --no-throttle        rate limits off\n"
    "  --control-doc        print the control API as Markdown, and exit\n";

enum {
	OPT_DIR = 256,
	OPT_PORT,
	OPT_CONTROL,
	OPT_IMDS,
	OPT_DATA,
	OPT_AGENTS,
	OPT_SEED,
	OPT_SCALE,
	OPT_SUPPLY,
	OPT_UNIT,
	OPT_MARKET,
	OPT_LAG,
	OPT_BOOT,
	OPT_TERMINATE,
	OPT_NOTICE,
	OPT_QUOTA,
	OPT_NO_THROTTLE,
	OPT_CONTROL_DOC,
	OPT_HELP
};

static const struct option options[] = {
	{ "dir", 1, NULL, OPT_DIR },
	{ "port", 1, NULL, OPT_PORT },
	{ "control-port", 1, NULL, OPT_CONTROL },
	{ "imds-port", 1, NULL, OPT_IMDS },
	{ "data", 1, NULL, OPT_DATA },
	{ "agents", 0, NULL, OPT_AGENTS },
	{ "seed", 1, NULL, OPT_SEED },
	{ "time-scale", 1, NULL, OPT_SCALE },
	{ "supply", 1, NULL, OPT_SUPPLY },
	{ "supply-unit", 1, NULL, OPT_UNIT },
	{ "market", 1, NULL, OPT_MARKET },
	{ "lag-ms", 1, NULL, OPT_LAG },
	{ "boot-ms", 1, NULL, OPT_BOOT },
	{ "terminate-ms", 1, NULL, OPT_TERMINATE },
	{ "notice-ms", 1, NULL, OPT_NOTICE },
	{ "quota-vcpus", 1, NULL, OPT_QUOTA },
	{ "no-throttle", 0, NULL, OPT_NO_THROTTLE },
	{ "control-doc", 0, NULL, OPT_CONTROL_DOC },
	{ "help", 0, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static bool number_read(const char *text, int64_t min, int64_t max, int64_t *ret)
{
	if (parse_i64(text, min, max, ret)) {
		return true;
	}
	fprintf(stderr, "cloudsim: '%s' is not a number from %" PRId64 " to %" PRId64 "\n", text,
	    min, max);
	return false;
}

static bool option_number(struct sim_conf *c, int opt, const char *text)
{
	int64_t v;

	if (!number_read(text, 0, INT64_C(1000000000000), &v)) {
		return false;
	}
	switch (opt) {
	case OPT_PORT:
		c->port = (int)v;
		return v < 65536;
	case OPT_CONTROL:
		c->control_port = (int)v;
		return v < 65536;
	case OPT_IMDS:
		c->imds_port = (int)v;
		return v < 65536;
	case OPT_SEED:
		c->seed = (uint64_t)v;
		return true;
	case OPT_UNIT:
		c->supply_unit = v;
		return true;
	case OPT_LAG:
		c->lag_us = v * 1000;
		return true;
	case OPT_BOOT:
		c->boot_us = v * 1000;
		return true;
	case OPT_TERMINATE:
		c->terminate_us = v * 1000;
		return true;
	case OPT_NOTICE:
		c->notice_us = v * 1000;
		return true;
	case OPT_QUOTA:
		c->quota_vcpus = v;
		return true;
	default:
		return false;
	}
}

static bool option_set(struct sim_conf *c, int opt, const char *text)
{
	switch (opt) {
	case OPT_DIR:
		c->dir = text;
		return true;
	case OPT_DATA:
		c->data_dir = text;
		return true;
	case OPT_AGENTS:
		c->agents = true;
		return true;
	case OPT_NO_THROTTLE:
		c->throttle = false;
		return true;
	case OPT_SUPPLY:
		c->supply = text;
		return true;
	case OPT_SCALE:
		return parse_f64(text, 0, 1e9, &c->scale);
	case OPT_MARKET:
		c->markets = realloc(c->markets, (c->markets_n + 1) * sizeof(*c->markets));
		if (!c->markets) {
			abort();
		}
		c->markets[c->markets_n++] = text;
		return true;
	default:
		return option_number(c, opt, text);
	}
}

static bool read_options(struct sim_conf *c, int argc, char **argv)
{
	int opt;

	*c = sim_conf_default();
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == OPT_HELP) {
			fputs(usage, stdout);
			exit(0);
		}
		if (opt == OPT_CONTROL_DOC) {
			control_print(stdout);
			exit(0);
		}
		if (opt == '?' || !option_set(c, opt, optarg)) {
			fputs(usage, stderr);
			return false;
		}
	}
	if (c->dir && optind == argc) {
		return true;
	}
	fputs(usage, stderr);
	return false;
}

static void leave_when_empty(struct loop_hook *h);
static struct sim *the_sim; /* for the hook alone: one per process */

/* Leave when no instance's program runs any more. */
static void leave_when_empty(struct loop_hook *h)
{
	(void)h;
	if (!the_sim->quitting) {
		return;
	}
	for (const struct inst *i = the_sim->insts; i; i = i->next) {
		if (i->pid) {
			return;
		}
	}
	if (!clouds_busy(the_sim)) {
		loop_quit(the_sim->loop);
	}
}

static void signal_handle(struct loop_signal *sg)
{
	(void)sg;
	sim_quit(the_sim);
}

int main(int argc, char **argv)
{
	static struct sim s;
	static struct loop_signal term, intr;
	static struct loop_hook leave = { .decide = leave_when_empty };
	struct spot_err err = { 0 };
	int rc = 0;

	if (argc > 1 && str_same(argv[1], "instance-init")) {
		return agent_init_main(argc, argv);
	}
	if (argc > 1 && str_same(argv[1], "pod-init")) {
		return pod_init_main(argc, argv);
	}
	if (!read_options(&s.conf, argc, argv)) {
		return 2;
	}
	umask(077);
	log_init(&(struct log_conf){ .fd = 2,
	    .level = LOG_INFO,
	    .program = "cloudsim",
	    .clock = &clock_real });
	if (s.conf.seed) {
		rng_seeded_init(&s.rng, s.conf.seed);
	} else {
		rng_real_init(&s.rng);
	}
	s.loop = loop_new(&clock_real, &s.rng);
	s.start_us = loop_wall_us(s.loop);
	the_sim = &s;
	loop_signal_start(&term, s.loop, SIGTERM, signal_handle);
	loop_signal_start(&intr, s.loop, SIGINT, signal_handle);
	loop_hook_add(s.loop, &leave);
	if (sim_open(&s, &err)) {
		log_info("cloudsim.ready", I64("port", httpd_port(s.http)),
		    I64("control_port", httpd_port(s.control_http)));
		loop_run(s.loop);
	} else {
		log_error("cloudsim.start_failed", STR("error", err.text));
		rc = 1;
	}
	loop_signal_stop(&term);
	loop_signal_stop(&intr);
	sim_close(&s);
	loop_free(s.loop);
	return rc;
}
