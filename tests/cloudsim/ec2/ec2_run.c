/* RunInstances: its parameters, and its client token. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

#define USER_DATA_MAX 16384
#define TOKEN_MAX 64
#define CALL_MAX 1000

/* ---- parameters ------------------------------------------------------------------------------ */

static const char *field_need(struct ec2 *e, const char *name)
{
	const char *v = form_get(&e->form, name);

	if (!v || !*v) {
		ec2_fail(e, 400, "MissingParameter", "The request must contain the parameter %s",
		    name);
	}
	return v ? v : "";
}

/* Returns the list of tags for a kind of resource; NULL: no such kind. */
static struct inst_tag **tags_of(struct run *r, const char *kind, size_t **ret_n)
{
	const struct {
		const char *kind;
		struct inst_tag **list;
		size_t *n;
	} kinds[] = { { "instance", &r->tags, &r->tags_n },
		{ "volume", &r->volume_tags, &r->volume_tags_n },
		{ "network-interface", &r->nic_tags, &r->nic_tags_n },
		{ "spot-instances-request", &r->sir_tags, &r->sir_tags_n } };

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		if (str_same(kinds[k].kind, kind)) {
			*ret_n = kinds[k].n;
			return kinds[k].list;
		}
	}
	return NULL;
}

static bool tag_there(const struct inst_tag *list, size_t n, const char *key)
{
	for (size_t k = 0; k < n; k++) {
		if (str_same(list[k].key, key)) {
			return true;
		}
	}
	return false;
}

static void read_tag_spec(struct ec2 *e, struct run *r, int k)
{
	struct arena *a = e->rq->arena;
	struct inst_tag **list;
	size_t *list_n;
	const char *kind =
	    form_get(&e->form, arena_printf(a, "TagSpecification.%d.ResourceType", k));

	if (!kind) {
		return;
	}
	list = tags_of(r, kind, &list_n);
	if (!list) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "'%s' is not a valid taggable resource type for this operation.", kind);
		return;
	}
	for (int t = 1; t <= 51; t++) {
		const char *key =
		    form_get(&e->form, arena_printf(a, "TagSpecification.%d.Tag.%d.Key", k, t));
		const char *value =
		    form_get(&e->form, arena_printf(a, "TagSpecification.%d.Tag.%d.Value", k, t));

		if (!key) {
			continue;
		}
		if (t > 50) {
			ec2_fail(e, 400, "TagLimitExceeded",
			    "The maximum number of Tags for a resource has been reached.");
		} else if (str_prefix(key, "aws:")) {
			ec2_fail(e, 400, "InvalidParameterValue",
			    "Tag keys starting with 'aws:' are reserved for internal use");
		} else if (strlen(key) > 128 || strlen(value ? value : "") > 256) {
			ec2_fail(e, 400, "InvalidParameterValue",
			    "Tag key or value exceeds the maximum length");
		} else if (tag_there(*list, *list_n, key)) {
			ec2_fail(e, 400, "InvalidParameterValue",
			    "Duplicate tag key '%s' specified.", key);
		} else {
			inst_tag_set(list, list_n, key, value ? value : "");
		}
	}
}

