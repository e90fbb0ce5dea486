/* How a test of the engine ends: the work is over and nothing is left behind. Also the values that
 * /metrics would show. */
#include "engine_world.h"
#include "store/q.h"

typedef size_t metric_rows(const struct pg_req *req, struct arena *a, struct q_metric_row **ret);

struct scrape {
	struct pg_req req;
	struct arena *arena;
	metric_rows *rows;
	bool done;
	const char *name, *label;
	double value;
};

static void scrape_done(struct op *op)
{
	struct scrape *a = container_of(container_of(op, struct pg_req, op), struct scrape, req);
	struct q_metric_row *rows;
	size_t n;

	assert_int_equal(op->rc, SPOT_OK);
	n = a->rows(&a->req, a->arena, &rows);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(rows[i].metric, a->name) == 0 && strcmp(rows[i].label, a->label) == 0) {
			a->value = rows[i].value;
		}
	}
	a->done = true;
}

/* Runs one statement of /metrics and looks for the value in its rows. */
#define SCRAPE(w, a, part, ...) \
	do { \
		(a)->rows = q_api_metrics_##part##_rows; \
		(a)->done = false; \
		q_api_metrics_##part((w)->pg, &(a)->req, __VA_ARGS__, scrape_done); \
		scrape_end(w, a); \
	} while (0)

static void scrape_end(struct world *w, struct scrape *a)
{
	while (!a->done) {
		world_for(w, 5); /* the agents speak meanwhile */
	}
	pg_req_fini(&a->req);
}

double world_metric(struct world *w, const char *name, const char *label)
{
	struct scrape a = { .arena = arena_new(0), .name = name, .label = label, .value = -1e18 };
	int64_t now = world_us();

	SCRAPE(w, &a, work, NULL);
	SCRAPE(w, &a, market, &(struct q_api_metrics_market){ .at_us = now });
	SCRAPE(w, &a, record, NULL);
	SCRAPE(w, &a, moves, &(struct q_api_metrics_moves){ .at_us = now });
	SCRAPE(w, &a, teams, &(struct q_api_metrics_teams){ .at_us = now });
	SCRAPE(w, &a, upkeep, &(struct q_api_metrics_upkeep){ .at_us = now });
	arena_free(a.arena);
	return a.value;
}

void world_empty(struct world *w)
{
	world_until(w, LIMIT,
	    "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_int_equal(cloud_live(&w->cloud), 0);
}

void world_check_end(struct world *w)
{
	world_empty(w);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE ended_us IS NULL OR NOT settled"),
	    0);
}

void world_finish(struct world *w, int64_t job)
{
	char begun[100];

	(void)snprintf(begun, sizeof(begun),
	    "SELECT count(*) FROM attempt WHERE job_id = %" PRId64 " AND ended_us IS NULL", job);
	world_until(w, LIMIT, begun);
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, "
	    "ended_us = %" PRId64 " WHERE job_id = %" PRId64
	    " AND ended_us IS NULL; NOTIFY spot_engine",
	    world_us(), job);
	world_until(w, LIMIT, "SELECT bool_and(state = 'SUCCEEDED')::int FROM job");
	world_check_end(w);
}

void world_exit_all(struct world *w)
{
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, ended_us = "
	    "%" PRId64 " WHERE ended_us IS NULL; NOTIFY spot_engine",
	    world_us());
}

void world_check_gangs(struct world *w)
{
	world_until(w, LIMIT,
	    "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	world_until(w, LIMIT, "SELECT count(*) = 0 FROM gang WHERE state <> 'RELEASED'");
	world_until(w, 10000,
	    "SELECT count(*) = 0 FROM node WHERE launched_us IS NOT NULL AND billed_to_us IS "
	    "DISTINCT FROM ended_us");
	assert_int_equal(cloud_live(&w->cloud), 0);
	assert_int_equal(cloud_doubled(&w->cloud), 0);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM attempt WHERE ended_us IS NULL OR NOT settled"),
	    0);
	assert_int_equal(
	    world_int(w, "SELECT count(*) FROM event WHERE event IN ('ORPHAN', 'ORPHAN_ENDED')"),
	    0);
	/* Every epoch had all ranks, on nodes of one pool. */
	assert_int_equal(
	    world_int(w,
		"SELECT count(*) FROM (SELECT a.job_id, a.epoch FROM attempt a JOIN job j ON j.id "
		"= a.job_id"
		" GROUP BY a.job_id, a.epoch, j.num_nodes HAVING count(*) <> j.num_nodes"
		" OR count(DISTINCT a.pool_id) <> 1 OR count(DISTINCT a.node_id) <> j.num_nodes"
		" OR max(a.created_us) <> min(a.created_us)) x"),
	    0);
}

void world_succeed(struct world *w)
{
	world_until(w, LIMIT, "SELECT bool_and(state = 'RUNNING')::int FROM job");
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, ended_us = "
	    "%" PRId64 " WHERE ended_us IS NULL; NOTIFY spot_engine",
	    world_us());
	world_until(w, LIMIT, "SELECT bool_and(state = 'SUCCEEDED')::int FROM job");
	world_empty(w);
}

void world_check_counters(struct world *w, int64_t alive, int64_t missed, const char *kind)
{
	static const char *const kinds[] = { "lost", "reclaimed", "silent", "broken",
		"boot_timeout" };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		bool this = strcmp(kinds[i], kind) == 0;

		if ((int64_t)world_metric(w, "spot_false_recoveries_total", kinds[i]) !=
			(this ? alive : 0) ||
		    (int64_t)world_metric(w, "spot_missed_losses_total", kinds[i]) !=
			(this ? missed : 0)) {
			fail_msg("%s %s", kinds[i],
			    world_text(w,
				"SELECT string_agg(concat_ws(' ', 'n' || v.node_id, v.kind, "
				"v.at_us, v.since_us, v.missed, v.why, v.false_us,"
				" v.false_why, v.seen, n.provider_past), chr(10) ORDER BY v.id) "
				"FROM verdict v JOIN node n ON n.id = v.node_id"));
		}
	}
}

int64_t world_running(struct world *w)
{
	int64_t job;

	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	job = world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
	return job;
}

void world_running_gang(struct world *w)
{
	world_start(w);
	(void)world_job(w, "{\"num_nodes\": 3}");
	world_until(w, LIMIT,
	    "SELECT count(*) = 1 FROM job WHERE state = 'RUNNING' AND epoch >= 1");
}
