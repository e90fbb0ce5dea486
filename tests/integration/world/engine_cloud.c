/* The cloud of engine_world.h: step functions without any I/O. */
#include "engine_cloud.h"
#include "base/base.h"

static struct cloud *cloud_of(void *self)
{
	return self;
}

static bool cloud_open_auth(const void *self, int64_t now_us)
{
	(void)self;
	(void)now_us;
	return true;
}

static enum spot_step cloud_auth(void *self, struct spot_call *c)
{
	(void)self;
	(void)c;
	return SPOT_DONE;
}

static size_t cloud_secrets(const void *self, const char **ret, size_t n)
{
	(void)self;
	(void)ret;
	(void)n;
	return 0;
}

static void cloud_close(void *self)
{
	(void)self;
}

static enum spot_step no_regions(void *self, struct spot_call *c, struct spot_regions *a)
{
	(void)self;
	(void)c;
	(void)a;
	return SPOT_DONE;
}

static enum spot_step no_pools(void *self, struct spot_call *c, struct spot_pools *a)
{
	(void)self;
	(void)c;
	(void)a;
	return SPOT_DONE;
}

static enum spot_step no_prices(void *self, struct spot_call *c, struct spot_prices *a)
{
	(void)self;
	(void)c;
	(void)a;
	return SPOT_DONE;
}

struct spot_instance cloud_instance(struct arena *a, const struct machine *m)
{
	return (struct spot_instance){
		.ref = arena_strdup(a, m->ref),
		.token = arena_strdup(a, m->token),
		.install = arena_strdup(a, m->install),
		.key = { .provider = "fake",
		    .region = arena_strdup(a, m->region),
		    .zone = arena_strdup(a, m->zone),
		    .instance_type = arena_strdup(a, m->type),
		    .market = m->market },
		.state = m->state,
		.end_cause = m->cause,
		.raw_state = spot_instance_state_name(m->state),
		.raw_reason = m->reason == NULL ? "" : m->reason,
		.leftover = m->leftover,
		.ip = "10.0.0.1",
		.spot_request = "",
		.created_us = m->created_us,
	};
}

static struct machine *machine_new(struct cloud *c, const struct spot_launch *l, int64_t now_us)
{
	struct machine *m = &c->list[c->n];

	assert_true(c->n < CLOUD_MAX);
	memset(m, 0, sizeof(*m));
	snprintf(m->ref, sizeof(m->ref), "i-%zu", ++c->n);
	snprintf(m->token, sizeof(m->token), "%s", l->token);
	snprintf(m->install, sizeof(m->install), "%s", l->install);
	snprintf(m->region, sizeof(m->region), "%s", l->key.region);
	snprintf(m->zone, sizeof(m->zone), "%s", l->key.zone);
	snprintf(m->type, sizeof(m->type), "%s", l->key.instance_type);
	m->market = l->key.market;
	m->state = SPOT_INSTANCE_RUNNING;
	m->created_us = now_us;
	if (c->late_reason != NULL) {
		m->state = SPOT_INSTANCE_FAILED;
		m->reason = c->late_reason;
	}
	return m;
}

struct machine *cloud_add(struct cloud *c, const char *ref, const char *token, bool leftover)
{
	struct machine *m = &c->list[c->n++];

	assert_true(c->n <= CLOUD_MAX);
	*m = (struct machine){ .state = SPOT_INSTANCE_RUNNING,
		.market = SPOT_MARKET_SPOT,
		.leftover = leftover };
	snprintf(m->ref, sizeof(m->ref), "%s", ref);
	snprintf(m->token, sizeof(m->token), "%s", token);
	snprintf(m->install, sizeof(m->install), "cafe0001");
	snprintf(m->region, sizeof(m->region), "r1");
	snprintf(m->zone, sizeof(m->zone), "z1");
	return m;
}

