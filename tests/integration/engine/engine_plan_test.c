/*
 * On the same rows POST /v1/plan gives the decision that the engine then takes. Random markets and
 * job files go through the API and an engine on one database. The test compares each stored
 * decision with the plan of the file, and each refusal at submit with the plan's. PLAN_SEED and
 * PLAN_CASES choose other cases, PLAN_FROM the first of them.
 */
#include "engine_world.h"
#include "api/server/server.h"
#include "base/crypto/sign.h"
#include "base/text/json.h"
#include "base/text/sbuf.h"
#include "base/text/str.h"
#include "store/q.h"

#include <libpq-fe.h>
#include <math.h>

#define POOLS 28
#define CASES 1000
#define SEED 31

struct pair {
	struct world *w;
	struct api *api;
	char token[API_TOKEN_MAX], url[64];
	struct rng rng; /* of the cases */
	int compared, refused, waits, gangs, deadlines, moved;
};

/* ---- the API --------------------------------------------------------------------------------- */

static void token_insert(struct pair *p)
{
	char hex[65];
	uint8_t hash[32];

	api_token_make(&p->w->rng, p->token, hash);
	hex_encode(hash, 32, hex);
	world_sql(p->w,
	    "INSERT INTO api_token (name, role, hash, created_us) VALUES ('root', 'admin', "
	    "'\\x%s', 1)",
	    hex);
}

