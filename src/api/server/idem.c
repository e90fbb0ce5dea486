/*
 * Idempotency-Key on every POST of a user. The key, the route and the SHA-256 of the body are
 * stored before the handler runs, and its reply before it is sent. A repeat gets the stored reply;
 * another body under the key gets 422, a request in progress 409. A create settles its key in its
 * own statement ("ref:j12"), so a crash of the daemon loses nothing: the replay shows the row as
 * it is now.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

#include "base/crypto/sign.h"

#define KEY_MAX 128
#define STORED_MAX (256 * 1024)
#define OPEN_US (60 * SPOT_US_PER_S) /* then a repeat takes an open key over (api_idem_begin) */
#define TRIES_MAX 100
#define REFUSED_MAX 3

static bool key_ok(const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)key[i] <= 0x20 || (unsigned char)key[i] >= 0x7f) {
			return false;
		}
	}
	return n >= 1 && n <= KEY_MAX;
}

static void idem_replay(struct areq *q, int status, const char *response)
{
	httpd_set(q->http, "Idempotent-Replayed", "true");
	if (!str_prefix(response, "ref:")) {
		areq_reply(q, status,
		    status >= 400 ? "application/problem+json" : "application/json", response,
		    strlen(response));
		return;
	}
	if (!q->route->show || !parse_id(response + 4, response[4], &q->id)) {
		areq_fail(q, SPOT_INTERNAL,
		    "the stored reply of this Idempotency-Key is not readable");
		return;
	}
	q->route->show(q, status);
}

static void idem_begun(struct areq *q)
{
	struct q_api_idem_begin_row *row;
	const char *key = STEAL(q->idem_key);
	struct spot_err err = { 0 };

	if (q_api_idem_begin_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_INTERNAL, "the Idempotency-Key was not stored");
	} else if (strcmp(row->outcome, "fresh") == 0) {
		q->idem_key = key;
		q->route->run(q);
	} else if (strcmp(row->outcome, "replay") == 0) {
		idem_replay(q, row->status, row->response ? row->response : "{}");
	} else if (strcmp(row->outcome, "busy") == 0) {
		httpd_set(q->http, "Retry-After", "1");
		areq_fail(q, SPOT_CONFLICT,
		    "a request with this Idempotency-Key is in progress; repeat it in a second");
	} else {
		err_set(&err, SPOT_MISMATCH,
		    "this Idempotency-Key belongs to another request; use a new key for a new "
		    "request");
		areq_problem(q, 422, &err, "Idempotency-Key");
	}
}

static void reply_stored(struct areq *q)
{
	areq_reply(q, q->reply_status, q->reply_type, q->reply_body.p, q->reply_body.n);
}

/* The struct areq's settle: stores the reply before it is sent. */
static bool idem_settle(struct areq *q, int status, const char *type, const char *body, size_t n)
{
	const char *key = STEAL(q->idem_key);

	if (!key) {
		return false;
	}
	q->reply_type = type;
	idem_store(q, key, status, body, n, reply_stored);
	return true;
}

void idem_begin(struct areq *q)
{
	const char *key = httpd_header(q->http, "idempotency-key");
	char *sha;

	if (!key || strcmp(q->route->method, "POST") != 0 || !q->who.token_id) {
		q->route->run(q);
		return;
	}
	if (!key_ok(key)) {
		areq_fail_field(q, "Idempotency-Key", "must be 1 to %d visible ASCII characters",
		    KEY_MAX);
		return;
	}
	sha = arena_alloc(q->arena, SHA256_HEX);
	sha256_hex(q->http->body.p, q->http->body.n, sha);
	/* From here on: a key that was noted, and whose note was lost on its way back, is let go as
	 * well. */
	q->idem_key = arena_strdup(q->arena, key);
	q->settle = idem_settle;
	SQL(q, api_idem_begin, idem_begun, .token_id = q->who.token_id, .key = key,
	    .route = arena_printf(q->arena, "POST %s", q->http->target), .body_sha256 = sha,
	    .at_us = q->now_us);
}

bool idem_overtaken(struct areq *q, int64_t id)
{
	if (id != 0) {
		return false;
	}
	q->idem_key = NULL; /* settled by the other */
	httpd_set(q->http, "Retry-After", "1");
	areq_fail(q, SPOT_CONFLICT,
	    "a repeat of this request was served meanwhile; repeat it to get the reply");
	return true;
}

static void key_settle(struct areq *q);

/* One that goes away says so (57P: operator intervention), or nothing. */
static bool database_refused(const struct spot_err *err)
{
	return err->code[0] != '\0' && !str_prefix(err->code, "57P") &&
	    !str_prefix(err->code, "08");
}

/* What was done is done, whether its reply is stored or not. But a key that stays open holds up the
 * client that tries again for a minute: a database that went away is waited for. Its connections
 * end one by one, and each may take a try with it. One that refuses does so again at once. */
static bool not_settled(struct areq *q)
{
	if (q->settle_tries < (database_refused(&q->pg.op.err) ? REFUSED_MAX : TRIES_MAX) &&
	    loop_wall_us(q->api->loop) - q->now_us < OPEN_US) {
		key_settle(q);
	} else {
		q->settled(q);
	}
	return true;
}

static void key_settle(struct areq *q)
{
	q->settle_tries++;
	if (q->reply_status >= 500 || q->reply_body.n > STORED_MAX) {
		SQL(q, api_idem_drop, q->settled, .token_id = q->who.token_id, .key = q->settling,
		    .at_us = q->now_us);
	} else {
		SQL(q, api_idem_end, q->settled, .token_id = q->who.token_id, .key = q->settling,
		    .status = q->reply_status, .response = q->reply_body.p);
	}
	q->failed = not_settled;
}

void idem_store(struct areq *q, const char *key, int status, const char *body, size_t n,
    void (*then)(struct areq *q))
{
	q->settling = key;
	q->settled = then;
	q->reply_status = status;
	q->reply_body = arena_bytes(q->arena, body, n);
	areq_unwatch(q);
	key_settle(q);
}
