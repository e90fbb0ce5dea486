#include "base/base.h"
#include "azure_priv.h"

/*
 * Verifies a node by the metadata service's attested data, signed by the cloud
 * (learn.microsoft.com/azure/virtual-machines/instance-metadata-service, "Attested data"). It holds
 * the machine's GUID, the subscription, two dates and the agent's nonce. The machine with our name
 * must have that GUID. The signer's certificate is a server's, for *.metadata.azure.com. The
 * message lacks the issuer between it and the root. The issuer is fetched from the address in the
 * certificate, if that is one of the vendor's own places.
 */

#include "base/crypto/crypto.h"

#include <strings.h>

#define SKEW_US (300 * SPOT_US_PER_S)
#define PROOF_MAX (64 << 10)

enum { ROOTS = 0, ISSUER, MACHINE };

struct verifying {
	const char *roots;
	struct str der, issuer;
	const char *issuer_url;
	const char *vm_id; /* attested */
	bool off; /* its time is not ours */
};

/* ---- the message ----------------------------------------------------------------------------- */

/* base64, in lines or not. */
static bool proof_read(struct spot_call *c, const struct spot_verify *a, struct verifying *v)
{
	json_t *doc AUTO(json) = NULL;
	const char *text;
	char *flat, *to;

	if (a->proof.n > PROOF_MAX || json_parse(a->proof, "proof", &doc, NULL) != SPOT_OK ||
	    !json_is_object(doc) || strcmp(azure_text(doc, "kind"), "azure") != 0) {
		return false;
	}
	text = azure_text(doc, "pkcs7");
	flat = to = arena_alloc(c->arena, strlen(text) + 1);
	for (; *text != '\0'; text++) {
		if (strchr(" \r\n\t", *text) == NULL) {
			*to++ = *text;
		}
	}
	return to > flat && base64_decode(c->arena, flat, (size_t)(to - flat), &v->der);
}

/* NAME itself or something below it. */
static bool name_is_theirs(const struct azure *self, const char *name)
{
	size_t n = strlen(name), own = strlen(self->attested_name);

	if (strcasecmp(name, self->attested_name) == 0) {
		return true;
	}
	return n > own + 1 && name[n - own - 1] == '.' &&
	    strcasecmp(name + n - own, self->attested_name) == 0;
}

/* "11/28/26 00:16:17 -0000" */
static bool date_read(const char *text, int64_t *ret_us)
{
	int month, day, year, h, m, s, n = 0;
	char iso[96];

	if (sscanf(text, "%2d/%2d/%2d %2d:%2d:%2d %n", &month, &day, &year, &h, &m, &s, &n) != 6 ||
	    n == 0 || (strcmp(text + n, "-0000") != 0 && strcmp(text + n, "+0000") != 0) ||
	    month < 0 || day < 0 || year < 0 || h < 0 || m < 0 || s < 0) {
		return false;
	}
	snprintf(iso, sizeof(iso), "20%02d-%02d-%02dT%02d:%02d:%02dZ", year, month, day, h, m, s);
	return parse_time_us(iso, ret_us);
}

static enum spot_step proof_denied(struct spot_call *c, const char *why)
{
	return call_fail(c, SPOT_DENIED, NULL, "azure verify: %s", why);
}

static enum spot_step content_check(const struct azure *self, struct spot_call *c,
    const struct spot_verify *a, struct str content, struct verifying *v)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *stamp;
	int64_t from, to;

	if (json_parse(content, "attested data", &doc, NULL) != SPOT_OK || !json_is_object(doc)) {
		return proof_denied(c, "the attested data is not a JSON object");
	}
	stamp = json_object_get(doc, "timeStamp");
	if (str_empty(a->nonce) || strcmp(azure_text(doc, "nonce"), a->nonce) != 0) {
		return proof_denied(c, "the attested data was made for another nonce");
	}
	if (strcasecmp(azure_text(doc, "subscriptionId"), self->subscription) != 0) {
		return proof_denied(c, "the machine is in another subscription");
	}
	if (!date_read(azure_text(stamp, "createdOn"), &from) ||
	    !date_read(azure_text(stamp, "expiresOn"), &to)) {
		return proof_denied(c, "the attested data has no readable dates");
	}
	v->off = c->now_us + SKEW_US < from || c->now_us - SKEW_US > to;
	if (!azure_guid_ok(azure_text(doc, "vmId"))) {
		return proof_denied(c, "the attested data names no machine");
	}
	v->vm_id = arena_strdup(c->arena, azure_text(doc, "vmId"));
	return SPOT_STEP_NONE;
}

