/* The market kept in memory: it equals a fresh read of all rows, whoever wrote them, in whatever
 * order the transactions commit. */
#include "base/base.h"
#include "store/market/market.h"
#include "store/q.h"
#include "store_world.h"
#include <libpq-fe.h>
#include <math.h>

#define POOLS 60
#define STEPS 150

static struct rank_policy policy;

/* ---- a read ---------------------------------------------------------------------------------- */

struct reading {
	struct market_want want;
	struct market_snap *snap;
	bool over;
};

static void reading_over(struct market_want *w, struct market_snap *snap,
    const struct spot_err *err)
{
	struct reading *r = container_of(w, struct reading, want);

	if (snap == NULL) {
		print_error("%s\n", err->text);
	}
	r->snap = snap;
	r->over = true;
}

static bool is_over(void *arg)
{
	return ((struct reading *)arg)->over;
}

/* The market with everything that was committed before. */
static struct market_snap *market_read(struct market *m)
{
	struct reading r = { .want = { .then = reading_over } };

	market_need(m, &r.want, loop_mono_us(loop));
	assert_false(r.over);
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, is_over, &r));
	assert_non_null(r.snap);
	return r.snap;
}

static const struct offer *pool_of(const struct market_snap *s, int32_t id)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->offers[i].pool_id == id) {
			return &s->offers[i];
		}
	}
	fail_msg("p%d is no offer", id);
	return NULL;
}

/* ---- is it the same? ------------------------------------------------------------------------- */

static void near(double a, double b, const char *what, int32_t pool)
{
	if (fabs(a - b) > 1e-7 * fmax(fabs(a), fabs(b)) + 1e-12) {
		fail_msg("p%d: %s is %.12g, the rows say %.12g", pool, what, a, b);
	}
}

#define SAME(member) \
	if (a->member != b->member) { \
		fail_msg("p%d: %s is %" PRId64 ", the rows say %" PRId64, a->pool_id, #member, \
		    (int64_t)a->member, (int64_t)b->member); \
	}
#define NEAR(member) near(a->member, b->member, #member, a->pool_id)
#define TEXT(member) \
	assert_string_equal(a->member != NULL ? a->member : "", b->member != NULL ? b->member : "")

static void offer_equals(const struct offer *a, const struct offer *b)
{
	SAME(pool_id)
	SAME(price_micros)
	SAME(price_state)
	SAME(price_observed_us)
	SAME(cool_until_us)
	SAME(cool_refusals)
	SAME(has_odds)
	SAME(has_quota)
	SAME(quota_limit)
	SAME(quota_used)
	SAME(live_nodes)
	SAME(own_node_us)
	SAME(own_reclaims)
	SAME(own_launches)
	SAME(own_refusals)
	SAME(gpu_milli)
	SAME(vcpus)
	NEAR(capacity);
	NEAR(placement_score);
	NEAR(advisor_lo);
	NEAR(odds);
	NEAR(account_asked);
	NEAR(account_delivered);
	SAME(account_us);
	NEAR(price_mean);
	NEAR(price_var);
	NEAR(price_cover);
	NEAR(hazard);
	NEAR(hazard_hi);
	NEAR(launch);
	TEXT(gpu_name);
	TEXT(zone_name);
	TEXT(quota_class);
	TEXT(quota_unit);
	TEXT(cool_why);
	assert_true((a->record != NULL) == (b->record != NULL));
}

static void told_equals(const struct market_told *a, const struct market_told *b)
{
	assert_int_equal(a->effective_us, b->effective_us);
	assert_string_equal(a->price_why, b->price_why);
	assert_string_equal(a->source, b->source);
	assert_string_equal(a->signals, b->signals);
}

/* Pools without a price, and the order of a list by price. */
static void lists_equal(struct market_snap *kept, struct market_snap *fresh)
{
	const uint32_t *order = market_by_price(kept);

	for (size_t i = 0; i < kept->n; i++) {
		const struct offer *o = &kept->offers[order[i]], *next;

		told_equals(&kept->told[i], &fresh->told[i]);
		if (i + 1 < kept->n) {
			next = &kept->offers[order[i + 1]];
			assert_true(o->price_micros < next->price_micros ||
			    (o->price_micros == next->price_micros && o->pool_id < next->pool_id));
		}
	}
	assert_int_equal(kept->bare_n, fresh->bare_n);
	for (size_t i = 0; i < kept->bare_n; i++) {
		assert_int_equal(kept->bare[i].pool_id, fresh->bare[i].pool_id);
		assert_int_equal(kept->bare[i].vcpus, fresh->bare[i].vcpus);
		assert_ptr_equal(market_offer(kept, kept->bare[i].pool_id), &kept->bare[i]);
		told_equals(&kept->bare_told[i], &fresh->bare_told[i]);
	}
}

