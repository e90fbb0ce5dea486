/* Placement groups (CreatePlacementGroup and its neighbours in the EC2 API reference). Instances
 * are in a group until they have terminated, and those of a cluster are in one zone. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

#define NAME_MAX_BYTES 255
#define GROUPS_MAX 500 /* of an account in a region */

struct pgroup {
	struct pgroup *next;
	char *id, *name, *region, *strategy;
	struct inst_tag *tags;
	size_t tags_n;
	bool deleted;
};

static struct pgroup **groups_of(struct sim *s)
{
	return &aws_controls(s)->groups;
}

void groups_free(struct aws_controls *c)
{
	struct pgroup *next;

	for (struct pgroup *g = c->groups; g; g = next) {
		next = g->next;
		for (size_t k = 0; k < g->tags_n; k++) {
			free(g->tags[k].key);
			free(g->tags[k].value);
		}
		free(g->tags);
		free(g->id);
		free(g->name);
		free(g->region);
		free(g->strategy);
		free(g);
	}
	c->groups = NULL;
}

/* By name or id; NULL with e failed. */
static struct pgroup *group_find(struct ec2 *e, const char *name, const char *id)
{
	for (struct pgroup *g = *groups_of(e->sim); g; g = g->next) {
		if (!g->deleted && str_same(g->region, e->rq->region) &&
		    (name ? str_same(g->name, name) : str_same(g->id, id))) {
			return g;
		}
	}
	ec2_fail(e, 400,
	    name ? "InvalidPlacementGroup.Unknown" : "InvalidPlacementGroupId.NotFound",
	    "The Placement Group '%s' is unknown.", name ? name : id);
	return NULL;
}

static bool group_has(const struct pgroup *g, const struct inst *i)
{
	return i->cloud == CLOUD_AWS && i->state != INST_GONE &&
	    str_same(i->pool->region->name, g->region) && str_same(i->group, g->name);
}

static void group_xml(struct ec2 *e, const char *tag, const struct pgroup *g)
{
	struct sbuf *b = &e->out;

	x_open(b, tag);
	x_text(b, "groupName", g->name);
	x_text(b, "strategy", g->strategy);
	x_text(b, "state", "available");
	x_text(b, "groupId", g->id);
	x_text(b, "groupArn",
	    arena_printf(e->rq->arena, "arn:aws:ec2:%s:%s:placement-group/%s", g->region,
		AWS_ACCOUNT, g->name));
	ec2_tags_xml(b, g->tags, g->tags_n);
	x_close(b, tag);
}

/* ---- made ------------------------------------------------------------------------------------ */

static bool name_valid(const char *name)
{
	size_t n = strlen(name);

	for (size_t k = 0; k < n; k++) {
		if ((unsigned char)name[k] < ' ' || (unsigned char)name[k] > '~') {
			return false;
		}
	}
	return n > 0 && n <= NAME_MAX_BYTES;
}

static void tags_check(struct ec2 *e)
{
	const char *kind = form_get(&e->form, "TagSpecification.1.ResourceType");

	form_accept(&e->form, "TagSpecification.1.Tag.*");
	if (kind && !str_same(kind, "placement-group")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "'%s' is not a valid taggable resource type for this operation.", kind);
	}
}

/* The name is free and the strategy exists; false: e failed. */
static bool create_check(struct ec2 *e, const char *name, const char *strategy)
{
	size_t n = 0;

	if (!name || !name_valid(name)) {
		ec2_fail(e, 400, name ? "InvalidParameterValue" : "MissingParameter",
		    "The request must contain the parameter groupName, of at most 255 ASCII "
		    "characters");
	}
	if (!strategy ||
	    (!str_same(strategy, "cluster") && !str_same(strategy, "spread") &&
		!str_same(strategy, "partition"))) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter strategy is invalid.", strategy ? strategy : "");
	}
	tags_check(e);
	if (!ec2_ready(e)) {
		return false;
	}
	for (const struct pgroup *g = *groups_of(e->sim); g; g = g->next) {
		if (g->deleted || !str_same(g->region, e->rq->region)) {
			continue;
		}
		n++;
		if (str_same(g->name, name)) {
			ec2_fail(e, 400, "InvalidPlacementGroup.Duplicate",
			    "The Placement Group '%s' already exists.", name);
			return false;
		}
	}
	if (n >= GROUPS_MAX) {
		ec2_fail(e, 400, "PlacementGroupLimitExceeded",
		    "You have reached the limit on the number of placement groups.");
	}
	return !e->failed;
}

