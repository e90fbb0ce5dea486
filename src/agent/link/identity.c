/*
 * The proof of identity at enrolment: a document that the node's cloud has signed. Other programs
 * can read the one-time token in the user data, too. The daemon wants the proof with it, so a
 * stolen token is useless on another machine.
 *
 * - AWS: the document and its signatures; EC2 user guide, "Instance identity documents"
 * - GCP: a JWT for our audience;
 *   cloud.google.com/compute/docs/instances/verifying-instance-identity
 * - Azure: PKCS #7 with a nonce;
 *   learn.microsoft.com/azure/virtual-machines/instance-metadata-service, "Attested data"
 * - Pods: the projected token;
 *   kubernetes.io/docs/tasks/configure-pod-container/configure-service-account
 *
 * Each cloud has a list of keys, which the agent reads one after the other. If no service answers,
 * the node enrols without a proof, and the daemon decides. Proofs expire, and the agent then
 * fetches them again.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <ctype.h>

#define TRIES_MAX 20
#define FRESH_US (300 * SPOT_US_PER_S)
#define TIMEOUT_US (5 * SPOT_US_PER_S)
#define TEXT_MAX 16384
#define TOKEN_FILE "/var/run/secrets/spotbroker/token"

struct key {
	const char *path;
	/* Takes the body of a 200; false: retry. NULL: the body is proof[member]. */
	bool (*take)(struct identity *d, struct str body);
	const char *member;
	bool needed; /* no proof without it: 404 ends the list */
};

/* ---- the values of the keys ------------------------------------------------------------------ */

static bool is_text(struct str body)
{
	return body.n > 0 && body.n < TEXT_MAX && memchr(body.p, 0, body.n) == NULL;
}

static bool proof_set(struct identity *d, const char *member, const char *text)
{
	json_t *value = json_string(text); /* NULL: not UTF-8 */

	return value != NULL && json_object_set_new(d->proof, member, value) == 0;
}

static bool aws_instance(struct identity *d, struct str body)
{
	return is_text(body) && str_copy(d->ref, sizeof(d->ref), body.p);
}

/* Takes "projects/123/zones/us-central1-a". Zone and id make the provider's ref "zone/id". */
static bool gcp_zone(struct identity *d, struct str body)
{
	const char *zone = is_text(body) ? strrchr(body.p, '/') : NULL;

	return zone != NULL && str_copy(d->zone, sizeof(d->zone), zone + 1);
}

static bool gcp_id(struct identity *d, struct str body)
{
	size_t digits = strspn(body.p, "0123456789");

	if (digits == 0 || body.p[digits] != '\0' || digits > 32) {
		return false;
	}
	(void)snprintf(d->ref, sizeof(d->ref), "%s/%s", d->zone, body.p);
	return true;
}

/* Takes the name of the machine, also that of its resource group. In lower case it is the
 * provider's ref. */
static bool azure_name(struct identity *d, struct str body)
{
	if (!is_text(body) || !str_copy(d->ref, sizeof(d->ref), body.p)) {
		return false;
	}
	for (char *p = d->ref; *p != '\0'; p++) {
		*p = (char)tolower((unsigned char)*p);
	}
	return true;
}

/* Takes {"encoding":"pkcs7","signature":"MIIE..."}. */
static bool azure_attested(struct identity *d, struct str body)
{
	AUTO(json) json_t *o = NULL;
	const char *signature;

	if (json_parse(body, "attested", &o, NULL) != SPOT_OK || !json_is_object(o)) {
		return false;
	}
	signature = json_str(o, "signature", NULL, NULL);
	return signature != NULL && proof_set(d, "pkcs7", signature);
}

