/* Random markets and job files for engine_plan_test.c. */
#include "plan_cases.h"
#include "base/text/text.h"

#include <libpq-fe.h>

#define POOLS 28

/* ---- random markets -------------------------------------------------------------------------- */

static const char *const gpus[] = { "A100-80GB", "H100-80GB-SXM", "L4", "T4" };
static const char *const asked[] = { "A100", "H100", "L4", "T4" };

static bool chance_draw(struct rng *rng, int percent)
{
	return rng_below(rng, 100) < (uint64_t)percent;
}

void pools_make(struct world *w)
{
	for (int i = 0; i < POOLS; i++) {
		bool fake = i % 7 != 6;

		world_sql(w,
		    "WITH p AS (INSERT INTO pool (provider, region, zone, zone_name, "
		    "instance_type, market, gpu_name, gpu_milli, gpu_mem_mib, vcpus, mem_mib, "
		    "arch, "
		    "quota_class, offered, seen_us) VALUES ('%s', 'r%d', 'z%d', 'z%d', 't%d', "
		    "'%s', "
		    "'%s', 1000, 81920, %d, 90000, 'x86_64', 'q', true, 1) RETURNING id)"
		    " INSERT INTO pool_latest SELECT id, 1000000, 1, 1, 1, 'test', 'fresh' FROM p",
		    fake ? "fake" : "other", i % 3, i % 5, i % 5, i,
		    i % 3 == 0 ? "on_demand" : "spot", gpus[(i / 3) % 4], 4 + i % 3 * 8);
	}
}

static const char *pool_gpu(int id)
{
	return gpus[(id - 1) / 3 % 4];
}

/* One attempt of the earlier job, on a machine that is billed already. */
static void attempt_make(struct rng *rng, struct sbuf *s, int n, int epoch, int pool_id)
{
	int64_t start = world_us() - 20 * SPOT_US_PER_HOUR;

	sbuf_printf(s,
	    "WITH n AS (INSERT INTO node (pool_id, state, state_us, token, name, price_micros, "
	    "created_us, launched_us, ready_us, ended_us, billed_to_us, end_cause, why) SELECT %d, "
	    "'GONE', 1, "
	    "'old%d-%d', 'old%d-%d', 1, %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
	    ", %" PRId64 ", 'released', '' RETURNING id, pool_id) "
	    "INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, phase, files, "
	    "urls_until_us, steps_start, steps_done, steps_us, started_us, created_us, ended_us, "
	    "settled) SELECT j.id, %d, n.id, n.pool_id, 'spot', 'run', 'EXITED', '[]', 1, 0, %d, "
	    "%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
	    ", true FROM n, job j WHERE j.name = 'case%d';",
	    pool_id, n, epoch, n, epoch, start, start, start + 100 * SPOT_US_PER_S,
	    start + 10 * SPOT_US_PER_HOUR, start + 10 * SPOT_US_PER_HOUR, epoch,
	    100 + (int)rng_below(rng, 5000), start + 9 * SPOT_US_PER_HOUR,
	    start + 200 * SPOT_US_PER_S, start + 100 * SPOT_US_PER_S, start + 9 * SPOT_US_PER_HOUR,
	    n);
}

void earlier_make(struct rng *rng, struct sbuf *s, int n)
{
	int one = 1 + (int)rng_below(rng, POOLS), other = one;

	while (strcmp(pool_gpu(other), pool_gpu(one)) == 0) {
		other = 1 + (int)rng_below(rng, POOLS);
	}
	sbuf_printf(s,
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us, epoch) VALUES ('case%d', 'root', 'ml', '', 'training', '{}', "
	    "'', 'SUCCEEDED', 1, 1, 1, 2);",
	    n);
	attempt_make(rng, s, n, 1, one);
	attempt_make(rng, s, n, 2, other);
}

/* A gang of another job that is acquiring its machines: no other gang may begin at its place. */
static void busy_make(struct sbuf *s, int pool_id)
{
	int64_t now = world_us();

	sbuf_printf(s,
	    "WITH j AS (INSERT INTO job (name, owner, team, project, class, spec, source, state, "
	    "state_us, created_us, queued_us, epoch) VALUES ('busy%d', 'root', 'ml', "
	    "'', 'training', '{\"num_nodes\":2}', '', 'QUEUED', 1, 1, %" PRId64
	    ", 0) RETURNING id), "
	    "g AS (INSERT INTO gang (job_id, pool_id, place, want, state, created_us) SELECT j.id, "
	    "o.id, concat_ws('/', provider, region, zone, instance_type), 2, 'ACQUIRING', "
	    "%" PRId64 " FROM j, pool o WHERE o.id = %d RETURNING id, job_id, pool_id) "
	    "INSERT INTO node (pool_id, job_id, state, state_us, token, name, price_micros, "
	    "created_us, gang_id, gang_rank) SELECT g.pool_id, g.job_id, 'WANTED', %" PRId64
	    ", 'busy%d-' || r, 'busy%d-' || r, 1, %" PRId64
	    ", g.id, r FROM g, generate_series(0, 1) r;",
	    pool_id, now, now, pool_id, now, pool_id, pool_id, now);
}

