/*
 * A provider's verbs by hand: the real plugin through the real io/call, driven by lines of JSON.
 * The first line opens it ({"kind", "settings": {..}, "env": {..}}). Each further line is a call
 * ({"id", "verb", "args": {..}}), and each answer a line {"id", "rc", "code", "error", "result"}.
 * Calls run side by side. End of input ends it.
 */
#include "base/base.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/text/text.h"
#include "io/call/call.h"
#include "io/loop/loop.h"
#include "registry.h"

struct shell {
	struct loop *loop;
	struct http_client *http;
	struct call_provider *provider;
	struct loop_fd in;
	struct sbuf text;
	json_t *conf;
	bool over;
	int busy;
};

struct one {
	struct call call;
	struct shell *shell;
	struct arena *arena;
	json_int_t id;
	enum call_verb verb;
	union {
		struct spot_regions regions;
		struct spot_pools pools;
		struct spot_prices prices;
		struct spot_signals signals;
		struct spot_quotas quotas;
		struct spot_launch launch;
		struct spot_find find;
		struct spot_list list;
		struct spot_describe describe;
		struct spot_terminate terminate;
		struct spot_notices notices;
		struct spot_verify verify;
		struct spot_watch watch;
		struct spot_check check;
		const char *account;
	} a;
};

static const struct {
	const char *name;
	enum call_verb verb;
} verbs[] = {
	{ "regions", CALL_REGIONS },
	{ "pools", CALL_POOLS },
	{ "prices", CALL_PRICES },
	{ "launch", CALL_LAUNCH },
	{ "find", CALL_FIND },
	{ "list", CALL_LIST },
	{ "describe", CALL_DESCRIBE },
	{ "terminate", CALL_TERMINATE },
	{ "whoami", CALL_WHOAMI },
	{ "signals", CALL_SIGNALS },
	{ "quotas", CALL_QUOTAS },
	{ "notices", CALL_NOTICES },
	{ "verify", CALL_VERIFY },
	{ "watch", CALL_WATCH },
	{ "check", CALL_CHECK },
};

/* ---- out ------------------------------------------------------------------------------------- */

static json_t *instance_json(const struct spot_instance *i)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:b, s:s}",
	    "ref", i->ref, "token", i->token, "install", i->install, "state",
	    spot_instance_state_name(i->state), "raw_state", i->raw_state, "raw_reason",
	    i->raw_reason, "region", i->key.region != NULL ? i->key.region : "", "zone",
	    i->key.zone != NULL ? i->key.zone : "", "type",
	    i->key.instance_type != NULL ? i->key.instance_type : "", "market",
	    spot_market_name(i->key.market), "end_cause", (int)i->end_cause, "spot_request",
	    i->spot_request, "leftover", i->leftover, "ip", i->ip);
}

static json_t *instances_json(const struct spot_instance *i, size_t n)
{
	json_t *all = json_array();

	for (size_t k = 0; k < n; k++) {
		json_array_append_new(all, instance_json(&i[k]));
	}
	return all;
}

static json_t *notices_json(const struct spot_notice *x, size_t n)
{
	json_t *all = json_array();

	for (size_t k = 0; k < n; k++) {
		json_array_append_new(all,
		    json_pack("{s:s, s:s, s:I, s:s, s:s}", "ref", x[k].ref, "kind",
			spot_notice_name(x[k].kind), "deadline_us", (json_int_t)x[k].deadline_us,
			"source", x[k].source, "raw", x[k].raw));
	}
	return all;
}

static json_t *pools_json(const struct spot_pools *p)
{
	json_t *all = json_array();

	for (size_t k = 0; k < p->n; k++) {
		const struct spot_pool_info *x = &p->pools[k];

		json_array_append_new(all,
		    json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:s}", "region",
			x->key.region, "zone", x->key.zone, "type", x->key.instance_type, "market",
			spot_market_name(x->key.market), "gpu", x->shape.gpu_name, "gpu_milli",
			x->shape.gpu_milli, "vcpus", x->shape.vcpus, "mem_mib", x->shape.mem_mib,
			"arch", x->shape.arch));
	}
	return all;
}

static json_t *checks_json(const struct spot_check *c)
{
	json_t *all = json_array();

	for (size_t k = 0; k < c->n; k++) {
		json_array_append_new(all,
		    json_pack("{s:s, s:i, s:s, s:s}", "name", c->items[k].name, "state",
			(int)c->items[k].state, "words", c->items[k].words, "fix",
			c->items[k].fix));
	}
	return all;
}

static json_t *names_json(const struct spot_regions *r)
{
	json_t *all = json_array();

	for (size_t k = 0; k < r->n; k++) {
		json_array_append_new(all, json_string(r->names[k]));
	}
	return all;
}

