/* Refreshes of the market, the wants that wait for them, and its housekeeping. */
#include "base/base.h"
#include "base/text/text.h"
#include "store/market/market_priv.h"

#define RECORD_DAYS 30
#define WORK_BYTES_MAX ((size_t)1 << 30)
#define FIRST_US SPOT_US_PER_S /* until the first read, if nobody asks before */
#define TICK_US (30 * SPOT_US_PER_S) /* no older without requests; keeps the changes few */
#define COMPARE_US (600 * SPOT_US_PER_S)
#define TRIM_MOST 20000
#define CONFIRM_US (60 * SPOT_US_PER_S)
/* A full read costs less than this share of the pools one by one. */
#define SOME_SHARE 8
#define SOME_LEAST 500
/* Rows of a full read that are taken in one turn of the loop: a few milliseconds. */
#define SLICE 2000

struct market {
	struct loop *loop;
	struct pg *pg;
	struct rank_policy policy;
	struct pool_rows rows;
	struct market_snap *snap;
	char *since; /* the database's snapshot that rows show; NULL = none */
	int64_t rows_us; /* wall: values that time changes are of then */
	int64_t read_us; /* mono: when the refresh behind snap began */
	int64_t compared_us; /* mono */
	int64_t version, reconnects;
	bool all, compare, renew; /* of the next refresh */
	bool confirmed; /* snap has older times of confirmation than the rows */
	/* pools that a comparison found different, unless the next refresh says they changed */
	int32_t *suspects;
	size_t suspects_n;

	/* the refresh under way */
	bool running, reads_all, compares;
	int64_t sent_us, at_us;
	struct arena *work;
	struct q_offers_moved_row *moved;
	int32_t *ids;
	size_t ids_n, ids_cap;
	struct round *rounds;
	size_t rounds_n;
	struct pg_req req;
	struct pool_rows fresh; /* of a full read, as far as they are taken */
	struct loop_timer slice;

	TAILQ_HEAD(, market_want) wants;
	struct loop_timer timer;
	struct pg_req trim;
	struct market_stats stats;
};

static void refresh_begin(struct market *m);

/* ---- wants ----------------------------------------------------------------------------------- */

static void wants_fail(struct market *m, const struct spot_err *err)
{
	TAILQ_HEAD(, market_want) all = TAILQ_HEAD_INITIALIZER(all);
	struct market_want *w;

	TAILQ_CONCAT(&all, &m->wants, link);
	while ((w = TAILQ_FIRST(&all)) != NULL) {
		TAILQ_REMOVE(&all, w, link);
		w->waits = false;
		w->then(w, NULL, err);
	}
}

/* Wants that came after the refresh began need another one. */
static void wants_serve(struct market *m)
{
	struct market_want *w = TAILQ_FIRST(&m->wants);

	while (w != NULL && w->since_us <= m->read_us) {
		TAILQ_REMOVE(&m->wants, w, link);
		w->waits = false;
		w->then(w, market_hold(m->snap), NULL);
		w = TAILQ_FIRST(&m->wants);
	}
	if (w != NULL) {
		refresh_begin(m);
	}
}

/* ---- a refresh ------------------------------------------------------------------------------- */

static void refresh_end(struct market *m)
{
	pg_req_fini(&m->req);
	rows_fini(&m->fresh);
	arena_free(m->work);
	m->work = NULL;
	m->ids = NULL;
	m->ids_n = m->ids_cap = 0;
	m->rounds = NULL;
	m->rounds_n = 0;
	m->running = false;
}

static void refresh_fail(struct market *m)
{
	struct spot_err err = m->req.op.err;

	err.rc = m->req.op.rc;
	log_warn("market.read", STR("rc", spot_rc_name(err.rc)), STR("error", err.text));
	m->all |= m->reads_all;
	m->compare |= m->compares;
	refresh_end(m);
	wants_fail(m, &err);
}

