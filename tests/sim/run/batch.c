/* A batch of seeds, each in a child; their findings, and the shortest reproduction of failures. */
#include "sim/world/world.h"
#include "sim/run/batch.h"
#include "sim/run/options.h"
#include "sim/run/reach.h"
#include "sim/run/seed.h"
#include "sim/run/server.h"
#include "sim/run/stop.h"
#include "sim/store/gates.h"
#include "sim/world/mix.h"
#include "sim/world/spin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

double batch_clock_s(void)
{
	return (double)clock_real.mono_us(&clock_real) / 1e6;
}

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
	s->until_s = batch_clock_s() + SPIN_REAL_S;
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
		seed_gates_off =
		    true; /* a product that was changed: the seed tells more without them */
		database_give(&s->db);
		seed_dir_remove(dir, s->seed);
		slot_start(s, o, s->seed, dir);
		return false;
	}
	verdict = strstr(s->text, "\nok ") != NULL || strstr(s->text, "\nFAILED ") != NULL;
	last_verdict[0] = '\0';
	if (!verdict && !stop_wanted()) {
		char why[96];

		if (batch_clock_s() >= s->until_s) {
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
		((failures == 0 || !o->stop) &&
		    (begin_until_s == 0 || batch_clock_s() < begin_until_s)));
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
			if (slots[i].pid != 0 &&
			    (stop_wanted() || batch_clock_s() >= slots[i].until_s)) {
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

/* A failure that takes minutes (spin.h) is not shortened much. */
#define SHRINK_S 300
static double shrink_until_s;

static bool still_fails(struct options *o, const struct faults_mix *m, const char *dir,
    const char *why)
{
	char text[1024];

	mix_text(m, text, sizeof(text));
	if (batch_clock_s() >= shrink_until_s) {
		return false;
	}
	o->mix = text;
	seeds_run(o, dir);
	return strcmp(last_verdict, why) == 0;
}

/* The dice fall otherwise with each change, so this is a search and not a proof: a smaller world
 * that still fails is kept. */
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
	shrink_until_s = batch_clock_s() + SHRINK_S;
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

/* ---- the whole batch ------------------------------------------------------------------------- */

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
	if (seed_gates_off && getenv("SPOT_SIM_GATES") == NULL) {
		printf("FAILED: a gate is wrong (tests/sim/store/gates.c)\n");
	}
	return failures > 0 || !all || (seed_gates_off && getenv("SPOT_SIM_GATES") == NULL);
}

int batch_run(const struct options *o, const char *dir)
{
	double begun = batch_clock_s();
	int rc;

	begin_until_s = o->seconds > 0 ? begun + o->seconds : 0;
	seeds_run(o, dir);
	rc = totals_print(o, batch_clock_s() - begun);
	for (int64_t i = 0;
	     i < MIN(failures, INT64_C(2)) && !o->stop && !o->prove && !stop_wanted(); i++) {
		seed_shrink(o, failed_seeds[i], dir);
	}
	return rc;
}
