/* The world of the live cases, and main: live CLOUDSIM CLOUD. */
#include "live.h"

#include "base/base.h"
#include "base/text/text.h"
#include "io/proc/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct live_cloud *const clouds[] = { &live_aws, &live_lambda, &live_gcp,
	&live_gcp_attached, &live_azure, &live_coreweave, &live_kubernetes };

static const char *program;

/* ---- the emulator ---------------------------------------------------------------------------- */

static bool is_announced(struct live *v)
{
	char *path = arena_printf(v->arena, "%s/cloudsim.json", v->dir);
	json_error_t why;

	if (v->doc == NULL) {
		v->doc = json_load_file(path, 0, &why);
	}
	return v->doc != NULL;
}

static void emulator_start(struct live *v, bool limits)
{
	const char *argv[] = { program, "--dir", v->dir, "--seed", "5", "--boot-ms", "40",
		"--terminate-ms", "40", limits ? NULL : "--no-throttle", NULL };
	const struct proc_spec spec = { .argv = argv,
		.in = -1,
		.out = -1,
		.err = 2,
		.uid = -1,
		.gid = -1,
		.death_signal = SIGKILL };
	struct spot_err err = { 0 };

	assert_int_equal(proc_spawn(&spec, &v->pid, &err), SPOT_OK);
	for (int i = 0; i < 2000 && !is_announced(v); i++) {
		loop_turn(v->loop, 10000);
	}
	assert_non_null(v->doc);
}

const char *live_text(struct live *v, const char *path)
{
	const json_t *at = v->doc;
	char word[64];

	while (at != NULL && *path != '\0') {
		size_t n = strcspn(path, "/");

		assert_true(n < sizeof(word));
		memcpy(word, path, n);
		word[n] = '\0';
		at = json_object_get(at, word);
		path += n + (path[n] == '/');
	}
	return json_string_value(at);
}

/* ---- requests beside the provider ------------------------------------------------------------ */

static void op_ignored(struct op *op UNUSED)
{
}

static void plain_send(struct live *v, struct http_req *req, struct spot_http_request *out)
{
	http_send(v->http, req, out, v->arena, false, op_ignored);
	while (op_busy(&req->op)) {
		loop_turn(v->loop, 20000);
	}
}

int live_plain(struct live *v, const char *method, const char *url, const char *bearer,
    const char *body)
{
	struct spot_http_request out = { .method = method,
		.url = url,
		.headers = { { "content-type", "application/json" } },
		.headers_n = 1 };
	struct http_req req = { 0 };

	if (bearer != NULL) {
		out.headers[out.headers_n++] = (struct spot_header){ "authorization",
			arena_printf(v->arena, "Bearer %s", bearer) };
	}
	out.body = str_from(body != NULL ? body : "");
	plain_send(v, &req, &out);
	return req.in.status;
}

void live_send(struct live *v, const struct spot_presign *p, const char *body,
    struct spot_http_request *out, struct http_req *req)
{
	*out = (struct spot_http_request){ .method = p->method,
		.url = p->url,
		.body = str_from(body) };
	for (size_t i = 0; i < p->headers_n; i++) {
		out->headers[out->headers_n++] = p->headers[i];
	}
	*req = (struct http_req){ 0 };
	plain_send(v, req, out);
}

json_t *live_form(struct live *v, const char *url, const char *body)
{
	struct spot_http_request out = { .method = "POST",
		.url = url,
		.body = str_from(body),
		.headers = { { "content-type", "application/x-www-form-urlencoded" } },
		.headers_n = 1 };
	struct http_req req = { 0 };
	json_error_t why;

	plain_send(v, &req, &out);
	return json_loadb(req.in.body.p, req.in.body.n, 0, &why);
}

json_t *live_control(struct live *v, const char *path, const char *body)
{
	struct spot_http_request out = {
		.method = body == NULL ? "GET" : "POST",
		.url = arena_printf(v->arena, "%s%s", live_text(v, "urls/control"), path),
		.headers = { { "content-type", "application/json" } },
		.headers_n = 1,
		.body = str_from(body != NULL ? body : ""),
	};
	struct http_req req = { 0 };
	json_error_t why;
	json_t *doc;

	plain_send(v, &req, &out);
	if (req.in.status != 200) {
		fail_msg("control %s %s: %d %s", path, body != NULL ? body : "", req.in.status,
		    req.in.body.p);
	}
	doc = json_loadb(req.in.body.p, req.in.body.n, 0, &why);
	assert_non_null(doc);
	return doc;
}

void live_fault(struct live *v, const char *at, const char *members, int count)
{
	live_record_faulty(true);
	json_decref(live_control(v, "/fault",
	    arena_printf(v->arena, "{\"match\":{%s},\"count\":%d,%s}", at, count, members)));
}