static bool sellers_same(const struct market *m)
{
	const struct q_offers_moved_row *w = m->moved;
	size_t at = 0;

	if (m->snap == NULL || m->snap->known != w->known ||
	    m->snap->sellers_known != (w->sellers != NULL)) {
		return false;
	}
	for (size_t i = 0; w->sellers != NULL && i < m->snap->sellers_n; i++) {
		size_t n = strlen(m->snap->sellers[i]);

		if (strncmp(w->sellers + at, m->snap->sellers[i], n) != 0 ||
		    (w->sellers[at + n] != '\n' && w->sellers[at + n] != '\0')) {
			return false;
		}
		at += n + (w->sellers[at + n] == '\n');
	}
	return w->sellers == NULL || w->sellers[at] == '\0';
}

/* The rows are as of the statement that was just answered. */
static void refresh_apply(struct market *m, bool changed)
{
	int64_t age = m->snap != NULL ? m->at_us - m->snap->at_us : 0;
	/* The hour of the day is part of the hazards, and their rise after reclaims falls. */
	bool aged = m->snap == NULL || age > COMPARE_US || age < 0 ||
	    m->at_us >= m->snap->hazards_until_us || (m->confirmed && age > CONFIRM_US);

	free(m->since);
	m->since = strdup(m->moved->snapshot);
	if (m->since == NULL) {
		abort();
	}
	if (changed || aged || m->renew || m->snap->counted || !sellers_same(m)) {
		struct market_snap *was = m->snap;

		m->snap = snap_make(&m->rows, &m->policy, ++m->version, m->at_us, m->moved->sellers,
		    m->moved->known);
		market_drop(was);
		m->renew = m->confirmed = false;
	}
	m->rows_us = m->at_us;
	m->read_us = m->sent_us;
	refresh_end(m);
	wants_serve(m);
	if (m->suspects_n > 0 && !m->running) {
		refresh_begin(m);
	}
}

/* Keeps what differs until the next refresh has told which of it changed meanwhile. */
static void suspects_keep(struct market *m, const struct pool_rows *was)
{
	int32_t *ids = NULL;
	size_t n = 0, cap = 0, kept = 0;

	m->stats.compares++;
	m->compared_us = m->sent_us;
	rows_differ(was, &m->rows, m->work, &ids, &n, &cap);
	free(m->suspects);
	m->suspects = calloc(n + 1, sizeof(*ids));
	if (m->suspects == NULL) {
		abort();
	}
	for (size_t i = 0; i < n; i++) {
		if (!ids_have(m->ids, m->ids_n, ids[i])) {
			m->suspects[kept++] = ids[i];
		}
	}
	m->suspects_n = kept;
}

/* Did the round of its price move meanwhile? */
static bool suspect_confirmed(const struct market *m, int32_t pool)
{
	const struct pool_row *w = row_find(&m->rows, pool);

	for (size_t i = 0; i < m->rounds_n && w != NULL; i++) {
		if (m->rounds[i].id == w->round_id) {
			return true;
		}
	}
	return false;
}

static void suspects_judge(struct market *m)
{
	int32_t first = 0;
	int64_t n = 0;

	for (size_t i = 0; i < m->suspects_n; i++) {
		if (!ids_have(m->ids, m->ids_n, m->suspects[i]) &&
		    !suspect_confirmed(m, m->suspects[i])) {
			first = n++ == 0 ? m->suspects[i] : first;
		}
	}
	m->suspects_n = 0;
	if (n > 0) {
		m->stats.mended += n;
		log_error("market.differs", I64("pools", n), I64("pool", first),
		    STR("hint", "the kept market differed from the rows and was read again"));
	}
}

static void offers_taken(struct market *m, size_t n)
{
	m->stats.reads++;
	m->stats.pools_read += (int64_t)n;
	refresh_apply(m, true);
}

static void full_read_end(struct market *m)
{
	struct pool_rows was = m->rows;

	m->rows = m->fresh;
	m->fresh = (struct pool_rows){ 0 };
	if (m->compares) {
		suspects_keep(m, &was);
	}
	rows_fini(&was);
	m->compared_us = m->sent_us;
	offers_taken(m, m->rows.n);
}

/* Other work of the loop goes on between two slices. */
static void slice_take(struct market *m)
{
	size_t n = pg_rows(m->req.result), until = MIN(m->fresh.n + SLICE, n);
	struct arena *a = arena_new(WORK_BYTES_MAX);

	while (m->fresh.n < until) {
		struct q_offers_row row;

		q_offers_row_at(m->req.result, m->fresh.n, a, &row);
		rows_add(&m->fresh, &row);
	}
	arena_free(a);
	if (until < n) {
		loop_timer_set(&m->slice, 1);
	} else {
		full_read_end(m);
	}
}

