/* Shared by the commands. Each part names its files. */
#ifndef SPOTCTL_CMD_CMD_H
#define SPOTCTL_CMD_CMD_H

#include "spotctl/ctl.h"
#include "core/trace/trace.h"

/* Helpers that job submit, wait and logs share. */

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

/* Between the files of `spotctl plan`: its tables (cmd_plan.c), their cells and the words around
 * them (plan_cells.c). */

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

/* The input of spotctl simulate: simulate_input.c reads and checks it, cmd_simulate.c runs and
 * prints it. */

struct simulation {
	struct trace_market market;
	struct trace_job job;
	const struct trace *traces; /* pools of the market */
	size_t traces_n;
	const struct policy_track *history;
	size_t history_n;
	const size_t *starts; /* ticks */
	size_t starts_n;
	const char **policies; /* names, each once */
	size_t policies_n;
	/* The market of the runs that begin in the k-th stretch of so many ticks, if pools become
	 * known over time. As many ticks as market. NULL: market and traces */
	const struct trace_market *markets;
	const struct trace *const *market_traces;
	size_t stretch_ticks;
};
int simulation_read(struct ctl *c, struct simulation *ret); /* CTL_OK, or said what is wrong */
/* Parts of it: --policy; --starts, --start-hours and --seed, after market and job; hours as decimal
 * text. */
int simulation_policies(struct ctl *c, struct simulation *ret);
int simulation_starts(struct ctl *c, struct simulation *ret);
bool simulation_hours(const char *text, int64_t *ret_us);
/* Runs all policies and prints; whole is filled and printed with -o json. */
/* {policy: mean cost in USD} alone. */
int simulation_costs(struct ctl *c, const struct simulation *s, json_t **ret);
int simulation_print(struct ctl *c, const struct simulation *s, json_t *whole);

/* Between the files of `spotctl fleet`: cmd_fleet.c, and cmd_fleet_change.c. */

extern const struct column fleet_cols[];
char *fleet_path(struct ctl *c); /* of the fleet in the first argument */

/* Prints the verdicts about machines that might be lost, with the evidence; -o json has them
 * whole. */

/* Prints nothing where there are none. */
void show_verdicts(struct ctl *c, const json_t *list);

#endif
