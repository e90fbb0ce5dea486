/* The clouds of tests/cloudsim in this process, on the same loop and clock. */
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/store/rows.h"
#include "sim/cloud/cloud_priv.h"
#include "sim/faults/faults_unreachable.h"
#include "sim/host/host.h"
#include "sim/world/profiles.h"

#include "cloudsim/aws/aws.h"
#include "cloudsim/sim/cloud.h"
#include "cloudsim/gcp/gcp.h"
#include "cloudsim/lambda/lambda.h"
#include "cloudsim/s3/s3.h"
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <unistd.h>

/* ---- machines -------------------------------------------------------------------------------- */

/* A gang's wait for another machine ends by its bound alone. */
static bool boot_dies(const struct inst *i)
{
	if (!profile_is(PROFILE_DEAD_BOOTS) || world.quiet ||
	    check_value("SELECT count(*) FROM gang g WHERE gang_waits(g)") == 0) {
		return false;
	}
	trace("host %s never boots", i->id);
	return true;
}

void agent_start(struct inst *i)
{
	struct host_spec s = { .id = i->id,
		.user_data = { i->user_data, i->user_data_n },
		.gpus = i->pool->type->gpus,
		.gpu = i->pool->type->gpu };

	i->agent_started = true;
	if (boot_dies(i)) {
		return;
	}
	if (cloud_ops(i->cloud)->imds && !i->metadata_off) {
		imds_open(i);
	}
	s.imds_port = i->imds_port;
	host_boot(&s);
}

void cloud_unheeded(const char *job, const char *id)
{
	always(job == NULL, "a notice is heeded", "%s runs on %s to its end", job, id);
}

/* Two minutes are enough for any program here to save and to stop. Its agent hears of the notice on
 * the machine itself, whatever happens to messages, and tries many times. Half a minute is enough
 * if nothing went wrong. */
static void check_heeded(const struct inst *i)
{
	bool aws = i->cloud == CLOUD_AWS,
	     told = i->notice_us != 0 && (aws || i->cloud == CLOUD_GCP || i->cloud == CLOUD_AZURE);

	if (!told || sim_wall(&sim) < i->notice_us + (aws ? 110 : 25) * SPOT_US_PER_S ||
	    (!aws && world.harm_until >= i->notice_us)) {
		return;
	}
	sometimes("a notice had time to be heeded");
	cloud_unheeded(host_unheeding(i->id, i->notice_us), i->id);
}

void agent_kill(struct inst *i)
{
	if (i->agent_started) {
		check_heeded(i);
		host_end(i->id);
	}
}

/* ---- opening --------------------------------------------------------------------------------- */

static void bucket_add(void)
{
	struct s3_bucket *b = calloc(1, sizeof(*b));

	assert(b != NULL);
	b->name = dup_text(SIM_BUCKET);
	b->region = dup_text("us-east-1");
	b->next = sim.s3->buckets;
	sim.s3->buckets = b;
}

static void key_add(void)
{
	struct lambda_state *l = sim.lambda;

	l->keys = realloc(l->keys, (l->keys_n + 1) * sizeof(*l->keys));
	assert(l->keys != NULL);
	l->keys[l->keys_n++] =
	    (struct lambda_ssh_key){ dup_text("key-1"), dup_text("spotbroker"), dup_text(SSH_KEY) };
}

void cloud_open(const char *dir)
{
	struct spot_err err = { 0 };

	sim.conf = sim_conf_default();
	sim.conf.dir = dir;
	sim.conf.data_dir = market_small(dir);
	sim.conf.agents = true;
	sim.conf.port = 9000;
	sim.conf.boot_us = 40 * SPOT_US_PER_S;
	sim.conf.terminate_us = 20 * SPOT_US_PER_S;
	sim.conf.lag_us = 0;
	rng_seeded_init(&sim.rng, 1);
	sim.loop = world.loop;
	sim.start_us = loop_wall_us(world.loop);
	if (!sim_open(&sim, &err)) {
		fprintf(stderr, "sim: clouds: %s\n", err.text);
		exit(1);
	}
	/* a key takes longer than a machine's life here; no seed needs one of its own */
	(void)gcp_google_key(sim.gcp);
	bucket_add();
	key_add();
	azure_network();
	coreweave_open();
}

void cloud_seed(uint64_t seed)
{
	rng_seeded_init(&sim.rng, seed * 2 + 1);
	others_come();
}

void cloud_files(const char *dir)
{
	static const char *const folders[] = { "s3", "blobs" };
	char path[512];

	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, folders[i]);
		dir_make(path, 0700);
	}
	sim.conf.dir = dup_text(dir);
}

/* ---- events of instances --------------------------------------------------------------------- */

static struct inst *any_of(bool (*wants)(const struct inst *i))
{
	struct inst *found = NULL;
	uint64_t n = 0;