static json_t *quotas_json(const struct spot_quotas *q)
{
	json_t *all = json_array();

	for (size_t k = 0; k < q->n; k++) {
		json_array_append_new(all,
		    json_pack("{s:s, s:s, s:I}", "class", q->quotas[k].class, "market",
			spot_market_name(q->quotas[k].market), "limit",
			(json_int_t)q->quotas[k].limit));
	}
	return all;
}

static json_t *result_json(const struct one *o)
{
	switch ((int)o->verb) {
	case CALL_REGIONS:
		return names_json(&o->a.regions);
	case CALL_POOLS:
		return pools_json(&o->a.pools);
	case CALL_LAUNCH:
		return instance_json(&o->a.launch.instance);
	case CALL_FIND:
		return instances_json(o->a.find.found, o->a.find.n);
	case CALL_LIST:
		return instances_json(o->a.list.found, o->a.list.n);
	case CALL_DESCRIBE:
		return instances_json(o->a.describe.found, o->a.describe.n);
	case CALL_TERMINATE:
		return json_pack("{s:s}", "state",
		    spot_instance_state_name(o->a.terminate.after.state));
	case CALL_WHOAMI:
		return json_string(o->a.account);
	case CALL_QUOTAS:
		return quotas_json(&o->a.quotas);
	case CALL_NOTICES:
		return notices_json(o->a.notices.notices, o->a.notices.n);
	case CALL_WATCH:
		return json_pack("{s:o, s:o, s:s, s:b}", "seen",
		    instances_json(o->a.watch.seen, o->a.watch.seen_n), "notices",
		    notices_json(o->a.watch.notices, o->a.watch.notices_n), "cursor",
		    o->a.watch.next_cursor, "gap", o->a.watch.gap);
	case CALL_CHECK:
		return checks_json(&o->a.check);
	default:
		return json_null();
	}
}

static void one_free(void *p)
{
	struct one *o = p;

	arena_free(o->arena);
	free(o);
}

static void call_done(struct op *op)
{
	struct call *call = container_of(op, struct call, op);
	struct one *o = container_of(call, struct one, call);
	json_t *result = op->rc == SPOT_OK ? result_json(o) : json_null();
	AUTO(json)
	json_t *line = json_pack("{s:I, s:s, s:s, s:s, s:o}", "id", o->id, "rc",
	    spot_rc_name(op->rc), "code", op->err.code, "error", op->err.text, "result",
	    result != NULL ? result : json_null());

	json_dumpf(line, stdout, JSON_COMPACT);
	putchar('\n');
	fflush(stdout);
	o->shell->busy--;
	loop_bury(o->shell->loop, o, one_free);
}

/* ---- in -------------------------------------------------------------------------------------- */

static const char *text_of(struct one *o, const json_t *args, const char *key)
{
	const char *s = json_string_value(json_object_get(args, key));

	return arena_strdup(o->arena, s != NULL ? s : "");
}

static const char **texts_of(struct one *o, const json_t *args, const char *key, size_t *n)
{
	const json_t *list = json_object_get(args, key);
	const char **all = arena_array(o->arena, json_array_size(list) + 1, sizeof(*all));

	for (*n = 0; *n < json_array_size(list); (*n)++) {
		all[*n] = arena_strdup(o->arena, json_string_value(json_array_get(list, *n)));
	}
	return all;
}

static void launch_args(struct one *o, const json_t *a)
{
	o->a.launch = (struct spot_launch){
		.key = { "", text_of(o, a, "region"), text_of(o, a, "zone"), text_of(o, a, "type"),
		    spot_market_parse(text_of(o, a, "market")) },
		.zone_name = "",
		.shape = { .gpu_name = "H100",
		    .gpu_milli = (int32_t)json_integer_value(json_object_get(a, "gpus")) * 1000,
		    .arch = "x86_64" },
		.token = text_of(o, a, "token"),
		.name = text_of(o, a, "name"),
		.install = text_of(o, a, "install"),
		.user_data = str_from(text_of(o, a, "user_data")),
		.audience = "https://broker.example",
	};
}

static void notices_args(struct one *o, const json_t *a)
{
	size_t n = 0;
	const char **refs = texts_of(o, a, "refs", &n);
	struct spot_instance *all = arena_array(o->arena, n + 1, sizeof(*all));

	for (size_t i = 0; i < n; i++) {
		all[i].ref = refs[i];
	}
	o->a.notices = (struct spot_notices){ .region = text_of(o, a, "region"),
		.instances = all,
		.instances_n = n };
}

