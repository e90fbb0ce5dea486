#include "base/base.h"
#include "aws_priv.h"

/*
 * RunInstances for one pool: zonal, with a client token, so that a repeat of the same bytes in the
 * same zone launches nothing more (ec2-api-idempotency.html). The image is looked up per call, one
 * cheap request: a cache would have to live in self, which only auth may change. Within a call the
 * image and so the bytes stay the same over all repeats. gang.c and check.c build the same request.
 * Machines that are to be close together go into a placement group (group.c), which is made first.
 * network.c adds the interfaces.
 */

#include "base/crypto/crypto.h"

#define USER_DATA_MAX 16384 /* raw, before base64: UserGuide/user-data.html */
#define TAGS_MAX 50

/* ---- the image ------------------------------------------------------------------------------- */

const char *aws_image_fixed(const struct aws *self, const char *arch)
{
	return str_same(arch, "arm64") ? self->ami_arm64 : self->ami;
}

enum spot_step aws_image_send(struct aws *self, struct spot_call *c, const char *region,
    const char *arch)
{
	const char *at = strstr(self->ami_parameter, "{arch}");
	const char *name = self->ami_parameter;
	json_t *doc AUTO(json) = NULL;
	struct aws_request r = { .service = AWS_SSM,
		.region = region,
		.action = "GetParameter",
		.target = "AmazonSSM.GetParameter",
		.content_type = "application/x-amz-json-1.1",
		.limit = AWS_LIMIT_SSM };

	if (at != NULL) {
		name = arena_printf(c->arena, "%.*s%s%s", (int)(at - name), name,
		    str_empty(arch) ? "x86_64" : arch, at + 6);
	}
	doc = json_pack("{s:s}", "Name", name);
	r.body = json_text(c->arena, doc);
	r.body_n = strlen(r.body);
	return aws_send(self, c, &r);
}