static void read_user_data(struct ec2 *e, struct run *r)
{
	if (!r->user_data || !*r->user_data) {
		return;
	}
	if (!base64_decode(e->rq->arena, r->user_data, strlen(r->user_data), &r->user_data_raw)) {
		ec2_fail(e, 400, "InvalidUserData.Malformed",
		    "Invalid BASE64 encoding of user data.");
	} else if (r->user_data_raw.n > USER_DATA_MAX) {
		ec2_fail(e, 400, "InvalidUserData.Malformed", "User data is limited to %d bytes",
		    USER_DATA_MAX);
	}
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
		if (kind || behaviour || cap) {
			ec2_fail(e, 400, "InvalidParameterCombination",
			    "SpotOptions require MarketType spot");
		}
		return;
	}
	if (reserved_market(&r->reserved, r->market)) {
		if (kind || behaviour || cap) {
			ec2_fail(e, 400, "InvalidParameterCombination",
			    "SpotOptions require MarketType spot");
		}
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
	if (!str_same(kind, "one-time") && !str_same(kind, "persistent")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter SpotInstanceType is invalid.", kind);
	}
	if (str_same(kind, "one-time") && !str_same(behaviour, "terminate")) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "The request with type 'one-time' is not supported when "
		    "instanceInterruptionBehavior is set to '%s'.",
		    behaviour);
	}
	if (str_same(kind, "persistent") && str_same(behaviour, "terminate")) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "The request with type 'persistent' is not supported when "
		    "instanceInterruptionBehavior is set to 'terminate'.");
	}
	r->persistent = str_same(kind, "persistent");
	r->behaviour = behaviour;
	if (cap && (!parse_usd_micros(cap, &r->max_price) || r->max_price <= 1000)) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "%s is not a valid value for MaxPrice. It must be greater than "
		    "0.001.",
		    cap);
	}
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
	    (tags && !str_same(tags, "enabled") && !str_same(tags, "disabled"))) {
		ec2_fail(e, 400, "InvalidParameterValue", "Value for MetadataOptions is invalid.");
	}
}

/* Parameters that change nothing here; unknown ones are refused. */
static void read_ignored(struct ec2 *e)
{
	static const char *const patterns[] = { "EbsOptimized", "Monitoring.Enabled",
		"Placement.Tenancy", "CreditSpecification.*", "CpuOptions.*", "DisableApiStop",
		"EnclaveOptions.*", "MaintenanceOptions.*", "PrivateDnsNameOptions.*",
		"PrivateIpAddress", "Ipv6AddressCount", "NetworkInterface.*.DeleteOnTermination",
		"NetworkInterface.*.Description", "NetworkInterface.*.Ipv6AddressCount",
		"HibernationOptions.*", "LicenseSpecification.*" };

	for (size_t k = 0; k < ARRAY_LEN(patterns); k++) {
		form_accept(&e->form, patterns[k]);
	}
}

#define NICS_MAX 40

/* One interface of the request; counts an EFA. used: places of those before, n of them. */
static void read_nic(struct ec2 *e, const struct itype *t, const char *at, int64_t (*used)[2],
    int n, int64_t *efas)
{
	struct arena *a = e->rq->arena;
	const char *type = form_get(&e->form, arena_printf(a, "%sInterfaceType", at));
	int64_t *place = used[n];

	ec2_int(e, arena_printf(a, "%sDeviceIndex", at), 0, 14, 0, &place[1]);
	ec2_int(e, arena_printf(a, "%sNetworkCardIndex", at), 0, t ? MAX(t->cards, 1) - 1 : 0, 0,
	    &place[0]);
	for (int k = 0; k < n; k++) {
		if (used[k][0] == place[0] && used[k][1] == place[1]) {
			ec2_fail(e, 400, "InvalidParameterValue",
			    "Each network interface requires a unique device index.");
		}
	}
	if (!type || str_same(type, "interface")) {
		return;
	}
	if (!str_same(type, "efa") && !str_same(type, "efa-only")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter InterfaceType is invalid.", type);
	} else if (str_same(type, "efa-only") && place[0] == 0 && place[1] == 0) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "An EFA-only network interface cannot be the primary network interface.");
	}
	(*efas)++;
}

/* Only the first interface exists here, but the vendor's refusals hold for all. */
static void read_nics(struct ec2 *e, const struct run *r)
{
	const struct itype *t =
	    r->type_name ? market_type(e->sim->market, CLOUD_AWS, r->type_name) : NULL;
	struct arena *a = e->rq->arena;
	int64_t used[NICS_MAX][2], efas = 0;
	bool public_ip = false;
	int n = 0;

	for (int k = 1; k <= NICS_MAX; k++) {
		const char *at = arena_printf(a, "NetworkInterface.%d.", k);

		if (form_get(&e->form, arena_printf(a, "%sDeviceIndex", at)) != NULL) {
			read_nic(e, t, at, used, n++, &efas);
		}
		public_ip = form_get(&e->form, arena_printf(a, "%sAssociatePublicIpAddress", at)) ||
		    public_ip;
	}
	if (t && efas > t->efa) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "EFA interfaces on %s: %lld of at most %d.", t->name, (long long)efas, t->efa);
	}
	if (n > 1 && public_ip) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "The associatePublicIPAddress parameter cannot be specified when launching "
		    "with multiple network interfaces.");
	}
}

