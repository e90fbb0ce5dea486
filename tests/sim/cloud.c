/* The clouds of tests/emulator in this process, on the same loop and clock. */
#include "world.h"
#include "cloud.h"
#include "host.h"

#include "../emulator/aws.h"
#include "../emulator/books.h"
#include "../emulator/clouds.h"
#include "../emulator/lambda.h"
#include "../emulator/s3.h"
#include "base/sbuf.h"
#include "base/str.h"

#include <dirent.h>
#include <unistd.h>

static struct sim sim;

/* ---- machines ---------------------------------------------------------------------------------- */

void agent_start(struct inst *i)
{
	struct host_spec s = {.id = i->id, .user_data = {i->user_data, i->user_data_n}, .gpus = i->pool->type->gpus,
	    .gpu = i->pool->type->gpu};

	i->agent_started = true;
	if (cloud_ops(i->cloud)->imds && !i->metadata_off)
		imds_open(i);
	s.imds_port = i->imds_port;
	host_boot(&s);
}

void agent_kill(struct inst *i)
{
	if (i->agent_started)
		host_end(i->id);
}

/* ---- opening ------------------------------------------------------------------------------------ */

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
	l->keys[l->keys_n++] = (struct lambda_ssh_key){dup_text("key-1"), dup_text("spotbroker"),
	    dup_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemoDemoDemoDemoDemoDemoDemoDemoDemoDemoDemo spotbroker")};
}

/* A small market: what every look at it costs is paid in each of the thousands of simulated hours. */
static bool kept(const char *file, const char *line)
{
	static const char *const types[] = {"g4dn.xlarge,", "g5.xlarge,", "g6.xlarge,", "g6.2xlarge,", "p5.4xlarge,"};
	static const char *const lambda[] = {"gpu_1x_a10,", "gpu_1x_h100_pcie,", "gpu_1x_gh200,", "us-east-1,", "us-west-1,", "us-west-2,"};

	if (str_prefix(file, "lambda_")) {
		for (size_t i = 0; i < ARRAY_LEN(lambda); i++) {
			if (str_prefix(line, lambda[i]))
				return true;
		}
		return false;
	}
	if (str_same(file, "aws_pools.csv") && strstr(line, "use1-az1,") == NULL && strstr(line, "use1-az2,") == NULL)
		return false;
	if (str_same(file, "aws_history.csv") && strstr(line, ",us-east-1,") == NULL)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (strstr(line, types[i]) != NULL)
			return true;
	}
	return false;
}

static void data_copy(const char *from, const char *to, const char *name, bool all)
{
	struct arena *a AUTO(arena) = arena_new(0);
	struct sbuf b AUTO(sbuf);
	struct str text;
	char path[1024];
	size_t lines = 0;

	snprintf(path, sizeof(path), "%s/%s", from, name);
	sbuf_init(&b, 0);
	if (!file_get(a, path, &text))
		return;
	for (const char *p = text.p, *end; p < text.p + text.n; p = end + 1) {
		char *line;

		end = strchrnul(p, '\n');
		line = arena_strndup(a, p, (size_t)(end - p));
		if (all || lines++ == 0 || kept(name, line))
			sbuf_printf(&b, "%s\n", line);
	}
	snprintf(path, sizeof(path), "%s/%s", to, name);
	if (!file_put(path, b.p, b.n, 0600))
		abort();
}

static const char *data_make(const char *dir)
{
	static const char *const fewer[] = {"aws_advisor.csv", "aws_history.csv", "aws_pools.csv", "aws_types.csv",
	    "lambda_regions.csv", "lambda_types.csv"};
	static char to[512];
	const char *from = sim_conf_default().data_dir;
	DIR *d = opendir(from);

	snprintf(to, sizeof(to), "%s/data", dir);
	dir_make(to, 0700);
	for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
		bool all = true;

		for (size_t i = 0; i < ARRAY_LEN(fewer); i++)
			all = all && !str_same(fewer[i], e->d_name);
		if (e->d_name[0] != '.')
			data_copy(from, to, e->d_name, all);
	}
	if (d != NULL)
		closedir(d);
	return to;
}

void cloud_open(const char *dir)
{
	struct spot_err err = {0};

	sim.conf = sim_conf_default();
	sim.conf.dir = dir;
	sim.conf.data_dir = data_make(dir);
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
	bucket_add();
	key_add();
}

void cloud_seed(uint64_t seed)
{
	rng_seeded_init(&sim.rng, seed * 2 + 1);
}

/* ---- the daemon's view ----------------------------------------------------------------------------- */

static void private_file(const char *path, const char *text)
{
	if (!file_put(path, text, strlen(text), 0600)) {
		fprintf(stderr, "sim: cannot write %s\n", path);
		exit(1);
	}
}

