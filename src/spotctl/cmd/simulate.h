/* The input of spotctl simulate: simulate_input.c reads and checks it, cmd_simulate.c runs and
 * prints it. */
#ifndef SPOTCTL_SIMULATE_H
#define SPOTCTL_SIMULATE_H

#include "core/trace/trace.h"
#include "core/trace/trace_sim.h"
#include "spotctl/ctl.h"

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

#endif
