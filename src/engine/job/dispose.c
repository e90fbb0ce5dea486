/* Deletes objects of abandoned checkpoints: a few at a time, by presigned requests. The statement
 * says which may go. Deleting an object twice, or one that was never uploaded, is harmless. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/job/job.h"
#include "engine/kernel/kernel.h"

#define DISPOSE_MOST 16
#define AGAIN_US (60 * SPOT_US_PER_S) /* after a refusal */

struct dispose {
	int busy; /* deletions under way */
	int64_t next_us; /* mono: none before this */
};

struct disposing {
	int64_t checkpoint_id;
	const char *path, *key;
	int32_t seq;
};

static struct dispose *dispose_state(const struct engine *e)
{
	return recon_state(e, &dispose_kind);
}

static void dispose_wrote(struct act *a)
{
	dispose_state(a->e)->busy--;
}

static void dispose_answered(struct act *a)
{
	struct dispose *st = dispose_state(a->e);
	const struct disposing *d = a->ctx;
	int status = a->http.op.rc == SPOT_OK ? a->http.in.status : 0;

	if ((status >= 200 && status < 300) || status == 404 || status == 410) {
		a->wrote = dispose_wrote;
		ACT_WRITE(a, engine_dispose_done,
		    (&(struct q_engine_dispose_done){ .checkpoint_id = d->checkpoint_id,
			.path = d->path,
			.seq = d->seq,
			.at_us = engine_now(a->e),
			.fence = a->epoch }));
		return;
	}
	log_warn("checkpoint.dispose", I64("checkpoint", d->checkpoint_id), STR("key", d->key),
	    I64("status", status),
	    STR("error", a->http.op.rc == SPOT_OK ? "refused" : a->http.op.err.text));
	st->busy--;
	st->next_us = loop_mono_us(a->e->loop) + AGAIN_US;
	act_end(a);
}

/* Returns false when nothing can be signed now. */
static bool dispose_one(struct engine *e, const struct q_engine_dispose_due_row *w)
{
	struct act *a = act_new(e, 0, dispose_answered);
	struct disposing *d = arena_alloc(a->arena, sizeof(*d));
	struct spot_presign p;
	struct spot_err err = { 0 };

	a->ctx = d;
	*d = (struct disposing){ .checkpoint_id = w->checkpoint_id,
		.path = arena_strdup(a->arena, w->path),
		.key = arena_strdup(a->arena, w->object_key),
		.seq = w->seq };
	if (objects_presign(e, a->arena, "DELETE", d->key, &p, &err) != SPOT_OK) {
		log_error("checkpoint.presign", I64("checkpoint", d->checkpoint_id),
		    STR("key", d->key), STR("error", err.text));
		dispose_state(e)->next_us = loop_mono_us(e->loop) + AGAIN_US;
		act_end(a);
		return false;
	}
	a->http_out = (struct spot_http_request){ .method = "DELETE",
		.url = p.url,
		.timeout_us = e->conf.call_timeout_us };
	for (size_t i = 0; i < p.headers_n && i < ARRAY_LEN(a->http_out.headers); i++) {
		a->http_out.headers[a->http_out.headers_n++] = p.headers[i];
	}
	dispose_state(e)->busy++;
	act_http(a, false); /* a repeat changes nothing more */
	return true;
}

static void dispose_due(struct step *s)
{
	struct engine *e = s->r->e;
	struct q_engine_dispose_due_row *rows;
	size_t n = q_engine_dispose_due_rows(&s->req, s->r->arena, &rows);

	if (n == 0 || !objects_ready(e)) {
		return;
	}
	for (size_t i = 0; i < n && dispose_one(e, &rows[i]); i++) {
	}
}

static void dispose_pass(struct recon *r, void *state)
{
	const struct dispose *st = state;
	struct engine *e = r->e;
	int64_t before = engine_now(e) - e->conf.url_life_us;
	struct step *s;

	if (e->http == NULL || !objects_configured(e) || st->busy > 0 ||
	    loop_mono_us(e->loop) < st->next_us) {
		return;
	}
	s = step_new(r, dispose_due, NULL);
	STEP(s, engine_dispose_due,
	    (&(struct q_engine_dispose_due){ .before_us = before, .most = DISPOSE_MOST }));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_dispose_close,
	    (&(struct q_engine_dispose_close){ .before_us = before,
		.at_us = engine_now(e),
		.fence = r->epoch }));
}

const struct recon_kind dispose_kind = { .name = "dispose",
	.wakes = TOUCH_CHECKPOINT | TOUCH_ATTEMPT | TOUCH_JOB,
	.idle_ticks = 10,
	.state_size = sizeof(struct dispose),
	.pass = dispose_pass };
