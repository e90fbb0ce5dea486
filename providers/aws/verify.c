/*
 * Verifies a node by its instance identity document, signed with the certificate of its region
 * (docs.aws.amazon.com/AWSEC2/latest/UserGuide/verify-rsa2048.html). The document carries no time
 * and no audience of ours. It proves the machine; the one-time token proves that we meant this
 * machine. Certificates are those the vendor publishes (identity_certs.txt), or those of the file
 * that setting identity_certs names.
 */
#include "base/base.h"
#include "aws_priv.h"

#include "base/crypto/crypto.h"

extern const char aws_identity_certs[]; /* made from identity_certs.txt */

/* The block of a region: from its line "region NAME" up to the next such line. */
static const char *certs_of(struct arena *a, const char *region)
{
	const char *head = arena_printf(a, "\nregion %s\n", region);
	const char *at = strstr(aws_identity_certs, head), *end;

	if (at == NULL) {
		return NULL;
	}
	at += strlen(head);
	end = strstr(at, "\nregion ");
	return arena_strndup(a, at, end != NULL ? (size_t)(end - at) : strlen(at));
}

/* The metadata service folds its base64. */
static bool base64_folded_decode(struct arena *a, const char *text, struct str *ret)
{
	char *flat = arena_alloc(a, strlen(text) + 1), *to = flat;

	for (; *text != '\0'; text++) {
		if (strchr(" \r\n\t", *text) == NULL) {
			*to++ = *text;
		}
	}
	*to = '\0';
	return base64_decode(a, flat, (size_t)(to - flat), ret);
}

static enum spot_step proof_denied(struct spot_call *c, const char *why)
{
	return call_fail(c, SPOT_DENIED, NULL, "aws: the identity document is not accepted: %s",
	    why);
}

/* The content may be inside of the message or beside it. */
static enum spot_rc signature_check(struct spot_call *c, const json_t *proof, const char *certs,
    struct str der, struct str *ret, struct spot_err *err)
{
	const char *document = json_string_value(json_object_get(proof, "document"));
	struct cms_input in = { .signed_der = der,
		.trusted_pem = certs,
		.helper_certs = str_from(certs),
		.now_us = c->now_us };
	struct cms_signer signer;
	bool missing;
	enum spot_rc rc = cms_verify(&in, c->arena, ret, &signer, &missing, err);

	if (rc == SPOT_OK || document == NULL) {
		return rc;
	}
	in.detached = str_from(document);
	return cms_verify(&in, c->arena, ret, &signer, &missing, err);
}

static enum spot_step document_check(struct spot_call *c, const struct spot_verify *a,
    struct str text)
{
	json_t *doc AUTO(json) = NULL;
	struct spot_err err = { 0 };
	const char *id, *region;

	if (json_parse(text, "document", &doc, &err) != SPOT_OK) {
		return proof_denied(c, "the signed document is not a JSON object");
	}
	id = json_string_value(json_object_get(doc, "instanceId"));
	region = json_string_value(json_object_get(doc, "region"));
	if (id == NULL || region == NULL || !aws_id_ok(id, "i-")) {
		return proof_denied(c, "it names no instance");
	}
	if (strcmp(region, a->region) != 0 || strcmp(id, a->ref) != 0) {
		return proof_denied(c,
		    arena_printf(c->arena, "it is of %s in %.32s, not of %s in %s", id, region,
			a->ref, a->region));
	}
	return SPOT_DONE;
}

static enum spot_step proof_check(struct spot_call *c, const struct spot_verify *a,
    const char *certs)
{
	json_t *proof AUTO(json) = NULL;
	struct spot_err err = { 0 };
	struct str der = { 0 }, text = { 0 };
	const char *signature;
	enum spot_rc rc;

	if (json_parse(a->proof, "proof", &proof, &err) != SPOT_OK) {
		return proof_denied(c, "the proof is no JSON object");
	}
	signature = json_string_value(json_object_get(proof, "rsa2048"));
	if (signature == NULL) {
		return proof_denied(c, "it has no rsa2048 signature");
	}
	if (!base64_folded_decode(c->arena, signature, &der)) {
		return proof_denied(c, "its rsa2048 signature is not base64");
	}
	rc = signature_check(c, proof, certs, der, &text, &err);
	if (rc == SPOT_CONFIG) {
		return call_fail(c, SPOT_CONFIG, NULL, "aws: identity_certs: %s", err.text);
	}
	return rc == SPOT_OK ? document_check(c, a, text) : proof_denied(c, err.text);
}

enum spot_step aws_verify(void *p, struct spot_call *c, struct spot_verify *a)
{
	struct aws *self = p;
	const char *certs = certs_of(c->arena, a->region);

	if (str_empty(a->ref)) {
		return call_fail(c, SPOT_UNAVAILABLE, NULL,
		    "aws: which instance it must be is not known yet");
	}
	if (self->identity_certs != NULL && c->in == NULL) {
		c->path = self->identity_certs;
		return SPOT_READ;
	}
	if (self->identity_certs != NULL) {
		if (c->in->status != 200) {
			return call_fail(c, SPOT_CONFIG, NULL,
			    "aws: identity_certs: %s cannot be read", self->identity_certs);
		}
		certs = c->in->body.p;
	}
	if (certs == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: no certificate for identity documents of %s is known: put it (%s) into a "
		    "file and name "
		    "that in identity_certs, or set identity = off",
		    a->region, "docs.aws.amazon.com/AWSEC2/latest/UserGuide/regions-certs.html");
	}
	return proof_check(c, a, certs);
}