static void read_profile(struct ec2 *e, struct run *r)
{
	const char *name = form_get(&e->form, "IamInstanceProfile.Name");

	r->profile = name ? name : form_get(&e->form, "IamInstanceProfile.Arn");
	if (name &&
	    (!*name || strlen(name) > 128 ||
		name[strspn(name,
		    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		    "0123456789_+=,.@-")])) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM "
		    "Instance Profile name",
		    name);
	}
}

/* The root volume is all that there is of disks. */
static void read_disks(struct ec2 *e, struct run *r)
{
	ec2_int(e, "BlockDeviceMapping.1.Ebs.VolumeSize", 1, 65536, 75, &r->root_gib);
	r->keep_root = !ec2_bool(e, "BlockDeviceMapping.1.Ebs.DeleteOnTermination", true);
	form_accept(&e->form, "BlockDeviceMapping.*");
	r->guarded = ec2_bool(e, "DisableApiTermination", false);
	if (r->guarded && r->side == SIDE_SPOT) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "The parameter disableApiTermination cannot be used with Spot Instances.");
	}
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

		if (!str_same(id, r->group)) {
			ec2_fail(e, 400, "InvalidGroup.NotFound",
			    "The security group '%s' does not exist", id);
		}
	}
}

void run_read(struct ec2 *e, struct run *r)
{
	const char *nic;

	r->image = field_need(e, "ImageId");
	r->type_name = field_need(e, "InstanceType");
	field_need(e, "MinCount");
	field_need(e, "MaxCount");
	ec2_int(e, "MinCount", 1, CALL_MAX, 1, &r->min);
	ec2_int(e, "MaxCount", 1, CALL_MAX, 1, &r->max);
	if (r->min > r->max) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "The value of MinCount must not exceed MaxCount");
	}
	r->subnet = form_get(&e->form, "SubnetId");
	nic = form_get(&e->form, "NetworkInterface.1.SubnetId");
	form_accept(&e->form, "NetworkInterface.*.SubnetId");
	r->subnet = r->subnet ? r->subnet : nic;
	r->zone_name = form_get(&e->form, "Placement.AvailabilityZone");
	r->zone_id = form_get(&e->form, "Placement.AvailabilityZoneId");
	r->token = form_get(&e->form, "ClientToken");
	r->user_data = form_get(&e->form, "UserData");
	r->key_name = form_get(&e->form, "KeyName");
	if (r->key_name && !key_known(e, r->key_name)) {
		ec2_fail(e, 400, "InvalidKeyPair.NotFound", "The key pair '%s' does not exist",
		    r->key_name);
	}
	read_profile(e, r);
	read_nics(e, r);
	group_read(e, r);
	r->shutdown = form_get(&e->form, "InstanceInitiatedShutdownBehavior");
	if (r->token && strlen(r->token) > TOKEN_MAX) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "The client token must not exceed %d ASCII characters", TOKEN_MAX);
	}
	if (r->shutdown && !str_same(r->shutdown, "stop") && !str_same(r->shutdown, "terminate")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter InstanceInitiatedShutdownBehavior is "
		    "invalid.",
		    r->shutdown);
	}
	read_market(e, r);
	reserved_read(e, &r->reserved);
	read_metadata(e, r);
	read_user_data(e, r);
	for (int k = 1; k <= 10; k++) {
		read_tag_spec(e, r, k);
	}
	read_groups(e, r);
	read_disks(e, r);
	read_ignored(e);
}

/* ---- the call -------------------------------------------------------------------------------- */

