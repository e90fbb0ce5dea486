/* EC2: the table of calls, and their rate limits. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

/* Token buckets of "Request throttling for the Amazon EC2 API", per account and region. Reads
 * without filter and page draw from a smaller one where `plain` says so. */
enum limit {
	LIMIT_READ = 1,
	LIMIT_READ_PLAIN,
	LIMIT_RUN,
	LIMIT_TERMINATE,
	LIMIT_TAGS,
	LIMIT_CHANGE,
	LIMIT_START
};
static const struct {
	const char *name;
	double burst, per_second;
} limits[] = {
	[LIMIT_READ] = { "read", 100, 20 },
	[LIMIT_READ_PLAIN] = { "read-plain", 50, 10 },
	[LIMIT_RUN] = { "RunInstances", 5, 2 },
	[LIMIT_TERMINATE] = { "TerminateInstances", 100, 5 },
	[LIMIT_TAGS] = { "tags", 100, 10 },
	[LIMIT_CHANGE] = { "change", 50, 5 },
	[LIMIT_START] = { "StartInstances", 5, 2 },
};
static const struct {
	const char *action;
	ec2_fn *fn;
	enum limit limit;
	bool plain;
} calls[] = {
	{ "DescribeRegions", ec2_describe_regions, LIMIT_READ, false },
	{ "DescribeAvailabilityZones", ec2_describe_zones, LIMIT_READ, false },
	{ "DescribeInstanceTypes", ec2_describe_types, LIMIT_READ, false },
	{ "DescribeInstanceTypeOfferings", ec2_describe_offerings, LIMIT_READ, false },
	{ "DescribeSpotPriceHistory", ec2_spot_history, LIMIT_READ, false },
	{ "GetSpotPlacementScores", ec2_placement_scores, LIMIT_READ, false },
	{ "RunInstances", ec2_run, LIMIT_RUN, false },
	{ "DescribeInstances", ec2_describe_instances, LIMIT_READ, true },
	{ "DescribeInstanceStatus", ec2_describe_status, LIMIT_READ, true },
	{ "TerminateInstances", ec2_terminate, LIMIT_TERMINATE, false },
	{ "CreateTags", ec2_create_tags, LIMIT_TAGS, false },
	{ "DeleteTags", ec2_delete_tags, LIMIT_TAGS, false },
	{ "DescribeSpotInstanceRequests", ec2_describe_spot_requests, LIMIT_READ, true },
	{ "CancelSpotInstanceRequests", ec2_cancel_spot_requests, LIMIT_CHANGE, false },
	{ "DescribeImages", ec2_describe_images, LIMIT_READ, false },
	{ "DescribeSubnets", ec2_describe_subnets, LIMIT_READ, false },
	{ "DescribeVpcs", ec2_describe_vpcs, LIMIT_READ, false },
	{ "DescribeSecurityGroups", ec2_describe_groups, LIMIT_READ, false },
	{ "DescribeCapacityReservations", ec2_describe_reservations, LIMIT_READ, false },
	{ "RequestSpotInstances", ec2_request_spot, LIMIT_CHANGE, false },
	{ "CreateFleet", ec2_create_fleet, LIMIT_CHANGE, false },
	{ "DescribeFleets", ec2_describe_fleets, LIMIT_READ, false },
	{ "CreateLaunchTemplate", ec2_create_template, LIMIT_CHANGE, false },
	{ "DescribeLaunchTemplates", ec2_describe_templates, LIMIT_READ, false },
	{ "DescribeLaunchTemplateVersions", ec2_describe_template_versions, LIMIT_READ, false },
	{ "DeleteLaunchTemplate", ec2_delete_template, LIMIT_CHANGE, false },
	{ "StopInstances", ec2_stop, LIMIT_CHANGE, false },
	{ "StartInstances", ec2_start, LIMIT_START, false },
	{ "RebootInstances", ec2_reboot, LIMIT_CHANGE, false },
	{ "DescribeInstanceAttribute", ec2_attribute, LIMIT_READ, false },
	{ "ModifyInstanceAttribute", ec2_modify_attribute, LIMIT_CHANGE, false },
	{ "GetConsoleOutput", ec2_console, LIMIT_READ, false },
	{ "DescribeVolumes", ec2_describe_volumes, LIMIT_READ, true },
	{ "DescribeTags", ec2_describe_tags, LIMIT_READ, true },
	{ "DescribeNetworkInterfaces", ec2_describe_nics, LIMIT_READ, true },
	{ "DescribeKeyPairs", ec2_describe_keys, LIMIT_READ, false },
	{ "CreateKeyPair", ec2_create_key, LIMIT_CHANGE, false },
	{ "ImportKeyPair", ec2_create_key, LIMIT_CHANGE, false },
	{ "DeleteKeyPair", ec2_delete_key, LIMIT_CHANGE, false },
	{ "CreatePlacementGroup", ec2_create_group, LIMIT_CHANGE, false },
	{ "DescribePlacementGroups", ec2_describe_pgroups, LIMIT_READ, false },
	{ "DeletePlacementGroup", ec2_delete_group, LIMIT_CHANGE, false },
	{ "EnableCapacityManager", ec2_manager_enable, LIMIT_CHANGE, false },
	{ "DisableCapacityManager", ec2_manager_disable, LIMIT_CHANGE, false },
	{ "GetCapacityManagerAttributes", ec2_manager_attributes, LIMIT_READ, false },
	{ "GetCapacityManagerMetricData", ec2_manager_data, LIMIT_READ, false },
	{ "DescribeAccountAttributes", ec2_account_attributes, LIMIT_READ, false },
};

