#include "base/base.h"
#include "aws_priv.h"

/*
 * Cluster placement groups (UserGuide/placement-groups.html): machines in one zone, close to each
 * other. A launch makes its group first. The name is the caller's, so a repeat finds the group
 * there and reads whether it is ours. A group ends by DeletePlacementGroup, which EC2 refuses while
 * a machine is in it. An account has 500 groups in a region, so `list` reports the empty ones.
 */

#define STRATEGY "cluster"

/* A reservation has its own place: one outside the group refuses the launch
 * (UserGuide/cr-cpg.html). */
const char *aws_group_of(const struct spot_launch *l)
{
	return spot_market_reserves(l->key.market) || str_empty(l->together) ? NULL : l->together;
}

/* ---- for a launch ---------------------------------------------------------------------------- */

/* Not mutating: a repeat after a lost reply finds the group there, and no machine is made. */
enum spot_step aws_group_create(struct aws *self, struct spot_call *c, const char *region,
    const char *name, const char *install, bool dry)
{
	struct query q;

	query_begin(&q, c->arena, "CreatePlacementGroup", EC2_VERSION);
	if (dry) {
		query_add(&q, "DryRun", "true");
	}
	query_add(&q, "GroupName", name);
	query_add(&q, "Strategy", STRATEGY);
	query_add(&q, "TagSpecification.1.ResourceType", "placement-group");
	query_add(&q, "TagSpecification.1.Tag.1.Key", AWS_TAG_INSTALL);
	query_add(&q, "TagSpecification.1.Tag.1.Value", install);
	return query_send_ec2(&q, self, c, region, "CreatePlacementGroup", AWS_LIMIT_DESCRIBE,
	    false);
}

enum spot_step aws_group_created(struct aws *self, struct spot_call *c, bool *ret_there)
{
	const char *code, *message;
	const struct xml *doc;
	enum spot_step s;

	*ret_there = false;
	if (c->in->status == 400) {
		aws_error_read(c, &code, &message);
		if (strcmp(code, "InvalidPlacementGroup.Duplicate") == 0) {
			*ret_there = true;
			return SPOT_STEP_NONE;
		}
	}
	s = aws_reply_xml(self, c, "CreatePlacementGroup", "CreatePlacementGroupResponse", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	/* The state is `pending` for a moment, then `available`. */
	if (str_empty(xml_text(doc, "placementGroup/groupName", ""))) {
		return aws_bad_reply(c, "CreatePlacementGroup", "no groupName");
	}
	return SPOT_STEP_NONE;
}

enum spot_step aws_group_read(struct aws *self, struct spot_call *c, const char *region,
    const char *name, const char *install)
{
	struct query q;

	query_begin(&q, c->arena, "DescribePlacementGroups", EC2_VERSION);
	if (name != NULL) {
		query_add(&q, "GroupName.1", name);
	} else {
		query_filter(&q, 1, "tag:" AWS_TAG_INSTALL, install);
	}
	return query_send_ec2(&q, self, c, region, "DescribePlacementGroups", AWS_LIMIT_DESCRIBE,
	    false);
}

enum spot_step aws_group_checked(struct aws *self, struct spot_call *c, const struct spot_launch *l)
{
	const struct xml *doc, *item;
	const char *state;
	enum spot_step s = aws_reply_xml(self, c, "DescribePlacementGroups",
	    "DescribePlacementGroupsResponse", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	item = xml_first(xml_at(doc, "placementGroupSet"), "item");
	if (item == NULL || strcmp(xml_text(item, "groupName", ""), aws_group_of(l)) != 0) {
		return aws_bad_reply(c, "DescribePlacementGroups", "the group is not in it");
	}
	if (strcmp(xml_text(item, "strategy", ""), STRATEGY) != 0 ||
	    strcmp(aws_tag_read(item, AWS_TAG_INSTALL), l->install) != 0) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws launch: placement group %s is there, and not ours: delete it",
		    aws_group_of(l));
	}
	state = xml_text(item, "state", "");
	if (strcmp(state, "available") != 0 && strcmp(state, "pending") != 0) {
		return call_fail(c, SPOT_UNAVAILABLE, NULL, "aws launch: placement group %s is %s",
		    aws_group_of(l), state);
	}
	return SPOT_STEP_NONE;
}

/* ---- left behind ----------------------------------------------------------------------------- */

static bool group_in_use(const struct aws_instances *l, const char *name)
{
	for (size_t i = 0; i < l->groups_n; i++) {
		if (strcmp(l->groups[i], name) == 0) {
			return true;
		}
	}
	return false;
}

/* A refusal is no fault of the list: without the permission there are no groups of ours. */
void aws_groups_add(struct aws *self, struct spot_call *c, const struct spot_list *a,
    struct aws_instances *l)
{
	const struct xml *doc, *set;

	if (aws_reply_xml(self, c, "DescribePlacementGroups", "DescribePlacementGroupsResponse",
		&doc) != SPOT_STEP_NONE) {
		c->err = (struct spot_err){ 0 };
		return;
	}
	set = xml_at(doc, "placementGroupSet");
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		const char *name = xml_text(i, "groupName", "");
		const char *state = xml_text(i, "state", "");

		if (*name == '\0' || group_in_use(l, name) || strcmp(state, "available") != 0 ||
		    strcmp(aws_tag_read(i, AWS_TAG_INSTALL), a->install) != 0) {
			continue;
		}
		l->items = arena_grow(c->arena, l->items, l->n, &l->cap, sizeof(*l->items));
		l->items[l->n++] =
		    (struct spot_instance){ .ref = arena_printf(c->arena, AWS_GROUP_REF "%s", name),
			    .token = "",
			    .install = a->install,
			    .key = { .provider = self->name,
				.region = arena_strdup(c->arena, a->region),
				.zone = "",
				.instance_type = "" },
			    .state = SPOT_INSTANCE_FAILED,
			    .raw_state = state,
			    .raw_reason = "placement group without a machine",
			    .ip = "",
			    .spot_request = "",
			    .leftover = true };
	}
}

static void delete_done(const struct aws *self, struct spot_terminate *a, const char *raw)
{
	aws_terminate_after(self, a, SPOT_INSTANCE_GONE, raw);
	a->after.leftover = true;
}

enum spot_step aws_group_delete(struct aws *self, struct spot_call *c, struct spot_terminate *a)
{
	const char *code, *message;
	const struct xml *doc;
	enum spot_step s;
	struct query q;

	if (c->in == NULL) {
		query_begin(&q, c->arena, "DeletePlacementGroup", EC2_VERSION);
		query_add(&q, "GroupName", a->ref + strlen(AWS_GROUP_REF));
		return query_send_ec2(&q, self, c, a->region, "DeletePlacementGroup",
		    AWS_LIMIT_TERMINATE, true);
	}
	if (c->in->status == 400) {
		aws_error_read(c, &code, &message);
		if (strcmp(code, "InvalidPlacementGroup.Unknown") == 0) {
			delete_done(self, a, SPOT_NOT_FOUND_STATE);
			return SPOT_DONE;
		}
	}
	s = aws_reply_xml(self, c, "DeletePlacementGroup", "DeletePlacementGroupResponse", &doc);
	if (s == SPOT_STEP_NONE) {
		delete_done(self, a, "deleted");
		s = SPOT_DONE;
	}
	return s;
}
