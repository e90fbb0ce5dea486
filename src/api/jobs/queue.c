/* GET /v1/queue: who waits, in order, and why. GET and PUT /v1/shares: the teams' claims on what is
 * scarce. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"

#define QUEUE_MOST 5000
#define WEIGHT_MAX 1000.0
#define TEAM_MAX 60

static void queue_done(struct areq *q)
{
	struct q_api_queue_row *row;

	if (q_api_queue_rows(&q->pg, q->arena, &row) == 1) {
		areq_items(q, row->doc);
	}
}

void get_queue(struct areq *q)
{
	SQL(q, api_queue, queue_done, .team = areq_query(q, "team"), .most = QUEUE_MOST);
}

static void shares_done(struct areq *q)
{
	struct q_api_shares_row *row;

	if (q_api_shares_rows(&q->pg, q->arena, &row) == 1) {
		areq_items(q, row->doc);
	}
}

static void shares_look(struct areq *q)
{
	SQL0(q, api_shares, shares_done);
}

void get_shares(struct areq *q)
{
	shares_look(q);
}

void put_share(struct areq *q)
{
	static const char *const known[] = { "team", "weight", NULL };
	struct spot_err err = { 0 };
	const char *team;
	bool taken_back;
	double weight;
	json_t *body;

	if (!areq_body(q, &body) || !areq_body_keys(q, body, known)) {
		return;
	}
	team = json_need_str(body, "team", &err);
	weight = json_f64(body, "weight", 0, &err);
	taken_back = json_is_null(json_object_get(body, "weight"));
	if (err.rc != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return;
	}
	if (strlen(team) > TEAM_MAX) {
		areq_fail_field(q, "team", "must have at most %d bytes", TEAM_MAX);
		return;
	}
	if (!taken_back && !(weight >= 0.001 && weight <= WEIGHT_MAX)) {
		areq_fail_field(q, "weight",
		    "must be from 0.001 to 1000, the team's weight relative to other teams (1 is "
		    "normal); null removes the override");
		return;
	}
	SQL(q, api_share_set, shares_look, .team = team, .has_weight_pm = !taken_back,
	    .weight_pm = (int64_t)(weight * 1000 + 0.5), .actor = q->who.name, .at_us = q->now_us);
}