	for (struct inst *i = sim.insts; i != NULL; i = i->next) {
		if (i->state == INST_RUNNING && wants(i) && !other_is(i) &&
		    rng_below(&world.dice, ++n) == 0) {
			found = i;
		}
	}
	return found;
}

static bool is_any(const struct inst *i UNUSED)
{
	return true;
}

static bool is_spot(const struct inst *i)
{
	return i->side == SIDE_SPOT;
}

struct inst *cloud_any(bool spot)
{
	return any_of(spot ? is_spot : is_any);
}

static char *pool_text(const struct pool *p, const char *market, char buf[256])
{
	snprintf(buf, 256, "%s/%s/%s/%s/%s", cloud_name(p->cloud), p->region->name,
	    p->zone != NULL ? p->zone->id : "", p->type->name, market);
	return buf;
}

static void stock_minute(void)
{
	static char held[8][256];
	static size_t held_n;
	const struct inst *i = cloud_any(false);
	char text[256];

	if (held_n > 0 && (held_n == ARRAY_LEN(held) || rng_below(&world.dice, 2) == 0)) {
		trace("cloud %s has room again", held[0]);
		cloud_post("/stock", json_pack("{s:s, s:n}", "pool", held[0], "count"));
		memmove(held, held + 1, --held_n * sizeof(held[0]));
		return;
	}
	if (i == NULL) {
		return;
	}
	snprintf(held[held_n++], 256, "%s", pool_text(i->pool, side_name(i->side), text));
	trace("cloud %s is sold out", text);
	cloud_post("/stock", json_pack("{s:s, s:i}", "pool", text, "count", 0));
	sometimes("a pool ran dry");
}

static void price_minute(void)
{
	const struct inst *i = cloud_any(true);
	char text[256];
	double usd = (double)dice_us(100, 20000) / 1000.0;

	if (i == NULL) {
		return;
	}
	trace("cloud %s costs %.3f", pool_text(i->pool, "spot", text), usd);
	cloud_post("/price", json_pack("{s:s, s:f}", "pool", text, "usd", usd));
	sometimes("a price jumped");
}

/* The rest of the job's budget may not pay for another instance by then. */
static void gang_dear_minute(struct inst *i)
{
	int64_t micros = price_at(&i->pool->price[i->side], world_now());
	char text[256];

	if (micros < 3000000) {
		cloud_post("/price",
		    json_pack("{s:s, s:f}", "pool", pool_text(i->pool, side_name(i->side), text),
			"usd", (double)micros / 1e5));
	}
	trace("cloud kills %s, of a gang that gathers, where it costs %" PRId64, i->id, micros);
	sometimes("a machine of a gang that gathers became dear and died");
	inst_end(i, "kill", "Server.InternalError",
	    "Server.InternalError: Internal error on launch");
}

static void lag_minute(void)
{
	sim.conf.lag_us = rng_below(&world.dice, 3) == 0 ? dice_us(0, 90 * SPOT_US_PER_S) : 0;
}

/* A row waits for it that has not heard of it. */
static struct inst *unheard_find(void)
{
	char sql[300];

	for (struct inst *i = sim.insts; i != NULL; i = i->next) {
		const char *token = cloud_token(i);

		if (i->cloud == CLOUD_COREWEAVE || other_is(i) || i->state == INST_GONE ||
		    i->state == INST_SHUTTING || token == NULL) {
			continue;
		}
		snprintf(sql, sizeof(sql),
		    "SELECT count(*) FROM node WHERE state IN ('LAUNCHING', 'UNKNOWN') AND '%s' IN "
		    "(token, name)",
		    token);
		if (check_value(sql) > 0) {
			return i;
		}
	}
	return NULL;
}

/* The machine of one rank while all ranks run. */
#define GANG_RUNS \
	"SELECT n.ref FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch JOIN " \
	"node n ON n.id = a.node_id " \
	"WHERE j.num_nodes > 1 AND j.state = 'RUNNING' AND n.state = 'READY' AND j.num_nodes = " \
	"(SELECT count(*) FROM attempt o WHERE o.job_id = j.id " \
	"AND o.epoch = j.epoch AND o.ended_us IS NULL AND o.phase = 'RUNNING') ORDER BY n.id"
/* One while the others are still to come, where they may cost no more than so much. */
#define GANG_GATHERS \
	"SELECT n.ref FROM gang g JOIN job j ON j.id = g.job_id AND j.budget_micros IS NOT NULL " \
	"JOIN node n ON n.gang_id = g.id " \
	"WHERE g.state = 'ACQUIRING' AND n.state IN ('BOOTING', 'READY') ORDER BY n.id"

