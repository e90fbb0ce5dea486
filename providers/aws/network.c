#include "base/base.h"
#include "aws_priv.h"

/*
 * The network of a launch: zone, placement group, interfaces. With `efa = on` the machines that are
 * placed together get an EFA on each network card that takes one
 * (UserGuide/efa-acc-inst-types.html). On a type with one card the primary interface is the EFA.
 * On others it is an ordinary one. Card 0 takes an EFA besides, as device 1, when there are as many
 * EFAs as cards. The further cards have theirs as device 0.
 */

#define GROUPS_MAX 16
#define CARDS_MAX 64

/* subnet.<zone id>, subnet.<zone name>, subnet.<region>: the first that is set. */
static const char *subnet_find(const struct aws *self, struct arena *a, const struct spot_launch *l)
{
	const char *const places[] = { l->key.zone, l->zone_name, l->key.region };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		const char *v = NULL;

		if (!str_empty(places[i])) {
			v = aws_setting(self, arena_printf(a, "subnet.%s", places[i]));
		}
		if (v != NULL) {
			return v;
		}
	}
	return NULL;
}

/* Comma list to ids; false: one of them is no security group id. */
static bool groups_read(struct arena *a, const char *list, const char **ret, size_t *ret_n)
{
	*ret_n = 0;
	while (list != NULL && *list != '\0') {
		size_t skip = strspn(list, " \t,"), n = strcspn(list + skip, " \t,");

		if (n == 0) {
			break;
		}
		if (*ret_n == GROUPS_MAX) {
			return false;
		}
		ret[*ret_n] = arena_strndup(a, list + skip, n);
		if (!aws_id_ok(ret[(*ret_n)++], "sg-")) {
			return false;
		}
		list += skip + n;
	}
	return true;
}

/* ---- EFA ------------------------------------------------------------------------------------- */

bool aws_efa_wanted(const struct aws *self, const struct spot_launch *l)
{
	return self->efa && !str_empty(l->together);
}

enum spot_step aws_efa_send(struct aws *self, struct spot_call *c, const struct spot_launch *l)
{
	struct query q;

	query_begin(&q, c->arena, "DescribeInstanceTypes", EC2_VERSION);
	query_add(&q, "InstanceType.1", l->key.instance_type);
	return query_send_ec2(&q, self, c, l->key.region, "DescribeInstanceTypes",
	    AWS_LIMIT_DESCRIBE, false);
}