/* How many more may live there. */
static size_t room_of(const struct cloud *c, const struct spot_launch *l)
{
	char key[64];
	size_t live = 0;

	snprintf(key, sizeof(key), "%s/%s/%s", l->key.zone, l->key.instance_type,
	    spot_market_name(l->key.market));
	for (size_t i = 0; i < c->n; i++) {
		live += c->list[i].state != SPOT_INSTANCE_GONE &&
		    strcmp(c->list[i].zone, l->key.zone) == 0 &&
		    strcmp(c->list[i].type, l->key.instance_type) == 0 &&
		    c->list[i].market == l->key.market;
	}
	for (size_t i = 0; i < ARRAY_LEN(c->room); i++) {
		if (strcmp(c->room[i].key, key) == 0) {
			return c->room[i].n > live ? c->room[i].n - live : 0;
		}
	}
	return SIZE_MAX;
}

void cloud_room(struct cloud *c, const char *key, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(c->room); i++) {
		if (c->room[i].key[0] == '\0' || strcmp(c->room[i].key, key) == 0) {
			snprintf(c->room[i].key, sizeof(c->room[i].key), "%s", key);
			c->room[i].n = n;
			return;
		}
	}
	fail_msg("too many pools with a limit");
}

static bool is_sold_out(const struct cloud *c, const struct spot_launch *l)
{
	char key[64];

	snprintf(key, sizeof(key), "%s/%s/%s", l->key.zone, l->key.instance_type,
	    spot_market_name(l->key.market));
	for (size_t i = 0; i < ARRAY_LEN(c->sold_out); i++) {
		if (strcmp(c->sold_out[i], key) == 0) {
			return true;
		}
	}
	return false;
}

/* Is there more to do on the wire? Then *ret is the step's. A fault leaves doubt: the request took
 * effect. */
static bool on_the_wire(struct cloud *k, struct spot_call *c, const struct spot_launch *l,
    size_t want, enum spot_step *ret)
{
	if (k->wire == NULL || (c->in != NULL && c->in->status != 500)) {
		return false;
	}
	if (c->in == NULL) {
		call_request(c, "POST", k->wire);
		c->mutating = true;
		*ret = SPOT_SEND;
		return true;
	}
	for (size_t i = 0; i < want; i++) {
		machine_new(k, l, c->now_us)->gang = want;
	}
	*ret = call_again(c, SPOT_UNAVAILABLE, 1000, "InternalError", "fake launch: out of order");
	return true;
}

/* Effect first; the answer comes on a later entry when reply_after_us is set. */
static enum spot_step cloud_launch(void *self, struct spot_call *c, struct spot_launch *l)
{
	struct cloud *k = cloud_of(self);
	struct machine *m = c->state;
	bool first = m == NULL;
	enum spot_step wire;

	assert_true(l->user_data.n > 100 && l->user_data.n < 16384);
	if (first && on_the_wire(k, c, l, 1, &wire)) {
		return wire;
	}
	if (first) {
		k->launches++;
		if (k->throttle > 0) {
			k->throttle--;
			return call_fail(c, SPOT_THROTTLED, "RequestLimitExceeded",
			    "fake launch: throttled");
		}
		if (k->lose_launches > 0) {
			k->lose_launches--;
			return call_fail(c, SPOT_UNKNOWN, "", "fake launch: connection reset");
		}
		if (k->denies > 0 && k->lose_replies == 0) {
			k->denies--;
			return call_fail(c, k->denies_rc != SPOT_OK ? k->denies_rc : SPOT_DENIED,
			    "UnauthorizedOperation",
			    "fake launch: d\xe9nied" /* a page in Latin-1 */);
		}
		for (size_t i = 0; k->tokens && i < k->n; i++) {
			if (strcmp(k->list[i].token, l->token) == 0) {
				m = &k->list[i];
			}
		}
		if (m != NULL && m->state == SPOT_INSTANCE_GONE) {
			return call_fail(c, SPOT_GONE, "IdempotentInstanceTerminated",
			    "fake launch: already gone");
		}
		if (m == NULL && (is_sold_out(k, l) || room_of(k, l) == 0)) {
			call_fail(c, k->sold_out_rc, "InsufficientInstanceCapacity",
			    "fake launch: sold out");
			c->err.scope = k->sold_out_scope;
			return SPOT_FAIL;
		}
		c->state = m = m == NULL ? machine_new(k, l, c->now_us) : m;
		if (k->lose_replies > 0) {
			k->lose_replies--;
			m->state = k->dies_unheard ? SPOT_INSTANCE_GONE : m->state;
			return call_fail(c, SPOT_UNKNOWN, "", "fake launch: reply lost");
		}
		if (k->reply_after_us > 0) {
			return call_again(c, SPOT_UNAVAILABLE, k->reply_after_us, "",
			    "fake launch: later");
		}
	}
	l->instance = cloud_instance(c->arena, m);
	return SPOT_DONE;
}

