#include "base/base.h"
#include "base/arena.h"
#include "store/price.h"
#include "store/q.h"

#define ROW_BYTES_MAX 256 /* the fixed fields and a source's name */

static void rows_copy(struct price_ingest *p, const struct spot_price_point *points,
    const int32_t *pool_ids, size_t n)
{
	assert(n <= PRICE_BATCH_MAX);
	pg_copy_begin(&p->copy, (n + 1) * ROW_BYTES_MAX);
	for (size_t i = 0; i < n; i++) {
		pg_copy_row(&p->copy, 5);
		pg_copy_i32(&p->copy, pool_ids[i]);
		pg_copy_i64(&p->copy, points[i].observed_us);
		pg_copy_i64(&p->copy, points[i].effective_us);
		pg_copy_i64(&p->copy, points[i].price_micros);
		pg_copy_text(&p->copy, points[i].source == NULL ? "" : points[i].source);
	}
}

void price_ingest(struct pg *pg, struct price_ingest *p, const struct spot_price_point *points,
    const int32_t *pool_ids, size_t n, void (*done)(struct op *))
{
	rows_copy(p, points, pool_ids, n);
	pg_copy_send(pg, &p->copy, q_stmt_copy_merge_prices.setup, q_stmt_copy_merge_prices.copy,
	    &q_stmt_copy_merge_prices, done);
}

void price_ingest_past(struct pg *pg, struct price_ingest *p, const struct spot_price_point *points,
    const int32_t *pool_ids, size_t n, void (*done)(struct op *))
{
	rows_copy(p, points, pool_ids, n);
	pg_copy_send(pg, &p->copy, q_stmt_copy_merge_past.setup, q_stmt_copy_merge_past.copy,
	    &q_stmt_copy_merge_past, done);
}

struct price_ingested price_ingest_result(const struct price_ingest *p)
{
	AUTO(arena) struct arena *a = arena_new(1 << 16);
	struct q_copy_merge_prices_row *row;
	struct price_ingested ret = { 0 };

	if (q_copy_merge_prices_rows_of(p->copy.result, a, &row) == 1) {
		ret = (struct price_ingested){ row->received, row->changed, row->pools };
	}
	return ret;
}

void price_ingest_fini(struct price_ingest *p)
{
	pg_copy_fini(&p->copy);
}
