/* Lookups in the simulated world: see world.h. */
#include "base/base.h"

#include "world.h"

#include "core/rank/rank.h"

int32_t fs_room(const struct fs_pool *p, int64_t t)
{
	if (p->room == NULL) {
		return INT32_MAX;
	}
	return p->room[(size_t)((t + p->shift_us) / p->gap_us) % p->room_n] * p->room_scale;
}

int64_t fs_price(const struct fs_pool *p, int64_t t)
{
	int64_t at = t + p->price_shift_us;
	size_t lo = 0, hi = p->prices_n;

	if (p->price_wrap_us > 0) {
		at %= p->price_wrap_us;
	}
	while (lo + 1 < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->prices[mid].at_us <= at) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return p->prices[lo].micros;
}

bool fs_suits(const struct fs_pool *p, const struct fs_job *j)
{
	return p->gpu_milli == j->gpus * 1000 && gpu_matches(j->gpu, p->gpu);
}

/* SplitMix64 (Steele, Lea and Flood, 2014). */
static uint64_t bits_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

double fs_luck(uint64_t seed, uint64_t a, uint64_t b)
{
	return (double)(bits_mix(bits_mix(bits_mix(seed) ^ a) ^ b) >> 11) * 0x1.0p-53;
}
