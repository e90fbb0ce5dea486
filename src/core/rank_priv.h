/* Between rank.c (matching, order) and score.c (the arithmetic of one offer). */
#ifndef CORE_RANK_PRIV_H
#define CORE_RANK_PRIV_H

#include "core/rank.h"

/* Lookups that thousands of offers share. Strings are those of the offers. */
#define GPU_MEMO   64
#define PLACE_MEMO 512
struct gpu_memo {
	const char *gpu;               /* NULL = free */
	uint64_t asked;                /* bit per GPU of all asks in order: the name suits */
	double table, speed, measured_h;
};
struct place_memo {
	const char *provider, *region; /* provider NULL = free */
	int64_t restore_per_gb, upload_per_gb, data_per_gb;
};

struct rank_ctx {
	struct rank_job job;
	struct rank_policy policy;
	int64_t now_us;
	double work_ref_h, save_s, restart_h, refused_h;
	int32_t ref_milli;             /* 0 = no GPU asked for */
	int64_t checkpoint_bytes, data_bytes;
	const char *from_provider, *from_region; /* where checkpoints are read from; NULL = nowhere */
	const char *data_provider;     /* NULL = the job names no data */
	struct gpu_memo gpus[GPU_MEMO];
	struct place_memo places[PLACE_MEMO], place_last;
	struct gpu_memo gpu_spare;     /* for what has no place in the table */
};

void rank_ctx_init(struct rank_ctx *c, const struct rank_job *job, const struct rank_policy *p, int64_t now_us);
const struct gpu_memo *rank_gpu(struct rank_ctx *c, const char *gpu);
const struct place_memo *rank_place(struct rank_ctx *c, const struct offer *o);
/* Fills s and the terms but for the spread; false: it would hardly ever finish. */
bool score_make(struct rank_ctx *c, const struct offer *o, struct score *s, struct score_terms *t);

#endif