static struct inst *gang_any(const char *refs)
{
	PGresult *r = check_rows(refs);
	int n = PQntuples(r);
	const char *ref = n > 0 ? PQgetvalue(r, (int)rng_below(&world.dice, (uint64_t)n), 0) : "";
	struct inst *i = sim.insts;

	while (i != NULL &&
	    (i->state != INST_RUNNING ||
		!str_same(i->cloud == CLOUD_AZURE ? i->name : i->id, ref))) {
		i = i->next;
	}
	PQclear(r);
	return i;
}

/* After a hit, rules about one machine or one cloud's answers are excused for ten minutes. */
static bool harm_felt(bool hit)
{
	if (hit) {
		world.taken_until = world_now() + 600 * SPOT_US_PER_S;
	}
	return hit;
}

void cloud_launch_unknown(void)
{
	struct inst *i;

	if (!harm_felt(DICE(unheard_end)) || (i = unheard_find()) == NULL) {
		return;
	}
	trace("cloud kills %s, of which nobody has heard", i->id);
	sometimes("an instance died before its launch was known");
	inst_end(i, "kill", "Server.InternalError",
	    "Server.InternalError: Internal error on launch");
	/* The engine's lists lack it for a while, so the engine may launch it again. */
	if (rng_below(&world.dice, 2) == 0) {
		sim.conf.lag_us = dice_us(10, 60) * SPOT_US_PER_S;
	}
}

/* It is taken while things still go wrong. */
static void recommend_minute(void)
{
	int64_t left = SIM_T0 + world.conf.minutes * 60 * SPOT_US_PER_S - world_now() -
	    180 * SPOT_US_PER_S,
		before;
	struct inst *i;

	if (!DICE(recommend) || left < 60 * SPOT_US_PER_S || (i = cloud_any(true)) == NULL ||
	    i->cloud != CLOUD_AWS || i->notice_us != 0 || i->rebalance_us != 0) {
		return;
	}
	before = dice_us(30 * SPOT_US_PER_S, left);
	world.taken_until = world_now() + before + 600 * SPOT_US_PER_S;
	trace("cloud recommends to leave %s", i->id);
	sometimes("a machine was recommended to leave");
	inst_reclaim(i, cloud_ops(i->cloud)->notice_s * SPOT_US_PER_S, before, false);
}

/* EC2 does not stop a spot instance (ec2_power.c). */
static bool is_haltable(const struct inst *i)
{
	return i->cloud != CLOUD_COREWEAVE && !(i->cloud == CLOUD_AWS && i->side == SIDE_SPOT);
}

/* By hand, or by its guest. */
static void halt_minute(void)
{
	struct inst *i;

	if (!harm_felt(DICE(halt)) || (i = any_of(is_haltable)) == NULL) {
		return;
	}
	trace("cloud stops %s", i->id);
	sometimes("a machine was stopped");
	host_halt(machine_of(i));
	if (i->cloud == CLOUD_AWS || i->cloud == CLOUD_GCP) {
		inst_stop(i);
	} else {
		inst_guest_off(i);
	}
}

static void kills_minute(void)
{
	struct inst *i;

	if (harm_felt(DICE(kill)) && (i = cloud_any(false)) != NULL) {
		trace("cloud kills %s", i->id);
		sometimes("an instance died without a word");
		inst_end(i, "kill", "Server.InternalError",
		    "Server.InternalError: Internal error on launch");
	}
	if (harm_felt(DICE(gang_kill)) && (i = gang_any(GANG_RUNS)) != NULL) {
		trace("cloud kills %s, of a gang", i->id);
		sometimes("a machine of a gang that ran died");
		inst_end(i, "kill", "Server.InternalError",
		    "Server.InternalError: Internal error on launch");
	}
	if (harm_felt(DICE(gang_dear)) && (i = gang_any(GANG_GATHERS)) != NULL) {
		gang_dear_minute(i);
	}
}

static void parts_minute(void)
{
	struct inst *i;

	if (harm_felt(DICE(part)) && (i = cloud_any(false)) != NULL && host_runs(machine_of(i))) {
		sometimes("a node was cut off");
		host_cut(machine_of(i), true);
	}
	if (harm_felt(DICE(part)) && (i = cloud_any(false)) != NULL) {
		host_cut(machine_of(i), false);
	}
	if (harm_felt(DICE(part)) && (i = cloud_any(false)) != NULL) {
		host_agent_crash(machine_of(i));
	}
}

