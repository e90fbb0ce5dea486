/* Loading the market from data/, look-up, prices and stock. */
#include "base/base.h"
#include "cloudsim/sim/sim.h"
#include "base/text/text.h"

#define REGIONS_MAX 400
#define ZONES_MAX 1000
#define TYPES_MAX 1000
#define POOLS_MAX 40000

/* ---- loading --------------------------------------------------------------------------------- */

bool table_open(struct sim *s, struct table *t, const char *name, struct spot_err *err)
{
	char path[4096];
	struct str text;

	snprintf(path, sizeof(path), "%s/%s", s->conf.data_dir, name);
	t->name = name;
	t->err = err;
	if (!file_get(s->market->arena, path, &text)) {
		err_set(err, SPOT_CONFIG, "cannot read %s", path);
		return false;
	}
	return csv_open(&t->csv, s->market->arena, text, err) == SPOT_OK;
}

bool table_next(struct table *t)
{
	return csv_next(&t->csv, t->err) == 1;
}

const char *col(const struct table *t, const char *name)
{
	return csv_get(&t->csv, name);
}

int col_int(const struct table *t, const char *name)
{
	int64_t v = 0;

	if (!parse_i64(col(t, name), INT32_MIN, INT32_MAX, &v)) {
		return 0;
	}
	return (int)v;
}

int64_t col_usd(const struct table *t, const char *name)
{
	int64_t v = 0;

	return *col(t, name) && parse_usd_micros(col(t, name), &v) ? v : 0;
}

char *market_keep(struct market *m, const char *text)
{
	return arena_strdup(m->arena, text);
}

struct region *market_region_add(struct market *m, enum cloud c, const char *name)
{
	struct region *r = market_region(m, c, name);

	if (r) {
		return r;
	}
	r = &m->regions[m->regions_n++];
	assert(m->regions_n <= REGIONS_MAX);
	*r = (struct region){ .cloud = c, .name = market_keep(m, name), .enabled = true };
	return r;
}

struct zone *market_zone_add(struct market *m, struct region *r, const char *name, const char *id)
{
	struct zone *z = &m->zones[m->zones_n++];

	assert(m->zones_n <= ZONES_MAX);
	*z = (struct zone){ .region = r, .name = market_keep(m, name), .id = market_keep(m, id) };
	return z;
}

struct itype *market_type_add(struct market *m, enum cloud c, const char *name)
{
	struct itype *t = &m->types[m->types_n++];

	assert(m->types_n <= TYPES_MAX);
	*t = (struct itype){ .cloud = c, .name = market_keep(m, name), .current = true };
	return t;
}

/* Opt-in regions that our account has not enabled. */
static bool region_left_out(const char *name)
{
	return str_same(name, "af-south-1") || str_same(name, "ap-east-1") ||
	    str_same(name, "me-south-1");
}

