/* Prices are stored as store/store.h says: new points, the latest, the faded mean, partitions. */
#include "base/base.h"
#include "store/store.h"
#include "store/q.h"
#include "price_world.h"
#include <math.h>

static void only_changes_are_appended_and_the_latest_is_confirmed(void **state)
{
	const struct point first[] = { { 1, 500, 0, NOW_US }, { 2, 700, NOW_US - 50, NOW_US } };
	const struct point same[] = { { 1, 500, 0, NOW_US + 60 },
		{ 2, 700, NOW_US - 50, NOW_US + 60 } };
	const struct point moved[] = { { 1, 510, 0, NOW_US + 120 },
		{ 2, 700, NOW_US - 50, NOW_US + 120 } };
	struct price_ingested got;

	(void)state;
	prices_pools_make(2);
	prices_partitions(NOW_US, NOW_US + PRICE_DAY_US);
	got = prices_ingest(first, 2);
	assert_int_equal(got.received, 2);
	assert_int_equal(got.changed, 2);
	assert_int_equal(prices_ingest(same, 2).changed, 0);
	assert_int_equal(testdb_int(dsn, "SELECT observed_us FROM pool_latest WHERE pool_id = 2"),
	    NOW_US + 60);
	assert_int_equal(testdb_int(dsn, "SELECT changed_us FROM pool_latest WHERE pool_id = 2"),
	    NOW_US - 50);
	assert_int_equal(prices_ingest(moved, 2).changed, 1);
	assert_int_equal(testdb_int(dsn, "SELECT price_micros FROM pool_latest WHERE pool_id = 1"),
	    510);
	assert_int_equal(testdb_int(dsn, "SELECT changed_us FROM pool_latest WHERE pool_id = 1"),
	    NOW_US + 120);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM price_point"), 3);
}

static void a_history_in_one_poll_keeps_its_order_and_is_stored_once(void **state)
{
	const struct point history[] = { { 1, 520, NOW_US - 100, NOW_US },
		{ 1, 500, NOW_US - 300, NOW_US }, { 1, 520, NOW_US - 50, NOW_US },
		{ 1, 510, NOW_US - 200, NOW_US } };

	(void)state;
	prices_pools_make(1);
	prices_partitions(NOW_US, NOW_US + 1);
	assert_int_equal(prices_ingest(history, 4).changed,
	    3); /* 520 twice in a row is one price */
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(price_micros::text, ' ' ORDER BY observed_us) "
				"FROM price_point"),
	    "500 510 520");
	assert_int_equal(testdb_int(dsn, "SELECT effective_us FROM pool_latest"), NOW_US - 50);
	assert_int_equal(prices_ingest(history, 4).changed, 0);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM price_point"), 3);
}

static void a_price_taken_back_to_an_old_value_is_a_change(void **state)
{
	const struct point a[] = { { 1, 500, 0, NOW_US } }, b[] = { { 1, 600, 0, NOW_US + 1 } },
			   c[] = { { 1, 500, 0, NOW_US + 2 } };

	(void)state;
	prices_pools_make(1);
	prices_partitions(NOW_US, NOW_US + 1);
	assert_int_equal(prices_ingest(a, 1).changed + prices_ingest(b, 1).changed +
		prices_ingest(c, 1).changed,
	    3);
}

/* The share of the faded past in which a price held, and sums of it: by the book, over the whole
 * history at once. */
static double held_weight(double from, double to, double at)
{
	const double fade_us = 7.0 * 86400e6;

	return to > from ? exp((to - at) / fade_us) - exp((from - at) / fade_us) : 0;
}

