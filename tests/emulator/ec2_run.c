/* RunInstances: parameters, token scope, quota, capacity, and the launch. */
#include "base/base.h"
#include "aws.h"
#include "base/sign.h"
#include "base/str.h"

#define USER_DATA_MAX 16384
#define TOKEN_MAX     64
#define CALL_MAX      1000

struct run {
	const char *image, *type_name, *subnet, *zone_name, *zone_id, *token, *user_data, *market,
	    *key_name;
	const char *profile, *shutdown, *group;
	int64_t min, max, max_price, hop_limit;
	bool tokens_required, metadata_tags, metadata_off;
	struct str user_data_raw;
	struct inst_tag *tags, *sir_tags;
	size_t tags_n, sir_tags_n;
	const struct itype *type;
	const struct zone *zone; /* asked for; NULL = any of the region */
	struct pool *pool;
	enum side side;
	struct reserved_ask reserved;
	const char *reservation; /* that is used up; NULL = none */
	char hash[SHA256_HEX];
	const char *scope;
};

/* ---- parameters ------------------------------------------------------------------------- */

static const char *need(struct ec2 *e, const char *name)
{
	const char *v = form_get(&e->form, name);

	if (!v || !*v)
		ec2_fail(
		    e, 400, "MissingParameter", "The request must contain the parameter %s", name);
	return v ? v : "";
}

static void read_tag_spec(struct ec2 *e, struct run *r, int k)
{
	struct arena *a = e->rq->arena;
	const char *kind =
	    form_get(&e->form, arena_printf(a, "TagSpecification.%d.ResourceType", k));

	if (!kind)
		return;
	if (!glob_match("*", kind) ||
	    !(str_same(kind, "instance") || str_same(kind, "volume") ||
		str_same(kind, "spot-instances-request") || str_same(kind, "network-interface"))) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "'%s' is not a valid taggable resource type for this operation.", kind);
		return;
	}
	for (int t = 1; t <= 51; t++) {
		const char *key =
		    form_get(&e->form, arena_printf(a, "TagSpecification.%d.Tag.%d.Key", k, t));
		const char *value =
		    form_get(&e->form, arena_printf(a, "TagSpecification.%d.Tag.%d.Value", k, t));

		if (!key)
			continue;
		if (t > 50) {
			ec2_fail(e, 400, "TagLimitExceeded",
			    "The maximum number of Tags for a resource has been reached.");
		} else if (str_prefix(key, "aws:")) {
			ec2_fail(e, 400, "InvalidParameterValue",
			    "Tag keys starting with 'aws:' are reserved for internal use");
		} else if (strlen(key) > 128 || strlen(value ? value : "") > 256) {
			ec2_fail(e, 400, "InvalidParameterValue",
			    "Tag key or value exceeds the maximum length");
		} else if (str_same(kind, "instance")) {
			inst_tag_set(&r->tags, &r->tags_n, key, value ? value : "");
		} else if (str_same(kind, "spot-instances-request")) {
			inst_tag_set(&r->sir_tags, &r->sir_tags_n, key, value ? value : "");
		}
	}
}

static void read_user_data(struct ec2 *e, struct run *r)
{
	if (!r->user_data || !*r->user_data)
		return;
	if (!base64_decode(e->rq->arena, r->user_data, strlen(r->user_data), &r->user_data_raw))
		ec2_fail(
		    e, 400, "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.");
	else if (r->user_data_raw.n > USER_DATA_MAX)
		ec2_fail(e, 400, "InvalidUserData.Malformed", "User data is limited to %d bytes",
		    USER_DATA_MAX);
}

