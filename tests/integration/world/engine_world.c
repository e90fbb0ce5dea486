/* The rest of engine_world.h: database, agents, time. */
#include "engine_world.h"
#include "base/base.h"
#include "base/text/text.h"
#include "io/http/http.h"

#include <libpq-fe.h>

struct call_provider *cloud_provider(struct cloud *c, struct loop *loop, struct http_client *http);

int64_t world_us(void)
{
	return steady_clock.wall_us(&steady_clock);
}

int world_setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->db = testdb_start();
	*state = w;
	return 0;
}

int world_teardown(void **state)
{
	struct world *w = *state;

	world_kill(w);
	PQfinish(w->conn);
	testdb_stop(w->db);
	free(w);
	return 0;
}

/* Times for which tests wait are short. Times that must not pass while something else happens are
 * long (a turn of a busy machine may take half a second). A test of their end makes them short. */
static struct engine_conf conf_quick(void)
{
	struct engine_conf c = {
		.tick_us = 20000,
		.lease_us = 3000000,
		.offers_age_us = 10000,
		.launch_timeout_us = 1500000,
		.call_timeout_us = 1000000,
		.launches_max = 16,
		.launch_retry_us = 30000,
		.lookup_again_us = 50000,
		.boot_timeout_us = 15000000,
		.watch_us = 50000,
		.agent_silent_us = 800000,
		.agent_lost_us = 15000000,
		.loss_bound_us = 60000000,
		.list_lag_us = 200000,
		.cool_min_us = 300000,
		.cool_max_us = 2000000,
		.reclaim_cool_us = 600000,
		.idle_keep_us = 100000,
		.terminate_retry_us = 50000,
		.terminate_alarm_us = 5000000,
		.sweep_us = 60000,
		.orphan_grace_us = 200000,
		.orphan_end = true,
		.bill_us = 80000,
		.bill_lag_us = 300000,
		.url_life_us = SPOT_US_PER_HOUR,
		.infeasible_us = 400000,
		.notice_default_us = 500000,
		.drain_grace_us = 100000,
		.budget_look_us = 50000,
		.public_url = "http://127.0.0.1:1",
		.agent_sha256 = "00",
		.store_bucket = "bucket",
		.store_prefix = "p",
		.store_provider = "fake",
		.store_region = "r1",
		.store_endpoint = "",
		.gang_hold_us = 15000000,
	};

	supply_policy_default(&c.supply);
	c.fleet_rest_us = 8 * SPOT_US_PER_HOUR;
	rank_policy_default(&c.rank);
	tightness_policy_default(&c.tightness);
	defer_policy_default(&c.defer);
	rebalance_policy_default(&c.rebalance);
	c.rebalance.budget_pm = 1000;
	c.tightness.window_us = SPOT_US_PER_S;
	c.tightness.hold_us = 100000;
	c.deadline_tick_us = SPOT_US_PER_S;
	c.supply.patience_us = 200000;
	c.supply.return_hold_us = 100000;
	c.supply.return_probe_us = 100000;
	c.supply.changeover_us = 1000;
	c.supply.moves_per_hour_max = 100;
	return c;
}

void world_reset(struct world *w, bool tokens)
{
	world_kill(w);
	PQfinish(w->conn);
	w->conn = NULL;
	w->dsn = testdb_new(w->db);
	memset(&w->cloud, 0, sizeof(w->cloud));
	w->cloud.tokens = tokens;
	w->cloud.sold_out_rc = SPOT_NO_CAPACITY;
	w->conf = conf_quick();
	w->agents = w->agents_save = true;
	w->kills = 0;
	w->identity_off = NULL;
	world_sql(w, "INSERT INTO install VALUES (true, 'cafe0001', '\\x0102030405060708', 1)");
	world_sql(w, "INSERT INTO led VALUES (0, 0, %" PRId64 ")", world_us());
}

