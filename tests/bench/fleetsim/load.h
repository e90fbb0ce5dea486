/* The world from recorded data: which trace stands for which pool is the table in load.c, explained
 * in README.md. */
#ifndef FLEETSIM_LOAD_H
#define FLEETSIM_LOAD_H

#include "world.h"

struct arena;
struct fs_data; /* everything read once; seeds take their worlds from it */

struct fs_plan { /* the shape of a seed's world */
	uint64_t seed;
	int32_t jobs;
	int64_t days; /* in which the jobs are submitted */
};

/* NULL: the error is on stderr. */
const struct fs_data *fs_load(struct arena *a, const char *traces_dir, const char *catalog_dir,
    const char *jobs_csv);
/* The world of a seed: a date, a place in every trace, a stretch of the job list. */
bool fs_world_make(struct arena *a, const struct fs_data *d, const struct fs_plan *plan,
    struct fs_world *ret);
/* Words on the job list: how many there were, how many are of a kind that is simulated. */
void fs_data_words(const struct fs_data *d, size_t *ret_rows, size_t *ret_used);

#endif
