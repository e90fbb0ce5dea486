/* The trace, the dice, and the states that a seed has reached. */
#include "base/base.h"
#include "sim/world/world.h"
#include "base/text/text.h"

#include <stdarg.h>
#include <unistd.h>

#define NAMES_MAX 1024

static struct seen {
	const char *kind, *name;
	int64_t n;
} seen[NAMES_MAX];
static size_t seen_n;

/* Hash of all lines, by which two runs of one seed are compared. */
static void hash_add(const char *p, size_t n)
{
	world.hash = hash_bytes(world.hash, p, n);
}

/* The last lines, for a crash. */
static char last[32][1200];

void trace_last(int fd)
{
	for (int64_t i = MAX(world.lines - (int64_t)ARRAY_LEN(last), INT64_C(0)); i < world.lines;
	     i++) {
		const char *line = last[(size_t)i % ARRAY_LEN(last)];

		(void)!write(fd, line, strnlen(line, sizeof(last[0])));
	}
}

void trace(const char *fmt, ...)
{
	char line[1200];
	int64_t us = world.clock.wall - SIM_T0;
	int n = snprintf(line, sizeof(line), "%6" PRId64 ".%06d ", us / SPOT_US_PER_S,
	    (int)(us % SPOT_US_PER_S));
	va_list ap;

	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	n = MIN(n, (int)sizeof(line) - 2);
	line[n++] = '\n';
	hash_add(line, (size_t)n);
	memcpy(last[(size_t)world.lines % ARRAY_LEN(last)], line, (size_t)n);
	last[(size_t)world.lines % ARRAY_LEN(last)][n] = '\0';
	world.lines++;
	if (world.conf.trace) {
		(void)fwrite(line, 1, (size_t)n, stdout);
	}
}

static struct rng fates[FAULTS_MAX];

_Static_assert(sizeof(struct faults_mix) / sizeof(int64_t) <= FAULTS_MAX, "faults");

void dice_seed(uint64_t seed)
{
	/* By 32: the later ones have the dice of the first under another salt, so that the first
	 * keep theirs. */
	for (size_t i = 0; i < FAULTS_MAX; i++) {
		rng_seeded_init(&fates[i],
		    (seed * 32 + i % 32) ^ (i / 32) * UINT64_C(0xd1b54a32d192ed03));
	}
}

/* Messages and statements are sent again soon; a daemon or a machine that stops is away for
 * minutes. */
static int64_t felt_us(size_t fault)
{
	static const struct {
		size_t at;
		int64_t us;
	} felt[] = {
#define FELT(name, s) { offsetof(struct faults_mix, name) / sizeof(int64_t), (s)*SPOT_US_PER_S }
		FELT(net_lost, 90),
		FELT(net_reset, 90),
		FELT(net_reply_lost, 90),
		FELT(set_lost, 90),
		FELT(net_twice, 90),
		FELT(net_slow, 90),
		FELT(act_lost, 90),
		FELT(flip, 90),
		FELT(store_refuse, 90),
		FELT(lag, 0),
		FELT(db_lost_before, 90),
		FELT(db_lost_after, 90),
		FELT(db_slow, 90),
		FELT(copy_lost, 90),
		FELT(rival, 0),
		FELT(reclaim, 0),
		FELT(stock, 0),
		FELT(price, 0),
		FELT(drought, 0),
		FELT(silent_feed, 0),
		FELT(frozen_feed, 0),
		FELT(far, 0),
		FELT(absent, 0),
		FELT(absent_end, 0),
		FELT(lie, 0),
		FELT(kill, 0),
		FELT(gang_kill, 0),
		FELT(gang_dear, 0),
		FELT(lie_act, 0),
		FELT(recommend, 0),
		FELT(halt, 0),
		FELT(front, 0),
		FELT(pretend, 0),
		FELT(unheard_end, 0),
		FELT(planned, 0),
		FELT(zombie, 0),
		FELT(part, 120),
		FELT(agent_crash, 120),
		FELT(agent_clock, 90),
		FELT(crash, 240),
#undef FELT
	};

	for (size_t i = 0; i < ARRAY_LEN(felt); i++) {
		if (felt[i].at == fault) {
			return felt[i].us;
		}
	}
	return 600 * SPOT_US_PER_S;
}

bool dice(size_t fault, int64_t ppm)
{
	bool hit = !world.quiet && ppm > 0 && (int64_t)rng_below(&fates[fault], 1000000) < ppm;

	if (hit && felt_us(fault) > 0) {
		world.harm_until = MAX(world.harm_until, world_now() + felt_us(fault));
	}
	return hit;
}

int64_t dice_us(int64_t from, int64_t to)
{
	return from + (int64_t)rng_below(&world.dice, (uint64_t)(to - from) + 1);
}

static void seen_add(const char *kind, const char *name)
{
	for (size_t i = 0; i < seen_n; i++) {
		if (strcmp(seen[i].name, name) == 0 && strcmp(seen[i].kind, kind) == 0) {
			seen[i].n++;
			return;
		}
	}
	assert(seen_n < NAMES_MAX);
	seen[seen_n++] = (struct seen){ kind, name, 1 };
}

void fault_seen(const char *name)
{
	seen_add("fault", name);
}

void sometimes(const char *name)
{
	seen_add("sometimes", name);
}

void proven(const char *name)
{
	seen_add("proven", name);
}

void always(bool ok, const char *name, const char *fmt, ...)
{
	char text[1500];
	va_list ap;

	seen_add("always", name);
	if (ok) {
		return;
	}
	if (world.proving != NULL) {
		world.proven = world.proven || strcmp(world.proving, name) == 0;
		return;
	}
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	trace("BROKEN %s: %s", name, text);
	if (world.failed == NULL && asprintf(&world.failed, "%s: %s", name, text) < 0) {
		abort();
	}
}

void seen_write(int fd)
{
	for (size_t i = 0; i < seen_n; i++) {
		dprintf(fd, "%s %s %" PRId64 "\n", seen[i].kind, seen[i].name, seen[i].n);
	}
}
