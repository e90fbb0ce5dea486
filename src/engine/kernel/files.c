/*
 * The "files" of attempts: the mounts of the job's spec and the chunks of a checkpoint, for each
 * rank of a gang. Each has a URL to fetch it by. A rank may have twenty thousand chunks, and a
 * signature may take a millisecond. So this file reads and signs a page at a time, and between two
 * pages the loop goes on and renews the lease. Signed URLs become text at once; the memory of a
 * page ends with it. A reconciler has one request in hand at a time. If other passes wait for its
 * end, it serves a second's worth of requests; the rest follows in its next pass.
 *
 * The reconciler here signs download URLs anew that expire before use.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/kernel/kernel.h"

#define PASS_US SPOT_US_PER_S
/* of all ranks: one array parameter of a statement, which may have 256 MiB (store/bind.c) */
#define BYTES_MAX ((size_t)240 << 20)
/* less than the life left of signing keys, or new URLs would be due at once */
#define RENEW_US (5 * 60 * SPOT_US_PER_S)
#define AHEAD_US (60 * SPOT_US_PER_S) /* a clock ahead by less does no harm */
/* A provider learns the offset of its cloud's clock when a call is refused. After a step of our
 * clock that offset is wrong until the next refusal. No store accepts URLs signed meanwhile, and
 * their known lifetime does not show it. */
#define DOUBTED_US (60 * SPOT_US_PER_S)
#define RESIGN_US (2 * SPOT_US_PER_S)

struct files_work {
	struct arena *page;
	struct sbuf *out; /* of each rank */
	struct sbuf path; /* of the file that is open */
	size_t rank, bytes;
	bool mounts_over;
	int64_t mount, file_bytes;
	int32_t seq;
};

/* The requests of one pass; the first is in hand. */
struct files_queue {
	struct files *first;
	int64_t from_us; /* mono: since when one was in hand without a break */
};

/* The reconciler's. */
struct files_state {
	int64_t resigned_us; /* mono: URLs were signed anew for a clock step; 0: never */
};

static void files_begin(struct files *f);

/* ---- text ------------------------------------------------------------------------------------ */

static int text_add(const char *p, size_t n, void *to)
{
	struct sbuf *b = to;

	sbuf_add(b, p, n);
	return b->overflow ? -1 : 0;
}

/* Adds one chunk to fetch, with headers where the store wants some. */
static void chunk_put(struct files *f, const struct spot_presign *p, int64_t bytes,
    const char *sha256)
{
	AUTO(json)
	json_t *c = json_pack("{s:s, s:I, s:s}", "url", p->url, "bytes", (json_int_t)bytes,
	    "sha256", sha256);

	if (p->headers_n > 0) {
		json_object_set_new(c, "headers", presign_headers_json(p));
	}
	(void)json_dump_callback(c, text_add, &f->work->out[f->work->rank], JSON_COMPACT);
	if (p->until_us != 0) {
		f->until_us = MIN(f->until_us, p->until_us);
	}
}

static void file_open(struct files *f, const char *root, const char *path, int32_t mode)
{
	struct sbuf *b = &f->work->out[f->work->rank];

	sbuf_printf(b, "%s{\"root\":\"%s\",\"mode\":%d,\"path\":", b->n > 1 ? "," : "", root,
	    (int)mode);
	sbuf_json_str(b, path);
	sbuf_puts(b, ",\"chunks\":[");
	f->work->file_bytes = 0;
}

static void file_close(struct files *f)
{
	sbuf_printf(&f->work->out[f->work->rank], "],\"bytes\":%" PRId64 "}", f->work->file_bytes);
}

/* ---- one after the other --------------------------------------------------------------------- */

static void work_free(struct files *f)
{
	struct files_work *w = f->work;

	if (w == NULL) {
		return;
	}
	arena_free(w->page);
	sbuf_fini(&w->path);
	for (size_t i = 0; i < f->n; i++) {
		sbuf_fini(&w->out[i]);
	}
	f->work = NULL;
}

static void files_drop(struct recon *r, void *ctx)
{
	struct files_queue *q = ctx;

	for (struct files *f = q->first; f != NULL; f = f->next) {
		work_free(f);
	}
	r->files = NULL;
}

static void files_over(struct files *f, enum spot_rc rc)
{
	struct recon *r = f->r;
	struct files_queue *q = r->files;

	f->rc = rc;
	for (size_t i = 0; i < f->n && rc == SPOT_OK; i++) {
		f->text[i] = f->work->out[i].p;
	}
	f->then(f);
	work_free(f);
	q->first = f->next;
	if (q->first != NULL && r->kind != &files_kind &&
	    loop_mono_us(r->e->loop) - q->from_us > PASS_US) {
		q->first = NULL;
		r->changed = true;
	}
	if (q->first != NULL) {
		files_begin(q->first);
	}
}

