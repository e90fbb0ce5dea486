#include "base/base.h"
#include "aws_priv.h"

/* One set of access keys: how every source fills the next set, and how a set is wiped. */

void aws_keys_fini(struct aws_keys *k)
{
	free(k->access_key);
	k->access_key = NULL;
	secret_fini(&k->secret_key);
	secret_fini(&k->session_token);
	k->expires_us = 0;
}

/* Key id and token become headers. */
static bool header_ok(const char *text)
{
	for (; text != NULL && *text != '\0'; text++) {
		if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f) {
			return false;
		}
	}
	return true;
}

enum spot_step creds_next_set(struct aws *self, struct spot_call *c, const char *access,
    const char *secret, const char *token, int64_t expires_us)
{
	if (!header_ok(access) || !header_ok(token)) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: the access key id or the session token has blanks or line breaks in it");
	}
	struct aws_keys k = { .access_key = strdup(access), .expires_us = expires_us };

	assert(k.access_key != NULL);
	secret_init(&k.secret_key, secret, strlen(secret));
	if (!str_empty(token)) {
		secret_init(&k.session_token, token, strlen(token));
	}
	aws_keys_fini(&self->next);
	self->next = k;
	return SPOT_STEP_NONE;
}
