/*
 * A chunk through a resumable session of Google Cloud Storage: POST makes the session, PUTs with
 * Content-Range carry the pieces, 308 and its Range tell how far the store got, which may be less than was
 * sent. After a fault it is asked; it goes on from there.
 * cloud.google.com/storage/docs/performing-resumable-uploads.
 */
#include "base/base.h"
#include "agent/upload.h"

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"

#define CREATE_TIMEOUT_US (20 * SPOT_US_PER_S)
#define RESUME_INCOMPLETE 308

bool upload_range(const char *text, int64_t *ret_next)
{
	int64_t last;

	if (*text == '\0') {
		*ret_next = 0;
		return true;
	}
	if (!str_prefix(text, "bytes=0-") || !parse_i64(text + 8, 0, INT64_MAX - 1, &last))
		return false;
	*ret_next = last + 1;
	return true;
}

static void forget_session(struct upload *u)
{
	free(STEAL(u->session));
	u->ask = false;
	upload_piece_reset(u);
}

/* 404 and 410: the session is over. 5xx and lost replies: it may have got further than we know. */
static void fault(struct upload *u, const struct http_reply *r)
{
	if (r->status == 404 || r->status == 410)
		forget_session(u);
	else
		u->ask = u->session != NULL;
	upload_fault(u, r);
}

/* The reply to a piece or to the question. */
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
			forget_session(u);
			upload_fault(u, r);
		}
		return;
	}
	if (r->status != RESUME_INCOMPLETE || !upload_range(http_reply_header(r, "Range"), &next) ||
	    next > u->hashed) {
		if (r->status >= 200 && r->status < 400)
			forget_session(u); /* it tells of bytes that were never sent */
		fault(u, r);
		return;
	}
	u->ask = false;
	u->stored = next;
	if (next > before)
		backoff_clear(&u->backoff);
	else if (!asked)
		upload_fault(u, r); /* it took nothing of it: not again at once */
	agent_wake(a, a->now_us);
}

static void session_done(void *upload, const struct http_reply *r)
{
	session_answer(upload, r);
}

static void created(void *upload, const struct http_reply *r)
{
	struct upload *u = upload;
	const char *at = http_reply_header(r, "Location");

	upload_landed(u);
	if ((r->status != 200 && r->status != 201) ||
	    (!str_prefix(at, "https://") && !str_prefix(at, "http://"))) {
		upload_fault(u, r);
		return;
	}
	u->session = strdup(at);
	if (u->session == NULL)
		abort();
	agent_wake(u->agent, u->agent->now_us);
}

static void create(struct upload *u)
{
	struct http_want w = {.far = HTTP_OBJECT, .method = "POST", .url = u->url,
	    .headers = (const char *const *)u->headers, .body = STR_LIT(""), .lent = true,
	    .timeout_us = CREATE_TIMEOUT_US, .done = created, .ctx = u};

	upload_start(u, &w);
}

static void question(struct upload *u)
{
	char range[64];
	struct http_want w = {.far = HTTP_OBJECT, .method = "PUT", .url = u->session, .header = range,
	    .body = STR_LIT(""), .lent = true, .timeout_us = CREATE_TIMEOUT_US, .done = session_done,
	    .ctx = u};

	(void)snprintf(range, sizeof(range), "Content-Range: bytes */%" PRId64, u->bytes);
	upload_start(u, &w);
}

static void piece(struct upload *u)
{
	struct spot_err err = {0};
	char range[128];
	struct http_want w = {.far = HTTP_OBJECT, .method = "PUT", .url = u->session, .header = range,
	    .lent = true, .done = session_done, .ctx = u};
	enum spot_rc rc = upload_piece(u, u->stored, &err);

	if (rc != SPOT_OK) {
		if (rc == SPOT_INVALID)
			forget_session(u);
		upload_fault(u, &(struct http_reply){.error = err.text, .wrong_bytes = rc == SPOT_CONFLICT});
		return;
	}
	w.body = upload_piece_from(u, u->stored);
	(void)snprintf(range, sizeof(range), "Content-Range: bytes %" PRId64 "-%" PRId64 "/%" PRId64, u->stored,
	    u->stored + (int64_t)w.body.n - 1, u->bytes);
	upload_start(u, &w);
}

void upload_resumable_step(struct upload *u)
{
	if (u->session == NULL)
		create(u);
	else if (u->ask)
		question(u);
	else
		piece(u);
}
