#include "price_writes.h"

#include "base/base.h"
#include "bench.h"
#include "harness.h"
#include <ctype.h>
#include <dirent.h>
#include <libpq-fe.h>

#define ROUNDS 5
#define ROW_BYTES 100 /* of a row as text, at most */
#define FEED_POOLS 300 /* of a small feed: a region of a large provider has that many */

/* Stored in turn: polls with so many new prices of 100. Then the least that all new prices need: as
 * many points by COPY, and as many latest rows by an UPDATE without triggers. */
enum what { NOTHING_NEW, A_TENTH_NEW, ALL_NEW, BARE_COPY, BARE_UPDATE, WHATS };
static const int new_of_100[] = { 0, 10, 100 };
static const char *const what_names[] = { "nothing new", "a tenth new", "all new", "bare COPY",
	"bare UPDATE" };

struct sample {
	int64_t us[WHATS][ROUNDS], cpu_us[WHATS][ROUNDS]; /* cpu: of the server */
	int64_t feeds_us, feeds_cpu_us;
	int feeds;
};

struct poll_bench {
	const struct price_writes *w;
	PGconn *copier;
	int64_t now_us;
	int64_t *prices; /* of each pool, the price that the store has */
	struct spot_price_point *points;
	int32_t *ids;
	char *rows; /* of a COPY, as text */
};

int64_t price_writes_price(int64_t id)
{
	return 1000000 + id * 7919 % 900000;
}

static void no_done(struct op *op)
{
	(void)op;
}

static bool op_over(void *arg)
{
	return !op_busy(arg);
}

/* CPU time that the scheduler counts for a process; 0 if the process has ended or has another
 * parent. */
static int64_t process_cpu_us(const char *pid, int parent)
{
	char path[300], text[400];
	unsigned long long ns = 0;
	const char *fields;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "r");
	fields = f == NULL || fgets(text, sizeof(text), f) == NULL ? NULL : strrchr(text, ')');
	if (f != NULL) {
		(void)fclose(f);
	}
	/* After the name: the state, then the parent. */
	if (fields == NULL || strtol(fields + 4, NULL, 10) != parent) {
		return 0;
	}
	(void)snprintf(path, sizeof(path), "/proc/%s/schedstat", pid);
	f = fopen(path, "r");
	if (f != NULL) {
		ns = fgets(text, sizeof(text), f) == NULL ? 0 : strtoull(text, NULL, 10);
		(void)fclose(f);
	}
	return (int64_t)(ns / 1000);
}

static int64_t server_cpu_us(int postmaster)
{
	DIR *d = opendir("/proc");
	int64_t ret = 0;

	assert(d != NULL);
	for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
		if (isdigit((unsigned char)e->d_name[0])) {
			ret += process_cpu_us(e->d_name, postmaster);
		}
	}
	(void)closedir(d);
	return ret;
}

/* Polls pools[from..to) as one feed; every new_per_100 of 100 has another price. */
static void poll_store(struct poll_bench *b, const char *feed, int64_t from, int64_t to,
    int new_per_100)
{
	struct price_ingest p = { 0 };
	int64_t moved = 0;

	for (int64_t i = from; i < to; i++) {
		bool moves = i % 100 < new_per_100;

		b->prices[i] += moves;
		moved += moves;
		b->ids[i] = (int32_t)i + 1;
		b->points[i] = (struct spot_price_point){ .source = "bench",
			.observed_us = b->now_us,
			.price_micros = b->prices[i] };
	}
	price_ingest(b->w->pg, &p,
	    &(struct price_feed){ .provider = "bench",
		.region = feed,
		.feed = "prices_spot",
		.polled_us = b->now_us,
		.fence = 1,
		.still = moved == 0 },
	    b->points + from, b->ids + from, (size_t)(to - from), no_done);
	if (!test_until(b->w->loop, 600 * SPOT_US_PER_S, op_over, &p.copy.op) ||
	    p.copy.op.rc != SPOT_OK || price_ingest_result(&p).changed != moved) {
		fprintf(stderr, "a poll was not stored: %s\n", p.copy.op.err.text);
		exit(1);
	}
	price_ingest_fini(&p);
}

/* The rows as text, as psql's \copy sends them. */
static size_t rows_make(struct poll_bench *b)
{
	size_t n = 0;

	for (int64_t i = 0; i < b->w->pools; i++) {
		n += (size_t)snprintf(b->rows + n, ROW_BYTES,
		    "%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\tbench\n", i + 1, b->now_us,
		    b->now_us, b->prices[i]);
	}
	return n;
}

static void result_must(struct poll_bench *b, ExecStatusType want)
{
	for (PGresult *r; (r = PQgetResult(b->copier)) != NULL; PQclear(r)) {
		if (PQresultStatus(r) != want) {
			fprintf(stderr, "COPY: %s\n", PQerrorMessage(b->copier));
			exit(1);
		}
		if (want == PGRES_COPY_IN) {
			PQclear(r);
			return;
		}
	}
}

static void copy_store(struct poll_bench *b, size_t n)
{
	(void)PQsendQuery(b->copier, "COPY price_point FROM STDIN");
	result_must(b, PGRES_COPY_IN);
	(void)PQputCopyData(b->copier, b->rows, (int)n);
	(void)PQputCopyEnd(b->copier, NULL);
	result_must(b, PGRES_COMMAND_OK);
}

