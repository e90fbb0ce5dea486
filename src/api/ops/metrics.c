/* GET /metrics: Prometheus text of the database rows and of the counters of this process. */
#include "base/base.h"
#include "api/ops/ops_priv.h"

static void put_served(struct api *api, struct sbuf *o)
{
	sbuf_puts(o,
	    "# HELP spot_http_requests_total Replies by route and status class.\n"
	    "# TYPE spot_http_requests_total counter\n");
	for (size_t i = 0; i < api->routes.n; i++) {
		for (size_t c = 1; c < 6; c++) {
			if (api->served[i * 6 + c]) {
				sbuf_printf(o,
				    "spot_http_requests_total{method=\"%s\",route=\"%s\",status=\"%"
				    "zuxx\"} %" PRId64 "\n",
				    api->routes.rows[i]->method, api->routes.rows[i]->path, c,
				    api->served[i * 6 + c]);
			}
		}
	}
	for (int c = 1; c < 6; c++) {
		if (api->unrouted[c]) {
			sbuf_printf(o,
			    "spot_http_requests_total{method=\"\",route=\"\",status=\"%dxx\"} "
			    "%" PRId64 "\n",
			    c, api->unrouted[c]);
		}
	}
}

static void put_latency(struct api *api, struct sbuf *o)
{
	int64_t sum = 0;

	sbuf_puts(o,
	    "# HELP spot_http_request_seconds Time to the reply of requests that were not held.\n"
	    "# TYPE spot_http_request_seconds histogram\n");
	for (size_t b = 0; b < API_LATENCY_BUCKETS; b++) {
		sum += api->latency[b];
		sbuf_printf(o, "spot_http_request_seconds_bucket{le=\"%g\"} %" PRId64 "\n",
		    (double)api_latency_bounds_us[b] / 1e6, sum);
	}
	sum += api->latency[API_LATENCY_BUCKETS];
	sbuf_printf(o,
	    "spot_http_request_seconds_bucket{le=\"+Inf\"} %" PRId64
	    "\nspot_http_request_seconds_sum %g\n"
	    "spot_http_request_seconds_count %" PRId64 "\n",
	    sum, (double)api->latency_us / 1e6, sum);
}