static void the_faded_mean_of_many_polls_is_that_of_the_history(void **state)
{
	struct point at[60];
	double w = 0, w1 = 0, w2 = 0, end;
	int64_t t = NOW_US - 40 * PRICE_DAY_US;
	struct rng r;
	size_t n = 0;

	(void)state;
	rng_seeded_init(&r, 9);
	prices_pools_make(1);
	prices_partitions(NOW_US - 41 * PRICE_DAY_US, NOW_US + 1);
	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		t += (int64_t)rng_below(&r, 15 * 3600) * SPOT_US_PER_S;
		at[i] = (struct point){ 1, 1000000 + (int64_t)rng_below(&r, 5) * 100000, t, 0 };
	}
	/* Polls that bring one to seven points each, some of them seen already, and a last one that
	 * only confirms. */
	while (n < ARRAY_LEN(at)) {
		size_t from = n > 2 ? n - rng_below(&r, 3) : n,
		       to = MIN(n + 1 + rng_below(&r, 6), ARRAY_LEN(at));

		for (size_t i = from; i < to; i++) {
			at[i].observed_us = at[to - 1].effective_us + SPOT_US_PER_HOUR / 10;
		}
		prices_ingest(&at[from], to - from);
		n = to;
	}
	at[n - 1].observed_us += 3 * PRICE_DAY_US;
	prices_ingest(&at[n - 1], 1);
	end = (double)at[n - 1].observed_us;
	for (size_t i = 0; i < n; i++) {
		double usd = (double)at[i].micros / 1e6;
		double share = held_weight((double)at[i].effective_us,
		    i + 1 < n ? (double)at[i + 1].effective_us : end, end);

		w += share;
		w1 += share * usd;
		w2 += share * usd * usd;
	}
	assert_true(w > 0.9 && w < 1);
	assert_int_equal(testdb_int(dsn,
			     arena_printf(arena,
				 "SELECT count(*) FROM pool_latest l, price_faded(l) f WHERE "
				 "abs(f.w - %.17g) < 1e-8 AND abs(f.w1 - %.17g) < 1e-8 AND "
				 "abs(f.w2 - %.17g) < 1e-8",
				 w, w1, w2)),
	    1);
}

/* Read at once or later, the past is the same: points, their order, the faded mean. */
static void the_past_may_come_after_the_price(void **state)
{
	const int64_t d = PRICE_DAY_US;
	const struct point past[] = { { 1, 500, NOW_US - 9 * d, NOW_US + 7 },
		{ 1, 700, NOW_US - 6 * d, NOW_US + 7 }, { 1, 700, NOW_US - 5 * d, NOW_US + 7 },
		{ 1, 600, NOW_US - 2 * d, NOW_US + 7 }, { 1, 900, NOW_US - d, NOW_US + 7 },
		{ 1, 650, NOW_US - d / 2, NOW_US + 7 }, { 2, 800, NOW_US - d, NOW_US + 7 } };
	const struct point now[] = { { 1, 900, NOW_US - d, NOW_US } },
			   later[] = { { 1, 650, NOW_US - d / 2, NOW_US + 3 } };
	struct price_ingested got;

	(void)state;
	prices_pools_make(2);
	prices_partitions(NOW_US, NOW_US + 1);
	prices_ingest(now, 1);
	prices_ingest(later, 1);
	got = prices_ingest_by(past, ARRAY_LEN(past), price_ingest_past);
	assert_int_equal(got.received, 7);
	/* 700 twice is one price; from 900 on we saw it ourselves; pool 2 has no price to put it
	 * before */
	assert_int_equal(got.changed, 3);
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(price_micros::text, ' ' ORDER BY observed_us) "
				"FROM price_point"),
	    "500 700 600 900 650");
	assert_int_equal(testdb_int(dsn, "SELECT price_micros FROM pool_latest"), 650);
	assert_int_equal(testdb_int(dsn,
			     "SELECT count(*) FROM (SELECT 604800e6::float8 AS c) c, pool_latest "
			     "l, LATERAL (SELECT "
			     "sum(exp((till - l.fade_us) / c) - exp((since - l.fade_us) / c)) AS "
			     "w, sum(price_micros / 1e6 * (exp((till - l.fade_us) / c) "
			     "- exp((since - l.fade_us) / c))) AS w1 FROM (SELECT price_micros, "
			     "effective_us AS since, lead(effective_us) OVER (ORDER BY "
			     "effective_us) AS till FROM price_point) h WHERE till IS NOT NULL) s "
			     "WHERE abs(s.w - l.fade_w) < 1e-9 AND abs(s.w1 - l.fade_1) < 1e-9 "
			     "AND l.fade_w > 0.5"),
	    1);
	got = prices_ingest_by(past, ARRAY_LEN(past), price_ingest_past);
	assert_int_equal(got.changed + got.pools, 0);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM price_point"), 5);
}

