#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/world/mix.h"
#include "sim/run/options.h"
#include "sim/world/profiles.h"

#include <getopt.h>

const char options_usage[] =
    "usage: sim SEED [--minutes M] [--faults MIX] [--clouds LIST] [--trace]\n"
    "       sim --seeds FROM-TO [--jobs N] [--minutes M] [--faults MIX] [--clouds LIST] [--seconds "
    "S] [--stop] [--prove]\n"
    "  MIX: none, light, heavy, clocks, or NAME=PPM,NAME=PPM,... (names: FAULT_LIST in "
    "tests/sim/world/world.h)\n"
    "  LIST: of aws, lambda, gcp, azure, coreweave; without it two or three of them by the seed\n"
    "  M: 20, in a small world (most seeds from 100,001 on) by the seed.\n"
    "  --stop: at the first seed that fails. Without it a failing seed is run again with less and "
    "less.\n"
    "  --seconds: no seed begins after so many seconds.\n"
    "  --trap NAME: alone, springs one trap (traps.c; \"list\": their names); else what the first "
    "seed does at its calm: rule, abort, spin.\n"
    "  --profile NAME,...: what only some seeds have, besides what this seed has; --profiles lists "
    "them.\n"
    "  --states: alone, lists the states and faults that a batch counts (reach.c).\n"
    "  --prove: at its end each seed breaks each rule on purpose (breaks.c); what was noticed is "
    "counted as \"proven\".\n";

static const struct option longs[] = { { "seeds", 1, NULL, 's' }, { "jobs", 1, NULL, 'j' },
	{ "minutes", 1, NULL, 'm' }, { "faults", 1, NULL, 'f' }, { "trace", 0, NULL, 't' },
	{ "stop", 0, NULL, 'x' }, { "prove", 0, NULL, 'p' }, { "seconds", 1, NULL, 'l' },
	{ "clouds", 1, NULL, 'c' }, { "trap", 1, NULL, 'r' }, { "states", 0, NULL, 'S' },
	{ "profile", 1, NULL, 'P' }, { "profiles", 0, NULL, 'L' }, { NULL, 0, NULL, 0 } };

/* Returns the flag of an option without a value; NULL: it is no such option. */
static bool *flag_of(struct options *o, int option)
{
	switch (option) {
	case 't':
		return &o->trace;
	case 'x':
		return &o->stop;
	case 'p':
		return &o->prove;
	case 'S':
		return &o->states;
	case 'L':
		return &o->profiles;
	default:
		return NULL;
	}
}

static bool value_set(struct options *o, int option, const char *value)
{
	char *end;

	switch (option) {
	case 's':
		o->from = strtoull(value, &end, 10);
		o->to = *end == '-' ? strtoull(end + 1, NULL, 10) : o->from;
		return true;
	case 'j':
		o->jobs = (int)MIN(strtol(value, NULL, 10), (long)JOBS_MAX);
		return true;
	case 'm':
		o->minutes = strtoll(value, NULL, 10);
		return true;
	case 'f':
		o->mix = value;
		return true;
	case 'c':
		o->clouds = value;
		return true;
	case 'r':
		o->trap = value;
		return true;
	case 'l':
		o->seconds = strtod(value, NULL);
		return true;
	case 'P':
		return profiles_choose(value);
	default:
		return false;
	}
}

bool options_read(struct options *o, int argc, char **argv)
{
	struct faults_mix m;
	int c;

	*o = (struct options){ .jobs = 2 };
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		bool *flag = flag_of(o, c);

		if (flag != NULL) {
			*flag = true;
		} else if (!value_set(o, c, optarg)) {
			return false;
		}
	}
	if (optind < argc) {
		o->from = o->to = strtoull(argv[optind++], NULL, 10);
	}
	return optind == argc && o->jobs > 0 && o->minutes >= 0 &&
	    (o->mix == NULL || mix_parse(o->mix, &m)) &&
	    (o->clouds == NULL || clouds_choose(o->clouds));
}
