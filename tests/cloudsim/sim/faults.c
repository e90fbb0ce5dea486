/* Faults on command: which request they hit and how often. front.c has their effects. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

struct faults {
	struct fault **list;
	size_t n;
	uint64_t last_id;
};

static const struct {
	const char *name;
	enum fault_kind kind;
} fault_names[] = {
	{ "delay", FAULT_DELAY },
	{ "hang", FAULT_HANG },
	{ "reset_before", FAULT_RESET_BEFORE },
	{ "reset_after", FAULT_RESET_AFTER },
	{ "status", FAULT_STATUS },
	{ "truncate", FAULT_TRUNCATE },
	{ "malform", FAULT_MALFORM },
	{ "duplicate", FAULT_DUPLICATE },
	{ "expired_credentials", FAULT_EXPIRED },
	{ "clock_skew", FAULT_SKEW },
	{ "pretend", FAULT_PRETEND },
};

void faults_new(struct sim *s)
{
	s->faults = calloc(1, sizeof(*s->faults));
	if (!s->faults) {
		abort();
	}
}

static void fault_free(struct fault *f)
{
	free(f->service);
	free(f->action);
	free(f->path);
	free(f->region);
	free(f->code);
	free(f->message);
	free(f->body);
	free(f);
}

size_t fault_drop(struct sim *s, uint64_t id)
{
	struct faults *t = s->faults;
	size_t kept = 0, dropped = 0;

	for (size_t k = 0; k < t->n; k++) {
		if (id == 0 || t->list[k]->id == id) {
			fault_free(t->list[k]);
			dropped++;
		} else {
			t->list[kept++] = t->list[k];
		}
	}
	t->n = kept;
	return dropped;
}

void faults_free(struct sim *s)
{
	if (!s->faults) {
		return;
	}
	fault_drop(s, 0);
	free(s->faults->list);
	free(s->faults);
	s->faults = NULL;
}

static bool pattern_hits(const char *pattern, const char *text)
{
	return !pattern || glob_match(pattern, text ? text : "");
}

struct fault *fault_match(struct sim *s, const struct sim_req *rq)
{
	for (size_t k = 0; k < s->faults->n; k++) {
		struct fault *f = s->faults->list[k];

		if (f->count == 0 || !pattern_hits(f->service, rq->service) ||
		    !pattern_hits(f->action, rq->action) ||
		    !pattern_hits(f->path, rq->http->path) ||
		    !pattern_hits(f->region, rq->region)) {
			continue;
		}
		if (f->skip > 0) {
			f->skip--;
			continue;
		}
		if (f->probability < 1 && rng_unit(&s->rng) >= f->probability) {
			continue;
		}
		if (f->count > 0) {
			f->count--;
		}
		f->hits++;
		return f;
	}
	return NULL;
}

static char *dup_member(const json_t *o, const char *key, struct spot_err *err)
{
	return dup_text(json_str(o, key, NULL, err));
}

bool fault_add(struct sim *s, const json_t *doc, uint64_t *ret_id, struct spot_err *err)
{
	struct faults *t = s->faults;
	const char *kind = json_need_str(doc, "kind", err);
	const json_t *match = json_object_get(doc, "match");
	struct fault *f = calloc(1, sizeof(*f));

	if (!f) {
		abort();
	}
	for (size_t k = 0; kind && k < ARRAY_LEN(fault_names); k++) {
		if (str_same(kind, fault_names[k].name)) {
			f->kind = fault_names[k].kind;
		}
	}
	if (f->kind == FAULT_NONE && err->rc == SPOT_OK) {
		err_set(err, SPOT_INVALID, "unknown fault kind %s", kind);
	}
	f->service = match ? dup_member(match, "service", err) : NULL;
	f->action = match ? dup_member(match, "action", err) : NULL;
	f->path = match ? dup_member(match, "path", err) : NULL;
	f->region = match ? dup_member(match, "region", err) : NULL;
	f->count = json_i64(doc, "count", 1, err);
	f->skip = json_i64(doc, "skip", 0, err);
	f->probability = json_f64(doc, "probability", 1, err);
	f->us = json_i64(doc, "ms", 0, err) * 1000;
	f->status = (int)json_i64(doc, "status", 503, err);
	f->after = json_bool(doc, "after", false, err);
	f->code = dup_member(doc, "code", err);
	f->message = dup_member(doc, "message", err);
	f->body = dup_member(doc, "body", err);
	if (err->rc != SPOT_OK) {
		fault_free(f);
		return false;
	}
	f->id = ++t->last_id;
	t->list = realloc(t->list, (t->n + 1) * sizeof(struct fault *));
	if (!t->list) {
		abort();
	}
	t->list[t->n++] = f;
	*ret_id = f->id;
	return true;
}

json_t *fault_json(const struct sim *s)
{
	json_t *a = json_array();

	for (size_t k = 0; k < s->faults->n; k++) {
		const struct fault *f = s->faults->list[k];
		const char *name = "?";

		for (size_t i = 0; i < ARRAY_LEN(fault_names); i++) {
			if (fault_names[i].kind == f->kind) {
				name = fault_names[i].name;
			}
		}
		json_array_append_new(a,
		    json_pack("{s:I, s:s, s:s?, s:s?, s:s?, s:I, s:I}", "id", (json_int_t)f->id,
			"kind", name, "service", f->service, "action", f->action, "path", f->path,
			"left", (json_int_t)f->count, "hits", (json_int_t)f->hits));
	}
	return a;
}
