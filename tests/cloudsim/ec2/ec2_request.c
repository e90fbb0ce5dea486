/*
 * RequestSpotInstances: every request is for one instance and may wait for it (EC2 User Guide,
 * "Spot request status"). One that waits is looked at again whenever somebody asks EC2 something. A
 * persistent request's next instance, after the first was interrupted, is not made here.
 */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

struct spot_ask {
	struct spot_ask *next;
	uint64_t seq;
	char *id, *region, *state, *code, *message, *token, *price, *kind;
	int64_t made_us, changed_us, until_us; /* until 0 = none */
	struct param *items;
	size_t n;
	struct inst_tag *tags;
	size_t tags_n;
	const struct itype *type;
	char *image, *zone;
};

static struct spot_ask **requests_of(struct sim *s)
{
	return &aws_controls(s)->asks;
}

static void set_text(char **at, const char *text)
{
	char *was = *at;

	*at = dup_text(text);
	free(was);
}

static void ask_free(struct spot_ask *q)
{
	char *texts[] = { q->id, q->region, q->state, q->code, q->message, q->token, q->price,
		q->kind, q->image, q->zone };

	for (size_t k = 0; k < q->n; k++) {
		free((char *)(uintptr_t)q->items[k].name);
		free((char *)(uintptr_t)q->items[k].value);
	}
	for (size_t k = 0; k < q->tags_n; k++) {
		free(q->tags[k].key);
		free(q->tags[k].value);
	}
	for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
		free(texts[k]);
	}
	free(q->tags);
	free(q->items);
	free(q);
}

void requests_free(struct aws_controls *c)
{
	struct spot_ask *next;

	for (struct spot_ask *q = c->asks; q; q = next) {
		next = q->next;
		ask_free(q);
	}
	c->asks = NULL;
}

static void ask_state(struct sim *s, struct spot_ask *q, const char *state, const char *code,
    const char *message)
{
	if (str_same(q->state, state) && str_same(q->code, code)) {
		return;
	}
	set_text(&q->state, state);
	set_text(&q->code, code);
	set_text(&q->message, message);
	q->changed_us = sim_wall(s);
}

/* ---- becoming an instance -------------------------------------------------------------------- */

/* true: it has its instance, which carries its id from then on. */
static bool ask_try(struct ec2 *e, struct spot_ask *q)
{
	const struct form f = { .items = q->items, .n = q->n };
	struct sim_reply rep;
	struct ec2 in = ec2_inner(e, &f, &rep);
	struct run r = { 0 };
	struct inst **made = NULL;
	const char *why = NULL;
	size_t n = 0;

	run_read(&in, &r);
	if (!in.failed) {
		run_resolve(&in, &r);
	}
	if (!in.failed) {
		why = run_refused(&in, &r, NULL);
	}
	if (why) {
		bool price = str_same(why, "SpotMaxPriceTooLow");

		ask_state(e->sim, q, "open", price ? "price-too-low" : "capacity-not-available",
		    price ? "Your Spot request price is lower than the minimum required Spot "
			    "request fulfillment price."
			  : "There is no Spot capacity available that matches your request.");
	} else if (!in.failed) {
		r.sir = q->id;
		r.token = NULL;
		n = run_launch(&in, &r, &made);
	}
	for (size_t k = 0; k < q->tags_n && n > 0; k++) {
		inst_tag_set(&made[0]->sir_tags, &made[0]->sir_tags_n, q->tags[k].key,
		    q->tags[k].value);
	}
	free(made);
	run_fini(&r);
	return n > 0;
}

static bool ask_waits(struct ec2 *e, struct spot_ask *q)
{
	if (!str_same(q->state, "open") || !str_same(q->region, e->rq->region)) {
		return false;
	}
	if (q->until_us && sim_wall(e->sim) >= q->until_us) {
		ask_state(e->sim, q, "cancelled", "schedule-expired",
		    "Your Spot request is canceled because it was not fulfilled in time.");
		return false;
	}
	return true;
}

void requests_wake(struct ec2 *e)
{
	for (struct spot_ask **at = requests_of(e->sim); *at;) {
		struct spot_ask *q = *at;

		if (ask_waits(e, q) && ask_try(e, q)) {
			*at = q->next;
			ask_free(q);
		} else {
			at = &q->next;
		}
	}
}

struct spot_ask *request_find(struct ec2 *e, const char *id)
{
	for (struct spot_ask *q = *requests_of(e->sim); q; q = q->next) {
		if (str_same(q->id, id) && str_same(q->region, e->rq->region)) {
			return q;
		}
	}
	return NULL;
}

/* ---- as XML ---------------------------------------------------------------------------------- */

