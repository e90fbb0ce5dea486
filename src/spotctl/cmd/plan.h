/* Between the files of `spotctl plan`: its tables (cmd_plan.c), and what is written into their cells
 * and said around them (plan_cells.c). */
#ifndef SPOTCTL_PLAN_H
#define SPOTCTL_PLAN_H

#include "spotctl/ctl.h"

/* A line to stderr, in lines of at most 80 columns. */
void plan_say(struct ctl *c, const char *fmt, ...) PRINTF(2, 3);
/* Adds a member "cell" to each row: short texts for a narrow table. */
void plan_offer_cells(struct ctl *c, json_t *offers);
void plan_spread_cells(struct ctl *c, json_t *list);
void plan_gang_cells(struct ctl *c, json_t *list);
/* Prints the engine's choice, its reason, and the reason against the first row. */
void plan_say_decision(struct ctl *c, const json_t *plan);
/* Prints the refusal that a submit of the file would get, if any; the exit code is submit's. */
void plan_say_refusal(struct ctl *c, const json_t *plan);
int plan_exit(const json_t *plan);

#endif