void market_make(struct rng *rng, struct sbuf *s)
{
	int64_t now = world_us();
	int day = (int)(now / (24 * SPOT_US_PER_HOUR)) - 1; /* today ages by the minute */
	bool busy = chance_draw(rng, 25);

	sbuf_puts(s,
	    "DELETE FROM pool_cool; DELETE FROM gang_cool; DELETE FROM pool_day; DELETE FROM "
	    "quota;");
	for (int id = 1; id <= POOLS; id++) {
		double base[] = { 2, 4, 0.8, 0.4 };
		double price = base[(id - 1) / 3 % 4] * ((id - 1) % 3 == 0 ? 2.5 : 1);

		price *= 0.4 + 1.2 * rng_unit(rng);
		sbuf_printf(s,
		    "UPDATE pool_latest SET price_micros = %" PRId64
		    ", state = '%s' WHERE pool_id = "
		    "%d; UPDATE pool SET offered = %s WHERE id = %d;",
		    (int64_t)(price * 1e6), chance_draw(rng, 10) ? "stale" : "fresh", id,
		    chance_draw(rng, 85) ? "true" : "false", id);
		if (chance_draw(rng, 15)) {
			sbuf_printf(s,
			    "INSERT INTO pool_cool VALUES (%d, %" PRId64
			    ", 1, 'NO_CAPACITY', 'sold out', 1);",
			    id, now + 3 * SPOT_US_PER_HOUR);
		}
		if (chance_draw(rng, 10)) {
			sbuf_printf(s,
			    "INSERT INTO gang_cool VALUES (%d, %d, %" PRId64 ", 1, 'x');", id,
			    2 + (int)rng_below(rng, 2), now + 3 * SPOT_US_PER_HOUR);
		}
		/* The engine voids nodes of a provider that it does not have. */
		if (busy && (id - 1) % 7 != 6 && chance_draw(rng, 15)) {
			busy_make(s, id);
		}
		if (chance_draw(rng, 60)) {
			sbuf_printf(s,
			    "INSERT INTO pool_day VALUES (%d, %d, %" PRId64 ", %d, %d, %d);", id,
			    day, (int64_t)rng_below(rng, 200) * SPOT_US_PER_HOUR,
			    (int)rng_below(rng, 12), (int)rng_below(rng, 20),
			    (int)rng_below(rng, 10));
		}
	}
	if (chance_draw(rng, 30)) {
		sbuf_printf(s,
		    "INSERT INTO quota VALUES ('fake', 'r%d', 'q', '%s', 'vcpu', %d, 1);",
		    (int)rng_below(rng, 3), chance_draw(rng, 50) ? "spot" : "on_demand",
		    (int)rng_below(rng, 40));
	}
}

void market_write(struct world *w, const char *sql)
{
	PGresult *r;

	(void)world_int(w, "SELECT 1"); /* connects */
	r = PQexec(w->conn, sql);
	if (PQresultStatus(r) != PGRES_COMMAND_OK) {
		fail_msg("%s: %s\n%s", PQresStatus(PQresultStatus(r)), PQerrorMessage(w->conn),
		    sql);
	}
	PQclear(r);
}

/* ---- random jobs ----------------------------------------------------------------------------- */

static void gpus_put(struct rng *rng, struct sbuf *s)
{
	bool any = false;

	sbuf_puts(s, "  accelerators: {");
	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		if (chance_draw(rng, 45) || (!any && i + 1 == ARRAY_LEN(asked))) {
			sbuf_printf(s, "%s%s: 1", any ? ", " : "", asked[i]);
			any = true;
		}
	}
	sbuf_puts(s, "}\n");
}

/* A checkpoint, and the fields that only a job with one may have. */
static void saving_put(struct rng *rng, struct sbuf *s)
{
	if (!chance_draw(rng, 80)) {
		return;
	}
	sbuf_printf(s, "    checkpoint: {path: c, size_gb: %d}\n", (int)rng_below(rng, 40));
	if (chance_draw(rng, 20)) {
		sbuf_printf(s, "    budget: %d\n", 1 + (int)rng_below(rng, 60));
	}
}

void file_make(struct rng *rng, struct sbuf *s, int n)
{
	static const char *const infra[] = { "fake", "fake/r1", "other", "fake/r9" };
	static const char *const spot[] = { "true", "false" };

	sbuf_printf(s, "name: case%d\nresources:\n", n);
	gpus_put(rng, s);
	if (chance_draw(rng, 25)) {
		sbuf_printf(s, "  infra: %s\n", infra[rng_below(rng, ARRAY_LEN(infra))]);
	}
	if (chance_draw(rng, 40)) {
		sbuf_printf(s, "  use_spot: %s\n", spot[rng_below(rng, 2)]);
	}
	if (chance_draw(rng, 10)) {
		sbuf_puts(s, "  max_hourly_cost: 1.5\n");
	}
	if (chance_draw(rng, 25)) {
		sbuf_printf(s, "num_nodes: %d\n", 2 + (int)rng_below(rng, 2));
	}
	sbuf_puts(s, "run: x\nconfig:\n  spotctl:\n    team: ml\n");
	if (chance_draw(rng, 80)) {
		sbuf_printf(s, "    work: %dm\n", 10 + (int)rng_below(rng, 3000));
	}
	if (chance_draw(rng, 50)) {
		sbuf_printf(s, "    deadline: %dh\n",
		    2 + (int)rng_below(rng, chance_draw(rng, 50) ? 20 : 200));
	}
	if (chance_draw(rng, 15)) {
		sbuf_puts(s, "    late: cheapest\n");
	}
	if (chance_draw(rng, 10)) {
		sbuf_puts(s, "    off_peak: true\n");
	}
	if (chance_draw(rng, 20)) {
		sbuf_printf(s, "    patience: %d\n", (int)rng_below(rng, 600));
	}
	if (chance_draw(rng, 10)) {
		sbuf_puts(s, "    interruptible: false\n");
	}
	saving_put(rng, s);
}
