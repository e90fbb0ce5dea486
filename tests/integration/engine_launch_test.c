/* Launches of which one try says nothing about another. */
#include "engine_world.h"
#include "io/httpd.h"

/* ---- doubt within one call -------------------------------------------------------------------- */

static int faults;

static void serve(void *ctx UNUSED, struct httpd_req *r)
{
	httpd_reply(r, faults-- > 0 ? 500 : 200, "text/plain", "", 0);
}

/* The first try of a launch makes machines and is answered HTTP 500; what the next is answered, the test says before. */
static void launched_in_doubt(struct world *w, const char *spec)
{
	static char url[64];
	struct httpd_conf conf = {.address = "127.0.0.1", .handle = serve};
	struct httpd *h;
	struct spot_err err = {0};

	world_pool(w, "z1", "a1", "on_demand", 1000000);
	world_start(w);
	faults = 1;
	assert_int_equal(httpd_new(w->loop, &conf, &h, &err), SPOT_OK);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/launch", httpd_port(h));
	w->cloud.wire = url;
	world_job(w, spec);
	world_until(w, LIMIT, "SELECT count(*) FROM event WHERE was = 'LAUNCHING'");
	w->cloud.wire = NULL;
	httpd_free(h);
	world_until(w, LIMIT, "SELECT count(*) FROM job WHERE state = 'RUNNING'");
}

static void found_and_alone(struct world *w, int64_t machines)
{
	assert_int_equal((int64_t)w->cloud.n, machines);
	assert_int_equal(cloud_doubled(&w->cloud), 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), machines);
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'FOUND'"), machines);
	world_exit_all(w);
	world_until(w, LIMIT, "SELECT bool_and(state = 'SUCCEEDED')::int FROM job");
	world_check_end(w);
}

static void test_a_refusal_after_a_try_in_doubt_proves_nothing(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.denies = 1;
	launched_in_doubt(w, "{}");
	assert_int_equal(world_int(w, "SELECT count(*) FROM event WHERE event = 'AMBIGUOUS' AND why LIKE 'its repeat was refused: %'"), 1);
	found_and_alone(w, 1);
}

static void test_a_gangs_refusal_after_a_try_in_doubt_proves_nothing(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.gangs = true;
	w->cloud.denies = 1;
	launched_in_doubt(w, "{\"num_nodes\": 3}");
	found_and_alone(w, 3);
}

static void test_a_launch_that_is_put_off_after_a_try_in_doubt_is_looked_up(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.throttle = 1;
	launched_in_doubt(w, "{}");
	found_and_alone(w, 1);
}

static void test_without_tokens_no_refusal_after_a_try_in_doubt_proves_anything(void **state)
{
	struct world *w = *state;

	world_reset(w, false);
	w->cloud.throttle = 1;
	launched_in_doubt(w, "{}");
	found_and_alone(w, 1);

	world_reset(w, false);
	cloud_room(&w->cloud, "z1/a1/on_demand", 1);
	launched_in_doubt(w, "{}");
	found_and_alone(w, 1);
}

#define T(f) cmocka_unit_test(f)
/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    T(test_a_refusal_after_a_try_in_doubt_proves_nothing),
	    T(test_a_gangs_refusal_after_a_try_in_doubt_proves_nothing),
	    T(test_a_launch_that_is_put_off_after_a_try_in_doubt_is_looked_up),
	    T(test_without_tokens_no_refusal_after_a_try_in_doubt_proves_anything),
	};

	if (argc > 1) {
		cmocka_set_test_filter(argv[1]);
	}
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
