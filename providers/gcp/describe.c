#include "base/base.h"
#include "gcp_priv.h"

/*
 * Instances by their refs. A few get one request each: a get is exact, and a filtered list is
 * charged for all that it does not return. But gets go out one after another, under the one
 * deadline of the call. With some hundreds every call would run into it, and a machine that died
 * would never be missed. So for many, the lists of their zones are read first, 500 in a request. A
 * get follows only for refs that the lists lack. Absence is always Google's own 404, because a list
 * may leave out a zone in trouble, or a machine whose label somebody removed. Only the zones of the
 * refs are listed, one by one. A zone that fails ends the call, as a get in it would; the
 * aggregated list would cover every zone. The number of gets is limited. The next call begins with
 * the refs that this one did not reach. So fifty live machines that no list has cannot starve the
 * others.
 */

#define GETS_MOST 50
#define LIST "instances.list"
#define GET "instances.get"

struct ref_at {
	const char *ref, *zone;
	size_t at; /* among the refs of the call */
};

struct look {
	bool begun;
	struct spot_instance *items;
	size_t n, cap;
	size_t first; /* whom the gets begin with */
	size_t from, asked; /* the ref that is asked for, counted from there; how many were */
	/* those of a zone are side by side; none: a few refs, nothing is listed */
	struct ref_at *sorted;
	size_t sorted_n, next; /* next: the first of the zone that is listed */
	bool *told; /* of each ref: a list had it; NULL = nothing is listed */
};

static int by_ref(const void *a, const void *b)
{
	return strcmp(((const struct ref_at *)a)->ref, ((const struct ref_at *)b)->ref);
}

/* Google does not know what is no ref of ours. */
static bool ref_ok(struct spot_call *c, const char *ref, const char **ret_zone, const char **ret_id)
{
	bool disk;

	return gcp_ref_read(c->arena, ref, ret_zone, ret_id, &disk) && !disk;
}

static void look_begin(const struct gcp *self, struct spot_call *c, const struct spot_describe *a,
    struct look *l)
{
	const char *zone, *id;

	l->begun = true;
	if (a->refs_n <= GETS_MOST || str_empty(a->install)) {
		return;
	}
	l->first = self->describe_first % a->refs_n;
	l->told = arena_array(c->arena, a->refs_n, sizeof(*l->told));
	l->sorted = arena_array(c->arena, a->refs_n, sizeof(*l->sorted));
	for (size_t i = 0; i < a->refs_n; i++) {
		if (ref_ok(c, a->refs[i], &zone, &id)) {
			l->sorted[l->sorted_n++] = (struct ref_at){ a->refs[i], zone, i };
		}
	}
	qsort(l->sorted, l->sorted_n, sizeof(*l->sorted), by_ref);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static enum spot_step list_send(struct gcp *self, struct spot_call *c,
    const struct spot_describe *a, const struct look *l)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = LIST,
		.limit = GCP_LIMIT_LIST,
		.reply_bytes_max = GCP_LIST_BYTES_MAX };

	r.path = arena_printf(c->arena,
	    "/compute/v1/projects/%s/zones/%s/instances?filter=%s&" GCP_PAGE "%s", self->project,
	    l->sorted[l->next].zone,
	    url_encode(c->arena, gcp_filter_mine(c->arena, a->install), false), gcp_page(c));
	return gcp_send(self, c, &r);
}

static void look_take(struct spot_call *c, struct look *l, const struct spot_instance *one)
{
	struct ref_at key = { .ref = one->ref };
	const struct ref_at *hit = bsearch(&key, l->sorted, l->sorted_n, sizeof(key), by_ref);

	if (hit == NULL || l->told[hit->at]) {
		return;
	}
	l->told[hit->at] = true;
	l->items = arena_grow(c->arena, l->items, l->n, &l->cap, sizeof(*l->items));
	l->items[l->n++] = *one;
}

