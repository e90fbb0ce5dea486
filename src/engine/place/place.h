/*
 * Placing: chooses the next job and its place. Covers waiting jobs, deadlines, planned moves of
 * running jobs, and preemption.
 */
#ifndef ENGINE_PLACE_H
#define ENGINE_PLACE_H

#include "base/base.h"

struct arena;
struct engine;
struct recon_kind;

extern const struct recon_kind queue_kind; /* the order of jobs that wait; teams' spending */
extern const struct recon_kind assign_kind; /* gives jobs a ready node, or wants one for them */
extern const struct recon_kind move_back_kind; /* from on demand back to spot */
extern const struct recon_kind rebalance_kind; /* moves on request, by notices or by the clock */
extern const struct recon_kind fleet_move_kind; /* nodes of fleets, and back to spot */
extern const struct recon_kind deadline_kind; /* no pass: paces the questions to the policy */

/* Budgets of jobs (core/money/money.h). */

/* Is it time to check budgets? If so, sets *next_us (mono; 0 = never checked) to the next time. */
bool budget_due(const struct engine *e, int64_t *next_us);
/* How long a machine lives on after the job's save, at most. */
int64_t budget_end_us(const struct engine *e);
/* The reason of a job whose budget is used up. */
const char *budget_why(struct arena *a, int64_t spent_micros, int64_t budget_micros);

#endif
