/*
 * Counts over a batch the states and faults that its seeds reached, and compares them with the
 * minimum for its size. A batch below the minimum tests less than it says.
 *
 * The table has every state and every fault, and how many seeds of a sweep reached it. A batch that
 * should by that reach it in EXPECTED seeds must reach it in one; rarer ones are only counted. So a
 * hundred seeds must reach the states of every seventh, two thousand all but the few rows that say
 * why not. A new state or fault needs a row (test_sim.py), with 0 until a sweep has counted it.
 */
#include "base/base.h"
#include "sim/world/mix.h"
#include "sim/run/reach.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* By chance one in three million batches misses a state expected in 15 seeds, one in three thousand
 * a state expected in 8. Seeds change with the product, and CI runs a hundred of them for each
 * change. */
#define EXPECTED 15
#define EXPECTED_FULL 8
#define FULL 2000 /* seeds */
#define LEAST 100
/* Of small worlds' own numbers. Below it the count of the normal seeds among them, every sixteenth,
 * decides. */
#define SMALL_SURE 9

static const struct reach {
	const char *kind, *name;
	int64_t of_2000; /* seeds 1 to 2,000 */
	/* of a thousand from 100,001 on, as the first 320 had it: below SMALL_SURE chance (three
	 * of 320) */
	int64_t small_of_1000;
} reaches[] = {
	{ "sometimes", "the daemon died", 2000, 1000 },
	{ "sometimes", "a statement of the end had something to do", 1976, 916 },
	{ "sometimes", "a job succeeded", 1806, 731 },
	{ "sometimes", "a message was served twice", 984, 266 },
	{ "sometimes", "a cancellation had time to take effect", 918, 216 },
	{ "sometimes", "a job went to on-demand since there was no spot", 914, 288 },
	{ "sometimes", "a job was cancelled by its user", 859, 297 },
	{ "sometimes", "two programs of one job ran at once", 844, 238 },
	{ "sometimes", "a leader was stopped", 821, 266 },
	{ "sometimes", "a statement ran after its sender had died", 785, 206 },
	{ "sometimes", "a machine outlived its instance", 774, 147 },
	{ "sometimes", "an attempt was drained", 760, 222 },
	{ "sometimes", "the sweeper found an instance without a live row", 742, 350 },
	{ "sometimes", "a job ended by its cancellation", 724, 278 },
	{ "sometimes", "a launch's outcome was unknown", 713, 375 },
	{ "sometimes", "an attempt was lost", 706, 197 },
	{ "sometimes", "a cloud lied just as it was asked to begin or to end a machine", 701, 172 },
	{ "sometimes", "a machine was called gone", 649, 188 },
	{ "sometimes", "a machine with our mark was nobody's", 642, 169 },
	{ "sometimes", "a gang succeeded", 623, 147 },
	{ "sometimes", "a job went on from a checkpoint", 584, 112 },
	{ "sometimes", "a pool ran dry", 577, 191 },
	{ "sometimes", "a job failed", 559, 194 },
	{ "sometimes", "an instance was reclaimed", 484, 112 },
	{ "sometimes", "a leader was stopped with a launch in its hands", 460, 122 },
	{ "sometimes", "a set launch lost its reply", 0, 0 },
	{ "fault", "set_lost", 0, 0 },
	{ "sometimes", "a set of machines came by one call", 0, 0 },
	{ "sometimes", "a job with a deadline succeeded", 429, 141 },
	{ "sometimes", "a job was parked", 419, 116 },
	{ "sometimes", "a daemon's clock jumped forward", 405, 244 },
	{ "sometimes", "a fleet was closed", 405, 59 },
	{ "sometimes", "a job ran on a fleet", 379, 50 },
	{ "sometimes", "a cloud had no spot left", 373, 162 },
	{ "sometimes", "a node was cut off", 364, 147 },
	{ "sometimes", "a notice had time to be heeded", 361, 81 },
	{ "sometimes", "a job ran at Google Cloud", 359, 131 },
	{ "sometimes", "a machine was credited", 355, 75 },
	{ "sometimes", "a gang began again elsewhere", 344, 91 },
	{ "sometimes", "a machine's clock jumped", 344, 159 },
	{ "sometimes", "an agent crashed", 341, 150 },
	{ "sometimes", "a daemon's clock jumped back", 316, 203 },
	{ "sometimes", "an instance died without a word", 316, 128 },
	{ "sometimes", "a price jumped", 291, 94 },
	{ "sometimes", "a job ran at Azure", 280, 119 },
	{ "sometimes", "a machine of a gang that ran died", 237, 31 },
	{ "sometimes", "a running job was told that its budget is used up", 229, 47 },
	{ "sometimes", "the other daemon took over", 227, 78 },
	{ "sometimes", "a machine started again", 184, 84 },
	{ "sometimes", "a job ran at CoreWeave", 182, 56 },
	{ "sometimes", "a statement came from a daemon that led no longer", 178, 56 },
	{ "sometimes", "a feed was silent", 177, 144 },
	{ "sometimes", "a parked job went on from its checkpoint", 174, 25 },
	{ "sometimes", "a job was parked before it began", 172, 66 },
	{ "sometimes", "a job came back to spot", 164, 59 },
	{ "sometimes", "a gang of Google Cloud came by one call", 163, 56 },
	{ "sometimes", "a machine was recommended to leave", 162, 69 },
	{ "sometimes", "a job left for one of higher priority", 146, 3 },
	{ "sometimes", "an agent was without a daemon for long", 138, 16 },
	{ "sometimes", "a gang was parked", 134, 41 },
	{ "sometimes", "a machine without a daemon switched itself off", 132, 25 },
	{ "sometimes", "a job's time was over", 126, 56 },
	{ "sometimes", "a job saved without a daemon", 120, 25 },
	{ "sometimes", "a gang went on from a whole checkpoint", 119, 28 },
	{ "sometimes", "an instance died before its launch was known", 111, 16 },
	{ "sometimes", "a rank failed since another was stopped", 110, 38 },
	{ "sometimes", "a launch had made a second machine", 95, 19 },
	{ "sometimes", "a follower was stopped", 87, 38 },
	{ "sometimes", "a job that failed was restarted", 82, 25 },
	{ "sometimes", "an end that a wrong clock dated was put right", 78, 22 },
	{ "sometimes", "an instance outlived its row", 77, 9 },
	{ "sometimes", "a stream of lines broke", 74, 12 },
	{ "sometimes", "a gang ran at CoreWeave", 68, 12 },
	{ "sometimes", "a limit below what a job had cost was refused", 64, 12 },
	{ "sometimes", "a price could not be", 61, 25 },
	{ "sometimes", "a parked job was cancelled", 59, 31 },
	{ "sometimes", "a machine was stopped", 57, 106 },
	{ "sometimes", "a watch was too old to go on", 44, 6 },
	{ "sometimes", "a gang went on from what one rank had saved for all", 43, 6 },
	{ "sometimes", "a job on a fleet was parked", 38, 6 },
	/* one seed in sixteen has fleets that move; by seeds 15, 31, 63, 79 */
	{ "sometimes", "a burst asked a job to save", 100, 0 },
	{ "sometimes", "all spot was sold out", 100, 0 },
	{ "sometimes", "a pool became dear for a while", 100, 0 },
	{ "sometimes", "a node of a fleet moved back to spot", 100, 0 },
	{ "sometimes", "a node of a fleet left a dear pool", 100, 0 },
	{ "sometimes", "a job went on after its node of a fleet moved", 50, 0 },
	{ "sometimes", "a fleet went to zero and came back", 100, 0 },
	{ "sometimes", "a demand made a fleet larger", 100, 0 },
	{ "sometimes", "a fleet expired", 100, 0 },
	{ "sometimes", "a Pod was evicted", 31, 3 },
	{ "sometimes", "a zone of Google was out of reach", 22, 75 },
	{ "sometimes", "a Pod was deleted by somebody else", 18, 4 },
	{ "sometimes", "EC2 planned an end and a restart of one machine", 13, 38 },
	{ "sometimes", "a job was late", 13, 1 },
	{ "sometimes", "EC2 planned something with a machine", 12, 59 },
	{ "sometimes", "a file changed under its upload", 10, 3 },
	{ "sometimes", "a node left its cluster", 9, 3 },
	{ "sometimes", "a node of a cluster was silent", 8, 3 },
	/* prices seldom stay apart for so long */
	{ "sometimes", "a job was moved since it paid", 2, 0 },
	{ "sometimes", "an object changed on its way to the store", 0, 41 }, /* small worlds only */
	{ "sometimes", "a daemon began with a clock ahead while a machine booted", 13, 34 },
	{ "sometimes", "an abandoned checkpoint was deleted", 10, 26 },
	{ "sometimes", "a machine of a gang that gathers became dear and died", 8, 0 },
	{ "sometimes", "of what was given up another had some", 46, 18 },
	{ "sometimes", "a feed was frozen", 28, 138 },
	{ "sometimes", "a cloud could not be reached", 0, 132 },
	{ "sometimes", "a cloud was asked in vain while it could not be reached", 0, 73 },
	{ "sometimes", "it was judged whether a budget was kept", 12, 1 },
	{ "sometimes", "a gang got another machine for a lost rank", 0, 0 },
	{ "sometimes", "a gang waited for another machine in vain", 0, 0 },
	{ "fault", "db_slow", 1585, 428 },
	{ "fault", "db_lost_before", 1541, 341 },
	{ "fault", "db_lost_after", 1537, 362 },
	{ "fault", "net_slow", 1299, 325 },
	{ "fault", "net_reply_lost", 1124, 412 },
	{ "fault", "net_reset", 1115, 266 },
	{ "fault", "net_lost", 1024, 319 },
	{ "fault", "net_twice", 984, 266 },
	{ "fault", "a list lacked an instance", 528, 75 },
	{ "fault", "copy_lost", 417, 194 },
	{ "fault", "a terminate was refused", 370, 112 },
	{ "fault", "a terminate was done and 500 answered", 338, 109 },
	{ "fault", "EC2 served a launch twice", 286, 88 },
	{ "fault", "an instance was made and the line broke", 264, 75 },
	{ "fault", "an instance was made and 500 answered", 251, 91 },
	{ "fault", "a launch was never answered", 249, 78 },
	{ "fault", "store_refuse", 66, 64 },
	{ "fault", "Lambda launched and answered 500", 188, 78 },
	{ "fault", "Lambda launched and the line broke", 181, 72 },
	{ "fault", "Lambda's list was cut short", 174, 53 },
	{ "fault", "a list was cut short", 171, 53 },
	{ "fault", "a COPY was committed and the line broke", 160, 100 },
	{ "fault", "prices were garbage", 153, 44 },
	{ "fault", "a list was refused", 151, 81 },
	{ "fault", "cut_commit", 133, 16 },
	{ "fault", "launch_twice", 101, 19 },
	{ "fault", "the history of a watch was forgotten", 90, 12 },
	{ "fault", "Google deleted and answered 503", 81, 31 },
	{ "fault", "stream_cut", 74, 12 },
	{ "fault", "Azure took a machine and answered 500", 53, 12 },
	{ "fault", "Google took a bulkInsert and the line broke", 43, 12 },
	{ "fault", "Google took an insert and answered 503", 41, 9 },
	{ "fault", "Azure made a group and the line broke", 38, 16 },
	{ "fault", "Azure took a machine and the line broke", 37, 6 },
	{ "fault", "Azure's prices were garbage", 37, 16 },
	{ "fault", "Google never answered an insert", 37, 16 },
	{ "fault", "Azure's list was refused", 36, 16 },
	{ "fault", "Azure's list was cut short", 35, 22 },
	{ "fault", "Google's list was refused", 34, 16 },
	{ "fault", "Azure never answered for a machine", 33, 16 },
	{ "fault", "Azure served a machine's creation twice", 33, 16 },
	{ "fault", "Google's prices were garbage", 32, 9 },
	{ "fault", "Azure gave no token", 30, 12 },
	{ "fault", "Google gave no token", 28, 16 },
	{ "fault", "Google served an insert twice", 28, 12 },
	{ "fault", "Azure deleted and answered 500", 27, 9 },
	{ "fault", "Google took an insert and the line broke", 26, 16 },
	{ "fault", "a NodePool delivered nothing and did not say why", 26, 6 },
	{ "fault", "an API token was over", 24, 4 },
	{ "fault", "Google's list was cut short", 23, 12 },
	{ "fault", "a Pod was deleted and 500 answered", 23, 5 },
	{ "fault", "a Pod was refused for too many requests", 22, 3 },
	{ "fault", "a delete of a Pod was refused", 20, 3 },
	{ "fault", "tokens were good for ten minutes", 20, 6 },
	{ "fault", "a Pod was deleted and the line broke", 19, 9 },
	{ "fault", "a Pod was deleted by force", 19, 7 },
	{ "fault", "an image could not be pulled", 19, 3 },
	{ "fault", "Pods were not told", 18, 3 },
	{ "fault", "a watch was too old", 18, 5 },
	{ "fault", "Google's operation was not told", 17, 12 },
	{ "fault", "a Pod was made and the line broke", 17, 3 },
	{ "fault", "a front said 404 to a question for a machine of Google", 17, 62 },
	{ "fault", "a front said 404 to the end of a machine of Google", 17, 44 },
	{ "fault", "a front said 404 to how an insert at Google goes", 10, 36 },
	{ "fault", "a list of Pods was cut short", 17, 2 },
	{ "fault", "a target was overtaken", 17, 3 },
	{ "fault", "a token was not reviewed", 17, 1 },
	{ "fault", "an image took minutes", 17, 6 },
	{ "fault", "a Pod was refused as if it were there", 16, 3 },
	{ "fault", "a container crashed", 16, 3 },
	{ "fault", "a watch was refused", 16, 3 },
	{ "fault", "a NodePool over its quota was refused", 15, 4 },
	{ "fault", "a Pod was posted twice", 15, 6 },
	{ "fault", "a target was written and 500 answered", 15, 2 },
	{ "fault", "a target was written and the line broke", 15, 9 },
	{ "fault", "a watch never began", 15, 3 },
	{ "fault", "a target was never answered for", 14, 3 },
	{ "fault", "clusters were not told", 14, 3 },
	{ "fault", "streams ended after a second", 14, 3 },
	{ "fault", "a NodePool was made and the line broke", 13, 0 },
	{ "fault", "a Pod was never answered for", 13, 3 },
	{ "fault", "a gateway had no page for Pods", 13, 6 },
	{ "fault", "a gateway had no page for a Pod's delete", 13, 9 },
	{ "fault", "a node was cordoned", 13, 1 },
	{ "fault", "NodePools were not told", 12, 1 },
	{ "fault", "nodes were not told", 12, 3 },
	{ "fault", "Pods were garbage", 11, 3 },
	{ "fault", "a Pod was made and 500 answered", 11, 4 },
	{ "fault", "a credential was not known", 11, 3 },
	{ "fault", "no token was given", 11, 6 },
	{ "fault", "a NodePool was made and 500 answered", 8, 3 },
	/* one of eight states of a cluster, in an eighth of the seeds */
	{ "fault", "a NodePool was over its quota", 7, 3 },
	{ "fault", "act_lost", 0, 247 }, /* small worlds only */
	/* small worlds, and every sixteenth seed, as all that follow */
	{ "sometimes", "somebody ran the doctor", 125, 825 },
	{ "sometimes", "an agent died after any of its turns", 62, 113 },
	{ "sometimes", "the end of a leak was asked for", 48, 175 },
	{ "sometimes", "a cloud said that it did what it did not do", 94, 280 },
	{ "fault", "EC2 said that it made an instance and did not", 85, 205 },
	{ "fault", "EC2 said that it ended a machine and did not", 65, 157 },
	{ "fault", "Lambda said that it launched and did not", 6, 22 },
	{ "fault", "Lambda said that it ended a machine and did not", 8, 25 },
	{ "fault", "Google said that it made a machine and did not", 6, 15 },
	{ "fault", "Google said that it made machines and did not", 3, 7 },
	{ "fault", "Google said that it deleted a machine and did not", 18, 22 },
	{ "fault", "Azure said that it made a machine and did not", 7, 20 },
	{ "fault", "Azure said that it deleted a group and did not", 0, 0 },
	{ "fault", "a Pod was said to be made and was not", 7, 7 },
	{ "fault", "a Pod was said to be deleted and was not", 5, 2 },
};

