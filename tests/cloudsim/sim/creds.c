/* Keys that exist. Sessions come from STS; a revoked or forgotten key is unknown. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/sim/cloud.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

struct creds {
	struct cred *first; /* newest first */
	const struct cred *current;
	char *lambda_key;
};

/* Base32 upper case as the vendor's key ids use. */
static char *key_id(struct sim *s, const char *prefix)
{
	static const char abc[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
	char text[24];
	size_t n = strlen(prefix);

	memcpy(text, prefix, n);
	for (; n < 20; n++) {
		text[n] = abc[rng_below(&s->rng, 32)];
	}
	text[20] = '\0';
	return dup_text(text);
}

static char *random_base64(struct sim *s, size_t bytes)
{
	struct arena *a = arena_new(0);
	uint8_t raw[256];
	char *out;

	assert(bytes <= sizeof(raw));
	s->rng.fill(&s->rng, raw, bytes);
	out = dup_text(base64_encode(a, raw, bytes));
	arena_free(a);
	return out;
}

static struct cred *cred_add(struct sim *s, const char *prefix, const char *arn,
    const char *user_id)
{
	struct cred *c = calloc(1, sizeof(*c));

	if (!c) {
		abort();
	}
	c->akid = key_id(s, prefix);
	c->secret = random_base64(s, 30);
	c->arn = dup_text(arn);
	c->user_id = dup_text(user_id ? user_id : c->akid);
	c->next = s->creds->first;
	s->creds->first = c;
	return c;
}

void creds_rotate(struct sim *s)
{
	for (struct cred *c = s->creds->first; c; c = c->next) {
		if (!c->session_token) {
			c->revoked = true;
		}
	}
	s->creds->current = cred_add(s, "AKIA", "arn:aws:iam::" AWS_ACCOUNT ":user/broker", NULL);
}

void lambda_key_set(struct sim *s, const char *key)
{
	char *made = NULL;

	if (!key) {
		char *id = sim_id(s, NULL, "secret_cloudsim_", 16);

		made = id;
	}
	free(s->creds->lambda_key);
	s->creds->lambda_key = made ? made : dup_text(key);
}

void creds_new(struct sim *s)
{
	s->creds = calloc(1, sizeof(*s->creds));
	if (!s->creds) {
		abort();
	}
	creds_rotate(s);
	lambda_key_set(s, NULL);
}

void creds_free(struct sim *s)
{
	struct cred *next;

	if (!s->creds) {
		return;
	}
	for (struct cred *c = s->creds->first; c; c = next) {
		next = c->next;
		free(c->akid);
		free(c->secret);
		free(c->session_token);
		free(c->arn);
		free(c->user_id);
		free(c);
	}
	free(s->creds->lambda_key);
	free(s->creds);
	s->creds = NULL;
}

const struct cred *cred_find(const struct sim *s, const char *akid)
{
	for (const struct cred *c = s->creds->first; c; c = c->next) {
		if (!c->revoked && str_same(c->akid, akid)) {
			return c;
		}
	}
	return NULL;
}

const struct cred *cred_main(const struct sim *s)
{
	return s->creds->current;
}

const char *lambda_key(const struct sim *s)
{
	return s->creds->lambda_key;
}

const struct cred *cred_session(struct sim *s, const char *arn, const char *user_id,
    int64_t seconds)
{
	struct cred *c = cred_add(s, "ASIA", arn, user_id);

	c->session_token = random_base64(s, 180);
	c->expires_us = sim_wall(s) + seconds * SPOT_US_PER_S;
	return c;
}

size_t creds_expire(struct sim *s)
{
	size_t n = 0;

	for (struct cred *c = s->creds->first; c; c = c->next) {
		if (c->session_token && c->expires_us > sim_wall(s)) {
			c->expires_us = sim_wall(s) - 1;
			n++;
		}
	}
	return n;
}

json_t *creds_json(const struct sim *s)
{
	json_t *all = json_pack("{s:{s:s, s:s, s:s}, s:{s:s}}", "aws", "access_key_id",
	    s->creds->current->akid, "secret_access_key", s->creds->current->secret, "account",
	    AWS_ACCOUNT, "lambda", "api_key", s->creds->lambda_key);

	clouds_announce(s, NULL, all);
	return all;
}
