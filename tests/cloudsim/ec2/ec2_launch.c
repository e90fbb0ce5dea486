/* Launches: the parameters' meaning, quota, capacity, and the instances. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

/* ---- the fields' meaning --------------------------------------------------------------------- */

static void resolve_image(struct ec2 *e, struct run *r)
{
	const struct image *m;

	if (!str_prefix(r->image, "ami-") || strlen(r->image) < 12) {
		ec2_fail(e, 400, "InvalidAMIID.Malformed", "Invalid id: \"%s\"", r->image);
		return;
	}
	m = image_find(e->rq->arena, e->rq->region, r->image);
	if (!m) {
		ec2_fail(e, 400, "InvalidAMIID.NotFound", "The image id '[%s]' does not exist",
		    r->image);
	} else if (r->type && !str_same(m->arch, r->type->arch)) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "The architecture '%s' of the specified instance type does not "
		    "match the architecture '%s' of the specified AMI. Specify an instance type "
		    "and an AMI that have "
		    "matching architectures, and try again.",
		    r->type->arch, m->arch);
	}
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
		if (!z) {
			ec2_fail(e, 400, "InvalidSubnetID.NotFound",
			    "The subnet ID '%s' does not exist", r->subnet);
		} else if (r->zone && r->zone != z) {
			ec2_fail(e, 400, "InvalidParameterValue",
			    "The Availability Zone and the subnet do not match.");
		}
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
		    !str_same(p->zone->kind, "availability-zone")) {
			continue;
		}
		if (!best || pool_free(p, r->side) > pool_free(best, r->side)) {
			best = p;
		}
	}
	return best;
}

static void find_pool(struct ec2 *e, struct run *r)
{
	r->type = market_type(e->sim->market, CLOUD_AWS, r->type_name);
	if (!r->type) {
		ec2_fail(e, 400, "InvalidParameterValue", "Invalid value '%s' for InstanceType.",
		    r->type_name);
		return;
	}
	resolve_image(e, r);
	resolve_zone(e, r);
	if (e->failed) {
		return;
	}
	if (!r->zone) {
		r->pool = any_pool(e, r);
		if (!r->pool) {
			ec2_fail(e, 400, "Unsupported",
			    "The requested configuration is currently not supported. Please check "
			    "the documentation for supported configurations.");
		}
		return;
	}
	r->pool = market_pool(e->sim->market, CLOUD_AWS, e->rq->region, r->zone, r->type_name);
	if (!r->pool || !r->pool->price[r->side].sold) {
		ec2_fail(e, 400, "Unsupported",
		    "Your requested instance type (%s) is not supported in your requested "
		    "Availability Zone (%s). Please retry your request by not specifying an "
		    "Availability Zone or choosing "
		    "another one.",
		    r->type_name, r->zone->name);
	}
}

const char *form_hash(struct ec2 *e)
{
	struct sbuf b AUTO(sbuf) = { 0 };
	char hex[SHA256_HEX];

	sbuf_init(&b, 4 << 20);
	for (size_t k = 0; k < e->form.n; k++) {
		const char *name = e->form.items[k].name;

		if (!str_same(name, "Action") && !str_same(name, "Version") &&
		    !str_same(name, "DryRun") && !str_prefix(name, "X-Amz-")) {
			sbuf_printf(&b, "%s=%s\n", name, e->form.items[k].value);
		}
	}
	sha256_hex(b.p ? b.p : "", b.n, hex);
	return arena_strdup(e->rq->arena, hex);
}

void run_resolve(struct ec2 *e, struct run *r)
{
	find_pool(e, r);
	if (!e->failed) {
		group_resolve(e, r);
	}
	snprintf(r->hash, sizeof(r->hash), "%s", form_hash(e));
	/* Zonal when a zone or subnet is named, else regional (EC2 devguide, "Ensuring
	 * idempotency"). */
	r->scope = r->zone ? r->zone->id : e->rq->region;
}

/* ---- the launch ------------------------------------------------------------------------------ */

