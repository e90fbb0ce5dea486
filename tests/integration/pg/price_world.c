#include "price_world.h"

#include "store/q.h"

void prices_pools_make(int n)
{
	char sql[600];

	(void)snprintf(sql, sizeof(sql),
	    "INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, "
	    "gpu_name, gpu_milli, gpu_mem_mib, vcpus, mem_mib, arch, quota_class, offered, "
	    "seen_us) "
	    "SELECT 'p', 'r', 'z' || i, '', 't', 'spot', 'H100', 1000, 80000, 8, 1000, 'x86_64', "
	    "'', true, 1 "
	    "FROM generate_series(1, %d) i",
	    n);
	testdb_exec(dsn, sql);
}

int64_t prices_partitions(int64_t from_us, int64_t to_us)
{
	struct q_price_partitions_ensure_row *row;
	struct pg_req req = { 0 };
	int64_t n;

	q_price_partitions_ensure(pg, &req, &(struct q_price_partitions_ensure){ from_us, to_us },
	    no_done);
	assert_true(test_op_wait(&req.op));
	assert_string_equal(req.op.err.text, "");
	assert_int_equal(q_price_partitions_ensure_rows(&req, arena, &row), 1);
	n = row->made;
	pg_req_fini(&req);
	return n;
}

struct price_ingested prices_ingest_by(const struct point *in, size_t n,
    void (*f)(struct pg *, struct price_ingest *, const struct spot_price_point *, const int32_t *,
	size_t, void (*)(struct op *)))
{
	struct spot_price_point *points = arena_array(arena, n, sizeof(*points));
	int32_t *ids = arena_array(arena, n, sizeof(*ids));
	struct price_ingest p = { 0 };
	struct price_ingested ret;

	for (size_t i = 0; i < n; i++) {
		ids[i] = in[i].pool;
		points[i] = (struct spot_price_point){ .price_micros = in[i].micros,
			.source = "test",
			.effective_us = in[i].effective_us,
			.observed_us = in[i].observed_us };
	}
	f(pg, &p, points, ids, n, no_done);
	assert_true(test_op_wait(&p.copy.op));
	assert_string_equal(p.copy.op.err.text, "");
	ret = price_ingest_result(&p);
	price_ingest_fini(&p);
	return ret;
}

static void ingest_alone(struct pg *db, struct price_ingest *p,
    const struct spot_price_point *points, const int32_t *pool_ids, size_t n,
    void (*done)(struct op *))
{
	price_ingest(db, p, NULL, points, pool_ids, n, done);
}

struct price_ingested prices_ingest(const struct point *in, size_t n)
{
	return prices_ingest_by(in, n, ingest_alone);
}

bool prices_still;

static void ingest_poll(struct pg *db, struct price_ingest *p,
    const struct spot_price_point *points, const int32_t *pool_ids, size_t n,
    void (*done)(struct op *))
{
	price_ingest(db, p,
	    &(struct price_feed){ "p", "r", "prices_spot", n > 0 ? points[0].observed_us : NOW_US,
		1, prices_still },
	    points, pool_ids, n, done);
}

struct price_ingested prices_poll(const struct point *in, size_t n)
{
	return prices_ingest_by(in, n, ingest_poll);
}
