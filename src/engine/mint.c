/* Signs upload URLs for checkpoints that agents have announced, and renews download URLs that ran
 * out before they were used. */
#include "base/base.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/engine_int.h"

#define MINT_MOST 16
#define RENEW_US (5 * 60 * SPOT_US_PER_S) /* less than keys that sign have left, or what they sign would be due at once */
#define AHEAD_US (60 * SPOT_US_PER_S) /* a clock that was ahead by less hurts nobody */
/* What a cloud's clock is ahead of ours its provider learns when a call is refused, and once ours is set it is wrong until the next
 * one is: what was signed meanwhile no store honours, and its life as we know it does not tell. */
#define DOUBTED_US (60 * SPOT_US_PER_S)
#define RESIGN_US  (2 * SPOT_US_PER_S)

static void mint_one(struct recon *r, const struct q_engine_mint_due_row *rows, size_t n)
{
	const char **paths = arena_array(r->arena, n, sizeof(*paths));
	const char **keys = arena_array(r->arena, n, sizeof(*keys));
	const char **urls = arena_array(r->arena, n, sizeof(*urls));
	const char **hows = arena_array(r->arena, n, sizeof(*hows));
	const char **headers = arena_array(r->arena, n, sizeof(*headers));
	int32_t *seqs = arena_array(r->arena, n, sizeof(*seqs));
	struct spot_err err = {0};
	struct step *s;

	for (size_t i = 0; i < n; i++) {
		struct spot_presign p;

		paths[i] = rows[i].path;
		seqs[i] = rows[i].seq;
		keys[i] = objects_key(r->e, r->arena, &rows[i]);
		if (objects_presign(r->e, r->arena, "PUT", keys[i], &p, &err) != SPOT_OK) {
			log_error("checkpoint.presign", I64("checkpoint", rows[i].checkpoint_id),
				  STR("error", err.text));
			return;
		}
		urls[i] = p.url;
		hows[i] = presign_how(&p);
		headers[i] = presign_headers(r->arena, &p);
		headers[i] = headers[i] == NULL ? "" : headers[i];
	}
	s = step_new(r, NULL, NULL);
	STEP(s, engine_mint_put,
	     (&(struct q_engine_mint_put){.checkpoint_id = rows[0].checkpoint_id,
					  .paths = paths,
					  .paths_n = n,
					  .seqs = seqs,
					  .seqs_n = n,
					  .keys = keys,
					  .keys_n = n,
					  .urls = urls,
					  .urls_n = n,
					  .hows = hows,
					  .hows_n = n,
					  .headers = headers,
					  .headers_n = n,
					  .at_us = engine_now(r->e),
					  .fence = r->epoch}));
}

static void mint_due(struct step *s)
{
	struct q_engine_mint_due_row *rows;
	size_t n = q_engine_mint_due_rows(&s->req, s->r->arena, &rows);
	size_t from = 0;

	if (n == 0 || !objects_ready(s->r->e)) {
		return;
	}
	for (size_t i = 1; i <= n; i++) {
		if (i == n || rows[i].checkpoint_id != rows[from].checkpoint_id) {
			mint_one(s->r, &rows[from], i - from);
			from = i;
		}
	}
}

struct stale {
	int64_t job_id;
	int32_t epoch, rank;
	struct job_spec *spec;
};

static void stale_write(struct recon *r, const struct stale *t,
			const struct q_engine_chunks_row *chunks, size_t n)
{
	int64_t until_us = INT64_MAX;
	char *files = files_json(r, t->spec, chunks, n, &until_us);
	struct step *s;

	if (files == NULL) {
		return;
	}
	s = step_new(r, NULL, NULL);
	STEP(s, engine_files_put,
	     (&(struct q_engine_files_put){.job_id = t->job_id,
					   .epoch = t->epoch,
					   .rank = t->rank,
					   .files = files,
					   .urls_until_us = until_us,
					   .fence = r->epoch}));
}

static void stale_chunks(struct step *s)
{
	struct q_engine_chunks_row *rows;
	size_t n = q_engine_chunks_rows(&s->req, s->r->arena, &rows);

	stale_write(s->r, s->ctx, rows, n);
}

static void stale_one(struct recon *r, const struct q_engine_files_stale_row *w)
{
	struct stale *t = arena_alloc(r->arena, sizeof(*t));
	struct spot_err err = {0};
	AUTO(json) json_t *doc = NULL;
	struct step *s;

	t->job_id = w->job_id;
	t->epoch = w->epoch;
	t->rank = w->rank;
	if (json_parse(str_from(w->spec), "job.spec", &doc, &err) != SPOT_OK ||
	    jobspec_from_json(r->arena, doc, &t->spec, &err) != SPOT_OK) {
		log_error("job.spec", I64("job", w->job_id), STR("error", err.text));
		return;
	}
	if (!w->has_restore_id && t->spec->mounts_n == 0) {
		return;
	}
	if (!w->has_restore_id) {
		stale_write(r, t, NULL, 0);
		return;
	}
	s = step_new(r, stale_chunks, t);
	STEP(s, engine_chunks, (&(struct q_engine_chunks){.checkpoint_id = w->restore_id}));
}

static void stale_due(struct step *s)
{
	struct q_engine_files_stale_row *rows;
	size_t n = q_engine_files_stale_rows(&s->req, s->r->arena, &rows);

	if (n == 0 || !objects_configured(s->r->e) || !objects_ready(s->r->e)) {
		return;
	}
	for (size_t i = 0; i < n; i++) {
		stale_one(s->r, &rows[i]);
	}
}

static bool resign_due(struct engine *e)
{
	int64_t now = loop_mono_us(e->loop);

	if (e->set_at_us == 0 || now - e->set_at_us > DOUBTED_US || now - e->resigned_at_us < RESIGN_US) {
		return false;
	}
	e->resigned_at_us = now;
	return true;
}

void mint_run(struct recon *r)
{
	struct step *s = step_new(r, mint_due, NULL);
	int64_t now = engine_now(r->e);

	STEP(s, engine_mint_due, (&(struct q_engine_mint_due){.most = MINT_MOST}));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_mint_empty,
	     (&(struct q_engine_mint_empty){.at_us = now, .fence = r->epoch}));
	s = step_new(r, stale_due, NULL);
	STEP(s, engine_files_stale,
	     (&(struct q_engine_files_stale){.before_us = resign_due(r->e) ? INT64_MAX : now + MIN(r->e->conf.url_life_us / 4, RENEW_US),
					     .after_us = now + r->e->conf.url_life_us + AHEAD_US}));
}
