#include "base/base.h"
#include "aws_priv.h"

/*
 * Asking the sources: STS (docs.aws.amazon.com/STS/latest/APIReference), the container endpoint
 * (sdkref/latest/guide/feature-container-credentials.html), instance metadata version 2
 * (AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html). No text of a reply goes
 * into an error here: it may hold keys.
 */

#include <strings.h>

#define CONTAINER_TIMEOUT_US (2 * SPOT_US_PER_S)
#define METADATA_TIMEOUT_US (1 * SPOT_US_PER_S)
#define REPLY_MAX 65536

/* ---- STS ------------------------------------------------------------------------------------- */

static const char *session_name(const struct aws *self, struct spot_call *c, const struct role *r)
{
	const char *name = r->session != NULL ? r->session : aws_env(self, "AWS_ROLE_SESSION_NAME");

	return name != NULL
	    ? name
	    : arena_printf(c->arena, "spotbroker-%" PRId64, c->now_us / SPOT_US_PER_S);
}

static enum spot_step sts_send(struct aws *self, struct spot_call *c, struct query *q,
    const char *action, const struct role *role, bool unsigned_call)
{
	struct aws_request r = { .service = AWS_STS,
		.region = self->home,
		.action = action,
		.content_type = "application/x-www-form-urlencoded; charset=utf-8",
		.limit = AWS_LIMIT_STS,
		.unsigned_call = unsigned_call,
		.keys = &self->next };

	query_add(q, "RoleArn", role->arn);
	query_add(q, "RoleSessionName", session_name(self, c, role));
	query_add(q, "DurationSeconds", role->duration != NULL ? role->duration : "3600");
	r.body = query_end(q, &r.body_n);
	return aws_send(self, c, &r);
}

enum spot_step creds_web_send(struct aws *self, struct spot_call *c, struct auth *a)
{
	struct query q;

	query_begin(&q, c->arena, "AssumeRoleWithWebIdentity", STS_VERSION);
	query_add(&q, "WebIdentityToken", secret_reveal(&self->hop));
	return sts_send(self, c, &q, "AssumeRoleWithWebIdentity", &a->web, true);
}

enum spot_step creds_role_send(struct aws *self, struct spot_call *c, struct auth *a)
{
	const struct role *role = &a->roles[a->roles_n - 1];
	struct query q;

	query_begin(&q, c->arena, "AssumeRole", STS_VERSION);
	if (role->external_id != NULL) {
		query_add(&q, "ExternalId", role->external_id);
	}
	return sts_send(self, c, &q, "AssumeRole", role, false);
}

enum spot_step creds_sts_reply(struct aws *self, struct spot_call *c, const char *action)
{
	const struct xml *doc, *k;
	const char *id, *key, *token;
	int64_t expires;
	enum spot_step s = aws_reply_plain(self, c, action);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	struct xml *root = NULL;
	if (xml_parse(c->arena, c->in->body, &root, NULL) != SPOT_OK) {
		return aws_bad_reply(c, action, "not XML");
	}
	doc = root;
	k = xml_at(doc, arena_printf(c->arena, "%sResult/Credentials", action));
	id = xml_text(k, "AccessKeyId", "");
	key = xml_text(k, "SecretAccessKey", "");
	token = xml_text(k, "SessionToken", "");
	expires = aws_time(xml_text(k, "Expiration", ""));
	if (*id == '\0' || *key == '\0' || *token == '\0' || expires == 0) {
		return aws_bad_reply(c, action, "incomplete Credentials");
	}
	return creds_next_set(self, c, id, key, token, expires);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* A token becomes a header or a form value: no line breaks, no controls. */
static bool hop_set(struct aws *self, const char *p, size_t n)
{
	while (n > 0 && (p[n - 1] == '\n' || p[n - 1] == '\r')) {
		n--;
	}
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)p[i] < ' ' || p[i] == 0x7f) {
			return false;
		}
	}
	secret_fini(&self->hop);
	if (n > 0) {
		secret_init(&self->hop, p, n);
	}
	return n > 0;
}

enum spot_step creds_hop_file(struct aws *self, struct spot_call *c, const char *what)
{
	if (c->in->status != 200) {
		return call_fail(c, SPOT_CONFIG, NULL, "aws: %s: cannot read %s", what, c->path);
	}
	if (!hop_set(self, c->in->body.p, c->in->body.n)) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: %s: %s is empty or has line breaks in it", what, c->path);
	}
	return SPOT_STEP_NONE;
}

