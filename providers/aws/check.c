#include "base/base.h"
#include "aws_priv.h"

/*
 * Checks a configuration before an operator trusts it. Nothing is made or ended: EC2 tells with
 * DryRun whether a call would have been permitted (DryRunOperation) and whether its parameters hold
 * (API_RunInstances.html, DryRun). The other services are asked for the least that they tell.
 */

#define CLOCK_BAD_US (240 * SPOT_US_PER_S) /* the vendor refuses signatures at 5 minutes */
#define POLICY "attach deploy/iam/aws-policy.json to the daemon's user or role"
/* Of an id's form, and nobody's. */
#define NO_INSTANCE "i-0123456789abcdef0"
#define PROBE "spotbroker-check"

enum {
	IDENTITY = 0,
	IMAGE,
	LAUNCH_SPOT,
	LAUNCH_ON_DEMAND,
	ENDED,
	TERMINATE,
	READS,
	LIST_PRICES,
	QUEUE,
	QUOTAS,
	OVER
};

/* Calls that are only tried out. */
static const struct {
	const char *item, *action;
	enum spot_check_state denied;
	const char *without;
} reads[] = {
	{ "regions", "DescribeRegions", SPOT_CHECK_BAD,
	    "no region is known, unless regions is set" },
	{ "zones", "DescribeAvailabilityZones", SPOT_CHECK_BAD, "no pool is known" },
	{ "types", "DescribeInstanceTypes", SPOT_CHECK_BAD, "no pool is known" },
	{ "offerings", "DescribeInstanceTypeOfferings", SPOT_CHECK_BAD, "no pool is known" },
	{ "spot prices", "DescribeSpotPriceHistory", SPOT_CHECK_BAD, "spot has no prices" },
	{ "spot requests", "DescribeSpotInstanceRequests", SPOT_CHECK_BAD,
	    "interruptions are heard from the node alone" },
	{ "maintenance", "DescribeInstanceStatus", SPOT_CHECK_WARN,
	    "the vendor's maintenance is heard from the node alone" },
	{ "placement scores", "GetSpotPlacementScores", SPOT_CHECK_WARN,
	    "there are no placement scores; placement_scores = off ends the asking" },
	{ "capacity manager", "GetCapacityManagerAttributes", SPOT_CHECK_WARN,
	    "there are no fulfilment rates; capacity_manager = off ends the asking" },
	{ "fulfilment rates", "GetCapacityManagerMetricData", SPOT_CHECK_WARN,
	    "there are no fulfilment rates; capacity_manager = off ends the asking" },
	{ "reservations", "DescribeCapacityReservations", SPOT_CHECK_BAD,
	    "reservations cannot be used; reservations = off ends the asking" },
	{ "placement group", "CreatePlacementGroup", SPOT_CHECK_WARN,
	    "jobs with network_tier: best are refused" },
	{ "placement groups", "DescribePlacementGroups", SPOT_CHECK_WARN,
	    "the groups of jobs with network_tier: best stay, up to the 500 of the region" },
};

struct checking {
	struct check_list found;
	size_t read; /* index into reads */
	struct spot_pool_info spot, on_demand;
	bool have_pool;
	struct aws_run run;
	const char *ami, *ended;
	const char *install, *region;
	struct spot_quotas quotas;
	void *quotas_state; /* of the verb that runs inside this one */
};

/* The verdict of a reply that is an error, as an item: true. False: the call must be repeated or
 * needs new credentials, which stays the step's verdict. */
static bool error_item(struct spot_call *c, struct checking *k, enum spot_step s, const char *name,
    enum spot_check_state state, const char *fix)
{
	if (s != SPOT_FAIL) {
		return false;
	}
	check_add_err(c, &k->found, name, state, fix);
	return true;
}

/* ---- identity and clock ---------------------------------------------------------------------- */

static enum spot_step identity_reply(struct aws *self, struct spot_call *c, struct checking *k)
{
	const char *account = NULL;
	enum spot_step s = aws_whoami(self, c, &account);

