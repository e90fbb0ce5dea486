#include "base/base.h"
#include "base/text/text.h"
#include "spotd/daemon.h"
#include "store/q.h"

#define SEEN_US SPOT_US_PER_HOUR /* a program in use is not purged */
#define AGAIN_US (60 * SPOT_US_PER_S)

static void publish_begin(struct agents *g);

static struct agents *agents_of_op(struct op *op)
{
	return container_of(container_of(op, struct pg_req, op), struct agents, req);
}

static struct handout *publish_what(const struct agents *g)
{
	return g->next != NULL ? g->next : g->now;
}

static void agents_notify(struct agents *g)
{
	if (g->changed != NULL) {
		g->changed(g->ctx);
	}
}

static void take_next(struct agents *g)
{
	struct handout *old = g->now;

	g->now = g->next;
	g->next = NULL;
	for (size_t i = 0; i < HANDOUT_FILES; i++) {
		log_info("agent.changed", STR("file", g->now->files[i].name),
		    STR("sha256", g->now->files[i].sha256));
	}
	agents_notify(g);
	handout_free(old);
}

static void publish_done(struct agents *g)
{
	bool was = g->kept;

	g->kept = true;
	loop_timer_set(&g->again, SEEN_US);
	if (g->next != NULL) {
		take_next(g);
	} else if (!was) {
		agents_notify(g);
	}
}

static void publish_failed(struct agents *g, const struct spot_err *err)
{
	log_error("agent.not_kept", STR("error", err->text),
	    STR("hint",
		g->next != NULL ? "nodes get the previous version until the database has this one; "
				  "retrying in a minute"
				: "only this daemon serves its agent; retrying in a minute"));
	loop_timer_set(&g->again, AGAIN_US);
}

static void publish_next(struct agents *g);

static void publish_put(struct op *op)
{
	struct agents *g = agents_of_op(op);
	struct spot_err err = op->err;
	bool ok = op->rc == SPOT_OK;

	pg_req_fini(&g->req);
	if (ok) {
		publish_next(g);
	} else {
		publish_failed(g, &err);
	}
}

static void publish_next(struct agents *g)
{
	const struct handout *h = publish_what(g);

	for (size_t i = 0; i < HANDOUT_FILES; i++) {
		if (!g->there[i] && h->files[i].bytes.n > 0) {
			g->there[i] = true;
			q_api_handout_put(g->pg, &g->req,
			    &(struct q_api_handout_put){ .sha256 = h->files[i].sha256,
				.bytes = h->files[i].bytes,
				.at_us = loop_wall_us(g->loop) },
			    publish_put);
			return;
		}
	}
	publish_done(g);
}

static void publish_seen(struct op *op)
{
	struct agents *g = agents_of_op(op);
	struct spot_err err = op->err;
	const struct handout *h = publish_what(g);
	struct q_api_handout_seen_row *rows;
	struct arena *a;
	size_t n;

	if (op->rc != SPOT_OK) {
		pg_req_fini(&g->req);
		publish_failed(g, &err);
		return;
	}
	a = arena_new(0);
	n = q_api_handout_seen_rows(&g->req, a, &rows);
	for (size_t i = 0; i < HANDOUT_FILES; i++) {
		g->there[i] = false;
		for (size_t k = 0; k < n; k++) {
			g->there[i] =
			    g->there[i] || strcmp(rows[k].sha256, h->files[i].sha256) == 0;
		}
	}
	arena_free(a);
	pg_req_fini(&g->req);
	publish_next(g);
}

/* Only what the database lacks is sent to it. */
static void publish_begin(struct agents *g)
{
	const struct handout *h = publish_what(g);
	const char *shas[HANDOUT_FILES];
	size_t n = 0;

	for (size_t i = 0; i < HANDOUT_FILES; i++) {
		if (h->files[i].bytes.n > 0) {
			shas[n++] = h->files[i].sha256;
		}
	}
	loop_timer_stop(&g->again);
	q_api_handout_seen(g->pg, &g->req,
	    &(struct q_api_handout_seen){ .shas = shas,
		.shas_n = n,
		.at_us = loop_wall_us(g->loop) },
	    publish_seen);
}

static void publish_again(struct loop_timer *t)
{
	publish_begin(container_of(t, struct agents, again));
}

void agents_init(struct agents *g, struct loop *l, struct pg *pg, const char *dir,
    void (*changed)(void *), void *ctx)
{
	*g = (struct agents){ .loop = l, .pg = pg, .now = handout_read(dir), .ctx = ctx };
	loop_timer_init(&g->again, l, publish_again);
	if (pg != NULL) {
		publish_begin(g);
		while (op_busy(&g->req.op)) {
			(void)loop_turn(l, SPOT_US_PER_S);
		}
	}
	g->changed = changed;
}

/* The file that was handed out and is not there any more; NULL: none. */
static const char *missing_file(const struct handout *was, const struct handout *h)
{
	for (size_t i = 0; i < HANDOUT_FILES; i++) {
		if (was->files[i].bytes.n > 0 && h->files[i].bytes.n == 0) {
			return h->files[i].name;
		}
	}
	return NULL;
}

static bool handout_same(const struct handout *a, const struct handout *b)
{
	for (size_t i = 0; i < HANDOUT_FILES; i++) {
		if (strcmp(a->files[i].sha256, b->files[i].sha256) != 0) {
			return false;
		}
	}
	return true;
}

void agents_reload(struct agents *g, const char *dir)
{
	struct handout *h = handout_read(dir);
	const char *gone = missing_file(g->now, h);

	if (gone != NULL) {
		log_error("agent.refused", STR("file", gone), STR("folder", dir),
		    STR("hint",
			"the file cannot be read, so nodes get the previous version; restore it "
			"and reload, or restart without it"));
		handout_free(h);
		return;
	}
	if (g->pg != NULL) {
		pg_req_fini(&g->req);
	}
	handout_free(g->next);
	g->next = NULL;
	if (handout_same(g->now, h)) {
		handout_free(h);
	} else {
		g->next = h;
	}
	if (g->pg != NULL) {
		publish_begin(g);
	} else if (g->next != NULL) {
		take_next(g);
	}
}

void agents_fini(struct agents *g)
{
	if (g->loop == NULL) {
		return;
	}
	loop_timer_stop(&g->again);
	pg_req_fini(&g->req);
	handout_free(g->now);
	handout_free(g->next);
}

const char *agents_sha256(const struct agents *g, const char *name)
{
	const struct handout_file *f = handout_find(g->now, name);

	return f == NULL ? "" : f->sha256;
}
