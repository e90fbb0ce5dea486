/* Between the files of this folder. */
#ifndef STORE_MARKET_PRIV_H
#define STORE_MARKET_PRIV_H

#include "base/base.h"
#include "store/market/market.h"
#include "store/q.h"

/* ---- rows.c: the pools as they were read ----------------------------------------------------- */

/* Texts of rows, each once. Snapshots hold them. A full read begins a new set. */
struct market_names {
	int holds;
	struct arena *arena;
	struct map texts;
};
struct market_names *names_new(void);
void names_drop(struct market_names *n); /* NULL accepted */
const char *names_text(struct market_names *n, const char *s);

struct pool_row {
	struct offer offer; /* without estimates, and without quota_used */
	int32_t counted; /* its nodes that count against a quota */
	bool offered;
	bool listed; /* false: of no use but for its nodes, or for lists */
	bool quota_wide; /* the quota is of all regions together */
	int64_t odds_us; /* when the odds were observed */
	int64_t round_id; /* confirms the price; 0 = none */
	/* sums of the price's past as of fade_us */
	int64_t fade_us;
	double fade_w, fade_1, fade_2;
	struct market_told told;
};
/* A poll found the prices of a round as they were. */
struct round {
	int64_t id, confirmed_us;
};
struct pool_rows {
	struct market_names *names;
	struct pool_row *list; /* by pool id; on the heap */
	size_t n, cap;
	int64_t odds_due_us; /* no odds expire before */
	bool told; /* market_tell() */
};
void rows_fini(struct pool_rows *rows);
/* Begins a full read of n rows. rows_add() takes each of them, in the order of the pools. */
void rows_begin(struct pool_rows *rows, size_t n, bool told);
void rows_add(struct pool_rows *rows, const struct q_offers_row *read);
/* Replaces the pools of ids by the rows read; both are ordered. */
void rows_some(struct pool_rows *rows, const int32_t *ids, size_t ids_n,
    const struct q_offers_row *read, size_t n);
struct pool_row *row_find(const struct pool_rows *rows, int32_t pool_id);
/* Appends the pools whose values may differ at now_us though nothing was written. */
void rows_due(struct pool_rows *rows, int64_t read_us, int64_t now_us, struct arena *a,
    int32_t **ids, size_t *n, size_t *cap);
/* Appends the pools that differ in any value. */
void rows_differ(const struct pool_rows *was, const struct pool_rows *now, struct arena *a,
    int32_t **ids, size_t *n, size_t *cap);
/* Moves the prices of these rounds up to their confirmations. Returns whether there were any. */
bool rows_confirm(struct pool_rows *rows, const struct round *rounds, size_t n);
/* Orders ids and removes repeats; returns how many are left. */
size_t ids_sort(int32_t *ids, size_t n);
bool ids_have(const int32_t *ids, size_t n, int32_t id);

/* ---- told.c ---------------------------------------------------------------------------------- */

struct market_told told_of(struct market_names *names, const struct q_offers_row *w);
bool told_same(const struct market_told *a, const struct market_told *b);
/* Fills what is told into a snapshot that has its offers. */
void told_fill(struct market_snap *s, const struct pool_rows *rows);

/* ---- snap.c ---------------------------------------------------------------------------------- */

/* sellers: as offers_moved returns it. */
struct market_snap *snap_make(const struct pool_rows *rows, const struct rank_policy *p,
    int64_t version, int64_t at_us, const char *sellers, bool known);

#endif
