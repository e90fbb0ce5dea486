/* Known pools of a poll: a hash from key to row, so that 50,000 points find their pools in one
 * pass. */
#include "base/base.h"
#include "engine/market/market_priv.h"

static uint64_t key_hash(const struct spot_pool_key *k)
{
	uint64_t h = hash_u64(hash_str(HASH_START, k->region), 0xff);

	h = hash_u64(hash_str(h, k->zone), 0xff);
	h = hash_u64(hash_str(h, k->instance_type), 0xff);
	return hash_u64(h, (uint64_t)k->market);
}

static bool pool_has_key(const void *pool, const void *key)
{
	const struct spot_pool_key *a = &((const struct spot_pool_info *)pool)->key, *b = key;

	return a->market == b->market && strcmp(a->region, b->region) == 0 &&
	    strcmp(a->zone, b->zone) == 0 && strcmp(a->instance_type, b->instance_type) == 0;
}

void poll_index_pools(struct poll *p)
{
	map_init(&p->index, p->arena, pool_has_key);
	p->pools = arena_array(p->arena, p->pools_n, sizeof(*p->pools));
	for (size_t i = 0; i < p->pools_n; i++) {
		const struct q_market_pools_of_row *r = &p->rows[i];

		p->pools[i] = (struct spot_pool_info){
			.key = { call_provider_name(p->provider), r->region, r->zone,
			    r->instance_type, spot_market_parse(r->market) },
			.zone_name = r->zone_name,
			.shape = { r->gpu_name, r->gpu_milli, r->gpu_mem_mib, r->vcpus, r->mem_mib,
			    r->arch },
			.quota_class = r->quota_class,
		};
		map_put(&p->index, key_hash(&p->pools[i].key), &p->pools[i]);
	}
}

int32_t poll_find(const struct poll *p, const struct spot_pool_key *key)
{
	const struct spot_pool_info *i = map_get(&p->index, key_hash(key), key);

	return i != NULL ? (int32_t)(i - p->pools) : -1;
}