static void update_store(struct poll_bench *b)
{
	(void)PQsendQuery(b->copier, "UPDATE pool_latest SET observed_us = observed_us");
	result_must(b, PGRES_COMMAND_OK);
}

static void sample_take(struct poll_bench *b, enum what what, int round, struct sample *s)
{
	size_t n = what == BARE_COPY ? rows_make(b) : 0;
	int64_t cpu_us = server_cpu_us(b->w->server);
	int64_t us = clock_real.mono_us(&clock_real);

	if (what == BARE_COPY) {
		copy_store(b, n);
	} else if (what == BARE_UPDATE) {
		update_store(b);
	} else {
		poll_store(b, "", 0, b->w->pools, new_of_100[what]);
	}
	s->us[what][round] = clock_real.mono_us(&clock_real) - us;
	s->cpu_us[what][round] = server_cpu_us(b->w->server) - cpu_us;
	b->now_us++;
}

/* All pools in feeds of FEED_POOLS, as a round of polls of many regions; a tenth is new. */
static void feeds_store(struct poll_bench *b, int new_per_100)
{
	char region[24];

	for (int64_t from = 0; from < b->w->pools; from += FEED_POOLS) {
		(void)snprintf(region, sizeof(region), "r%" PRId64, from);
		poll_store(b, region, from, MIN(from + FEED_POOLS, b->w->pools), new_per_100);
	}
	b->now_us++;
}

static void feeds_take(struct poll_bench *b, struct sample *s)
{
	int64_t cpu_us, us;

	feeds_store(b, 0); /* the pools change their feed */
	testdb_exec(b->w->dsn, "VACUUM ANALYZE pool_latest");
	feeds_store(b, 10);
	cpu_us = server_cpu_us(b->w->server);
	us = clock_real.mono_us(&clock_real);
	feeds_store(b, 10);
	s->feeds_us = clock_real.mono_us(&clock_real) - us;
	s->feeds_cpu_us = server_cpu_us(b->w->server) - cpu_us;
	s->feeds = (int)((b->w->pools + FEED_POOLS - 1) / FEED_POOLS);
}

static void sample_print(const struct price_writes *w, struct sample *s)
{
	double copy_ms = bench_ms(s->us[BARE_COPY], ROUNDS, 50);
	double copy_cpu_ms = bench_ms(s->cpu_us[BARE_COPY], ROUNDS, 50);

	for (int i = 0; i < (int)WHATS; i++) {
		double ms = bench_ms(s->us[i], ROUNDS, 50);
		double cpu_ms = bench_ms(s->cpu_us[i], ROUNDS, 50);

		printf("%" PRId64 " pools, %s: %.1f ms, %.0f rows/s, CPU of the server %.1f ms; of "
		       "COPY's rate %.0f %% by time, %.0f %% by CPU\n",
		    w->pools, what_names[i], ms, (double)w->pools * 1e3 / ms, cpu_ms,
		    100 * copy_ms / ms, 100 * copy_cpu_ms / cpu_ms);
	}
	printf("%" PRId64 " pools in %d feeds, a tenth new: %.0f ms, CPU of the server %.0f ms\n",
	    w->pools, s->feeds, (double)s->feeds_us / 1e3, (double)s->feeds_cpu_us / 1e3);
}

/* The runs are sorted by then. */
static void sample_json(const struct price_writes *w, struct sample *s)
{
	printf("{\"pools\":%" PRId64, w->pools);
	for (int i = 0; i < (int)WHATS; i++) {
		printf(",\"%s\":{\"ms\":%.3f,\"cpu_ms\":%.3f}", what_names[i],
		    bench_ms(s->us[i], ROUNDS, 50), bench_ms(s->cpu_us[i], ROUNDS, 50));
	}
	printf(",\"feeds\":{\"n\":%d,\"ms\":%.3f,\"cpu_ms\":%.3f}}\n", s->feeds,
	    (double)s->feeds_us / 1e3, (double)s->feeds_cpu_us / 1e3);
}

void price_writes_bench(const struct price_writes *w)
{
	struct poll_bench b = { .w = w,
		.copier = PQconnectdb(w->dsn),
		.now_us = w->now_us + 1,
		.prices = calloc((size_t)w->pools, sizeof(*b.prices)),
		.points = calloc((size_t)w->pools, sizeof(*b.points)),
		.ids = calloc((size_t)w->pools, sizeof(*b.ids)),
		.rows = calloc((size_t)w->pools, ROW_BYTES) };
	struct sample s = { 0 };

	assert(b.prices != NULL && b.points != NULL && b.ids != NULL && b.rows != NULL);
	for (int64_t i = 0; i < w->pools; i++) {
		b.prices[i] = price_writes_price(i + 1);
	}
	(void)PQsendQuery(b.copier, "SET session_replication_role = replica"); /* no triggers */
	result_must(&b, PGRES_COMMAND_OK);
	poll_store(&b, "", 0, w->pools, 0); /* the first poll of a feed makes its round */
	b.now_us++;
	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < (int)WHATS; k++) {
			sample_take(&b, (enum what)k, i, &s);
		}
	}
	feeds_take(&b, &s);
	sample_print(w, &s);
	if (w->json) {
		sample_json(w, &s);
	}
	PQfinish(b.copier);
	free(b.prices);
	free(b.points);
	free(b.ids);
	free(b.rows);
}
