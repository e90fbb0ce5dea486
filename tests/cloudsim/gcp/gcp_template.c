/* Instance templates: properties of a VM under a name (page "Create a VM from an instance
 * template"). A call of instances.insert takes them by sourceInstanceTemplate, and its body
 * overrides them. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

struct gcp_template {
	struct gcp_template *next;
	uint64_t id;
	char *name, *about;
	json_t *props;
	int64_t made_us;
};

static void template_free(struct gcp_template *t)
{
	json_decref(t->props);
	free(t->name);
	free(t->about);
	free(t);
}

void gcp_templates_free(struct sim *s)
{
	struct gcp_template *next;

	for (struct gcp_template *t = s->gcp->templates; t; t = next) {
		next = t->next;
		template_free(t);
	}
	s->gcp->templates = NULL;
}

static struct gcp_template **at_name(struct gcp_call *c, const char *name)
{
	struct gcp_template **at = &c->g->templates;

	while (*at && !str_same((*at)->name, name) && !str_same(gcp_u64(c->a, (*at)->id), name)) {
		at = &(*at)->next;
	}
	return at;
}

static json_t *template_json(struct gcp_call *c, const struct gcp_template *t)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:O}", "kind", "compute#instanceTemplate",
	    "id", gcp_u64(c->a, t->id), "creationTimestamp", gcp_time(c->a, t->made_us), "name",
	    t->name, "selfLink", gcp_link(c->a, "global/instanceTemplates/%s", t->name),
	    "properties", t->props);

	if (t->about) {
		json_object_set_new(o, "description", json_string(t->about));
	}
	return o;
}

static void reply_op(struct gcp_call *c, const char *type, const struct gcp_template *t,
    const char *request)
{
	struct gcp_op *op = gcp_op_new(c->sim, type, "global", c->email,
	    gcp_link(c->a, "global/instanceTemplates/%s", t->name), gcp_u64(c->a, t->id));

	op->request_id = dup_text(request);
	gcp_op_after(op, 1, NULL);
	gcp_reply(c, gcp_op_json(op, c->a));
}

void gcp_template_insert(struct gcp_call *c)
{
	const char *name = gcp_text(c->body, "name"), *request;
	const json_t *props = json_object_get(c->body, "properties");
	const char *machine = gcp_text(props, "machineType");
	struct gcp_template *t;

	if (!gcp_request_id(c, "global", &request)) {
		return;
	}
	if (!gcp_name_valid(name)) {
		gcp_fail(c, 400, "invalid",
		    "Invalid value for field 'resource.name': '%s'. Must be a match of regex "
		    "'(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'",
		    name ? name : "");
		return;
	}
	if (!machine || strchr(machine, '/')) {
		gcp_fail(c, 400, "invalid",
		    "Invalid value for field 'resource.properties.machineType': '%s'. Machine type "
		    "must be "
		    "specified by its name.",
		    machine ? machine : "");
		return;
	}
	if (*at_name(c, name)) {
		gcp_fail(c, 409, "alreadyExists",
		    "The resource '" GCP_P "global/instanceTemplates/%s' already exists", name);
		return;
	}
	t = calloc(1, sizeof(*t));
	if (!t) {
		abort();
	}
	t->id = gcp_new_id(c->sim);
	t->name = dup_text(name);
	t->about = dup_text(gcp_text(c->body, "description"));
	t->props = json_deep_copy(props);
	t->made_us = sim_wall(c->sim);
	*at_name(c, name) = t;
	reply_op(c, "insert", t, request);
}

static struct gcp_template **template_find(struct gcp_call *c, const char *name)
{
	struct gcp_template **at = at_name(c, name);

	if (!*at) {
		gcp_not_found(c, arena_printf(c->a, GCP_P "global/instanceTemplates/%s", name));
	}
	return *at ? at : NULL;
}

void gcp_template_get(struct gcp_call *c)
{
	struct gcp_template **at = template_find(c, c->arg[1]);

	if (at) {
		gcp_reply(c, template_json(c, *at));
	}
}

void gcp_templates_list(struct gcp_call *c)
{
	json_t *items = json_array();

	for (const struct gcp_template *t = c->g->templates; t; t = t->next) {
		json_array_append_new(items, template_json(c, t));
	}
	gcp_list(c, "compute#instanceTemplateList", "global/instanceTemplates", items);
}

void gcp_template_delete(struct gcp_call *c)
{
	struct gcp_template **at, *t;
	const char *request;

	if (!gcp_request_id(c, "global", &request) || !(at = template_find(c, c->arg[1]))) {
		return;
	}
	t = *at;
	*at = t->next;
	reply_op(c, "delete", t, request);
	template_free(t);
}

/* "global/instanceTemplates/name", also as a whole URL. */
json_t *gcp_template_under(struct gcp_call *c, const char *url, const json_t *body)
{
	json_t *out, *own = (json_t *)(uintptr_t)body, *value; /* jansson iterates without const */
	const char *p = strstr(url, "instanceTemplates/"), *key;
	struct gcp_template **at;

	if (!p) {
		gcp_fail(c, 400, "invalid",
		    "Invalid value for field 'sourceInstanceTemplate': '%s'. The URL is malformed.",
		    url);
		return NULL;
	}
	at = template_find(c, gcp_last(url));
	if (!at) {
		return NULL;
	}
	out = json_deep_copy((*at)->props);
	json_object_foreach (own, key, value) {
		json_object_set(out, key, value);
	}
	return out;
}