void world_start(struct world *w)
{
	static const char key[] = "\1\2\3\4\5\6\7\10";

	assert_null(w->engine);
	if (getenv("ENGINE_TEST_LOG") != NULL) {
		log_init(&(struct log_conf){ .fd = 2, .level = LOG_DEBUG, .program = "engine" });
	}
	if (w->kills > 0) {
		world_sql(w, "UPDATE leader SET until_us = 0");
	}
	rng_real_init(&w->rng);
	w->loop = loop_new(&steady_clock, &w->rng);
	w->pg = pg_new(w->loop,
	    &(struct pg_conf){ .dsn = w->dsn,
		.connections = w->connections > 0 ? w->connections : 4,
		.application = "engine test" });
	w->http = http_client_new(w->loop, &(struct http_client_conf){ .user_agent = "test" });
	w->provider = cloud_provider(&w->cloud, w->loop, w->http);
	w->engine = engine_new(&(struct engine_deps){ .loop = w->loop,
	    .pg = w->pg,
	    .providers = &w->provider,
	    .providers_n = 1,
	    .conf = &w->conf,
	    .install = "cafe0001",
	    .enrol_key = { key, 8 },
	    .holder = "test",
	    .identity_off = &w->identity_off,
	    .identity_off_n = w->identity_off != NULL,
	    .http = w->http });
}

void world_kill(struct world *w)
{
	if (w->engine == NULL) {
		return;
	}
	engine_free(w->engine);
	w->engine = NULL;
	call_provider_free(w->provider);
	http_client_free(w->http);
	pg_free(w->pg);
	loop_free(w->loop);
	w->kills++;
}

/* 'i-1','i-4': machines that are over. Nobody enrols on them. */
static void machines_over(const struct world *w, struct sbuf *s)
{
	sbuf_puts(s, "''");
	for (size_t i = 0; i < w->cloud.n; i++) {
		if (w->cloud.list[i].state == SPOT_INSTANCE_GONE) {
			sbuf_printf(s, ",'%s'", w->cloud.list[i].ref);
		}
	}
}

/* Plays the agents' acts within a tick, as the API writes them down. */
static void agents_tick(struct world *w, int64_t now)
{
	AUTO(sbuf) struct sbuf over = { 0 };

	if (!w->agents) {
		return;
	}
	sbuf_init(&over, 0);
	machines_over(w, &over);
	world_sql(w,
	    "UPDATE node SET enrol_used_us = %" PRId64
	    " WHERE state = 'BOOTING' AND enrol_used_us IS NULL AND ref NOT IN (%s);"
	    "UPDATE node SET last_seen_us = %" PRId64 " WHERE state IN ('READY', 'DRAINING');",
	    now, over.p, now);
	world_sql(w,
	    "UPDATE attempt a SET phase = 'RUNNING', started_us = %" PRId64
	    " FROM node n WHERE n.id = a.node_id"
	    " AND n.state IN ('READY', 'DRAINING') AND a.phase = 'ASSIGNED' AND a.desired = "
	    "'run' AND a.ended_us IS NULL;",
	    now);
	if (w->agents_save) {
		world_sql(w,
		    "WITH a AS (SELECT a.job_id, a.epoch, a.rank, j.num_nodes FROM attempt a JOIN "
		    "job j ON j.id = "
		    "a.job_id AND j.epoch = a.epoch"
		    "  WHERE a.desired = 'drain' AND a.ended_us IS NULL AND a.phase IN ('RUNNING', "
		    "'ASSIGNED')"
		    "  AND j.state_us < %" PRId64 "),"
		    " c AS (INSERT INTO checkpoint (job_id, epoch, rank, state, reason, steps, "
		    "bytes, "
		    "set_key, created_us, urls_us, committed_us)"
		    "  SELECT job_id, epoch, rank, 'COMMITTED', 'notice', 100 * epoch, 1000,"
		    "  CASE WHEN num_nodes > 1 THEN 100 * epoch END, %" PRId64 ", %" PRId64
		    ", %" PRId64 " FROM a"
		    "  RETURNING id, job_id, set_key),"
		    " k AS (INSERT INTO checkpoint_chunk SELECT id, 'model.bin', 0, 1000, 420, "
		    "repeat('ab', 32), 'key-' || id, true"
		    "  FROM c)"
		    " UPDATE job SET checkpoint_id = c.id FROM c WHERE job.id = c.job_id AND "
		    "c.set_key IS NULL;"
		    "UPDATE attempt a SET phase = 'EXITED', exit_reason = 'drained', exit_code = "
		    "0, ended_us = %" PRId64
		    " FROM job j WHERE j.id = a.job_id AND a.desired = 'drain' AND a.ended_us IS "
		    "NULL AND j.state_us < %" PRId64 ";",
		    now - 80000, now - 1000, now - 500, now, now, now - 80000);
	}
	world_sql(w,
	    "UPDATE attempt SET phase = 'EXITED', exit_reason = 'killed', exit_signal = 15, "
	    "ended_us = %" PRId64 " WHERE desired = 'kill' AND ended_us IS NULL;",
	    now);
}

