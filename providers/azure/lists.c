#include "base/base.h"
#include "azure_priv.h"

/*
 * Finding machines. Ours are resource groups with our tag; a list joins them with the machines of
 * the subscription. A group without a machine is a leftover: its launch failed half-way, or the
 * machine was evicted and took its disk and card with it. So is one of a proximity placement group
 * that no machine refers to. Lists lag by up to minutes; GET of one
 * resource does not (azure-resource-manager/management/overview).
 */

#include <strings.h>

#define REFS_BY_GET 4 /* more than that are cheaper as one list */

/* ---- pages of anything ----------------------------------------------------------------------- */

/* A page: its rows in *ret_rows (borrowed from *ret_doc). */
static enum spot_step page_reply(struct azure *self, struct spot_call *c, const char *what,
    json_t **ret_doc, const json_t **ret_rows)
{
	enum spot_step s = azure_reply(c, what, ret_doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	*ret_rows = json_object_get(*ret_doc, "value");
	if (!json_is_array(*ret_rows)) {
		return azure_bad_reply(c, what, "no list of values in it");
	}
	return azure_next_page(c->state, c, what, self->endpoint, azure_text(*ret_doc, "nextLink"));
}

static enum spot_step page_send(struct azure *self, struct spot_call *c, const char *what,
    const char *path)
{
	const struct call_state *st = c->state;
	struct azure_request r = { .what = what,
		.method = "GET",
		.limit = AZURE_LIMIT_READ,
		.url = st->next,
		.path = path,
		.reply_bytes_max = 32 << 20 };

	return azure_send(self, c, &r);
}

/* ---- groups ---------------------------------------------------------------------------------- */

struct group {
	const char *name, *region, *install, *token, *state;
	int64_t created_us;
	const json_t *vm;
	struct spot_instance instance; /* of its machine */
	bool has_machine;
	bool near; /* machines of other groups are close together by it */
};
struct listing {
	struct group *groups;
	size_t n, cap;
	struct spot_instance *found;
	size_t found_n;
};

enum { GROUPS = 0, MACHINES };

static const char *groups_path(const struct azure *self, struct arena *a, const char *tag,
    const char *value)
{
	struct sbuf quoted AUTO(sbuf);
	const char *filter;

	sbuf_init(&quoted, 2048);
	for (const char *p = value; *p != '\0'; p++) {
		if (*p == '\'') {
			sbuf_putc(&quoted, '\'');
		}
		sbuf_putc(&quoted, *p);
	}
	filter = arena_printf(a, "tagName eq '%s' and tagValue eq '%.*s'", tag, (int)quoted.n,
	    quoted.n > 0 ? quoted.p : "");
	return arena_printf(a,
	    "/subscriptions/%s/resourcegroups?$filter=%s&api-version=" API_GROUPS,
	    self->subscription, url_encode(a, filter, false));
}

static enum spot_step groups_reply(struct azure *self, struct spot_call *c, const char *region,
    struct listing *x)
{
	static const char what[] = "GET resourceGroups";
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = page_reply(self, c, what, &doc, &rows);

	for (size_t i = 0; s == SPOT_STEP_NONE && i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i), *tags = json_object_get(row, "tags");
		const char *where = azure_region(c->arena, azure_text(row, "location"));
		struct group g = { .name = azure_id_part(c->arena,
				       arena_printf(c->arena, "/g/%s/", azure_text(row, "name")),
				       "g"),
			.region = where };
		int64_t created_s = 0;

		if (*g.name == '\0' || *where == '\0') {
			return azure_bad_reply(c, what, "a group without name or location");
		}
		if (!azure_lease_ok(self, g.name) ||
		    (!str_empty(region) && strcmp(where, region) != 0)) {
			continue;
		}
		g.install = arena_strdup(c->arena, azure_tag(tags, AZURE_TAG_INSTALL));
		g.token = arena_strdup(c->arena, azure_tag(tags, AZURE_TAG_TOKEN));
		g.state = arena_strdup(c->arena,
		    azure_text(json_object_get(row, "properties"), "provisioningState"));
		if (parse_i64(azure_tag(tags, AZURE_TAG_CREATED), 1, INT64_C(100000000000),
			&created_s)) {
			g.created_us = created_s * SPOT_US_PER_S;
		}
		x->groups = arena_grow(c->arena, x->groups, x->n, &x->cap, sizeof(*x->groups));
		x->groups[x->n++] = g;
	}
	return s;
}

static int group_order(const void *a, const void *b)
{
	return strcmp(((const struct group *)a)->name, ((const struct group *)b)->name);
}

static const char *machines_path(const struct azure *self, struct arena *a, bool status_only)
{
	return arena_printf(a,
	    "/subscriptions/%s/providers/Microsoft.Compute/virtualMachines?api-version=" API_COMPUTE
	    "%s",
	    self->subscription, status_only ? "&statusOnly=true" : "");
}

static struct group *group_find(const struct listing *x, const char *name)
{
	struct group key = { .name = name };