	if (s == SPOT_DONE) {
		check_add(c, &k->found, "credentials", SPOT_CHECK_OK,
		    arena_printf(c->arena, "account %s", account), "");
		check_clock(c, &k->found, CLOCK_BAD_US, "signatures are valid for five minutes");
		return SPOT_STEP_NONE;
	}
	return error_item(c, k, s, "credentials", SPOT_CHECK_BAD,
		   "check the keys of the daemon (environment, credentials file, role)")
	    ? SPOT_STEP_NONE
	    : s;
}

/* ---- launching ------------------------------------------------------------------------------- */

static enum spot_step image_reply(struct aws *self, struct spot_call *c, struct checking *k)
{
	enum spot_step s = aws_image_reply(self, c, &k->ami);

	if (s == SPOT_STEP_NONE) {
		check_add(c, &k->found, "image", SPOT_CHECK_OK,
		    arena_printf(c->arena, "%s by %s", k->ami, self->ami_parameter), "");
		return s;
	}
	return error_item(c, k, s, "image", SPOT_CHECK_BAD,
		   "set ami_parameter to an image parameter of the region, or ami to an image; the "
		   "permission is ssm:GetParameter")
	    ? SPOT_STEP_NONE
	    : s;
}

static const struct spot_pool_info *pool_of_launch(const struct checking *k, int at)
{
	return at == LAUNCH_SPOT ? &k->spot : &k->on_demand;
}

static enum spot_step launch_send(struct aws *self, struct spot_call *c, struct checking *k, int at)
{
	const struct spot_pool_info *p = pool_of_launch(k, at);
	struct spot_launch *l = arena_alloc(c->arena, sizeof(*l));

	*l = (struct spot_launch){ .key = p->key,
		.zone_name = p->zone_name,
		.shape = p->shape,
		.token = PROBE,
		.name = PROBE,
		.install = k->install };
	k->run =
	    (struct aws_run){ .launch = l, .ami = k->ami, .count = 1, .least = 1, .dry = true };
	return aws_run_send(self, c, &k->run);
}

/* The advice for a refused dry run, by its error code. */
static const char *launch_fix(enum spot_rc rc)
{
	switch ((int)rc) {
	case SPOT_DENIED:
		return POLICY;
	case SPOT_CONFIG:
	case SPOT_INVALID:
		return "correct the setting that the words name (ami, subnet, security_groups, "
		       "instance_profile, root_gib)";
	case SPOT_NOT_OFFERED:
		return "nothing, if other zones or types are wanted too";
	default:
		return "see the words";
	}
}

static bool dry_run_ok(struct spot_call *c)
{
	const char *code, *message;

	if (c->in->status < 400) {
		return false;
	}
	aws_error_read(c, &code, &message);
	return strcmp(code, "DryRunOperation") == 0;
}

static enum spot_step launch_reply(struct aws *self, struct spot_call *c, struct checking *k,
    int at)
{
	const char *name = at == LAUNCH_SPOT ? "launch spot" : "launch on-demand";
	const struct spot_pool_info *p = pool_of_launch(k, at);
	enum spot_step s;
	enum spot_rc rc;

	if (dry_run_ok(c)) {
		check_add(c, &k->found, name, SPOT_CHECK_OK,
		    arena_printf(c->arena, "%s in %s would be launched", p->key.instance_type,
			p->key.zone),
		    "");
		return SPOT_STEP_NONE;
	}
	if (c->in->status == 200) {
		check_add(c, &k->found, name, SPOT_CHECK_BAD, "the endpoint does not know DryRun",
		    "look for an instance named " PROBE " there, and end it");
		return SPOT_STEP_NONE;
	}
	s = aws_reply_plain(self, c, "RunInstances");
	rc = c->err.rc;
	return error_item(c, k, s, name, rc == SPOT_NOT_OFFERED ? SPOT_CHECK_WARN : SPOT_CHECK_BAD,
		   launch_fix(rc))
	    ? SPOT_STEP_NONE
	    : s;
}

