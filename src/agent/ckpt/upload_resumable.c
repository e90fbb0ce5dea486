/*
 * Stores a chunk through a resumable session of Google Cloud Storage. POST makes the session, and
 * PUTs with Content-Range carry the pieces. The Range of a 308 is the store's progress, which may
 * be less than we sent. After a fault the agent asks for it and goes on from there.
 *
 * The agent cancels a session that it gives up; otherwise the store keeps its bytes for a week. If
 * the request for a session is under way, the agent cancels it when the URL comes. See
 * cloud.google.com/storage/docs/performing-resumable-uploads, "Cancel an upload": the answer to
 * DELETE is 499.
 */
#include "base/base.h"
#include "agent/ckpt/upload.h"

#include "base/text/text.h"

#define CREATE_TIMEOUT_US (20 * SPOT_US_PER_S)
#define RESUME_INCOMPLETE 308

bool upload_range(const char *text, int64_t *ret_next)
{
	int64_t last;

	if (*text == '\0') {
		*ret_next = 0;
		return true;
	}
	if (!str_prefix(text, "bytes=0-") || !parse_i64(text + 8, 0, INT64_MAX - 1, &last)) {
		return false;
	}
	*ret_next = last + 1;
	return true;
}

/* A request for a session; upload NULL: the upload was given up meanwhile. */
struct session_asked {
	struct session_asked *next;
	struct agent *agent;
	struct upload *upload;
};

/* Ignores the result of a cancel: it changes nothing for us. */
static void session_cancelled(void *ctx, const struct http_reply *r)
{
	(void)ctx;
	log_debug("upload.cancelled", I64("status", r->status));
}

static void session_cancel(struct agent *a, const char *session)
{
	(void)http_start(a->http,
	    &(struct http_want){ .far = HTTP_OBJECT,
		.method = "DELETE",
		.url = session,
		.body = STR_LIT(""),
		.lent = true,
		.timeout_us = CREATE_TIMEOUT_US,
		.done = session_cancelled });
}

/* over: the store does not have the session any more. */
static void forget_session(struct upload *u, bool over)
{
	if (u->session != NULL && !over) {
		session_cancel(u->agent, u->session);
	}
	free(STEAL(u->session));
	u->ask = false;
	upload_piece_reset(u);
}

bool upload_resumable_leave(struct upload *u)
{
	bool asked = false;

	for (struct session_asked *s = u->agent->sessions_asked; s != NULL; s = s->next) {
		if (s->upload == u) {
			s->upload = NULL;
			asked = true;
		}
	}
	if (u->session != NULL && !u->done) {
		session_cancel(u->agent, u->session);
	}
	return asked;
}

void upload_sessions_end(struct agent *a)
{
	while (a->sessions_asked != NULL) {
		struct session_asked *s = a->sessions_asked;

		a->sessions_asked = s->next;
		free(s);
	}
}

/* 404 and 410 end the session. After 5xx and lost replies the store may have more bytes than we
 * know. */
static void piece_fault(struct upload *u, const struct http_reply *r)
{
	if (r->status == 404 || r->status == 410) {
		forget_session(u, true);
	} else {
		u->ask = u->session != NULL;
	}
	upload_fault(u, r);
}

/* Handles the reply to a piece, or to the question for the progress. */
static void session_answer(struct upload *u, const struct http_reply *r)
{
	struct agent *a = u->agent;
	int64_t next, before = u->stored;
	bool asked = u->ask;

	upload_landed(u);
	if ((r->status == 200 || r->status == 201) && u->hashed == u->bytes) {
		if (upload_vouched(u, r, u->has_md5 ? u->md5_all : NULL)) {
			upload_success(u);
		} else {
			forget_session(u, true);
			upload_fault(u, r);
		}
		return;
	}
	if (r->status != RESUME_INCOMPLETE || !upload_range(http_reply_header(r, "Range"), &next) ||
	    next > u->hashed) {
		if (r->status >= 200 && r->status < 400) {
			forget_session(u, false); /* it reports bytes that we never sent */
		}
		piece_fault(u, r);
		return;
	}
	u->ask = false;
	u->stored = next;
	if (next > before) {
		retry_clear(&u->backoff);
	} else if (!asked) {
		upload_fault(u, r); /* the store took no byte: back off */
	}
	agent_wake(a, a->now_us);
}

