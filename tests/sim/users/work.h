/* Users: they submit jobs, cancel some, and ask again when they hear nothing. */
#ifndef SIM_WORK_H
#define SIM_WORK_H

#include "base/base.h"

void work_begin(int64_t jobs, int64_t until_us);
bool work_done(void); /* everything was accepted */
size_t work_accepted(void);
size_t work_jobs(void); /* of them jobs, fleets */
size_t work_fleets(void);
bool work_limited(void); /* one of them has a budget */
bool work_timed(void); /* one of them may run for so long */
/* the job with an accepted cancellation; NULL = not accepted, or no job */
const char *work_cancelled(size_t wish);
/* For breaks.c: forgets that one was accepted, or hears it refused. */
void work_forget(bool forget);
void work_mishear(void);

#endif
