/* Helpers that job submit, wait and logs share. */
#ifndef SPOTCTL_CMD_JOB_H
#define SPOTCTL_CMD_JOB_H

#include "spotctl/ctl.h"

/* Until the job ended, across restarts of the daemon; 0 = for ever. */
int job_wait_end(struct ctl *c, const char *job, int64_t timeout_s);
/* The log from the first attempt on (epoch 0) or of one; with follow until the job ended. */
int job_follow(struct ctl *c, const char *job, int64_t epoch, int64_t rank, bool follow);
/* "12.50 USD, 4.90 spent, 7.60 left", "" without a budget; what to do about a job that is parked,
 * "" if it is not. */
const char *job_budget_words(struct ctl *c, const json_t *job);
const char *job_parked_words(struct ctl *c, const json_t *job);
/* Prints the job's recoveries, a line each; nothing without one. */
void show_recoveries(struct ctl *c, const json_t *job);

#endif