static void put_one(struct sbuf *o, const char *name, const char *type, const char *help, double v)
{
	sbuf_printf(o, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", name, help, name, type, name, v);
}

static void put_process(struct api *api, struct sbuf *o)
{
	struct httpd_stats h = httpd_stats(api->httpd);
	struct pg_stats p = pg_stats(api->pg);
	struct market_stats m = market_stats(api->market);

	put_one(o, "spot_http_connections", "gauge", "Open connections.", h.open);
	put_one(o, "spot_http_accepted_total", "counter", "Connections accepted.",
	    (double)h.accepted);
	put_one(o, "spot_http_refused_total", "counter",
	    "Connections refused because the limit was reached.", (double)h.refused);
	put_one(o, "spot_http_malformed_total", "counter",
	    "Malformed requests, refused before routing.", (double)h.bad_requests);
	put_one(o, "spot_http_parked", "gauge", "Long polls that are waiting.",
	    (double)api->parked);
	put_one(o, "spot_http_shared_total", "counter",
	    "Reads that shared the statement of an equal one.", (double)api->shared);
	put_one(o, "spot_http_streams", "gauge", "Event streams.", (double)hub_readers(api->hub));
	put_one(o, "spot_checkpoints_refused_total", "counter",
	    "Checkpoints whose file list was refused. Their jobs save in vain; a "
	    "CHECKPOINT_REFUSED event has the reason.",
	    (double)api->checkpoints_refused);
	put_one(o, "spot_pg_statements_total", "counter", "Statements sent.", (double)p.statements);
	put_one(o, "spot_pg_failed_total", "counter", "Statements that failed.", (double)p.failed);
	put_one(o, "spot_pg_reconnects_total", "counter", "Connections re-established.",
	    (double)p.reconnects);
	put_one(o, "spot_pg_connections", "gauge", "Connections that are up.", p.up);
	put_one(o, "spot_pg_queued", "gauge", "Statements waiting for a connection.", p.queued);
	put_one(o, "spot_market_refreshes_total", "counter",
	    "Looks for changes of the market, which the process keeps in memory.",
	    (double)m.refreshes);
	put_one(o, "spot_market_pools_read_total", "counter", "Pools read after changes.",
	    (double)m.pools_read);
	put_one(o, "spot_market_mended_total", "counter",
	    "Pools whose kept values differed from the rows. Must stay 0.", (double)m.mended);
	put_one(o, "spot_start_time_seconds", "gauge", "Start time of this process.",
	    (double)api->started_us / 1e6);
}

/* The metrics of src/store/sql/api/api_metrics.sql, in the order of its statements. */
static const struct row_metric {
	const char *name, *label, *help;
	const char *label2; /* its value follows that of label after the byte 31 */
} row_metrics[] = {
	{ "spot_jobs", "state", "Jobs." },
	{ "spot_nodes", "state",
	    "Nodes. UNKNOWN: the engine is looking up the outcome of the launch." },
	{ "spot_fleets", "state", "Fleets." },
	{ "spot_fleet_missing", "fleet",
	    "Nodes (or GPUs) that an active fleet lacks and no pool can provide." },
	{ "spot_fleet_gap", "fleet",
	    "Largest share of an active fleet's cost that a better plan could save; 0 = the plan "
	    "is optimal." },
	{ "spot_fleet_usd_per_hour", "fleet", "List price per hour of an active fleet's nodes." },
	{ "spot_fleet_nodes", "fleet",
	    "Nodes of an active fleet: with work (used), ready without work (idle), on their way "
	    "(coming).",
	    "state" },
	{ "spot_fleet_wanted", "fleet", "Nodes (or GPUs) that an active fleet is kept at." },
	{ "spot_fleet_demand", "fleet",
	    "Replicas, nodes or GPUs that something outside asks for." },
	{ "spot_gangs", "state",
	    "Jobs of several nodes: waiting in the queue, acquiring (no machine yet), holding some "
	    "machines, serving, standby (one rank needs a new machine)." },
	{ "spot_gangs_over_total", "how",
	    "Ended gangs: served, or given up before they were complete." },
	{ "spot_gang_waits_total", "how",
	    "Waits of gangs with elastic: replace for another machine: replaced, or given up." },
	{ "spot_prices", "state", "Current prices by plausibility." },
	{ "spot_price_age_seconds_max", "provider", "The oldest current price." },
	{ "spot_provider_requests_total", "provider", "Requests sent to the provider." },
	{ "spot_provider_throttled_total", "provider", "Requests that the provider throttled." },
	{ "spot_provider_up", "provider", "1 ok, 0.5 degraded, 0 down." },
	{ "spot_feed_fails", "feed", "Consecutive failures of a feed, if any." },
	{ "spot_ledger_usd_total", "kind", "Dollars in the ledger." },
	{ "spot_notices_total", "kind", "Eviction notices received, one per node and kind." },
	{ "spot_node_ends_total", "cause", "Ended nodes by reason." },
	{ "spot_verdicts_total", "verdict",
	    "Verdicts about machines that might be lost. Given up: lost, reclaimed (by the "
	    "provider), silent, broken, boot_timeout. No change: suspected, healthy. Drained: "
	    "notice. A job or rank that ended with its machine: job_lost." },
	{ "spot_false_recoveries_total", "verdict",
	    "Machines given up while alive: after the verdict the agent continued or enrolled, or "
	    "the provider reported the machine as running." },
	{ "spot_missed_losses_total", "verdict",
	    "Machines that were gone for longer than loss_bound before they were given up (beyond "
	    "agent_lost if silence was the only evidence)." },
	{ "spot_suspected_nodes", "when",
	    "Suspected nodes: the agent is silent, or the provider does not list the machine." },
	{ "spot_queued_nodes", "when",
	    "Nodes that wait for capacity in their provider's queue (market flex_start)." },
	{ "spot_launches_total", "outcome",
	    "Launches that returned an instance, and refused launches." },
	{ "spot_reclaims_total", "market", "Nodes reclaimed by their provider." },
	{ "spot_poll_requests_per_day", "provider",
	    "Requests per day of the feeds, from their last polls and intervals." },
	{ "spot_doctor_items", "state", "Findings of the newest examination (spotctl doctor)." },
	{ "spot_deadline_jobs", "how",
	    "Jobs with a deadline: open, late (not done after the deadline), met, missed "
	    "(including failed)." },
	{ "spot_moves_total", "kind",
	    "Planned moves begun: rebalance, return (to spot), park (leave on-demand and wait for "
	    "spot)." },
	{ "spot_fleet_moves_total", "what",
	    "Nodes of fleets that moved: begun, done (the old node left), refused (the new one "
	    "never "
	    "came)." },
	{ "spot_moves_usd", "what",
	    "Moves of the last 30 days: predicted saving, cost of staying at the price of that "
	    "time, amount paid, difference (earned). The report of 'spotctl rebalance report' "
	    "uses the prices since." },
	{ "spot_recoveries_open", "provider",
	    "Attempts of 30 days whose machine got a notice or was lost, and whose job makes no "
	    "progress yet." },
	{ "spot_recovery_success_ratio", "provider",
	    "Share of the recoveries of 30 days after which the job made progress. The others "
	    "ended with a failed job." },
	{ "spot_recovery_saves_in_window_ratio", "provider",
	    "Share of the saves after a notice, of 30 days, that were durable by its deadline." },
	{ "spot_bursts_total", "what",
	    "Bursts of reclaims begun; saves that they asked for; those of them that a reclaim of "
	    "the node followed within 3 and within 60 minutes." },
	{ "spot_supply_groups", "state",
	    "Groups of provider, region and GPU with easy or tight spot supply, of those tried "
	    "recently." },
	{ "spot_queue_jobs", "team", "Queued jobs." },
	{ "spot_queue_wait_seconds_max", "team",
	    "The longest wait in the queue, without deferred jobs." },
	{ "spot_deferred_jobs", "team",
	    "Deferred jobs: start_after, or cheaper hours are expected." },
	{ "spot_parked_jobs", "team", "Parked jobs: their budget is used up." },
	{ "spot_budget_left_usd_min", "team",
	    "The smallest remaining budget of the team's unfinished jobs; 0 or below: used up." },
	{ "spot_preemptions_total", "what", "Jobs preempted by a job of higher priority." },
	{ "spot_share_ratio", "team",
	    "Decayed spending of the team divided by its share; 1 is exactly its share." },
	{ "spot_share_weight", "team", "The team's weight relative to other teams; 1 is normal." },
	{ "spot_checkpoints", "state", "Checkpoints." },
	{ "spot_leak_usd_per_hour", "state",
	    "Cost of tagged machines that belong to no node, at today's prices. kept: protected "
	    "from the sweeper." },
	{ "spot_orphans", "kind",
	    "Tagged instances and left-behind resources that belong to no node." },
	{ "spot_leader", "holder",
	    "1: this daemon (host/pid) leads; 0: it led last, and no daemon leads now." },
	{ "spot_leader_epoch", "name", "Changes of leadership." },
	{ "spot_leader_lease_seconds", "name",
	    "Remaining time of the leader's lease; negative: no daemon leads." },
};

static const struct row_metric *row_metric_find(const char *name)
{
	static const struct row_metric other = { "", "label", "" };

	for (size_t i = 0; i < ARRAY_LEN(row_metrics); i++) {
		if (strcmp(row_metrics[i].name, name) == 0) {
			return &row_metrics[i];
		}
	}
	return &other;
}

/* ---- the rows -------------------------------------------------------------------------------- */

static void metrics_next(struct areq *q);
static void put_reply(struct areq *q, bool rows);

/* The counters of this process matter most when the database is away. */
static bool metrics_alone(struct areq *q)
{
	put_reply(q, false);
	return true;
}

/* The statements that are read one after the other, in the order of their metrics. */
#define PART(part) \
	static void ask_##part(struct areq *q) \
	{ \
		SQL(q, api_metrics_##part, metrics_next, .at_us = q->now_us); \
	}
#define PART0(part) \
	static void ask_##part(struct areq *q) \
	{ \
		SQL0(q, api_metrics_##part, metrics_next); \
	}
PART0(work)
PART(market)
PART0(record)
PART(moves)
PART(recovered)
PART(teams)
PART(upkeep)

static const struct metric_part {
	void (*ask)(struct areq *q);
	size_t (*rows)(const struct pg_req *, struct arena *, struct q_metric_row **);
} parts[] = {
	{ ask_work, q_api_metrics_work_rows },
	{ ask_market, q_api_metrics_market_rows },
	{ ask_record, q_api_metrics_record_rows },
	{ ask_moves, q_api_metrics_moves_rows },
	{ ask_recovered, q_api_metrics_recovered_rows },
	{ ask_teams, q_api_metrics_teams_rows },
	{ ask_upkeep, q_api_metrics_upkeep_rows },
};

struct scrape {
	size_t at; /* the part being read */
	struct q_metric_row *rows[ARRAY_LEN(parts)];
	size_t n[ARRAY_LEN(parts)];
	struct q_api_metrics_recovery_row *recovery;
	size_t recovery_n;
};

static void part_ask(struct areq *q, const struct scrape *s)
{
	parts[s->at].ask(q);
	q->failed = metrics_alone;
}

static void recovery_read(struct areq *q)
{
	struct scrape *s = q->own;

	s->recovery_n = q_api_metrics_recovery_rows(&q->pg, q->arena, &s->recovery);
	put_reply(q, true);
}

static void metrics_next(struct areq *q)
{
	struct scrape *s = q->own;

	s->n[s->at] = parts[s->at].rows(&q->pg, q->arena, &s->rows[s->at]);
	if (++s->at < ARRAY_LEN(parts)) {
		part_ask(q, s);
	} else {
		SQL0(q, api_metrics_recovery, recovery_read);
		q->failed = metrics_alone;
	}
}

static void put_labels(struct sbuf *o, const struct row_metric *m, const struct q_metric_row *row)
{
	const char *second = m->label2 != NULL ? strrchr(row->label, 31) : NULL;
	char first[256];
	size_t n = second != NULL ? MIN((size_t)(second - row->label), sizeof(first) - 1) : 0;

	memcpy(first, row->label, n);
	first[n] = '\0';
	sbuf_printf(o, "%s{%s=", row->metric, m->label);
	sbuf_json_str(o, second != NULL ? first : row->label);
	if (second != NULL) {
		sbuf_printf(o, ",%s=", m->label2);
		sbuf_json_str(o, second + 1);
	}
}

static void put_rows(struct sbuf *o, const struct q_metric_row *rows, size_t n)
{
	const char *last = "";

	for (size_t i = 0; i < n; i++) {
		const struct row_metric *m = row_metric_find(rows[i].metric);

		if (strcmp(rows[i].metric, last) != 0) {
			sbuf_printf(o, "# HELP %s %s\n# TYPE %s %s\n", rows[i].metric, m->help,
			    rows[i].metric,
			    str_suffix(rows[i].metric, "_total") ? "counter" : "gauge");
		}
		last = rows[i].metric;
		put_labels(o, m, &rows[i]);
		sbuf_printf(o, "} %.15g\n", rows[i].value);
	}
}

static void put_recovery(struct sbuf *o, const struct q_api_metrics_recovery_row *rows, size_t n)
{
	if (n > 0) {
		sbuf_puts(o,
		    "# HELP spot_recovery_seconds Phases of ended recoveries, from a notice or a "
		    "loss to the job's progress. Each begins at the end of the one before: signal, "
		    "saved, committed; wanted, launched, enrolled, first_step. total: from the "
		    "notice.\n"
		    "# TYPE spot_recovery_seconds histogram\n");
	}
	for (size_t i = 0; i < n; i++) {
		const struct q_api_metrics_recovery_row *r = &rows[i];
		char labels[256];

		(void)snprintf(labels, sizeof(labels), "phase=\"%s\",provider=\"%s\"", r->phase,
		    r->provider);
		if (r->le_us > 0) {
			sbuf_printf(o, "spot_recovery_seconds_bucket{%s,le=\"%g\"} %" PRId64 "\n",
			    labels, (double)r->le_us / 1e6, r->n);
			continue;
		}
		sbuf_printf(o,
		    "spot_recovery_seconds_bucket{%s,le=\"+Inf\"} %" PRId64
		    "\nspot_recovery_seconds_sum{%s} %.15g\n"
		    "spot_recovery_seconds_count{%s} %" PRId64 "\n",
		    labels, r->n, labels, (double)r->us / 1e6, labels, r->n);
	}
}

static void put_reply(struct areq *q, bool rows)
{
	const struct scrape *s = q->own;
	struct sbuf o;

	sbuf_init(&o, 4 << 20);
	put_one(&o, "spot_up", "gauge", "1 if the database answered this scrape, else 0.", rows);
	for (size_t i = 0; rows && i < ARRAY_LEN(parts); i++) {
		put_rows(&o, s->rows[i], s->n[i]);
	}
	if (rows) {
		put_recovery(&o, s->recovery, s->recovery_n);
	}
	put_served(q->api, &o);
	put_latency(q->api, &o);
	put_process(q->api, &o);
	areq_reply(q, 200, "text/plain; version=0.0.4; charset=utf-8", o.p, o.n);
	sbuf_fini(&o);
}

void get_metrics(struct areq *q)
{
	struct scrape *s = arena_alloc(q->arena, sizeof(*s));

	q->own = s;
	part_ask(q, s);
}