void live_unfault(struct live *v)
{
	live_record_faulty(false);
	(void)live_plain(v, "DELETE",
	    arena_printf(v->arena, "%s/fault", live_text(v, "urls/control")), NULL, NULL);
}

void live_struck(struct live *v)
{
	json_t *doc = live_control(v, "/fault", NULL), *f;
	const json_t *list = json_is_array(doc) ? doc : json_object_get(doc, "faults");
	json_int_t hits = 0;
	size_t i;

	json_array_foreach (list, i, f) {
		hits += json_integer_value(json_object_get(f, "hits"));
	}
	json_decref(doc);
	if (hits == 0) {
		fail_msg("the fault never struck: is its action's name right?");
	}
}

void live_pause(struct live *v, int64_t us)
{
	int64_t until = loop_mono_us(v->loop) + us;

	while (loop_mono_us(v->loop) < until) {
		loop_turn(v->loop, until - loop_mono_us(v->loop));
	}
}

/* ---- the provider ---------------------------------------------------------------------------- */

static const char *conf_env(void *ctx, const char *name)
{
	struct live *v = ctx;

	return v->cloud->env != NULL ? v->cloud->env(v, name) : NULL;
}

static const char *conf_setting(void *ctx, const char *key)
{
	struct live *v = ctx;

	return v->cloud->setting != NULL ? v->cloud->setting(v, key) : NULL;
}

static void provider_open(struct live *v, bool limits)
{
	struct spot_provider_conf conf = { .name = v->cloud->name,
		.env = conf_env,
		.setting = conf_setting,
		.ctx = v };
	struct spot_err err = { 0 };
	void *self = NULL;

	v->ops = *v->cloud->ops;
	if (!limits) {
		v->ops.limits_n = 0;
	}
	live_record(v);
	if (v->ops.open(&conf, &self, &err) != SPOT_OK) {
		fail_msg("open: %s", err.text);
	}
	v->p = call_provider_new(v->loop, v->http, &v->ops, self, v->cloud->name, NULL);
}

enum spot_rc live_run(struct live *v, enum call_verb verb, void *args, struct spot_err *err)
{
	struct call call = { 0 };
	int64_t timeout = v->timeout_us > 0 ? v->timeout_us : 60 * SPOT_US_PER_S;

	call_start(&call, v->p, verb, args, v->arena, timeout, 0, verb == CALL_TERMINATE,
	    op_ignored);
	while (op_busy(&call.op)) {
		loop_turn(v->loop, 20000);
	}
	*err = call.op.err;
	return call.op.rc;
}

void live_ok(struct live *v, enum call_verb verb, void *args)
{
	struct spot_err err;

	if (live_run(v, verb, args, &err) != SPOT_OK) {
		fail_msg("verb %d: %s %s: %s", (int)verb, spot_rc_name(err.rc), err.code, err.text);
	}
}

/* ---- up and down ----------------------------------------------------------------------------- */

static void log_here(struct live *v)
{
	log_init(&(struct log_conf){ .fd = v->log_fd,
	    .level = LOG_DEBUG,
	    .json = true,
	    .program = "live",
	    .clock = &clock_real });
}

