/*
 * Signs upload URLs for checkpoints that agents have announced: a part of their chunks in a pass,
 * and the next pass follows at once. Checkpoints that lack the fewest URLs come first, so that a
 * large one delays no small one. Among large ones, those saved because of a reclaim come first. An
 * agent gets its URLs when all of its chunks have one.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/job/job.h"
#include "engine/kernel/kernel.h"

/* A checkpoint whose upload URLs are being signed, in parts. */
struct signing {
	int64_t checkpoint_id, since_us; /* mono */
};

/* Begun under the lease `epoch`. Only tells which parts to sign again: those that another leader
 * signed, or that were signed long ago. */
struct upload_urls {
	struct signing list[128];
	size_t n;
	int64_t epoch;
};

/* ---- URLs under way ----------------------------------------------------------------------- */

/* Drops checkpoints whose URLs must be signed again: by another leader, too long ago, or before a
 * clock step they might expire before use. */
static void signing_expire(const struct engine *e, struct upload_urls *u)
{
	int64_t set_us = clock_set_us(e);
	int64_t old_us = loop_mono_us(e->loop) - e->conf.url_life_us / 2;
	size_t n = 0;

	if (u->epoch != e->epoch) {
		u->epoch = e->epoch;
		u->n = 0;
	}
	for (size_t i = 0; i < u->n; i++) {
		if (u->list[i].since_us > old_us && u->list[i].since_us > set_us) {
			u->list[n++] = u->list[i];
		}
	}
	u->n = n;
}

static void signing_end(struct upload_urls *u, int64_t checkpoint_id)
{
	for (size_t i = 0; i < u->n; i++) {
		if (u->list[i].checkpoint_id == checkpoint_id) {
			u->n--;
			memmove(&u->list[i], &u->list[i + 1], (u->n - i) * sizeof(*u->list));
			return;
		}
	}
}

static void signing_begin(const struct recon *r, int64_t checkpoint_id)
{
	struct upload_urls *u = r->state;

	for (size_t i = 0; i < u->n; i++) {
		if (u->list[i].checkpoint_id == checkpoint_id) {
			return;
		}
	}
	if (u->n == ARRAY_LEN(u->list)) {
		signing_end(u, u->list[0].checkpoint_id);
	}
	u->list[u->n++] = (struct signing){ .checkpoint_id = checkpoint_id,
		.since_us = loop_mono_us(r->e->loop) };
}

/* ---- a part ---------------------------------------------------------------------------------- */

static void urls_written(struct step *s)
{
	const struct q_engine_presign_due_row *w = s->ctx;

	if (step_rows(s) > 0) {
		signing_end(s->r->state, w->checkpoint_id);
	} else {
		s->r->changed = true; /* the next part */
	}
}

static void urls_sign(struct recon *r, struct q_engine_presign_due_row *rows, size_t n)
{
	struct q_engine_presign_put_chunk *chunks = arena_array(r->arena, n, sizeof(*chunks));
	struct spot_err err = { 0 };
	struct step *s;

	for (size_t i = 0; i < n; i++) {
		const char *key = objects_key(r->e, r->arena, &rows[i]);
		struct spot_presign p;

		if (objects_presign(r->e, r->arena, "PUT", key, &p, &err) != SPOT_OK) {
			log_error("checkpoint.presign", I64("checkpoint", rows[i].checkpoint_id),
			    STR("error", err.text));
			return;
		}
		chunks[i] = (struct q_engine_presign_put_chunk){
			.path = rows[i].path,
			.seq = rows[i].seq,
			.object_key = key,
			.url = p.url,
			.how = presign_how(&p),
			.headers = presign_headers(r->arena, &p),
		};
	}
	signing_begin(r, rows[0].checkpoint_id);
	s = step_new(r, urls_written, rows);
	STEP(s, engine_presign_put,
	    (&(struct q_engine_presign_put){ .checkpoint_id = rows[0].checkpoint_id,
		.chunk = chunks,
		.chunk_n = n,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

static void urls_forgotten(struct step *s)
{
	const struct q_engine_presign_due_row *w = s->ctx;

	signing_begin(s->r, w->checkpoint_id);
	s->r->changed = true;
}

static void urls_forget(struct recon *r, struct q_engine_presign_due_row *row)
{
	struct step *s = step_new(r, urls_forgotten, row);

	STEP(s, engine_presign_anew,
	    (&(struct q_engine_presign_anew){ .checkpoint_id = row->checkpoint_id,
		.fence = r->epoch }));
}

static void urls_due(struct step *s)
{
	struct q_engine_presign_due_row *rows;
	size_t n = q_engine_presign_due_rows(&s->req, s->r->arena, &rows);
	size_t from = 0;

	if (n == 0 || !objects_ready(s->r->e)) {
		return;
	}
	for (size_t i = 1; i <= n; i++) {
		if (i == n || rows[i].checkpoint_id != rows[from].checkpoint_id) {
			if (rows[from].old) {
				urls_forget(s->r, &rows[from]);
			} else {
				urls_sign(s->r, &rows[from], i - from);
			}
			from = i;
		}
	}
}

static void upload_urls_pass(struct recon *r, void *state)
{
	struct upload_urls *u = state;
	struct step *s = step_new(r, urls_due, NULL);
	int64_t *begun = arena_array(r->arena, ARRAY_LEN(u->list), sizeof(*begun));

	signing_expire(r->e, u);
	for (size_t i = 0; i < u->n; i++) {
		begun[i] = u->list[i].checkpoint_id;
	}
	STEP(s, engine_presign_due,
	    (&(struct q_engine_presign_due){ .most = SIGN_MOST, .begun = begun, .begun_n = u->n }));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_presign_empty,
	    (&(struct q_engine_presign_empty){ .at_us = engine_now(r->e), .fence = r->epoch }));
}

const struct recon_kind upload_urls_kind = { .name = "upload_urls",
	.wakes = TOUCH_CHECKPOINT | TOUCH_ATTEMPT | TOUCH_JOB,
	.idle_ticks = 10,
	.state_size = sizeof(struct upload_urls),
	.pass = upload_urls_pass };