const char *cloud_conf(const char *dir)
{
	static char text[4096];
	char path[512], keys[600];
	struct arena *a AUTO(arena) = arena_new(0);
	json_t *doc = creds_json(&sim);
	json_t *aws = json_object_get(doc, "aws");

	snprintf(path, sizeof(path), "%s/aws-credentials", dir);
	snprintf(keys, sizeof(keys), "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n",
	    json_string_value(json_object_get(aws, "access_key_id")),
	    json_string_value(json_object_get(aws, "secret_access_key")));
	private_file(path, keys);
	setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	setenv("HOME", dir, 1);
	snprintf(path, sizeof(path), "%s/lambda.key", dir);
	snprintf(keys, sizeof(keys), "%s\n",
	    json_string_value(json_object_get(json_object_get(doc, "lambda"), "api_key")));
	private_file(path, keys);
	json_decref(doc);
	snprintf(text, sizeof(text),
	    "[provider aws]\nkind = aws\nendpoint = http://127.0.0.1:9000\n"
	    "advisor_url = http://127.0.0.1:9000/spot-advisor-data.json\nregions = us-east-1\n"
	    "identity_certs = %s/aws-identity.pem\n"
	    "[provider lambda]\nkind = lambda\nendpoint = http://127.0.0.1:9000\napi_key_file = %s\n"
	    "ssh_key_name = spotbroker\n",
	    sim.conf.dir, path);
	(void)a;
	return text;
}

/* ---- what happens ------------------------------------------------------------------------------------- */

struct inst *cloud_any(bool spot)
{
	struct inst *found = NULL;
	uint64_t n = 0;

	for (struct inst *i = sim.insts; i != NULL; i = i->next) {
		if (i->state == INST_RUNNING && (!spot || i->side == SIDE_SPOT) && rng_below(&world.dice, ++n) == 0)
			found = i;
	}
	return found;
}

void cloud_post(const char *path, json_t *body)
{
	struct spot_err err = {0};
	json_t *doc = json_pack("[{s:s, s:o}]", "post", path, "body", body);

	if (!control_apply(&sim, doc, &err)) {
		fprintf(stderr, "sim: %s: %s\n", path, err.text);
		abort();
	}
	json_decref(doc);
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
	if (i == NULL)
		return;
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

	if (i == NULL || i->cloud != CLOUD_AWS)
		return;
	trace("cloud %s costs %.3f", pool_text(i->pool, "spot", text), usd);
	cloud_post("/price", json_pack("{s:s, s:f}", "pool", text, "usd", usd));
	sometimes("a price jumped");
}

static void lie_minute(void)
{
	static const struct {
		const char *name, *service, *action, *kind;
		bool after;
		int status;
		const char *code;
	} lies[] = {
	    {"an instance was made and 500 answered", "ec2", "RunInstances", "status", true, 500, "InternalError"},
	    {"an instance was made and the line broke", "ec2", "RunInstances", "reset_after", false, 0, NULL},
	    {"a launch was never answered", "ec2", "RunInstances", "hang", true, 0, NULL},
	    {"Lambda launched and answered 500", "lambda", "POST /instance-operations/launch", "status", true, 500, "global/internal-error"},
	    {"Lambda launched and the line broke", "lambda", "POST /instance-operations/launch", "reset_after", false, 0, NULL},
	    {"EC2 served a launch twice", "ec2", "RunInstances", "duplicate", false, 0, NULL},
	    {"a terminate was done and 500 answered", "ec2", "TerminateInstances", "status", true, 500, "InternalError"},
	    {"a terminate was refused", "ec2", "TerminateInstances", "status", false, 503, "Unavailable"},
	    {"a list was refused", "ec2", "DescribeInstances", "status", false, 503, "RequestLimitExceeded"},
	    {"a list was cut short", "ec2", "DescribeInstances", "truncate", false, 0, NULL},
	    {"Lambda's list was cut short", "lambda", "GET /instances", "truncate", false, 0, NULL},
	    {"prices were garbage", "ec2", "DescribeSpotPriceHistory", "malform", false, 0, NULL},
	};
	size_t k = (size_t)rng_below(&world.dice, ARRAY_LEN(lies));
	json_t *body = json_pack("{s:{s:s, s:s}, s:s, s:i, s:b}", "match", "service", lies[k].service, "action",
	    lies[k].action, "kind", lies[k].kind, "count", (int)dice_us(1, 3), "after", lies[k].after);

	if (lies[k].status != 0)
		json_object_set_new(body, "status", json_integer(lies[k].status));
	if (lies[k].code != NULL)
		json_object_set_new(body, "code", json_string(lies[k].code));
	trace("cloud will lie: %s", lies[k].name);
	fault_seen(lies[k].name);
	cloud_post("/fault", body);
}