static void slice_due(struct loop_timer *t)
{
	slice_take(container_of(t, struct market, slice));
}

static void offers_read(struct op *op)
{
	struct market *m = container_of(container_of(op, struct pg_req, op), struct market, req);
	struct q_offers_row *read;
	size_t n;

	if (op->rc != SPOT_OK) {
		refresh_fail(m);
	} else if (m->reads_all) {
		rows_begin(&m->fresh, pg_rows(m->req.result), m->rows.told);
		slice_take(m);
	} else {
		n = q_offers_some_rows(&m->req, m->work, &read);
		rows_some(&m->rows, m->ids, m->ids_n, read, n);
		offers_taken(m, n);
	}
}

static void offers_ask(struct market *m)
{
	const struct rank_policy *p = &m->policy;
	int32_t since_day = (int32_t)(m->at_us / (24 * SPOT_US_PER_HOUR)) - RECORD_DAYS;

	pg_req_fini(&m->req);
	if (m->reads_all) {
		q_offers(m->pg, &m->req,
		    &(struct q_offers){ .since_day = since_day,
			.at_us = m->at_us,
			.half_h = p->age_half_life_h,
			.recent_h = p->recent_half_life_h,
			.odds_h = p->odds_half_life_h,
			.told = m->rows.told },
		    offers_read);
		return;
	}
	q_offers_some(m->pg, &m->req,
	    &(struct q_offers_some){ .since_day = since_day,
		.at_us = m->at_us,
		.half_h = p->age_half_life_h,
		.recent_h = p->recent_half_life_h,
		.odds_h = p->odds_half_life_h,
		.pools = m->ids,
		.pools_n = m->ids_n,
		.told = m->rows.told },
	    offers_read);
}

static void ids_parse(struct market *m, const char *text)
{
	while (text != NULL && *text != '\0') {
		char *end;
		long id = strtol(text, &end, 10);

		m->ids = arena_grow(m->work, m->ids, m->ids_n, &m->ids_cap, sizeof(*m->ids));
		m->ids[m->ids_n++] = (int32_t)id;
		text = *end == ' ' ? end + 1 : end;
	}
}

/* "id time id time" */
static void rounds_parse(struct market *m, const char *text)
{
	size_t cap = 0;

	while (text != NULL && *text != '\0') {
		struct round r;
		char *end;

		r.id = strtoll(text, &end, 10);
		r.confirmed_us = strtoll(end, &end, 10);
		m->rounds = arena_grow(m->work, m->rounds, m->rounds_n, &cap, sizeof(r));
		m->rounds[m->rounds_n++] = r;
		text = *end == ' ' ? end + 1 : end;
	}
}

static void moved_read(struct op *op)
{
	struct market *m = container_of(container_of(op, struct pg_req, op), struct market, req);
	int64_t reconnects = pg_stats(m->pg).reconnects;

	if (op->rc != SPOT_OK || q_offers_moved_rows(&m->req, m->work, &m->moved) != 1) {
		refresh_fail(m);
		return;
	}
	m->stats.refreshes++;
	ids_parse(m, m->moved->pools);
	rounds_parse(m, m->moved->rounds);
	if (m->suspects_n > 0) {
		suspects_judge(m);
	}
	m->confirmed |= rows_confirm(&m->rows, m->rounds, m->rounds_n);
	rows_due(&m->rows, m->rows_us, m->at_us, m->work, &m->ids, &m->ids_n, &m->ids_cap);
	m->ids_n = ids_sort(m->ids, m->ids_n);
	/* Another server may have taken over, or the wall clock was set back. */
	m->compares = m->compare && m->since != NULL;
	m->reads_all = m->since == NULL || m->moved->behind || m->all || m->compare ||
	    reconnects != m->reconnects || m->at_us < m->rows_us ||
	    m->ids_n > SOME_LEAST + m->rows.n / SOME_SHARE;
	m->reconnects = reconnects;
	m->all = m->compare = false;
	if (m->reads_all || m->ids_n > 0) {
		offers_ask(m);
	} else {
		refresh_apply(m, false);
	}
}