	return x->n > 0 ? bsearch(&key, x->groups, x->n, sizeof(key), group_order) : NULL;
}

static void near_mark(struct spot_call *c, const struct listing *x, const json_t *vm)
{
	const json_t *p =
	    json_object_get(json_object_get(vm, "properties"), "proximityPlacementGroup");
	struct group *g =
	    group_find(x, azure_id_part(c->arena, azure_text(p, "id"), "resourceGroups"));

	if (g != NULL) {
		g->near = true;
	}
}

static enum spot_step machines_reply(struct azure *self, struct spot_call *c, struct listing *x)
{
	static const char what[] = "GET virtualMachines";
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = page_reply(self, c, what, &doc, &rows);

	for (size_t i = 0; s == SPOT_STEP_NONE && i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		struct group *g =
		    group_find(x, azure_id_part(c->arena, azure_text(row, "id"), "resourceGroups"));
		struct spot_instance vm;

		near_mark(c, x, row);
		if (g == NULL) {
			continue; /* somebody else's */
		}
		if (!azure_instance_read(self, c->arena, row, &vm)) {
			return azure_bad_reply(c, what,
			    "a machine without id, properties or location");
		}
		if (strcmp(vm.ref, g->name) != 0) {
			continue; /* put there by hand; it goes with the group */
		}
		g->instance = vm;
		g->has_machine = true;
	}
	return s;
}

/* ---- groups and machines together ------------------------------------------------------------ */

static struct spot_instance group_instance(const struct azure *self, const struct group *g)
{
	struct spot_instance i = g->instance;

	if (!g->has_machine) {
		i = (struct spot_instance){ .ref = g->name,
			.raw_state = g->state,
			.raw_reason = "no machine in the group",
			.ip = "",
			.spot_request = "",
			.state = SPOT_INSTANCE_FAILED,
			.created_us = g->created_us,
			.leftover = true };
		i.key = (struct spot_pool_key){ .provider = self->name,
			.region = g->region,
			.zone = "",
			.instance_type = "" };
	}
	/* The group's tags are what makes it ours. */
	i.install = g->install;
	i.token = *g->token != '\0' ? g->token : i.token != NULL ? i.token : "";
	if (*g->state == '\0' || strcasecmp(g->state, "Succeeded") == 0) {
		return i;
	}
	i.state =
	    strcasecmp(g->state, "Deleting") == 0 ? SPOT_INSTANCE_STOPPING : SPOT_INSTANCE_ODD;
	i.raw_state = g->state;
	return i;
}

static void listing_end(const struct azure *self, struct spot_call *c, struct listing *x)
{
	x->found = arena_array(c->arena, x->n + 1, sizeof(*x->found));
	for (size_t i = 0; i < x->n; i++) {
		if (!x->groups[i].near) {
			x->found[x->found_n++] = group_instance(self, &x->groups[i]);
		}
	}
}

/* Groups by tag, then all machines. */
static enum spot_step listing_step(struct azure *self, struct spot_call *c, const char *region,
    const char *tag, const char *value)
{
	struct call_state *st = c->state;
	struct listing *x = st->own;
	enum spot_step s = SPOT_STEP_NONE;

	if (c->in != NULL) {
		s = st->at == GROUPS ? groups_reply(self, c, region, x)
				     : machines_reply(self, c, x);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (st->next == NULL) {
			st->at++;
			if (x->n > 0) {
				qsort(x->groups, x->n, sizeof(*x->groups), group_order);
			}
		}
	}
	if (st->at == GROUPS) {
		return page_send(self, c, "GET resourceGroups",
		    groups_path(self, c->arena, tag, value));
	}
	if (st->at == MACHINES) {
		return page_send(self, c, "GET virtualMachines",
		    machines_path(self, c->arena, false));
	}
	listing_end(self, c, x);
	return SPOT_DONE;
}

enum spot_step azure_list(void *p, struct spot_call *c, struct spot_list *a)
{
	struct listing *x = call_state_get(c, sizeof(*x))->own;
	enum spot_step s;

	if (str_empty(a->install)) {
		return call_fail(c, SPOT_INVALID, NULL, "azure list: no installation given");
	}
	s = listing_step(p, c, a->region, AZURE_TAG_INSTALL, a->install);
	if (s == SPOT_DONE) {
		a->found = x->found;
		a->n = x->found_n;
	}
	return s;
}

/* ---- one machine ----------------------------------------------------------------------------- */

static enum spot_step machine_send(struct azure *self, struct spot_call *c, const char *lease)
{
	struct azure_request r = { .what = "GET virtualMachines",
		.method = "GET",
		.limit = AZURE_LIMIT_READ,
		.path = arena_printf(c->arena, "%s?$expand=instanceView&api-version=" API_COMPUTE,
		    azure_vm_path(self, c->arena, lease)) };

	return azure_send(self, c, &r);
}

/* NONE with *ret_there false: it does not exist. */
static enum spot_step machine_reply(struct azure *self, struct spot_call *c,
    struct spot_instance *ret, bool *ret_there)
{
	static const char what[] = "GET virtualMachines";
	json_t *doc AUTO(json) = NULL;
	const char *code, *message;
	enum spot_step s;

