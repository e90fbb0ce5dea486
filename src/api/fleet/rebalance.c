/* Rebalancing: a request is a row that the engine answers; GET holds until it did. */
#include "base/base.h"
#include "api/fleet/fleet_priv.h"

#define HOLD_MAX_S 120
#define MOVES_SHOWN 500
#define REPORT_US (30 * 24 * SPOT_US_PER_HOUR)

static void rebalance_shown(struct areq *q)
{
	struct q_api_rebalance_row *row;
	int status = *(int *)q->own;

	if (q_api_rebalance_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no rebalancing 'd%" PRId64 "'", q->id);
	} else if (strcmp(row->state, "pending") != 0 || !areq_park(q)) {
		areq_text(q, status, row->doc);
	}
}

static void rebalance_look(struct areq *q)
{
	SQL(q, api_rebalance, rebalance_shown, .id = q->id);
}

void show_rebalance(struct areq *q, int status)
{
	areq_show(q, status, rebalance_look);
}

void get_rebalance(struct areq *q)
{
	areq_hold(q, 'd', HOLD_MAX_S, rebalance_look);
}

static void rebalance_asked(struct areq *q)
{
	struct q_api_rebalance_ask_row *row;

	if (q_api_rebalance_ask_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_INTERNAL, "the request was not written");
		return;
	}
	if (!row->known) {
		areq_fail(q, SPOT_NOT_FOUND, "no active fleet '%s'", (const char *)q->own);
		return;
	}
	if (idem_overtaken(q, row->id)) {
		return;
	}
	q->id = row->id;
	httpd_set(q->http, "Location", arena_printf(q->arena, "/v1/rebalance/d%" PRId64, row->id));
	show_rebalance(q, 202);
}

void post_rebalance(struct areq *q)
{
	static const char *const known[] = { "dry_run", "fleet", NULL };
	struct spot_err err = { 0 };
	const char *fleet = "";
	bool dry_run = false;
	json_t *body;

	if (q->http->body.n > 0) {
		if (!areq_body(q, &body) || !areq_body_keys(q, body, known)) {
			return;
		}
		dry_run = json_bool(body, "dry_run", false, &err);
		if (err.rc != SPOT_OK) {
			areq_problem(q, 400, &err, "dry_run");
			return;
		}
		fleet = arena_strdup(q->arena, json_str(body, "fleet", "", &err));
		if (err.rc != SPOT_OK) {
			areq_problem(q, 400, &err, "fleet");
			return;
		}
	}
	q->own = arena_strdup(q->arena, fleet);
	SQL(q, api_rebalance_ask, rebalance_asked, .dry_run = dry_run, .actor = q->who.name,
	    .at_us = q->now_us, .token_id = q->who.token_id,
	    .idem_key = q->idem_key ? q->idem_key : "", .fleet = fleet);
}

/* ---- earnings of moves ----------------------------------------------------------------------- */

static void moves_done(struct areq *q)
{
	struct q_api_rebalance_report_row *row;

	if (q_api_rebalance_report_rows(&q->pg, q->arena, &row) == 1) {
		areq_text(q, 200, row->doc);
	}
}

void get_moves(struct areq *q)
{
	int64_t since;

	if (!areq_query_time(q, "since", q->now_us - REPORT_US, &since)) {
		return;
	}
	SQL(q, api_rebalance_report, moves_done, .since_us = since, .at_us = q->now_us,
	    .most = MOVES_SHOWN, .fleet = areq_query(q, "fleet") ? areq_query(q, "fleet") : "");
}