static void snap_equals(const struct market_snap *kept, const struct market_snap *fresh)
{
	assert_int_equal(kept->n, fresh->n);
	for (size_t i = 0; i < kept->n; i++) {
		offer_equals(&kept->offers[i], &fresh->offers[i]);
	}
	assert_int_equal(kept->known, fresh->known);
	assert_int_equal(kept->sellers_known, fresh->sellers_known);
	assert_int_equal(kept->sellers_n, fresh->sellers_n);
	for (size_t i = 0; i < kept->sellers_n; i++) {
		assert_string_equal(kept->sellers[i], fresh->sellers[i]);
	}
}

/* The room of quotas by the nodes' rows, in another way than the market counts it. */
static void quotas_equal(PGconn *c, const struct market_snap *s)
{
	PGresult *r = PQexec(c,
	    "WITH u AS (SELECT p.provider, p.region, p.quota_class, p.market, count(*) AS n, "
	    "sum(p.vcpus) AS v, sum((p.gpu_milli + 999) / 1000) AS g FROM node n JOIN pool p ON "
	    "p.id = n.pool_id WHERE n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', "
	    "'READY', 'DRAINING') GROUP BY 1, 2, 3, 4) SELECT p.id, q.quota_limit, "
	    "coalesce((SELECT sum(CASE q.unit WHEN 'vcpu' THEN u.v WHEN 'gpus' THEN u.g ELSE u.n "
	    "END) FROM u WHERE u.provider = p.provider AND (q.region = '' OR u.region = p.region) "
	    "AND u.quota_class = p.quota_class AND u.market = p.market), 0) FROM pool p JOIN "
	    "pool_latest l ON l.pool_id = p.id LEFT JOIN LATERAL (SELECT * FROM quota q WHERE "
	    "q.provider = p.provider AND q.region IN ('', p.region) AND q.class = p.quota_class "
	    "AND q.market = p.market AND q.quota_limit >= 0 ORDER BY q.region DESC LIMIT 1) q ON "
	    "true WHERE p.offered ORDER BY p.id");

	assert_string_equal(PQresultErrorMessage(r), "");
	assert_int_equal(PQntuples(r), s->n);
	for (size_t i = 0; i < s->n; i++) {
		const struct offer *o = &s->offers[i];

		assert_int_equal(o->pool_id, strtol(PQgetvalue(r, (int)i, 0), NULL, 10));
		assert_int_equal(o->has_quota, !PQgetisnull(r, (int)i, 1));
		if (o->has_quota) {
			assert_int_equal(o->quota_limit,
			    strtol(PQgetvalue(r, (int)i, 1), NULL, 10));
			assert_int_equal(o->quota_used, strtol(PQgetvalue(r, (int)i, 2), NULL, 10));
		}
	}
	PQclear(r);
}

/* ---- random changes -------------------------------------------------------------------------- */

#define NOW_SQL "(extract(epoch FROM clock_timestamp()) * 1000000)::int8"

