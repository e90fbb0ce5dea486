/* Recorded capacity, prices and jobs become a world: see load.h and README.md. */
#include "base/base.h"

#include "bench_file.h"
#include "load.h"

#include "base/text/text.h"
#include "core/trace/trace.h"

#include <math.h>

#define DAY_US (24 * SPOT_US_PER_HOUR)
/* a trace of one machine says that there was one: so many are assumed then */
#define ROOM_OF_ONE 16
#define ROOM_OF_ONE_BIG 4 /* the same of machines with eight GPUs */
#define WORK_MIN_S 300
#define WORK_MAX_S (72 * 3600)

#define AVAIL "availability/"
#define F23 AVAIL "1-node/aws-02-15-2023/"
#define P23 "prices/aws-02-15-2023/"
#define F22 AVAIL "1-node/aws-11-28-2022/"
#define F22B AVAIL "1-node/aws-10-26-2022/"
#define G25 AVAIL "16-node/gcp-10-03-2025/"

/* Traces of one set keep their common time; turned: days by which a stand-in is turned against its
 * set. */
static const struct mapping {
	const char *provider, *region, *zone, *type, *gpu;
	int32_t gpus;
	const char *trace, *prices; /* prices NULL: the catalog's history of the region */
	int32_t set, scale;
	int64_t turned;
} mappings[] = {
	{ "aws", "us-east-1", "us-east-1a", "p3.2xlarge", "V100-16GB", 1,
	    F23 "us-east-1a_v100_1.json", P23 "us-east-1a_v100_1.json", 0, ROOM_OF_ONE, 0 },
	{ "aws", "us-east-1", "us-east-1c", "p3.2xlarge", "V100-16GB", 1,
	    F23 "us-east-1c_v100_1.json", P23 "us-east-1c_v100_1.json", 0, ROOM_OF_ONE, 0 },
	{ "aws", "us-east-1", "us-east-1f", "p3.2xlarge", "V100-16GB", 1,
	    F23 "us-east-1f_v100_1.json", P23 "us-east-1f_v100_1.json", 0, ROOM_OF_ONE, 0 },
	{ "aws", "us-east-2", "us-east-2a", "p3.2xlarge", "V100-16GB", 1,
	    F23 "us-east-2a_v100_1.json", P23 "us-east-2a_v100_1.json", 0, ROOM_OF_ONE, 0 },
	{ "aws", "us-west-2", "us-west-2a", "p3.2xlarge", "V100-16GB", 1,
	    F23 "us-west-2a_v100_1.json", P23 "us-west-2a_v100_1.json", 0, ROOM_OF_ONE, 0 },
	{ "aws", "us-west-2", "us-west-2b", "p3.2xlarge", "V100-16GB", 1,
	    F23 "us-west-2b_v100_1.json", P23 "us-west-2b_v100_1.json", 0, ROOM_OF_ONE, 0 },
	{ "azure", "eastus", "", "Standard_NC6s_v3", "V100-16GB", 1, F22B "us-west-2a_v100_1.json",
	    NULL, 1, ROOM_OF_ONE, 0 },
	{ "azure", "westus2", "", "Standard_NC6s_v3", "V100-16GB", 1, F22B "us-west-2b_v100_1.json",
	    NULL, 1, ROOM_OF_ONE, 0 },
	{ "aws", "us-west-2", "us-west-2a", "p3.16xlarge", "V100-16GB", 8,
	    F22 "us-west-2a_v100_8.json", NULL, 2, ROOM_OF_ONE_BIG, 0 },
	{ "aws", "us-west-2", "us-west-2b", "p3.16xlarge", "V100-16GB", 8,
	    F22 "us-west-2b_v100_8.json", NULL, 2, ROOM_OF_ONE_BIG, 0 },
	{ "aws", "us-east-2", "us-east-2a", "p3.16xlarge", "V100-16GB", 8,
	    F22B "us-west-2b_v100_8.json", NULL, 1, ROOM_OF_ONE_BIG, 0 },
	{ "gcp", "asia-south2", "asia-south2-b", "a3-highgpu-1g", "H100-80GB-SXM", 1,
	    G25 "asia-south2-b_h100_1.json", NULL, 3, 1, 0 },
	{ "gcp", "asia-southeast1", "asia-southeast1-c", "a3-highgpu-1g", "H100-80GB-SXM", 1,
	    G25 "asia-southeast1-c_h100_1.json", NULL, 3, 1, 0 },
	{ "gcp", "europe-west1", "europe-west1-c", "a3-highgpu-1g", "H100-80GB-SXM", 1,
	    G25 "europe-west1-c_h100_1.json", NULL, 3, 1, 0 },
	{ "gcp", "us-central1", "us-central1-a", "a3-highgpu-1g", "H100-80GB-SXM", 1,
	    G25 "us-central1-a_h100_1.json", NULL, 3, 1, 0 },
	{ "gcp", "us-central1", "us-central1-c", "a3-highgpu-1g", "H100-80GB-SXM", 1,
	    G25 "us-central1-c_h100_1.json", NULL, 3, 1, 0 },
	{ "gcp", "us-east4", "us-east4-a", "a3-highgpu-1g", "H100-80GB-SXM", 1,
	    G25 "us-east4-a_h100_1.json", NULL, 3, 1, 0 },
	{ "gcp", "us-east5", "us-east5-a", "a3-highgpu-1g", "H100-80GB-SXM", 1,
	    G25 "us-east5-a_h100_1.json", NULL, 3, 1, 0 },
	{ "gcp", "us-west1", "us-west1-a", "a3-highgpu-1g", "H100-80GB-SXM", 1,
	    G25 "us-west1-a_h100_1.json", NULL, 3, 1, 0 },
	{ "gcp", "us-west1", "us-west1-b", "a3-highgpu-1g", "H100-80GB-SXM", 1,
	    G25 "us-west1-b_h100_1.json", NULL, 3, 1, 0 },
	{ "azure", "eastus", "", "Standard_NC40ads_H100_v5", "H100-94GB-NVL", 1,
	    G25 "us-central1-c_h100_1.json", NULL, 3, 1, 7 },
	{ "azure", "northcentralus", "", "Standard_NC40ads_H100_v5", "H100-94GB-NVL", 1,
	    G25 "us-west1-b_h100_1.json", NULL, 3, 1, 7 },
};
#define SETS 4

