/*
 * Settings and the API key, checked once, at open. auth reads a key file again whenever the engine
 * asks for fresh credentials.
 */
#include "base/base.h"
#include "lambda_priv.h"

#define ENDPOINT_DEFAULT "https://cloud.lambda.ai"
/* Pinned: left out, Lambda takes the newest stack, which differs from region to region. */
#define IMAGE_FAMILY_DEFAULT "lambda-stack-22-04"
#define KEY_FILE_DEFAULT ".lambda_cloud/lambda_keys"

static char *text_copy(const char *s)
{
	char *copy = strdup(s);

	if (copy == NULL) {
		abort();
	}
	return copy;
}

static const char *setting_get(const struct spot_provider_conf *conf, const char *key)
{
	const char *v = conf->setting(conf->ctx, key);

	return str_empty(v) ? NULL : v;
}

static const char *env_get(const struct spot_provider_conf *conf, const char *name)
{
	const char *v = conf->env(conf->ctx, name);

	return str_empty(v) ? NULL : v;
}

/* Plain HTTP would send the key in the clear: only to this machine. */
static bool endpoint_is_local(const char *rest)
{
	static const char *const hosts[] = { "127.0.0.1", "localhost", "[::1]" };

	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		size_t n = strlen(hosts[i]);

		if (strncmp(rest, hosts[i], n) == 0 &&
		    (rest[n] == '\0' || rest[n] == ':' || rest[n] == '/')) {
			return true;
		}
	}
	return false;
}

static enum spot_rc endpoint_read(struct lambda *self, const struct spot_provider_conf *conf,
    struct spot_err *err)
{
	const char *url = setting_get(conf, "endpoint");
	size_t n;

	url = url != NULL ? url : env_get(conf, "LAMBDA_API_ENDPOINT");
	url = url != NULL ? url : ENDPOINT_DEFAULT;
	if (strpbrk(url, " \t\r\n?#@") != NULL ||
	    (!str_prefix(url, "https://") && !str_prefix(url, "http://"))) {
		return err_set(err, SPOT_CONFIG,
		    "provider %s: endpoint must be a plain https:// address", conf->name);
	}
	if (str_prefix(url, "http://") && !endpoint_is_local(url + strlen("http://"))) {
		return err_set(err, SPOT_CONFIG,
		    "provider %s: endpoint %.100s would carry the key unencrypted: use https",
		    conf->name, url);
	}
	/* The old host may redirect; a redirected POST loses its body or its key. */
	if (strstr(url, "://cloud.lambdalabs.com") != NULL) {
		return err_set(err, SPOT_CONFIG,
		    "provider %s: endpoint cloud.lambdalabs.com is deprecated: "
		    "use " ENDPOINT_DEFAULT,
		    conf->name);
	}
	self->endpoint = text_copy(url);
	n = strlen(self->endpoint);
	while (n > 0 && self->endpoint[n - 1] == '/') {
		self->endpoint[--n] = '\0';
	}
	if (str_suffix(self->endpoint, "/api/v1")) {
		self->endpoint[n - strlen("/api/v1")] = '\0';
	}
	return SPOT_OK;
}

static enum spot_rc key_set(struct lambda *self, const char *key, size_t n, const char *from,
    struct spot_err *err)
{
	if (n < 8 || n > 512) {
		return err_set(err, SPOT_CONFIG,
		    "provider %s: the API key in %s has %zu characters: not a key", self->name,
		    from, n);
	}
	for (size_t i = 0; i < n; i++) {
		if (key[i] <= ' ' || key[i] > '~') {
			return err_set(err, SPOT_CONFIG,
			    "provider %s: the API key in %s has a character that no key has, at "
			    "position %zu",
			    self->name, from, i + 1);
		}
	}
	secret_fini(&self->key);
	secret_init(&self->key, key, n);
	return SPOT_OK;
}

static enum spot_rc key_read(struct lambda *self, const struct spot_provider_conf *conf,
    struct spot_err *err)
{
	static const char *const names[] = { "LAMBDA_API_KEY", "LAMBDA_CLOUD_TOKEN" };
	const char *path = setting_get(conf, "api_key_file");
	const char *home = env_get(conf, "HOME");

	if (path != NULL) {
		self->key_file = text_copy(path);
		self->key_file_chosen = true;
		return SPOT_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *key = env_get(conf, names[i]);

		if (key != NULL) {
			return key_set(self, key, strlen(key), names[i], err);
		}
	}
	if (home == NULL) {
		return err_set(err, SPOT_CONFIG,
		    "provider %s: no API key: set api_key_file, or LAMBDA_API_KEY in the "
		    "environment",
		    conf->name);
	}
	if (asprintf(&self->key_file, "%s/%s", home, KEY_FILE_DEFAULT) < 0) {
		abort();
	}
	return SPOT_OK;
}