static void args_read(struct one *o, const json_t *a)
{
	const char *region = text_of(o, a, "region"), *install = text_of(o, a, "install");

	switch ((int)o->verb) {
	case CALL_POOLS:
		o->a.pools.region = region;
		break;
	case CALL_QUOTAS:
		o->a.quotas.region = region;
		break;
	case CALL_LAUNCH:
		launch_args(o, a);
		break;
	case CALL_FIND:
		o->a.find = (struct spot_find){ .region = region,
			.zone = "",
			.token = text_of(o, a, "token"),
			.name = text_of(o, a, "name"),
			.install = install };
		break;
	case CALL_LIST:
		o->a.list = (struct spot_list){ .region = region, .install = install };
		break;
	case CALL_DESCRIBE:
		o->a.describe.region = region;
		o->a.describe.refs = texts_of(o, a, "refs", &o->a.describe.refs_n);
		break;
	case CALL_NOTICES:
		notices_args(o, a);
		break;
	case CALL_TERMINATE:
		o->a.terminate = (struct spot_terminate){ .region = region,
			.zone = "",
			.ref = text_of(o, a, "ref"),
			.spot_request = text_of(o, a, "spot_request") };
		break;
	case CALL_VERIFY:
		o->a.verify = (struct spot_verify){ .region = region,
			.zone = "",
			.ref = text_of(o, a, "ref"),
			.name = "",
			.proof = str_from(text_of(o, a, "proof")),
			.audience = "https://broker.example",
			.nonce = "" };
		break;
	case CALL_WATCH:
		o->a.watch = (struct spot_watch){ .region = region,
			.install = install,
			.cursor = text_of(o, a, "cursor"),
			.hold_us = json_integer_value(json_object_get(a, "hold_ms")) * 1000 };
		break;
	case CALL_CHECK:
		o->a.check.region = region;
		break;
	default:
		break;
	}
}

static void line_call(struct shell *s, const json_t *doc)
{
	const char *name = json_string_value(json_object_get(doc, "verb"));
	struct one *o = calloc(1, sizeof(*o));

	assert(o != NULL && name != NULL);
	o->shell = s;
	o->arena = arena_new(0);
	o->id = json_integer_value(json_object_get(doc, "id"));
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (strcmp(verbs[i].name, name) == 0) {
			o->verb = verbs[i].verb;
		}
	}
	assert(o->verb != 0);
	args_read(o, json_object_get(doc, "args"));
	s->busy++;
	call_start(&o->call, s->provider, o->verb, &o->a, o->arena, 120 * SPOT_US_PER_S, 0, false,
	    call_done);
}

static const char *conf_member(void *ctx, const char *group, const char *key)
{
	return json_string_value(json_object_get(json_object_get(ctx, group), key));
}

static const char *conf_env(void *ctx, const char *name)
{
	return conf_member(ctx, "env", name);
}

static const char *conf_setting(void *ctx, const char *key)
{
	return conf_member(ctx, "settings", key);
}

static void line_open(struct shell *s, json_t *doc)
{
	const char *kind = json_string_value(json_object_get(doc, "kind"));
	const struct spot_provider_ops *ops = provider_by_kind(kind);
	struct spot_provider_conf conf = { .name = kind,
		.env = conf_env,
		.setting = conf_setting,
		.ctx = doc };
	struct spot_err err = { 0 };
	void *self = NULL;

	assert(ops != NULL);
	if (ops->open(&conf, &self, &err) != SPOT_OK) {
		fprintf(stderr, "open: %s\n", err.text);
		exit(1);
	}
	s->conf = json_incref(doc);
	s->provider = call_provider_new(s->loop, s->http, ops, self, kind, NULL);
}

static void line_read(struct shell *s, struct str line)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *doc = NULL;

	if (json_parse(line, "line", &doc, &err) != SPOT_OK) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	if (s->provider == NULL) {
		line_open(s, doc);
	} else {
		line_call(s, doc);
	}
}

static void input_readable(struct loop_fd *f, int events UNUSED)
{
	struct shell *s = container_of(f, struct shell, in);
	char chunk[65536];
	ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));
	char *nl;

	if (n <= 0) {
		loop_fd_stop(f);
		s->over = true;
		return;
	}
	sbuf_add(&s->text, chunk, (size_t)n);
	while (s->text.n > 0 && (nl = memchr(s->text.p, '\n', s->text.n)) != NULL) {
		size_t len = (size_t)(nl - s->text.p);

		line_read(s, (struct str){ s->text.p, len });
		sbuf_consume(&s->text, len + 1);
	}
}

int main(void)
{
	struct shell s = { 0 };
	struct rng rng;

	rng_real_init(&rng);
	s.loop = loop_new(&clock_real, &rng);
	s.http =
	    http_client_new(s.loop, &(struct http_client_conf){ .user_agent = "spotbroker-test" });
	sbuf_init(&s.text, 1 << 20);
	loop_fd_init(&s.in, s.loop, input_readable);
	loop_fd_set(&s.in, STDIN_FILENO, LOOP_READ);
	while (!s.over) {
		loop_turn(s.loop, SPOT_US_PER_S);
	}
	call_provider_free(s.provider);
	loop_turn(s.loop, 0);
	http_client_free(s.http);
	sbuf_fini(&s.text);
	json_decref(s.conf);
	loop_free(s.loop);
	return 0;
}