/* ---- the issuer ------------------------------------------------------------------------------ */

/* The address comes from a certificate that is not verified yet. So only the vendor's own
 * certificate places are allowed (azure-certificate-authority-details, "Certificate downloads and
 * revocation lists"). */
static bool issuer_place_ok(const char *url)
{
	static const char *const places[] = { "http://www.microsoft.com/pki",
		"http://caissuers.microsoft.com/pkiops/", "http://cacerts.digicert.com/",
		"http://cacerts.digicert.cn/" };

	if (strlen(url) > 500) {
		return false;
	}
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (str_prefix(url, places[i])) {
			return true;
		}
	}
	return false;
}

static enum spot_step issuer_send(struct spot_call *c, const struct verifying *v)
{
	call_request(c, "GET", v->issuer_url);
	c->limit = AZURE_LIMIT_CERTIFICATES;
	c->limit_cost = 1;
	c->limit_scope = "";
	c->mutating = false;
	c->out.reply_bytes_max = 64 << 10;
	return SPOT_SEND;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool signer_is_theirs(const struct azure *self, const struct cms_signer *s)
{
	bool theirs = name_is_theirs(self, s->common_name);

	for (size_t i = 0; i < s->names_n && !theirs; i++) {
		theirs = name_is_theirs(self,
		    str_prefix(s->names[i], "*.") ? s->names[i] + 2 : s->names[i]);
	}
	return theirs;
}

/* NONE: signed, by whom it must be, and true; st->at says what is next. */
static enum spot_step message_check(const struct azure *self, struct spot_call *c,
    const struct spot_verify *a, struct verifying *v)
{
	struct call_state *st = c->state;
	const struct cms_input in = { .signed_der = v->der,
		.trusted_pem = v->roots,
		.helper_certs = v->issuer,
		.now_us = c->now_us };
	struct cms_signer signer = { .common_name = "", .issuer_url = "" };
	struct spot_err err = { 0 };
	struct str content;
	bool missing;
	enum spot_rc rc = cms_verify(&in, c->arena, &content, &signer, &missing, &err);
	enum spot_step s;

	if (rc == SPOT_DENIED && missing && v->issuer.p == NULL &&
	    issuer_place_ok(signer.issuer_url)) {
		v->issuer_url = signer.issuer_url;
		st->at = ISSUER;
		return SPOT_STEP_NONE;
	}
	if (rc == SPOT_CONFIG) {
		return call_fail(c, SPOT_CONFIG, NULL, "azure verify: attested_ca_file: %s",
		    err.text);
	}
	if (rc != SPOT_OK) {
		return proof_denied(c, err.text);
	}
	if (!signer_is_theirs(self, &signer)) {
		return proof_denied(c,
		    arena_printf(c->arena, "signed by %.80s, not by %s", signer.common_name,
			self->attested_name));
	}
	s = content_check(self, c, a, content, v);
	st->at = MACHINE;
	return s;
}

static enum spot_step roots_reply(struct spot_call *c, struct verifying *v)
{
	if (c->in->status != 200) {
		return call_fail(c, SPOT_CONFIG, NULL, "azure verify: attested_ca_file: %s %s",
		    c->path, c->in->status == 403 ? "may not be read" : "is not there");
	}
	v->roots = arena_strndup(c->arena, c->in->body.p, c->in->body.n);
	return SPOT_STEP_NONE;
}

static enum spot_step issuer_reply(struct spot_call *c, struct verifying *v)
{
	if (c->in->status != 200 || c->in->body.n == 0) {
		if (c->in->status == 0 || c->in->status == 429 || c->in->status >= 500) {
			return call_again(c, SPOT_UNAVAILABLE, call_retry_after_us(c), NULL,
			    "azure verify: the issuer's certificate cannot be had (HTTP %d)",
			    c->in->status);
		}
		return proof_denied(c, "the issuer's certificate is not where the signer's says");
	}
	v->issuer = arena_bytes(c->arena, c->in->body.p, c->in->body.n);
	return SPOT_STEP_NONE;
}

/* It is the cloud's, of our machine, and made with our nonce: it may be our clock that is wrong. */
static enum spot_step time_check(struct spot_call *c, const struct verifying *v)
{
	char at[TIME_TEXT_MAX];