static void world_turn(struct world *w)
{
	int64_t now = world_us();

	(void)loop_turn(w->loop, 5000);
	if (now >= w->agent_next_us) {
		agents_tick(w, now);
		w->agent_next_us = now + 20000;
	}
}

void world_print(struct world *w)
{
	static const struct {
		const char *name, *sql;
	} parts[] = {
		{ "events",
		    "SELECT coalesce(string_agg(entity_id || ' ' || was || '->' || now || ' ' ||"
		    " event || ': ' || why, chr(10) ORDER BY id), '') FROM event" },
		{ "jobs", "SELECT string_agg(id || ' ' || state || ' ' || why, '; ') FROM job" },
		{ "nodes",
		    "SELECT string_agg(id || ' ' || state || ' ' || last_error || ' ' ||"
		    " provider_state, '; ') FROM node" },
		{ "ledger",
		    "SELECT string_agg(kind || ' n' || node_id || ' ' || coalesce(epoch, 0) || ' '"
		    " || from_us % 100000000 || '-' || to_us % 100000000, '; ' ORDER BY id)"
		    " FROM ledger" },
		{ "times",
		    "SELECT string_agg(a.epoch || ' ' || a.exit_reason || ' ' || a.settled ||"
		    " ' started ' || coalesce(a.started_us % 100000000, 0) || ' ended ' ||"
		    " coalesce(a.ended_us % 100000000, 0) || ' node ended ' ||"
		    " coalesce(n.ended_us % 100000000, 0) || ' billed ' ||"
		    " coalesce(n.billed_to_us % 100000000, 0), '; ')"
		    " FROM attempt a JOIN node n ON n.id = a.node_id" },
	};

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		fprintf(stderr, "%s: %s\n", parts[i].name, world_text(w, parts[i].sql));
	}
}

void world_until(struct world *w, int64_t limit_ms, const char *sql)
{
	int64_t end = world_us() + limit_ms * 1000, next = 0;

	for (;;) {
		int64_t now = world_us();

		if (now >= next) {
			if (world_int(w, sql) != 0) {
				return;
			}
			next = now + 10000;
		}
		if (now >= end) {
			world_print(w);
			fail_msg("not within %" PRId64 " ms: %s", limit_ms, sql);
		}
		world_turn(w);
	}
}

void world_for(struct world *w, int64_t ms)
{
	int64_t end = world_us() + ms * 1000;

	while (world_us() < end) {
		world_turn(w);
	}
}

void world_idle(struct world *w, int64_t us)
{
	int64_t end = world_us() + us;

	steady_moment(MIN(us, w->conf.lease_us / 2)); /* a stall must not lose the lease */
	for (int64_t left; (left = end - world_us()) > 0;) {
		(void)loop_turn(w->loop, left);
	}
	steady_moment(0);
}