	*ret_there = false;
	if (c->in->status == 404) {
		azure_error_read(c, &code, &message);
		if (strcasecmp(code, "ResourceNotFound") == 0 ||
		    strcasecmp(code, "ResourceGroupNotFound") == 0 ||
		    strcasecmp(code, "NotFound") == 0) {
			return SPOT_STEP_NONE;
		}
	}
	s = azure_reply(c, what, &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (!azure_instance_read(self, c->arena, doc, ret)) {
		return azure_bad_reply(c, what, "no machine in it");
	}
	*ret_there = true;
	return SPOT_STEP_NONE;
}

/* By name: one read that does not lag. Without a name by the token in the group's tags. */
enum spot_step azure_find(void *p, struct spot_call *c, struct spot_find *a)
{
	struct azure *self = p;
	struct listing *x = call_state_get(c, sizeof(*x))->own;
	struct spot_instance *i;
	enum spot_step s;
	bool there;

	if (str_empty(a->name)) {
		if (str_empty(a->token)) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "azure find: neither token nor name given");
		}
		s = listing_step(self, c, "", AZURE_TAG_TOKEN, a->token);
		if (s != SPOT_DONE) {
			return s;
		}
		a->found = x->found;
		a->n = 0;
		for (size_t k = 0; k < x->found_n; k++) {
			if (!x->found[k].leftover) {
				a->found[a->n++] = x->found[k];
			}
		}
		return SPOT_DONE;
	}
	if (c->in == NULL) {
		return machine_send(self, c, azure_lease(self, c->arena, a->name));
	}
	i = arena_alloc(c->arena, sizeof(*i));
	s = machine_reply(self, c, i, &there);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	/* A name like ours with another installation's tag is not ours. */
	a->n = there && (str_empty(a->install) || strcmp(i->install, a->install) == 0);
	a->found = i;
	return SPOT_DONE;
}

/* ---- describe -------------------------------------------------------------------------------- */

struct describing {
	const char **refs;
	size_t refs_n, from;
	struct spot_instance *found;
	size_t n;
	bool listed;
};

static const char *ref_of(const struct describing *d, const char *ref)
{
	for (size_t i = 0; i < d->refs_n; i++) {
		if (strcmp(d->refs[i], ref) == 0) {
			return d->refs[i];
		}
	}
	return NULL;
}

/* All machines of the subscription with what they are doing, in one list. */
static enum spot_step describe_page(struct azure *self, struct spot_call *c, struct describing *d)
{
	static const char what[] = "GET virtualMachines";
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = page_reply(self, c, what, &doc, &rows);
	size_t cap = d->refs_n + 1;

	for (size_t i = 0; s == SPOT_STEP_NONE && i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		if (ref_of(d, azure_id_part(c->arena, azure_text(row, "id"), "virtualMachines")) ==
		    NULL) {
			continue;
		}
		if (d->n + 1 >= cap) {
			return azure_bad_reply(c, what, "the same machines again");
		}
		if (!azure_instance_read(self, c->arena, row, &d->found[d->n])) {
			return azure_bad_reply(c, what,
			    "a machine without id, properties or location");
		}
		d->n++;
	}
	d->listed = s == SPOT_STEP_NONE && ((struct call_state *)c->state)->next == NULL;
	return s;
}

static enum spot_step describe_one(struct azure *self, struct spot_call *c, struct describing *d)
{
	bool there;
	enum spot_step s = machine_reply(self, c, &d->found[d->n], &there);

	if (s == SPOT_STEP_NONE) {
		d->from++;
		d->n += there;
	}
	return s;
}

enum spot_step azure_describe(void *p, struct spot_call *c, struct spot_describe *a)
{
	struct azure *self = p;
	struct describing *d = call_state_get(c, sizeof(*d))->own;
	enum spot_step s = SPOT_STEP_NONE;

	if (d->refs == NULL) {
		d->refs = arena_array(c->arena, a->refs_n + 1, sizeof(*d->refs));
		d->found = arena_array(c->arena, a->refs_n + 2, sizeof(*d->found));
		for (size_t i = 0; i < a->refs_n; i++) {
			/* Azure does not know a ref that is no name of ours. */
			if (azure_lease_ok(self, a->refs[i])) {
				d->refs[d->refs_n++] = a->refs[i];
			}
		}
	}
	if (c->in != NULL) {
		s = d->refs_n > REFS_BY_GET ? describe_page(self, c, d) : describe_one(self, c, d);
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (d->refs_n > REFS_BY_GET && !d->listed) {
		return page_send(self, c, "GET virtualMachines",
		    machines_path(self, c->arena, true));
	}
	if (d->refs_n <= REFS_BY_GET && d->from < d->refs_n) {
		return machine_send(self, c, d->refs[d->from]);
	}
	a->found = d->found;
	a->n = d->n;
	a->exact = !d->listed;
	return SPOT_DONE;
}