static void reply_launched(struct ec2 *e, struct inst *const *insts, size_t n)
{
	ec2_begin(e);
	x_text(&e->out, "reservationId", insts[0]->reservation);
	x_text(&e->out, "ownerId", AWS_ACCOUNT);
	x_open(&e->out, "groupSet");
	x_close(&e->out, "groupSet");
	x_open(&e->out, "instancesSet");
	for (size_t k = 0; k < n; k++) {
		ec2_instance_xml(e, &e->out, insts[k]);
	}
	x_close(&e->out, "instancesSet");
}

/* true: the token decided the answer. */
static bool token_answers(struct ec2 *e, const struct run *r, struct launch_token *t)
{
	bool all_gone = t->n > 0;

	if (!t->hash) {
		return false;
	}
	if (!str_same(t->hash, r->hash)) {
		ec2_fail(e, 400, "IdempotentParameterMismatch",
		    "Arguments on this idempotent request are inconsistent "
		    "with arguments used in previous request(s).");
		return true;
	}
	if (t->n == 0) {
		return false; /* it failed for capacity: the same request may try again */
	}
	for (size_t k = 0; k < t->n; k++) {
		all_gone = all_gone &&
		    (t->insts[k]->state == INST_GONE || t->insts[k]->state == INST_SHUTTING);
	}
	if (all_gone) {
		ec2_fail(e, 400, "IdempotentInstanceTerminated",
		    "The instance that was launched by the idempotent request "
		    "has been terminated.");
	} else {
		reply_launched(e, t->insts, t->n);
	}
	books_launch(e->sim, CLOUD_AWS, r->token, r->scope, r->hash, t->pool, r->side,
	    all_gone ? "IdempotentInstanceTerminated" : NULL, t->insts, t->n, true);
	return true;
}

static void run_resolved(struct ec2 *e, struct run *r)
{
	struct launch_token *t = NULL;
	struct inst **made = NULL;
	size_t n = 0;

	if (r->token && *r->token) {
		t = token_find(e->sim, arena_printf(e->rq->arena, "%s|%s", r->scope, r->token),
		    true);
		if (token_answers(e, r, t)) {
			return;
		}
	}
	/* RunInstances also draws from a bucket of instances: 1000, refilled at 2 a second. A
	 * throttled request does not use its token. */
	if (!throttle_take(e->sim,
		arena_printf(e->rq->arena, "ec2|%s|RunInstances-resources", e->rq->region), 1000, 2,
		(double)r->max)) {
		ec2_fail(e, 503, "RequestLimitExceeded", "Request limit exceeded.");
	} else if (t && !t->hash) {
		t->hash = dup_text(r->hash);
	}
	if (e->failed) {
		books_launch(e->sim, CLOUD_AWS, r->token, r->scope, r->hash, r->pool, r->side,
		    e->rep->code, NULL, 0, false);
	} else {
		n = run_launch(e, r, &made);
	}
	if (n == 0) {
		return;
	}
	reply_launched(e, made, n);
	if (t && !e->sim->pretend) {
		free(t->insts);
		t->insts = made;
		t->n = n;
		t->pool = r->pool;
	} else {
		free(made);
	}
}

static void free_tags(struct inst_tag *tags, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		free(tags[k].key);
		free(tags[k].value);
	}
	free(tags);
}

void run_fini(struct run *r)
{
	free_tags(r->tags, r->tags_n);
	free_tags(r->volume_tags, r->volume_tags_n);
	free_tags(r->nic_tags, r->nic_tags_n);
	free_tags(r->sir_tags, r->sir_tags_n);
}

void ec2_run(struct ec2 *e)
{
	struct run r = { 0 };

	template_apply(e);
	r.template_id = form_get(&e->form, "LaunchTemplate.LaunchTemplateId");
	if (!e->failed) {
		run_read(e, &r);
	}
	if (!e->failed) {
		run_resolve(e, &r);
	}
	if (ec2_ready(e)) {
		run_resolved(e, &r);
	}
	run_fini(&r);
}