/* The machines that carry the token. */
static size_t gang_of(struct cloud *k, struct spot_call *c, struct spot_launch_gang *g)
{
	size_t lives = 0;

	g->instances = arena_array(c->arena, k->n + g->want + 1, sizeof(*g->instances));
	g->instances_n = 0;
	for (size_t i = 0; i < k->n; i++) {
		if (strcmp(k->list[i].token, g->common.token) == 0) {
			g->instances[g->instances_n++] = cloud_instance(c->arena, &k->list[i]);
			lives += k->list[i].state != SPOT_INSTANCE_GONE;
		}
	}
	return lives;
}

static enum spot_step cloud_launch_gang(void *self, struct spot_call *c, struct spot_launch_gang *g)
{
	struct cloud *k = cloud_of(self);
	enum spot_step wire;
	size_t made, least;

	if (c->state == NULL && on_the_wire(k, c, &g->common, g->want, &wire)) {
		return wire;
	}
	if (c->state == NULL) {
		k->gang_launches++;
		c->state = k;
		if (k->throttle > 0) {
			k->throttle--;
			return call_fail(c, SPOT_THROTTLED, "RequestLimitExceeded",
			    "fake launch: throttled");
		}
		if (k->lose_launches > 0) {
			k->lose_launches--;
			return call_fail(c, SPOT_UNKNOWN, "", "fake launch: connection reset");
		}
		if (k->denies > 0 && k->lose_replies == 0) {
			k->denies--;
			return call_fail(c, SPOT_DENIED, "UnauthorizedOperation",
			    "fake launch: denied");
		}
		(void)gang_of(k, c, g);
		made = MIN(room_of(k, &g->common), g->want);
		least = g->least > 0 && k->sets > 0 ? g->least : g->want;
		if (g->instances_n == 0 && (is_sold_out(k, &g->common) || made < least)) {
			return call_fail(c, k->sold_out_rc, "InsufficientInstanceCapacity",
			    "fake launch: not so many");
		}
		for (size_t i = 0; g->instances_n == 0 && i < made; i++) {
			machine_new(k, &g->common, c->now_us)->gang = made;
		}
		if (k->lose_replies > 0) {
			k->lose_replies--;
			if (k->dies_unheard) {
				k->list[k->n - made].state = SPOT_INSTANCE_GONE;
			}
			return call_fail(c, SPOT_UNKNOWN, "", "fake launch: reply lost");
		}
		if (k->reply_after_us > 0) {
			return call_again(c, SPOT_UNAVAILABLE, k->reply_after_us, "",
			    "fake launch: later");
		}
	}
	if (gang_of(k, c, g) < (k->sets > 0 ? 1 : g->want) && !k->tells_ended) {
		return call_fail(c, SPOT_GONE, "IdempotentInstanceTerminated",
		    "fake launch: some are gone already");
	}
	return SPOT_DONE;
}

/* Pages that overlap: each answer tells each machine twice. */
static void told_twice(struct spot_instance *found, size_t *n)
{
	memcpy(found + *n, found, *n * sizeof(*found));
	*n *= 2;
}

static enum spot_step cloud_find(void *self, struct spot_call *c, struct spot_find *a)
{
	struct cloud *k = cloud_of(self);

	k->finds++;
	a->found = arena_array(c->arena, 2 * k->n + 1, sizeof(*a->found));
	for (size_t i = 0; i < k->n && !k->hide; i++) {
		if (strcmp(k->list[i].token, a->token) == 0) {
			a->found[a->n++] = cloud_instance(c->arena, &k->list[i]);
		}
	}
	told_twice(a->found, &a->n);
	return SPOT_DONE;
}

