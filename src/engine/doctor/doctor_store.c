/* Sends a small object to the store of checkpoints and back as nodes do: by presigned requests,
 * without keys. Then deletes it. One request follows the other; the first that fails shows the
 * fault. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/doctor/doctor_priv.h"

#define TRIP_US (15 * SPOT_US_PER_S) /* each request */
#define TEXT "spotbroker: does the object store work?\n"

enum trip { TRIP_SESSION = 1, TRIP_PUT, TRIP_GET, TRIP_DELETE };
struct trip_state {
	enum trip at;
	const char *key;
	bool failed;
};

static void trip_step(struct act *a, enum trip at, const char *url);

static const char *trip_name(enum trip t)
{
	switch (t) {
	case TRIP_SESSION:
	case TRIP_PUT:
		return "store PUT";
	case TRIP_GET:
		return "store GET";
	case TRIP_DELETE:
		break;
	}
	return "store DELETE";
}

static const char *status_fix(int status)
{
	if (status == 404) {
		return "make the bucket that [checkpoint] store names";
	}
	if (status == 400 || status == 301 || status == 307) {
		return "set [checkpoint] region and endpoint to those of the bucket";
	}
	if (status == 403) {
		return "let the daemon's account read, write and delete below the store's prefix "
		       "(deploy/iam)";
	}
	return "see the reply; the store's own status page may tell more";
}

static bool trip_landed(const struct act *a, const struct trip_state *t)
{
	int status = a->http.in.status;

	if (a->http.op.rc != SPOT_OK) {
		return false;
	}
	if (t->at == TRIP_GET) {
		return status == 200 && a->http.in.body.n == strlen(TEXT) &&
		    memcmp(a->http.in.body.p, TEXT, strlen(TEXT)) == 0;
	}
	return status >= 200 && status < 300;
}

static void trip_failed(struct act *a, struct trip_state *t)
{
	const struct probe *l = a->ctx;
	int64_t ms = (loop_mono_us(a->e->loop) - l->begun_us) / 1000;

	t->failed = true;
	if (a->http.op.rc != SPOT_OK) {
		probe_item(a, trip_name(t->at), SPOT_CHECK_BAD, rc_remedy(SPOT_UNAVAILABLE), "%s",
		    a->http.op.err.text);
	} else {
		probe_item(a, trip_name(t->at), SPOT_CHECK_BAD, status_fix(a->http.in.status),
		    "HTTP %d after %" PRId64 " ms: %.*s", a->http.in.status, ms,
		    (int)MIN(a->http.in.body.n, 200),
		    a->http.in.body.n > 0 ? a->http.in.body.p : "");
	}
}

static void trip_answered(struct act *a)
{
	struct probe *l = a->ctx;
	struct trip_state *t = l->more;
	bool ok = trip_landed(a, t);

	if (!ok) {
		trip_failed(a, t);
	} else if (t->at != TRIP_SESSION) {
		probe_item(a, trip_name(t->at), SPOT_CHECK_OK, "",
		    "HTTP %d, %" PRId64 " ms since the beginning", a->http.in.status,
		    (loop_mono_us(a->e->loop) - l->begun_us) / 1000);
	}
	if (ok && t->at == TRIP_SESSION) {
		const char *session = spot_http_header(&a->http.in, "location");

		trip_step(a, TRIP_PUT, session == NULL ? "" : session);
	} else if (ok && t->at == TRIP_PUT) {
		trip_step(a, TRIP_GET, NULL);
	} else if (t->at == TRIP_GET) {
		trip_step(a, TRIP_DELETE, NULL); /* deletes an object that read badly too */
	} else {
		probe_write(a);
	}
}

static void trip_send(struct act *a, const char *method, const char *url,
    const struct spot_presign *p, const char *body)
{
	a->http_out = (struct spot_http_request){ .method = method,
		.url = url,
		.timeout_us = TRIP_US,
		.body = str_from(body) };
	for (size_t i = 0; p != NULL && i < p->headers_n; i++) {
		a->http_out.headers[a->http_out.headers_n++] = p->headers[i];
	}
	act_http(a, false); /* a repeat changes nothing more */
}