static void past_poll(const char *what, int want)
{
	struct q_market_past_pools q = { .provider = "p", .region = "r", .most = 1 };
	struct q_market_pools_of_row *rows;
	struct pg_req req = { 0 };
	int32_t ids[4];
	size_t n;

	q_market_past_pools(pg, &req, &q, no_done);
	assert_true(test_op_wait(&req.op));
	n = q_market_past_pools_rows(&req, arena, &rows);
	if (n != (size_t)want) {
		fail_msg("%s: %zu pools", what, n);
	}
	for (size_t i = 0; i < n; i++) {
		ids[i] = rows[i].id;
	}
	pg_req_fini(&req);
	q_market_past_done(pg, &req,
	    &(struct q_market_past_done){ .provider = "p",
		.region = "r",
		.pools = ids,
		.pools_n = n,
		.now_us = NOW_US,
		.rows_seen = 10,
		.fence = 1 },
	    no_done);
	assert_true(test_op_wait(&req.op));
	assert_string_equal(req.op.err.text, "");
	pg_req_fini(&req);
}

static void the_past_is_asked_for_by_types_and_once(void **state)
{
	(void)state;
	prices_pools_make(3);
	testdb_exec(dsn,
	    "INSERT INTO leader VALUES ('engine', 1, 'test', 0); UPDATE pool SET instance_type = "
	    "'u' WHERE id = 3; INSERT INTO feed (provider, region, feed, next_us) "
	    "VALUES ('p', 'r', 'prices_spot', 1), ('p', 'r', 'prices_past', 1)");
	past_poll("before the current prices", 0);
	testdb_exec(dsn, "UPDATE feed SET last_ok_us = 5 WHERE feed = 'prices_spot'");
	past_poll("both zones of the first type", 2);
	past_poll("the second type", 1);
	past_poll("all are read", 0);
	assert_int_equal(testdb_int(dsn, "SELECT rows_seen FROM feed WHERE feed = 'prices_past'"),
	    40);
}

/* Stores a poll of a region, or of all (""), with these capacities of two types ('.' = none) and a
 * placement score of the first. Checks all stored signals. */
static void signals_are(const char *region, const char *told, const char *want)
{
	const struct q_market_signals_put_signal all[] = {
		{ "r", "", "a", "", "capacity", told[0] - '0', 0, 0, 0, "" },
		{ "r", "", "b", "", "capacity", told[1] - '0', 0, 0, 0, "" },
		{ "r", "", "a", "", "placement_score", 5, 0, 0, 0, "" },
	};
	struct pg_req req = { 0 };
	size_t from = told[0] == '.' ? 1 : 0, to = told[1] == '.' ? 1 : 2;
	size_t n = from == 1 && to == 1 ? 0 : to == 2 && from == 0 ? 3 : to - from;

	q_market_signals_put(pg, &req,
	    &(struct q_market_signals_put){ .provider = "p",
		.region = region,
		.signal = all + from,
		.signal_n = n,
		.now_us = NOW_US,
		.fence = 1 },
	    no_done);
	assert_true(test_op_wait(&req.op));
	assert_string_equal(req.op.err.text, "");
	pg_req_fini(&req);
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(provider || region || instance_type || CASE "
				"kind WHEN 'capacity' THEN '' ELSE kind END || value, ' ' "
				"ORDER BY provider, region, instance_type, kind) FROM signal"),
	    want);
}

/* A pool that once had no capacity would never be asked for again, so nothing would correct it. */
static void capacity_that_is_told_no_more_is_not_known(void **state)
{
	(void)state;
	testdb_exec(dsn,
	    "INSERT INTO leader VALUES ('engine', 1, 'test', 0); INSERT INTO signal (provider, "
	    "region, zone, instance_type, market, kind, value, lo, hi, "
	    "as_of_us, source, observed_us) VALUES ('p', 's', '', 'a', '', 'capacity', 0, 0, 0, 0, "
	    "'', 1), ('o', 'r', '', 'a', '', 'capacity', 0, 0, 0, 0, '', 1)");
	signals_are("r", "01", "ora0 pra0 praplacement_score5 prb1 psa0");
	signals_are("r", ".0", "ora0 praplacement_score5 prb0 psa0");
	signals_are("r", "1.", "ora0 pra1 praplacement_score5 psa0");
	signals_are("r", "..", "ora0 praplacement_score5 psa0");
	signals_are("", "..", "ora0 praplacement_score5");
}

