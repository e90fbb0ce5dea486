/* Known pools of a poll: a hash from key to row, so that 50,000 points find their pools in one
 * pass. */
#include "base/base.h"
#include "engine/market/market_int.h"

static uint64_t hash_text(uint64_t h, const char *s)
{
	for (; *s != '\0'; s++) {
		h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211); /* FNV-1a */
	}
	return (h ^ 0xff) * UINT64_C(1099511628211);
}

static uint64_t key_hash(const struct spot_pool_key *k)
{
	uint64_t h = UINT64_C(14695981039346656037);

	h = hash_text(h, k->region);
	h = hash_text(h, k->zone);
	h = hash_text(h, k->instance_type);
	return (h ^ (uint64_t)k->market) * UINT64_C(1099511628211);
}

static bool key_same(const struct spot_pool_key *a, const struct spot_pool_key *b)
{
	return a->market == b->market && strcmp(a->region, b->region) == 0 &&
	    strcmp(a->zone, b->zone) == 0 && strcmp(a->instance_type, b->instance_type) == 0;
}

void poll_index_pools(struct poll *p)
{
	p->index_n = 64;
	while (p->index_n < p->pools_n * 2) {
		p->index_n *= 2;
	}
	p->index = arena_array(p->arena, p->index_n, sizeof(*p->index));
	p->pools = arena_array(p->arena, p->pools_n, sizeof(*p->pools));
	for (size_t i = 0; i < p->pools_n; i++) {
		const struct q_market_pools_of_row *r = &p->rows[i];
		size_t at;

		p->pools[i] = (struct spot_pool_info){
			.key = { call_provider_name(p->provider), r->region, r->zone,
			    r->instance_type, spot_market_parse(r->market) },
			.zone_name = r->zone_name,
			.shape = { r->gpu_name, r->gpu_milli, r->gpu_mem_mib, r->vcpus, r->mem_mib,
			    r->arch },
			.quota_class = r->quota_class,
		};
		at = key_hash(&p->pools[i].key) & (p->index_n - 1);
		while (p->index[at] != 0) {
			at = (at + 1) & (p->index_n - 1);
		}
		p->index[at] = (int32_t)i + 1;
	}
}

int32_t poll_find(const struct poll *p, const struct spot_pool_key *key)
{
	size_t at = key_hash(key) & (p->index_n - 1);

	for (; p->index[at] != 0; at = (at + 1) & (p->index_n - 1)) {
		if (key_same(&p->pools[p->index[at] - 1].key, key)) {
			return p->index[at] - 1;
		}
	}
	return -1;
}