static const struct {
	const char *provider;
	int64_t notice_s;
} notices[] = { { "aws", 120 }, { "gcp", 30 }, { "azure", 30 } };

struct fs_row {
	int64_t submit_s, duration_s;
	int32_t gpus;
};

struct fs_data {
	struct fs_pool pools[FS_POOLS_MAX]; /* spot with their traces; on demand behind them */
	const struct mapping *from[FS_POOLS_MAX];
	bool dated[FS_POOLS_MAX]; /* its prices have dates; else they lie beside the trace */
	size_t pools_n;
	struct fs_row *rows;
	size_t rows_n, rows_cap, rows_all;
};

/* ---- files ----------------------------------------------------------------------------------- */

static bool file_read(struct arena *a, const char *path, struct str *ret)
{
	bool there = bench_file_read(a, path, ret);

	if (!there) {
		fprintf(stderr, "%s: cannot be read\n", path);
	}
	return there;
}

static bool csv_file(struct arena *a, const char *path, struct csv *ret)
{
	struct spot_err err = { 0 };
	struct str text;

	if (!file_read(a, path, &text) || csv_open(ret, a, text, &err) != SPOT_OK) {
		fprintf(stderr, "%s: %s\n", path, err.text);
		return false;
	}
	return true;
}

static bool of_pool(const struct csv *c, const struct fs_pool *p)
{
	return strcmp(csv_get(c, "provider"), p->provider) == 0 &&
	    strcmp(csv_get(c, "region"), p->region) == 0 &&
	    strcmp(csv_get(c, "instance_type"), p->type) == 0;
}

static bool room_load(struct arena *a, const char *dir, const struct mapping *m, struct fs_pool *p)
{
	const char *path = arena_printf(a, "%s/%s", dir, m->trace);
	struct spot_err err = { 0 };
	struct trace t;
	struct str text;

	if (!file_read(a, path, &text) || trace_parse_supply(a, text, path, &t, &err) != SPOT_OK) {
		fprintf(stderr, "%s\n", err.text);
		return false;
	}
	p->room = t.counts;
	p->room_n = t.n;
	p->room_scale = m->scale;
	p->gap_us = t.gap_us;
	return true;
}

/* Prices that lie beside the trace, sample by sample. */
static bool prices_load(struct arena *a, const char *dir, const struct mapping *m,
    struct fs_pool *p)
{
	const char *path = arena_printf(a, "%s/%s", dir, m->prices);
	struct spot_err err = { 0 };
	struct fs_price *list;
	struct trace t;
	struct str text;