static void request_xml(struct ec2 *e, const struct spot_ask *q)
{
	struct sbuf *b = &e->out;

	x_open(b, "item");
	x_text(b, "spotInstanceRequestId", q->id);
	x_text(b, "spotPrice", q->price);
	x_text(b, "type", q->kind);
	x_text(b, "state", q->state);
	x_open(b, "status");
	x_text(b, "code", q->code);
	x_text(b, "updateTime", aws_time_ms(e->rq->arena, q->changed_us));
	x_text(b, "message", q->message);
	x_close(b, "status");
	x_open(b, "launchSpecification");
	x_text(b, "imageId", q->image);
	x_text(b, "instanceType", q->type->name);
	if (q->zone) {
		x_open(b, "placement");
		x_text(b, "availabilityZone", q->zone);
		x_close(b, "placement");
	}
	x_close(b, "launchSpecification");
	x_text(b, "createTime", aws_time_ms(e->rq->arena, q->made_us));
	x_text(b, "productDescription", "Linux/UNIX");
	if (q->until_us) {
		x_text(b, "validUntil", aws_time_ms(e->rq->arena, q->until_us));
	}
	x_text(b, "instanceInterruptionBehavior", "terminate");
	ec2_tags_xml(b, q->tags, q->tags_n);
	x_close(b, "item");
}

static const char *ask_field(const struct spot_ask *q, const char *name)
{
	if (str_same(name, "state")) {
		return q->state;
	}
	if (str_same(name, "status-code")) {
		return q->code;
	}
	if (str_same(name, "spot-instance-request-id")) {
		return q->id;
	}
	for (size_t t = 0; t < q->tags_n; t++) {
		if (str_prefix(name, "tag:") && str_same(name + 4, q->tags[t].key)) {
			return q->tags[t].value;
		}
	}
	return NULL;
}

void requests_xml(struct ec2 *e, const char *const *ids, size_t ids_n, const struct ec2_filter *f,
    size_t n)
{
	for (const struct spot_ask *q = *requests_of(e->sim); q; q = q->next) {
		bool show = str_same(q->region, e->rq->region) && ec2_match_any(ids, ids_n, q->id);

		for (size_t k = 0; k < n && show; k++) {
			show = ec2_filter_hits(&f[k], ask_field(q, f[k].name));
		}
		if (show) {
			request_xml(e, q);
		}
	}
}

struct inst_tag **request_tags(struct spot_ask *q, size_t **ret_n)
{
	*ret_n = &q->tags_n;
	return &q->tags;
}