static bool load_zones(struct sim *s, struct spot_err *err)
{
	struct market *m = s->market;
	struct table t;

	if (!table_open(s, &t, "aws_zones.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		struct region *r = market_region_add(m, CLOUD_AWS, col(&t, "region"));

		r->opt_in = str_same(col(&t, "opt_in"), "true");
		r->enabled = !(r->opt_in && region_left_out(r->name));
		m->zones[m->zones_n++] = (struct zone){ .region = r,
			.name = market_keep(m, col(&t, "zone")),
			.id = market_keep(m, col(&t, "zone_id")),
			.kind = market_keep(m, col(&t, "type")) };
	}
	if (!table_open(s, &t, "lambda_regions.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		market_region_add(m, CLOUD_LAMBDA, col(&t, "region"))->description =
		    market_keep(m, col(&t, "description"));
	}
	return true;
}

static bool load_types(struct sim *s, struct spot_err *err)
{
	struct market *m = s->market;
	struct table t;

	if (!table_open(s, &t, "aws_types.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		struct itype *y = &m->types[m->types_n++];

		*y = (struct itype){ .cloud = CLOUD_AWS,
			.name = market_keep(m, col(&t, "instance_type")),
			.gpu = market_keep(m, col(&t, "gpu")),
			.maker = market_keep(m, col(&t, "manufacturer")),
			.arch = market_keep(m, col(&t, "arch")),
			.network = market_keep(m, col(&t, "network")),
			.gpus = col_int(&t, "gpus"),
			.gpu_mem_mib = col_int(&t, "gpu_mem_mib"),
			.vcpus = col_int(&t, "vcpus"),
			.mem_mib = col_int(&t, "mem_mib"),
			.efa = col_int(&t, "efa"),
			.cards = col_int(&t, "cards"),
			.current = str_same(col(&t, "current"), "true") };
		if (!parse_f64(col(&t, "partition"), 0, 1, &y->partition)) {
			y->partition = 0;
		}
	}
	if (!table_open(s, &t, "lambda_types.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		m->types[m->types_n++] = (struct itype){ .cloud = CLOUD_LAMBDA,
			.name = market_keep(m, col(&t, "instance_type")),
			.description = market_keep(m, col(&t, "description")),
			.gpu = market_keep(m, col(&t, "gpu_description")),
			.vcpus = col_int(&t, "vcpus"),
			.mem_mib = col_int(&t, "memory_gib") * 1024,
			.gpus = col_int(&t, "gpus"),
			.storage_gib = col_int(&t, "storage_gib"),
			.cents = col_int(&t, "cents"),
			.current = true,
			.arch = market_keep(m,
			    strstr(col(&t, "instance_type"), "gh200") ? "arm64" : "x86_64") };
	}
	return true;
}

static void price_start(struct price_log *l, int64_t us, int64_t micros)
{
	l->at = calloc(4, sizeof(*l->at));
	if (!l->at) {
		abort();
	}
	l->cap = 4;
	l->sold = micros > 0;
	if (l->sold) {
		l->at[l->n++] = (struct price_at){ us, micros };
	}
}

struct pool *market_pool_add(struct sim *s, struct region *r, struct zone *z, struct itype *t,
    int64_t spot_micros, int64_t on_demand_micros)
{
	struct pool *p = &s->market->pools[s->market->pools_n++];
	int64_t since = s->start_us - 30 * SPOT_US_PER_HOUR;

	assert(s->market->pools_n <= POOLS_MAX);
	*p = (struct pool){ .cloud = t->cloud, .region = r, .zone = z, .type = t };
	price_start(&p->price[SIDE_SPOT], since, spot_micros);
	price_start(&p->price[SIDE_ON_DEMAND], since, on_demand_micros);
	p->stock[SIDE_SPOT] = p->stock[SIDE_ON_DEMAND] = STOCK_OPEN;
	return p;
}

/* Whether a Lambda type starts with capacity in a region. The share of regions falls with the size
 * and newness, after the availability counts in the provider notes (A100 always, B200 never). The
 * choice is fixed. */
static bool lambda_has(const char *type, const char *region)
{
	static const struct {
		const char *part;
		unsigned of100;
	} share[] = { { "b200", 0 }, { "8x_h100", 12 }, { "h100_sxm5", 15 }, { "gh200", 30 },
		{ "h100_pcie", 30 }, { "a100", 40 }, { "a10", 50 }, { "a6000", 40 } };
	unsigned h = 5381, of100 = 25;

	for (size_t i = 0; i < ARRAY_LEN(share); i++) {
		if (strstr(type, share[i].part)) {
			of100 = share[i].of100;
			break;
		}
	}
	for (const char *p = type; *p; p++) {
		h = h * 33 + (unsigned char)*p;
	}
	for (const char *p = region; *p; p++) {
		h = h * 33 + (unsigned char)*p;
	}
	return h % 100 < of100 || (of100 > 0 && str_same(region, "us-east-1"));
}

static bool load_pools(struct sim *s, struct spot_err *err)
{
	struct market *m = s->market;
	int64_t since = s->start_us - 30 * SPOT_US_PER_HOUR;
	struct table t;

	if (!table_open(s, &t, "aws_pools.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		struct pool *p = &m->pools[m->pools_n];

		p->cloud = CLOUD_AWS;
		p->region = market_region(m, CLOUD_AWS, col(&t, "region"));
		p->zone = market_zone(m, col(&t, "region"), col(&t, "zone_id"));
		p->type = market_type(m, CLOUD_AWS, col(&t, "instance_type"));
		if (!p->region || !p->zone || !p->type) {
			err_set(err, SPOT_CONFIG,
			    "aws_pools.csv line %d: unknown region, zone or type", t.csv.line);
			return false;
		}
		price_start(&p->price[SIDE_SPOT], since, col_usd(&t, "spot"));
		price_start(&p->price[SIDE_ON_DEMAND], since, col_usd(&t, "on_demand"));
		p->stock[SIDE_SPOT] = p->stock[SIDE_ON_DEMAND] = STOCK_OPEN;
		/* A zone's own price of 2026-04 is newer than the region averages: keep it. */
		p->price[SIDE_SPOT].held = str_prefix(col(&t, "as_of"), "2026-04");
		m->pools_n++;
	}
	for (size_t r = 0; r < m->regions_n; r++) {
		for (size_t y = 0; y < m->types_n; y++) {
			struct pool *p = &m->pools[m->pools_n];

			if (m->regions[r].cloud != CLOUD_LAMBDA ||
			    m->types[y].cloud != CLOUD_LAMBDA) {
				continue;
			}
			*p = (struct pool){ .cloud = CLOUD_LAMBDA,
				.region = &m->regions[r],
				.type = &m->types[y] };
			price_start(&p->price[SIDE_SPOT], since, 0);
			price_start(&p->price[SIDE_ON_DEMAND], since,
			    (int64_t)m->types[y].cents * 10000);
			p->advertised = lambda_has(p->type->name, p->region->name);
			p->stock[SIDE_ON_DEMAND] = p->advertised ? STOCK_OPEN : 0;
			m->pools_n++;
		}
	}
	return true;
}

/* ---- replay data ----------------------------------------------------------------------------- */

void market_replay_add(struct market *m, int64_t sim_us, struct pool *p, bool supply, int64_t value)
{
	m->replay =
	    arena_grow(m->arena, m->replay, m->replay_n, &m->replay_cap, sizeof(*m->replay));
	m->replay[m->replay_n++] =
	    (struct replay){ .sim_us = sim_us, .pool = p, .value = value, .supply = supply };
}

static bool anchor_of(struct sim *s, const char *source, int64_t *ret, struct spot_err *err)
{
	struct table t;

	if (!table_open(s, &t, "aws_anchor.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		if (str_same(col(&t, "source"), source)) {
			return parse_time_us(col(&t, "anchor"), ret);
		}
	}
	err_set(err, SPOT_CONFIG, "aws_anchor.csv has no %s", source);
	return false;
}

/* Rows before the start go into the log (real time before now), changes after it are replayed. The
 * first recorded price also stands for all time before it. */
static void history_point(struct sim *s, struct pool *p, int64_t us, int64_t micros)
{
	struct price_log *l = &p->price[SIDE_SPOT];

	if (!l->sold || micros <= 0) {
		return;
	}
	if (l->n == 1 && !p->recorded) {
		l->at[0] = (struct price_at){ MIN(us, s->start_us), micros };
		p->recorded = true;
		return;
	}
	if (us <= s->start_us) {
		price_append(l, us, micros);
	} else {
		market_replay_add(s->market, us, p, false, micros);
	}
}

/* The sources round spot prices to four decimals, on-demand prices not: a spot price that is the
 * on-demand price must not show above it. */
static void trim_rounding(struct pool *p)
{
	int64_t cap = price_at(&p->price[SIDE_ON_DEMAND], INT64_MAX);

	for (size_t k = 0; k < p->price[SIDE_SPOT].n; k++) {
		int64_t *micros = &p->price[SIDE_SPOT].at[k].micros;

		if (*micros > cap && *micros - cap <= 100) {
			*micros = cap;
		}
	}
}

/* The pools that a row of the record is for; rows of one series follow each other. */
struct series {
	char key[160];
	struct pool *pools[32];
	size_t n;
};

static void series_find(struct market *m, struct series *x, const struct table *t)
{
	const char *zone = col(t, "zone"), *region = col(t, "region"),
		   *type = col(t, "instance_type");
	char key[sizeof(x->key)];

	snprintf(key, sizeof(key), "%s|%s|%s", region, zone, type);
	if (str_same(x->key, key)) {
		return;
	}
	memcpy(x->key, key, sizeof(key));
	x->n = 0;
	for (size_t i = 0; i < m->pools_n; i++) {
		struct pool *p = &m->pools[i];

		/* A region average stands for the zones that have no record of their own. */
		if (p->cloud != CLOUD_AWS || !str_same(p->region->name, region) ||
		    !str_same(p->type->name, type) ||
		    !(*zone ? str_same(p->zone->name, zone) : !p->price[SIDE_SPOT].held)) {
			continue;
		}
		p->price[SIDE_SPOT].held = *zone != '\0';
		assert(x->n < ARRAY_LEN(x->pools));
		x->pools[x->n++] = p;
	}
}

static bool load_history(struct sim *s, struct spot_err *err)
{
	struct market *m = s->market;
	struct series x = { 0 };
	char source[64] = "";
	int64_t anchor = 0, at, micros;
	struct table t;

	if (!table_open(s, &t, "aws_history.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		if (!str_same(source, col(&t, "source"))) {
			if (!str_copy(source, sizeof(source), col(&t, "source")) ||
			    !anchor_of(s, source, &anchor, err)) {
				return false;
			}
		}
		if (!parse_time_us(col(&t, "timestamp"), &at) ||
		    !parse_usd_micros(col(&t, "spot"), &micros)) {
			err_set(err, SPOT_CONFIG, "aws_history.csv line %d: bad time or price",
			    t.csv.line);
			return false;
		}
		series_find(m, &x, &t);
		for (size_t i = 0; i < x.n; i++) {
			history_point(s, x.pools[i], at + s->start_us - anchor, micros);
		}
	}
	for (size_t i = 0; i < m->pools_n; i++) {
		m->pools[i].price[SIDE_SPOT].held = false;
		trim_rounding(&m->pools[i]);
	}
	return true;
}

static struct pool *supply_pool(struct market *m, const struct table *t)
{
	struct zone *z = market_zone(m, col(t, "region"), col(t, "zone"));

	return z ? market_pool(m, CLOUD_AWS, col(t, "region"), z, col(t, "instance_type")) : NULL;
}

static bool load_supply_row(struct sim *s, struct table *t, int64_t shift, struct spot_err *err)
{
	struct pool *p = supply_pool(s->market, t);
	int64_t gap = (int64_t)col_int(t, "gap_s") * SPOT_US_PER_S, at, value, runs, highest = 0;
	const char *c = col(t, "runs");
	char *end;

	if (!p || !parse_time_us(col(t, "start"), &at)) {
		err_set(err, SPOT_CONFIG, "aws_supply.csv line %d: unknown pool or time",
		    t->csv.line);
		return false;
	}
	for (const char *q = c; (q = strstr(q, "x")) != NULL; q++) {
		highest = MAX(highest, q > c && q[-1] > '1' ? 2 : 1);
	}
	at += shift;
	while (*c) {
		value = strtol(c, &end, 10);
		runs = *end == 'x' ? strtol(end + 1, &end, 10) : 0;
		if (runs <= 0) {
			err_set(err, SPOT_CONFIG, "aws_supply.csv line %d: bad run", t->csv.line);
			return false;
		}
		/* A trace of zeros and ones tells that an instance could be had, not how many. */
		market_replay_add(s->market, at, p, true,
		    highest > 1 ? value : value * s->conf.supply_unit);
		at += runs * gap;
		for (c = end; *c == ' '; c++)
			;
	}
	return true;
}

static bool load_supply(struct sim *s, struct spot_err *err)
{
	int64_t anchor;
	struct table t;

	if (str_same(s->conf.supply, "open")) {
		return true;
	}
	if (!anchor_of(s, s->conf.supply, &anchor, err) ||
	    !table_open(s, &t, "aws_supply.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		if (str_same(col(&t, "set"), s->conf.supply) &&
		    !load_supply_row(s, &t, s->start_us - anchor, err)) {
			return false;
		}
	}
	return true;
}

static int replay_cmp(const void *a, const void *b)
{
	const struct replay *x = a, *y = b;

	return (x->sim_us > y->sim_us) - (x->sim_us < y->sim_us);
}

static bool load_advisor(struct sim *s, struct spot_err *err)
{
	static const char head[] = "{\"global_rate\":\"<10%\",\"ranges\":[{\"index\":0,\"label\":"
				   "\"<5%\",\"dots\":0,\"max\":5},"
				   "{\"index\":1,\"label\":\"5-10%\",\"dots\":1,\"max\":11},{"
				   "\"index\":2,\"label\":\"10-15%\",\"dots\":2,\"max\":16},"
				   "{\"index\":3,\"label\":\"15-20%\",\"dots\":3,\"max\":22},{"
				   "\"index\":4,\"label\":\">20%\",\"dots\":4,\"max\":100}],"
				   "\"instance_types\":{";
	struct market *m = s->market;
	struct sbuf b AUTO(sbuf) = { 0 };
	char region[64] = "";
	const char *sep = "";
	struct table t;

	sbuf_init(&b, 4 << 20);
	sbuf_puts(&b, head);
	for (size_t i = 0; i < m->types_n; i++) {
		if (m->types[i].cloud != CLOUD_AWS) {
			continue;
		}
		sbuf_printf(&b, "%s\"%s\":{\"emr\":true,\"cores\":%d,\"ram_gb\":%.1f}", sep,
		    m->types[i].name, m->types[i].vcpus, m->types[i].mem_mib / 1024.0);
		sep = ",";
	}
	sbuf_puts(&b, "},\"spot_advisor\":{");
	if (!table_open(s, &t, "aws_advisor.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		if (str_same(region, col(&t, "region"))) {
			sbuf_putc(&b, ',');
		} else {
			sbuf_printf(&b, "%s\"%s\":{\"Linux\":{",
			    *region ? "},\"Windows\":{}}," : "", col(&t, "region"));
			if (!str_copy(region, sizeof(region), col(&t, "region"))) {
				return false;
			}
		}
		sbuf_printf(&b, "\"%s\":{\"s\":%d,\"r\":%d}", col(&t, "instance_type"),
		    col_int(&t, "savings"), col_int(&t, "bucket"));
	}
	sbuf_puts(&b, *region ? "},\"Windows\":{}}}}" : "}}");
	m->advisor_json = arena_strdup(m->arena, b.p);
	return true;
}

static void replay_due(struct loop_timer *t)
{
	market_replay(container_of(t, struct market, timer)->sim);
}

bool market_load(struct sim *s, struct spot_err *err)
{
	struct market *m = calloc(1, sizeof(*m));

	if (!m) {
		abort();
	}
	s->market = m;
	m->sim = s;
	m->arena = arena_new(0);
	m->regions = arena_array(m->arena, REGIONS_MAX, sizeof(*m->regions));
	m->zones = arena_array(m->arena, ZONES_MAX, sizeof(*m->zones));
	m->types = arena_array(m->arena, TYPES_MAX, sizeof(*m->types));
	m->pools = arena_array(m->arena, POOLS_MAX, sizeof(*m->pools));
	loop_timer_init(&m->timer, s->loop, replay_due);
	memset(err, 0, sizeof(*err));
	if (!load_zones(s, err) || !load_types(s, err) || !load_pools(s, err) ||
	    !load_history(s, err) || !load_supply(s, err) || !load_advisor(s, err) ||
	    err->rc != SPOT_OK) {
		return false;
	}
	market_replay_start(s);
	return true;
}

void market_replay_start(struct sim *s)
{
	struct market *m = s->market;

	if (m->replay_n > 0) {
		qsort(m->replay, m->replay_n, sizeof(*m->replay), replay_cmp);
	}
	market_replay(s);
}

void market_free(struct market *m)
{
	if (!m) {
		return;
	}
	loop_timer_stop(&m->timer);
	for (size_t i = 0; i < m->pools_n; i++) {
		free(m->pools[i].price[SIDE_SPOT].at);
		free(m->pools[i].price[SIDE_ON_DEMAND].at);
	}
	arena_free(m->arena);
	free(m);
}
