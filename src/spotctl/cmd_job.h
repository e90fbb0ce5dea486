/* What job submit, wait and logs share. */
#ifndef SPOTCTL_CMD_JOB_H
#define SPOTCTL_CMD_JOB_H

#include "spotctl/ctl.h"

/* Until the job ended, across restarts of the daemon; 0 = for ever. */
int job_wait_end(struct ctl *c, const char *job, int64_t timeout_s);
/* The log from the first attempt on (epoch 0) or of one; with follow until the job ended. */
int job_follow(struct ctl *c, const char *job, int64_t epoch, int64_t rank, bool follow);

#endif