static void read_market(struct ec2 *e, struct run *r)
{
	static const char opts[] = "InstanceMarketOptions.SpotOptions.";
	struct arena *a = e->rq->arena;
	const char *kind = form_get(&e->form, arena_printf(a, "%sSpotInstanceType", opts));
	const char *behaviour =
	    form_get(&e->form, arena_printf(a, "%sInstanceInterruptionBehavior", opts));
	const char *cap = form_get(&e->form, arena_printf(a, "%sMaxPrice", opts));

	r->market = form_get(&e->form, "InstanceMarketOptions.MarketType");
	form_get(&e->form, arena_printf(a, "%sValidUntil", opts));
	r->side = SIDE_ON_DEMAND;
	if (!r->market) {
		if (kind || behaviour || cap)
			ec2_fail(e, 400, "InvalidParameterCombination",
			    "SpotOptions require MarketType spot");
		return;
	}
	r->reserved.block = str_same(r->market, "capacity-block");
	if (r->reserved.block) {
		if (kind || behaviour || cap)
			ec2_fail(e, 400, "InvalidParameterCombination",
			    "SpotOptions require MarketType spot");
		return;
	}
	if (!str_same(r->market, "spot")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter MarketType is invalid.", r->market);
		return;
	}
	r->side = SIDE_SPOT;
	r->reserved.spot = true;
	behaviour = behaviour ? behaviour : "terminate";
	kind = kind ? kind : "one-time";
	if (!str_same(kind, "one-time") && !str_same(kind, "persistent"))
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter SpotInstanceType is invalid.", kind);
	if (str_same(kind, "one-time") && !str_same(behaviour, "terminate"))
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "Interruption behavior %s is not supported for one-time "
		    "Spot requests.",
		    behaviour);
	if (cap && (!parse_usd_micros(cap, &r->max_price) || r->max_price <= 1000))
		ec2_fail(e, 400, "InvalidParameterValue",
		    "%s is not a valid value for MaxPrice. It must be greater than "
		    "0.001.",
		    cap);
}

static void read_metadata(struct ec2 *e, struct run *r)
{
	const char *tokens = form_get(&e->form, "MetadataOptions.HttpTokens");
	const char *tags = form_get(&e->form, "MetadataOptions.InstanceMetadataTags");
	const char *endpoint = form_get(&e->form, "MetadataOptions.HttpEndpoint");

	form_get(&e->form, "MetadataOptions.HttpProtocolIpv6");
	ec2_int(e, "MetadataOptions.HttpPutResponseHopLimit", 1, 64, 1, &r->hop_limit);
	r->tokens_required = !str_same(tokens, "optional");
	r->metadata_tags = str_same(tags, "enabled");
	r->metadata_off = str_same(endpoint, "disabled");
	if ((tokens && !str_same(tokens, "optional") && !str_same(tokens, "required")) ||
	    (tags && !str_same(tags, "enabled") && !str_same(tags, "disabled")))
		ec2_fail(e, 400, "InvalidParameterValue", "Value for MetadataOptions is invalid.");
}

/* Parameters that change nothing here; unknown ones are refused. */
static void read_ignored(struct ec2 *e)
{
	static const char *const patterns[] = {"BlockDeviceMapping.*", "EbsOptimized",
	    "Monitoring.Enabled", "Placement.Tenancy", "Placement.GroupName", "Placement.GroupId",
	    "CreditSpecification.*", "CpuOptions.*",
	    "DisableApiTermination", "DisableApiStop", "EnclaveOptions.*", "MaintenanceOptions.*",
	    "PrivateDnsNameOptions.*", "PrivateIpAddress", "Ipv6AddressCount",
	    "NetworkInterface.*.DeviceIndex", "NetworkInterface.*.NetworkCardIndex",
	    "NetworkInterface.*.AssociatePublicIpAddress", "NetworkInterface.*.DeleteOnTermination",
	    "NetworkInterface.*.InterfaceType", "NetworkInterface.*.Description",
	    "NetworkInterface.*.Ipv6AddressCount", "HibernationOptions.*",
	    "LicenseSpecification.*"};

	for (size_t k = 0; k < ARRAY_LEN(patterns); k++)
		form_accept(&e->form, patterns[k]);
}