static enum spot_rc family_read(const struct spot_provider_conf *conf, const char *key,
    const char *otherwise, char **ret, struct spot_err *err)
{
	const char *family = setting_get(conf, key);

	if (family != NULL &&
	    strspn(family, "abcdefghijklmnopqrstuvwxyz0123456789-._") != strlen(family)) {
		return err_set(err, SPOT_CONFIG,
		    "provider %s: %s '%.60s' is not a family name such as " IMAGE_FAMILY_DEFAULT,
		    conf->name, key, family);
	}
	*ret = text_copy(family != NULL ? family : otherwise);
	return SPOT_OK;
}

static enum spot_rc audit_read(struct lambda *self, const struct spot_provider_conf *conf,
    struct spot_err *err)
{
	const char *v = setting_get(conf, "audit_events");

	if (v != NULL && strcmp(v, "on") != 0 && strcmp(v, "off") != 0) {
		return err_set(err, SPOT_CONFIG,
		    "provider %s: audit_events is on or off, not '%.20s'", conf->name, v);
	}
	self->audit_events = v == NULL || strcmp(v, "on") == 0;
	return SPOT_OK;
}

static enum spot_rc launch_read(struct lambda *self, const struct spot_provider_conf *conf,
    struct spot_err *err)
{
	const char *ssh_key = setting_get(conf, "ssh_key_name");
	enum spot_rc rc =
	    family_read(conf, "image_family", IMAGE_FAMILY_DEFAULT, &self->image_family, err);

	rc = rc != SPOT_OK ? rc
			   : family_read(conf, "image_family_arm64", self->image_family,
				 &self->image_family_arm64, err);
	rc = rc != SPOT_OK ? rc : audit_read(self, conf, err);
	if (rc != SPOT_OK) {
		return rc;
	}
	if (ssh_key != NULL && strlen(ssh_key) > 64) {
		return err_set(err, SPOT_CONFIG,
		    "provider %s: ssh_key_name is longer than 64 characters", conf->name);
	}
	self->ssh_key_name = ssh_key != NULL ? text_copy(ssh_key) : NULL;
	return SPOT_OK;
}

enum spot_rc lambda_settings_read(struct lambda *self, const struct spot_provider_conf *conf,
    struct spot_err *err)
{
	enum spot_rc rc;

	self->name = text_copy(conf->name);
	self->conf = *conf;
	rc = endpoint_read(self, conf, err);
	rc = rc != SPOT_OK ? rc : key_read(self, conf, err);
	return rc != SPOT_OK ? rc : launch_read(self, conf, err);
}

/* ---- credentials ----------------------------------------------------------------------------- */

bool lambda_auth_fresh(const void *p, int64_t now_us)
{
	const struct lambda *self = p;

	(void)now_us;
	return secret_set(&self->key);
}

static struct str text_trim(struct str s)
{
	while (s.n > 0 && strchr(" \t\r\n\"'", s.p[0]) != NULL) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && strchr(" \t\r\n\"'", s.p[s.n - 1]) != NULL) {
		s.n--;
	}
	return s;
}

/* "api_key = VALUE" on a line of its own (SkyPilot's file), or nothing but the key. */
static struct str key_in_file(struct str text)
{
	static const char word[] = "api_key";
	struct str rest = text, whole;

	while (rest.n > 0) {
		const char *end = memchr(rest.p, '\n', rest.n);
		struct str line = { rest.p, end != NULL ? (size_t)(end - rest.p) : rest.n };
		size_t n = sizeof(word) - 1;

		rest.p += MIN(line.n + 1, rest.n);
		rest.n -= MIN(line.n + 1, rest.n);
		line = text_trim(line);
		if (line.n <= n || memcmp(line.p, word, n) != 0) {
			continue;
		}
		line = text_trim((struct str){ line.p + n, line.n - n });
		if (line.n > 0 && line.p[0] == '=') {
			return text_trim((struct str){ line.p + 1, line.n - 1 });
		}
	}
	whole = text_trim(text);
	return memchr(whole.p, '\n', whole.n) == NULL && memchr(whole.p, '=', whole.n) == NULL
	    ? whole
	    : STR_LIT("");
}

enum spot_step lambda_auth(void *p, struct spot_call *c)
{
	struct lambda *self = p;
	struct str key;

	if (self->key_file == NULL) {
		return SPOT_DONE; /* from the environment: there is nothing to look at again */
	}
	if (c->in == NULL) {
		c->path = self->key_file;
		return SPOT_READ;
	}
	if (c->in->status == 404 && !self->key_file_chosen) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "lambda: no API key: set api_key_file, or LAMBDA_API_KEY in "
		    "the environment (%s does not exist)",
		    self->key_file);
	}
	if (c->in->status != 200) {
		return call_fail(c, SPOT_CONFIG, NULL, "lambda: API key file %s %s", self->key_file,
		    c->in->status == 404 ? "does not exist"
					 : "cannot be read: check its owner and mode");
	}
	key = key_in_file(c->in->body);
	if (key.n == 0) {
		return call_fail(c, SPOT_CONFIG, NULL, "lambda: %s has no line 'api_key = ...'",
		    self->key_file);
	}
	return key_set(self, key.p, key.n, self->key_file, &c->err) == SPOT_OK ? SPOT_DONE
									       : SPOT_FAIL;
}