/* ---- listing and ending ---------------------------------------------------------------------- */

/* Finds a machine of ours that has ended. A policy that only permits ending tagged machines can
 * only be tried on a tagged machine. One that has ended comes to no harm, whatever the endpoint
 * does. */
static enum spot_step ended_send(struct aws *self, struct spot_call *c, const struct checking *k)
{
	struct query q;

	query_begin(&q, c->arena, "DescribeInstances", EC2_VERSION);
	query_filter(&q, 1, "tag-key", AWS_TAG_INSTALL);
	query_filter(&q, 2, "instance-state-name", "terminated");
	query_add(&q, "MaxResults", "5");
	return query_send_ec2(&q, self, c, k->region, "DescribeInstances", AWS_LIMIT_DESCRIBE,
	    false);
}

static enum spot_step ended_reply(struct aws *self, struct spot_call *c, struct checking *k)
{
	const struct xml *doc;
	enum spot_step s =
	    aws_reply_xml(self, c, "DescribeInstances", "DescribeInstancesResponse", &doc);

	if (s == SPOT_STEP_NONE) {
		k->ended = xml_text(doc, "reservationSet/item/instancesSet/item/instanceId", NULL);
		check_add(c, &k->found, "list", SPOT_CHECK_OK, "machines are listed", "");
		return s;
	}
	return error_item(c, k, s, "list", SPOT_CHECK_BAD, POLICY) ? SPOT_STEP_NONE : s;
}

static enum spot_step terminate_send(struct aws *self, struct spot_call *c,
    const struct checking *k)
{
	struct query q;

	query_begin(&q, c->arena, "TerminateInstances", EC2_VERSION);
	query_add(&q, "DryRun", "true");
	query_add(&q, "InstanceId.1", k->ended != NULL ? k->ended : NO_INSTANCE);
	return query_send_ec2(&q, self, c, k->region, "TerminateInstances", AWS_LIMIT_TERMINATE,
	    false);
}

static enum spot_step terminate_reply(struct aws *self, struct spot_call *c, struct checking *k)
{
	bool ours = k->ended != NULL;
	enum spot_step s;

	if (dry_run_ok(c) || c->in->status == 200) {
		check_add(c, &k->found, "terminate", SPOT_CHECK_OK, "permitted", "");
		return SPOT_STEP_NONE;
	}
	s = aws_reply_plain(self, c, "TerminateInstances");
	return error_item(c, k, s, "terminate", ours ? SPOT_CHECK_BAD : SPOT_CHECK_UNTESTED,
		   ours ? POLICY
			: "no machine of ours has ended lately, and a policy for tagged machines "
			  "refuses a made-up id: check again after the first job")
	    ? SPOT_STEP_NONE
	    : s;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_wanted(const struct aws *self, size_t i)
{
	if (strcmp(reads[i].action, "DescribeRegions") == 0) {
		return self->regions_n == 0;
	}
	if (strcmp(reads[i].action, "GetSpotPlacementScores") == 0) {
		return self->placement_scores;
	}
	if (str_prefix(reads[i].action, "GetCapacityManager")) {
		return self->manager;
	}
	return self->reservations || strcmp(reads[i].action, "DescribeCapacityReservations") != 0;
}

static enum spot_step read_send(struct aws *self, struct spot_call *c, const struct checking *k)
{
	const char *action = reads[k->read].action;
	struct query q;