	return !v->off
	    ? SPOT_DONE
	    : call_fail(c, SPOT_CONFIG, NULL,
		  "azure verify: by our clock, which says %s, the attested data is out of "
		  "date; is the clock right?",
		  format_time_s(c->now_us, at));
}

static enum spot_step machine_reply(struct spot_call *c, const struct verifying *v)
{
	json_t *doc AUTO(json) = NULL;
	const char *code, *message;
	enum spot_step s;

	if (c->in->status == 404) {
		azure_error_read(c, &code, &message);
		if (strcasecmp(code, "ResourceNotFound") == 0 ||
		    strcasecmp(code, "ResourceGroupNotFound") == 0) {
			return proof_denied(c, "the machine does not exist");
		}
	}
	s = azure_reply(c, "GET virtualMachines", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (strcasecmp(azure_text(json_object_get(doc, "properties"), "vmId"), v->vm_id) != 0) {
		return proof_denied(c, "the attested data is another machine's");
	}
	return time_check(c, v);
}

static enum spot_step verify_ask(struct azure *self, struct spot_call *c,
    const struct spot_verify *a, const struct verifying *v)
{
	const struct call_state *st = c->state;
	struct azure_request r = { .what = "GET virtualMachines",
		.method = "GET",
		.limit = AZURE_LIMIT_READ };

	if (st->at == ISSUER) {
		return issuer_send(c, v);
	}
	r.path = arena_printf(c->arena, "%s?api-version=" API_COMPUTE,
	    azure_vm_path(self, c->arena, a->ref));
	return azure_send(self, c, &r);
}

static enum spot_step verify_reply(struct azure *self, struct spot_call *c,
    const struct spot_verify *a, struct verifying *v)
{
	const struct call_state *st = c->state;
	enum spot_step s;

	if (st->at == MACHINE) {
		return machine_reply(c, v);
	}
	s = st->at == ROOTS ? roots_reply(c, v) : issuer_reply(c, v);
	return s != SPOT_STEP_NONE ? s : message_check(self, c, a, v);
}

enum spot_step azure_verify(void *p, struct spot_call *c, struct spot_verify *a)
{
	struct azure *self = p;
	struct verifying *v;
	enum spot_step s = SPOT_STEP_NONE;

	if (c->state == NULL) {
		v = call_state_get(c, sizeof(*v))->own;
		if (!azure_lease_ok(self, a->ref)) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "azure verify: '%.64s' is not a machine of ours",
			    a->ref != NULL ? a->ref : "");
		}
		if (!proof_read(c, a, v)) {
			return proof_denied(c, "this is no proof of kind azure");
		}
		if (self->attested_ca_file == NULL) {
			v->roots = azure_attested_roots;
			s = message_check(self, c, a, v);
		}
	}
	v = ((struct call_state *)c->state)->own;
	if (c->in != NULL) {
		s = verify_reply(self, c, a, v);
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (v->roots == NULL) {
		c->path = self->attested_ca_file;
		return SPOT_READ;
	}
	return verify_ask(self, c, a, v);
}