static enum spot_step list_reply(struct gcp *self, struct spot_call *c, struct look *l)
{
	const char *zone = l->sorted[l->next].zone;
	json_t *doc AUTO(json) = NULL;
	const json_t *items, *item;
	enum spot_step s = gcp_reply(self, c, LIST, "compute#instanceList", &doc);
	size_t i;

	if (s != SPOT_STEP_NONE) {
		return gcp_not_there(c, s);
	}
	items = json_object_get(doc, "items");
	if (items != NULL && !json_is_array(items)) {
		return gcp_bad_reply(c, LIST, "items is not a list");
	}
	json_array_foreach (items, i, item) {
		struct spot_instance one;

		if (!gcp_instance_read(self, c, item, &one)) {
			return gcp_bad_reply(c, LIST, "%s: an entry without id, zone or status",
			    zone);
		}
		look_take(c, l, &one);
	}
	if (gcp_next_page(c, LIST, doc, &s) || s != SPOT_STEP_NONE) {
		return s;
	}
	while (l->next < l->sorted_n && strcmp(l->sorted[l->next].zone, zone) == 0) {
		l->next++;
	}
	return SPOT_STEP_NONE;
}

/* ---- gets ------------------------------------------------------------------------------------ */

static enum spot_step get_reply(struct gcp *self, struct spot_call *c, struct look *l)
{
	json_t *doc AUTO(json) = NULL;
	enum spot_step s;

	if (!gcp_ref_gone(c)) {
		s = gcp_reply(self, c, GET, "compute#instance", &doc);
		if (s != SPOT_STEP_NONE) {
			return gcp_not_there(c, s);
		}
		l->items = arena_grow(c->arena, l->items, l->n, &l->cap, sizeof(*l->items));
		if (!gcp_instance_read(self, c, doc, &l->items[l->n])) {
			return gcp_bad_reply(c, GET, "no id, zone or status in it");
		}
		l->n++;
	}
	l->from++;
	l->asked++;
	return SPOT_STEP_NONE;
}

/* On to the next ref that is to be asked for. False: there is none, or no room for more. */
static bool get_next(struct gcp *self, struct spot_call *c, struct spot_describe *a, struct look *l,
    const char **ret_zone, const char **ret_id)
{
	bool *untold;

	for (; l->from < a->refs_n; l->from++) {
		size_t i = (l->first + l->from) % a->refs_n;

		if ((l->told == NULL || !l->told[i]) && ref_ok(c, a->refs[i], ret_zone, ret_id)) {
			break;
		}
	}
	if (l->from == a->refs_n) {
		return false;
	}
	if (l->told == NULL || l->asked < GETS_MOST) {
		return true;
	}
	untold = arena_array(c->arena, a->refs_n, sizeof(*untold));
	for (size_t k = l->from; k < a->refs_n; k++) {
		size_t i = (l->first + k) % a->refs_n;

		untold[i] = !l->told[i];
	}
	a->untold = untold;
	self->describe_first = (l->first + l->from) % a->refs_n;
	return false;
}

enum spot_step gcp_describe(void *p, struct spot_call *c, struct spot_describe *a)
{
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct look));
	struct look *l = st->own;
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = GET,
		.limit = GCP_LIMIT_READ };
	const char *zone, *id;

	if (!l->begun) {
		look_begin(self, c, a, l);
	}
	if (c->in != NULL) {
		enum spot_step s =
		    l->next < l->sorted_n ? list_reply(self, c, l) : get_reply(self, c, l);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (l->next < l->sorted_n) {
		return list_send(self, c, a, l);
	}
	if (!get_next(self, c, a, l, &zone, &id)) {
		a->found = l->items;
		a->n = l->n;
		return SPOT_DONE;
	}
	r.path = arena_printf(c->arena, "/compute/v1/projects/%s/zones/%s/instances/%s",
	    self->project, zone, id);
	return gcp_send(self, c, &r);
}