	if (strcmp(action, "CreatePlacementGroup") == 0) {
		return aws_group_create(self, c, k->region, PROBE, k->install, true);
	}
	if (strcmp(action, "GetCapacityManagerAttributes") == 0) {
		return aws_manager_send(self, c);
	}
	if (strcmp(action, "GetCapacityManagerMetricData") == 0) {
		return aws_fulfilment_query(self, c, k->region,
		    c->now_us / SPOT_US_PER_HOUR * SPOT_US_PER_HOUR, true);
	}
	query_begin(&q, c->arena, action, EC2_VERSION);
	query_add(&q, "DryRun", "true");
	if (strcmp(action, "GetSpotPlacementScores") == 0) {
		query_add(&q, "InstanceType.1", "g5.xlarge");
		query_add(&q, "InstanceType.2", "g6.xlarge");
		query_add(&q, "InstanceType.3", "g4dn.xlarge");
		query_add(&q, "TargetCapacity", "1");
	}
	return query_send_ec2(&q, self, c, k->region, action, AWS_LIMIT_DESCRIBE, false);
}

static bool manager_tell(struct aws *self, struct spot_call *c, struct checking *k)
{
	struct aws_manager m = { 0 };

	if (aws_manager_reply(self, c, &m) != SPOT_STEP_NONE) {
		return false;
	}
	check_add(c, &k->found, "capacity manager", SPOT_CHECK_OK, aws_manager_words(self, c, &m),
	    "");
	return true;
}

static enum spot_step read_reply(struct aws *self, struct spot_call *c, struct checking *k)
{
	const char *name = reads[k->read].item;
	enum spot_step s;

	if (strcmp(name, "capacity manager") == 0 && c->in->status == 200 &&
	    manager_tell(self, c, k)) {
		return SPOT_STEP_NONE;
	}
	if (dry_run_ok(c) || c->in->status == 200) {
		const char *lack =
		    strcmp(name, "reservations") == 0 ? aws_lent_lack(self, c, k->region) : NULL;

		check_add(c, &k->found, name, lack != NULL ? SPOT_CHECK_WARN : SPOT_CHECK_OK,
		    lack != NULL ? lack : "permitted",
		    lack != NULL ? "set it to the queue of deploy/iam/aws-interruptions.yaml" : "");
		return SPOT_STEP_NONE;
	}
	s = aws_reply_plain(self, c, reads[k->read].action);
	return error_item(c, k, s, name, reads[k->read].denied,
		   arena_printf(c->arena, "%s; without it %s", POLICY, reads[k->read].without))
	    ? SPOT_STEP_NONE
	    : s;
}

static enum spot_step prices_reply(struct aws *self, struct spot_call *c, struct checking *k)
{
	json_t *doc AUTO(json) = NULL;
	enum spot_step s = aws_reply_json(self, c, "GetProducts", &doc);
	size_t n;

	if (s == SPOT_STEP_NONE) {
		n = json_array_size(json_object_get(doc, "PriceList"));
		check_add(c, &k->found, "on-demand prices", n > 0 ? SPOT_CHECK_OK : SPOT_CHECK_WARN,
		    n > 0 ? "the price list answers" : "the price list has none for the region",
		    "");
		return s;
	}
	return error_item(c, k, s, "on-demand prices", SPOT_CHECK_BAD, POLICY) ? SPOT_STEP_NONE : s;
}

static enum spot_step queue_reply(struct aws *self, struct spot_call *c, struct checking *k)
{
	json_t *doc AUTO(json) = NULL;
	enum spot_step s = aws_reply_json(self, c, "ReceiveMessage", &doc);

