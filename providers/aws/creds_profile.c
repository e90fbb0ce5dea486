#include "base/base.h"
#include "aws_priv.h"

/*
 * Which source of credentials is meant:
 * docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html. Pure: environment and the
 * text of the shared files in, a decision out.
 */

bool creds_from_env(struct aws *self, struct spot_call *c, enum spot_step *ret)
{
	const char *id = aws_env(self, "AWS_ACCESS_KEY_ID"),
		   *key = aws_env(self, "AWS_SECRET_ACCESS_KEY");

	if (id == NULL || key == NULL) {
		return false;
	}
	*ret = creds_next_set(self, c, id, key, aws_env(self, "AWS_SESSION_TOKEN"), 0);
	return true;
}

static const char *home_expand(struct aws *self, struct spot_call *c, const char *path)
{
	const char *home = aws_env(self, "HOME");

	if (!str_prefix(path, "~/")) {
		return path;
	}
	return home != NULL ? arena_printf(c->arena, "%s/%s", home, path + 2) : NULL;
}

const char *creds_path(struct aws *self, struct spot_call *c, const char *variable,
    const char *under_home)
{
	const char *path = aws_env(self, variable);

	return home_expand(self, c,
	    path != NULL ? path : arena_printf(c->arena, "~/%s", under_home));
}

/* ---- profiles -------------------------------------------------------------------------------- */

static const char *config_section(struct spot_call *c, const char *profile)
{
	return strcmp(profile, "default") == 0 ? "default"
					       : arena_printf(c->arena, "profile %s", profile);
}

static bool profile_exists(struct spot_call *c, const struct auth *a, const char *profile)
{
	return aws_ini_has(a->credentials, profile) ||
	    aws_ini_has(a->config, config_section(c, profile)) ||
	    (strcmp(profile, "default") == 0 && aws_ini_has(a->config, "profile default"));
}

/* The credentials file goes before the config file. */
static const char *profile_get(struct spot_call *c, const struct auth *a, const char *profile,
    const char *key)
{
	const char *v = aws_ini_get(c->arena, a->credentials, profile, key);

	if (v == NULL) {
		v = aws_ini_get(c->arena, a->config, config_section(c, profile), key);
	}
	if (v == NULL && strcmp(profile, "default") == 0) {
		v = aws_ini_get(c->arena, a->config, "profile default", key);
	}
	return v;
}

static struct role profile_role(struct spot_call *c, const struct auth *a, const char *profile)
{
	return (struct role){ .arn = profile_get(c, a, profile, "role_arn"),
		.session = profile_get(c, a, profile, "role_session_name"),
		.external_id = profile_get(c, a, profile, "external_id"),
		.duration = profile_get(c, a, profile, "duration_seconds") };
}

static enum spot_step static_take(struct aws *self, struct spot_call *c, struct auth *a,
    const char *profile)
{
	const char *id = profile_get(c, a, profile, "aws_access_key_id");
	const char *key = profile_get(c, a, profile, "aws_secret_access_key");

	if (id == NULL || key == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: profile '%.60s' has no aws_access_key_id and "
		    "aws_secret_access_key",
		    profile);
	}
	a->source = CREDS_STATIC;
	return creds_next_set(self, c, id, key, profile_get(c, a, profile, "aws_session_token"), 0);
}

static enum spot_step web_take(struct aws *self, struct spot_call *c, struct auth *a,
    struct role role, const char *file)
{
	a->web = role;
	a->web_file = home_expand(self, c, file);
	if (a->web.arn == NULL || a->web_file == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: web identity needs a role and a token file");
	}
	a->source = CREDS_WEB;
	return SPOT_STEP_NONE;
}

static enum spot_step named_source(struct aws *self, struct spot_call *c, struct auth *a,
    const char *profile, const char *source)
{
	enum spot_step s = SPOT_STEP_NONE;

	if (strcmp(source, "Environment") == 0 && creds_from_env(self, c, &s)) {
		a->source = CREDS_STATIC;
	} else if (strcmp(source, "EcsContainer") == 0) {
		a->source = CREDS_CONTAINER;
	} else if (strcmp(source, "Ec2InstanceMetadata") == 0) {
		a->source = CREDS_METADATA;
	} else {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: profile '%.60s': credential_source '%.40s' gives nothing", profile,
		    source);
	}
	return s;
}

static bool has_role(struct spot_call *c, const struct auth *a, const char *profile)
{
	return profile_get(c, a, profile, "role_arn") != NULL &&
	    (profile_get(c, a, profile, "source_profile") != NULL ||
		profile_get(c, a, profile, "credential_source") != NULL);
}