enum spot_step aws_efa_reply(struct aws *self, struct spot_call *c, struct aws_run *r)
{
	const struct xml *doc, *net;
	enum spot_step s =
	    aws_reply_xml(self, c, "DescribeInstanceTypes", "DescribeInstanceTypesResponse", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	net = xml_at(doc, "instanceTypeSet/item/networkInfo");
	if (net == NULL) {
		return aws_bad_reply(c, "DescribeInstanceTypes", "no networkInfo");
	}
	r->efa = 0;
	r->cards = 1;
	if (strcmp(xml_text(net, "efaSupported", ""), "true") != 0) {
		return SPOT_STEP_NONE;
	}
	if (!parse_i64(xml_text(net, "efaInfo/maximumEfaInterfaces", ""), 1, CARDS_MAX, &r->efa) ||
	    !parse_i64(xml_text(net, "maximumNetworkCards", ""), 1, CARDS_MAX, &r->cards)) {
		return aws_bad_reply(c, "DescribeInstanceTypes", "no number of EFAs or cards");
	}
	return SPOT_STEP_NONE;
}

/* ---- the request ----------------------------------------------------------------------------- */

struct interfaces {
	struct query *q;
	const char *subnet, **groups;
	size_t groups_n, n;
};

/* With an interface in the request, subnet and groups may only stand there. type: NULL = not said,
 * an ordinary one. */
static void interface_add(struct spot_call *c, struct interfaces *x, int64_t card, int device,
    const char *type, const char *public_ip)
{
	const char *at = arena_printf(c->arena, "NetworkInterface.%zu", ++x->n);

	query_addf(x->q, arena_printf(c->arena, "%d", device), "%s.DeviceIndex", at);
	if (public_ip != NULL) {
		query_addf(x->q, public_ip, "%s.AssociatePublicIpAddress", at);
	}
	if (type != NULL) {
		query_addf(x->q, arena_printf(c->arena, "%" PRId64, card), "%s.NetworkCardIndex",
		    at);
		query_addf(x->q, type, "%s.InterfaceType", at);
	}
	query_addf(x->q, "true", "%s.DeleteOnTermination", at);
	if (x->subnet != NULL) {
		query_addf(x->q, x->subnet, "%s.SubnetId", at);
	}
	for (size_t i = 0; i < x->groups_n; i++) {
		query_addf(x->q, x->groups[i], "%s.SecurityGroupId.%zu", at, i + 1);
	}
}

/* Several interfaces, of which the first is an ordinary one. */
static enum spot_step cards_add(const struct aws *self, struct spot_call *c,
    const struct aws_run *r, struct interfaces *x)
{
	if (self->public_ip != NULL && strcmp(self->public_ip, "true") == 0) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: public_ip: EC2 gives %s with %" PRId64
		    " EFAs no public address: leave it out, or set efa to off",
		    r->launch->key.instance_type, r->efa);
	}
	interface_add(c, x, 0, 0, "interface", NULL);
	if (r->efa >= r->cards) {
		interface_add(c, x, 0, 1, "efa-only", NULL);
	}
	for (int64_t card = 1; card < r->cards && card <= r->efa; card++) {
		interface_add(c, x, card, 0, "efa-only", NULL);
	}
	return SPOT_STEP_NONE;
}

static enum spot_step interfaces_add(const struct aws *self, struct spot_call *c,
    const struct aws_run *r, struct interfaces *x)
{
	if (r->efa > 0 && r->cards > 1) {
		return cards_add(self, c, r, x);
	}
	if (self->public_ip != NULL || r->efa > 0) {
		interface_add(c, x, 0, 0, r->efa > 0 ? "efa" : NULL, self->public_ip);
		return SPOT_STEP_NONE;
	}
	if (x->subnet != NULL) {
		query_add(x->q, "SubnetId", x->subnet);
	}
	for (size_t i = 0; i < x->groups_n; i++) {
		query_addf(x->q, x->groups[i], "SecurityGroupId.%zu", i + 1);
	}
	return SPOT_STEP_NONE;
}

/* EC2 refuses a subnet outside the pool's zone, because we send the zone too. No instance is better
 * than one in a pool that we did not price. */
enum spot_step aws_network_add(const struct aws *self, struct spot_call *c, const struct aws_run *r,
    struct query *q)
{
	const struct spot_launch *l = r->launch;
	const char *groups[GROUPS_MAX];
	const char *key = arena_printf(c->arena, "security_groups.%s", l->key.region);
	struct interfaces x = { .q = q,
		.subnet = subnet_find(self, c->arena, l),
		.groups = groups };

	if (x.subnet != NULL && !aws_id_ok(x.subnet, "subnet-")) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws: subnet for zone %s: '%.40s' is not a subnet id", l->key.zone, x.subnet);
	}
	if (!groups_read(c->arena, aws_setting(self, key), groups, &x.groups_n)) {
		return call_fail(c, SPOT_CONFIG, NULL, "aws: %s: must be at most %d ids (sg-...)",
		    key, GROUPS_MAX);
	}
	if (!str_empty(l->zone_name)) {
		query_add(q, "Placement.AvailabilityZone", l->zone_name);
	} else {
		query_add(q, "Placement.AvailabilityZoneId", l->key.zone);
	}
	if (aws_group_of(l) != NULL) {
		query_add(q, "Placement.GroupName", aws_group_of(l));
	}
	return interfaces_add(self, c, r, &x);
}