enum spot_step aws_image_reply(struct aws *self, struct spot_call *c, const char **ret_ami)
{
	json_t *doc AUTO(json) = NULL;
	const char *id;
	enum spot_step s = aws_reply_json(self, c, "GetParameter", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	id = json_string_value(json_object_get(json_object_get(doc, "Parameter"), "Value"));
	if (!aws_id_ok(id, "ami-")) {
		return aws_bad_reply(c, "GetParameter", "Parameter.Value is not an image id");
	}
	*ret_ami = arena_strdup(c->arena, id);
	return SPOT_STEP_NONE;
}

/* ---- the request ----------------------------------------------------------------------------- */

static void add_tags(const struct spot_launch *l, struct query *q, size_t spec,
    const char *resource)
{
	size_t n = 0;
	bool named = false;

	query_addf(q, resource, "TagSpecification.%zu.ResourceType", spec);
	query_addf(q, AWS_TAG_INSTALL, "TagSpecification.%zu.Tag.%zu.Key", spec, ++n);
	query_addf(q, l->install, "TagSpecification.%zu.Tag.%zu.Value", spec, n);
	for (size_t i = 0; i < l->tags_n; i++) {
		named = named || strcmp(l->tags[i].key, "Name") == 0;
		query_addf(q, l->tags[i].key, "TagSpecification.%zu.Tag.%zu.Key", spec, ++n);
		query_addf(q, l->tags[i].value, "TagSpecification.%zu.Tag.%zu.Value", spec, n);
	}
	if (!named && !str_empty(l->name)) {
		query_addf(q, "Name", "TagSpecification.%zu.Tag.%zu.Key", spec, ++n);
		query_addf(q, l->name, "TagSpecification.%zu.Tag.%zu.Value", spec, n);
	}
}

static void add_market(const struct spot_launch *l, const struct aws_run *r, struct query *q)
{
	char usd[USD_TEXT_MAX];

	switch (l->key.market) {
	case SPOT_MARKET_SPOT:
		query_add(q, "InstanceMarketOptions.MarketType", "spot");
		query_add(q, "InstanceMarketOptions.SpotOptions.SpotInstanceType", "one-time");
		query_add(q, "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior",
		    "terminate");
		/* Without a cap the on-demand price is the cap, which is what one wants. */
		if (l->price_cap_micros > 0) {
			query_add(q, "InstanceMarketOptions.SpotOptions.MaxPrice",
			    format_usd(l->price_cap_micros, usd));
		}
		return;
	case SPOT_MARKET_RESERVED:
	case SPOT_MARKET_INTERRUPTIBLE:
		if (r->reserved.block || r->reserved.interruptible) {
			query_add(q, "InstanceMarketOptions.MarketType",
			    r->reserved.block ? "capacity-block"
					      : "interruptible-capacity-reservation");
		}
		query_add(q,
		    "CapacityReservationSpecification.CapacityReservationTarget."
		    "CapacityReservationId",
		    r->reserved.id);
		return;
	case SPOT_MARKET_ON_DEMAND:
	case SPOT_MARKET_FLEX_START:
	case SPOT_MARKET_NONE:
		break;
	}
	/* The default "open" would silently use up somebody's reservation. */
	query_add(q, "CapacityReservationSpecification.CapacityReservationPreference", "none");
}

static void add_disk(const struct aws *self, struct query *q)
{
	char gib[24];

	if (self->root_gib == 0) {
		return;
	}
	snprintf(gib, sizeof(gib), "%" PRId64, self->root_gib);
	query_add(q, "BlockDeviceMapping.1.DeviceName", self->root_device);
	query_add(q, "BlockDeviceMapping.1.Ebs.VolumeSize", gib);
	query_add(q, "BlockDeviceMapping.1.Ebs.VolumeType", "gp3");
	query_add(q, "BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true");
}

static void add_machine(const struct aws *self, struct query *q)
{
	const char *profile = self->instance_profile;

	/* The default is stop: a stopped node keeps its disk and bill. */
	query_add(q, "InstanceInitiatedShutdownBehavior", "terminate");
	query_add(q, "MetadataOptions.HttpEndpoint", "enabled");
	query_add(q, "MetadataOptions.HttpTokens", "required");
	/* One hop would keep jobs in containers from the metadata service. */
	query_add(q, "MetadataOptions.HttpPutResponseHopLimit", "2");
	if (profile != NULL) {
		query_add(q,
		    str_prefix(profile, "arn:") ? "IamInstanceProfile.Arn"
						: "IamInstanceProfile.Name",
		    profile);
	}
	add_disk(self, q);
}

enum spot_step aws_run_send(struct aws *self, struct spot_call *c, const struct aws_run *r)
{
	const struct spot_launch *l = r->launch;
	char count[24], least[24];
	struct query q;
	enum spot_step s;