void live_up(struct live *v, const struct live_cloud *cloud, const char *with, bool limits)
{
	static const struct http_client_conf client = { .user_agent = "test" };

	program = with;
	memset(v, 0, sizeof(*v));
	v->cloud = cloud;
	snprintf(v->dir, sizeof(v->dir), "/tmp/spot-live-XXXXXX");
	assert_non_null(mkdtemp(v->dir));
	rng_real_init(&v->rng);
	v->loop = loop_new(&clock_real, &v->rng);
	v->http = http_client_new(v->loop, &client);
	v->arena = arena_new(0);
	v->log_fd = open(arena_printf(v->arena, "%s/spotd.log", v->dir),
	    O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(v->log_fd >= 0);
	log_here(v);
	emulator_start(v, limits);
	if (cloud->prepare != NULL) {
		cloud->prepare(v);
	}
	provider_open(v, limits);
}

static void folder_remove(const char *dir)
{
	const char *const argv[] = { "/bin/rm", "-rf", dir, NULL };
	const struct proc_spec spec = { .argv = argv,
		.in = -1,
		.out = -1,
		.err = -1,
		.uid = -1,
		.gid = -1 };
	struct spot_err err = { 0 };
	int pid = 0;

	if (proc_spawn(&spec, &pid, &err) == SPOT_OK) {
		waitpid(pid, NULL, 0);
	}
}

void live_down(struct live *v)
{
	log_init(&(struct log_conf){ .fd = 2,
	    .level = LOG_INFO,
	    .program = "live",
	    .clock = &clock_real });
	call_provider_free(v->p);
	http_client_free(v->http);
	loop_turn(v->loop, 0);
	loop_free(v->loop);
	json_decref(v->doc);
	kill(v->pid, SIGTERM);
	waitpid(v->pid, NULL, 0);
	close(v->log_fd);
	folder_remove(v->dir);
	arena_free(v->arena);
}

static void not_in(const char *log, const char *secret)
{
	if (secret != NULL && strlen(secret) >= 8 && strstr(log, secret) != NULL) {
		fail_msg("a secret is in the log: it begins with %.4s", secret);
	}
}

static void leaves_not_in(const char *log, const json_t *doc, bool secret)
{
	const char *key;
	json_t *value;

	if (json_is_string(doc) && secret) {
		not_in(log, json_string_value(doc));
	}
	json_object_foreach ((json_t *)(uintptr_t)doc, key, value) {
		leaves_not_in(log, value,
		    strstr(key, "secret") != NULL || strcmp(key, "api_key") == 0 ||
			strstr(key, "token") != NULL || strstr(key, "private") != NULL ||
			strstr(key, "storage_key") != NULL);
	}
}

void live_log_check(struct live *v)
{
	const char *secrets[32];
	struct stat st;
	char *log;
	size_t n;

	assert_int_equal(fstat(v->log_fd, &st), 0);
	assert_true(st.st_size > 1000); /* something was logged at all */
	log = malloc((size_t)st.st_size + 1);
	assert_non_null(log);
	assert_int_equal(pread(v->log_fd, log, (size_t)st.st_size, 0), st.st_size);
	log[st.st_size] = '\0';
	n = v->ops.secrets(call_provider_self(v->p), secrets, ARRAY_LEN(secrets));
	assert_true(n > 0);
	for (size_t i = 0; i < n; i++) {
		not_in(log, secrets[i]);
	}
	leaves_not_in(log, json_object_get(v->doc, "credentials"), false);
	free(log);
}

/* ---- main ------------------------------------------------------------------------------------ */

static struct live world;

/* Cleans up after a case, so that it does not spoil the next one. */
static int case_clean(void **state UNUSED)
{
	if (world.p == NULL) {
		return 0;
	}
	world.timeout_us = 0;
	live_unfault(&world);
	json_decref(live_control(&world, "/config", "{\"lag_ms\":0}"));
	json_decref(live_control(&world, "/stock", "{\"pool\":\"*/*/*/*/*\",\"count\":null}"));
	live_end_all(&world);
	return 0;
}

static void case_run(void **state)
{
	const struct live_case *c = *state;

	log_here(&world);
	c->run(&world);
}

static void market_case(void **state)
{
	static struct live limited;

	live_up(&limited, *state, program, true);
	live_market_within_limits(&limited);
	live_log_check(&limited);
	live_down(&limited);
	log_here(&world);
}

static int suite_run(const struct live_cloud *cloud)
{
	struct CMUnitTest tests[64];
	size_t n = 0;

	tests[n++] = (struct CMUnitTest){ .name = "the market is read within the published limits",
		.test_func = market_case,
		.initial_state = (void *)(uintptr_t)cloud };
	for (const struct live_case *c = cloud->own; c != NULL && c->name != NULL; c++) {
		tests[n++] = (struct CMUnitTest){ .name = c->name,
			.test_func = case_run,
			.teardown_func = case_clean,
			.initial_state = (void *)(uintptr_t)c };
	}
	for (const struct live_case *c = live_faults; c->name != NULL; c++) {
		tests[n++] = (struct CMUnitTest){ .name = c->name,
			.test_func = case_run,
			.teardown_func = case_clean,
			.initial_state = (void *)(uintptr_t)c };
	}
	for (const struct live_case *c = live_cases; c->name != NULL; c++) {
		tests[n++] = (struct CMUnitTest){ .name = c->name,
			.test_func = case_run,
			.teardown_func = case_clean,
			.initial_state = (void *)(uintptr_t)c };
	}
	assert_true(n <= ARRAY_LEN(tests));
	/* cmocka counts the elements of an array that it is given; this one is not full. */
	return _cmocka_run_group_tests(cloud->name, tests, n, NULL, NULL);
}

int main(int argc, char **argv)
{
	int rc;

	for (size_t i = 0; argc == 3 && i < ARRAY_LEN(clouds); i++) {
		if (strcmp(clouds[i]->name, argv[2]) == 0) {
			program = argv[1];
			live_up(&world, clouds[i], argv[1], false);
			rc = suite_run(clouds[i]);
			live_down(&world);
			return rc;
		}
	}
	fprintf(stderr, "usage: live CLOUDSIM CLOUD\n");
	return 2;
}