static void read_groups(struct ec2 *e, struct run *r)
{
	const char **ids, **names, **nics;
	size_t n = form_list(&e->form, e->rq->arena, "SecurityGroupId", &ids);
	size_t nics_n =
	    form_list(&e->form, e->rq->arena, "NetworkInterface.1.SecurityGroupId", &nics);

	form_accept(&e->form, "NetworkInterface.*.SecurityGroupId.*");
	form_list(&e->form, e->rq->arena, "SecurityGroup", &names);
	r->group = net_group(e->rq->arena, e->rq->region);
	for (size_t k = 0; k < n + nics_n; k++) {
		const char *id = k < n ? ids[k] : nics[k - n];

		if (!str_same(id, r->group))
			ec2_fail(e, 400, "InvalidGroup.NotFound",
			    "The security group '%s' does not exist", id);
	}
}

static void read_run(struct ec2 *e, struct run *r)
{
	const char *nic;

	r->image = need(e, "ImageId");
	r->type_name = need(e, "InstanceType");
	need(e, "MinCount");
	need(e, "MaxCount");
	ec2_int(e, "MinCount", 1, CALL_MAX, 1, &r->min);
	ec2_int(e, "MaxCount", 1, CALL_MAX, 1, &r->max);
	if (r->min > r->max)
		ec2_fail(e, 400, "InvalidParameterValue",
		    "The value of MinCount must not exceed MaxCount");
	r->subnet = form_get(&e->form, "SubnetId");
	nic = form_get(&e->form, "NetworkInterface.1.SubnetId");
	form_accept(&e->form, "NetworkInterface.*.SubnetId");
	r->subnet = r->subnet ? r->subnet : nic;
	r->zone_name = form_get(&e->form, "Placement.AvailabilityZone");
	r->zone_id = form_get(&e->form, "Placement.AvailabilityZoneId");
	r->token = form_get(&e->form, "ClientToken");
	r->user_data = form_get(&e->form, "UserData");
	r->key_name = form_get(&e->form, "KeyName");
	r->profile = form_get(&e->form, "IamInstanceProfile.Name");
	if (!r->profile)
		r->profile = form_get(&e->form, "IamInstanceProfile.Arn");
	r->shutdown = form_get(&e->form, "InstanceInitiatedShutdownBehavior");
	if (r->token && strlen(r->token) > TOKEN_MAX)
		ec2_fail(e, 400, "InvalidParameterValue",
		    "The client token must not exceed %d ASCII characters", TOKEN_MAX);
	if (r->shutdown && !str_same(r->shutdown, "stop") && !str_same(r->shutdown, "terminate"))
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter InstanceInitiatedShutdownBehavior is "
		    "invalid.",
		    r->shutdown);
	read_market(e, r);
	reserved_read(e, &r->reserved);
	read_metadata(e, r);
	read_user_data(e, r);
	for (int k = 1; k <= 10; k++)
		read_tag_spec(e, r, k);
	read_groups(e, r);
	read_ignored(e);
}

/* ---- what they mean --------------------------------------------------------------------- */

static void resolve_image(struct ec2 *e, struct run *r)
{
	const struct image *m;

	if (!str_prefix(r->image, "ami-") || strlen(r->image) < 12) {
		ec2_fail(e, 400, "InvalidAMIID.Malformed", "Invalid id: \"%s\"", r->image);
		return;
	}
	m = image_find(e->rq->arena, e->rq->region, r->image);
	if (!m)
		ec2_fail(e, 400, "InvalidAMIID.NotFound", "The image id '[%s]' does not exist",
		    r->image);
	else if (r->type && !str_same(m->arch, r->type->arch))
		ec2_fail(e, 400, "InvalidParameterValue",
		    "The architecture '%s' of the specified instance type does not "
		    "match the architecture '%s' of the specified AMI. Specify an instance type "
		    "and an AMI that have "
		    "matching architectures, and try again.",
		    r->type->arch, m->arch);
}

