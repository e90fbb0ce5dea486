/*
 * sim: one seed, or a batch of them. See README.md.
 *
 * The batch forks a child for each seed, after everything that is the same for all was read once;
 * each child has a database of its own, made from a migrated template.
 */
#include "sim/world/world.h"
#include "sim/users/asks.h"
#include "sim/broker/broker.h"
#include "sim/check/check.h"
#include "sim/cloud/cloud.h"
#include "sim/store/gates.h"
#include "sim/world/mix.h"
#include "sim/run/options.h"
#include "sim/world/profiles.h"
#include "sim/run/reach.h"
#include "sim/store/refuse.h"
#include "sim/run/server.h"
#include "sim/world/spin.h"
#include "sim/run/stop.h"
#include "sim/store/store.h"
#include "sim/world/traps.h"
#include "sim/faults/faults_market.h"
#include "sim/users/work.h"

#include "base/log.h"
#include "base/text/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool gates_off;

/* ---- one seed -------------------------------------------------------------------------------- */

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
 * Two hours, in which the signals are read again (broker.c), and one; longer for a job that may
 * wait until its deadline, which a clock ahead may have put off by hours. Asked a minute after the
 * calm began: what was asked for until then was still on its way.
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

/* A seed that runs alone and crashes tells what it did last; after an assertion its rows, too,
 * which may fail. */
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
		.gates_off = gates_off,
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

static void seed_child(const struct options *o, uint64_t seed, const char *dsn, const char *dir,
    int out)
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

/* ---- what a process of the server should know before it is copied ---------------------------- */

/* The rules' statements: a seed in which nothing happens looks at all. What it asked stands where
 * it stood there. */
static void statements_learn(const char *dir)
{
	struct options o = { .from = 1,
		.to = 1,
		.minutes = 1,
		.mix = "none",
		.quiet = true,
		.learn = true };
	struct database d;
	char line[4096];
	int p[2];
	pid_t pid;
	FILE *f;

	database_take(&d);
	if (pipe2(p, O_CLOEXEC) != 0) {
		abort();
	}
	pid = fork();
	if (pid == 0) {
		seed_child(&o, 1, d.dsn, dir, p[1]);
	}
	close(p[1]);
	f = fdopen(p[0], "r");
	assert(f != NULL);
	server_warm();
	gates_prepare();
	while (fgets(line, sizeof(line), f) != NULL) {
		void *at;

		if (sscanf(line, "sql %p", &at) == 1) {
			check_prepare(at);
		}
	}
	fclose(f);
	(void)waitpid(pid, NULL, 0);
	database_give(&d);
}

static double clock_s(void)
{
	return (double)clock_real.mono_us(&clock_real) / 1e6;
}

/* ---- the batch ------------------------------------------------------------------------------- */

struct slot {
	pid_t pid;
	int out, no;
	uint64_t seed;
	double until_s; /* it is ended then */
	struct database db;
	char *text;
	size_t n;
};
static int64_t failures, done;
static uint64_t failed_seeds[64];
static char last_verdict[256]; /* of the last seed that ended: the broken invariant, "" = none */

static uint64_t hashes;
static bool looking; /* for the shortest reproduction: nothing is counted */

static void seed_failed(uint64_t seed, const char *why)
{
	if (looking) {
		return;
	}
	if (failures < (int64_t)ARRAY_LEN(failed_seeds)) {
		failed_seeds[failures] = seed;
	}
	failures++;
	printf("seed %" PRIu64 " FAILED %s\n", seed, why);
	fflush(stdout);
}

static void slot_line(const struct slot *s, char *line)
{
	char *kind = line, *name = strchr(line, ' '), *n;

	if (name == NULL) {
		return;
	}
	*name++ = '\0';
	n = strrchr(name, ' ');
	if (strcmp(kind, "FAILED") == 0) {
		snprintf(last_verdict, sizeof(last_verdict), "%.*s", (int)strcspn(name, ":"), name);
		seed_failed(s->seed, name);
	} else if (!looking && strcmp(kind, "hash") == 0) {
		hashes ^= strtoull(name, NULL, 16);
	} else if (!looking && n != NULL && strcmp(kind, "ok") != 0) {
		*n++ = '\0';
		reach_add(kind, name, strtoll(n, NULL, 10));
	}
}