/* $1 is a pool, $2 any number below 1,000. */
static const char *const changes[] = {
	"UPDATE pool_latest SET price_micros = 100000 + $2, changed_us = " NOW_SQL
	", observed_us = " NOW_SQL " WHERE pool_id = $1",
	"UPDATE pool_latest SET observed_us = " NOW_SQL " WHERE pool_id BETWEEN $1 AND $1 + 9",
	"UPDATE pool_latest SET state = 'stale', why = 'x' WHERE pool_id = $1",
	"UPDATE price_round SET confirmed_us = " NOW_SQL " WHERE id = 1 + $2 % 3",
	"UPDATE price_round SET confirmed_us = confirmed_us - 60000000 WHERE id = 1 + $2 % 3",
	"UPDATE pool_latest SET round_id = 1 + $2 % 3 WHERE pool_id BETWEEN $1 AND $1 + 9",
	"DELETE FROM pool_latest WHERE pool_id = $1",
	"INSERT INTO pool_latest (pool_id, price_micros, observed_us, effective_us, changed_us, "
	"source, "
	"state, fade_us, fade_w, fade_1, fade_2) VALUES ($1, 5000 + $2, " NOW_SQL ", 1, 1, 't', "
	"'fresh', " NOW_SQL " - 3600000000, 0.5, 0.7, 1.1) ON CONFLICT (pool_id) DO UPDATE SET "
	"price_micros = EXCLUDED.price_micros",
	"UPDATE pool SET offered = NOT offered WHERE id = $1",
	"UPDATE pool SET vcpus = $2, quota_class = 'c' || $2 % 3 WHERE id = $1",
	"UPDATE pool SET seen_us = seen_us + 1",
	"INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, "
	"gpu_milli, "
	"gpu_mem_mib, vcpus, mem_mib, arch, quota_class, offered, seen_us) VALUES ('a', 'r1', "
	"'z9', 'z9', "
	"'new' || $2, 'spot', 'H100-80GB', 1000, 1, 8, 1, 'x86_64', 'c1', true, 1) ON CONFLICT DO "
	"NOTHING",
	"INSERT INTO pool_cool VALUES ($1, " NOW_SQL " + $2, 1, 'x', 'why ' || $2, 1) ON CONFLICT "
	"(pool_id) DO UPDATE SET until_us = EXCLUDED.until_us, why = EXCLUDED.why, refusals = "
	"pool_cool.refusals + 1",
	"DELETE FROM pool_cool WHERE pool_id = $1",
	"INSERT INTO pool_reclaim VALUES ($1, " NOW_SQL " - $2) ON CONFLICT (pool_id) DO UPDATE "
	"SET at_us = EXCLUDED.at_us",
	"DELETE FROM pool_reclaim WHERE pool_id = $1",
	"INSERT INTO signal SELECT p.provider, p.region, CASE WHEN $2 % 2 = 0 THEN p.zone ELSE "
	"'' END, "
	"p.instance_type, p.market, (ARRAY['advisor_bucket', 'capacity', 'obtainability', "
	"'placement_score'])[1 + $2 % 4], ($2 % 9) / 9.0, 0.05, 0.1, 7, " NOW_SQL
	", 't' FROM pool p "
	"WHERE id = $1 ON CONFLICT (provider, region, zone, instance_type, market, kind) DO "
	"UPDATE SET "
	"value = EXCLUDED.value",
	"INSERT INTO signal SELECT provider, region, zone, instance_type, market, 'fulfilment', "
	"0.5, $2 % 9, 2 * ($2 % 9), " NOW_SQL ", " NOW_SQL ", 't' FROM pool WHERE id = $1 ON "
	"CONFLICT (provider, region, zone, instance_type, market, kind) DO UPDATE SET lo = "
	"EXCLUDED.lo, hi = EXCLUDED.hi, as_of_us = EXCLUDED.as_of_us",
	"DELETE FROM signal s USING pool p WHERE p.id = $1 AND s.instance_type = p.instance_type "
	"AND "
	"s.kind = 'capacity'",
	"INSERT INTO quota VALUES ('a', (ARRAY['', 'r0', 'r1'])[1 + $2 % 3], 'c' || $2 % 3, "
	"'spot', "
	"(ARRAY['vcpu', 'gpus', 'instances'])[1 + $2 % 3], $2, 1) ON CONFLICT (provider, "
	"region, class, "
	"market) DO UPDATE SET quota_limit = EXCLUDED.quota_limit",
	"DELETE FROM quota WHERE region = 'r1'",
	"INSERT INTO pool_day (pool_id, day, node_us, reclaims, launches, refusals) VALUES "
	"($1, " NOW_SQL
	" / 86400000000, 3600000000, 1, 2, 1) ON CONFLICT (pool_id, day) DO UPDATE SET reclaims = "
	"pool_day.reclaims + 1",
	"INSERT INTO pool_hour (pool_id, at_hour, node_us, launches) VALUES ($1, " NOW_SQL
	" / 3600000000, 3600000000, 1) ON CONFLICT (pool_id, at_hour) DO UPDATE SET refusals = "
	"pool_hour.refusals + 1",
	"INSERT INTO pool_habit (pool_id, record, at_us) VALUES ($1, '1 2 0.5 0.5 9 1 1 0.5 0.5 "
	"1 0 0 0 1 0 "
	"0 0 0.1 0 0 0', 1) ON CONFLICT (pool_id) DO UPDATE SET record = '1 3 0.5 0.5 9 1 1 0.5 "
	"0.5 1 0 0 0 1 "
	"0 0 0 0.1 0 0 0'",
	"INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us) SELECT "
	"$1, "
	"'WANTED', 1, gen_random_uuid(), gen_random_uuid(), 1, 1 FROM generate_series(0, $2 % "
	"3)",
	"UPDATE node SET state = (ARRAY['BOOTING', 'READY', 'TERMINATING', 'GONE'])[1 + $2 % 4] "
	"WHERE "
	"pool_id = $1",
	"UPDATE node SET pool_id = $1 WHERE id = (SELECT max(id) FROM node)",
	"DELETE FROM node WHERE id = (SELECT min(id) FROM node)",
	"UPDATE node SET last_seen_us = 5",
	"INSERT INTO provider (name, kind, account, state, updated_us, sells_spot) VALUES ('a', "
	"'a', '', 'ok', 1, "
	"$2 % 2 = 0) ON CONFLICT (name) DO UPDATE SET sells_spot = EXCLUDED.sells_spot",
};