static void refresh_begin(struct market *m)
{
	if (m->running) {
		return;
	}
	m->running = true;
	m->sent_us = loop_mono_us(m->loop);
	m->at_us = loop_wall_us(m->loop);
	m->work = arena_new(WORK_BYTES_MAX);
	if (m->since != NULL && m->sent_us - m->compared_us > COMPARE_US) {
		m->compare = true;
	}
	q_offers_moved(m->pg, &m->req,
	    &(struct q_offers_moved){ .since = m->since != NULL ? m->since : "" }, moved_read);
}

/* ---- housekeeping ---------------------------------------------------------------------------- */

static void trimmed(struct op *op)
{
	(void)op;
}

static void market_tick(struct loop_timer *t)
{
	struct market *m = container_of(t, struct market, timer);

	loop_timer_set(&m->timer, TICK_US);
	if (!op_busy(&m->trim.op)) {
		pg_req_fini(&m->trim);
		q_offers_trim(m->pg, &m->trim, &(struct q_offers_trim){ .most = TRIM_MOST },
		    trimmed);
	}
	if (m->snap == NULL || loop_mono_us(m->loop) - m->read_us > TICK_US / 2) {
		refresh_begin(m);
	}
}

struct market *market_new(struct loop *l, struct pg *pg, const struct rank_policy *p)
{
	struct market *m = calloc(1, sizeof(*m));

	if (m == NULL) {
		abort();
	}
	m->loop = l;
	m->pg = pg;
	m->policy = *p;
	TAILQ_INIT(&m->wants);
	loop_timer_init(&m->slice, l, slice_due);
	loop_timer_init(&m->timer, l, market_tick);
	loop_timer_set(&m->timer, FIRST_US);
	return m;
}

static void market_release(void *p)
{
	free(p);
}

void market_free(struct market *m)
{
	struct market_want *w;

	if (m == NULL) {
		return;
	}
	while ((w = TAILQ_FIRST(&m->wants)) != NULL) {
		TAILQ_REMOVE(&m->wants, w, link);
		w->waits = false;
	}
	loop_timer_stop(&m->timer);
	loop_timer_stop(&m->slice);
	pg_req_fini(&m->trim);
	pg_req_fini(&m->req);
	rows_fini(&m->fresh);
	arena_free(m->work);
	market_drop(m->snap);
	rows_fini(&m->rows);
	free(m->since);
	free(m->suspects);
	loop_bury(m->loop, m, market_release);
}

/* ---- for the users --------------------------------------------------------------------------- */

void market_tell(struct market *m)
{
	m->rows.told = true;
}

void market_policy_set(struct market *m, const struct rank_policy *p)
{
	m->all |= p->age_half_life_h != m->policy.age_half_life_h ||
	    p->recent_half_life_h != m->policy.recent_half_life_h ||
	    p->odds_half_life_h != m->policy.odds_half_life_h;
	m->policy = *p;
	m->renew = true;
	/* The last read is too old for everybody. */
	m->read_us = m->sent_us = INT64_MIN / 2;
}

struct market_snap *market_now(struct market *m, int64_t age_us)
{
	int64_t age = loop_mono_us(m->loop) - m->read_us;

	if (m->snap == NULL || age > age_us) {
		return NULL;
	}
	if (age > age_us / 2) {
		refresh_begin(m);
	}
	return market_hold(m->snap);
}

void market_need(struct market *m, struct market_want *w, int64_t since_us)
{
	struct market_want *at = TAILQ_FIRST(&m->wants);

	assert(!w->waits);
	w->since_us = since_us;
	w->waits = true;
	while (at != NULL && at->since_us <= since_us) {
		at = TAILQ_NEXT(at, link);
	}
	if (at != NULL) {
		TAILQ_INSERT_BEFORE(at, w, link);
	} else {
		TAILQ_INSERT_TAIL(&m->wants, w, link);
	}
	refresh_begin(m);
}

void market_unwant(struct market_want *w, struct market *m)
{
	if (w->waits) {
		TAILQ_REMOVE(&m->wants, w, link);
		w->waits = false;
	}
}

void market_compare(struct market *m)
{
	m->compare = true;
}

int64_t market_read_us(const struct market *m)
{
	return m->read_us;
}

struct market_stats market_stats(const struct market *m)
{
	return m->stats;
}