	snprintf(count, sizeof(count), "%zu", r->count);
	snprintf(least, sizeof(least), "%zu", r->least);
	query_begin(&q, c->arena, "RunInstances", EC2_VERSION);
	if (r->dry) {
		query_add(&q, "DryRun", "true");
	}
	query_add(&q, "ImageId", r->ami);
	query_add(&q, "InstanceType", l->key.instance_type);
	/* As many as possible, but none if fewer than MinCount: API_RunInstances.html. */
	query_add(&q, "MinCount", least);
	query_add(&q, "MaxCount", count);
	query_add(&q, "ClientToken", l->token);
	s = aws_network_add(self, c, r, &q);
	if (s != SPOT_STEP_NONE) {
		sbuf_fini(&q.body);
		return s;
	}
	add_market(l, r, &q);
	add_machine(self, &q);
	add_tags(l, &q, 1, "instance");
	add_tags(l, &q, 2, "volume");
	if (l->key.market == SPOT_MARKET_SPOT) {
		add_tags(l, &q, 3, "spot-instances-request");
	}
	if (l->user_data.n > 0) {
		query_add(&q, "UserData", base64_encode(c->arena, l->user_data.p, l->user_data.n));
	}
	c->limit_also = r->dry ? 0 : AWS_LIMIT_RUN_MACHINES + 1;
	c->limit_also_cost = (int)r->count;
	return query_send_ec2(&q, self, c, l->key.region, "RunInstances", AWS_LIMIT_RUN, !r->dry);
}

/* ---- the reply ------------------------------------------------------------------------------- */

bool aws_run_read(struct aws *self, struct spot_call *c, const struct spot_launch *l,
    const struct xml *item, struct spot_instance *ret)
{
	if (!aws_instance_read(self, c, l->key.region, item, ret)) {
		return false;
	}
	/* Fill from the request: the reply may lack these. */
	if (*ret->key.zone == '\0') {
		ret->key.zone = l->key.zone;
	}
	if (*ret->key.instance_type == '\0') {
		ret->key.instance_type = l->key.instance_type;
	}
	if (*ret->token == '\0') {
		ret->token = l->token;
	}
	if (*ret->install == '\0') {
		ret->install = l->install;
	}
	/* An instance in a capacity reservation looks like any on-demand one. */
	ret->key.market = l->key.market;
	return true;
}

static enum spot_step run_reply(struct aws *self, struct spot_call *c, struct spot_launch *l)
{
	const struct xml *doc, *item;
	enum spot_step s = aws_reply_xml(self, c, "RunInstances", "RunInstancesResponse", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	item = xml_first(xml_at(doc, "instancesSet"), "item");
	if (item == NULL || !aws_run_read(self, c, l, item, &l->instance)) {
		return aws_bad_reply(c, "RunInstances", "no instance in it");
	}
	return SPOT_DONE;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static enum spot_step tags_check(struct spot_call *c, const struct spot_launch *l)
{
	if (l->tags_n > TAGS_MAX - 2) {
		return call_fail(c, SPOT_INVALID, NULL, "aws launch: %zu tags, at most %d",
		    l->tags_n, TAGS_MAX - 2);
	}
	for (size_t i = 0; i < l->tags_n; i++) {
		const char *k = l->tags[i].key, *v = l->tags[i].value;

		if (str_empty(k) || strlen(k) > 127 || v == NULL || strlen(v) > 255) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "aws launch: tag '%.40s': key 1 to 127, value to "
			    "255 characters",
			    k != NULL ? k : "");
		}
		if (str_prefix(k, "aws:") || strcmp(k, AWS_TAG_INSTALL) == 0) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "aws launch: tag key '%.40s' is reserved", k);
		}
	}
	return SPOT_STEP_NONE;
}

enum spot_step aws_launch_check(const struct aws *self, struct spot_call *c,
    const struct spot_launch *l)
{
	if (l->key.market != SPOT_MARKET_SPOT && l->key.market != SPOT_MARKET_ON_DEMAND &&
	    (!spot_market_reserves(l->key.market) || !self->reservations)) {
		return call_fail(c, SPOT_INVALID, NULL, "aws launch: market %s is not supported",
		    spot_market_name(l->key.market));
	}
	if (str_empty(l->key.instance_type) ||
	    (str_empty(l->key.zone) && str_empty(l->zone_name))) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "aws launch: instance type and zone are needed");
	}
	/* The token is the only thing that keeps a repeat from launching twice. */
	if (str_empty(l->token) || strlen(l->token) > 64) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "aws launch: token of 1 to 64 characters needed");
	}
	if (str_empty(l->install) || strlen(l->install) > 255) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "aws launch: installation of 1 to 255 characters needed");
	}
	if (l->user_data.n > USER_DATA_MAX) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "aws launch: user data is %zu bytes, EC2 takes %d", l->user_data.n,
		    USER_DATA_MAX);
	}
	return tags_check(c, l);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int at_after_type(const struct aws_run *r)
{
	return aws_group_of(r->launch) != NULL ? AWS_AT_GROUP : AWS_AT_RUN;
}