static void session_done(void *upload, const struct http_reply *r)
{
	session_answer(upload, r);
}

/* Removes the request and returns its upload; NULL: it was given up. */
static struct upload *asked_over(struct session_asked *s)
{
	struct upload *u = s->upload;
	struct session_asked **at = &s->agent->sessions_asked;

	while (*at != s) {
		at = &(*at)->next;
	}
	*at = s->next;
	free(s);
	return u;
}

static void session_created(void *asked, const struct http_reply *r)
{
	struct agent *a = ((struct session_asked *)asked)->agent;
	struct upload *u = asked_over(asked);
	const char *at = http_reply_header(r, "Location");
	bool made = (r->status == 200 || r->status == 201) &&
	    (str_prefix(at, "https://") || str_prefix(at, "http://"));

	if (u == NULL) {
		if (made) {
			session_cancel(a, at);
		}
		return;
	}
	upload_landed(u);
	if (!made) {
		upload_fault(u, r);
		return;
	}
	u->session = strdup(at);
	if (u->session == NULL) {
		abort();
	}
	agent_wake(u->agent, u->agent->now_us);
}

static void session_create(struct upload *u)
{
	struct session_asked *s = malloc(sizeof(*s));
	struct http_want w = { .far = HTTP_OBJECT,
		.method = "POST",
		.url = u->url,
		.headers = (const char *const *)u->headers,
		.body = STR_LIT(""),
		.lent = true,
		.timeout_us = CREATE_TIMEOUT_US,
		.done = session_created,
		.ctx = s };

	if (s == NULL) {
		abort();
	}
	*s = (struct session_asked){ .next = u->agent->sessions_asked,
		.agent = u->agent,
		.upload = u };
	u->agent->sessions_asked = s;
	upload_start(u, &w);
}

static void session_ask(struct upload *u)
{
	char range[64];
	struct http_want w = { .far = HTTP_OBJECT,
		.method = "PUT",
		.url = u->session,
		.header = range,
		.body = STR_LIT(""),
		.lent = true,
		.timeout_us = CREATE_TIMEOUT_US,
		.done = session_done,
		.ctx = u };

	(void)snprintf(range, sizeof(range), "Content-Range: bytes */%" PRId64, u->bytes);
	upload_start(u, &w);
}

static void piece_send(struct upload *u)
{
	struct spot_err err = { 0 };
	char range[128];
	struct http_want w = { .far = HTTP_OBJECT,
		.method = "PUT",
		.url = u->session,
		.header = range,
		.lent = true,
		.done = session_done,
		.ctx = u };
	enum spot_rc rc = upload_piece(u, u->stored, &err);

	if (rc != SPOT_OK) {
		if (rc == SPOT_INVALID) {
			forget_session(u, false);
		}
		upload_fault(u,
		    &(struct http_reply){ .error = err.text, .wrong_bytes = rc == SPOT_CONFLICT });
		return;
	}
	w.body = upload_piece_from(u, u->stored);
	(void)snprintf(range, sizeof(range),
	    "Content-Range: bytes %" PRId64 "-%" PRId64 "/%" PRId64, u->stored,
	    u->stored + (int64_t)w.body.n - 1, u->bytes);
	upload_start(u, &w);
}

void upload_resumable_step(struct upload *u)
{
	if (u->session == NULL) {
		session_create(u);
	} else if (u->ask) {
		session_ask(u);
	} else {
		piece_send(u);
	}
}