static void resolve_zone(struct ec2 *e, struct run *r)
{
	const char *want = r->zone_name ? r->zone_name : r->zone_id;
	const struct zone *z;

	if (want && *want) {
		r->zone = market_zone(e->sim->market, e->rq->region, want);
		if (!r->zone || !str_same(r->zone_name ? r->zone->name : r->zone->id, want)) {
			ec2_fail(e, 400, "InvalidParameterValue", "Invalid availability zone: [%s]",
			    want);
			return;
		}
	}
	if (r->subnet && *r->subnet) {
		z = net_subnet_zone(e->sim, e->rq->region, r->subnet);
		if (!z)
			ec2_fail(e, 400, "InvalidSubnetID.NotFound",
			    "The subnet ID '%s' does not exist", r->subnet);
		else if (r->zone && r->zone != z)
			ec2_fail(e, 400, "InvalidParameterValue",
			    "The Availability Zone and the subnet do not match.");
		r->zone = z;
	}
}

/* Best filled zone of the region when none was asked for. */
static struct pool *any_pool(struct ec2 *e, const struct run *r)
{
	struct pool *best = NULL;

	for (size_t k = 0; k < e->sim->market->pools_n; k++) {
		struct pool *p = &e->sim->market->pools[k];

		if (p->type != r->type || !p->price[r->side].sold ||
		    !str_same(p->region->name, e->rq->region) ||
		    !str_same(p->zone->kind, "availability-zone"))
			continue;
		if (!best || pool_free(p, r->side) > pool_free(best, r->side))
			best = p;
	}
	return best;
}

static void resolve_pool(struct ec2 *e, struct run *r)
{
	r->type = market_type(e->sim->market, CLOUD_AWS, r->type_name);
	if (!r->type) {
		ec2_fail(e, 400, "InvalidParameterValue", "Invalid value '%s' for InstanceType.",
		    r->type_name);
		return;
	}
	resolve_image(e, r);
	resolve_zone(e, r);
	if (e->failed)
		return;
	if (!r->zone) {
		r->pool = any_pool(e, r);
		if (!r->pool)
			ec2_fail(e, 400, "Unsupported",
			    "The requested configuration is currently not supported. Please check "
			    "the documentation for supported configurations.");
		return;
	}
	r->pool = market_pool(e->sim->market, CLOUD_AWS, e->rq->region, r->zone, r->type_name);
	if (!r->pool || !r->pool->price[r->side].sold)
		ec2_fail(e, 400, "Unsupported",
		    "Your requested instance type (%s) is not supported in your requested "
		    "Availability Zone (%s). Please retry your request by not specifying an "
		    "Availability Zone or choosing "
		    "another one.",
		    r->type_name, r->zone->name);
}

/* Everything that makes two requests the same one. */
static void hash_params(struct ec2 *e, struct run *r)
{
	struct sbuf b AUTO(sbuf) = {0};

	sbuf_init(&b, 4 << 20);
	for (size_t k = 0; k < e->form.n; k++) {
		const char *name = e->form.items[k].name;

		if (!str_same(name, "Action") && !str_same(name, "Version") &&
		    !str_same(name, "DryRun") && !str_prefix(name, "X-Amz-"))
			sbuf_printf(&b, "%s=%s\n", name, e->form.items[k].value);
	}
	sha256_hex(b.p ? b.p : "", b.n, r->hash);
	/* Zonal when a zone or subnet is named, else regional (EC2 devguide, "Ensuring idempotency"). */
	r->scope = r->zone ? r->zone->id : e->rq->region;
}

/* ---- the launch ------------------------------------------------------------------------- */