static void sql(PGconn *c, const char *text)
{
	PGresult *r = PQexec(c, text);

	if (PQresultStatus(r) == PGRES_FATAL_ERROR) {
		fail_msg("%s: %s", text, PQerrorMessage(c));
	}
	PQclear(r);
}

static void change(PGconn *c, struct rng *rng)
{
	static const Oid types[] = { 23, 23 };
	const char *text = changes[rng_below(rng, ARRAY_LEN(changes))];
	char pool[16], any[16];
	const char *const params[] = { pool, any };
	PGresult *r;

	snprintf(pool, sizeof(pool), "%d", (int)rng_below(rng, POOLS) + 1);
	snprintf(any, sizeof(any), "%d", (int)rng_below(rng, 1000));
	r = PQexecParams(c, text, 2, types, params, NULL, NULL, 0);
	if (PQresultStatus(r) != PGRES_COMMAND_OK) {
		fail_msg("%s: %s", text, PQerrorMessage(c));
	}
	PQclear(r);
}

static void pools_add(PGconn *c)
{
	sql(c,
	    "INSERT INTO price_round (provider, region, feed, confirmed_us) SELECT 'a', 'r' || i, "
	    "'prices_spot', 1 FROM generate_series(0, 2) i");
	sql(c,
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, "
	    "gpu_milli, "
	    "gpu_mem_mib, vcpus, mem_mib, arch, quota_class, offered, seen_us) SELECT 'a', 'r' || "
	    "i % 2, "
	    "CASE WHEN i % 5 = 0 THEN '' ELSE 'z' || i % 3 END, 'z', 't' || i / 2, CASE WHEN i % 4 "
	    "= 3 THEN "
	    "'on_demand' ELSE 'spot' END, 'H100-80GB', 1000 * (1 + i % 2), 81920, 16, 1024, "
	    "'x86_64', 'c' || "
	    "i % 3, true, 1 FROM generate_series(1, 80) i");
	sql(c,
	    "INSERT INTO pool_latest (pool_id, price_micros, observed_us, effective_us, "
	    "changed_us, source, "
	    "state) SELECT id, 1000000 + id, 1, 1, 1, 't', 'fresh' FROM pool WHERE id % 7 > 0 OR "
	    "id > 70");
}

/* Changes pools that the other connection leaves alone, so that it never waits for us. */
static void late_begin(PGconn *c, int any)
{
	char text[1024];

	snprintf(text, sizeof(text),
	    "BEGIN; UPDATE pool_latest SET price_micros = 2000000 + %d WHERE pool_id = 71; INSERT "
	    "INTO pool_cool VALUES (72, " NOW_SQL " + %d, 1, 'x', 'late', 1) ON CONFLICT (pool_id) "
	    "DO UPDATE SET until_us = EXCLUDED.until_us; INSERT INTO node (pool_id, state, "
	    "state_us, token, name, price_micros, created_us) VALUES (73, 'READY', 1, "
	    "gen_random_uuid(), gen_random_uuid(), 1, 1); INSERT INTO signal SELECT provider, "
	    "region, zone, instance_type, market, 'capacity', %d, 0, 1, 1, %d, 't' FROM pool WHERE "
	    "id = 74 ON CONFLICT (provider, region, zone, instance_type, market, kind) DO UPDATE "
	    "SET value = EXCLUDED.value, observed_us = EXCLUDED.observed_us",
	    any, any, any % 2, any);
	sql(c, text);
}

