#include "sim/world/world.h"
#include "sim/world/profiles.h"

#include <stdio.h>

/* Of each `every` seeds those with a remainder from `first` to `last`; every 0: none. */
struct seeds {
	uint64_t every, first, last;
};

static const struct {
	const char *name, *words;
	struct seeds seeds, or_seeds;
	struct seeds small; /* small worlds besides */
	bool full_only; /* small worlds have it by `small` alone */
} profiles[] = {
	[PROFILE_CALM] = { "calm", "No fault is injected.", .seeds = { 10, 0, 0 } },
	[PROFILE_CLOCKS] = { "clocks", "Clocks are wrong and nothing else is.",
	    .seeds = { 10, 5, 5 } },
	[PROFILE_LIGHT] = { "light", "All common faults, rarely.", .seeds = { 2, 0, 0 } },
	[PROFILE_HEAVY] = { "heavy", "All common faults, often.", .seeds = { 2, 1, 1 } },
	[PROFILE_HALTED] = { "halted", "Somebody stops machines.", .seeds = { 8, 5, 5 } },
	[PROFILE_FRONTED] = { "fronted",
	    "A gateway answers in front of Google, or a zone of it is out of reach.",
	    .seeds = { 16, 11, 11 } },
	[PROFILE_PRETENDED] = { "pretended",
	    "Clouds acknowledge what they do not do, price feeds freeze, clouds are unreachable, "
	    "and agents crash.",
	    .seeds = { 16, 9, 9 } },
	[PROFILE_REFUSED_STORE] = { "refused-store", "Object stores refuse requests of agents.",
	    .seeds = { 16, 7, 7 } },
	[PROFILE_CLOCK_BOOT] = { "clock-boot",
	    "A daemon's clock often jumps ahead while a machine boots.", .seeds = { 128, 87, 87 } },
	[PROFILE_PLANNED] = { "planned", "EC2 plans ends and restarts of machines.",
	    .seeds = { 64, 29, 29 } },
	[PROFILE_DEAR_GANGS] = { "dear-gangs",
	    "All jobs are gangs with budgets, and become dear while they gather.",
	    .seeds = { 64, 55, 55 } },
	[PROFILE_LATE_CLOCK] = { "late-clock",
	    "A daemon whose clock jumps dies, too, and begins with that clock.",
	    .seeds = { 16, 7, 7 }, .small = { 1, 0, 0 } },
	[PROFILE_ASKING] = { "asking", "People run the doctor and end leaks.",
	    .seeds = { 16, 9, 9 }, .small = { 1, 0, 0 } },
	[PROFILE_SMALL_BUDGETS] = { "small-budgets",
	    "Half of the gangs with a budget have hardly more than spot costs.",
	    .seeds = { 16, 7, 7 }, .small = { 1, 0, 0 } },
	[PROFILE_TIMED] = { "timed", "Most jobs have a max_duration.", .seeds = { 16, 12, 12 },
	    .or_seeds = { 16, 15, 15 } },
	[PROFILE_LONG_JOBS] = { "long-jobs", "Jobs have three times as many steps.",
	    .seeds = { 32, 31, 31 } },
	[PROFILE_TWO_FILES] = { "two-files", "Programs save two files instead of one.",
	    .seeds = { 16, 10, 10 }, .small = { 4, 0, 0 }, .full_only = true },
	[PROFILE_ONE_RANK_SAVES] = { "one-rank-saves", "The first rank of a gang saves for all.",
	    .seeds = { 3, 1, 1 } },
	[PROFILE_DISPOSED] = { "disposed",
	    "The calm lasts until all abandoned checkpoints are disposed of.",
	    .seeds = { 16, 7, 7 }, .small = { 4, 0, 0 } },
	[PROFILE_SHORT_ORPHANS] = { "short-orphans",
	    "An agent without a daemon ends its job after 70 s instead of 15 minutes.",
	    .seeds = { 2, 0, 0 } },
	[PROFILE_STICKY] = { "sticky", "Each client keeps to one of two daemons for 15 minutes.",
	    .seeds = { 20, 0, 9 } },
	[PROFILE_RESTORED] = { "restored",
	    "The account has machines with our mark that no row ever knew.", .seeds = { 3, 1, 1 } },
	[PROFILE_GHOST_AT_AWS] = { "ghost-at-aws", "Those machines are at AWS, not at Lambda.",
	    .seeds = { 6, 0, 2 } },
	[PROFILE_ELASTIC] = { "elastic", "Gangs wait for another machine of a lost rank.",
	    .seeds = { 4, 3, 3 }, .or_seeds = { 64, 46, 46 }, .small = { 2, 0, 0 } },
	[PROFILE_PROBED] = { "probed",
	    "Statements of the engine are tried again, and under a lost lease; nothing may change.",
	    .seeds = { 8, 1, 1 } },
	[PROFILE_LARGE_CREWS] = { "large-crews",
	    "There is a fleet of five to nine nodes, which come in sets.", .seeds = { 8, 3, 3 } },
	[PROFILE_MOVING_FLEETS] = { "moving-fleets",
	    "Spot and its prices come and go, and three fleets follow them, a demand and a clock.",
	    .seeds = { 16, 15, 15 }, .full_only = true },
	[PROFILE_DEAD_BOOTS] = { "dead-boots",
	    "Machines that are launched while a gang waits for one never boot.",
	    .seeds = { 64, 46, 46 } },
};

static uint64_t chosen; /* a bit for each */

static bool seeds_have(struct seeds s, uint64_t seed)
{
	return s.every != 0 && seed % s.every >= s.first && seed % s.every <= s.last;
}

bool profile_of_seed(enum profile p, uint64_t seed, bool small)
{
	if ((chosen >> p & 1) != 0 || (small && seeds_have(profiles[p].small, seed))) {
		return true;
	}
	return !(small && profiles[p].full_only) &&
	    (seeds_have(profiles[p].seeds, seed) || seeds_have(profiles[p].or_seeds, seed));
}

bool profile_is(enum profile p)
{
	return profile_of_seed(p, world.conf.seed, world.conf.small);
}

bool profiles_choose(const char *names)
{
	while (*names != '\0') {
		size_t n = strcspn(names, ","), p = 0;

		while (p < ARRAY_LEN(profiles) &&
		    (strlen(profiles[p].name) != n || memcmp(profiles[p].name, names, n) != 0)) {
			p++;
		}
		if (p == ARRAY_LEN(profiles)) {
			return false;
		}
		chosen |= UINT64_C(1) << p;
		names += n + (names[n] == ',');
	}
	return true;
}

static void seeds_print(struct seeds s, const char *before)
{
	if (s.every == 1) {
		printf("%sall", before);
	} else if (s.every != 0 && s.first == s.last) {
		printf("%sseed %% %" PRIu64 " = %" PRIu64, before, s.every, s.first);
	} else if (s.every != 0) {
		printf("%sseed %% %" PRIu64 " from %" PRIu64 " to %" PRIu64, before, s.every,
		    s.first, s.last);
	}
}

void profiles_print(void)
{
	for (size_t p = 0; p < ARRAY_LEN(profiles); p++) {
		printf("%-16s %s (", profiles[p].name, profiles[p].words);
		seeds_print(profiles[p].seeds, "");
		seeds_print(profiles[p].or_seeds, " or ");
		seeds_print(profiles[p].small,
		    profiles[p].full_only ? "; of small worlds: " : "; of small worlds also: ");
		printf(")\n");
	}
}