static void lag_minute(void)
{
	sim.conf.lag_us = rng_below(&world.dice, 3) == 0 ? dice_us(0, 90 * SPOT_US_PER_S) : 0;
}

void cloud_minute(void)
{
	struct inst *i;

	if (DICE(reclaim) && (i = cloud_any(true)) != NULL) {
		trace("cloud reclaims %s", i->id);
		sometimes("an instance was reclaimed");
		inst_reclaim(i, cloud_ops(i->cloud)->notice_s * SPOT_US_PER_S, 0, false);
	}
	if (DICE(kill) && (i = cloud_any(false)) != NULL) {
		trace("cloud kills %s", i->id);
		sometimes("an instance died without a word");
		inst_end(i, "kill", "Server.InternalError", "Server.InternalError: Internal error on launch");
	}
	if (DICE(part) && (i = cloud_any(false)) != NULL && host_runs(i->id)) {
		sometimes("a node was cut off");
		host_cut(i->id, true);
	}
	if (DICE(part) && (i = cloud_any(false)) != NULL)
		host_cut(i->id, false);
	if (DICE(part) && (i = cloud_any(false)) != NULL)
		host_agent_crash(i->id);
	if (DICE(stock))
		stock_minute();
	if (DICE(price))
		price_minute();
	if (DICE(lie)) {
		lie_minute();
		lag_minute();
	}
}

static struct inst *absent;
static int64_t absent_until;

/* What absence may mean is known of one list, never of two in a row: each machine is hidden once. */
void cloud_list_begins(const char *url, struct str body)
{
	static char had[256][32];
	static size_t had_n;
	bool ec2 = memmem(body.p, body.n, "Action=DescribeInstances", 24) != NULL;
	struct inst *i;

	if ((!ec2 && !str_suffix(url, "/instances")) || !DICE(absent) || (i = cloud_any(false)) == NULL ||
	    (i->cloud == CLOUD_AWS) != ec2 || had_n == ARRAY_LEN(had))
		return;
	for (size_t k = 0; k < had_n; k++) {
		if (str_same(had[k], i->id))
			return;
	}
	snprintf(had[had_n++], sizeof(had[0]), "%s", i->id);
	trace("cloud a list lacks %s", i->id);
	fault_seen("a list lacked an instance");
	absent = i;
	absent_until = i->visible_us;
	i->visible_us = INT64_MAX;
}

void cloud_list_ends(void)
{
	if (absent != NULL)
		absent->visible_us = absent_until;
	absent = NULL;
}

bool cloud_raise(bool alive)
{
	struct inst *i = sim.insts;

	while (i != NULL && i->state != (alive ? INST_GONE : INST_RUNNING))
		i = i->next;
	if (i != NULL)
		i->state = alive ? INST_RUNNING : INST_GONE;
	return i != NULL;
}

void cloud_calm(void)
{
	(void)fault_drop(&sim, 0);
	sim.conf.lag_us = 0;
	cloud_post("/stock", json_pack("{s:s, s:n}", "pool", "*/*/*/*/*", "count"));
	for (struct inst *i = sim.insts; i != NULL; i = i->next) {
		if (i->state == INST_RUNNING)
			host_cut(i->id, false);
	}
}

/* ---- for the checks -------------------------------------------------------------------------------------- */

size_t cloud_instances(struct cloud_instance **ret)
{
	size_t n = 0;
	struct cloud_instance *all = calloc((size_t)sim.inst_seq + 1, sizeof(*all));

	assert(all != NULL);
	for (const struct inst *i = sim.insts; i != NULL; i = i->next) {
		int64_t from, to;

		all[n++] = (struct cloud_instance){.id = i->id, .cloud = cloud_name(i->cloud),
		    .token = i->token != NULL ? i->token : i->name, .state = inst_state_name(i), .ended_by = i->ended_by,
		    .alive = i->state != INST_GONE && i->state != INST_SHUTTING, .running = i->state == INST_RUNNING,
		    .launched_us = i->launched_us, .running_us = i->running_us, .gone_us = i->billed_to_us,
		    .cost_micros = bill_micros(i, &from, &to)};
	}
	*ret = all;
	return n;
}

size_t cloud_double_launches(void)
{
	json_t *bill = books_bill(&sim);
	size_t n = json_array_size(json_object_get(bill, "double_launches"));

	json_decref(bill);
	return n;
}

bool cloud_object(const char *key)
{
	return s3_find(sim.s3->buckets, key) != NULL;
}
