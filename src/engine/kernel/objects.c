/* The object store of checkpoints, reached by URLs that the engine signs and nodes use without
 * keys. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"
#include "engine/kernel/kernel.h"

bool objects_configured(const struct engine *e)
{
	return !str_empty(e->conf.store_bucket);
}

static void auth_called(struct act *a)
{
	if (a->call.op.rc != SPOT_OK) {
		log_warn("store.credentials", STR("provider", a->e->conf.store_provider),
		    STR("rc", spot_rc_name(a->call.op.rc)), STR("error", a->call.op.err.text));
	}
	act_end(a);
}

/* Is a call under way that renews the credentials of the store? */
static bool auth_busy(const struct engine *e)
{
	const struct act *a;

	TAILQ_FOREACH (a, &e->acts, link) {
		if (a->called == auth_called) {
			return true;
		}
	}
	return false;
}

bool objects_ready(struct engine *e)
{
	struct call_provider *p =
	    objects_configured(e) ? engine_provider(e, e->conf.store_provider) : NULL;
	const struct spot_provider_ops *ops;
	struct act *a;

	if (p == NULL || (ops = call_provider_ops(p))->presign == NULL) {
		log_error("store.missing", STR("provider", e->conf.store_provider),
		    STR("hint",
			"set [checkpoint] store and provider to a provider that can sign URLs"));
		return false;
	}
	if (ops->auth_fresh(call_provider_self(p), engine_now(e))) {
		return true;
	}
	/* Any call renews the credentials first; the cheapest one does. */
	if (!auth_busy(e)) {
		a = act_new(e, 0, auth_called);
		if (ops->whoami != NULL) {
			act_call(a, p, CALL_WHOAMI, arena_alloc(a->arena, sizeof(char *)),
			    e->conf.call_timeout_us, true);
		} else {
			act_call(a, p, CALL_REGIONS,
			    arena_alloc(a->arena, sizeof(struct spot_regions)),
			    e->conf.call_timeout_us, true);
		}
	}
	return false;
}

static enum spot_rc sign_url(struct engine *e, struct arena *a, const char *method,
    const char *bucket, const char *key, struct spot_presign *ret, struct spot_err *err)
{
	struct call_provider *p = engine_provider(e, e->conf.store_provider);
	struct spot_presign s = {
		.method = method,
		.endpoint = e->conf.store_endpoint == NULL ? "" : e->conf.store_endpoint,
		.region = e->conf.store_region,
		.bucket = bucket,
		.key = key,
		.query = "",
		.expires_s = e->conf.url_life_us / SPOT_US_PER_S,
	};
	enum spot_rc rc;

	if (p == NULL) {
		return err_set(err, SPOT_CONFIG, "object store: there is no provider '%s'",
		    e->conf.store_provider);
	}
	rc = call_provider_ops(p)->presign(call_provider_self(p), a, engine_now(e), &s, err);
	if (rc == SPOT_OK) {
		*ret = s;
	}
	return rc;
}

enum spot_rc objects_presign(struct engine *e, struct arena *a, const char *method, const char *key,
    struct spot_presign *ret, struct spot_err *err)
{
	return sign_url(e, a, method, e->conf.store_bucket, key, ret, err);
}

static enum spot_rc uri_read(struct arena *a, const char *uri, struct store_uri *ret,
    struct spot_err *err)
{
	const char *wrong = store_uri_read(a, uri, ret);

	return wrong == NULL ? SPOT_OK
			     : err_set(err, SPOT_INVALID, "file_mounts: '%s': %s", uri, wrong);
}

enum spot_rc objects_uri_check(const struct engine *e, struct arena *a, const char *uri,
    struct spot_err *err)
{
	const struct spot_provider_ops *ops;
	const struct call_provider *p;
	struct store_uri u;
	enum spot_rc rc;

	if (!objects_configured(e)) {
		return err_set(err, SPOT_CONFIG,
		    "file_mounts: there is no object store whose provider could sign %s: set "
		    "[checkpoint] store and provider",
		    uri);
	}
	rc = uri_read(a, uri, &u, err);
	if (rc != SPOT_OK) {
		return rc;
	}
	p = engine_provider(e, e->conf.store_provider);
	if (p == NULL) {
		return err_set(err, SPOT_UNAVAILABLE,
		    "file_mounts: %s is to be signed by [checkpoint] provider = %s, which is not "
		    "there",
		    uri, e->conf.store_provider);
	}
	ops = call_provider_ops(p);
	if (ops->presign == NULL || !store_uri_signed_by(uri, ops->kind)) {
		return err_set(err, SPOT_CONFIG,
		    "file_mounts: %s needs %s to sign for it, and [checkpoint] provider = %s is "
		    "another",
		    uri, store_uri_signers(uri), e->conf.store_provider);
	}
	return SPOT_OK;
}

enum spot_rc objects_presign_uri(struct engine *e, struct arena *a, const char *uri,
    struct spot_presign *ret, struct spot_err *err)
{
	enum spot_rc rc = objects_uri_check(e, a, uri, err);
	struct store_uri u;

	if (rc == SPOT_OK) {
		rc = uri_read(a, uri, &u, err);
	}
	return rc != SPOT_OK ? rc : sign_url(e, a, "GET", u.bucket, u.key, ret, err);
}

json_t *presign_headers_json(const struct spot_presign *p)
{
	json_t *o = json_object();

	for (size_t i = 0; i < p->headers_n; i++) {
		json_object_set_new(o, p->headers[i].name, json_string(p->headers[i].value));
	}
	return o;
}

char *presign_headers(struct arena *a, const struct spot_presign *p)
{
	AUTO(json) json_t *o = presign_headers_json(p);

	return p->headers_n == 0 ? NULL : json_text(a, o);
}

const char *presign_how(const struct spot_presign *p)
{
	switch (p->upload) {
	case SPOT_UPLOAD_RESUMABLE:
		return "resumable";
	case SPOT_UPLOAD_BLOCKS:
		return "blocks";
	case SPOT_UPLOAD_PUT:
		break;
	}
	return "put";
}

char *objects_key(struct engine *e, struct arena *a, const struct q_engine_presign_due_row *w)
{
	const char *prefix = e->conf.store_prefix == NULL ? "" : e->conf.store_prefix;

	return arena_printf(a, "%s%s%s/j%" PRId64 "/e%d/r%d/%s", prefix,
	    prefix[0] != '\0' ? "/" : "", e->install, w->job_id, (int)w->epoch, (int)w->rank,
	    w->sha256);
}