/* It is polled once an hour, the other signals more often. */
static void a_fulfilment_rate_stays_for_two_days(void **state)
{
	(void)state;
	testdb_exec(dsn,
	    "DELETE FROM signal; INSERT INTO leader VALUES ('engine', 1, 'test', 0) ON CONFLICT DO "
	    "NOTHING; INSERT INTO signal (provider, region, zone, instance_type, market, kind, "
	    "value, lo, hi, as_of_us, source, observed_us) VALUES ('p', 'r', 'z', 'a', 'spot', "
	    "'fulfilment', 0, 0, 1, 0, '', 1793000000000000 - 172800000000), ('p', 'r', 'z', 'b', "
	    "'spot', 'fulfilment', 0, 0, 1, 0, '', 1793000000000000 - 172800000001)");
	signals_are("r", "..", "prafulfilment0");
}

/* Pages that overlap: no reason to know none of its pools. */
static void a_pool_that_is_listed_twice_is_one(void **state)
{
	const struct q_market_pools_put_pool pools[] = {
		{ "r", "z", "", "t", SPOT_MARKET_SPOT, "H100", 1000, 1000, 1000, 1000, "", "" },
		{ "r", "y", "", "t", SPOT_MARKET_SPOT, "H100", 1000, 1000, 1000, 1000, "", "" },
		{ "r", "z", "", "t", SPOT_MARKET_SPOT, "H100", 1000, 1000, 1000, 1000, "", "" },
	};
	struct q_market_pools_put_row *row;
	struct pg_req req = { 0 };

	(void)state;
	testdb_exec(dsn, "INSERT INTO leader VALUES ('engine', 1, 'test', 0)");
	q_market_pools_put(pg, &req,
	    &(struct q_market_pools_put){ .provider = "p",
		.region = "r",
		.pool = pools,
		.pool_n = ARRAY_LEN(pools),
		.now_us = NOW_US,
		.fence = 1 },
	    no_done);
	assert_true(test_op_wait(&req.op));
	assert_string_equal(req.op.err.text, "");
	assert_int_equal(q_market_pools_put_rows(&req, arena, &row), 1);
	assert_int_equal(row->seen, 2);
	pg_req_fini(&req);
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(zone || instance_type || gpu_name, ' ' ORDER BY "
				"zone) FROM pool WHERE offered"),
	    "ytH100 ztH100");
}

static void clock_set_right(int64_t at_us, int64_t fence)
{
	struct pg_req req = { 0 };

	q_engine_clock_prices(pg, &req, &(struct q_engine_clock_prices){ at_us, fence }, no_done);
	assert_true(test_op_wait(&req.op));
	assert_string_equal(req.op.err.text, "");
	pg_req_fini(&req);
}

