/*
 * Idempotency-Key on every POST of a user. The key, the route and the SHA-256 of the body are
 * stored before the handler runs, and its reply before it is sent. A repeat gets the stored reply;
 * another body under the key gets 422, a request in progress 409. A create settles its key in its
 * own statement ("ref:j12"), so a crash of the daemon loses nothing. The replay then shows the row
 * as it is now.
 *
 * A route may claim the key itself (struct route). Its one statement claims the key, creates the
 * row and stores the reply. If the handler refuses the request before that, the refusal and the
 * claim are stored together.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

#include "base/crypto/crypto.h"

#define KEY_MAX 128
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

	if (q_api_idem_begin_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_INTERNAL, "the Idempotency-Key was not stored");
	} else if (strcmp(row->outcome, "fresh") == 0) {
		q->idem_key = key;
		q->route->run(q);
	} else {
		idem_answer(q, row->outcome, row->status, row->response);
	}
}

void idem_answer(struct areq *q, const char *outcome, int status, const char *response)
{
	struct spot_err err = { 0 };

	q->idem_key = NULL; /* it belongs to the earlier request */
	if (strcmp(outcome, "replay") == 0) {
		idem_replay(q, status, response ? response : "{}");
	} else if (strcmp(outcome, "busy") == 0) {
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

static void refusal_claimed(struct areq *q)
{
	struct q_api_idem_begin_row *row;

	if (q_api_idem_begin_rows(&q->pg, q->arena, &row) == 0 ||
	    strcmp(row->outcome, "fresh") == 0) {
		reply_stored(q);
	} else {
		idem_answer(q, row->outcome, row->status, row->response);
	}
}

/* Nothing was done, so a repeat may as well be refused anew. */
static bool refusal_unclaimed(struct areq *q)
{
	reply_stored(q);
	return true;
}

/* The struct areq's settle on a route that claims the key: the handler refused the request. */
static bool refusal_settle(struct areq *q, int status, const char *type, const char *body, size_t n)
{
	const char *key = STEAL(q->idem_key);

	if (!key || status >= 500 || n > IDEM_STORED_MAX) {
		return false;
	}
	q->reply_type = type;
	q->reply_status = status;
	q->reply_body = arena_bytes(q->arena, body, n);
	SQL(q, api_idem_begin, refusal_claimed, .token_id = q->who.token_id, .key = key,
	    .route = q->idem_route, .body_sha256 = q->idem_sha256, .at_us = q->now_us,
	    .has_status = true, .status = status, .response = q->reply_body.p);
	q->failed = refusal_unclaimed;
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
	q->idem_route = arena_printf(q->arena, "POST %s", q->http->target);
	q->idem_sha256 = sha;
	if (q->route->claims) {
		q->settle = refusal_settle;
		q->route->run(q);
		return;
	}
	q->settle = idem_settle;
	SQL(q, api_idem_begin, idem_begun, .token_id = q->who.token_id, .key = key,
	    .route = q->idem_route, .body_sha256 = sha, .at_us = q->now_us);
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

/* The act is done, whether its reply is stored or not. But a key that stays open holds up a client
 * that retries for a minute. So we wait for a database that went away. Its connections end one by
 * one, and each may take a try with it. A database that refuses does so again at once. */
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
	if (q->reply_status >= 500 || q->reply_body.n > IDEM_STORED_MAX) {
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
