/*
 * One seed in a process of its own. It makes its world and has its faults for some minutes. Then
 * all is calm, everything comes to its end, and the rules are checked once more.
 */
#include "sim/world/world.h"
#include "sim/broker/broker.h"
#include "sim/check/check.h"
#include "sim/cloud/cloud.h"
#include "sim/faults/faults_market.h"
#include "sim/run/options.h"
#include "sim/run/seed.h"
#include "sim/store/refuse.h"
#include "sim/store/rows.h"
#include "sim/store/sim_store.h"
#include "sim/users/asks.h"
#include "sim/users/work.h"
#include "sim/world/mix.h"
#include "sim/world/profiles.h"
#include "sim/world/spin.h"
#include "sim/world/traps.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

bool seed_gates_off;

static void run_until(int64_t until, bool (*done)(void))
{
	int64_t minute = world_now(), second = world_now();

	while (world_now() < until && world.failed == NULL && (done == NULL || !done())) {
		brokers_turn(world_turn(MIN(until, second + SPOT_US_PER_S)));
		if (spin_seen()) {
			spin_check();
		}
		if (world_now() >= second + SPOT_US_PER_S) {
			second = world_now();
		}
		if (world_now() >= minute + 60 * SPOT_US_PER_S) {
			minute = world_now();
			cloud_minute();
			faults_market_minute();
			asks_minute();
			brokers_minute();
			check_step();
		}
	}
}

/*
 * Two hours, in which the signals are read again (broker.c), and one. A job may wait until its
 * deadline, which a clock ahead may have put off by hours. Asked a minute after the calm began,
 * since requests sent before it were still on their way.
 */
static int64_t settled_by(void)
{
	int64_t now = world_now();
	int64_t last = check_value("SELECT coalesce(max(deadline_us), 0) FROM job WHERE state NOT "
				   "IN ('SUCCEEDED', 'FAILED', 'CANCELLED')");

	return MIN(MAX(now, last), now + 10 * SPOT_US_PER_HOUR) + 3 * SPOT_US_PER_HOUR;
}

static struct {
	int64_t since, by;
} calm;

static bool calm_over(void)
{
	if (calm.by == 0 && world_now() >= calm.since + 60 * SPOT_US_PER_S) {
		calm.by = settled_by();
	}
	return check_settled() || (calm.by != 0 && world_now() >= calm.by);
}

/* --trap: how such a seed is told of is tested so. */
static void trap_spring(void)
{
	const char *t = world.conf.trap;

	if (t == NULL) {
		return;
	}
	if (strcmp(t, "rule") == 0) {
		always(false, "a rule that nothing keeps", "as it was asked for");
	}
	if (strcmp(t, "abort") == 0) {
		abort();
	}
	while (strcmp(t, "spin") == 0)
		;
}

/* A seed that runs alone and crashes prints its last lines; after an assertion its rows, too, which
 * may fail. */
static void crash_report(int signo)
{
	(void)signal(signo, SIG_DFL);
	traps_armed = false;
	dprintf(STDOUT_FILENO, "signal %d; the last lines of the trace:\n", signo);
	trace_last(STDOUT_FILENO);
	if (signo == SIGABRT) {
		(void)alarm(10);
		check_timeline();
		fflush(stdout);
	}
	(void)raise(signo);
}

static void seed_run(const char *providers)
{
	int64_t end = SIM_T0 + world.conf.minutes * 60 * SPOT_US_PER_S;

	store_open(world.conf.dsn);
	broker_install();
	refuse_minute();
	brokers_begin(providers);
	/* Of a small world's few minutes most shall find its jobs at work. */
	if (world.conf.small) {
		work_begin(world.conf.jobs, 60 * SPOT_US_PER_S);
	} else {
		work_begin(dice_us(1, 4), (end - SIM_T0) / 2);
	}
	run_until(end, NULL);
	/* From here on nothing more goes wrong: everything must come to its end. */
	world.quiet = true;
	world.quiet_us = world_now();
	cloud_calm();
	faults_market_calm();
	brokers_calm();
	trace("calm");
	trap_spring();
	calm.since = world_now();
	run_until(INT64_MAX, calm_over);
	check_end();
	if (world.conf.prove && world.failed == NULL) {
		breaks_all();
	}
	brokers_end();
}

