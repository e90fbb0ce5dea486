/* Which requests a notification wakes. The tests of tests/integration/api park real ones. */
#include "base/base.h"
#include "api/server/server_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct rng rng;
static struct loop *loop;
static struct api api;
static struct areq req;

static int set_up(void **state UNUSED)
{
	rng_seeded_init(&rng, 1);
	loop = loop_new(NULL, &rng);
	api = (struct api){ .loop = loop };
	req = (struct areq){ .api = &api };
	return 0;
}

static int tear_down(void **state UNUSED)
{
	areq_unwatch(&req);
	assert_int_equal(api.waiting, 0);
	loop_free(loop);
	return 0;
}

static void look_never(struct areq *q UNUSED)
{
	fail();
}

/* Registers the request for node 7, whose statement began at `since`. True: it looks again. */
static bool node_watched(uint64_t since)
{
	areq_unwatch(&req);
	areq_watch_since(&req, since, 'n', 7, 1000, 1000, look_never);
	return req.wait.waiter.woken;
}

static void a_notification_during_the_statement_wakes(void **state UNUSED)
{
	uint64_t since;

	wait_wake(&api, "n7");
	since = areq_notes(&req);
	assert_false(node_watched(since)); /* the statement has seen that one */
	wait_wake(&api, "n8");
	wait_wake(&api, "j7");
	wait_wake(&api, "");
	wait_wake(&api, "n7x");
	assert_false(req.wait.waiter.woken);
	assert_false(node_watched(since));
	wait_wake(&api, "n7");
	assert_true(req.wait.waiter.woken); /* it is registered already */
	assert_true(node_watched(since));
	assert_false(node_watched(areq_notes(&req)));
}

static void with_too_many_notifications_since_then_it_looks_again(void **state UNUSED)
{
	uint64_t since = areq_notes(&req);

	for (int i = 0; i < WAIT_NOTES; i++) {
		wait_wake(&api, "n8");
	}
	assert_false(node_watched(since));
	wait_wake(&api, "n8");
	assert_true(node_watched(since));
}

/* The statement of a request that does not wait yet may be older than the notifications that a
 * lost connection swallowed. */
static void after_a_reconnect_a_running_statement_is_not_trusted(void **state UNUSED)
{
	uint64_t since = areq_notes(&req);

	assert_false(node_watched(since));
	wait_wake_all(&api);
	assert_true(req.wait.waiter.woken); /* it is registered already */
	assert_true(node_watched(since));
	assert_false(node_watched(areq_notes(&req)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_notification_during_the_statement_wakes, set_up,
		    tear_down),
		cmocka_unit_test_setup_teardown(
		    with_too_many_notifications_since_then_it_looks_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
		    after_a_reconnect_a_running_statement_is_not_trusted, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