	if (!file_read(a, path, &text) || trace_parse_prices(a, text, path, &t, &err) != SPOT_OK) {
		fprintf(stderr, "%s\n", err.text);
		return false;
	}
	list = arena_array(a, t.n, sizeof(*list));
	for (size_t i = 0; i < t.n; i++) {
		if (p->prices_n == 0 || list[p->prices_n - 1].micros != t.price_micros[i]) {
			list[p->prices_n++] =
			    (struct fs_price){ (int64_t)i * t.gap_us, t.price_micros[i] };
		}
	}
	p->prices = list;
	p->price_wrap_us = (int64_t)t.n * t.gap_us;
	return true;
}

/* Adds the file's points of the pool; the files are in order of time within a pool. */
static bool history_load(struct arena *a, const char *path, struct fs_pool *pools, size_t n)
{
	struct spot_err err = { 0 };
	struct csv c;
	size_t *caps = arena_array(a, n + 1, sizeof(*caps));
	int more;

	if (!csv_file(a, path, &c)) {
		return false;
	}
	while ((more = csv_next(&c, &err)) > 0) {
		const char *when = csv_get(&c, "timestamp");
		int64_t at, micros;

		when = strlen(when) == 10 ? arena_printf(a, "%sT00:00:00Z", when) : when;
		if (!parse_time_us(when, &at) ||
		    !parse_usd_micros(csv_get(&c, "spot_usd_hour"), &micros) || micros <= 0) {
			continue;
		}
		for (size_t i = 0; i < n; i++) {
			struct fs_pool *p = &pools[i];

			if (p->market == SPOT_MARKET_SPOT && p->price_wrap_us == 0 &&
			    of_pool(&c, p)) {
				struct fs_price *list =
				    arena_array(a, p->prices_n + 1, sizeof(*list));

				if (p->prices_n > 0) {
					memcpy(list, p->prices, p->prices_n * sizeof(*list));
				}
				list[p->prices_n++] = (struct fs_price){ at, micros };
				p->prices = list;
			}
		}
	}
	if (more < 0) {
		fprintf(stderr, "%s: %s\n", path, err.text);
	}
	return more == 0;
}

/* ---- pools ----------------------------------------------------------------------------------- */

static void price_set(struct arena *a, struct fs_pool *p, int64_t micros)
{
	struct fs_price *one = arena_alloc(a, sizeof(*one));

	*one = (struct fs_price){ 0, micros };
	p->prices = one;
	p->prices_n = 1;
}

static void on_demand_add(struct arena *a, struct fs_data *d, const struct fs_pool *spot,
    int64_t micros)
{
	struct fs_pool *p;

	for (size_t i = 0; i < d->pools_n; i++) {
		p = &d->pools[i];
		if (p->market == SPOT_MARKET_ON_DEMAND && strcmp(p->type, spot->type) == 0 &&
		    strcmp(p->region, spot->region) == 0) {
			return;
		}
	}
	p = &d->pools[d->pools_n++];
	*p = *spot;
	p->zone = "";
	p->market = SPOT_MARKET_ON_DEMAND;
	p->room = NULL;
	p->notice_us = 0;
	p->price_wrap_us = 0;
	p->advisor_lo = p->advisor_hi = -1;
	price_set(a, p, micros);
}

/* On-demand prices of the pools' types and regions; the spot price of today where no history has
 * it. */
static bool today_load(struct arena *a, const char *path, struct fs_data *d, size_t spots)
{
	struct spot_err err = { 0 };
	struct csv c;
	int more;

	if (!csv_file(a, path, &c)) {
		return false;
	}
	while ((more = csv_next(&c, &err)) > 0) {
		for (size_t i = 0; i < spots; i++) {
			struct fs_pool *p = &d->pools[i];
			int64_t micros;

			if (!of_pool(&c, p)) {
				continue;
			}
			if (p->prices_n == 0 &&
			    parse_usd_micros(csv_get(&c, "spot_usd_hour"), &micros) && micros > 0) {
				price_set(a, p, micros);
			}
			if (parse_usd_micros(csv_get(&c, "on_demand_usd_hour"), &micros) &&
			    micros > 0) {
				on_demand_add(a, d, p, micros);
			}
		}
	}
	return more == 0;
}