/* One connection commits at once. The other keeps transactions open over some of those commits. */
static void test_the_kept_market_equals_the_rows(void **state)
{
	struct market *kept;
	PGconn *now = PQconnectdb(dsn), *late = PQconnectdb(dsn);
	struct rng rng;
	int open = 0;

	(void)state;
	rng_seeded_init(&rng, 7);
	rank_policy_default(&policy);
	sql(now, "SET lock_timeout = '10s'");
	pools_add(now);
	kept = market_new(loop, pg, &policy);
	market_tell(kept);
	for (int i = 0; i < STEPS; i++) {
		struct market *fresh = market_new(loop, pg, &policy);
		struct market_snap *a, *b;

		market_tell(fresh);
		if (open == 0 && rng_below(&rng, 4) == 0) {
			late_begin(late, (int)rng_below(&rng, 1000));
			open = 1 + (int)rng_below(&rng, 6);
		} else if (open > 0 && --open == 0) {
			sql(late, "COMMIT");
		}
		for (uint64_t k = rng_below(&rng, 3); k > 0; k--) {
			change(now, &rng);
		}
		market_policy_set(kept, &policy); /* confirmations at once */
		a = market_read(kept);
		b = market_read(fresh);
		snap_equals(a, b);
		lists_equal(a, b);
		quotas_equal(now, a);
		market_drop(a);
		market_drop(b);
		market_free(fresh);
	}
	assert_int_equal(market_stats(kept).refreshes, STEPS);
	assert_true(market_stats(kept).reads < STEPS); /* many steps changed nothing */
	market_free(kept);
	PQfinish(now);
	PQfinish(late);
}

static bool is_past(void *arg)
{
	return loop_wall_us(loop) > *(const int64_t *)arg;
}

/* Nothing is written when the signal grows too old. */
static void test_odds_expire_by_themselves(void **state)
{
	PGconn *c = PQconnectdb(dsn);
	int64_t until = loop_wall_us(loop) + 500000;
	struct market_snap *s;
	struct market *m;
	char text[512];

	(void)state;
	rank_policy_default(&policy);
	pools_add(c);
	m = market_new(loop, pg, &policy);
	market_drop(market_read(m));
	snprintf(text, sizeof(text),
	    "INSERT INTO signal SELECT provider, region, zone, instance_type, market, "
	    "'obtainability', 0.4, 0, 0, 1, %" PRId64 ", 't' FROM pool WHERE id = 71",
	    until - 1800 * SPOT_US_PER_S);
	sql(c, text);
	s = market_read(m);
	assert_true(pool_of(s, 71)->has_odds);
	market_drop(s);
	assert_true(test_until(loop, 60 * SPOT_US_PER_S, is_past, &until));
	s = market_read(m);
	assert_false(pool_of(s, 71)->has_odds);
	market_drop(s);
	market_free(m);
	PQfinish(c);
}

/* It is taken in several turns of the loop. */
static void test_a_full_read_of_many_pools_has_each_of_them_once(void **state)
{
	PGconn *c = PQconnectdb(dsn);
	struct market_snap *s;
	struct market *m;

	(void)state;
	rank_policy_default(&policy);
	pools_add(c);
	sql(c,
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, "
	    "gpu_milli, gpu_mem_mib, vcpus, mem_mib, arch, quota_class, offered, seen_us) SELECT "
	    "provider, region, zone, zone_name, 'more' || i, market, gpu_name, gpu_milli, "
	    "gpu_mem_mib, vcpus, mem_mib, arch, quota_class, true, 1 FROM pool, generate_series(1, "
	    "5000) i WHERE id = 71");
	sql(c,
	    "INSERT INTO pool_latest (pool_id, price_micros, observed_us, effective_us, "
	    "changed_us, source, state) SELECT id, 1000000 + id, 1, 1, 1, 't', 'fresh' FROM pool "
	    "WHERE instance_type LIKE 'more%'");
	m = market_new(loop, pg, &policy);
	s = market_read(m);
	assert_true(s->n > 5000);
	for (size_t i = 0; i < s->n; i++) {
		assert_true(i == 0 || s->offers[i].pool_id > s->offers[i - 1].pool_id);
		assert_int_equal(s->offers[i].price_micros, 1000000 + s->offers[i].pool_id);
	}
	market_drop(s);
	market_free(m);
	PQfinish(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_odds_expire_by_themselves),
		T(test_the_kept_market_equals_the_rows),
		T(test_a_full_read_of_many_pools_has_each_of_them_once),
	};

	return STORE_TESTS(tests);
}