const char *request_cancel(struct ec2 *e, struct spot_ask *q)
{
	if (str_same(q->state, "open")) {
		ask_state(e->sim, q, "cancelled", "canceled-before-fulfillment",
		    "Your Spot request is canceled before it was fulfilled.");
	}
	return q->state;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Parameters of the launch that fulfils it. */
static void launch_form(struct ec2 *e, struct form *f, const char *kind, const char *behaviour,
    const char *price)
{
	static const char opts[] = "InstanceMarketOptions.SpotOptions.";
	struct arena *a = e->rq->arena;

	form_below(&e->form, a, "LaunchSpecification.", f);
	form_accept(&e->form, "LaunchSpecification.*");
	form_put(f, a, "MinCount", "1");
	form_put(f, a, "MaxCount", "1");
	form_put(f, a, "InstanceMarketOptions.MarketType", "spot");
	form_put(f, a, arena_printf(a, "%sSpotInstanceType", opts), kind);
	form_put(f, a, arena_printf(a, "%sInstanceInterruptionBehavior", opts), behaviour);
	form_put(f, a, arena_printf(a, "%sMaxPrice", opts), price);
	for (size_t k = 0; k < f->n; k++) {
		/* Of the time before the VPCs; it says nothing any more. */
		if (str_same(f->items[k].name, "AddressingType")) {
			f->items[k--] = f->items[--f->n];
		}
	}
}

static struct spot_ask *ask_new(struct ec2 *e, const struct form *f, const struct run *r)
{
	struct spot_ask *q = calloc(1, sizeof(*q)), **at = requests_of(e->sim);
	char usd[USD_TEXT_MAX];
	const struct pool *p = r->pool;

	if (!q) {
		abort();
	}
	while (*at) {
		at = &(*at)->next;
	}
	*at = q;
	q->seq = ++e->sim->inst_seq;
	q->id = ec2_sir_id(e->sim);
	q->region = dup_text(e->rq->region);
	q->made_us = sim_wall(e->sim);
	q->kind = dup_text(r->persistent ? "persistent" : "one-time");
	q->type = r->type;
	q->image = dup_text(r->image);
	q->zone = dup_text(r->zone ? r->zone->name : NULL);
	q->price =
	    dup_text(format_usd(r->max_price ? r->max_price
					     : price_at(&p->price[SIDE_ON_DEMAND], q->made_us),
		usd));
	q->items = calloc(f->n + 1, sizeof(*q->items));
	if (!q->items) {
		abort();
	}
	for (q->n = 0; q->n < f->n; q->n++) {
		q->items[q->n] = (struct param){ .name = dup_text(f->items[q->n].name),
			.value = dup_text(f->items[q->n].value) };
	}
	for (int k = 1; k <= 50; k++) {
		struct arena *a = e->rq->arena;
		const char *key =
		    form_get(&e->form, arena_printf(a, "TagSpecification.1.Tag.%d.Key", k));
		const char *value =
		    form_get(&e->form, arena_printf(a, "TagSpecification.1.Tag.%d.Value", k));

		if (key) {
			inst_tag_set(&q->tags, &q->tags_n, key, value ? value : "");
		}
	}
	ask_state(e->sim, q, "open", "pending-evaluation",
	    "Your Spot request has been submitted for review, and is pending evaluation.");
	return q;
}

/* The launch is valid and within the quota; lacking capacity is no error here. */
static bool request_check(struct ec2 *e, const struct form *f, struct run *r, int64_t count)
{
	struct sim_reply rep;
	struct ec2 in = ec2_inner(e, f, &rep);

	run_read(&in, r);
	if (!in.failed) {
		run_resolve(&in, r);
	}
	if (!in.failed && form_unknown(&in.form)) {
		ec2_fail(&in, 400, "UnknownParameter", "The parameter %s is not recognized",
		    form_unknown(&in.form));
	}
	if (!in.failed) {
		r->min = count;
		run_check_quota(&in, r);
	}
	if (in.failed) {
		ec2_fail(e, rep.status, rep.code, "%s", in.why);
	}
	return !in.failed;
}

static void reply_asks(struct ec2 *e, const char *const *ids, size_t n)
{
	ec2_begin(e);
	x_open(&e->out, "spotInstanceRequestSet");
	requests_xml(e, ids, n, NULL, 0);
	x_close(&e->out, "spotInstanceRequestSet");
}

/* The same token again: the same requests, as far as they still wait; those with instances are
 * shown by theirs. */
static bool token_again(struct ec2 *e, const char *token)
{
	const char **ids = arena_array(e->rq->arena, e->sim->inst_seq + 1, sizeof(*ids));
	size_t n = 0;

	for (const struct spot_ask *q = *requests_of(e->sim); q && token; q = q->next) {
		if (str_same(q->token, token) && str_same(q->region, e->rq->region)) {
			ids[n++] = q->id;
		}
	}
	if (n > 0) {
		reply_asks(e, ids, n);
	}
	return n > 0;
}

static void make_all(struct ec2 *e, const struct form *f, const struct run *r, int64_t count,
    int64_t until_us, const char *token)
{
	const char **ids = arena_array(e->rq->arena, (size_t)count, sizeof(*ids));

	for (int64_t k = 0; k < count; k++) {
		struct spot_ask *q = ask_new(e, f, r);

		q->until_us = until_us;
		q->token = dup_text(token);
		ids[k] = q->id;
	}
	/* Requests with capacity get their instances in the next pass; the reply has them in
	 * evaluation. */
	reply_asks(e, ids, (size_t)count);
}

void ec2_request_spot(struct ec2 *e)
{
	const char *kind = form_get(&e->form, "Type"), *until = form_get(&e->form, "ValidUntil");
	const char *behaviour = form_get(&e->form, "InstanceInterruptionBehavior");
	const char *price = form_get(&e->form, "SpotPrice"),
		   *token = form_get(&e->form, "ClientToken");
	int64_t count, until_us = 0;
	struct run r = { 0 };
	struct form f;

	form_get(&e->form, "ValidFrom");
	form_get(&e->form, "LaunchGroup");
	form_get(&e->form, "AvailabilityZoneGroup");
	form_accept(&e->form, "TagSpecification.*");
	if (form_get(&e->form, "BlockDurationMinutes")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Spot Instances with a defined duration (BlockDurationMinutes) are no longer "
		    "available.");
	}
	ec2_int(e, "InstanceCount", 1, 1000, 1, &count);
	if (until && !parse_time_us(until, &until_us)) {
		ec2_fail(e, 400, "InvalidParameterValue", "Invalid time in ValidUntil");
	}
	if (form_get(&e->form, "TagSpecification.1.ResourceType") &&
	    !str_same(form_get(&e->form, "TagSpecification.1.ResourceType"),
		"spot-instances-request")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "'%s' is not a valid taggable resource type for this operation.",
		    form_get(&e->form, "TagSpecification.1.ResourceType"));
	}
	launch_form(e, &f, kind, behaviour, price);
	if (!e->failed && request_check(e, &f, &r, count) && ec2_ready(e) &&
	    !token_again(e, token)) {
		make_all(e, &f, &r, count, until_us, token);
	}
	run_fini(&r);
}
