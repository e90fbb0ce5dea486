/* Between the files of `spotctl plan`: its tables (cmd_plan.c), their cells and the words around
 * them (plan_cells.c). */
#ifndef SPOTCTL_PLAN_H
#define SPOTCTL_PLAN_H

#include "spotctl/ctl.h"

/* A line to stderr, in lines of at most 80 columns. */
void plan_say(struct ctl *c, const char *fmt, ...) PRINTF(2, 3);
/* Adds a member "cell" to each row: short texts for a narrow table. */
void plan_offer_cells(struct ctl *c, json_t *offers);
void plan_spread_cells(struct ctl *c, json_t *list);
void plan_gang_cells(struct ctl *c, json_t *list);
/* Says the engine's decision, its reason, and why the first row was passed over. */
void plan_say_decision(struct ctl *c, const json_t *plan);
/* Says that submitting the file would be refused. plan_exit() gives the exit code of submit. */
void plan_say_refusal(struct ctl *c, const json_t *plan);
int plan_exit(const json_t *plan);

#endif