/* A store that takes big objects in blocks takes a small one in one request (Azure's Put Blob). */
static void block_blob(struct act *a)
{
	struct spot_http_request *o = &a->http_out;

	for (size_t i = 0; i < o->headers_n; i++) {
		if (strcmp(o->headers[i].name, "x-ms-blob-type") == 0) {
			return;
		}
	}
	o->headers[o->headers_n++] = (struct spot_header){ "x-ms-blob-type", "BlockBlob" };
}

/* url: of the session of a resumable upload; NULL = sign one. */
static void trip_step(struct act *a, enum trip at, const char *url)
{
	static const char *const methods[] = { [TRIP_SESSION] = "POST",
		[TRIP_PUT] = "PUT",
		[TRIP_GET] = "GET",
		[TRIP_DELETE] = "DELETE" };
	struct probe *l = a->ctx;
	struct trip_state *t = l->more;
	struct spot_presign p;
	struct spot_err err = { 0 };

	t->at = at;
	if (url != NULL) {
		trip_send(a, "PUT", url, NULL, TEXT);
		return;
	}
	if (objects_presign(a->e, a->arena, methods[at], t->key, &p, &err) != SPOT_OK) {
		probe_item(a, trip_name(at), SPOT_CHECK_BAD, rc_remedy(err.rc),
		    "cannot be signed: %s", err.text);
		probe_write(a);
		return;
	}
	if (at == TRIP_PUT && p.upload == SPOT_UPLOAD_RESUMABLE) {
		t->at = TRIP_SESSION;
		trip_send(a, "POST", p.url, &p, "");
		return;
	}
	trip_send(a, methods[at], p.url, &p, at == TRIP_PUT ? TEXT : "");
	if (at == TRIP_PUT && p.upload == SPOT_UPLOAD_BLOCKS) {
		block_blob(a);
	}
}

/* Signing needs fresh credentials; any call renews them. */
static void signer_called(struct act *a)
{
	if (a->call.op.rc != SPOT_OK) {
		probe_item(a, "store credentials", SPOT_CHECK_BAD, rc_remedy(a->call.op.rc), "%s",
		    a->call.op.err.text);
		probe_write(a);
		return;
	}
	a->called = trip_answered;
	trip_step(a, TRIP_PUT, NULL);
}

void store_examine(struct exam *x)
{
	struct engine *e = x->e;
	struct act *a = probe_new(x, DOCTOR_SELF, "", "store", signer_called);
	struct probe *l = a->ctx;
	struct trip_state *t = arena_alloc(a->arena, sizeof(*t));
	struct call_provider *p =
	    objects_configured(e) ? engine_provider(e, e->conf.store_provider) : NULL;

	l->more = t;
	t->key = arena_printf(a->arena, "%s%s%s/doctor/r%" PRId64,
	    str_empty(e->conf.store_prefix) ? "" : e->conf.store_prefix,
	    str_empty(e->conf.store_prefix) ? "" : "/", e->install, x->id);
	if (!objects_configured(e) || e->http == NULL) {
		probe_item(a, "store", SPOT_CHECK_WARN,
		    "set [checkpoint] store, provider and region",
		    "no object store is configured: checkpoints have no place to go");
	} else if (p == NULL || call_provider_ops(p)->presign == NULL) {
		probe_item(a, "store", SPOT_CHECK_BAD,
		    "set [checkpoint] provider to one that can sign URLs",
		    "provider '%s' does not sign URLs", e->conf.store_provider);
	} else if (call_provider_ops(p)->whoami != NULL) {
		act_call(a, p, CALL_WHOAMI, &l->args.account, e->conf.call_timeout_us, false);
		return;
	} else {
		a->called = trip_answered;
		trip_step(a, TRIP_PUT, NULL);
		return;
	}
	probe_write(a);
}