static void slot_start(struct slot *s, const struct options *o, uint64_t seed, const char *dir)
{
	int p[2];

	database_take(&s->db);
	if (pipe2(p, O_CLOEXEC) != 0) {
		abort();
	}
	fflush(NULL);
	s->pid = fork();
	if (s->pid == 0) {
		close(p[0]);
		stop_forget();
		core_take(s->no);
		seed_child(o, seed, s->db.dsn, dir, p[1]);
	}
	close(p[1]);
	s->out = p[0];
	s->seed = seed;
	s->until_s = clock_s() + SPIN_REAL_S;
	s->n = 0;
	s->text = realloc(s->text, 65536);
	assert(s->text != NULL);
}

static void seed_dir_remove(const char *dir, uint64_t seed)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%" PRIu64, dir, seed);
	tree_remove(path);
}

/* False: it begins anew. */
static bool slot_end(struct slot *s, const struct options *o, const char *dir)
{
	char *line, *save = NULL;
	int status = 0;
	bool verdict;

	close(s->out);
	while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
		;
	s->pid = 0;
	s->text[s->n] = '\0';
	if (WIFEXITED(status) && WEXITSTATUS(status) == GATE_WRONG) {
		gates_off = true; /* a product that was changed: the seed tells more without them */
		database_give(&s->db);
		seed_dir_remove(dir, s->seed);
		slot_start(s, o, s->seed, dir);
		return false;
	}
	verdict = strstr(s->text, "\nok ") != NULL || strstr(s->text, "\nFAILED ") != NULL;
	last_verdict[0] = '\0';
	if (!verdict && !stop_wanted()) {
		char why[96];

		if (clock_s() >= s->until_s) {
			snprintf(why, sizeof(why),
			    SPIN_RULE ": it waits: not over after %d real seconds", SPIN_REAL_S);
		} else {
			snprintf(why, sizeof(why), "crashed with %s %d",
			    WIFSIGNALED(status) ? "signal" : "exit",
			    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		}
		snprintf(last_verdict, sizeof(last_verdict), "%.*s", (int)strcspn(why, ":"), why);
		seed_failed(s->seed, why);
	}
	if (o->from == o->to && !looking) {
		fputs(s->text, stdout);
	}
	for (line = strtok_r(s->text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		slot_line(s, line);
	}
	done += !looking && (verdict || !stop_wanted());
	database_give(&s->db);
	seed_dir_remove(dir, s->seed);
	return true;
}

/* True: the seed is over. */
static bool slot_read(struct slot *s)
{
	ssize_t got = read(s->out, s->text + s->n, 65535 - s->n);

	if (got > 0) {
		s->n += (size_t)got;
	}
	return got == 0 || (got < 0 && errno != EINTR);
}

static double begin_until_s; /* --seconds: no seed begins after that; 0 = all do */

static bool go_on(const struct options *o)
{
	return !stop_wanted() &&
	    (looking ||
		((failures == 0 || !o->stop) && (begin_until_s == 0 || clock_s() < begin_until_s)));
}

static void seeds_run(const struct options *o, const char *dir)
{
	static struct slot slots[JOBS_MAX];
	uint64_t next = o->from;
	int busy = 0;

	for (;;) {
		struct pollfd fds[JOBS_MAX];

		for (int i = 0; i < o->jobs && next <= o->to && go_on(o); i++) {
			if (slots[i].pid == 0) {
				slots[i].no = i;
				slot_start(&slots[i], o, next++, dir);
				busy++;
			}
		}
		if (busy == 0) {
			return;
		}
		databases_tidy();
		for (int i = 0; i < JOBS_MAX; i++) {
			fds[i] = (struct pollfd){ .fd = slots[i].pid != 0 ? slots[i].out : -1,
				.events = POLLIN };
		}
		(void)poll(fds, JOBS_MAX, stop_wanted() ? 0 : 10000);
		for (int i = 0; i < JOBS_MAX; i++) {
			if (slots[i].pid != 0 && (stop_wanted() || clock_s() >= slots[i].until_s)) {
				(void)kill(slots[i].pid, SIGKILL);
			}
		}
		for (int i = 0; i < JOBS_MAX; i++) {
			if (fds[i].revents != 0 && slot_read(&slots[i])) {
				busy -= slot_end(&slots[i], o, dir);
			}
		}
	}
}

/* ---- the shortest reproduction --------------------------------------------------------------- */

/* What fails after minutes only (spin.h) is not made much shorter. */
#define SHRINK_S 300
static double shrink_until_s;

static bool still_fails(struct options *o, const struct faults_mix *m, const char *dir,
    const char *why)
{
	char text[1024];

	mix_text(m, text, sizeof(text));
	if (clock_s() >= shrink_until_s) {
		return false;
	}
	o->mix = text;
	seeds_run(o, dir);
	return strcmp(last_verdict, why) == 0;
}

/* The dice fall otherwise with each change, so this is a search and not a proof: what still fails
 * is kept. */
static void seed_shrink(const struct options *given, uint64_t seed, const char *dir)
{
	struct options o = *given;
	struct faults_mix m, less;
	struct world_conf size = { .seed = seed };
	char text[1024], why[256];
	int64_t minutes;

	mix_of_seed(seed, given->mix, &m);
	size_of_seed(seed, given->minutes, &size);
	o.minutes = minutes = size.minutes;
	o.from = o.to = seed;
	o.quiet = true;
	o.trace = false;
	looking = true;
	shrink_until_s = clock_s() + SHRINK_S;
	(void)still_fails(&o, &m, dir, "");
	snprintf(why, sizeof(why), "%s", last_verdict);
	for (size_t i = 0; i < MIX_FAULTS; i++) {
		less = m;
		*mix_at(&less, i) = 0;
		if (memcmp(&less, &m, sizeof(m)) != 0 && still_fails(&o, &less, dir, why)) {
			m = less;
		}
	}
	if (given->clouds == NULL) {
		o.clouds = "lambda";
		o.clouds = still_fails(&o, &m, dir, why) ? "lambda" : NULL;
	}
	while (minutes > 1) {
		o.minutes = minutes / 2;
		if (!still_fails(&o, &m, dir, why)) {
			break;
		}
		minutes = o.minutes;
	}
	o.minutes = minutes;
	mix_text(&m, text, sizeof(text));
	printf("shortest: sim %" PRIu64 " --minutes %" PRId64 " --faults %s%s%s\n  breaks: %s\n",
	    seed, o.minutes, text, o.clouds != NULL ? " --clouds " : "",
	    o.clouds != NULL ? o.clouds : "", why);
	if (given->from != given->to) { /* alone it has printed all that already */
		printf("its timeline:\n");
		o.mix = text;
		o.quiet = false;
		seeds_run(&o, dir);
	}
	looking = false;
}

static int totals_print(const struct options *o, double took_s)
{
	bool all = o->mix != NULL || o->clouds != NULL || o->minutes != 0 ||
	    reach_all(done, o->from >= SIM_SMALL_FROM);

	fprintf(o->trace ? stderr : stdout,
	    "%" PRId64 " seeds, %" PRId64 " failed, %.1f s, %.1f seeds/s, %.1f simulated hours\n",
	    done, failures, took_s, (double)done / took_s, (double)reach_stat("sim_s") / 3600);
	if (o->from != o->to) {
		printf("hashes %016" PRIx64 " of all traces, in any order\n", hashes);
	}
	if (o->from != o->to) {
		reach_print();
	}
	if (gates_off && getenv("SPOT_SIM_GATES") == NULL) {
		printf("FAILED: a gate is wrong (tests/sim/store/gates.c)\n");
	}
	return failures > 0 || !all || (gates_off && getenv("SPOT_SIM_GATES") == NULL);
}

/* ---- start ----------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
	struct options o;
	char dir[] = "/dev/shm/spotbroker-sim-XXXXXX", cloud[64];
	double begun;
	int rc;

	if (!options_read(&o, argc, argv)) {
		fputs(options_usage, stderr);
		return 2;
	}
	if (o.trap != NULL && o.from == 0) {
		return trap_try(o.trap) ? 0 : 2;
	}
	if (o.states || o.profiles) {
		(o.states ? reach_list : profiles_print)();
		return 0;
	}
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	if (mkdtemp(dir) == NULL) {
		abort();
	}
	stop_install(dir);
	snprintf(cloud, sizeof(cloud), "%s/cloud", dir);
	begun = clock_s();
	gates_off = getenv("SPOT_SIM_GATES") != NULL;
	server_start();
	world_loop_open();
	cloud_open(strdup(cloud));
	if (server_copies()) {
		statements_learn(dir);
		server_universes();
	}
	fprintf(stderr, "sim: ready after %.1f s, in %s\n", clock_s() - begun, dir);
	begun = clock_s();
	begin_until_s = o.seconds > 0 ? begun + o.seconds : 0;
	seeds_run(&o, dir);
	rc = totals_print(&o, clock_s() - begun);
	for (int64_t i = 0; i < MIN(failures, INT64_C(2)) && !o.stop && !o.prove && !stop_wanted();
	     i++) {
		seed_shrink(&o, failed_seeds[i], dir);
	}
	server_stop();
	tree_remove(dir);
	stop_now();
	return rc;
}
