/* Steps that many stories of the engine share: a job runs, a fleet is wanted, a user cancels. */
#include "engine_world.h"

void world_until_job(struct world *w, const char *state)
{
	char sql[100];

	(void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM job WHERE state = '%s'", state);
	world_until(w, LIMIT, sql);
}

void world_until_epoch(struct world *w, int epoch)
{
	char sql[100];

	(void)snprintf(sql, sizeof(sql),
	    "SELECT count(*) FROM job WHERE state = 'RUNNING' AND epoch = %d", epoch);
	world_until(w, LIMIT, sql);
}

void world_until_node(struct world *w, const char *state)
{
	char sql[100];

	(void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM node WHERE state = '%s'", state);
	world_until(w, LIMIT, sql);
}

int64_t world_run_job(struct world *w, const char *extra)
{
	int64_t job;

	world_start(w);
	job = world_job(w, extra);
	world_until_job(w, "RUNNING");
	return job;
}

int64_t world_running(struct world *w)
{
	world_pool(w, "z1", "a1", "spot", 1000000);
	return world_run_job(w, "{}");
}

void world_running_gang(struct world *w)
{
	world_start(w);
	(void)world_job(w, "{\"num_nodes\": 3}");
	world_until(w, LIMIT,
	    "SELECT count(*) = 1 FROM job WHERE state = 'RUNNING' AND epoch >= 1");
}

void world_cancel(struct world *w)
{
	world_sql(w, "UPDATE job SET cancel_us = %" PRId64 "; NOTIFY spot_engine", world_us());
}

void world_fleet(struct world *w, int nodes)
{
	world_sql(w,
	    "INSERT INTO fleet (name, owner, team, project, spec, state, created_us, updated_us)"
	    " VALUES ('f', 'me', 'ml', 'p', '{\"nodes\":%d,\"asks\":[{\"gpus\":"
	    "[{\"gpu\":\"A100\",\"milli\":1000}]}]}', 'ACTIVE', 1, 1); NOTIFY spot_engine",
	    nodes);
}

void world_ask_rebalance(struct world *w, bool dry)
{
	world_sql(w,
	    "INSERT INTO decision (at_us, kind, inputs, outcome, why) VALUES (1,"
	    " 'rebalance_request', '{\"dry_run\":%s}', '{\"state\":\"pending\"}', '');"
	    " NOTIFY spot_engine",
	    dry ? "true" : "false");
}

void world_rebalance(struct world *w, bool dry)
{
	world_ask_rebalance(w, dry);
	world_until(w, LIMIT,
	    "SELECT bool_and(outcome->>'state' = 'done')::int FROM decision"
	    " WHERE kind = 'rebalance_request'");
}

void world_quota(struct world *w, int vcpus)
{
	world_sql(w, "INSERT INTO quota VALUES ('fake', 'r1', 'P/spot', 'spot', 'vcpu', %d, 1)",
	    vcpus);
}

/* The engine and the API agree on a job's priority: it stands in its row and in its file. */
int64_t world_gang_of(struct world *w, int priority, const char *type, int nodes, int work_s)
{
	char *extra = NULL;
	int64_t id;

	assert_true(asprintf(&extra,
			"{\"asks\":[{\"gpus\":[{\"gpu\":\"A100\",\"milli\":1000}],\"use_spot\":-1,"
			"\"instance_type\":\"%s\"}],"
			"\"priority\":%d,\"num_nodes\":%d,\"work_s\":%d}",
			type, priority, nodes, work_s) > 0);
	world_sql(w, "BEGIN");
	id = world_job(w, extra);
	free(extra);
	world_sql(w, "UPDATE job SET priority = %d WHERE id = %" PRId64 "; COMMIT", priority, id);
	return id;
}

int64_t world_job_of(struct world *w, int priority, const char *type, int work_s)
{
	return world_gang_of(w, priority, type, 1, work_s);
}

void world_job_exits(struct world *w, int job)
{
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, ended_us = "
	    "%" PRId64 " WHERE job_id = %d AND ended_us IS NULL; NOTIFY spot_engine",
	    world_us(), job);
}
