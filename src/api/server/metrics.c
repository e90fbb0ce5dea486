/* Prometheus text: what the rows say, and what this process counted. */
#include "base/base.h"
#include "api/server/api_priv.h"

static const int64_t latency_bounds_us[API_LATENCY_BUCKETS] = { 1000, 2500, 5000, 10000, 25000,
	50000, 100000, 250000, 500000, 1000000, 5000000, 30000000 };

/* Requests that were held on purpose are not slow ones. */
static bool held(const struct areq *q)
{
	return q->wait.look != NULL;
}

void metrics_count(struct areq *q, int status)
{
	struct api *api = q->api;
	int class = status / 100 >= 1 && status / 100 <= 5 ? status / 100 : 5;
	int64_t took = loop_wall_us(api->loop) - q->http->received_us;
	size_t b = 0;

	if (q->route) {
		api->served[(size_t)(q->route - api_routes) * 6 + (size_t) class]++;
	} else {
		api->unrouted[class]++;
	}
	if (held(q)) {
		return;
	}
	while (b < API_LATENCY_BUCKETS && took > latency_bounds_us[b]) {
		b++;
	}
	api->latency[b]++;
	api->latency_us += MAX(took, 0);
}

static void put_served(struct api *api, struct sbuf *o)
{
	sbuf_puts(o,
	    "# HELP spot_http_requests_total Replies by route and status class.\n"
	    "# TYPE spot_http_requests_total counter\n");
	for (size_t i = 0; i < api_routes_n; i++) {
		for (size_t c = 1; c < 6; c++) {
			if (api->served[i * 6 + c]) {
				sbuf_printf(o,
				    "spot_http_requests_total{method=\"%s\",route=\"%s\",status=\"%"
				    "zuxx\"} %" PRId64 "\n",
				    api_routes[i].method, api_routes[i].path, c,
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
		    (double)latency_bounds_us[b] / 1e6, sum);
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

	put_one(o, "spot_http_connections", "gauge", "Open connections.", h.open);
	put_one(o, "spot_http_accepted_total", "counter", "Connections accepted.",
	    (double)h.accepted);
	put_one(o, "spot_http_refused_total", "counter", "Connections refused for lack of room.",
	    (double)h.refused);
	put_one(o, "spot_http_malformed_total", "counter", "Requests refused before routing.",
	    (double)h.bad_requests);
	put_one(o, "spot_http_parked", "gauge", "Long polls that wait.", (double)api->parked);
	put_one(o, "spot_http_streams", "gauge", "Event streams.", (double)hub_readers(api->hub));
	put_one(o, "spot_checkpoints_refused_total", "counter",
	    "Checkpoints whose list of files was refused: such a job saves in vain, and has an "
	    "event "
	    "that says why.",
	    (double)api->checkpoints_refused);
	put_one(o, "spot_pg_statements_total", "counter", "Statements sent.", (double)p.statements);
	put_one(o, "spot_pg_failed_total", "counter", "Statements that failed.", (double)p.failed);
	put_one(o, "spot_pg_reconnects_total", "counter", "Connections made again.",
	    (double)p.reconnects);
	put_one(o, "spot_pg_connections", "gauge", "Connections that are up.", p.up);
	put_one(o, "spot_pg_queued", "gauge", "Statements that wait for a connection.", p.queued);
	put_one(o, "spot_start_time_seconds", "gauge", "Since when this process serves.",
	    (double)api->started_us / 1e6);
}

/* What the rows say, in the order of the statement. */
static const struct row_metric {
	const char *name, *label, *help;
} row_metrics[] = {
	{ "spot_jobs", "state", "Jobs." },
	{ "spot_nodes", "state", "Nodes; UNKNOWN are launches whose outcome is being looked up." },
	{ "spot_fleets", "state", "Fleets." },
	{ "spot_fleet_missing", "fleet",
	    "Nodes (GPUs where those are wanted) that an active fleet lacks and no pool can "
	    "take." },
	{ "spot_fleet_gap", "fleet",
	    "Share of an active fleet's cost that a better plan could save at most; 0 = it is the "
	    "least." },
	{ "spot_fleet_usd_per_hour", "fleet", "List price per hour of an active fleet's nodes." },
	{ "spot_gangs", "state",
	    "Jobs of several nodes: waiting for a place, acquiring (nothing there yet), holding "
	    "some machines, serving." },
	{ "spot_gangs_over_total", "how",
	    "Gangs that are over: they served, or were given up before they were whole." },
	{ "spot_prices", "state", "Current prices by what they are believed to be." },
	{ "spot_price_age_seconds_max", "provider", "The oldest current price." },
	{ "spot_provider_requests_total", "provider", "Requests sent to the provider." },
	{ "spot_provider_throttled_total", "provider",
	    "Requests that the provider refused for their rate." },
	{ "spot_provider_up", "provider", "1 ok, 0.5 degraded, 0 down." },
	{ "spot_feed_fails", "feed", "Failures in a row of a feed, where there are any." },
	{ "spot_ledger_usd_total", "kind", "Dollars in the ledger." },
	{ "spot_notices_total", "kind", "Notices heard, one per node and kind." },
	{ "spot_node_ends_total", "cause", "Nodes that are over, by why." },
	{ "spot_verdicts_total", "verdict",
	    "What was decided about machines that might be lost. Given up: lost, reclaimed (their "
	    "provider says so), "
	    "silent, broken, boot_timeout. suspected and healthy (again) change nothing; notice: "
	    "drained; job_lost: a job, or a rank, that ended with its machine." },
	{ "spot_false_recoveries_total", "verdict",
	    "Machines given up though they were alive: the agent went on with the job, or came to "
	    "enrol, after the verdict, "
	    "or the provider says running again." },
	{ "spot_missed_losses_total", "verdict",
	    "Machines that were over for longer than loss_bound (beyond agent_lost where only "
	    "silence tells) before they were given up." },
	{ "spot_suspected_nodes", "when",
	    "Nodes under suspicion: a silent agent, or a provider that does not list the "
	    "machine." },
	{ "spot_launches_total", "outcome",
	    "Launches that gave an instance, and launches that were refused." },
	{ "spot_reclaims_total", "market", "Nodes that their provider took back." },
	{ "spot_poll_requests_per_day", "provider",
	    "What the feeds cost, from their last polls and their intervals." },
	{ "spot_doctor_items", "state", "What the newest examination found (spotctl doctor)." },
	{ "spot_deadline_jobs", "how",
	    "Jobs with a deadline: open, late (not done, and it has passed), met, missed (also "
	    "failed)." },
	{ "spot_moves_total", "kind",
	    "Planned moves begun: rebalance, return (to spot), park (on demand is left to wait for "
	    "spot)." },
	{ "spot_moves_usd", "what",
	    "Of the moves of 30 days: what was predicted to be saved, what staying would have cost "
	    "by the price of then, "
	    "what was paid, and earned, the difference (spotctl rebalance report goes by the "
	    "prices since)." },
	{ "spot_supply_groups", "state",
	    "Provider, region and GPU where spot is easy or tight, of those tried lately." },
	{ "spot_queue_jobs", "team", "Jobs that wait for a place." },
	{ "spot_queue_wait_seconds_max", "team",
	    "The longest wait for a place, without jobs whose time to begin is later." },
	{ "spot_deferred_jobs", "team",
	    "Jobs that begin later: start_after, or cheaper hours are expected." },
	{ "spot_parked_jobs", "team",
	    "Jobs whose budget is used up: each waits for more, or to be cancelled." },
	{ "spot_budget_left_usd_min", "team",
	    "Of the team's jobs with a budget that are not over, the least that is left; 0 and "
	    "below: used up." },
	{ "spot_preemptions_total", "what", "Jobs that had to leave for one of higher priority." },
	{ "spot_share_ratio", "team",
	    "Dollars of the team, faded, over its share; 1 is exactly its share." },
	{ "spot_share_weight", "team",
	    "The share of the team against the others'; 1 is ordinary." },
	{ "spot_checkpoints", "state", "Checkpoints." },
	{ "spot_leak_usd_per_hour", "state",
	    "What machines of our tag cost that no node accounts for, at today's prices; kept: not "
	    "ended unless somebody says so." },
	{ "spot_orphans", "kind",
	    "Listed with our tag, and no node accounts for it: instances, and what machines left "
	    "behind." },
	{ "spot_leader", "holder",
	    "1: this daemon (host/pid) leads; 0: it was the last, and nobody does." },
	{ "spot_leader_epoch", "name", "Times that leadership changed hands." },
	{ "spot_leader_lease_seconds", "name",
	    "Left of the leader's lease; negative: nobody leads." },
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

static void put_rows(struct areq *q, struct sbuf *o)
{
	struct q_api_metrics_row *rows;
	size_t n = q_api_metrics_rows(&q->pg, q->arena, &rows);
	const char *last = "";

	for (size_t i = 0; i < n; i++) {
		const struct row_metric *m = row_metric_find(rows[i].metric);

		if (strcmp(rows[i].metric, last) != 0) {
			sbuf_printf(o, "# HELP %s %s\n# TYPE %s %s\n", rows[i].metric, m->help,
			    rows[i].metric,
			    str_suffix(rows[i].metric, "_total") ? "counter" : "gauge");
		}
		last = rows[i].metric;
		sbuf_printf(o, "%s{%s=", rows[i].metric, m->label);
		sbuf_json_str(o, rows[i].label);
		sbuf_printf(o, "} %.15g\n", rows[i].value);
	}
}

static void put_reply(struct areq *q, bool rows)
{
	struct sbuf o;

	sbuf_init(&o, 4 << 20);
	put_one(&o, "spot_up", "gauge", "1 if the database answered this scrape.", rows);
	if (rows) {
		put_rows(q, &o);
	}
	put_served(q->api, &o);
	put_latency(q->api, &o);
	put_process(q->api, &o);
	areq_reply(q, 200, "text/plain; version=0.0.4; charset=utf-8", o.p, o.n);
	sbuf_fini(&o);
}

static void metrics_read(struct areq *q)
{
	put_reply(q, true);
}

/* The counters of this process matter most when the database is away. */
static bool metrics_alone(struct areq *q)
{
	put_reply(q, false);
	return true;
}

void get_metrics(struct areq *q)
{
	SQL(q, api_metrics, metrics_read, .at_us = q->now_us);
	q->failed = metrics_alone;
}