static void files_fail(struct files *f, enum spot_rc rc)
{
	log_error("job.files", I64("job", f->job_id), STR("rc", spot_rc_name(rc)),
	    STR("error", f->err.text));
	files_over(f, rc);
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void files_go(struct files *f);

static enum spot_rc mount_put(struct files *f, const struct q_engine_mounts_row *m)
{
	struct engine *e = f->r->e;
	struct spot_presign p;
	enum spot_rc rc = objects_presign_uri(e, f->work->page, m->uri, &p, &f->err);

	if (rc != SPOT_OK) {
		struct spot_err ours = { 0 };

		/* The mount's fault if the store itself can be signed for; missing keys are not. A
		 * configuration may be mended. */
		f->refused = rc == SPOT_INVALID &&
		    (objects_uri_check(e, f->work->page, m->uri, &ours) == rc ||
			objects_presign(e, f->work->page, "GET", "x", &p, &ours) == SPOT_OK);
		return rc;
	}
	file_open(f, "mount", m->dst, 0644);
	chunk_put(f, &p, 0, "");
	file_close(f);
	return SPOT_OK;
}

static void mounts_in(struct step *s)
{
	struct files *f = s->ctx;
	struct files_work *w = f->work;
	struct q_engine_mounts_row *rows;
	enum spot_rc rc = s->req.op.rc;
	size_t n;

	if (rc != SPOT_OK) {
		files_over(f, rc); /* logged by its step */
		return;
	}
	n = q_engine_mounts_rows(&s->req, w->page, &rows);
	for (size_t i = 0; i < n && rc == SPOT_OK; i++) {
		w->mount = rows[i].n;
		rc = mount_put(f, &rows[i]);
	}
	w->mounts_over = n < SIGN_MOST;
	if (rc != SPOT_OK) {
		files_fail(f, rc);
		return;
	}
	files_go(f);
}

/* Chunks of a file come in the order in which the agent joins them. */
static enum spot_rc chunk_in(struct files *f, const struct q_engine_chunks_row *c)
{
	struct files_work *w = f->work;
	bool first = w->path.n == 0 || strcmp(w->path.p, c->path) != 0;
	struct spot_presign p;
	enum spot_rc rc = objects_presign(f->r->e, w->page, "GET", c->object_key, &p, &f->err);

	if (rc != SPOT_OK) {
		return rc;
	}
	if (first) {
		if (w->path.n > 0) {
			file_close(f);
		}
		file_open(f, "checkpoint", c->path, c->mode);
		sbuf_reset(&w->path);
		sbuf_puts(&w->path, c->path);
	} else {
		sbuf_putc(&w->out[w->rank], ',');
	}
	chunk_put(f, &p, c->bytes, c->sha256);
	w->file_bytes += c->bytes;
	w->seq = c->seq;
	return SPOT_OK;
}

static void rank_over(struct files *f)
{
	struct files_work *w = f->work;

	if (w->path.n > 0) {
		file_close(f);
	}
	sbuf_putc(&w->out[w->rank], ']');
	w->bytes += w->out[w->rank].n;
	sbuf_reset(&w->path);
	w->mounts_over = false;
	w->mount = 0;
	w->rank++;
}

static void chunks_in(struct step *s)
{
	struct files *f = s->ctx;
	struct q_engine_chunks_row *rows;
	enum spot_rc rc = s->req.op.rc;
	size_t n;

	if (rc != SPOT_OK) {
		files_over(f, rc);
		return;
	}
	n = q_engine_chunks_rows(&s->req, f->work->page, &rows);
	for (size_t i = 0; i < n && rc == SPOT_OK; i++) {
		rc = chunk_in(f, &rows[i]);
	}
	if (rc != SPOT_OK) {
		files_fail(f, rc);
		return;
	}
	if (n < SIGN_MOST) {
		rank_over(f);
	}
	files_go(f);
}

/* Reads the next page, or ends ranks that need none. */
static void files_go(struct files *f)
{
	struct files_work *w = f->work;
	struct step *s;

	arena_reset(w->page);
	if (!lease_held(f->r->e) || f->r->epoch != f->r->e->epoch) {
		files_over(f, SPOT_CANCELLED); /* the result would not be accepted */
		return;
	}
	if (w->bytes + (w->rank < f->n ? w->out[w->rank].n : 0) > BYTES_MAX) {
		/* this never changes, and takes minutes to find out again */
		f->refused = true;
		files_fail(f,
		    err_set(&f->err, SPOT_TOO_LARGE,
			"the list of its files is larger than %zu MiB: save fewer, larger files",
			BYTES_MAX >> 20));
		return;
	}
	for (; w->rank < f->n; rank_over(f)) {
		if (w->out[w->rank].n == 0) {
			sbuf_putc(&w->out[w->rank], '[');
		}
		if (f->mounts && !w->mounts_over) {
			s = step_new(f->r, mounts_in, f);
			s->always = true;
			STEP(s, engine_mounts,
			    (&(struct q_engine_mounts){ .job_id = f->job_id,
				.after = w->mount,
				.most = SIGN_MOST }));
			return;
		}
		if (f->checkpoints[w->rank] != 0) {
			bool first = w->path.n == 0;

			s = step_new(f->r, chunks_in, f);
			s->always = true;
			STEP(s, engine_chunks,
			    (&(struct q_engine_chunks){ .checkpoint_id = f->checkpoints[w->rank],
				.path = first ? "" : w->path.p,
				.seq = first ? -1 : w->seq,
				.most = SIGN_MOST }));
			return;
		}
	}
	files_over(f, SPOT_OK);
}

static void files_begin(struct files *f)
{
	struct arena *a = f->r->arena;

	f->work = arena_alloc(a, sizeof(*f->work));
	f->work->page = arena_new(0);
	f->work->out = arena_array(a, f->n, sizeof(*f->work->out));
	f->text = arena_array(a, f->n, sizeof(*f->text));
	sbuf_init(&f->work->path, 0);
	for (size_t i = 0; i < f->n; i++) {
		sbuf_init(&f->work->out[i], BYTES_MAX + 1);
	}
	f->until_us = engine_now(f->r->e) + f->r->e->conf.url_life_us;
	files_go(f);
}

void files_ask(struct recon *r, const struct files *ask)
{
	struct files *f = arena_alloc(r->arena, sizeof(*f)), **end;
	bool alone;

	if (r->files == NULL) {
		r->files = arena_alloc(r->pass_arena, sizeof(*r->files));
		recon_at_end(r, files_drop, r->files);
	}
	alone = r->files->first == NULL;
	*f = *ask;
	f->r = r;
	for (end = &r->files->first; *end != NULL; end = &(*end)->next) {
	}
	*end = f;
	if (alone) {
		r->files->from_us = loop_mono_us(r->e->loop);
		files_begin(f);
	}
}

void files_missing(const struct files *f, enum job_state state, int32_t epoch)
{
	struct recon *r = f->r;

	if (f->refused && state == JOB_QUEUED) {
		job_event(r, f->job_id, state, epoch, JOB_EV_INFEASIBLE, "infeasible", f->err.text);
	} else if (f->err.text[0] != '\0') {
		job_explain(r, f->job_id, state, epoch,
		    arena_printf(r->arena,
			"its machines are ready, but its files cannot be signed: %s", f->err.text));
	}
}

/* ---- signed anew ----------------------------------------------------------------------------- */

struct stale {
	int64_t job_id, restore_id;
	int32_t epoch, rank;
};

static void stale_write(struct files *f)
{
	const struct stale *t = f->ctx;
	struct step *s;

	if (f->rc != SPOT_OK) {
		return;
	}
	s = step_new(f->r, NULL, NULL);
	STEP(s, engine_files_put,
	    (&(struct q_engine_files_put){ .job_id = t->job_id,
		.epoch = t->epoch,
		.rank = t->rank,
		.files = f->text[0],
		.urls_until_us = f->until_us,
		.fence = f->r->epoch }));
}

static void stale_due(struct step *s)
{
	struct recon *r = s->r;
	struct q_engine_files_stale_row *rows;
	size_t n = q_engine_files_stale_rows(&s->req, r->arena, &rows);

	if (n == 0 || !objects_configured(r->e) || !objects_ready(r->e)) {
		return;
	}
	for (size_t i = 0; i < n; i++) {
		struct stale *t = arena_alloc(r->arena, sizeof(*t));

		*t = (struct stale){ .job_id = rows[i].job_id,
			.restore_id = rows[i].has_restore_id ? rows[i].restore_id : 0,
			.epoch = rows[i].epoch,
			.rank = rows[i].rank };
		files_ask(r,
		    &(struct files){ .job_id = t->job_id,
			.mounts = rows[i].mounts,
			.checkpoints = &t->restore_id,
			.n = 1,
			.then = stale_write,
			.ctx = t });
	}
}

static bool resign_due(const struct engine *e, struct files_state *st)
{
	int64_t now = loop_mono_us(e->loop), set_us = clock_set_us(e);

	if (set_us == 0 || now - set_us > DOUBTED_US || now - st->resigned_us < RESIGN_US) {
		return false;
	}
	st->resigned_us = now;
	return true;
}

static void files_pass(struct recon *r, void *state)
{
	struct step *s = step_new(r, stale_due, NULL);
	int64_t now = engine_now(r->e);

	STEP(s, engine_files_stale,
	    (&(struct q_engine_files_stale){ .before_us = resign_due(r->e, state)
		    ? INT64_MAX
		    : now + MIN(r->e->conf.url_life_us / 4, RENEW_US),
		.after_us = now + r->e->conf.url_life_us + AHEAD_US }));
}

const struct recon_kind files_kind = { .name = "files",
	.idle_ticks = 10,
	.state_size = sizeof(struct files_state),
	.pass = files_pass };
