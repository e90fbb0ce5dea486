/*
 * On the same rows POST /v1/plan gives the decision that the engine then takes. Random markets and
 * job files go through the API and an engine on one database. The test compares each stored
 * decision with the plan of the file, and each refusal at submit with the plan's. PLAN_SEED and
 * PLAN_CASES choose other cases, PLAN_FROM the first of them.
 */
#include "engine_world.h"
#include "plan_cases.h"
#include "api/server/server.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "store/q.h"

#include <math.h>

#define CASES 1000
#define LOOSE_CASES 5
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
	    "SELECT kind || ' ' || (outcome->>'choice') || ' ' || "
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
	market_write(p->w, c->market);
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
	market_make(&p->rng, &sql);
	if (rng_below(&p->rng, 2) == 0) {
		earlier_make(&p->rng, &sql, n);
	}
	market_write(p->w, sql.p);
	file_make(&p->rng, &text, n);
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

static void pair_begin(struct pair *p, struct world *w)
{
	*p = (struct pair){ .w = w };
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
	/* A job that is new has waited long enough where supply is tight. */
	w->conf.supply.tight_patience_pm = 0;
	w->conf.supply.changeover_us = 240 * SPOT_US_PER_S;
	pools_make(p->w);
	world_sql(w,
	    "INSERT INTO provider (name, kind, state, updated_us, sells_spot) VALUES ('fake', "
	    "'fake', "
	    "'ok', 1, true), ('other', 'fake', 'ok', 1, false);"
	    "INSERT INTO supply_state SELECT 'fake', r, g, 'tight', 1, 0, 0.5, '{}', '', 1 FROM "
	    "(VALUES ('r1', 'L4'), ('r2', 'L4'), ('r1', 'T4')) t (r, g)");
	world_start(w);
	api_up(p);
}

static void test_the_engine_does_what_the_plan_says(void **state)
{
	const char *seeds = getenv("PLAN_SEED"), *cases = getenv("PLAN_CASES"),
		   *first = getenv("PLAN_FROM");
	int from = first != NULL ? (int)strtol(first, NULL, 10) : 0;
	uint64_t seed = seeds != NULL ? strtoull(seeds, NULL, 10) : SEED;
	int n = cases != NULL ? (int)strtol(cases, NULL, 10) : CASES;
	struct pair p;

	print_message("seed %" PRIu64 "\n", seed);
	pair_begin(&p, *state);
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

/* One of the markets, with a job whose deadline is loose. *ret is the plan's decision, which the
 * engine repeats. A row before the chosen one is named with the reason. */
static void loose_run(struct pair *p, struct arena *a, int n, const char *late, const char **ret)
{
	AUTO(sbuf) struct sbuf sql = { 0 };
	AUTO(json) json_t *plan = NULL, *job = NULL;
	const json_t *decision, *over;
	const char *first;
	struct pair_case c = { .n = n };

	sbuf_init(&sql, 0);
	rng_seeded_init(&p->rng, (uint64_t)n);
	market_make(&p->rng, &sql);
	market_write(p->w, sql.p);
	c.market = sql.p;
	c.file = arena_printf(a,
	    "name: loose\nresources:\n  accelerators: {H100: 1, A100: 1, L4: 1}\nrun: x\n"
	    "config:\n  spotctl:\n    team: ml\n    work: 1h\n    deadline: 48h\n"
	    "    checkpoint: {path: c}\n%s",
	    late);
	assert_int_equal(plan_post(p, a, "/v1/plan", c.file, &plan), 200);
	decision = json_object_get(plan, "decision");
	over = json_object_get(decision, "passed_over");
	first =
	    json_str(json_object_get(json_array_get(json_object_get(plan, "offers"), 0), "pool"),
		"id", "-", NULL);
	c.before = *ret = plan_said(a, plan);
	if (json_is_string(json_object_get(decision, "pool")) &&
	    strcmp(json_str(decision, "pool", "", NULL), first) != 0) {
		assert_string_equal(json_str(over, "pool", "", NULL), first);
		assert_true(*json_str(over, "why", "", NULL) != '\0');
	}
	assert_int_equal(plan_post(p, a, "/v1/jobs", c.file, &job), 201);
	case_compare(p, a, &c, strtoll(json_str(job, "id", "j0", NULL) + 1, NULL, 10));
	case_clean(p);
}

static void test_late_cheapest_changes_no_choice_before_the_deadline(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const char *fastest, *cheapest;
	struct pair p;

	pair_begin(&p, *state);
	for (int n = 0; n < LOOSE_CASES; n++) {
		loose_run(&p, a, n, "", &fastest);
		loose_run(&p, a, n, "    late: cheapest\n", &cheapest);
		if (!said_same(fastest, cheapest)) {
			fail_msg("case %d: %s, with late: cheapest %s", n, fastest, cheapest);
		}
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
	pools_make(w);
	rng_seeded_init(&p.rng, 1);
	sbuf_init(&sql, 0);
	earlier_make(&p.rng, &sql, 7);
	sbuf_puts(&sql,
	    "UPDATE pool_latest SET price_micros = 1000000; "
	    "UPDATE job SET name = 'train', team = 'ml' WHERE name = 'case7'");
	market_write(w, sql.p);
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
		cmocka_unit_test(test_late_cheapest_changes_no_choice_before_the_deadline),
		cmocka_unit_test(test_the_engine_does_what_the_plan_says),
	};

	return WORLD_TESTS(argc, argv, tests);
}
