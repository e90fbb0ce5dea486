#include "base/base.h"
#include "store/store.h"
#include "store/q.h"

#define ROW_BYTES_MAX 256 /* the fixed fields and a source's name */

static int id_cmp(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

/* Keeps of n sorted ids those that are there more than once, each once or more. */
static size_t ids_several(int32_t *ids, size_t n)
{
	size_t kept = 0;

	for (size_t i = 1; i < n; i++) {
		if (ids[i] == ids[i - 1]) {
			ids[kept++] = ids[i];
		}
	}
	return kept;
}

static void batch_begin(struct price_ingest *p, size_t n)
{
	assert(n <= PRICE_BATCH_MAX);
	p->n = n;
	pg_copy_begin(&p->copy, (n + 4) * ROW_BYTES_MAX);
}

static void row_copy(struct price_ingest *p, int32_t pool_id, const struct spot_price_point *point,
    bool several)
{
	pg_copy_row(&p->copy, 6);
	pg_copy_i32(&p->copy, pool_id);
	pg_copy_i64(&p->copy, point->observed_us);
	pg_copy_i64(&p->copy, point->effective_us);
	pg_copy_i64(&p->copy, point->price_micros);
	pg_copy_text(&p->copy, point->source == NULL ? "" : point->source);
	pg_copy_bool(&p->copy, several);
}

static void rows_copy(struct price_ingest *p, const struct spot_price_point *points,
    const int32_t *pool_ids, size_t n)
{
	int32_t *ids = calloc(n + 1, sizeof(*ids));
	size_t several_n;

	assert(ids != NULL);
	memcpy(ids, pool_ids, n * sizeof(*ids));
	qsort(ids, n, sizeof(*ids), id_cmp);
	several_n = ids_several(ids, n);
	for (size_t i = 0; i < n; i++) {
		row_copy(p, pool_ids[i], &points[i],
		    bsearch(&pool_ids[i], ids, several_n, sizeof(*ids), id_cmp) != NULL);
	}
	free(ids);
}

/* The feed's row, which the statement knows by its pool_id 0. It is the first, where it is found at
 * once. */
static void feed_copy(struct price_ingest *p, const struct price_feed *feed,
    const struct spot_price_point *points, size_t n)
{
	char name[ROW_BYTES_MAX * 2];
	struct spot_price_point row = { .observed_us = feed->polled_us,
		.effective_us = feed->fence,
		.price_micros = feed->still ? 0 : 1,
		.source = name };

	/* A confirmation must not be newer than any of its points. */
	for (size_t i = 0; i < n; i++) {
		row.observed_us = MIN(row.observed_us, points[i].observed_us);
	}
	(void)snprintf(name, sizeof(name), "%s\n%s\n%s", feed->provider, feed->region, feed->feed);
	row_copy(p, 0, &row, false);
}

void price_ingest(struct pg *pg, struct price_ingest *p, const struct price_feed *feed,
    const struct spot_price_point *points, const int32_t *pool_ids, size_t n,
    void (*done)(struct op *))
{
	batch_begin(p, n);
	if (feed != NULL) {
		feed_copy(p, feed, points, n);
	}
	rows_copy(p, points, pool_ids, n);
	pg_copy_send(pg, &p->copy, q_stmt_copy_merge_prices.setup, q_stmt_copy_merge_prices.copy,
	    &q_stmt_copy_merge_prices, done);
}

void price_ingest_past(struct pg *pg, struct price_ingest *p, const struct spot_price_point *points,
    const int32_t *pool_ids, size_t n, void (*done)(struct op *))
{
	batch_begin(p, n);
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
		/* The statement looks at no point that only confirms. */
		ret = (struct price_ingested){ (int64_t)p->n, row->changed,
			row->pools + (int64_t)p->n - row->looked };
	}
	return ret;
}

void price_ingest_fini(struct price_ingest *p)
{
	pg_copy_fini(&p->copy);
}