struct total {
	char kind[16], name[160];
	int64_t n, seeds;
};
static struct total totals[1000];
static size_t totals_n;

static struct total *total_find(const char *kind, const char *name)
{
	for (size_t i = 0; i < totals_n; i++) {
		if (strcmp(totals[i].kind, kind) == 0 && strcmp(totals[i].name, name) == 0) {
			return &totals[i];
		}
	}
	return NULL;
}

void reach_add(const char *kind, const char *name, int64_t n)
{
	struct total *t = total_find(kind, name);

	if (t == NULL) {
		assert(totals_n < ARRAY_LEN(totals));
		t = &totals[totals_n++];
		snprintf(t->kind, sizeof(t->kind), "%s", kind);
		snprintf(t->name, sizeof(t->name), "%s", name);
	}
	t->n += n;
	t->seeds++;
}

int64_t reach_stat(const char *name)
{
	const struct total *t = total_find("stat", name);

	return t != NULL ? t->n : 0;
}

void reach_print(void)
{
	for (size_t i = 0; i < totals_n; i++) {
		printf("%-10s %-60s %10" PRId64 " in %" PRId64 " seeds\n", totals[i].kind,
		    totals[i].name, totals[i].n, totals[i].seeds);
	}
}

void reach_list(void)
{
	for (size_t i = 0; i < ARRAY_LEN(reaches); i++) {
		printf("%s %s\n", reaches[i].kind, reaches[i].name);
	}
}

static int64_t reach_expected(const struct reach *r, int64_t seeds, bool small)
{
	if (small && r->small_of_1000 >= SMALL_SURE) {
		return seeds * r->small_of_1000 / 1000;
	}
	return seeds * r->of_2000 / FULL / (small ? SIM_FULL : 1);
}

bool reach_all(int64_t seeds, bool small)
{
	int64_t least = seeds >= FULL ? EXPECTED_FULL : EXPECTED, missed = 0, wanted = 0;

	for (size_t i = 0; i < ARRAY_LEN(reaches) && seeds >= LEAST; i++) {
		const struct reach *r = &reaches[i];
		int64_t expected = reach_expected(r, seeds, small);

		if (expected < least) {
			continue;
		}
		wanted++;
		if (total_find(r->kind, r->name) == NULL) {
			printf("FAILED: never reached: %s (one seed in %" PRId64 " does)\n",
			    r->name, seeds / expected);
			missed++;
		}
	}
	if (seeds >= LEAST) {
		printf("%" PRId64
		       " of %zu states and faults must be reached by so many seeds, %" PRId64
		       " were never\n",
		    wanted, ARRAY_LEN(reaches), missed);
	}
	return missed == 0;
}