static bool advisor_load(struct arena *a, const char *path, struct fs_data *d, size_t spots)
{
	struct spot_err err = { 0 };
	struct csv c;
	long lo, hi;
	int more;

	if (!csv_file(a, path, &c)) {
		return false;
	}
	while ((more = csv_next(&c, &err)) > 0) {
		const char *bucket = csv_get(&c, "bucket");
		char *end = NULL;

		/* "<5%", "5-10%", ">20%" */
		lo = bucket[0] == '<' ? 0 : strtol(bucket + (bucket[0] == '>'), &end, 10);
		hi = bucket[0] == '<'                 ? strtol(bucket + 1, &end, 10)
		    : bucket[0] == '>' || *end != '-' ? 100
						      : strtol(end + 1, NULL, 10);
		for (size_t i = 0; i < spots; i++) {
			if (of_pool(&c, &d->pools[i])) {
				d->pools[i].advisor_lo = (double)lo / 100.0;
				d->pools[i].advisor_hi = (double)hi / 100.0;
			}
		}
	}
	return more == 0;
}

static bool pools_load(struct arena *a, const char *traces, const char *catalog, struct fs_data *d)
{
	static const char *const histories[] = { "gcp_regions_2023-05_2026-07",
		"azure_regions_2026-04_2026-05", "aws_region-average_2025-03_2026-01" };
	size_t n = ARRAY_LEN(mappings);

	for (size_t i = 0; i < n; i++) {
		const struct mapping *m = &mappings[i];
		struct fs_pool *p = &d->pools[i];

		*p = (struct fs_pool){ .provider = m->provider,
			.region = m->region,
			.zone = m->zone,
			.type = m->type,
			.gpu = m->gpu,
			.gpu_milli = m->gpus * 1000,
			.vcpus = 8,
			.mem_mib = 65536,
			.market = SPOT_MARKET_SPOT,
			.advisor_lo = -1,
			.advisor_hi = -1 };
		for (size_t k = 0; k < ARRAY_LEN(notices); k++) {
			p->notice_us = strcmp(notices[k].provider, m->provider) == 0
			    ? notices[k].notice_s * SPOT_US_PER_S
			    : p->notice_us;
		}
		d->from[i] = m;
		if (!room_load(a, traces, m, p) ||
		    (m->prices != NULL && !prices_load(a, traces, m, p))) {
			return false;
		}
	}
	d->pools_n = n;
	for (size_t k = 0; k < ARRAY_LEN(histories); k++) {
		if (!history_load(a,
			arena_printf(a, "%s/spot_history/%s.csv", catalog, histories[k]), d->pools,
			n)) {
			return false;
		}
	}
	if (!today_load(a, arena_printf(a, "%s/prices.csv", catalog), d, n) ||
	    !advisor_load(a, arena_printf(a, "%s/interruption.csv", catalog), d, n)) {
		return false;
	}
	for (size_t i = 0; i < d->pools_n; i++) {
		d->dated[i] = d->pools[i].price_wrap_us == 0;
		if (d->pools[i].prices_n == 0) {
			fprintf(stderr, "%s %s: no price\n", d->pools[i].region, d->pools[i].type);
			return false;
		}
	}
	return true;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static bool jobs_load(struct arena *a, const char *path, struct fs_data *d)
{
	struct spot_err err = { 0 };
	struct csv c;
	int more;

	if (!csv_file(a, path, &c)) {
		return false;
	}
	while ((more = csv_next(&c, &err)) > 0) {
		int64_t submit, duration, gpus;

		d->rows_all++;
		if (!parse_i64(csv_get(&c, "submission_s"), 0, INT32_MAX, &submit) ||
		    !parse_i64(csv_get(&c, "duration_s"), WORK_MIN_S, WORK_MAX_S, &duration) ||
		    !parse_i64(csv_get(&c, "gpus"), 1, 8, &gpus) || (gpus != 1 && gpus != 8)) {
			continue;
		}
		d->rows = arena_grow(a, d->rows, d->rows_n, &d->rows_cap, sizeof(*d->rows));
		d->rows[d->rows_n++] = (struct fs_row){ submit, duration, (int32_t)gpus };
	}
	return more == 0 && d->rows_n > 0;
}

const struct fs_data *fs_load(struct arena *a, const char *traces_dir, const char *catalog_dir,
    const char *jobs_csv)
{
	struct fs_data *d = arena_alloc(a, sizeof(*d));

	return pools_load(a, traces_dir, catalog_dir, d) && jobs_load(a, jobs_csv, d) ? d : NULL;
}

void fs_data_words(const struct fs_data *d, size_t *ret_rows, size_t *ret_used)
{
	*ret_rows = d->rows_all;
	*ret_used = d->rows_n;
}

static double normal_draw(struct rng *r)
{
	return sqrt(-2 * log(1 - rng_unit(r))) * cos(2 * M_PI * rng_unit(r));
}

/* Draws the fields that the published list lacks: GPU model, checkpoint size, deadline. */
static void job_make(struct rng *r, const struct fs_row *row, int64_t from_s, struct fs_job *j)
{
	bool h100 = rng_unit(r) < 0.5, due = rng_unit(r) < 0.5;
	double gb = exp(log(4.0) + 0.8 * normal_draw(r)), share = 0.5 + 0.4 * rng_unit(r);

	*j = (struct fs_job){ .submit_us = (row->submit_s - from_s) * SPOT_US_PER_S,
		.work_us = row->duration_s * SPOT_US_PER_S,
		.gpus = row->gpus };
	h100 = h100 && row->gpus == 1;
	j->gpu = h100 ? "H100" : "V100";
	j->store_provider = h100 ? "gcp" : "aws";
	j->store_region = h100 ? "us-central1" : "us-east-1";
	gb = MIN(MAX(gb, 0.2), 40) * (row->gpus > 1 ? 2 : 1);
	j->checkpoint_bytes = (int64_t)(gb * 1e9);
	j->save_us = (int64_t)((5 + gb / 0.5) * 1e6);
	if (due) {
		j->deadline_us =
		    j->submit_us + (int64_t)((double)j->work_us / share) + SPOT_US_PER_HOUR / 2;
	}
}

static void jobs_make(struct arena *a, const struct fs_data *d, const struct fs_plan *plan,
    struct rng *r, struct fs_world *w)
{
	int64_t span = plan->days * 86400, last = d->rows[d->rows_n - 1].submit_s - span;
	int64_t from = last > 0 ? (int64_t)rng_below(r, (uint64_t)last / 86400 + 1) * 86400 : 0;
	size_t in = 0, left;

	for (size_t i = 0; i < d->rows_n; i++) {
		in += d->rows[i].submit_s >= from && d->rows[i].submit_s < from + span;
	}
	left = MIN((size_t)plan->jobs, in);
	w->jobs = arena_array(a, left + 1, sizeof(*w->jobs));
	/* Selection sampling (Knuth, TAOCP 2, 3.4.2 S): each job is as likely, their order
	 * stays. */
	for (size_t i = 0; i < d->rows_n && left > 0; i++) {
		if (d->rows[i].submit_s < from || d->rows[i].submit_s >= from + span) {
			continue;
		}
		if (rng_below(r, in--) < left) {
			job_make(r, &d->rows[i], from, &w->jobs[w->jobs_n++]);
			left--;
		}
	}
}

bool fs_world_make(struct arena *a, const struct fs_data *d, const struct fs_plan *plan,
    struct fs_world *ret)
{
	int64_t first, shifts[SETS];
	struct rng r;

	rng_seeded_init(&r, plan->seed);
	/* A day of the year for which the price histories overlap. */
	if (!parse_time_us("2025-06-05T00:00:00Z", &first)) {
		return false;
	}
	*ret = (struct fs_world){ .epoch_us = first + (int64_t)rng_below(&r, 320) * DAY_US,
		.pools_n = d->pools_n,
		.boot_us = 180 * SPOT_US_PER_S,
		.restore_us = 60 * SPOT_US_PER_S,
		.notice_heard = 0.95,
		.seed = plan->seed };
	for (size_t i = 0; i < SETS; i++) {
		shifts[i] = (int64_t)rng_below(&r, 45) * DAY_US;
	}
	for (size_t i = 0; i < d->pools_n; i++) {
		struct fs_pool *p = &ret->pools[i];

		*p = d->pools[i];
		if (d->from[i] != NULL) {
			p->shift_us = shifts[d->from[i]->set] + d->from[i]->turned * DAY_US;
		}
		p->price_shift_us = d->dated[i] ? ret->epoch_us : p->shift_us;
	}
	jobs_make(a, d, plan, &r, ret);
	return ret->jobs_n > 0;
}