void identity_nonce(const char *token, char ret[11])
{
	uint8_t h[SHA256_BYTES];

	sha256(token, strlen(token), h);
	(void)snprintf(ret, 11, "%010" PRIu32,
	    (uint32_t)h[0] << 24 | (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 | (uint32_t)h[3]);
}

/* ---- the clouds ------------------------------------------------------------------------------ */

static const struct key aws_keys[] = {
	{ "meta-data/instance-id", aws_instance, NULL, false },
	{ "dynamic/instance-identity/document", NULL, "document", true },
	{ "dynamic/instance-identity/signature", NULL, "signature", false },
	{ "dynamic/instance-identity/rsa2048", NULL, "rsa2048", false },
	{ "dynamic/instance-identity/pkcs7", NULL, "pkcs7", false },
	{ NULL },
};
/* A machine without a service account has no JWT (404). */
static const struct key gcp_keys[] = {
	{ "instance/zone", gcp_zone, NULL, false },
	{ "instance/id", gcp_id, NULL, false },
	{ "instance/service-accounts/default/identity", NULL, "jwt", true },
	{ NULL },
};
static const struct key azure_keys[] = {
	{ "metadata/instance/compute/name?api-version=2021-02-01&format=text", azure_name, NULL,
	    false },
	{ "metadata/attested/document?api-version=2020-09-01", azure_attested, NULL, true },
	{ NULL },
};

static struct http_call *gcp_ask(struct agent *a, const struct key *k,
    void (*done)(void *agent, const struct http_reply *r))
{
	struct arena *arena;
	struct http_call *c;
	const char *path = k->path;

	if (k->member == NULL) {
		return gcp_get(a, path, TIMEOUT_US, done);
	}
	arena = arena_new(0);
	path = arena_printf(arena, "%s?audience=%s&format=full", path,
	    url_encode(arena, a->boot.audience, false));
	c = gcp_get(a, path, TIMEOUT_US, done);
	arena_free(arena);
	return c;
}

static struct http_call *azure_ask(struct agent *a, const struct key *k,
    void (*done)(void *agent, const struct http_reply *r))
{
	char path[256], nonce[11];

	identity_nonce(secret_reveal(&a->boot.token), nonce);
	(void)snprintf(path, sizeof(path), k->needed ? "%s&nonce=%s" : "%s", k->path, nonce);
	return azure_get(a, path, TIMEOUT_US, done);
}

static struct http_call *aws_ask(struct agent *a, const struct key *k,
    void (*done)(void *agent, const struct http_reply *r))
{
	return imds_get(a, k->path, done);
}

static const struct cloud {
	const char *provider;
	const struct key *keys;
	struct http_call *(*ask)(struct agent *a, const struct key *k,
	    void (*done)(void *agent, const struct http_reply *r));
} clouds[] = {
	{ "aws", aws_keys, aws_ask },
	{ "gcp", gcp_keys, gcp_ask },
	{ "azure", azure_keys, azure_ask },
};

static const struct cloud *cloud_of(const struct agent *a)
{
	for (size_t i = 0; i < ARRAY_LEN(clouds); i++) {
		if (strcmp(a->boot.provider, clouds[i].provider) == 0) {
			return &clouds[i];
		}
	}
	return NULL;
}

/* ---- one key after the other ----------------------------------------------------------------- */

/* Ends the list. If it is not complete, drops the proof, since a part is missing. */
static void identity_end(struct agent *a, bool complete)
{
	struct identity *d = &a->enrol.identity;

	if (!complete) {
		json_decref(STEAL(d->proof));
	}
	d->done = true;
	d->got_us = a->now_us;
	retry_clear(&d->backoff);
}

static void identity_fault(struct agent *a, const char *why, int status)
{
	struct identity *d = &a->enrol.identity;

	if (++d->tries < TRIES_MAX) {
		retry_fail(a, &d->backoff, 0);
		return;
	}
	log_warn("enrol.no_identity", I64("status", status), STR("error", why));
	identity_end(a, false);
}

static void key_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;
	struct identity *d = &a->enrol.identity;
	const struct cloud *cloud = cloud_of(a);
	const struct key *k = &cloud->keys[d->at];
	bool google = cloud->keys != gcp_keys || gcp_is_google(r);

	d->call = NULL;
	if (r->status == 401 && cloud->keys == aws_keys) {
		imds_token_refused(a);
	}
	if (r->status == 200 && google &&
	    (k->take != NULL ? k->take(d, r->body)
			     : is_text(r->body) && proof_set(d, k->member, r->body.p))) {
		d->at++;
		retry_clear(&d->backoff);
	} else if (r->status == 404 && google && k->needed) {
		identity_end(a, false);
	} else if (r->status == 404 && google && k->member != NULL) {
		d->at++; /* not every region has every signature */
	} else {
		identity_fault(a, r->error, r->status);
	}
	if (!d->done && cloud->keys[d->at].path == NULL) {
		identity_end(a, true);
	}
}

static void pod_token(struct agent *a)
{
	struct identity *d = &a->enrol.identity;
	const char *path = getenv("SPOT_IDENTITY_TOKEN_FILE");
	struct spot_err err = { 0 };
	struct str text = { NULL, 0 };
	bool ok;

	if (str_empty(path)) {
		path = TOKEN_FILE;
	}
	if (file_read(path, TEXT_MAX, &text, &err) != SPOT_OK) {
		log_warn("enrol.no_identity", STR("error", err.text));
		identity_end(a, false);
		return;
	}
	((char *)(uintptr_t)text.p)[strcspn(text.p, "\r\n")] = '\0';
	ok = *text.p != '\0' && proof_set(d, "token", text.p);
	mem_wipe((char *)(uintptr_t)text.p, text.n);
	free((char *)(uintptr_t)text.p);
	identity_end(a, ok);
}

static void identity_begin(struct agent *a)
{
	struct identity *d = &a->enrol.identity;
	bool pod = strcmp(a->boot.provider, "coreweave") == 0 ||
	    strcmp(a->boot.provider, "kubernetes") == 0;

	identity_fini(a);
	*d = (struct identity){ 0 };
	d->proof = json_pack("{s:s}", "kind", pod ? "kubernetes" : a->boot.provider);
	if (pod) {
		pod_token(a);
	} else if (cloud_of(a) == NULL) {
		identity_end(a, false); /* Lambda has no proofs */
	}
}

bool identity_ready(struct agent *a)
{
	struct identity *d = &a->enrol.identity;
	const struct cloud *cloud = cloud_of(a);

	if (d->done && a->now_us < d->got_us + FRESH_US) {
		return true;
	}
	if (d->call != NULL || !retry_due(a, &d->backoff)) {
		return false;
	}
	if (d->done || d->proof == NULL) {
		identity_begin(a);
	}
	if (d->done) {
		return true;
	}
	if (cloud->keys == aws_keys && !imds_ready(a)) {
		if (a->imds.token_call == NULL && a->imds.backoff.failures >= TRIES_MAX / 2) {
			identity_end(a, false); /* no metadata service answers here */
		}
		return d->done;
	}
	d->call = cloud->ask(a, &cloud->keys[d->at], key_done);
	if (d->call == NULL) {
		identity_end(a, false);
	}
	return d->done;
}

void identity_fini(struct agent *a)
{
	struct identity *d = &a->enrol.identity;

	http_stop(a->http, STEAL(d->call));
	json_decref(STEAL(d->proof));
}
