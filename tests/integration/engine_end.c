/* How a test of the engine ends: the work is over and nothing is left behind. */
#include "engine_world.h"

void world_empty(struct world *w)
{
	world_until(w, LIMIT, "SELECT count(*) = 0 FROM node WHERE state NOT IN ('GONE', 'FAILED')");
	assert_int_equal(cloud_live(&w->cloud), 0);
}

void world_check_end(struct world *w)
{
	world_empty(w);
	assert_int_equal(world_int(w, "SELECT count(*) FROM attempt WHERE ended_us IS NULL OR NOT settled"), 0);
}

void world_finish(struct world *w, int64_t job)
{
	world_sql(w,
		  "UPDATE attempt SET phase = 'EXITED', exit_reason = 'ok', exit_code = 0, "
		  "ended_us = %" PRId64 " WHERE job_id = %" PRId64
		  " AND ended_us IS NULL; NOTIFY spot_engine",
		  clock_real.wall_us(&clock_real), job);
	world_until(w, LIMIT, "SELECT bool_and(state = 'SUCCEEDED')::int FROM job");
	world_check_end(w);
}