static void learned_write(int out)
{
	const char *const *sql;
	size_t n = check_prepared(&sql);

	for (size_t i = 0; i < n; i++) {
		dprintf(out, "sql %p\n", (const void *)sql[i]);
	}
}

/* Makes the world of a seed. Returns the configuration of its providers. */
static const char *seed_world(const struct options *o, uint64_t seed, const char *dsn,
    const char *path)
{
	const char *providers;

	world.conf = (struct world_conf){ .seed = seed,
		.trace = o->trace,
		.dsn = dsn,
		.dir = path,
		.prove = o->prove,
		.gates_off = seed_gates_off,
		.trap = seed == o->from ? o->trap : NULL };
	size_of_seed(seed, o->minutes, &world.conf);
	if (o->learn) {
		world.conf.small = true, world.conf.jobs = 0;
	}
	mix_of_seed(seed, o->mix, &world.conf.mix);
	world.hash = UINT64_C(1469598103934665603);
	rng_seeded_init(&world.rng, seed);
	rng_seeded_init(&world.dice, seed ^ UINT64_C(0x9e3779b97f4a7c15));
	dice_seed(seed);
	cloud_seed(seed);
	(void)clouds_choose(o->clouds != NULL ? o->clouds : clouds_of_seed(seed));
	providers = cloud_conf(path);
	cloud_files(path);
	log_init(&(struct log_conf){ .fd = o->trace ? 1 : open("/dev/null", O_WRONLY | O_CLOEXEC),
	    .level = o->trace ? LOG_INFO : LOG_ERROR,
	    .program = "sim",
	    .clock = &world.clock.clock });
	return providers;
}

static void seed_report(const struct options *o, int out)
{
	struct rusage u;

	if (o->learn) {
		learned_write(out);
	}
	seen_write(out);
	(void)getrusage(RUSAGE_SELF, &u);
	/* a trace has nothing of real time */
	dprintf(o->trace ? STDERR_FILENO : out, "stat cpu_ms %" PRId64 "\nstat db_ms %" PRId64 "\n",
	    (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
		(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000,
	    store_server_ms());
	store_close();
	dprintf(out,
	    "stat statements %" PRId64 "\nstat asked %" PRId64 "\nstat messages %" PRId64
	    "\nstat turns %" PRId64 "\nstat restarts %" PRId64 "\nstat sim_s %" PRId64
	    "\nhash %016" PRIx64 " %" PRId64 "\n%s %s\n",
	    world.statements, world.asked, world.messages, world.turns, world.restarts,
	    (int64_t)world_s(), world.hash, world.lines, world.failed != NULL ? "FAILED" : "ok",
	    world.failed != NULL ? world.failed : "");
}

void seed_child(const struct options *o, uint64_t seed, const char *dsn, const char *dir, int out)
{
	static char path[256];
	const char *providers;

	if (o->quiet || o->from != o->to) {
		(void)!freopen("/dev/null", "w", stdout);
	}
	snprintf(path, sizeof(path), "%s/%" PRIu64, dir, seed);
	if (mkdir(path, 0700) != 0 && errno != EEXIST) {
		abort();
	}
	providers = seed_world(o, seed, dsn, path);
	spin_limit(out, !(o->quiet || o->from != o->to));
	if (!o->quiet && o->from == o->to) {
		(void)signal(SIGABRT, crash_report), (void)signal(SIGSEGV, crash_report),
		    (void)signal(SIGBUS, crash_report), (void)signal(SIGFPE, crash_report);
	}
	traps_armed = true;
	seed_run(providers);
	traps_armed = false;
	fflush(stdout);
	seed_report(o, out);
	_exit(world.failed != NULL ? 1 : 0);
}