/* ---- a plain GET ----------------------------------------------------------------------------- */

static void get_start(struct spot_call *c, const char *method, const char *url, int64_t timeout_us)
{
	call_request(c, method, url);
	c->out.timeout_us = timeout_us;
	c->out.reply_bytes_max = REPLY_MAX;
	c->limit = AWS_LIMIT_METADATA;
	c->limit_cost = 1;
	c->limit_scope = "";
	c->mutating = false;
}

static enum spot_step status_fail(struct spot_call *c, const char *what)
{
	int status = c->in->status;

	if (status == 0 || status == 429 || status >= 500) {
		return call_again(c, SPOT_UNAVAILABLE, call_retry_after_us(c), NULL,
		    "aws: %s: HTTP %d", what, status);
	}
	return call_fail(c, SPOT_UNAUTHENTICATED, NULL, "aws: %s: HTTP %d", what, status);
}

/* {Code?, AccessKeyId, SecretAccessKey, Token, Expiration}: container and metadata. */
static enum spot_step keys_read(struct aws *self, struct spot_call *c, const char *what)
{
	json_t *doc AUTO(json) = NULL;
	const char *code, *id, *key, *expires;
	int64_t at = 0;

	if (json_parse(c->in->body, what, &doc, NULL) != SPOT_OK || !json_is_object(doc)) {
		return call_fail(c, SPOT_BAD_REPLY, NULL, "aws: %s: the reply is not a JSON object",
		    what);
	}
	code = json_string_value(json_object_get(doc, "Code"));
	id = json_string_value(json_object_get(doc, "AccessKeyId"));
	key = json_string_value(json_object_get(doc, "SecretAccessKey"));
	expires = json_string_value(json_object_get(doc, "Expiration"));
	/* A 200 may carry an error: Code and Message, no keys. */
	if (code != NULL && strcmp(code, "Success") != 0) {
		return call_fail(c, SPOT_UNAUTHENTICATED, aws_words(c->arena, code),
		    "aws: %s: %.60s", what, aws_words(c->arena, code));
	}
	if (str_empty(id) || str_empty(key)) {
		return call_fail(c, SPOT_BAD_REPLY, NULL, "aws: %s: no keys in the reply", what);
	}
	if (expires != NULL && !parse_time_us(expires, &at)) {
		return call_fail(c, SPOT_BAD_REPLY, NULL, "aws: %s: Expiration is not a time",
		    what);
	}
	return creds_next_set(self, c, id, key, json_string_value(json_object_get(doc, "Token")),
	    at);
}

/* ---- container ------------------------------------------------------------------------------- */

static bool host_is_loopback(const char *host)
{
	return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
	    (str_prefix(host, "127.") && strspn(host, "0123456789.") == strlen(host));
}

/* Plain http only to hosts that cannot be elsewhere: the answer is a key. */
static bool container_host_ok(struct arena *a, const char *url)
{
	const char *host, *end;
	char *name;

	if (str_prefix(url, "https://")) {
		return url[8] != '\0';
	}
	if (!str_prefix(url, "http://")) {
		return false;
	}
	host = url + 7;
	end = host + strcspn(host, "/?#");
	if (memchr(host, '@', (size_t)(end - host))) {
		return false;
	}
	if (*host == '[') {
		end = memchr(host, ']', (size_t)(end - host)) ? strchr(host, ']') + 1 : host;
	} else if (memchr(host, ':', (size_t)(end - host))) {
		end = strchr(host, ':');
	}
	name = arena_strndup(a, host, (size_t)(end - host));
	return host_is_loopback(name) || strcmp(name, "169.254.170.2") == 0 ||
	    strcmp(name, "169.254.170.23") == 0 || strcasecmp(name, "[fd00:ec2::23]") == 0;
}

enum spot_step creds_container_send(struct aws *self, struct spot_call *c)
{
	const char *relative = aws_env(self, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *url = aws_env(self, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
	const char *token = aws_env(self, "AWS_CONTAINER_AUTHORIZATION_TOKEN");

	if (relative != NULL) {
		url = arena_printf(c->arena, "http://169.254.170.2%s", relative);
	}
	if (url == NULL || (relative != NULL && relative[0] != '/')) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must begin with /");
	}
	if (strpbrk(url, " \t\r\n") || !container_host_ok(c->arena, url)) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: AWS_CONTAINER_CREDENTIALS_FULL_URI: plain http is allowed "
		    "to loopback and the vendor's link-local addresses only");
	}
	if (!secret_set(&self->hop) && token != NULL && !hop_set(self, token, strlen(token))) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: AWS_CONTAINER_AUTHORIZATION_TOKEN has line breaks in it");
	}
	get_start(c, "GET", url, CONTAINER_TIMEOUT_US);
	call_header(c, "accept", "application/json");
	if (secret_set(&self->hop)) {
		call_header(c, "authorization", secret_reveal(&self->hop));
	}
	return SPOT_SEND;
}

