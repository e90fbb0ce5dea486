/*
 * Tokens: list, create, revoke. Only the reply that creates a token has its value. A replay of
 * that POST lacks it, because the database stores only the hash.
 */
#include "base/base.h"
#include "api/ops/ops_priv.h"

#include "base/crypto/crypto.h"

static void tokens_done(struct areq *q)
{
	struct q_listed_row *rows;
	size_t n = q_api_tokens_rows(&q->pg, q->arena, &rows);

	areq_list_docs(q, rows, n);
}

void get_tokens(struct areq *q)
{
	int32_t *limit = arena_alloc(q->arena, sizeof(*limit));
	int64_t after;

	if (!areq_page(q, 0, &after, limit)) {
		return;
	}
	q->own = limit;
	SQL(q, api_tokens, tokens_done, .at_us = q->now_us, .after_id = after, .most = *limit + 1);
}

struct token_new {
	const char *name, *role, *team;
	int64_t expires_us;
	char value[API_TOKEN_MAX];
	uint8_t hash[32];
	json_t *doc;
};

static json_t *token_json(const struct token_new *t, int64_t id, const char *value)
{
	return json_pack("{s:o, s:s, s:s, s:s, s:s?, s:I}", "id", json_sprintf("t%" PRId64, id),
	    "name", t->name, "role", t->role, "team", t->team, "token", value, "expires@",
	    (json_int_t)t->expires_us);
}

/* The key is settled with a reply that lacks the value, before the value is sent. */
static void token_sent(struct areq *q)
{
	struct token_new *t = q->own;

	areq_json(q, 201, token_json(t, q->id, t->value));
	mem_wipe(t->value, sizeof(t->value));
}

static void token_made(struct areq *q)
{
	struct token_new *t = q->own;
	struct q_api_token_create_row *row;
	const char *key = STEAL(q->idem_key), *text;
	json_t *stored;

	if (q_api_token_create_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_INTERNAL, "the token was not written");
		return;
	}
	q->id = row->id;
	if (!key) {
		token_sent(q);
		return;
	}
	stored = token_json(t, q->id, NULL);
	view_resolve(stored, q->now_us);
	text = json_text(q->arena, stored);
	idem_store(q, key, 201, text, strlen(text), token_sent);
	json_decref(stored);
}

static bool name_taken(struct areq *q)
{
	struct token_new *t = q->own;

	if (q->pg.op.rc != SPOT_CONFLICT) {
		return false;
	}
	areq_fail(q, SPOT_CONFLICT, "token '%s' exists; choose another name", t->name);
	return true;
}

static bool token_read(struct areq *q, const json_t *body, struct token_new *t)
{
	struct spot_err err = { 0 };
	int64_t life;

	t->name = json_need_str(body, "name", &err);
	t->role = json_need_str(body, "role", &err);
	t->team = json_str(body, "team", "", &err);
	life = json_i64(body, "expires_s", 0, &err);
	if (err.rc != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return false;
	}
	if (!*t->name || strlen(t->name) > 60 || strlen(t->team) > 60) {
		areq_fail_field(q, "name", "name must have 1 to 60 bytes, and team at most 60");
		return false;
	}
	if (role_scope(t->role) == SCOPE_NONE) {
		areq_fail_field(q, "role",
		    "must be 'admin', 'lead', 'engineer', 'viewer' or 'service'");
		return false;
	}
	if (life < 0 || life > INT64_C(10) * 365 * 86400) {
		areq_fail_field(q, "expires_s",
		    "must be from 1 second to ten years in seconds; leave it out for no expiry");
		return false;
	}
	t->expires_us = life ? q->now_us + life * SPOT_US_PER_S : 0;
	return true;
}

void post_token(struct areq *q)
{
	static const char *const known[] = { "name", "role", "team", "expires_s", NULL };
	struct token_new *t = arena_alloc(q->arena, sizeof(*t));
	json_t *body;

	if (!areq_body(q, &body) || !areq_body_keys(q, body, known) || !token_read(q, body, t)) {
		return;
	}
	t->name = arena_strdup(q->arena, t->name);
	t->role = arena_strdup(q->arena, t->role);
	t->team = arena_strdup(q->arena, t->team);
	api_token_make(loop_rng(q->api->loop), t->value, t->hash);
	q->own = t;
	SQL(q, api_token_create, token_made, .name = t->name, .role = t->role, .team = t->team,
	    .hash = (struct str){ (const char *)t->hash, 32 }, .at_us = q->now_us,
	    .has_expires_us = t->expires_us != 0, .expires_us = t->expires_us,
	    .actor = q->who.name);
	q->failed = name_taken;
}

static void token_revoked(struct areq *q)
{
	struct q_api_token_revoke_row *row;

	api_forget_tokens(q->api);
	if (q_api_token_revoke_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no token 't%" PRId64 "'", q->id);
	} else {
		areq_done(q);
	}
}

void delete_token(struct areq *q)
{
	if (q->id == q->who.token_id) {
		areq_fail(q, SPOT_CONFLICT,
		    "the request uses this very token; revoke it with another token");
		return;
	}
	SQL(q, api_token_revoke, token_revoked, .id = q->id, .at_us = q->now_us,
	    .actor = q->who.name);
}