	if (s == SPOT_STEP_NONE) {
		check_add(c, &k->found, "interruption queue", SPOT_CHECK_OK, "it answers", "");
		return s;
	}
	return error_item(c, k, s, "interruption queue", SPOT_CHECK_BAD,
		   "create the queue and its rules with deploy/iam/aws-interruptions.yaml and set "
		   "interruption_queue.<region> to its address")
	    ? SPOT_STEP_NONE
	    : s;
}

/* ---- quotas ---------------------------------------------------------------------------------- */

static void quota_judge(struct spot_call *c, struct checking *k, const struct spot_pool_info *p)
{
	const char *name = arena_printf(c->arena, "quota %s", p->quota_class);
	const char *fix = "ask for more vCPUs under Service Quotas, Amazon EC2, in this region";
	const struct spot_quota *q = NULL;

	if (check_has(&k->found, name)) {
		return; /* once per class, for the first pool */
	}
	for (size_t i = 0; i < k->quotas.n; i++) {
		if (strcmp(k->quotas.quotas[i].class, p->quota_class) == 0) {
			q = &k->quotas.quotas[i];
		}
	}
	if (q == NULL || q->limit < 0) {
		check_add(c, &k->found, name, SPOT_CHECK_WARN, "not known",
		    "look it up under Service Quotas, Amazon EC2");
		return;
	}
	check_add(c, &k->found, name,
	    q->limit < p->shape.vcpus || q->limit == 0 ? SPOT_CHECK_BAD : SPOT_CHECK_OK,
	    arena_printf(c->arena, "%" PRId64 " vCPUs; one %s needs %d", q->limit,
		p->key.instance_type, (int)p->shape.vcpus),
	    q->limit < p->shape.vcpus || q->limit == 0 ? fix : "");
}

/* The verb runs inside this one, with a place of its own. */
static enum spot_step quotas_step(struct aws *self, struct spot_call *c, struct checking *k,
    const struct spot_check *a)
{
	void *outer = c->state;
	enum spot_step s;

	k->quotas.region = k->region;
	c->state = k->quotas_state;
	s = aws_quotas(self, c, &k->quotas);
	k->quotas_state = c->state;
	c->state = outer;
	if (error_item(c, k, s, "quotas", SPOT_CHECK_WARN, POLICY)) {
		return SPOT_STEP_NONE;
	}
	if (s != SPOT_DONE) {
		return s;
	}
	for (size_t i = 0; i < a->pools_n; i++) {
		if (strcmp(a->pools[i].key.region, k->region) == 0 &&
		    !str_empty(a->pools[i].quota_class)) {
			quota_judge(c, k, &a->pools[i]);
		}
	}
	return SPOT_STEP_NONE;
}

/* ---- the frame ------------------------------------------------------------------------------- */

static void check_begin(struct aws *self, struct spot_call *c, struct checking *k,
    const struct spot_check *a)
{
	k->region = str_empty(a->region) ? self->home : arena_strdup(c->arena, a->region);
	k->install = str_empty(a->install) ? PROBE : a->install;
	for (size_t i = 0; i < a->pools_n; i++) {
		const struct spot_pool_info *p = &a->pools[i];

		if (strcmp(p->key.region, k->region) != 0) {
			continue;
		}
		if (!k->have_pool || p->key.market == SPOT_MARKET_SPOT) {
			k->spot = *p;
		}
		if (!k->have_pool || p->key.market == SPOT_MARKET_ON_DEMAND) {
			k->on_demand = *p;
		}
		k->have_pool = true;
	}
	k->spot.key.market = SPOT_MARKET_SPOT;
	k->on_demand.key.market = SPOT_MARKET_ON_DEMAND;
	k->ami = aws_image_fixed(self, k->spot.shape.arch);
	if (!k->have_pool) {
		check_add(c, &k->found, "launch", SPOT_CHECK_UNTESTED,
		    "no pool of the region is wanted", "");
	} else if (k->ami != NULL) {
		check_add(c, &k->found, "image", SPOT_CHECK_OK, k->ami, "");
	}
}

/* Shows the operator the network of launches. The dry run tells whether it exists. */
static void network_tell(struct aws *self, struct spot_call *c, struct checking *k)
{
	const char *subnet = aws_setting(self, arena_printf(c->arena, "subnet.%s", k->region));
	const char *groups =
	    aws_setting(self, arena_printf(c->arena, "security_groups.%s", k->region));

	if (subnet == NULL && k->have_pool) {
		subnet = aws_setting(self, arena_printf(c->arena, "subnet.%s", k->spot.key.zone));
	}
	check_add(c, &k->found, "network", SPOT_CHECK_OK,
	    arena_printf(c->arena, "%.80s, %.200s",
		subnet != NULL ? subnet : "subnet of the default VPC",
		groups != NULL ? groups : "its default security group"),
	    "");
}

static bool question_applies(struct aws *self, const struct checking *k, int at)
{
	switch (at) {
	case IMAGE:
		return k->have_pool && k->ami == NULL;
	case LAUNCH_SPOT:
	case LAUNCH_ON_DEMAND:
		return k->have_pool && k->ami != NULL;
	case READS:
		return k->read < ARRAY_LEN(reads);
	case LIST_PRICES:
		return aws_list_region(k->region) != NULL;
	case QUEUE:
		return aws_queue(self, k->region) != NULL;
	default:
		return true;
	}
}

static enum spot_step check_send(struct aws *self, struct spot_call *c, struct checking *k,
    const struct spot_check *a, int at)
{
	const char *account;

	switch (at) {
	case IDENTITY:
		return aws_whoami(self, c, &account);
	case IMAGE:
		return aws_image_send(self, c, k->region, k->spot.shape.arch);
	case LAUNCH_SPOT:
	case LAUNCH_ON_DEMAND:
		return launch_send(self, c, k, at);
	case ENDED:
		return ended_send(self, c, k);
	case TERMINATE:
		return terminate_send(self, c, k);
	case READS:
		return read_send(self, c, k);
	case LIST_PRICES:
		return aws_list_prices_send(self, c, k->region, "Compute Instance", 1, NULL);
	case QUEUE:
		return aws_queue_receive(self, c, k->region, 1, 0, 0);
	default:
		return quotas_step(self, c, k, a);
	}
}

static enum spot_step check_reply(struct aws *self, struct spot_call *c, struct checking *k,
    const struct spot_check *a, int at)
{
	switch (at) {
	case IDENTITY:
		return identity_reply(self, c, k);
	case IMAGE:
		return image_reply(self, c, k);
	case LAUNCH_SPOT:
	case LAUNCH_ON_DEMAND:
		return launch_reply(self, c, k, at);
	case ENDED:
		return ended_reply(self, c, k);
	case TERMINATE:
		return terminate_reply(self, c, k);
	case READS:
		return read_reply(self, c, k);
	case LIST_PRICES:
		return prices_reply(self, c, k);
	case QUEUE:
		return queue_reply(self, c, k);
	default:
		return quotas_step(self, c, k, a);
	}
}

static bool check_sent(struct aws *self, struct spot_call *c, struct checking *k,
    const struct spot_check *a, int at)
{
	enum spot_step s = check_send(self, c, k, a, at);

	/* A request that cannot even be built is a setting that is wrong. */
	if (s == SPOT_FAIL) {
		error_item(c, k, s,
		    at == LAUNCH_SPOT            ? "launch spot"
			: at == LAUNCH_ON_DEMAND ? "launch on-demand"
						 : "settings",
		    SPOT_CHECK_BAD, "correct the setting that the words name");
	}
	return s == SPOT_SEND;
}

enum spot_step aws_check(void *p, struct spot_call *c, struct spot_check *a)
{
	struct aws *self = p;
	struct call_state *st = c->state;
	struct checking *k;

	if (st == NULL) {
		st = call_state_get(c, sizeof(*k));
		check_begin(self, c, st->own, a);
	}
	k = st->own;
	if (c->in != NULL) {
		enum spot_step s = check_reply(self, c, k, a, st->at);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (st->at == READS) {
			k->read++;
		} else {
			st->at++;
		}
		c->in = NULL;
	}
	for (; st->at < OVER; st->at++) {
		while (
		    st->at == READS && k->read < ARRAY_LEN(reads) && !read_wanted(self, k->read)) {
			k->read++;
		}
		if (question_applies(self, k, st->at) && check_sent(self, c, k, a, st->at)) {
			return SPOT_SEND;
		}
	}
	network_tell(self, c, k);
	check_done(&k->found, a);
	return SPOT_DONE;
}
