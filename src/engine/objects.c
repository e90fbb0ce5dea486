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
			     const char *bucket, const char *key, struct spot_presign *ret,
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
		*ret = s;
	}
	return rc;
}

enum spot_rc objects_presign(struct engine *e, struct arena *a, const char *method, const char *key,
			     struct spot_presign *ret, struct spot_err *err)
{
	return sign_url(e, a, method, e->conf.store_bucket, key, ret, err);
}

enum spot_rc objects_presign_uri(struct engine *e, struct arena *a, const char *uri,
				 struct spot_presign *ret, struct spot_err *err)
{
	/* The store's provider signs for its own cloud only. */
	static const struct {
		const char *scheme, *kind;
	} known[] = {{"gs://", "gcp"}, {"az://", "azure"}, {"s3://", NULL}};
	struct call_provider *p = engine_provider(e, e->conf.store_provider);
	const char *kind = p == NULL ? "" : call_provider_ops(p)->kind, *slash;

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (str_prefix(uri, known[i].scheme) && (slash = strchr(uri + 5, '/')) != NULL &&
		    slash > uri + 5 && slash[1] != '\0') {
			if (known[i].kind != NULL && strcmp(known[i].kind, kind) != 0) {
				return err_set(err, SPOT_CONFIG,
					       "file_mounts: %s is signed by a provider of kind %s, and "
					       "[checkpoint] provider = %s is another",
					       uri, known[i].kind, e->conf.store_provider);
			}
			return sign_url(e, a, "GET",
					arena_strndup(a, uri + 5, (size_t)(slash - uri - 5)),
					slash + 1, ret, err);
		}
	}
	return err_set(err, SPOT_INVALID,
		       "file_mounts: '%s' is not s3://bucket/key, gs://bucket/key or az://container/key",
		       uri);
}

static json_t *headers_json(const struct spot_presign *p)
{
	json_t *o = json_object();

	for (size_t i = 0; i < p->headers_n; i++) {
		json_object_set_new(o, p->headers[i].name, json_string(p->headers[i].value));
	}
	return o;
}

char *presign_headers(struct arena *a, const struct spot_presign *p)
{
	AUTO(json) json_t *o = headers_json(p);

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

char *objects_key(struct engine *e, struct arena *a, const struct q_engine_mint_due_row *w)
{
	const char *prefix = e->conf.store_prefix == NULL ? "" : e->conf.store_prefix;

	return arena_printf(a, "%s%s%s/j%" PRId64 "/e%d/r%d/%s", prefix, prefix[0] != '\0' ? "/" : "",
			    e->install, w->job_id, (int)w->epoch, (int)w->rank, w->sha256);
}

/* One chunk to fetch; headers are there only where the store asks for some. */
static json_t *chunk_json(const struct spot_presign *p, int64_t bytes, const char *sha256)
{
	json_t *c = json_pack("{s:s, s:I, s:s}", "url", p->url, "bytes", (json_int_t)bytes,
			      "sha256", sha256);

	if (p->headers_n > 0) {
		json_object_set_new(c, "headers", headers_json(p));
	}
	return c;
}

static void until_of(const struct spot_presign *p, int64_t *until_us)
{
	if (p->until_us != 0) {
		*until_us = MIN(*until_us, p->until_us);
	}
}

static bool add_mount(struct recon *r, json_t *files, const struct job_mount *m, int64_t *until_us)
{
	struct spot_err err = {0};
	struct spot_presign p;

	if (objects_presign_uri(r->e, r->arena, m->uri, &p, &err) != SPOT_OK) {
		log_error("job.mount", STR("uri", m->uri), STR("error", err.text));
		return false;
	}
	until_of(&p, until_us);
	json_array_append_new(files, json_pack("{s:s, s:s, s:i, s:i, s:[o]}", "root", "mount", "path",
					       m->dst, "mode", 0644, "bytes", 0, "chunks",
					       chunk_json(&p, 0, "")));
	return true;
}

static bool add_chunk(struct recon *r, json_t *files, const struct q_engine_chunks_row *c,
		      bool first, int64_t *until_us)
{
	struct spot_err err = {0};
	struct spot_presign p;
	json_t *f;

	if (objects_presign(r->e, r->arena, "GET", c->object_key, &p, &err) != SPOT_OK) {
		log_error("checkpoint.presign", STR("key", c->object_key), STR("error", err.text));
		return false;
	}
	until_of(&p, until_us);
	if (first) {
		f = json_pack("{s:s, s:s, s:i, s:I, s:[]}", "root", "checkpoint", "path", c->path,
			      "mode", c->mode, "bytes", (json_int_t)0, "chunks");
		json_array_append_new(files, f);
	} else {
		f = json_array_get(files, json_array_size(files) - 1);
	}
	json_object_set_new(
	    f, "bytes", json_integer(json_integer_value(json_object_get(f, "bytes")) + c->bytes));
	json_array_append_new(json_object_get(f, "chunks"), chunk_json(&p, c->bytes, c->sha256));
	return true;
}

char *files_json(struct recon *r, const struct job_spec *spec,
		 const struct q_engine_chunks_row *chunks, size_t n, int64_t *until_us)
{
	AUTO(json) json_t *files = json_array();

	*until_us = MIN(*until_us, engine_now(r->e) + r->e->conf.url_life_us);
	for (size_t i = 0; i < spec->mounts_n; i++) {
		if (!add_mount(r, files, &spec->mounts[i], until_us)) {
			return NULL;
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (!add_chunk(r, files, &chunks[i],
			       i == 0 || strcmp(chunks[i - 1].path, chunks[i].path) != 0, until_us)) {
			return NULL;
		}
	}
	return json_text(r->arena, files);
}