static void api_up(struct pair *p)
{
	struct world *w = p->w;
	struct spot_err err = { 0 };
	struct api_conf conf = { .install = "cafe0001",
		.version = "test",
		.place = engine_place_policy(&w->conf),
		.store_provider = w->conf.store_provider,
		.store_region = w->conf.store_region,
		.store = "s3://bucket/p",
		.market_age_us = 1,
		.rates_age_us = 1 };

	token_insert(p);
	if (api_new(w->loop, w->pg, &conf, &p->api, &err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
	(void)snprintf(p->url, sizeof(p->url), "http://127.0.0.1:%d", api_port(p->api));
}

struct ask {
	struct http_req http;
	bool over;
};

static void ask_done(struct op *op)
{
	container_of(container_of(op, struct http_req, op), struct ask, http)->over = true;
}

/* The status; *ret is the caller's. */
static int plan_post(struct pair *p, struct arena *a, const char *path, const char *body,
    json_t **ret)
{
	struct ask k = { 0 };
	struct spot_err err = { 0 };
	struct spot_http_request out = { .method = "POST",
		.url = arena_printf(a, "%s%s", p->url, path),
		.headers = { { "Authorization", arena_printf(a, "Bearer %s", p->token) },
		    { "Content-Type", "application/yaml" } },
		.headers_n = 2,
		.body = str_from(body),
		.timeout_us = 60 * SPOT_US_PER_S,
		.fresh_connection = true };

	http_send(p->w->http, &k.http, &out, a, false, ask_done);
	while (!k.over) {
		world_for(p->w, 1);
	}
	assert_int_equal(k.http.op.rc, SPOT_OK);
	if (json_parse(k.http.in.body, "reply", ret, &err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
	return k.http.in.status;
}

/* ---- random markets -------------------------------------------------------------------------- */

static const char *const gpus[] = { "A100-80GB", "H100-80GB-SXM", "L4", "T4" };
static const char *const asked[] = { "A100", "H100", "L4", "T4" };

static uint64_t rng_draw(struct pair *p, uint64_t n)
{
	return rng_below(&p->rng, n);
}

static bool chance_draw(struct pair *p, int percent)
{
	return rng_draw(p, 100) < (uint64_t)percent;
}

static void pools_make(struct pair *p)
{
	for (int i = 0; i < POOLS; i++) {
		bool fake = i % 7 != 6;

		world_sql(p->w,
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
static void attempt_make(struct pair *p, struct sbuf *s, int n, int epoch, int pool_id)
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
	    100 + (int)rng_draw(p, 5000), start + 9 * SPOT_US_PER_HOUR, start + 200 * SPOT_US_PER_S,
	    start + 100 * SPOT_US_PER_S, start + 9 * SPOT_US_PER_HOUR, n);
}

/* An earlier job of the name with its step rates on two kinds of GPU. The rates of one kind alone
 * say nothing about its speed against others. */
static void earlier_make(struct pair *p, struct sbuf *s, int n)
{
	int one = 1 + (int)rng_draw(p, POOLS), other = one;

	while (strcmp(pool_gpu(other), pool_gpu(one)) == 0) {
		other = 1 + (int)rng_draw(p, POOLS);
	}
	sbuf_printf(s,
	    "INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, "
	    "created_us, queued_us, epoch) VALUES ('case%d', 'root', 'ml', '', 'training', '{}', "
	    "'', 'SUCCEEDED', 1, 1, 1, 2);",
	    n);
	attempt_make(p, s, n, 1, one);
	attempt_make(p, s, n, 2, other);
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

/* Prices, cooldowns, busy places, capacity, quotas and the past of each pool. Rows of earlier cases
 * go. */
static void market_make(struct pair *p, struct sbuf *s)
{
	int64_t now = world_us();
	int day = (int)(now / (24 * SPOT_US_PER_HOUR)) - 1; /* today ages by the minute */
	bool busy = chance_draw(p, 40);

	sbuf_puts(s,
	    "DELETE FROM pool_cool; DELETE FROM gang_cool; DELETE FROM pool_day; DELETE FROM "
	    "quota;");
	for (int id = 1; id <= POOLS; id++) {
		double base[] = { 2, 4, 0.8, 0.4 };
		double price = base[(id - 1) / 3 % 4] * ((id - 1) % 3 == 0 ? 2.5 : 1);

		price *= 0.4 + 1.2 * rng_unit(&p->rng);
		sbuf_printf(s,
		    "UPDATE pool_latest SET price_micros = %" PRId64
		    ", state = '%s' WHERE pool_id = "
		    "%d; UPDATE pool SET offered = %s WHERE id = %d;",
		    (int64_t)(price * 1e6), chance_draw(p, 10) ? "stale" : "fresh", id,
		    chance_draw(p, 85) ? "true" : "false", id);
		if (chance_draw(p, 15)) {
			sbuf_printf(s,
			    "INSERT INTO pool_cool VALUES (%d, %" PRId64
			    ", 1, 'NO_CAPACITY', 'sold out', 1);",
			    id, now + 3 * SPOT_US_PER_HOUR);
		}
		if (chance_draw(p, 10)) {
			sbuf_printf(s,
			    "INSERT INTO gang_cool VALUES (%d, %d, %" PRId64 ", 1, 'x');", id,
			    2 + (int)rng_draw(p, 2), now + 3 * SPOT_US_PER_HOUR);
		}
		/* The engine voids nodes of a provider that it does not have. */
		if (busy && (id - 1) % 7 != 6 && chance_draw(p, 15)) {
			busy_make(s, id);
		}
		if (chance_draw(p, 60)) {
			sbuf_printf(s,
			    "INSERT INTO pool_day VALUES (%d, %d, %" PRId64 ", %d, %d, %d);", id,
			    day, (int64_t)rng_draw(p, 200) * SPOT_US_PER_HOUR, (int)rng_draw(p, 12),
			    (int)rng_draw(p, 20), (int)rng_draw(p, 10));
		}
	}
	if (chance_draw(p, 30)) {
		sbuf_printf(s,
		    "INSERT INTO quota VALUES ('fake', 'r%d', 'q', '%s', 'vcpu', %d, 1);",
		    (int)rng_draw(p, 3), chance_draw(p, 50) ? "spot" : "on_demand",
		    (int)rng_draw(p, 40));
	}
}

/* Longer than world_sql() takes. */
static void market_write(struct pair *p, const char *sql)
{
	PGresult *r;

	(void)world_int(p->w, "SELECT 1"); /* connects */
	r = PQexec(p->w->conn, sql);
	if (PQresultStatus(r) != PGRES_COMMAND_OK) {
		fail_msg("%s: %s\n%s", PQresStatus(PQresultStatus(r)), PQerrorMessage(p->w->conn),
		    sql);
	}
	PQclear(r);
}

/* ---- random jobs ----------------------------------------------------------------------------- */

static void gpus_put(struct pair *p, struct sbuf *s)
{
	bool any = false;

	sbuf_puts(s, "  accelerators: {");
	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		if (chance_draw(p, 45) || (!any && i + 1 == ARRAY_LEN(asked))) {
			sbuf_printf(s, "%s%s: 1", any ? ", " : "", asked[i]);
			any = true;
		}
	}
	sbuf_puts(s, "}\n");
}

/* A checkpoint, and the fields that only a job with one may have. */
static void saving_put(struct pair *p, struct sbuf *s)
{
	if (!chance_draw(p, 80)) {
		return;
	}
	sbuf_printf(s, "    checkpoint: {path: c, size_gb: %d}\n", (int)rng_draw(p, 40));
	if (chance_draw(p, 20)) {
		sbuf_printf(s, "    budget: %d\n", 1 + (int)rng_draw(p, 60));
	}
}

static void file_make(struct pair *p, struct sbuf *s, int n)
{
	static const char *const infra[] = { "fake", "fake/r1", "other", "fake/r9" };
	static const char *const spot[] = { "true", "false" };

	sbuf_printf(s, "name: case%d\nresources:\n", n);
	gpus_put(p, s);
	if (chance_draw(p, 25)) {
		sbuf_printf(s, "  infra: %s\n", infra[rng_draw(p, ARRAY_LEN(infra))]);
	}
	if (chance_draw(p, 40)) {
		sbuf_printf(s, "  use_spot: %s\n", spot[rng_draw(p, 2)]);
	}
	if (chance_draw(p, 10)) {
		sbuf_puts(s, "  max_hourly_cost: 1.5\n");
	}
	if (chance_draw(p, 25)) {
		sbuf_printf(s, "num_nodes: %d\n", 2 + (int)rng_draw(p, 2));
	}
	sbuf_puts(s, "run: x\nconfig:\n  spotctl:\n    team: ml\n");
	if (chance_draw(p, 80)) {
		sbuf_printf(s, "    work: %dm\n", 10 + (int)rng_draw(p, 3000));
	}
	if (chance_draw(p, 50)) {
		sbuf_printf(s, "    deadline: %dh\n",
		    2 + (int)rng_draw(p, chance_draw(p, 50) ? 20 : 200));
	}
	if (chance_draw(p, 15)) {
		sbuf_puts(s, "    late: cheapest\n");
	}
	if (chance_draw(p, 10)) {
		sbuf_puts(s, "    off_peak: true\n");
	}
	if (chance_draw(p, 20)) {
		sbuf_printf(s, "    patience: %d\n", (int)rng_draw(p, 600));
	}
	if (chance_draw(p, 10)) {
		sbuf_puts(s, "    interruptible: false\n");
	}
	saving_put(p, s);
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* Expected cost of the chosen offer, of one node; 0: none is chosen. */
static int64_t plan_total(const json_t *plan)
{
	const char *pool = json_str(json_object_get(plan, "decision"), "pool", "", NULL);
	const json_t *o;
	size_t i;

	json_array_foreach (json_object_get(plan, "offers"), i, o) {
		if (strcmp(json_str(json_object_get(o, "pool"), "id", "", NULL), pool) == 0) {
			return json_i64(o, "total_micros", 0, NULL);
		}
	}
	return 0;
}

/* "place spot p12 1.24" of a plan's decision. */
static const char *plan_said(struct arena *a, const json_t *plan)
{
	const json_t *d = json_object_get(plan, "decision");

	return arena_printf(a, "%s %s %s %.2f", json_str(d, "kind", "", NULL),
	    json_str(d, "choice", "", NULL), json_str(d, "pool", "-", NULL),
	    (double)plan_total(plan) / 1e6);
}

/* The engine parks a job whose budget pays for no start; the plan calls that a wait. */
static const char *engine_did(struct pair *p, int64_t job)
{
	char sql[300];

	(void)snprintf(sql, sizeof(sql),
	    "SELECT count(*) FROM decision WHERE job_id = %" PRId64
	    " OR NOT EXISTS (SELECT FROM job "
	    "WHERE id = %" PRId64 " AND state = 'QUEUED')",
	    job, job);
	world_until(p->w, LIMIT, sql);
	(void)snprintf(sql, sizeof(sql),
	    "SELECT replace(kind || ' ' || (outcome->>'choice'), 'park', 'wait') || ' ' || "
	    "coalesce('p' || "
	    "(outcome->'pool'->>'pool'), '-') || ' ' || round(coalesce((outcome->'pool'->>"
	    "'total_micros')::numeric, 0) / 1e6, 2) FROM decision WHERE job_id = %" PRId64
	    " ORDER BY id LIMIT 1",
	    job);
	return world_text(p->w, sql);
}

/* Equal, but for a moment's change of the dollars. */
static bool said_same(const char *a, const char *b)
{
	const char *x = strrchr(a, ' '), *y = strrchr(b, ' ');
	double p = strtod(x, NULL), q = strtod(y, NULL);

	return x - a == y - b && strncmp(a, b, (size_t)(x - a)) == 0 &&
	    fabs(p - q) <= 0.011 + 0.002 * fmax(p, q);
}

/* Removes the rows of the case, so that the next begins from its own market. The jobs go first: a
 * node that the engine wants meanwhile is then seen, or not wanted. The triggers that tell of moved
 * pools do not run. */
static void case_clean(struct pair *p)
{
	world_sql(p->w,
	    "BEGIN; SET LOCAL session_replication_role = replica; DELETE FROM job; DELETE FROM "
	    "decision; DELETE FROM event; DELETE FROM attempt; DELETE FROM node; DELETE FROM gang; "
	    "DELETE FROM job_queue; INSERT INTO market_change (provider, region) SELECT DISTINCT "
	    "provider, '' FROM pool; COMMIT");
}

/* Prints the plan's decision in full, to explain a difference. */
static const char *plan_text(const json_t *plan, struct arena *a)
{
	return json_text(a, json_object_get(plan, "decision"));
}

static const char *plan_of(struct pair *p, struct arena *a, const char *file, bool *ret_refused,
    const char **ret_text)
{
	AUTO(json) json_t *plan = NULL;
	int status = plan_post(p, a, "/v1/plan", file, &plan);

	if (status != 200) {
		fail_msg("plan: %d %s\n%s", status, json_str(plan, "detail", "", NULL), file);
	}
	*ret_refused = json_is_object(json_object_get(plan, "submit_refusal"));
	*ret_text = plan_text(plan, a);
	return plan_said(a, plan);
}

static void case_count(struct pair *p, const char *file, const char *said)
{
	p->compared++;
	p->waits += str_prefix(said, "wait") || str_prefix(said, "defer");
	p->gangs += strstr(file, "num_nodes") != NULL;
	p->deadlines += strstr(file, "deadline") != NULL;
}

/* The engine's decision in full, to explain a difference. */
static const char *decided_text(struct pair *p, struct arena *a, int64_t job)
{
	char sql[400];

	(void)snprintf(sql, sizeof(sql),
	    "SELECT why || ' ' || coalesce(inputs->>'deadline', '') || ' ' || "
	    "(inputs->>'usable') || ' ' || (inputs->'job')::text || ' ' || coalesce((SELECT "
	    "string_agg(state || ' ' || why, '; ') FROM gang), '') FROM decision WHERE job_id = "
	    "%" PRId64 " ORDER BY id LIMIT 1",
	    job);
	return arena_strdup(a, world_text(p->w, sql));
}

struct pair_case {
	int n;
	uint64_t seed;
	const char *market, *file; /* SQL; YAML */
	const char *before; /* the plan's decision */
};

/* The engine's decision is that of the plan. If it is not, time may have changed the plan
 * meanwhile: then the plan on the same rows, asked again, is that decision. */
static void case_compare(struct pair *p, struct arena *a, const struct pair_case *c, int64_t job)
{
	const char *did = arena_strdup(a, engine_did(p, job)), *decided, *after, *planned;
	bool refused;

	case_count(p, c->file, did);
	if (said_same(c->before, did)) {
		return;
	}
	decided = decided_text(p, a, job);
	case_clean(p);
	market_write(p, c->market);
	after = plan_of(p, a, c->file, &refused, &planned);
	p->moved++;
	if (!said_same(after, did)) {
		fail_msg("seed %" PRIu64 " case %d: planned %s, then %s, done %s\n%s%s\n%s",
		    c->seed, c->n, c->before, after, did, c->file, planned, decided);
	}
}

static void case_run(struct pair *p, int n, uint64_t seed)
{
	AUTO(arena) struct arena *a = arena_new(0);
	AUTO(sbuf) struct sbuf sql = { 0 }, text = { 0 };
	AUTO(json) json_t *job = NULL;
	struct pair_case c = { .n = n, .seed = seed };
	const char *planned;
	bool refused;
	int status;

	sbuf_init(&sql, 0);
	sbuf_init(&text, 0);
	market_make(p, &sql);
	if (chance_draw(p, 50)) {
		earlier_make(p, &sql, n);
	}
	market_write(p, sql.p);
	file_make(p, &text, n);
	c.market = sql.p;
	c.file = text.p;
	c.before = plan_of(p, a, c.file, &refused, &planned);
	status = plan_post(p, a, "/v1/jobs", c.file, &job);
	if ((status == 201) == refused || (status != 201 && status != 400)) {
		fail_msg("seed %" PRIu64 " case %d: submit answers %d, the plan %s\n%s", seed, n,
		    status, c.before, c.file);
	}
	if (status == 201) {
		case_compare(p, a, &c, strtoll(json_str(job, "id", "j0", NULL) + 1, NULL, 10));
	}
	p->refused += refused;
	case_clean(p);
}

static void test_the_engine_does_what_the_plan_says(void **state)
{
	const char *seeds = getenv("PLAN_SEED"), *cases = getenv("PLAN_CASES"),
		   *first = getenv("PLAN_FROM");
	int from = first != NULL ? (int)strtol(first, NULL, 10) : 0;
	uint64_t seed = seeds != NULL ? strtoull(seeds, NULL, 10) : SEED;
	int n = cases != NULL ? (int)strtol(cases, NULL, 10) : CASES;
	struct pair p = { .w = *state };
	struct world *w = p.w;

	print_message("seed %" PRIu64 "\n", seed);
	world_reset(w, true);
	w->agents = false;
	w->conf.launches_max = 0; /* a machine that is wanted is all that is asked */
	w->conf.offers_age_us = 0;
	/* Nothing but jobs that are submitted wakes it. */
	w->conf.tick_us = w->conf.watch_us = w->conf.sweep_us = w->conf.bill_us =
	    60 * SPOT_US_PER_S;
	w->conf.budget_look_us = 10 * SPOT_US_PER_S;
	w->conf.lease_us = 60 * SPOT_US_PER_S;
	w->conf.infeasible_us = 30 * 24 * SPOT_US_PER_HOUR;
	w->conf.cool_max_us = 4 * SPOT_US_PER_HOUR; /* longer ones are cut short */
	w->conf.tightness.tight_at = 10; /* the tight groups stay as they are here */
	w->conf.tightness.easy_at = -1;
	w->conf.supply.patience_us = 600 * SPOT_US_PER_S;
	w->conf.supply.tight_patience_pm =
	    0; /* a new job has waited long enough where it is tight */
	w->conf.supply.changeover_us = 240 * SPOT_US_PER_S;
	pools_make(&p);
	world_sql(w,
	    "INSERT INTO provider (name, kind, state, updated_us, sells_spot) VALUES ('fake', "
	    "'fake', "
	    "'ok', 1, true), ('other', 'fake', 'ok', 1, false);"
	    "INSERT INTO supply_state SELECT 'fake', r, g, 'tight', 1, 0, 0.5, '{}', '', 1 FROM "
	    "(VALUES ('r1', 'L4'), ('r2', 'L4'), ('r1', 'T4')) t (r, g)");
	world_start(w);
	api_up(&p);
	for (int i = from; i < from + n; i++) {
		rng_seeded_init(&p.rng, seed * 1000003 + (uint64_t)i);
		case_run(&p, i, seed);
	}
	print_message("%d compared (%d waits, %d gangs, %d with a deadline), %d refused alike, %d "
		      "at "
		      "a moment when the plan itself changed\n",
	    p.compared, p.waits, p.gangs, p.deadlines, p.refused, p.moved);
	assert_true(p.compared * 2 > n && p.moved * 100 <= n);
	if (n >= CASES) {
		assert_true(p.waits > 20 && p.gangs > 50 && p.deadlines > 100 && p.refused > 20);
	}
	api_free(p.api);
}

/* A first placement uses the step rates of earlier jobs of its name and team. */
static void test_a_first_placement_uses_the_rates_of_earlier_jobs_of_the_name(void **state)
{
	struct world *w = *state;
	struct pair p = { .w = w };
	AUTO(sbuf) struct sbuf sql = { 0 };

	world_reset(w, true);
	w->agents = false;
	w->conf.launches_max = 0;
	pools_make(&p);
	rng_seeded_init(&p.rng, 1);
	sbuf_init(&sql, 0);
	earlier_make(&p, &sql, 7);
	sbuf_puts(&sql,
	    "UPDATE pool_latest SET price_micros = 1000000; "
	    "UPDATE job SET name = 'train', team = 'ml' WHERE name = 'case7'");
	market_write(&p, sql.p);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE job_id = 2");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE job_id = 2 AND "
			     "inputs->'job'->>'step_rates' <> '' AND "
			     "(inputs->'job'->>'restart_us')::int8 = 200000000 AND "
			     "inputs->'offers'->0->'terms'->>'restart_source' = 'measured'"),
	    1);
	world_kill(w);
	/* Of another team nothing is known. */
	world_sql(w, "UPDATE job SET team = 'other' WHERE id = 1; DELETE FROM decision");
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT, "SELECT count(*) FROM decision WHERE job_id = 3");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM decision WHERE job_id = 3 AND "
			     "inputs->'job'->>'step_rates' = ''"),
	    1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_first_placement_uses_the_rates_of_earlier_jobs_of_the_name),
		cmocka_unit_test(test_the_engine_does_what_the_plan_says),
	};

	return WORLD_TESTS(argc, argv, tests);
}
