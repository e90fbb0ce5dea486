/* Common code of the cases: a pool, a launch, a count, an end. */
#include "live.h"

#include "base/text/text.h"

#define LIFE_TURNS 200

static bool has_capacity(const struct spot_signals *s, const struct spot_pool_key *k)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct spot_signal *x = &s->signals[i];

		if (x->kind == SPOT_SIGNAL_CAPACITY && strcmp(x->key.region, k->region) == 0 &&
		    strcmp(x->key.instance_type, k->instance_type) == 0) {
			return x->value > 0.5;
		}
	}
	return true;
}

static void pool_choose(struct live *v)
{
	bool everywhere = (v->ops.caps & SPOT_CAP_ALL_REGIONS) != 0;
	struct spot_pools pools = { .region = everywhere ? "" : v->cloud->region };
	struct spot_signals signals = { .region = pools.region };

	live_ok(v, CALL_POOLS, &pools);
	signals.pools = pools.pools;
	signals.pools_n = pools.n;
	if (v->ops.signals != NULL) {
		live_ok(v, CALL_SIGNALS, &signals);
	}
	for (size_t i = 0; i < pools.n; i++) {
		const struct spot_pool_info *p = &pools.pools[i];

		if (strcmp(p->key.instance_type, v->cloud->type) == 0 &&
		    strcmp(p->key.region, v->cloud->region) == 0 &&
		    has_capacity(&signals, &p->key) &&
		    (v->pool.key.instance_type == NULL || p->key.market == SPOT_MARKET_SPOT)) {
			v->pool = *p;
		}
	}
	if (v->pool.key.instance_type != NULL) {
		return;
	}
	fail_msg("%s: no pool of %s in %s among %zu, such as %s in %s", v->cloud->name,
	    v->cloud->type, v->cloud->region, pools.n,
	    pools.n > 0 ? pools.pools[0].key.instance_type : "none",
	    pools.n > 0 ? pools.pools[0].key.region : "");
}

struct spot_launch live_launch(struct live *v)
{
	int n = ++v->launches;

	if (v->pool.key.instance_type == NULL) {
		pool_choose(v);
	}
	return (struct spot_launch){
		.key = v->pool.key,
		.zone_name = v->pool.zone_name,
		.shape = v->pool.shape,
		.token = arena_printf(v->arena, "sb-" LIVE_INSTALL "-n%d", n),
		.name = arena_printf(v->arena, "sb-" LIVE_INSTALL "-n%d-%d", n, 1767323045),
		.install = LIVE_INSTALL,
		.user_data = STR_LIT("#!/bin/sh\ntrue\n"),
	};
}

static bool is_live(const struct spot_instance *x)
{
	return !x->leftover &&
	    (x->state == SPOT_INSTANCE_QUEUED || x->state == SPOT_INSTANCE_PENDING ||
		x->state == SPOT_INSTANCE_RUNNING);
}

size_t live_find(struct live *v, const struct spot_launch *a)
{
	struct spot_find find = { .region = a->key.region,
		.zone = a->key.zone,
		.token = a->token,
		.name = a->name,
		.install = a->install };
	size_t n = 0;

	live_ok(v, CALL_FIND, &find);
	for (size_t i = 0; i < find.n; i++) {
		n += is_live(&find.found[i]);
	}
	return n;
}

static struct spot_list list_all(struct live *v)
{
	struct spot_list list = { .install = LIVE_INSTALL,
		.region = (v->ops.caps & SPOT_CAP_ALL_REGIONS) != 0 ? "" : v->cloud->region };

	live_ok(v, CALL_LIST, &list);
	return list;
}

size_t live_in(const struct spot_list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++) {
		n += is_live(&list->found[i]);
	}
	return n;
}

size_t live_count(struct live *v)
{
	struct spot_list list = list_all(v);

	return live_in(&list);
}

static bool still_there(struct live *v, const char *region, const char *ref)
{
	struct spot_describe d = { .region = region, .refs = &ref, .refs_n = 1 };

	live_ok(v, CALL_DESCRIBE, &d);
	return d.n > 0 && d.found[0].state != SPOT_INSTANCE_GONE;
}

void live_end(struct live *v, const struct spot_instance *x)
{
	struct spot_terminate end = { .region = x->key.region,
		.zone = x->key.zone == NULL ? "" : x->key.zone,
		.ref = x->ref,
		.spot_request = x->spot_request == NULL ? "" : x->spot_request };

	live_ok(v, CALL_TERMINATE, &end);
	for (int i = 0; i < LIFE_TURNS && end.after.state != SPOT_INSTANCE_GONE && !x->leftover;
	     i++) {
		if (!still_there(v, x->key.region, x->ref)) {
			return;
		}
		live_pause(v, 10000);
	}
}

void live_end_all(struct live *v)
{
	/* Twice: a machine's remains show only when it is gone. */
	for (int round = 0; round < 2; round++) {
		struct spot_list list = list_all(v);

		for (size_t i = 0; i < list.n; i++) {
			if (list.found[i].state != SPOT_INSTANCE_GONE) {
				live_end(v, &list.found[i]);
			}
		}
	}
}