void cloud_minute(void)
{
	struct inst *i;

	recommend_minute();
	if (harm_felt(DICE(reclaim)) && (i = cloud_any(true)) != NULL) {
		trace("cloud reclaims %s", i->id);
		sometimes("an instance was reclaimed");
		/* CoreWeave: at most seven minutes, not at least. */
		inst_reclaim(i,
		    (i->cloud == CLOUD_COREWEAVE ? dice_us(10, cloud_ops(i->cloud)->notice_s)
						 : cloud_ops(i->cloud)->notice_s) *
			SPOT_US_PER_S,
		    0, false);
	}
	kills_minute();
	halt_minute();
	parts_minute();
	if (DICE(stock)) {
		stock_minute();
	}
	if (DICE(price)) {
		price_minute();
	}
	if (harm_felt(DICE(lie))) {
		faults_api_minute();
		lag_minute();
	}
	faults_front_minute();
	unreachable_minute();
	if (harm_felt(DICE(lag))) {
		sim.conf.lag_us = dice_us(0, 90 * SPOT_US_PER_S);
	}
	if (cloud_is_here("coreweave")) {
		coreweave_minute();
	}
	others_minute();
}

static struct inst *absent;
static int64_t absent_until;

static enum cloud cloud_listed(const char *url, struct str body)
{
	if (memmem(body.p, body.n, "Action=DescribeInstances", 24) != NULL) {
		return CLOUD_AWS;
	}
	if (strstr(url, "Microsoft.ResourceGraph/resources") != NULL) {
		return CLOUD_AZURE;
	}
	return strstr(url, "/aggregated/instances") != NULL ? CLOUD_GCP
	    : str_suffix(url, "/instances")                 ? CLOUD_LAMBDA
							    : CLOUD_NONE;
}

static char hidden[256][64]; /* from one list each */
static size_t hidden_n;

static bool was_hidden(const struct inst *i)
{
	for (size_t k = 0; k < hidden_n; k++) {
		if (str_same(hidden[k], i->id)) {
			return true;
		}
	}
	return false;
}

bool cloud_lists_all(const char *ref)
{
	for (const struct inst *i = sim.insts; i != NULL; i = i->next) {
		if (str_same(i->id, ref)) {
			return i->state == INST_RUNNING && !was_hidden(i) &&
			    i->visible_us + 300 * SPOT_US_PER_S < world_now();
		}
	}
	return false;
}

/* Lambda's, since its events tell of the end of a machine that its list lacks. */
static struct inst *being_ended(enum cloud c)
{
	for (struct inst *i = sim.insts; i != NULL && c == CLOUD_LAMBDA; i = i->next) {
		if (i->cloud == c && i->state == INST_SHUTTING && !other_is(i) && !was_hidden(i)) {
			return DICE(absent_end) ? i : NULL;
		}
	}
	return NULL;
}

/* One list may lack an instance, two in a row do not: each machine is hidden once. */
void cloud_list_begins(const char *url, struct str body)
{
	enum cloud c = cloud_listed(url, body);
	struct inst *i = being_ended(c);

	if (c == CLOUD_NONE || hidden_n == ARRAY_LEN(hidden)) {
		return;
	}
	if (i == NULL &&
	    (!DICE(absent) || (i = cloud_any(false)) == NULL || i->cloud != c || was_hidden(i))) {
		return;
	}
	snprintf(hidden[hidden_n++], sizeof(hidden[0]), "%s", i->id);
	trace("cloud a list lacks %s", i->id);
	fault_seen("a list lacked an instance");
	absent = i;
	absent_until = i->visible_us;
	i->visible_us = INT64_MAX;
}

void cloud_list_ends(void)
{
	if (absent != NULL) {
		absent->visible_us = absent_until;
	}
	absent = NULL;
}

static bool left_something;

void cloud_leave(bool something)
{
	left_something = something;
}

json_t *cloud_left(void)
{
	json_t *left = json_array();

	assert(left != NULL);
	clouds_left(&sim, left);
	if (left_something) {
		json_array_append_new(left, json_string("a disk"));
	}
	return left;
}

bool cloud_raise(bool alive)
{
	struct inst *i = sim.insts;

	while (i != NULL &&
	    (i->cloud == CLOUD_COREWEAVE || other_is(i) ||
		i->state != (alive ? INST_GONE : INST_RUNNING))) {
		i = i->next;
	}
	if (i == NULL) {
		return coreweave_raise(alive);
	}
	i->state = alive ? INST_RUNNING : INST_GONE;
	return true;
}

void cloud_seem_young(bool young)
{
	for (struct inst *i = sim.insts; i != NULL; i = i->next) {
		i->launched_us += young ? SPOT_US_PER_HOUR * 24 : -SPOT_US_PER_HOUR * 24;
	}
}

void cloud_calm(void)
{
	(void)fault_drop(&sim, 0);
	coreweave_calm();
	faults_api_calm();
	unreachable_calm();
	sim.conf.lag_us = 0;
	cloud_post("/stock", json_pack("{s:s, s:n}", "pool", "*/*/*/*/*", "count"));
	for (struct inst *i = sim.insts; i != NULL; i = i->next) {
		if (i->state == INST_RUNNING && !other_is(i)) {
			host_cut(machine_of(i), false);
		}
	}
}
