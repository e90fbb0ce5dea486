/* Sorts keys by value. Stable, so keys of equal value stay in the order in which they came. */
#include "base/base.h"
#include "core/rank/rank_priv.h"

#define DIGIT 11
#define RUN_FEW 32 /* as many are sorted by insertion */

struct key *keys_sort(struct key *keys, struct key *spare, size_t n)
{
	uint64_t any = 0, all = UINT64_MAX;

	for (size_t i = 0; i < n; i++) {
		any |= keys[i].value;
		all &= keys[i].value;
	}
	for (int shift = 0; shift < 64; shift += DIGIT) {
		uint32_t count[1 << DIGIT] = { 0 }, sum = 0;
		struct key *t;

		if (((any ^ all) >> shift & ((1 << DIGIT) - 1)) == 0) {
			continue;
		}
		for (size_t i = 0; i < n; i++) {
			count[keys[i].value >> shift & ((1 << DIGIT) - 1)]++;
		}
		for (size_t d = 0; d < ARRAY_LEN(count); d++) {
			uint32_t here = count[d];

			count[d] = sum;
			sum += here;
		}
		for (size_t i = 0; i < n; i++) {
			spare[count[keys[i].value >> shift & ((1 << DIGIT) - 1)]++] = keys[i];
		}
		t = keys;
		keys = spare;
		spare = t;
	}
	return keys;
}

void keys_sort_run(struct arena *a, struct key *keys, size_t n)
{
	const struct key *sorted;

	if (n > RUN_FEW) {
		sorted = keys_sort(keys, arena_array_raw(a, n, sizeof(*keys)), n);
		if (sorted != keys) {
			memcpy(keys, sorted, n * sizeof(*keys));
		}
		return;
	}
	for (size_t i = 1; i < n; i++) {
		struct key k = keys[i];
		size_t at = i;

		for (; at > 0 && keys[at - 1].value > k.value; at--) {
			keys[at] = keys[at - 1];
		}
		keys[at] = k;
	}
}