char *ec2_sir_id(struct sim *s)
{
	static const char abc[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	char text[16] = "sir-";

	for (int k = 4; k < 12; k++) {
		text[k] = abc[rng_below(&s->rng, 36)];
	}
	text[12] = '\0';
	return dup_text(text);
}

static void copy_tags(const struct inst_tag *from, size_t n, struct inst_tag **to, size_t *to_n)
{
	for (size_t k = 0; k < n; k++) {
		inst_tag_set(to, to_n, from[k].key, from[k].value);
	}
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
	i->group = dup_text(r->pgroup);
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
	i->persistent = r->persistent;
	i->behaviour = dup_text(r->behaviour);
	i->root_gib = r->root_gib;
	i->keep_root = r->keep_root;
	i->guarded = r->guarded;
	if (r->reservation) {
		/* Reserved capacity is none of the pool's. */
		i->own = dup_text(r->reservation);
		reserved_mark(i);
		i->counted = false;
		r->pool->used[r->side]--;
	}
	if (r->user_data_raw.n > 0) {
		i->user_data = malloc(r->user_data_raw.n + 1);
		if (!i->user_data) {
			abort();
		}
		memcpy(i->user_data, r->user_data_raw.p, r->user_data_raw.n);
		i->user_data[r->user_data_raw.n] = '\0';
		i->user_data_n = r->user_data_raw.n;
	}
	copy_tags(r->tags, r->tags_n, &i->tags, &i->tags_n);
	copy_tags(r->volume_tags, r->volume_tags_n, &i->volume_tags, &i->volume_tags_n);
	copy_tags(r->nic_tags, r->nic_tags_n, &i->nic_tags, &i->nic_tags_n);
	if (r->template_id) {
		inst_tag_set(&i->tags, &i->tags_n, "aws:ec2launchtemplate:id", r->template_id);
		inst_tag_set(&i->tags, &i->tags_n, "aws:ec2launchtemplate:version", "1");
	}
	if (r->side == SIDE_SPOT) {
		i->sir = r->sir ? dup_text(r->sir) : ec2_sir_id(e->sim);
		copy_tags(r->sir_tags, r->sir_tags_n, &i->sir_tags, &i->sir_tags_n);
		inst_sir_set(i, "active", "fulfilled", "Your Spot request is fulfilled.");
	}
	inst_start(i);
	return i;
}

/* So many more instances of the type does the account's quota allow. */
static int64_t quota_room(const struct ec2 *e, const struct run *r, int64_t *ret_limit)
{
	const struct quota *q = quota_of(r->type, r->side);

	if (!q) {
		return INT64_MAX;
	}
	*ret_limit = quota_value(e->sim, e->rq->region, q->code);
	return (*ret_limit - quota_used(e->sim, e->rq->region, q)) / r->type->vcpus;
}

void run_check_quota(struct ec2 *e, const struct run *r)
{
	int64_t limit = 0;

	if (quota_room(e, r, &limit) >= r->min) {
		return;
	}
	if (r->side == SIDE_SPOT) {
		ec2_fail(e, 400, "MaxSpotInstanceCountExceeded",
		    "Max spot instance count exceeded");
	} else {
		ec2_fail(e, 400, "VcpuLimitExceeded",
		    "You have requested more vCPU capacity than your current vCPU limit of "
		    "%" PRId64 " allows for the instance bucket that the specified instance type "
		    "belongs to. Please visit "
		    "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this "
		    "limit.",
		    limit);
	}
}

const char *run_refused(struct ec2 *e, const struct run *r, const char **ret_words)
{
	int64_t price = price_at(&r->pool->price[SIDE_SPOT], sim_wall(e->sim));
	char asked[USD_TEXT_MAX], least[USD_TEXT_MAX];
	const char *words;

	ret_words = ret_words ? ret_words : &words;
	if (r->side == SIDE_SPOT && r->max_price && r->max_price < price) {
		*ret_words = arena_printf(e->rq->arena,
		    "Your Spot request price of %s is lower than the minimum required "
		    "Spot request fulfillment price of %s.",
		    format_usd(r->max_price, asked), format_usd(price, least));
		return "SpotMaxPriceTooLow";
	}
	if (pool_free(r->pool, r->side) >= r->min) {
		return NULL;
	}
	if (r->side == SIDE_SPOT) {
		*ret_words = "There is no Spot capacity available that matches your request.";
	} else {
		*ret_words = arena_printf(e->rq->arena,
		    "We currently do not have sufficient %s capacity in the "
		    "Availability Zone you requested (%s). Our system will be working on "
		    "provisioning additional capacity. "
		    "You can currently get %s capacity by not specifying an Availability Zone in "
		    "your request or choosing "
		    "another one.",
		    r->type->name, r->pool->zone->name, r->type->name);
	}
	return "InsufficientInstanceCapacity";
}

size_t run_launch(struct ec2 *e, struct run *r, struct inst ***ret)
{
	const char *words, *refused = NULL, *reservation;
	int64_t room, n, limit;

	r->reservation = reserved_choose(e, &r->reserved, r->pool, r->min);
	if (!e->failed && !r->reserved.block) {
		run_check_quota(e, r);
	}
	if (!e->failed && !r->reservation) {
		refused = run_refused(e, r, &words);
	}
	/* EC2 answers lacking capacity with HTTP 500; it is no server fault and must not be retried
	 * blindly. */
	if (refused) {
		ec2_fail(e, str_prefix(refused, "Insufficient") ? 500 : 400, refused, "%s", words);
	}
	if (e->failed) {
		books_launch(e->sim, CLOUD_AWS, r->token, r->scope, r->hash, r->pool, r->side,
		    e->rep->code, NULL, 0, false);
		return 0;
	}
	/* Capacity and quota: as many as both allow, at least MinCount. */
	room = r->reservation ? r->min : MIN(pool_free(r->pool, r->side), quota_room(e, r, &limit));
	n = MIN(r->max, MAX(room, r->min));
	reservation = sim_id(e->sim, e->rq->arena, "r-0", 8);
	*ret = calloc((size_t)n, sizeof(struct inst *));
	if (!*ret) {
		abort();
	}
	for (int64_t k = 0; k < n; k++) {
		(*ret)[k] = make_one(e, r, reservation, (int)k);
	}
	books_launch(e->sim, CLOUD_AWS, r->token, r->scope, r->hash, r->pool, r->side, NULL, *ret,
	    (size_t)n, false);
	return (size_t)n;
}
