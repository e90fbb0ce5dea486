/* The memory of asks: jobs with equal asks (job.ask) get equal answers. A blocked ask is not read
 * again until something moves that may unblock it. Memory only paces: a new leader begins without
 * any, and finds the same answers in the rows. */
#include "base/base.h"
#include "engine/place/place_priv.h"

/* Asks remembered at most. Past them a pass answers the others in slices. */
#define ASKS_MOST 16384
/* An answer is looked at again after this long, whatever moved: odds fade with time. */
#define ANSWER_LEAST_US (60 * SPOT_US_PER_S)
/* So is one that time does not change. Its job may have gone, and an older one of its group is
 * infeasible sooner. */
#define ANSWER_STILL_US (600 * SPOT_US_PER_S)
/* With many asks later, so that this costs a hundredth of a core: an offer takes 80 ns. */
#define ANSWER_OFFER_US 8

static size_t ask_place(const struct asks *m, int64_t ask)
{
	size_t lo = 0, hi = m->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->list[mid].ask < ask) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

const struct ask_answer *asks_find(const struct asks *m, int64_t ask)
{
	size_t at = ask_place(m, ask);

	return at < m->n && m->list[at].ask == ask ? &m->list[at] : NULL;
}

static struct ask_answer *ask_add(struct asks *m, int64_t ask)
{
	size_t at = ask_place(m, ask);

	if (at < m->n && m->list[at].ask == ask) {
		return &m->list[at];
	}
	if (m->n == ASKS_MOST) {
		return NULL;
	}
	if (m->n == m->cap) {
		m->cap = MAX(m->cap * 2, (size_t)64);
		m->list = realloc(m->list, m->cap * sizeof(*m->list));
		if (m->list == NULL) {
			abort();
		}
	}
	memmove(&m->list[at + 1], &m->list[at], (m->n - at) * sizeof(*m->list));
	m->n++;
	m->list[at] = (struct ask_answer){ .ask = ask };
	return &m->list[at];
}

void asks_block(struct asks *m, int64_t ask, const struct ask_answer *answer, const char *why)
{
	struct ask_answer *a = ask_add(m, ask);

	if (a == NULL) {
		return;
	}
	free(a->why);
	*a = *answer;
	a->ask = ask;
	a->why = strdup(why);
	if (a->why == NULL) {
		abort();
	}
	m->fresh = true;
}

int64_t asks_last_us(const struct asks *m, const struct engine *e, bool still)
{
	return MAX(still ? ANSWER_STILL_US : ANSWER_LEAST_US,
	    (int64_t)(m->n * e->offers.n) * ANSWER_OFFER_US);
}

bool ask_holds(const struct ask_answer *a, const struct engine *e, int64_t moves)
{
	return (a->version == 0 || a->version == e->offers.version) &&
	    (a->moves == 0 || a->moves == moves) && a->until_us > loop_mono_us(e->loop);
}

void asks_count(struct asks *m, int64_t was, int64_t now)
{
	for (size_t i = 0; i < m->n && was != now; i++) {
		if (m->list[i].version >= was && m->list[i].version <= now) {
			m->list[i].version = now;
		}
	}
}

bool asks_move(const struct asks *m)
{
	for (size_t i = 0; i < m->n; i++) {
		if (m->list[i].moves != 0) {
			return true;
		}
	}
	return false;
}

/* Forgets answers that hold no longer. */
static void asks_prune(struct asks *m, const struct engine *e, int64_t moves)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		if (ask_holds(&m->list[i], e, moves)) {
			m->list[n++] = m->list[i];
		} else {
			free(m->list[i].why);
		}
	}
	m->n = n;
}

size_t asks_blocked(struct asks *m, struct recon *r, int64_t moves, int64_t **ret)
{
	int64_t now = loop_mono_us(r->e->loop), next = INT64_MAX;

	asks_prune(m, r->e, moves);
	*ret = arena_array(r->arena, m->n + 1, sizeof(**ret));
	for (size_t i = 0; i < m->n; i++) {
		(*ret)[i] = m->list[i].ask;
		next = MIN(next, m->list[i].until_us);
	}
	if (m->n > 0) {
		recon_later(r, next - now);
	}
	return m->n;
}

void asks_drop(struct asks *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->list[i].why);
	}
	free(m->list);
	*m = (struct asks){ 0 };
}

/* ---- the reason, for those behind the first ------------------------------------------------- */

#define TELL_MOST 500
#define TELL_ASKS_MOST 512
#define TELL_AGAIN_US (SPOT_US_PER_S / 4)

static void alike_told(struct step *s)
{
	struct asks *m = s->ctx;

	m->fresh = pg_rows(s->req.result) > 0;
	if (m->fresh) {
		recon_later(s->r, TELL_AGAIN_US); /* the next page */
	}
}

void asks_tell(struct asks *m, struct recon *r)
{
	struct q_engine_wait_alike_blocked *rows =
	    arena_array(r->arena, TELL_ASKS_MOST, sizeof(*rows));
	int64_t now = loop_mono_us(r->e->loop);
	struct step *s;
	size_t n = MIN(m->n, (size_t)TELL_ASKS_MOST);

	m->fresh |= (r->seen & TOUCH_JOB) != 0;
	if (!m->fresh || n == 0) {
		return;
	}
	if (now < m->told_us) {
		recon_later(r, m->told_us - now);
		return;
	}
	m->told_us = now + TELL_AGAIN_US;
	for (size_t i = 0; i < n; i++) {
		const struct ask_answer *a = &m->list[(m->told_at + i) % m->n];

		rows[i] = (struct q_engine_wait_alike_blocked){ .ask = a->ask, .why = a->why };
	}
	m->told_at = (m->told_at + n) % m->n;
	s = step_new(r, alike_told, m);
	STEP(s, engine_wait_alike,
	    (&(struct q_engine_wait_alike){ .blocked = rows,
		.blocked_n = n,
		.most = TELL_MOST,
		.fence = r->epoch }));
}