enum spot_step creds_container_reply(struct aws *self, struct spot_call *c)
{
	if (c->in->status != 200) {
		return status_fail(c, "container credentials");
	}
	return keys_read(self, c, "container credentials");
}

/* ---- instance metadata ----------------------------------------------------------------------- */

static const char *metadata_url(const struct aws *self, struct arena *a, const char *path)
{
	const char *base = aws_env(self, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
	const char *mode = aws_env(self, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
	size_t n;

	if (base == NULL) {
		base = mode != NULL && strcasecmp(mode, "ipv6") == 0 ? "http://[fd00:ec2::254]"
								     : "http://169.254.169.254";
	}
	n = strlen(base);
	if (n > 0 && base[n - 1] == '/') {
		n--;
	}
	if ((!str_prefix(base, "http://") && !str_prefix(base, "https://")) ||
	    strpbrk(base, " \t\r\n@")) {
		return NULL;
	}
	return arena_printf(a, "%.*s%s", (int)n, base, path);
}

static enum spot_step metadata_start(struct aws *self, struct spot_call *c, const char *method,
    const char *path)
{
	const char *url = metadata_url(self, c->arena, path);

	if (url == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: AWS_EC2_METADATA_SERVICE_ENDPOINT is not an http:// or "
		    "https:// address");
	}
	get_start(c, method, url, METADATA_TIMEOUT_US);
	return SPOT_SEND;
}

enum spot_step creds_token_send(struct aws *self, struct spot_call *c)
{
	enum spot_step s = metadata_start(self, c, "PUT", "/latest/api/token");

	if (s == SPOT_SEND) {
		call_header(c, "x-aws-ec2-metadata-token-ttl-seconds", "21600");
	}
	return s;
}

enum spot_step creds_token_reply(struct aws *self, struct spot_call *c)
{
	int status = c->in->status;

	if (status == 404 || status == 403 || status == 405) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: no credentials: the instance metadata service gives no "
		    "version 2 token (HTTP %d)",
		    status);
	}
	if (status != 200) {
		return status_fail(c, "instance metadata token");
	}
	if (c->in->body.n > 1024 || !hop_set(self, c->in->body.p, c->in->body.n)) {
		return call_fail(c, SPOT_BAD_REPLY, NULL,
		    "aws: instance metadata token: not a token");
	}
	return SPOT_STEP_NONE;
}

enum spot_step creds_metadata_send(struct aws *self, struct spot_call *c, const struct auth *a)
{
	const char *path = "/latest/meta-data/iam/security-credentials/";
	enum spot_step s;

	if (a->role_name != NULL) {
		path =
		    arena_printf(c->arena, "%s%s", path, url_encode(c->arena, a->role_name, false));
	}
	s = metadata_start(self, c, "GET", path);
	if (s == SPOT_SEND) {
		call_header(c, "x-aws-ec2-metadata-token", secret_reveal(&self->hop));
	}
	return s;
}

enum spot_step creds_name_reply(struct aws *self, struct spot_call *c, struct auth *a)
{
	const char *p = c->in->body.p;
	size_t n;

	(void)self;
	if (c->in->status == 404) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: no credentials: this instance has no role");
	}
	if (c->in->status != 200) {
		return status_fail(c, "instance metadata");
	}
	n = c->in->body.n > 0 ? strcspn(p, "\r\n") : 0;
	if (n == 0 || n > 128) {
		return call_fail(c, SPOT_BAD_REPLY, NULL, "aws: instance metadata: no role name");
	}
	a->role_name = arena_strndup(c->arena, p, n);
	return SPOT_STEP_NONE;
}

enum spot_step creds_metadata_reply(struct aws *self, struct spot_call *c)
{
	if (c->in->status != 200) {
		return status_fail(c, "instance metadata credentials");
	}
	return keys_read(self, c, "instance metadata credentials");
}