static enum spot_step cloud_list(void *self, struct spot_call *c, struct spot_list *a)
{
	struct cloud *k = cloud_of(self);

	if (c->state != NULL) {
		return SPOT_DONE; /* as it was when it was asked for */
	}
	c->state = k;
	k->lists++;
	a->partial = k->partial;
	a->found = arena_array(c->arena, 2 * k->n + 1, sizeof(*a->found));
	for (size_t i = 0; i < k->n && !k->hide; i++) {
		/* Lists things with another installation's tag, too: the engine must check the tag
		 * itself. */
		if (a->region[0] == '\0' || strcmp(k->list[i].region, a->region) == 0) {
			a->found[a->n++] = cloud_instance(c->arena, &k->list[i]);
		}
	}
	told_twice(a->found, &a->n);
	if (k->list_after_us > 0) {
		return call_again(c, SPOT_UNAVAILABLE, k->list_after_us, "", "fake list: later");
	}
	return SPOT_DONE;
}

struct machine *cloud_by_ref(struct cloud *c, const char *ref)
{
	for (size_t i = 0; i < c->n; i++) {
		if (strcmp(c->list[i].ref, ref) == 0) {
			return &c->list[i];
		}
	}
	return NULL;
}

static enum spot_step cloud_describe(void *self, struct spot_call *c, struct spot_describe *a)
{
	struct cloud *k = cloud_of(self);

	if (c->state != NULL) {
		return SPOT_DONE; /* as it was when it was asked for */
	}
	c->state = k;
	k->describes++;
	if (k->describe_faults > 0) {
		k->describe_faults--;
		return call_fail(c, SPOT_DENIED, "", "fake describe: out of order");
	}
	a->found = arena_array(c->arena, 2 * a->refs_n + 1, sizeof(*a->found));
	for (size_t i = 0; i < a->refs_n && !k->hide; i++) {
		struct machine *m = cloud_by_ref(k, a->refs[i]);

		if (m == NULL || (k->exact && m->state == SPOT_INSTANCE_GONE)) {
			continue;
		}
		a->found[a->n] = cloud_instance(c->arena, m);
		if (m->lacks > 0) {
			m->lacks--;
			a->found[a->n].state = SPOT_INSTANCE_GONE;
			a->found[a->n].end_cause = SPOT_END_USER;
			a->found[a->n].raw_state = SPOT_ABSENT_STATE;
			a->found[a->n].raw_reason = "terminated by somebody";
		}
		a->n++;
	}
	told_twice(a->found, &a->n);
	a->exact = k->exact;
	if (k->untold) {
		a->untold = memset(arena_array(c->arena, a->refs_n, sizeof(bool)), true,
		    a->refs_n * sizeof(bool));
	}
	if (k->describe_after_us > 0) {
		return call_again(c, SPOT_UNAVAILABLE, k->describe_after_us, "",
		    "fake describe: later");
	}
	return SPOT_DONE;
}

static enum spot_step cloud_terminate(void *self, struct spot_call *c, struct spot_terminate *a)
{
	struct machine *m = cloud_by_ref(cloud_of(self), a->ref);

	if (m != NULL && cloud_of(self)->blind_terminates > 0) {
		cloud_of(self)->blind_terminates--;
		a->after = (struct spot_instance){ .ref = a->ref,
			.state = SPOT_INSTANCE_GONE,
			.raw_state = cloud_of(self)->blind_by_list ? SPOT_ABSENT_STATE
								   : SPOT_NOT_FOUND_STATE };
		return SPOT_DONE;
	}
	if (m == NULL) {
		a->after = (struct spot_instance){ .ref = a->ref, .state = SPOT_INSTANCE_GONE };
		return SPOT_DONE;
	}
	/* As EC2: first it is stopping; the next look finds it gone. */
	m->terminated_us = m->terminates++ == 0 ? c->now_us : m->terminated_us;
	a->after = cloud_instance(c->arena, m);
	if (m->state != SPOT_INSTANCE_GONE) {
		a->after.state = SPOT_INSTANCE_STOPPING;
		m->state =
		    cloud_of(self)->ends_slowly ? SPOT_INSTANCE_STOPPING : SPOT_INSTANCE_GONE;
		m->cause = SPOT_END_USER;
	} else {
		a->was_gone = true;
	}
	return SPOT_DONE;
}

