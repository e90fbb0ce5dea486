/* The loader of out-of-tree providers, and one of them at work behind io/call. */
#include "base/base.h"

#include "call_fake.h"

#define DIR_AND(name) PLUGIN_DIR "/" name

static void assert_refused(const char *path, const char *words)
{
	const struct spot_provider_ops *ops = NULL;
	struct spot_err err = { 0 };

	assert_int_equal(call_plugin_load(path, &ops, &err), SPOT_CONFIG);
	assert_null(ops);
	if (strstr(err.text, words) == NULL) {
		fail_msg("'%s' lacks '%s'", err.text, words);
	}
}

static void a_wrong_object_is_refused_with_the_reason(void **state)
{
	(void)state;
	assert_refused(DIR_AND("no_such_file.so"), "no_such_file.so");
	assert_refused("libc.so.6", "path");
	assert_refused(NULL, "path");
	assert_refused(DIR_AND("acme_wrong_abi.so"), "ABI 3");
	assert_refused(DIR_AND("acme_wrong_size.so"), "8 bytes");
	assert_refused(DIR_AND("acme_no_symbol.so"), "'spot_provider'");
	assert_refused(DIR_AND("acme_no_terminate.so"), "'terminate'");
}

static const char *conf_get(void *ctx, const char *key)
{
	return strcmp(key, "endpoint") == 0 ? ctx : NULL;
}

static const struct spot_provider_ops *plugin_load(void)
{
	const struct spot_provider_ops *ops = NULL;
	struct spot_err err = { 0 };

	if (call_plugin_load(DIR_AND("acme.so"), &ops, &err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
	return ops;
}

static void a_right_one_is_loaded_again_as_the_same_table(void **state)
{
	const struct spot_provider_ops *ops = plugin_load();

	(void)state;
	assert_string_equal(ops->kind, "acme");
	assert_ptr_equal(ops, plugin_load());
}

static void serve_machines(struct fake *f UNUSED, struct httpd_req *r)
{
	static const char body[] =
	    "[{\"id\":\"m1\",\"label\":\"i1/"
	    "t1\",\"state\":\"up\",\"region\":\"moon\",\"kind\":\"big\"},"
	    "{\"id\":\"m2\",\"label\":\"i2/"
	    "t1\",\"state\":\"up\",\"region\":\"moon\",\"kind\":\"big\"},"
	    "{\"id\":\"m3\",\"label\":\"i1/"
	    "t3\",\"state\":\"melted\",\"region\":\"moon\",\"kind\":\"big\"}]";

	httpd_reply(r, 200, "application/json", body, sizeof(body) - 1);
}

static void plug_done(struct op *op)
{
	struct call *call = container_of(op, struct call, op);

	*(bool *)call->priv = true;
}

static void a_verb_of_it_runs_over_http(void **state)
{
	struct fake *f = *state;
	const struct spot_provider_ops *ops = plugin_load();
	struct spot_provider_conf conf = { .name = "acme1",
		.env = conf_get,
		.setting = conf_get,
		.ctx = f->url };
	struct spot_list a = { .region = "", .install = "i1" };
	struct spot_err err = { 0 };
	struct call_provider *p;
	struct call call = { 0 };
	bool done = false;
	void *self = NULL;

	f->serve = serve_machines;
	assert_int_equal(ops->open(&conf, &self, &err), SPOT_OK);
	p = call_provider_new(f->loop, f->http, ops, self, "acme1", NULL);
	call.priv = &done;
	call_start(&call, p, CALL_LIST, &a, f->arena, 60 * SPOT_US_PER_S, 0, false, plug_done);
	for (int i = 0; i < 10000 && !done; i++) {
		fake_turns(f, 1);
	}
	assert_true(done);
	assert_int_equal(call.op.rc, SPOT_OK);
	assert_string_equal(f->path[0], "/v1/machines");
	assert_int_equal(a.n, 2);
	assert_string_equal(a.found[0].ref, "m1");
	assert_string_equal(a.found[0].key.provider, "acme1");
	assert_int_equal(a.found[1].state, SPOT_INSTANCE_ODD);
	call_provider_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_object_is_refused_with_the_reason),
		cmocka_unit_test(a_right_one_is_loaded_again_as_the_same_table),
		cmocka_unit_test_setup_teardown(a_verb_of_it_runs_over_http, fake_setup,
		    fake_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
