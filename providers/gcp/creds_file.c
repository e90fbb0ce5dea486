#include "base/base.h"
#include "gcp_priv.h"

/*
 * Credentials files: keys of service accounts, gcloud's application default credentials
 * (authorized_user, impersonated_service_account), workload identity federation (external_account;
 * google.aip.dev/auth/4117). No text of a file goes into an error: it may hold keys.
 */

bool creds_token_ok(const char *p, size_t n)
{
	if (n == 0 || n > 16384) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)p[i] <= ' ' || (unsigned char)p[i] >= 0x7f) {
			return false;
		}
	}
	return true;
}

static enum spot_step bad_file(struct spot_call *c, const struct auth *a, const char *what)
{
	return call_fail(c, SPOT_CONFIG, NULL, "gcp: credentials %s: %s", a->path, what);
}

/* A copy; NULL if absent or empty. */
static const char *field_text(struct spot_call *c, const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return str_empty(s) ? NULL : arena_strdup(c->arena, s);
}

static enum spot_step key_read(struct gcp *self, struct spot_call *c, struct auth *a,
    const json_t *doc)
{
	const char *pem = json_string_value(json_object_get(doc, "private_key"));
	const char *email = json_string_value(json_object_get(doc, "client_email"));
	struct rsa_key *key = NULL;

	a->kind = CREDS_KEY;
	a->key_id = field_text(c, doc, "private_key_id");
	a->token_uri = field_text(c, doc, "token_uri");
	if (a->token_uri == NULL) {
		a->token_uri = "https://oauth2.googleapis.com/token";
	}
	if (str_empty(email) || strlen(email) > 320 || strchr(email, '@') == NULL) {
		return bad_file(c, a, "client_email is missing");
	}
	if (!gcp_url_ok(a->token_uri)) {
		return bad_file(c, a, "token_uri is not an http:// or https:// address");
	}
	if (rsa_private_pem(str_from(pem), &key, NULL) != SPOT_OK) {
		return bad_file(c, a, "private_key is not an RSA key in PEM");
	}
	rsa_key_free(self->key);
	free(self->email);
	self->key = key;
	self->email = strdup(email);
	assert(self->email != NULL);
	return SPOT_STEP_NONE;
}

static enum spot_step user_read(struct spot_call *c, struct auth *a, const json_t *doc)
{
	a->kind = CREDS_USER;
	a->client_id = field_text(c, doc, "client_id");
	a->client_secret = field_text(c, doc, "client_secret");
	a->refresh_token = field_text(c, doc, "refresh_token");
	if (a->client_id == NULL || a->client_secret == NULL || a->refresh_token == NULL) {
		return bad_file(c, a, "client_id, client_secret or refresh_token is missing");
	}
	return SPOT_STEP_NONE;
}

static enum spot_step headers_read(struct spot_call *c, struct auth *a, const json_t *source)
{
	json_t *headers = json_object_get(source, "headers"), *v;
	const char *name;

	json_object_foreach (headers, name, v) {
		const char *value = json_string_value(v);

		if (value == NULL || a->headers_n == CREDS_HEADERS ||
		    strpbrk(name, " :\r\n") != NULL || strpbrk(value, "\r\n") != NULL) {
			return bad_file(c, a, "credential_source.headers cannot be sent");
		}
		a->headers[a->headers_n++] = (struct spot_header){ arena_strdup(c->arena, name),
			arena_strdup(c->arena, value) };
	}
	return SPOT_STEP_NONE;
}

static enum spot_step source_read(struct spot_call *c, struct auth *a, const json_t *doc)
{
	const json_t *source = json_object_get(doc, "credential_source");
	const json_t *format = json_object_get(source, "format");
	const char *type = field_text(c, format, "type");

	a->subject_file = field_text(c, source, "file");
	a->subject_url = field_text(c, source, "url");
	if (a->subject_file == NULL && a->subject_url == NULL) {
		return bad_file(c, a,
		    "credential_source has neither file nor url; executables and AWS as a source "
		    "are not supported");
	}
	if (a->subject_url != NULL && !gcp_url_ok(a->subject_url)) {
		return bad_file(c, a,
		    "credential_source.url is not an http:// or https:// address");
	}
	if (type != NULL && strcmp(type, "json") == 0) {
		a->subject_field = field_text(c, format, "subject_token_field_name");
		if (a->subject_field == NULL) {
			return bad_file(c, a,
			    "credential_source.format.subject_token_field_name is missing");
		}
	} else if (type != NULL && strcmp(type, "text") != 0) {
		return bad_file(c, a, "credential_source.format.type is neither text nor json");
	}
	return headers_read(c, a, source);
}

static enum spot_step external_read(struct spot_call *c, struct auth *a, const json_t *doc)
{
	a->kind = CREDS_EXTERNAL;
	a->audience = field_text(c, doc, "audience");
	a->subject_type = field_text(c, doc, "subject_token_type");
	a->token_url = field_text(c, doc, "token_url");
	if (a->token_url == NULL) {
		a->token_url = "https://sts.googleapis.com/v1/token";
	}
	if (a->audience == NULL || a->subject_type == NULL) {
		return bad_file(c, a, "audience or subject_token_type is missing");
	}
	if (!gcp_url_ok(a->token_url)) {
		return bad_file(c, a, "token_url is not an http:// or https:// address");
	}
	return source_read(c, a, doc);
}

static enum spot_step kind_read(struct gcp *self, struct spot_call *c, struct auth *a,
    const json_t *doc)
{
	const char *type = json_string_value(json_object_get(doc, "type"));

	if (str_same(type, "service_account")) {
		return key_read(self, c, a, doc);
	}
	if (str_same(type, "authorized_user")) {
		return user_read(c, a, doc);
	}
	if (str_same(type, "external_account")) {
		return external_read(c, a, doc);
	}
	return bad_file(c, a,
	    "type is not service_account, authorized_user, external_account or "
	    "impersonated_service_account");
}

enum spot_step creds_file_read(struct gcp *self, struct spot_call *c, struct auth *a)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *from;

	if (json_parse(c->in->body, "credentials", &doc, NULL) != SPOT_OK || !json_is_object(doc)) {
		return bad_file(c, a, "not a JSON object");
	}
	a->impersonate_url = field_text(c, doc, "service_account_impersonation_url");
	if (a->impersonate_url != NULL && !gcp_url_ok(a->impersonate_url)) {
		return bad_file(c, a,
		    "service_account_impersonation_url is not an http:// or https:// address");
	}
	from = doc;
	/* gcloud auth application-default login --impersonate-service-account */
	if (str_same(json_string_value(json_object_get(doc, "type")),
		"impersonated_service_account")) {
		from = json_object_get(doc, "source_credentials");
		if (a->impersonate_url == NULL) {
			return bad_file(c, a, "service_account_impersonation_url is missing");
		}
	}
	return kind_read(self, c, a, from);
}
