/* The object store of checkpoints, reached by URLs that the engine signs and nodes use without
 * keys. */
#include "base/base.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/engine_int.h"

bool objects_configured(const struct engine *e)
{
	return !str_empty(e->conf.store_bucket);
}

static void auth_over(struct act *a)
{
	a->e->auth_busy = false;
	if (a->call.op.rc != SPOT_OK) {
		log_warn("store.credentials", STR("provider", a->e->conf.store_provider),
			 STR("rc", spot_rc_name(a->call.op.rc)), STR("error", a->call.op.err.text));
	}
	act_end(a);
}

bool objects_ready(struct engine *e)
{
	struct call_provider *p =
	    objects_configured(e) ? engine_provider(e, e->conf.store_provider) : NULL;
	const struct spot_provider_ops *ops;
	struct act *a;

	if (p == NULL || (ops = call_provider_ops(p))->presign == NULL) {
		log_error(
		    "store.missing", STR("provider", e->conf.store_provider),
		    STR("hint",
			"set [checkpoint] store and provider to a provider that can sign URLs"));
		return false;
	}
	if (ops->auth_fresh(call_provider_self(p), engine_now(e))) {
		return true;
	}
	/* Any call renews the credentials first; the cheapest one does. */
	if (!e->auth_busy) {
		e->auth_busy = true;
		a = act_new(e, 0, auth_over);
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
			     const char *bucket, const char *key, const char **ret,
			     struct spot_err *err)
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
		*ret = s.url;
	}
	return rc;
}

enum spot_rc objects_presign(struct engine *e, struct arena *a, const char *method, const char *key,
			     const char **ret, struct spot_err *err)
{
	return sign_url(e, a, method, e->conf.store_bucket, key, ret, err);
}

enum spot_rc objects_presign_uri(struct engine *e, struct arena *a, const char *uri,
				 const char **ret, struct spot_err *err)
{
	const char *slash;

	if (!str_prefix(uri, "s3://") || (slash = strchr(uri + 5, '/')) == NULL ||
	    slash[1] == '\0') {
		return err_set(err, SPOT_INVALID, "file_mounts: '%s' is not s3://bucket/key", uri);
	}
	return sign_url(e, a, "GET", arena_strndup(a, uri + 5, (size_t)(slash - uri - 5)),
			slash + 1, ret, err);
}

char *objects_key(struct engine *e, struct arena *a, int64_t job_id, int32_t epoch,
		  const char *sha256)
{
	const char *prefix = e->conf.store_prefix == NULL ? "" : e->conf.store_prefix;

	return arena_printf(a, "%s%s%s/j%" PRId64 "/e%d/%s", prefix, prefix[0] != '\0' ? "/" : "",
			    e->install, job_id, (int)epoch, sha256);
}

static bool add_mount(struct recon *r, json_t *files, const struct job_mount *m)
{
	struct spot_err err = {0};
	const char *url;

	if (objects_presign_uri(r->e, r->arena, m->uri, &url, &err) != SPOT_OK) {
		log_error("job.mount", STR("uri", m->uri), STR("error", err.text));
		return false;
	}
	json_array_append_new(files, json_pack("{s:s, s:s, s:i, s:i, s:[{s:s, s:i, s:s}]}", "root",
					       "mount", "path", m->dst, "mode", 0644, "bytes", 0,
					       "chunks", "url", url, "bytes", 0, "sha256", ""));
	return true;
}

static bool add_chunk(struct recon *r, json_t *files, const struct q_engine_chunks_row *c,
		      bool first)
{
	struct spot_err err = {0};
	const char *url;
	json_t *f;

	if (objects_presign(r->e, r->arena, "GET", c->object_key, &url, &err) != SPOT_OK) {
		log_error("checkpoint.presign", STR("key", c->object_key), STR("error", err.text));
		return false;
	}
	if (first) {
		f = json_pack("{s:s, s:s, s:i, s:I, s:[]}", "root", "checkpoint", "path", c->path,
			      "mode", c->mode, "bytes", (json_int_t)0, "chunks");
		json_array_append_new(files, f);
	} else {
		f = json_array_get(files, json_array_size(files) - 1);
	}
	json_object_set_new(
	    f, "bytes", json_integer(json_integer_value(json_object_get(f, "bytes")) + c->bytes));
	json_array_append_new(json_object_get(f, "chunks"),
			      json_pack("{s:s, s:I, s:s}", "url", url, "bytes",
					(json_int_t)c->bytes, "sha256", c->sha256));
	return true;
}

char *files_json(struct recon *r, const struct job_spec *spec,
		 const struct q_engine_chunks_row *chunks, size_t n)
{
	AUTO(json) json_t *files = json_array();

	for (size_t i = 0; i < spec->mounts_n; i++) {
		if (!add_mount(r, files, &spec->mounts[i])) {
			return NULL;
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (!add_chunk(r, files, &chunks[i],
			       i == 0 || strcmp(chunks[i - 1].path, chunks[i].path) != 0)) {
			return NULL;
		}
	}
	return json_text(r->arena, files);
}
