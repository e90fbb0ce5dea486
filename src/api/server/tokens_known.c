/*
 * Bearer tokens that were looked up within the last second, by their SHA-256. A request with one of
 * them needs no statement. A revocation or a change forgets all of them. This process forgets them
 * at once (api_forget_tokens). Others hear of it from a trigger, or look again after a second. A
 * look-up that began before that may have read the old row, so it is not kept.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

#include "base/crypto/crypto.h"

#define KNOWN_US SPOT_US_PER_S
#define KNOWN_MAX 4096

struct token_cache {
	struct map by_hash;
	struct token_known *all[KNOWN_MAX];
	size_t n;
	uint64_t round;
};

static uint64_t hash_head(const uint8_t hash[32])
{
	uint64_t h;

	memcpy(&h, hash, sizeof(h));
	return h;
}

static bool token_same(const void *value, const void *key)
{
	return mem_equal_const(((const struct token_known *)value)->hash, key, 32);
}

struct token_cache *tokens_new(void)
{
	struct token_cache *c = calloc(1, sizeof(*c));

	assert(c != NULL);
	map_init(&c->by_hash, NULL, token_same);
	return c;
}

void tokens_forget(struct token_cache *c)
{
	map_clear(&c->by_hash);
	for (size_t i = 0; i < c->n; i++) {
		free(c->all[i]->name);
		free(c->all[i]->role);
		free(c->all[i]->team);
		free(c->all[i]);
	}
	c->n = 0;
	c->round++;
}

void tokens_free(struct token_cache *c)
{
	tokens_forget(c);
	map_fini(&c->by_hash);
	free(c);
}

uint64_t tokens_round(const struct token_cache *c)
{
	return c->round;
}

const struct token_known *tokens_find(struct token_cache *c, const uint8_t hash[32],
    int64_t mono_us, int64_t wall_us)
{
	const struct token_known *t = map_get(&c->by_hash, hash_head(hash), hash);

	if (t == NULL || mono_us >= t->until_us ||
	    (t->expires_us != 0 && wall_us >= t->expires_us)) {
		return NULL;
	}
	return t;
}

static char *text_keep(char *was, const char *text)
{
	char *copy = strdup(text);

	assert(copy != NULL);
	free(was);
	return copy;
}

void tokens_keep(struct token_cache *c, uint64_t round, int64_t mono_us,
    const struct q_api_token_by_hash_row *row)
{
	const uint8_t *hash = (const uint8_t *)row->hash.p;
	struct token_known *t = map_get(&c->by_hash, hash_head(hash), hash);

	if (round != c->round) {
		return;
	}
	if (t == NULL) {
		if (c->n == KNOWN_MAX) {
			tokens_forget(c);
		}
		t = calloc(1, sizeof(*t));
		assert(t != NULL);
		memcpy(t->hash, hash, 32);
		map_put(&c->by_hash, hash_head(hash), t);
		c->all[c->n++] = t;
	}
	t->id = row->id;
	t->until_us = mono_us + KNOWN_US;
	t->expires_us = row->has_expires_us ? row->expires_us : 0;
	t->name = text_keep(t->name, row->name);
	t->role = text_keep(t->role, row->role);
	t->team = text_keep(t->team, row->team);
}
