/* The handlers of /v1/jobs and its neighbours, by file. */
#ifndef API_JOBS_JOBS_PRIV_H
#define API_JOBS_JOBS_PRIV_H

#include "api/jobs/jobs.h"
#include "core/spec/spec.h"
#include "core/rank/rank.h"

struct job_show { /* in q->own, while a job is read */
	int status;
	enum job_state *wanted; /* states the caller waits for */
	size_t wanted_n;
};

/* job_full.c */
/* Reads states from a query parameter; replies and returns false if one is not valid. "active" or
 * "terminal" stand for their states. No parameter: none. */
bool job_states(struct areq *q, const char *name, enum job_state **ret, size_t *ret_n);
/* Why a job that saves stores nothing; NULL: it does, or saves nothing. */
const char *job_not_stored(const struct areq *q, bool saves);
void job_full_look(struct areq *q); /* replies with the job q->id, as q->own says */
void get_job(struct areq *q);
/* submit.c */
void post_job(struct areq *q);
/* jobs.c */
void get_jobs(struct areq *q);
void get_job_why(struct areq *q);
void post_job_cancel(struct areq *q);
void patch_job(struct areq *q);
void show_job(struct areq *q, int status); /* replies with the job q->id */
/* plan.c, backtest.c */
void post_plan(struct areq *q);
void post_backtest(struct areq *q);
/* checkpoint.c, classes.c, logs.c, queue.c */
void get_checkpoint(struct areq *q);
void get_classes(struct areq *q);
void get_gpus(struct areq *q);
void get_job_logs(struct areq *q);
void get_recovery(struct areq *q);
void get_queue(struct areq *q);
void get_shares(struct areq *q);
void put_share(struct areq *q);

/*
 * group.c: submits in groups. One that arrives while no group is in flight is sent at the end of
 * this turn of the loop. Later ones are collected until that group is back, for 2 ms at most.
 */
struct job_submit {
	struct job_submit *next;
	struct areq *q;
	struct q_api_jobs_submit_job row;
	uint64_t key; /* hash of token and Idempotency-Key; 0 = none */
	bool alone; /* its group failed: tried again without the others */
	/* The end of it: the row's outcome, or the error of the statement. Replies. */
	void (*done)(struct job_submit *s, const struct q_api_jobs_submit_row *row,
	    const struct spot_err *err);
};
void group_add(struct job_submit *s);

/* rates.c: what jobs of a team and a name were measured to do, read within the last second
 * (conf.rates_age_us). False: it is not known. The texts are the request's. */
bool rates_find(struct areq *q, const char *team, const char *name, struct q_api_placing_row *ret);
void rates_keep(struct areq *q, const char *team, const char *name,
    const struct q_api_placing_row *row);

/* submit_reply.c: makes the document of a job that was submitted just now, as GET /v1/jobs/{job}
 * shows it. Head is all between its id and its fleet, tail is all after the fleet. */
void submit_reply(struct areq *q, const struct job_spec *spec,
    const struct q_api_jobs_submit_job *row, const char *const *warnings, size_t warnings_n,
    const char **ret_head, const char **ret_tail);

/*
 * Remembers the ranking of each distinct ask until the market moves. Jobs whose files differ only
 * in names, commands and variables share one. An answer keeps its snapshot of the market, and lives
 * while a request holds it.
 */

struct answer {
	struct place_market market; /* the pools of the GPUs asked for */
	struct job_facts facts; /* as the ranking left them */
	struct placing all, placing; /* as in struct planned */
	const struct score *cheapest; /* plan_cheapest_listed */
	const char *never; /* placement_never */
};

/* Fills the market, facts and rankings of p from q->snap, at once if they are remembered. The
 * request holds them until its end. */
const struct answer *answer_take(struct areq *q, struct planned *p, const char *const *gpus,
    size_t gpus_n);
/* Plays the job through (montecarlo_run). Remembers the result with the ranking. */
void answer_play(struct areq *q, const struct planned *p, const struct montecarlo_in *in,
    struct montecarlo_out *ret);
/* The configuration changed. */
void answers_forget(struct api *api);

#endif