static char *sir_id(struct sim *s)
{
	static const char abc[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	char text[16] = "sir-";

	for (int k = 4; k < 12; k++)
		text[k] = abc[rng_below(&s->rng, 36)];
	text[12] = '\0';
	return dup_text(text);
}

static void copy_tags(const struct inst_tag *from, size_t n, struct inst_tag **to, size_t *to_n)
{
	for (size_t k = 0; k < n; k++)
		inst_tag_set(to, to_n, from[k].key, from[k].value);
}

static struct inst *make_one(struct ec2 *e, const struct run *r, const char *reservation, int index)
{
	char *id = sim_id(e->sim, NULL, "i-0", 8);
	struct inst *i = inst_new(e->sim, r->pool, r->side, id);

	free(id);
	i->launch_index = index;
	i->token = dup_text(r->token);
	i->params_hash = dup_text(r->hash);
	i->image = dup_text(r->image);
	i->key_name = dup_text(r->key_name);
	i->reservation = dup_text(reservation);
	i->subnet = dup_text(net_subnet(e->rq->arena, r->pool->zone));
	i->security_group = dup_text(r->group);
	i->profile = dup_text(r->profile);
	i->shutdown_behaviour = dup_text(r->shutdown ? r->shutdown : "stop");
	i->account = dup_text(AWS_ACCOUNT);
	i->max_price = r->max_price;
	i->hop_limit = (int)r->hop_limit;
	i->tokens_required = r->tokens_required;
	i->metadata_tags = r->metadata_tags;
	i->metadata_off = r->metadata_off;
	i->ip_us = i->launched_us;
	if (r->reservation) {
		/* Reserved capacity is none of the pool's. */
		i->own = dup_text(r->reservation);
		i->counted = false;
		r->pool->used[r->side]--;
	}
	if (r->user_data_raw.n > 0) {
		i->user_data = malloc(r->user_data_raw.n + 1);
		if (!i->user_data)
			abort();
		memcpy(i->user_data, r->user_data_raw.p, r->user_data_raw.n);
		i->user_data[r->user_data_raw.n] = '\0';
		i->user_data_n = r->user_data_raw.n;
	}
	copy_tags(r->tags, r->tags_n, &i->tags, &i->tags_n);
	if (r->side == SIDE_SPOT) {
		i->sir = sir_id(e->sim);
		copy_tags(r->sir_tags, r->sir_tags_n, &i->sir_tags, &i->sir_tags_n);
		inst_sir_set(i, "active", "fulfilled", "Your Spot request is fulfilled.");
	}
	inst_start(i);
	return i;
}

static void reply_launched(struct ec2 *e, struct inst *const *insts, size_t n)
{
	ec2_begin(e);
	x_text(&e->out, "reservationId", insts[0]->reservation);
	x_text(&e->out, "ownerId", AWS_ACCOUNT);
	x_open(&e->out, "groupSet");
	x_close(&e->out, "groupSet");
	x_open(&e->out, "instancesSet");
	for (size_t k = 0; k < n; k++)
		ec2_instance_xml(e, &e->out, insts[k]);
	x_close(&e->out, "instancesSet");
}

/* true: the token decided the answer. */
static bool token_answers(struct ec2 *e, const struct run *r, struct launch_token *t)
{
	bool all_gone = t->n > 0;

	if (!t->hash)
		return false;
	if (!str_same(t->hash, r->hash)) {
		ec2_fail(e, 400, "IdempotentParameterMismatch",
		    "Arguments on this idempotent request are inconsistent "
		    "with arguments used in previous request(s).");
		return true;
	}
	if (t->n == 0)
		return false; /* it failed for capacity: the same request may try again */
	for (size_t k = 0; k < t->n; k++)
		all_gone = all_gone &&
		    (t->insts[k]->state == INST_GONE || t->insts[k]->state == INST_SHUTTING);
	if (all_gone)
		ec2_fail(e, 400, "IdempotentInstanceTerminated",
		    "The instance that was launched by the idempotent request "
		    "has been terminated.");
	else
		reply_launched(e, t->insts, t->n);
	books_launch(e->sim, CLOUD_AWS, r->token, r->scope, r->hash, t->pool, r->side,
	    all_gone ? "IdempotentInstanceTerminated" : NULL, t->insts, t->n, true);
	return true;
}

static void check_quota(struct ec2 *e, const struct run *r)
{
	const struct quota *q = quota_of(r->type, r->side);
	int64_t limit;

	if (!q)
		return;
	limit = quota_value(e->sim, e->rq->region, q->code);
	if (quota_used(e->sim, e->rq->region, q) + r->min * r->type->vcpus <= limit)
		return;
	if (r->side == SIDE_SPOT)
		ec2_fail(
		    e, 400, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded");
	else
		ec2_fail(e, 400, "VcpuLimitExceeded",
		    "You have requested more vCPU capacity than your current vCPU limit of "
		    "%" PRId64 " allows for the instance bucket that the specified instance type "
			       "belongs to. Please visit "
		    "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this "
		    "limit.",
		    limit);
}

static void check_capacity(struct ec2 *e, const struct run *r)
{
	int64_t price = price_at(&r->pool->price[SIDE_SPOT], sim_wall(e->sim));
	char asked[USD_TEXT_MAX], least[USD_TEXT_MAX];

	if (r->side == SIDE_SPOT && r->max_price && r->max_price < price) {
		ec2_fail(e, 400, "SpotMaxPriceTooLow",
		    "Your Spot request price of %s is lower than the minimum required "
		    "Spot request fulfillment price of %s.",
		    format_usd(r->max_price, asked), format_usd(price, least));
		return;
	}
	if (pool_free(r->pool, r->side) >= r->min)
		return;
	/* HTTP 500 is what EC2 answers; it is no server fault and must not be retried blindly. */
	if (r->side == SIDE_SPOT)
		ec2_fail(e, 500, "InsufficientInstanceCapacity",
		    "There is no Spot capacity available that matches your "
		    "request.");
	else
		ec2_fail(e, 500, "InsufficientInstanceCapacity",
		    "We currently do not have sufficient %s capacity in the "
		    "Availability Zone you requested (%s). Our system will be working on "
		    "provisioning additional capacity. "
		    "You can currently get %s capacity by not specifying an Availability Zone in "
		    "your request or choosing "
		    "another one.",
		    r->type->name, r->pool->zone->name, r->type->name);
}

static void launch(struct ec2 *e, struct run *r, struct launch_token *t)
{
	int64_t room = r->reservation ? r->min : pool_free(r->pool, r->side);
	int64_t n = MIN(r->max, MAX(room, r->min));
	const char *reservation = sim_id(e->sim, e->rq->arena, "r-0", 8);
	struct inst **made = calloc((size_t)n, sizeof(struct inst *));

	if (!made)
		abort();
	for (int64_t k = 0; k < n; k++)
		made[k] = make_one(e, r, reservation, (int)k);
	books_launch(e->sim, CLOUD_AWS, r->token, r->scope, r->hash, r->pool, r->side, NULL, made,
	    (size_t)n, false);
	reply_launched(e, made, (size_t)n);
	if (t) {
		free(t->insts);
		t->insts = made;
		t->n = (size_t)n;
		t->pool = r->pool;
	} else {
		free(made);
	}
}

static void run_resolved(struct ec2 *e, struct run *r)
{
	struct launch_token *t = NULL;

	hash_params(e, r);
	if (r->token && *r->token) {
		t = token_find(
		    e->sim, arena_printf(e->rq->arena, "%s|%s", r->scope, r->token), true);
		if (token_answers(e, r, t))
			return;
		if (!t->hash)
			t->hash = dup_text(r->hash);
	}
	/* RunInstances also draws from a bucket of instances: 1000, refilled at 2 a second. */
	if (!throttle_take(e->sim,
		arena_printf(e->rq->arena, "ec2|%s|RunInstances-resources", e->rq->region), 1000, 2,
		(double)r->max))
		ec2_fail(e, 503, "RequestLimitExceeded", "Request limit exceeded.");
	if (!e->failed)
		r->reservation = reserved_choose(e, &r->reserved, r->pool, r->min);
	if (!e->failed && !r->reserved.block)
		check_quota(e, r);
	if (!e->failed && !r->reservation)
		check_capacity(e, r);
	if (e->failed) {
		books_launch(e->sim, CLOUD_AWS, r->token, r->scope, r->hash, r->pool, r->side,
		    e->rep->code, NULL, 0, false);
		return;
	}
	launch(e, r, t);
}

static void free_tags(struct inst_tag *tags, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		free(tags[k].key);
		free(tags[k].value);
	}
	free(tags);
}

void ec2_run(struct ec2 *e)
{
	struct run r = {0};

	read_run(e, &r);
	if (!e->failed)
		resolve_pool(e, &r);
	if (ec2_ready(e))
		run_resolved(e, &r);
	free_tags(r.tags, r.tags_n);
	free_tags(r.sir_tags, r.sir_tags_n);
}
