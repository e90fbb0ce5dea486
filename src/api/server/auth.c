/*
 * Authentication. The database knows a bearer token by its SHA-256 only; the row found by that
 * hash is compared again in constant time. Users' tokens have roles. Agents' sessions are valid
 * for their own node and for the agent's routes only.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

#include "base/crypto/crypto.h"

#include <strings.h>

#define TOKEN_LENGTH_MAX 200

void api_token_hash(const char *token, size_t n, uint8_t hash[32])
{
	sha256(token, n, hash);
}

void api_token_make(struct rng *rng, char token[API_TOKEN_MAX], uint8_t hash[32])
{
	memcpy(token, "spt_", 4);
	rng_hex(rng, token + 4, 32);
	api_token_hash(token, strlen(token), hash);
}

enum scope role_scope(const char *role)
{
	static const struct {
		const char *role;
		enum scope scope;
	} roles[] = { { "admin", SCOPE_ADMIN }, { "lead", SCOPE_LEAD },
		{ "engineer", SCOPE_ENGINEER }, { "service", SCOPE_ENGINEER },
		{ "viewer", SCOPE_VIEWER } };

	for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
		if (strcmp(role, roles[i].role) == 0) {
			return roles[i].scope;
		}
	}
	return SCOPE_NONE;
}

bool areq_loopback(const struct areq *q)
{
	return str_prefix(q->http->peer, "127.") || str_prefix(q->http->peer, "[::1]");
}

static void auth_refuse(struct areq *q, const char *why)
{
	httpd_set(q->http, "WWW-Authenticate", "Bearer");
	areq_fail(q, SPOT_UNAUTHENTICATED, "%s", why);
}

void auth_refuse_ended(struct areq *q)
{
	auth_refuse(q, "the token is unknown, expired or revoked; ask an admin for a new one");
}

/* Kept while the statement runs. */
struct auth {
	void (*next)(struct areq *);
	uint64_t round; /* of the known tokens, when the statement was sent */
	int64_t sent_us;
};

static void auth_proceed(struct areq *q)
{
	const struct auth *a = q->own;
	void (*next)(struct areq *) = a->next;

	q->own = NULL;
	next(q);
}

/* True if the token's role permits the route; else replies. */
static bool user_permitted(struct areq *q, int64_t id, const char *name, const char *role,
    const char *team)
{
	enum scope need = q->route->scope == SCOPE_METRICS ? SCOPE_VIEWER : q->route->scope;

	q->who = (struct who){ .scope = role_scope(role),
		.token_id = id,
		.name = name,
		.role = role,
		.team = team };
	if (need == SCOPE_NODE || q->who.scope < need) {
		areq_fail(q, SPOT_DENIED,
		    "token '%s' has the role '%s', which does not permit this", name, role);
		return false;
	}
	return true;
}

static void user_found(struct areq *q)
{
	struct q_api_token_by_hash_row *row;
	const uint8_t *hash = (const uint8_t *)q->reply_body.p;
	const struct auth *a = q->own;

	if (q_api_token_by_hash_rows(&q->pg, q->arena, &row) == 0 || row->hash.n != 32 ||
	    !mem_equal_const(row->hash.p, hash, 32)) {
		auth_refuse_ended(q);
		return;
	}
	tokens_keep(q->api->tokens, a->round, a->sent_us, row);
	if (user_permitted(q, row->id, row->name, row->role, row->team)) {
		auth_proceed(q);
	}
}

/* True if the token is known, so no statement is needed. The request went on or was refused. */
static bool user_known(struct areq *q, const uint8_t hash[32], void (*next)(struct areq *q))
{
	struct loop *l = q->api->loop;
	const struct token_known *t =
	    tokens_find(q->api->tokens, hash, loop_mono_us(l), loop_wall_us(l));

	if (t == NULL) {
		return false;
	}
	if (user_permitted(q, t->id, arena_strdup(q->arena, t->name),
		arena_strdup(q->arena, t->role), arena_strdup(q->arena, t->team))) {
		next(q);
	}
	return true;
}

struct str areq_session(const struct areq *q)
{
	return q->reply_body;
}

void areq_node(struct areq *q, int64_t node_id)
{
	q->who = (struct who){ .scope = SCOPE_NODE,
		.node_id = node_id,
		.name = arena_printf(q->arena, "n%" PRId64, node_id),
		.role = "node",
		.team = "" };
}

bool areq_session_found(struct areq *q, int64_t node_id, struct str hash)
{
	if (hash.n != 32 || !mem_equal_const(hash.p, q->reply_body.p, 32)) {
		auth_refuse(q, "the session is unknown; enrol again");
		return false;
	}
	areq_node(q, node_id);
	return true;
}

static void node_found(struct areq *q)
{
	struct q_api_node_by_session_row *row, none = { 0 };

	if (q_api_node_by_session_rows(&q->pg, q->arena, &row) == 0) {
		row = &none;
	}
	if (areq_session_found(q, row->id, row->hash)) {
		auth_proceed(q);
	}
}

static const char *bearer_token(const struct areq *q)
{
	const char *h = httpd_header(q->http, "authorization");

	if (!h || strncasecmp(h, "Bearer ", 7) != 0) {
		return NULL;
	}
	h += 7;
	h += strspn(h, " ");
	return *h && strlen(h) <= TOKEN_LENGTH_MAX ? h : NULL;
}

void auth_begin(struct areq *q, void (*next)(struct areq *q))
{
	enum scope need = q->route->scope;
	const char *token = bearer_token(q);
	struct auth *a;
	uint8_t *hash;

	assert(need != SCOPE_NONE);
	if (need == SCOPE_PUBLIC || (need == SCOPE_METRICS && areq_loopback(q))) {
		next(q);
		return;
	}
	if (!token) {
		auth_refuse(q,
		    "no token in the request; send the header 'Authorization: Bearer TOKEN'");
		return;
	}
	hash = arena_alloc(q->arena, 32);
	api_token_hash(token, strlen(token), hash);
	if (need != SCOPE_NODE && user_known(q, hash, next)) {
		return;
	}
	a = q->own = arena_alloc(q->arena, sizeof(*a));
	*a = (struct auth){ next, tokens_round(q->api->tokens), loop_mono_us(q->api->loop) };
	q->reply_body = (struct str){ (const char *)hash, 32 };
	if (q->route->own_session) {
		auth_proceed(q);
	} else if (need == SCOPE_NODE) {
		SQL(q, api_node_by_session, node_found, .hash = q->reply_body);
	} else {
		SQL(q, api_token_by_hash, user_found, .hash = q->reply_body, .at_us = q->now_us);
	}
}
