/* Between rank.c (matching, order) and score.c (the arithmetic of one offer). */
#ifndef CORE_RANK_PRIV_H
#define CORE_RANK_PRIV_H

#include "base/base.h"
#include "core/rank/ranking.h"

/* Lookups that thousands of offers share. Strings are those of the offers. */
#define GPU_MEMO 64
#define PLACE_MEMO 512
struct gpu_memo {
	const char *gpu; /* NULL = free */
	uint64_t asked; /* bit per GPU of all asks in order: the name suits */
	double table, speed, measured_h;
};
struct place_memo {
	const char *provider, *region; /* provider NULL = free */
	int64_t restore_per_gb, upload_per_gb, data_per_gb;
};

/* A cache by the addresses of the names. One read of the market stores each name once
 * (offers_share_names). */
#define GPU_NEAR 64
#define PLACE_NEAR 256
struct gpu_near {
	const char *gpu;
	const struct gpu_memo *memo;
};
struct place_near {
	const char *provider, *region;
	struct place_memo memo;
};

struct rank_ctx {
	struct rank_job job;
	struct rank_policy policy;
	int64_t now_us;
	double work_ref_h, save_s, restart_h, refused_h;
	/* cost of the whole work in the cheapest pool without an end; 0 = there is none */
	int64_t elsewhere_micros;
	int32_t ref_milli; /* 0 = no GPU asked for */
	int64_t checkpoint_bytes, data_bytes;
	/* source of checkpoints; NULL = none */
	const char *from_provider, *from_region;
	const char *data_provider; /* NULL = the job names no data */
	struct gpu_memo gpus[GPU_MEMO];
	struct place_memo places[PLACE_MEMO], place_last;
	struct gpu_memo gpu_spare; /* for what has no place in the table */
	struct gpu_near gpu_near[GPU_NEAR];
	struct place_near place_near[PLACE_NEAR];
};

void rank_ctx_init(struct rank_ctx *c, const struct rank_job *job, const struct rank_policy *p,
    int64_t now_us);
const struct gpu_memo *rank_gpu(struct rank_ctx *c, const char *gpu);
const struct place_memo *rank_place(struct rank_ctx *c, const struct offer *o);
/* Writes all of s. Returns false if the work would hardly ever finish. */
bool score_make(struct rank_ctx *c, const struct offer *o, struct score *s);

/* May the work have to go on elsewhere, since the capacity leaves for good? A reservation ends, or
 * its owner reclaims it. */
static inline bool rank_leaves(const struct offer *o)
{
	return o->ends_us > 0 || o->market == SPOT_MARKET_INTERRUPTIBLE;
}
/* Returns the hours until a machine of a pool with an end must begin to save. */
double rank_ends_h(const struct rank_ctx *c, const struct offer *o);
/* Returns whether enough fits before that: all work without a checkpoint, else a start and a
 * piece. */
bool rank_ends_suit(struct rank_ctx *c, const struct offer *o);
/* Returns why it does not, in words. */
const char *rank_ends_words(struct arena *a, const struct rank_ctx *c, const struct offer *o);

/* The caches are hand-made: base/map would call through a pointer for each offer. */
static inline size_t near_slot(const char *a, const char *b, size_t n)
{
	return (size_t)(((uint64_t)(uintptr_t)a + 3 * (uint64_t)(uintptr_t)b) * HASH_MIXER >> 40) %
	    n;
}

static inline const struct gpu_memo *rank_gpu_near(struct rank_ctx *c, const char *gpu)
{
	struct gpu_near *near = &c->gpu_near[near_slot(gpu, NULL, GPU_NEAR)];

	if (near->gpu != gpu) {
		const struct gpu_memo *m = rank_gpu(c, gpu);

		if (m == &c->gpu_spare) {
			return m;
		}
		*near = (struct gpu_near){ gpu, m };
	}
	return near->memo;
}

static inline const struct place_memo *rank_place_near(struct rank_ctx *c, const struct offer *o)
{
	struct place_near *near = &c->place_near[near_slot(o->provider, o->region, PLACE_NEAR)];

	if (near->provider != o->provider || near->region != o->region) {
		*near = (struct place_near){ o->provider, o->region, *rank_place(c, o) };
	}
	return &near->memo;
}

/* order.c: value to sort by, index of the thing. */
struct key {
	uint64_t value;
	uint32_t at;
};
/* Sorts by radix, the least digit first; digits that are the same everywhere are passed over.
 * Returns the sorted one of the two arrays. */
struct key *keys_sort(struct key *keys, struct key *spare, size_t n);
/* Sorts a run in place, which is short as a rule. */
void keys_sort_run(struct arena *a, struct key *keys, size_t n);

#endif