/* The place of a launch that has its reservation and its image. */
static int at_after_image(const struct aws *self, const struct aws_run *r)
{
	return aws_efa_wanted(self, r->launch) ? AWS_AT_TYPE : at_after_type(r);
}

void aws_launch_begin(const struct aws *self, struct call_state *st, struct aws_run *r,
    const struct spot_launch *l)
{
	r->launch = l;
	r->ami = aws_image_fixed(self, l->shape.arch);
	st->at = spot_market_reserves(l->key.market) ? AWS_AT_RESERVATION
	    : r->ami == NULL                         ? AWS_AT_IMAGE
						     : at_after_image(self, r);
}

/* Reads the reply to a call before RunInstances, and moves on to the next one. */
static enum spot_step prepare_reply(struct aws *self, struct spot_call *c, struct aws_run *r)
{
	struct call_state *st = c->state;
	bool there;
	enum spot_step s;

	switch (st->at) {
	case AWS_AT_RESERVATION:
		s = aws_reservation_reply(self, c, r);
		if (s == SPOT_STEP_NONE && st->next == NULL) {
			st->at = r->ami == NULL ? AWS_AT_IMAGE : at_after_image(self, r);
		}
		return s;
	case AWS_AT_IMAGE:
		s = aws_image_reply(self, c, &r->ami);
		if (s == SPOT_STEP_NONE) {
			st->at = at_after_image(self, r);
		}
		return s;
	case AWS_AT_TYPE:
		s = aws_efa_reply(self, c, r);
		if (s == SPOT_STEP_NONE) {
			st->at = at_after_type(r);
		}
		return s;
	case AWS_AT_GROUP:
		s = aws_group_created(self, c, &there);
		if (s == SPOT_STEP_NONE) {
			st->at = there ? AWS_AT_GROUP_READ : AWS_AT_RUN;
		}
		return s;
	default:
		s = aws_group_checked(self, c, r->launch);
		if (s == SPOT_STEP_NONE) {
			st->at = AWS_AT_RUN;
		}
		return s;
	}
}

enum spot_step aws_launch_prepare(struct aws *self, struct spot_call *c, struct aws_run *r,
    bool *ret_answered)
{
	struct call_state *st = c->state;
	const struct spot_launch *l = r->launch;
	enum spot_step s;

	*ret_answered = c->in != NULL && st->at == AWS_AT_RUN;
	if (c->in != NULL && st->at != AWS_AT_RUN) {
		s = prepare_reply(self, c, r);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	switch (st->at) {
	case AWS_AT_RESERVATION:
		return aws_reservations_send(self, c, l->key.region, l->key.instance_type);
	case AWS_AT_IMAGE:
		return aws_image_send(self, c, l->key.region, l->shape.arch);
	case AWS_AT_TYPE:
		return aws_efa_send(self, c, l);
	case AWS_AT_GROUP:
		return aws_group_create(self, c, l->key.region, aws_group_of(l), l->install, false);
	case AWS_AT_GROUP_READ:
		return aws_group_read(self, c, l->key.region, aws_group_of(l), l->install);
	default:
		return SPOT_STEP_NONE;
	}
}

enum spot_step aws_launch(void *p, struct spot_call *c, struct spot_launch *a)
{
	struct aws *self = p;
	struct call_state *st = c->state;
	struct aws_run *r;
	bool answered = false;
	enum spot_step s;

	if (st == NULL) {
		s = aws_launch_check(self, c, a);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		st = call_state_get(c, sizeof(*r));
		r = st->own;
		r->count = r->least = 1;
		aws_launch_begin(self, st, r, a);
	}
	r = st->own;
	s = aws_launch_prepare(self, c, r, &answered);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	return answered ? run_reply(self, c, a) : aws_run_send(self, c, r);
}
