/*
 * Signs upload URLs for checkpoints that agents have announced: a part of their chunks in a turn,
 * and the next turn follows at once. Those that lack the fewest come first, so that a checkpoint of
 * thousands of files keeps no small one waiting; among the large ones those that are saved since a
 * machine is taken. An agent is told of URLs when all of its chunks have one.
 */
#include "base/base.h"
#include "base/log.h"
#include "base/text/str.h"
#include "engine/kernel/kernel.h"

/* ---- what is under way ----------------------------------------------------------------------- */

/* What another leader signed, or was signed so long ago or by such a clock that it may be over
 * before it is used, is signed again. */
static void minting_age(struct engine *e)
{
	int64_t old_us = loop_mono_us(e->loop) - e->conf.url_life_us / 2;
	size_t n = 0;

	if (e->minting_epoch != e->epoch) {
		e->minting_epoch = e->epoch;
		e->minting_n = 0;
	}
	for (size_t i = 0; i < e->minting_n; i++) {
		if (e->minting[i].since_us > old_us && e->minting[i].since_us > e->set_at_us) {
			e->minting[n++] = e->minting[i];
		}
	}
	e->minting_n = n;
}

static void minting_over(struct engine *e, int64_t checkpoint_id)
{
	for (size_t i = 0; i < e->minting_n; i++) {
		if (e->minting[i].checkpoint_id == checkpoint_id) {
			e->minting_n--;
			memmove(&e->minting[i], &e->minting[i + 1],
			    (e->minting_n - i) * sizeof(*e->minting));
			return;
		}
	}
}

static void minting_begun(struct engine *e, int64_t checkpoint_id)
{
	for (size_t i = 0; i < e->minting_n; i++) {
		if (e->minting[i].checkpoint_id == checkpoint_id) {
			return;
		}
	}
	if (e->minting_n == ARRAY_LEN(e->minting)) {
		minting_over(e, e->minting[0].checkpoint_id);
	}
	e->minting[e->minting_n++] =
	    (struct minting){ .checkpoint_id = checkpoint_id, .since_us = loop_mono_us(e->loop) };
}

/* ---- a part ---------------------------------------------------------------------------------- */

static void mint_put(struct step *s)
{
	const struct q_engine_mint_due_row *w = s->ctx;

	if (step_rows(s) > 0) {
		minting_over(s->r->e, w->checkpoint_id);
	} else {
		s->r->dirty = true; /* the next part */
	}
}

static void mint_one(struct recon *r, struct q_engine_mint_due_row *rows, size_t n)
{
	const char **paths = arena_array(r->arena, n, sizeof(*paths));
	const char **keys = arena_array(r->arena, n, sizeof(*keys));
	const char **urls = arena_array(r->arena, n, sizeof(*urls));
	const char **hows = arena_array(r->arena, n, sizeof(*hows));
	const char **headers = arena_array(r->arena, n, sizeof(*headers));
	int32_t *seqs = arena_array(r->arena, n, sizeof(*seqs));
	struct spot_err err = { 0 };
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
	minting_begun(r->e, rows[0].checkpoint_id);
	s = step_new(r, mint_put, rows);
	STEP(s, engine_mint_put,
	    (&(struct q_engine_mint_put){ .checkpoint_id = rows[0].checkpoint_id,
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
		.fence = r->epoch }));
}

static void mint_anew(struct step *s)
{
	const struct q_engine_mint_due_row *w = s->ctx;

	minting_begun(s->r->e, w->checkpoint_id);
	s->r->dirty = true;
}

static void mint_forget(struct recon *r, struct q_engine_mint_due_row *row)
{
	struct step *s = step_new(r, mint_anew, row);

	STEP(s, engine_mint_anew,
	    (&(struct q_engine_mint_anew){ .checkpoint_id = row->checkpoint_id,
		.fence = r->epoch }));
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
			if (rows[from].old) {
				mint_forget(s->r, &rows[from]);
			} else {
				mint_one(s->r, &rows[from], i - from);
			}
			from = i;
		}
	}
}

void mint_run(struct recon *r)
{
	struct step *s = step_new(r, mint_due, NULL);
	int64_t *begun = arena_array(r->arena, ARRAY_LEN(r->e->minting), sizeof(*begun));

	minting_age(r->e);
	for (size_t i = 0; i < r->e->minting_n; i++) {
		begun[i] = r->e->minting[i].checkpoint_id;
	}
	STEP(s, engine_mint_due,
	    (&(struct q_engine_mint_due){ .most = SIGN_MOST,
		.begun = begun,
		.begun_n = r->e->minting_n }));
	s = step_new(r, NULL, NULL);
	STEP(s, engine_mint_empty,
	    (&(struct q_engine_mint_empty){ .at_us = engine_now(r->e), .fence = r->epoch }));
}