/* Follows source_profile from profile down to the first keys, noting the roles on the way. */
static enum spot_step profile_follow(struct aws *self, struct spot_call *c, struct auth *a,
    const char *profile)
{
	for (;;) {
		const char *next = profile_get(c, a, profile, "source_profile");
		const char *source = profile_get(c, a, profile, "credential_source");
		const char *file = profile_get(c, a, profile, "web_identity_token_file");

		if (!has_role(c, a, profile) && profile_get(c, a, profile, "role_arn") != NULL &&
		    file != NULL) {
			return web_take(self, c, a, profile_role(c, a, profile), file);
		}
		if (!has_role(c, a, profile)) {
			return static_take(self, c, a, profile);
		}
		if (next != NULL && source != NULL) {
			return call_fail(c, SPOT_CONFIG, NULL,
			    "aws: profile '%.60s' has both source_profile and "
			    "credential_source",
			    profile);
		}
		if (profile_get(c, a, profile, "mfa_serial") != NULL) {
			return call_fail(c, SPOT_CONFIG, NULL,
			    "aws: profile '%.60s' needs an MFA code, which a daemon "
			    "cannot give",
			    profile);
		}
		if (a->roles_n == ROLES_MAX) {
			return call_fail(c, SPOT_CONFIG, NULL,
			    "aws: profile '%.60s': source_profile goes round in "
			    "circles or over more than %d roles",
			    profile, ROLES_MAX);
		}
		a->roles[a->roles_n++] = profile_role(c, a, profile);
		if (source != NULL) {
			return named_source(self, c, a, profile, source);
		}
		/* A role may use the keys of its own profile. */
		if (strcmp(next, profile) == 0) {
			return static_take(self, c, a, profile);
		}
		if (!profile_exists(c, a, next)) {
			return call_fail(c, SPOT_CONFIG, NULL,
			    "aws: profile '%.60s': source_profile '%.60s' does not "
			    "exist",
			    profile, next);
		}
		profile = next;
	}
}

/* ---- the chain ------------------------------------------------------------------------------- */

static bool web_in_env(struct aws *self)
{
	/* An explicit profile turns the variables off. */
	return self->profile == NULL && aws_env(self, "AWS_ROLE_ARN") &&
	    aws_env(self, "AWS_WEB_IDENTITY_TOKEN_FILE");
}

/* Sources that need a person or another program: better said than passed over in silence. */
static const char *profile_unsupported(struct spot_call *c, const struct auth *a,
    const char *profile)
{
	static const char *const keys[] = { "sso_session", "sso_start_url", "credential_process",
		"login_session" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (profile_get(c, a, profile, keys[i]) != NULL) {
			return keys[i];
		}
	}
	return NULL;
}

static enum spot_step none_found(struct spot_call *c, const struct auth *a, const char *profile)
{
	const char *key = profile_unsupported(c, a, profile);

	if (key != NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: profile '%.60s' uses %s, which is not supported: "
		    "give the daemon keys or a role",
		    profile, key);
	}
	return call_fail(c, SPOT_CONFIG, NULL,
	    "aws: no credentials: neither in the environment nor in profile "
	    "'%.60s', and no web identity, container or instance metadata",
	    profile);
}

enum spot_step creds_choose(struct aws *self, struct spot_call *c, struct auth *a)
{
	const char *profile = self->profile, *off = aws_env(self, "AWS_EC2_METADATA_DISABLED");

	if (profile == NULL) {
		profile = aws_env(self, "AWS_PROFILE");
	}
	if (profile == NULL) {
		profile = aws_env(self, "AWS_DEFAULT_PROFILE");
	}
	if (profile != NULL && !profile_exists(c, a, profile)) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: profile '%.60s' is in neither shared file", profile);
	}
	if (profile == NULL) {
		profile = "default";
	}
	if (has_role(c, a, profile)) {
		return profile_follow(self, c, a, profile);
	}
	if (web_in_env(self)) {
		struct role role = { .arn = aws_env(self, "AWS_ROLE_ARN"),
			.session = aws_env(self, "AWS_ROLE_SESSION_NAME") };

		return web_take(self, c, a, role, aws_env(self, "AWS_WEB_IDENTITY_TOKEN_FILE"));
	}
	if (profile_get(c, a, profile, "role_arn") &&
	    profile_get(c, a, profile, "web_identity_token_file")) {
		return profile_follow(self, c, a, profile);
	}
	if (profile_get(c, a, profile, "aws_access_key_id") != NULL) {
		return static_take(self, c, a, profile);
	}
	if (aws_env(self, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
	    aws_env(self, "AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
		a->source = CREDS_CONTAINER;
		return SPOT_STEP_NONE;
	}
	if ((off != NULL && strcmp(off, "true") == 0) ||
	    profile_unsupported(c, a, profile) != NULL) {
		return none_found(c, a, profile);
	}
	a->source = CREDS_METADATA;
	return SPOT_STEP_NONE;
}