static enum spot_rc cloud_open(const struct spot_provider_conf *conf, void **ret_self,
    struct spot_err *err)
{
	(void)err;
	*ret_self = conf->ctx;
	return SPOT_OK;
}

static const struct spot_provider_ops cloud_ops = {
	.abi = SPOT_PROVIDER_ABI,
	.size = sizeof(cloud_ops),
	.kind = "fake",
	.caps = SPOT_CAP_SPOT | SPOT_CAP_ZONES | SPOT_CAP_TOKEN | SPOT_CAP_TAGS | SPOT_CAP_OBJECTS |
	    SPOT_CAP_NOTICE_API,
	.token_scope = SPOT_TOKEN_ZONE,
	.token_life_us = SPOT_US_PER_HOUR,
	.list_lag_us = 300000,
	.launch_timeout_us = 2 * SPOT_US_PER_S,
	.open = cloud_open,
	.close = cloud_close,
	.auth_fresh = cloud_open_auth,
	.auth = cloud_auth,
	.secrets = cloud_secrets,
	.regions = no_regions,
	.pools = no_pools,
	.prices = no_prices,
	.launch = cloud_launch,
	.find = cloud_find,
	.list = cloud_list,
	.describe = cloud_describe,
	.terminate = cloud_terminate,
	.notices = cloud_notices,
	.presign = cloud_presign,
};

struct call_provider *cloud_provider(struct cloud *c, struct loop *loop, struct http_client *http);
/* One launch of a set at a time. */
static const struct spot_limit set_calls = { .name = "sets", .per_second = 0.001, .burst = 1 };

struct call_provider *cloud_provider(struct cloud *c, struct loop *loop, struct http_client *http)
{
	static struct spot_provider_ops ops;

	ops = cloud_ops;
	if (!c->tokens) {
		ops.caps &= ~SPOT_CAP_TOKEN;
		ops.token_scope = SPOT_TOKEN_NONE;
	}
	ops.caps |= c->leaves ? SPOT_CAP_LEAVES : 0;
	ops.verify = c->verifies ? cloud_verify : NULL;
	ops.watch = c->watches ? cloud_watch : NULL;
	ops.launch_gang = c->gangs || c->sets > 0 ? cloud_launch_gang : NULL;
	ops.set_most = c->sets;
	if (c->sets_limited) {
		ops.limits = &set_calls;
		ops.limits_n = 1;
		ops.set_calls = 1;
	}
	ops.boot_timeout_us = c->boots_us;
	ops.reclaim_free_us = c->reclaim_free_us;
	return call_provider_new(loop, http, &ops, c, "fake", NULL);
}

void cloud_sell_out(struct cloud *c, const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(c->sold_out); i++) {
		if (c->sold_out[i][0] == '\0') {
			snprintf(c->sold_out[i], sizeof(c->sold_out[i]), "%s", key);
			return;
		}
	}
	fail_msg("too many sold-out pools");
}

void cloud_sell_again(struct cloud *c)
{
	memset(c->sold_out, 0, sizeof(c->sold_out));
}

size_t cloud_live(const struct cloud *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		n += c->list[i].state != SPOT_INSTANCE_GONE;
	}
	return n;
}

size_t cloud_doubled(const struct cloud *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		size_t same = 1;

		for (size_t k = 0; k < i; k++) {
			same += strcmp(c->list[i].token, c->list[k].token) == 0;
		}
		n += same > MAX(c->list[i].gang, (size_t)1);
	}
	return n;
}

void cloud_reclaim(struct cloud *c, size_t i)
{
	c->list[i].state = SPOT_INSTANCE_GONE;
	c->list[i].cause = SPOT_END_RECLAIM;
}