void ec2_create_group(struct ec2 *e)
{
	struct arena *a = e->rq->arena;
	const char *name = form_get(&e->form, "GroupName");
	const char *strategy = form_get(&e->form, "Strategy");
	struct pgroup *g, **at = groups_of(e->sim);

	if (!create_check(e, name, strategy)) {
		return;
	}
	g = calloc(1, sizeof(*g));
	if (!g) {
		abort();
	}
	while (*at) {
		at = &(*at)->next;
	}
	*at = g;
	g->id = sim_id(e->sim, NULL, "pg-0", 8);
	g->name = dup_text(name);
	g->region = dup_text(e->rq->region);
	g->strategy = dup_text(strategy);
	for (int k = 1; k <= 50; k++) {
		const char *key =
		    form_get(&e->form, arena_printf(a, "TagSpecification.1.Tag.%d.Key", k));

		if (key) {
			inst_tag_set(&g->tags, &g->tags_n, key,
			    form_get(&e->form,
				arena_printf(a, "TagSpecification.1.Tag.%d.Value", k)));
		}
	}
	ec2_begin(e);
	x_bool(&e->out, "return", true);
	group_xml(e, "placementGroup", g);
}

/* ---- looked at, deleted ---------------------------------------------------------------------- */

static bool group_shown(const struct pgroup *g, const struct ec2_filter *f, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		bool hit = (str_same(f[k].name, "group-name") && ec2_filter_hits(&f[k], g->name)) ||
		    (str_same(f[k].name, "strategy") && ec2_filter_hits(&f[k], g->strategy)) ||
		    (str_same(f[k].name, "state") && ec2_filter_hits(&f[k], "available"));

		for (size_t i = 0; i < g->tags_n && !hit; i++) {
			hit = (str_same(f[k].name, "tag-key") &&
				  ec2_filter_hits(&f[k], g->tags[i].key)) ||
			    (str_prefix(f[k].name, "tag:") &&
				str_same(f[k].name + 4, g->tags[i].key) &&
				ec2_filter_hits(&f[k], g->tags[i].value));
		}
		if (!hit) {
			return false;
		}
	}
	return true;
}

void ec2_describe_pgroups(struct ec2 *e)
{
	static const char *const known[] = { "group-name", "strategy", "state", "tag:*", "tag-key",
		NULL };
	const char **names, **ids;
	size_t names_n = form_list(&e->form, e->rq->arena, "GroupName", &names), n;
	size_t ids_n = form_list(&e->form, e->rq->arena, "GroupId", &ids);
	struct ec2_filter *f;

	if (!ec2_filters(e, known, &f, &n) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < names_n + ids_n; k++) {
		if (!group_find(e, k < names_n ? names[k] : NULL,
			k < names_n ? NULL : ids[k - names_n])) {
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "placementGroupSet");
	for (const struct pgroup *g = *groups_of(e->sim); g; g = g->next) {
		if (!g->deleted && str_same(g->region, e->rq->region) &&
		    ec2_match_any(names, names_n, g->name) && ec2_match_any(ids, ids_n, g->id) &&
		    group_shown(g, f, n)) {
			group_xml(e, "item", g);
		}
	}
	x_close(&e->out, "placementGroupSet");
}

void ec2_delete_group(struct ec2 *e)
{
	const char *name = form_get(&e->form, "GroupName");
	struct pgroup *g;

	if (!name) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter groupName");
	}
	if (!ec2_ready(e) || !(g = group_find(e, name, NULL))) {
		return;
	}
	for (const struct inst *i = e->sim->insts; i; i = i->next) {
		if (group_has(g, i)) {
			ec2_fail(e, 400, "InvalidPlacementGroup.InUse",
			    "The placement group '%s' is in use and may not be deleted.", name);
			return;
		}
	}
	g->deleted = true;
	ec2_begin(e);
	x_bool(&e->out, "return", true);
}

/* ---- used ------------------------------------------------------------------------------------ */

void group_read(struct ec2 *e, struct run *r)
{
	const char *name = form_get(&e->form, "Placement.GroupName"),
		   *id = form_get(&e->form, "Placement.GroupId");
	const struct pgroup *g;

	if (!str_empty(name) || !str_empty(id)) {
		g = group_find(e, str_empty(name) ? NULL : name, id);
		r->pgroup = g ? g->name : NULL;
	}
}

void group_resolve(struct ec2 *e, const struct run *r)
{
	const struct pgroup *g = r->pgroup ? group_find(e, r->pgroup, NULL) : NULL;

	if (!g || !str_same(g->strategy, "cluster") || e->failed) {
		return;
	}
	if (r->reserved.id) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "The capacity reservation is not in the placement group '%s'.", g->name);
		return;
	}
	for (const struct inst *i = e->sim->insts; i; i = i->next) {
		if (group_has(g, i) && i->pool->zone != r->pool->zone) {
			ec2_fail(e, 400, "InvalidParameterValue",
			    "The cluster placement group '%s' is in the Availability Zone %s.",
			    g->name, i->pool->zone->name);
			return;
		}
	}
}
