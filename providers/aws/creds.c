#include "base/base.h"
#include "aws_priv.h"

/*
 * Credentials: the frame of auth. The order of the chain is botocore's (credentials.py):
 * environment, role of a profile, web identity, keys of a profile, container, instance metadata.
 * New keys replace the old ones only when they are complete; until ten minutes before expiry a
 * failed renewal is no failure.
 */

#define RETRY_US (60 * SPOT_US_PER_S)

enum {
	CONFIG_FILE = 0,
	CREDENTIALS_FILE,
	CHOOSE,
	WEB_FILE,
	WEB_CALL,
	CONTAINER_FILE,
	CONTAINER_CALL,
	TOKEN,
	NAME,
	KEYS,
	ROLE
};

bool aws_auth_fresh(const void *p, int64_t now_us)
{
	const struct aws *self = p;
	int64_t left = self->keys.expires_us - (now_us + self->skew_us);

	if (!self->have_keys) {
		return false;
	}
	if (self->keys.expires_us == 0 || left > AWS_REFRESH_ADVISORY_US) {
		return true;
	}
	return left > AWS_REFRESH_MANDATORY_US && !call_due(now_us, self->retry_us, RETRY_US);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void auth_over(struct aws *self)
{
	aws_keys_fini(&self->next);
	secret_fini(&self->hop);
}

static enum spot_step auth_done(struct aws *self, struct spot_call *c, const struct auth *a)
{
	int64_t now = c->now_us + self->skew_us;

	/* A metadata service without newer keys keeps serving keys that still work. Like botocore,
	 * use them for a while longer. The time is random, so that a fleet does not come back at
	 * once. */
	if (a->source == CREDS_METADATA && a->roles_n == 0 && self->next.expires_us != 0 &&
	    self->next.expires_us - now <= AWS_REFRESH_ADVISORY_US) {
		self->next.expires_us =
		    now + AWS_REFRESH_ADVISORY_US + (120 + (int64_t)(c->rnd % 480)) * SPOT_US_PER_S;
	}
	aws_keys_fini(&self->keys);
	self->keys = self->next;
	self->next = (struct aws_keys){ 0 };
	self->have_keys = true;
	self->retry_us = 0;
	auth_over(self);
	return SPOT_DONE;
}

/* The old keys do for now. With more time left than that, auth runs because they were refused. */
static bool auth_may_wait(const struct aws *self, int64_t now_us)
{
	int64_t left = self->keys.expires_us - (now_us + self->skew_us);

	return self->have_keys && self->keys.expires_us != 0 && left > AWS_REFRESH_MANDATORY_US &&
	    left <= AWS_REFRESH_ADVISORY_US;
}

static enum spot_step auth_failed(struct aws *self, struct spot_call *c)
{
	auth_over(self);
	return auth_may_wait(self, c->now_us) ? SPOT_DONE : SPOT_FAIL;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* An absent file is an empty one. */
static enum spot_step file_reply(struct spot_call *c, struct str *ret)
{
	if (c->in->status == 403) {
		return call_fail(c, SPOT_CONFIG, NULL, "aws: may not read %s", c->path);
	}
	if (c->in->status == 200) {
		*ret = c->in->body;
	}
	return SPOT_STEP_NONE;
}

static int after_choice(const struct aws *self, const struct auth *a)
{
	switch (a->source) {
	case CREDS_WEB:
		return WEB_FILE;
	case CREDS_CONTAINER:
		return aws_env(self, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") ? CONTAINER_FILE
									       : CONTAINER_CALL;
	case CREDS_METADATA:
		return TOKEN;
	case CREDS_STATIC:
	case CREDS_NONE:
		break;
	}
	return ROLE;
}

/* The region of the profile is where STS and DescribeRegions are asked, if nothing else says. */
static void home_take(struct aws *self, struct spot_call *c, const struct auth *a)
{
	const char *name = self->profile, *section, *region;

	if (!self->home_guessed) {
		return;
	}
	if (name == NULL) {
		name = aws_env(self, "AWS_PROFILE");
	}
	section = name == NULL || strcmp(name, "default") == 0
	    ? "default"
	    : arena_printf(c->arena, "profile %s", name);
	region = aws_ini_get(c->arena, a->config, section, "region");
	if (aws_region_ok(region) && strcmp(region, self->home) != 0) {
		self->home = arena_strdup(self->arena, region);
	}
}

/* Reads the answer to what was asked last and moves on. */
static enum spot_step auth_reply(struct aws *self, struct spot_call *c, struct auth *a)
{
	struct call_state *st = c->state;
	enum spot_step s = SPOT_STEP_NONE;

	switch (st->at) {
	case CONFIG_FILE:
		s = file_reply(c, &a->config);
		st->at = CREDENTIALS_FILE;
		break;
	case CREDENTIALS_FILE:
		s = file_reply(c, &a->credentials);
		st->at = CHOOSE;
		break;
	case WEB_FILE:
		s = creds_hop_file(self, c, "web identity token");
		st->at = WEB_CALL;
		break;
	case WEB_CALL:
		s = creds_sts_reply(self, c, "AssumeRoleWithWebIdentity");
		st->at = s == SPOT_STEP_NONE ? ROLE : st->at;
		break;
	case CONTAINER_FILE:
		s = creds_hop_file(self, c, "container authorization token");
		st->at = CONTAINER_CALL;
		break;
	case CONTAINER_CALL:
		s = creds_container_reply(self, c);
		st->at = s == SPOT_STEP_NONE ? ROLE : st->at;
		break;
	case TOKEN:
		s = creds_token_reply(self, c);
		st->at = s == SPOT_STEP_NONE ? NAME : st->at;
		break;
	case NAME:
		s = creds_name_reply(self, c, a);
		st->at = s == SPOT_STEP_NONE ? KEYS : st->at;
		break;
	case KEYS:
		s = creds_metadata_reply(self, c);
		st->at = s == SPOT_STEP_NONE ? ROLE : st->at;
		break;
	default:
		s = creds_sts_reply(self, c, "AssumeRole");
		a->roles_n -= s == SPOT_STEP_NONE;
		break;
	}
	return s;
}

static enum spot_step auth_read(struct spot_call *c, const char *path)
{
	c->path = path;
	return SPOT_READ;
}

/* Asks for what is next. */
static enum spot_step auth_ask(struct aws *self, struct spot_call *c, struct auth *a)
{
	struct call_state *st = c->state;
	const char *path;

	switch (st->at) {
	case CONFIG_FILE:
		path = creds_path(self, c, "AWS_CONFIG_FILE", ".aws/config");
		if (path != NULL) {
			return auth_read(c, path);
		}
		st->at = CREDENTIALS_FILE;
		return auth_ask(self, c, a);
	case CREDENTIALS_FILE:
		path = creds_path(self, c, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
		if (path != NULL) {
			return auth_read(c, path);
		}
		st->at = CHOOSE;
		return auth_ask(self, c, a);
	case CHOOSE:
		if (creds_choose(self, c, a) != SPOT_STEP_NONE) {
			return SPOT_FAIL;
		}
		home_take(self, c, a);
		st->at = after_choice(self, a);
		return auth_ask(self, c, a);
	case WEB_FILE:
		return auth_read(c, a->web_file);
	case WEB_CALL:
		return creds_web_send(self, c, a);
	case CONTAINER_FILE:
		return auth_read(c, aws_env(self, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"));
	case CONTAINER_CALL:
		return creds_container_send(self, c);
	case TOKEN:
		return creds_token_send(self, c);
	case NAME:
	case KEYS:
		return creds_metadata_send(self, c, a);
	default:
		return a->roles_n > 0 ? creds_role_send(self, c, a) : auth_done(self, c, a);
	}
}

enum spot_step aws_auth(void *p, struct spot_call *c)
{
	struct aws *self = p;
	struct call_state *st = c->state;
	enum spot_step s = SPOT_STEP_NONE;
	struct auth *a;

	if (st == NULL) {
		st = call_state_get(c, sizeof(struct auth));
		auth_over(self);
		/* If the core gives up on a broken connection we are not asked again: the old keys
		 * do for a minute. */
		if (auth_may_wait(self, c->now_us)) {
			self->retry_us = c->now_us + RETRY_US;
		}
		a = st->own;
		/* A profile in our own settings is an explicit wish: it goes before the
		 * environment. */
		if (self->profile == NULL && creds_from_env(self, c, &s)) {
			a->source = CREDS_STATIC;
			return s == SPOT_STEP_NONE ? auth_done(self, c, a) : s;
		}
	}
	a = st->own;
	if (c->in != NULL) {
		s = auth_reply(self, c, a);
	}
	if (s == SPOT_STEP_NONE) {
		s = auth_ask(self, c, a);
	}
	/* There is nobody above us to renew what we are renewing. */
	if (s == SPOT_FAIL || s == SPOT_REAUTH) {
		return auth_failed(self, c);
	}
	return s;
}