void world_deposed(struct world *w)
{
	int64_t end = world_us() + LIMIT * 1000;

	while (engine_leads(w->engine)) {
		assert_true(world_us() < end);
		world_turn(w);
	}
}

/* One connection for all that the test itself asks and does. */
static PGresult *world_exec(struct world *w, const char *sql)
{
	PGresult *r;

	if (w->conn == NULL) {
		w->conn = PQconnectdb(w->dsn);
		PQclear(PQexec(w->conn, "SET client_min_messages = error"));
	}
	r = PQexec(w->conn, sql);
	/* A statement that locks several rows, or a table, may meet the engine's statements.
	 * Postgres ends one of the two, or bounds its wait: the test repeats it. */
	for (int i = 0; i < 5 && PQresultErrorField(r, PG_DIAG_SQLSTATE) != NULL &&
	     (strcmp(PQresultErrorField(r, PG_DIAG_SQLSTATE), "40P01") == 0 ||
		 strcmp(PQresultErrorField(r, PG_DIAG_SQLSTATE), "55P03") == 0);
	     i++) {
		PQclear(r);
		r = PQexec(w->conn, sql);
	}
	if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) {
		fail_msg("%s: %s", sql, PQresultErrorMessage(r));
	}
	return r;
}

const char *world_text(struct world *w, const char *sql)
{
	static char buf[1 << 16];
	PGresult *r = world_exec(w, sql);

	snprintf(buf, sizeof(buf), "%s", PQntuples(r) > 0 ? PQgetvalue(r, 0, 0) : "");
	PQclear(r);
	return buf;
}

int64_t world_int(struct world *w, const char *sql)
{
	const char *text = world_text(w, sql);
	int64_t v;

	return parse_i64(text, INT64_MIN, INT64_MAX, &v) ? v : strcmp(text, "t") == 0;
}

void world_sql(struct world *w, const char *fmt, ...)
{
	char sql[8192];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(sql, sizeof(sql), fmt, ap);
	va_end(ap);
	assert_true(n > 0 && (size_t)n < sizeof(sql));
	PQclear(world_exec(w, sql));
}

int world_pool(struct world *w, const char *zone, const char *type, const char *market,
    int64_t price_micros)
{
	char sql[64];

	world_sql(w,
	    "WITH p AS (INSERT INTO pool (provider, region, zone, zone_name, instance_type, "
	    "market, gpu_name, gpu_milli,"
	    "  gpu_mem_mib, vcpus, mem_mib, arch, quota_class, offered, seen_us) VALUES "
	    "('fake', 'r1', '%s', '%s', '%s', '%s',"
	    "  'A100-80GB', 1000, 81920, 12, 90000, 'x86_64', 'P/%s', true, 1) RETURNING id)"
	    " INSERT INTO pool_latest SELECT id, %" PRId64 ", 1, 1, 1, 'test', 'fresh' FROM p",
	    zone, zone, type, market, market, price_micros);
	snprintf(sql, sizeof(sql), "SELECT max(id) FROM pool");
	return (int)world_int(w, sql);
}

int64_t world_job(struct world *w, const char *extra)
{
	int64_t now = world_us();

	world_sql(w,
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, "
	    "state_us, created_us, queued_us)"
	    " VALUES ('train', 'me', 'ml', 'p', 'training', "
	    "'{\"name\":\"train\",\"run\":\"x\",\"asks\":[{\"gpus\":"
	    "[{\"gpu\":\"A100\",\"milli\":1000}],\"use_spot\":-1}],\"work_s\":36000,"
	    "\"checkpoint\":{\"path\":\"c\"}}'::jsonb"
	    " || '%s'::jsonb, '', 'QUEUED', %" PRId64 ", %" PRId64 ", %" PRId64 ");"
	    " NOTIFY spot_engine",
	    extra, now, now, now);
	return world_int(w, "SELECT max(id) FROM job");
}