static bool form_has_prefix(const struct form *f, const char *prefix)
{
	for (size_t k = 0; k < f->n; k++) {
		if (str_prefix(f->items[k].name, prefix)) {
			return true;
		}
	}
	return false;
}

static bool call_throttled(struct ec2 *e, enum limit limit, bool plain)
{
	const char *key;

	if (plain && !form_has_prefix(&e->form, "Filter.") &&
	    !form_has_prefix(&e->form, "MaxResults") && !form_has_prefix(&e->form, "InstanceId.") &&
	    !form_has_prefix(&e->form, "SpotInstanceRequestId.")) {
		limit = LIMIT_READ_PLAIN;
	}
	key = limit == LIMIT_READ || limit == LIMIT_READ_PLAIN
	    ? arena_printf(e->rq->arena, "ec2|%s|%s|%s", e->rq->region, e->rq->action,
		  limits[limit].name)
	    : arena_printf(e->rq->arena, "ec2|%s|%s", e->rq->region, limits[limit].name);
	if (throttle_take(e->sim, key, limits[limit].burst, limits[limit].per_second, 1)) {
		return false;
	}
	ec2_fail(e, 503, "RequestLimitExceeded", "Request limit exceeded.");
	return true;
}

void ec2_serve(struct sim_req *rq, struct sim_reply *rep)
{
	struct ec2 e = { .rq = rq, .rep = rep, .sim = rq->sim };
	const struct region *r = market_region(rq->sim->market, CLOUD_AWS, rq->region);

	form_parse(rq, &e.form);
	form_accept(&e.form, "X-Amz-*");
	if (e.form.broken) {
		reply_fail(rq, rep, 400, "MalformedQueryString", "%s", e.form.broken);
		return;
	}
	if (!r || !r->enabled) {
		reply_fail(rq, rep, 401, "AuthFailure",
		    "AWS was not able to validate the provided access credentials");
		return;
	}
	form_get(&e.form, "Action");
	if (!str_same(form_get(&e.form, "Version"), "2016-11-15")) {
		reply_fail(rq, rep, 400, "NoSuchVersion",
		    "The requested version is not valid for this web service.");
		return;
	}
	for (size_t k = 0; k < ARRAY_LEN(calls); k++) {
		if (!str_same(calls[k].action, rq->action)) {
			continue;
		}
		if (call_throttled(&e, calls[k].limit, calls[k].plain)) {
			return;
		}
		requests_wake(&e);
		sbuf_init(&e.out, (size_t)64 << 20);
		calls[k].fn(&e);
		if (!e.failed) {
			sbuf_printf(&e.out, "</%sResponse>", rq->action);
			reply_set(rep, 200, "text/xml;charset=UTF-8",
			    arena_strndup(rq->arena, e.out.p, e.out.n), e.out.n);
		}
		sbuf_fini(&e.out);
		return;
	}
	reply_fail(rq, rep, 400, "InvalidAction",
	    "The action %s is not valid for this web service.", rq->action ? rq->action : "(none)");
}