static int64_t billed_at(int32_t pool, int64_t at_us)
{
	struct q_engine_bill_prices_row *rows;
	struct pg_req req = { 0 };
	int64_t ret;

	q_engine_bill_prices(pg, &req,
	    &(struct q_engine_bill_prices){ .span =
						&(struct q_engine_bill_prices_span){
						    .node_id = 1,
						    .pool_id = pool,
						    .from_us = at_us,
						    .to_us = at_us + 1,
						},
		.span_n = 1 },
	    no_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(q_engine_bill_prices_rows(&req, arena, &rows), 1);
	ret = rows[0].price_micros;
	pg_req_fini(&req);
	return ret;
}

/* Our clock dates a list (pool 1), the provider's dates a history (pool 2). Both were read by a
 * clock that is five hours ahead. Prices read after its correction are newer, also once those five
 * hours have passed. A ledger line may name a price read then. */
static void prices_observed_by_a_clock_ahead_are_not_newer_than_later_ones(void **state)
{
	const int64_t h = SPOT_US_PER_HOUR;
	const struct point before[] = { { 1, 500, 0, NOW_US }, { 2, 700, NOW_US, NOW_US },
		{ 3, 900, NOW_US, NOW_US } };
	const struct point ahead[] = { { 1, 510, 0, NOW_US + 5 * h },
		{ 2, 710, NOW_US + 60, NOW_US + 5 * h }, { 2, 720, NOW_US + 120, NOW_US + 5 * h } };
	const struct point after[] = { { 1, 520, 0, NOW_US + h },
		{ 2, 730, NOW_US + h - 300, NOW_US + h } };

	(void)state;
	testdb_exec(dsn, "INSERT INTO leader VALUES ('engine', 1, 'test', 0)");
	prices_pools_make(3);
	prices_partitions(NOW_US, NOW_US + 8 * h);
	prices_ingest(before, 3);
	prices_ingest(ahead, 3);
	prices_poll(&before[2], 1);
	testdb_exec(dsn,
	    arena_printf(arena, "UPDATE price_round SET confirmed_us = %" PRId64, NOW_US + 5 * h));
	clock_set_right(NOW_US + h / 6, 2); /* by a daemon that does not lead */
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM price_misdated"), 0);
	clock_set_right(NOW_US + h / 6, 1);
	clock_set_right(NOW_US + h / 5, 1);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM price_misdated"), 3);
	assert_int_equal(testdb_int(dsn, "SELECT max(observed_us) FROM pool_price"),
	    NOW_US + h / 6);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM price_point"), 3 + 2 * 3);
	assert_int_equal(billed_at(1, NOW_US + h / 4), 510);
	assert_int_equal(billed_at(2, NOW_US + h / 4), 720);
	assert_int_equal(billed_at(3, NOW_US + h / 4), 900);
	assert_int_equal(prices_ingest(after, 2).changed, 2);
	for (int64_t at = NOW_US + 2 * h; at < NOW_US + 8 * h; at += h) {
		assert_int_equal(billed_at(1, at), 520);
		assert_int_equal(billed_at(2, at), 730);
	}
	assert_string_equal(testdb_text(dsn,
				"SELECT string_agg(price_micros::text, ' ' ORDER BY pool_id) FROM "
				"pool_latest"),
	    "520 730 900");
}

/* A price of 2006 is older than exp() can tell. */
static void a_price_from_long_ago_fills_the_past(void **state)
{
	const struct point old[] = { { 1, 500000, INT64_C(1136073600000000), NOW_US } };

	(void)state;
	prices_pools_make(1);
	prices_partitions(NOW_US, NOW_US + 1);
	prices_ingest(old, 1);
	assert_int_equal(testdb_int(dsn,
			     "SELECT count(*) FROM pool_latest l, price_faded(l) f WHERE abs(w - "
			     "1) < 1e-8 AND abs(w1 - 0.5) < 1e-8"),
	    1);
}

static void a_late_older_price_does_not_replace_the_latest(void **state)
{
	const struct point now[] = { { 1, 500, NOW_US, NOW_US } },
			   late[] = { { 1, 900, NOW_US - 1000, NOW_US + 5 } };

	(void)state;
	prices_pools_make(1);
	prices_partitions(NOW_US, NOW_US + 1);
	prices_ingest(now, 1);
	assert_int_equal(prices_ingest(late, 1).changed, 0);
	assert_int_equal(testdb_int(dsn, "SELECT price_micros FROM pool_latest"), 500);
}

/* Azure's list may say "since the 1st" of a price that its history dates to the 20th. */
static void a_list_that_dates_the_price_in_force_earlier_confirms_it(void **state)
{
	const struct point history[] = { { 1, 500, NOW_US - 300, NOW_US },
		{ 1, 520, NOW_US - 100, NOW_US } };
	const struct point list[] = { { 1, 520, NOW_US - 200, NOW_US + 60 } };
	const struct point late[] = { { 1, 520, NOW_US - 200, NOW_US + 90 },
		{ 1, 500, NOW_US - 150, NOW_US + 90 } };

	(void)state;
	prices_pools_make(1);
	prices_partitions(NOW_US, NOW_US + 1);
	assert_int_equal(prices_ingest(history, 2).changed, 2);
	testdb_exec(dsn, "UPDATE pool_latest SET state = 'stale'");
	assert_int_equal(prices_ingest(list, 1).changed, 0);
	assert_string_equal(testdb_text(dsn,
				"SELECT price_micros || ' ' || state FROM pool_latest"),
	    "520 fresh");
	assert_int_equal(testdb_int(dsn, "SELECT observed_us FROM pool_latest"), NOW_US + 60);
	assert_int_equal(testdb_int(dsn, "SELECT effective_us FROM pool_latest"), NOW_US - 100);
	assert_int_equal(testdb_int(dsn, "SELECT changed_us FROM pool_latest"), NOW_US - 100);
	/* Only the newest of a batch is the price in force. */
	assert_int_equal(prices_ingest(late, 2).pools, 0);
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM price_point"), 2);
}

static void a_frozen_pool_stays_frozen_until_its_price_moves(void **state)
{
	const struct point a[] = { { 1, 500, 0, NOW_US } }, b[] = { { 1, 500, 0, NOW_US + 1 } },
			   c[] = { { 1, 501, 0, NOW_US + 2 } };

	(void)state;
	prices_pools_make(1);
	prices_partitions(NOW_US, NOW_US + 1);
	prices_ingest(a, 1);
	testdb_exec(dsn, "UPDATE pool_latest SET state = 'frozen', why = 'no change for 9 days'");
	prices_ingest(b, 1);
	assert_string_equal(testdb_text(dsn, "SELECT state || why FROM pool_latest"),
	    "frozenno change for 9 days");
	prices_ingest(c, 1);
	assert_string_equal(testdb_text(dsn, "SELECT state || why FROM pool_latest"), "fresh");
}

static void a_batch_with_an_unknown_pool_is_refused_whole(void **state)
{
	struct spot_price_point points[2] = {
		{ .price_micros = 1, .observed_us = NOW_US, .source = "s" },
		{ .price_micros = 1, .observed_us = NOW_US, .source = "s" }
	};
	const int32_t ids[] = { 1, 99 };
	struct price_ingest p = { 0 };

	(void)state;
	prices_pools_make(1);
	prices_partitions(NOW_US, NOW_US + 1);
	price_ingest(pg, &p, NULL, points, ids, 2, no_done);
	assert_true(test_op_wait(&p.copy.op));
	assert_int_equal(p.copy.op.rc, SPOT_CONFLICT);
	assert_string_equal(p.copy.op.err.code, "pool_latest_pool_id_fkey");
	assert_int_equal(testdb_int(dsn, "SELECT count(*) FROM price_point"), 0);
	price_ingest_fini(&p);
}

static void all_latest_prices_and_a_pools_history_are_read(void **state)
{
	const struct point in[] = { { 1, 500, 0, NOW_US }, { 2, 700, 0, NOW_US },
		{ 1, 510, 0, NOW_US + 9 } };
	struct q_pool_latest_row *latest;
	struct q_price_history_pool_row *history;
	struct pg_req req = { 0 };

	(void)state;
	prices_pools_make(2);
	prices_partitions(NOW_US, NOW_US + 1);
	prices_ingest(in, 3);
	q_pool_latest_all(pg, &req, NULL, no_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(q_pool_latest_all_rows(&req, arena, &latest), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(latest[i].price_micros, latest[i].pool_id == 1 ? 510 : 700);
		assert_string_equal(latest[i].state, "fresh");
	}
	q_price_history_pool(pg, &req,
	    &(struct q_price_history_pool){ .pool_id = 1,
		.from_us = NOW_US - 10,
		.to_us = NOW_US + 10 },
	    no_done);
	assert_true(test_op_wait(&req.op));
	assert_int_equal(q_price_history_pool_rows(&req, arena, &history), 2);
	assert_int_equal(history[0].price_micros, 500);
	assert_int_equal(history[1].price_micros, 510);
	pg_req_fini(&req);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(only_changes_are_appended_and_the_latest_is_confirmed),
		T(a_history_in_one_poll_keeps_its_order_and_is_stored_once),
		T(a_price_taken_back_to_an_old_value_is_a_change),
		T(the_faded_mean_of_many_polls_is_that_of_the_history),
		T(the_past_may_come_after_the_price),
		T(the_past_is_asked_for_by_types_and_once),
		T(capacity_that_is_told_no_more_is_not_known),
		T(a_fulfilment_rate_stays_for_two_days),
		T(a_pool_that_is_listed_twice_is_one),
		T(prices_observed_by_a_clock_ahead_are_not_newer_than_later_ones),
		T(a_price_from_long_ago_fills_the_past),
		T(a_late_older_price_does_not_replace_the_latest),
		T(a_list_that_dates_the_price_in_force_earlier_confirms_it),
		T(a_frozen_pool_stays_frozen_until_its_price_moves),
		T(a_batch_with_an_unknown_pool_is_refused_whole),
		T(all_latest_prices_and_a_pools_history_are_read),
	};

	return STORE_TESTS(tests);
}
