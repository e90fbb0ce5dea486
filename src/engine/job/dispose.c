/*
 * Deletes what abandoned checkpoints left in the object store: a few objects at a time, by
 * presigned requests that we send ourselves. The statement says which may go; deleting one twice,
 * or one that was never uploaded, is harmless.
 */
#include "base/base.h"
#include "base/log.h"
#include "base/text/str.h"
#include "engine/kernel/kernel.h"

#define DISPOSE_MOST 16
#define AGAIN_US (60 * SPOT_US_PER_S) /* after a refusal */

struct disposing {
	int64_t checkpoint_id;
	const char *path, *key;
	int32_t seq;
};

static void dispose_wrote(struct act *a)
{
	a->e->disposing--;
}

static void dispose_answered(struct act *a)
{
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
	a->e->disposing--;
	a->e->dispose_next_us = loop_mono_us(a->e->loop) + AGAIN_US;
	act_end(a);
}

/* False: nothing can be signed now. */
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
		e->dispose_next_us = loop_mono_us(e->loop) + AGAIN_US;
		act_end(a);
		return false;
	}
	a->http_out = (struct spot_http_request){ .method = "DELETE",
		.url = p.url,
		.timeout_us = e->conf.call_timeout_us };
	for (size_t i = 0; i < p.headers_n && i < ARRAY_LEN(a->http_out.headers); i++) {
		a->http_out.headers[a->http_out.headers_n++] = p.headers[i];
	}
	e->disposing++;
	act_http(a, false); /* what is repeated changes nothing more */
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

void dispose_run(struct recon *r)
{
	struct engine *e = r->e;
	int64_t before = engine_now(e) - e->conf.url_life_us;
	struct step *s;

	if (e->http == NULL || !objects_configured(e) || e->disposing > 0 ||
	    loop_mono_us(e->loop) < e->dispose_next_us) {
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
