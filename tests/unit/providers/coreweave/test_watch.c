#include "base/base.h"
#include "cases.h"

#include "base/text/text.h"

/* The watch: where it begins, bookmarks, news, and history that is gone. */

#define MARK(rv) \
	"{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":" \
	"\"" rv "\"}}}\n"
#define EVENT(type, pod) "{\"type\":\"" type "\",\"object\":" pod "}\n"
#define EXPIRED \
	"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":" \
	"\"Expired\",\"code\":410}}\n"
#define RUNNING CW_POD("", ",\"nodeName\":\"g1\"", "\"phase\":\"Running\"")
#define LEAVING \
	CW_POD(",\"deletionTimestamp\":\"2015-08-30T12:42:40Z\",\"deletionGracePeriodSeconds\":" \
	       "400", \
	    ",\"nodeName\":\"g1\"", "\"phase\":\"Running\"")
#define OURS \
	CW_POD(",\"deletionTimestamp\":\"2015-08-30T12:42:40Z\",\"deletionGracePeriodSeconds\":" \
	       "31", \
	    ",\"nodeName\":\"g1\"", "\"phase\":\"Running\"")

static struct spot_watch watch_run(const struct drive_try *t, size_t n, const char *cursor,
    enum spot_step want)
{
	struct spot_watch a = { .region = "US-EAST",
		.install = CW_INSTALL,
		.cursor = cursor,
		.hold_us = 20 * SPOT_US_PER_S };
	static char kept[200];
	struct drive d;

	cw_open(&d, &coreweave_ops, NULL);
	drive_script(&d, t, n);
	if (drive_run(&d, DRIVE_WATCH, &a) != want) {
		fail_msg("watch: %s", d.call.err.text);
	}
	drive_used(&d);
	snprintf(kept, sizeof(kept), "%s", a.next_cursor != NULL ? a.next_cursor : "");
	a.next_cursor = kept;
	/* results live in the arena: the tests copy the fields that they check */
	static struct spot_instance seen[4];
	static struct spot_notice notices[4];
	a.seen_n = MIN(a.seen_n, (size_t)4);
	a.notices_n = MIN(a.notices_n, (size_t)4);
	for (size_t i = 0; i < a.seen_n; i++) {
		seen[i] = a.seen[i];
	}
	for (size_t i = 0; i < a.notices_n; i++) {
		notices[i] = a.notices[i];
	}
	a.seen = seen;
	a.notices = notices;
	drive_fini(&d);
	return a;
}

static void the_first_call_lists_and_tells_where_to_go_on(void **state)
{
	static const struct drive_try t = { .method = "GET",
		.hasnt = { "watch=1" },
		.status = 200,
		.reply = CW_LIST("PodList", RUNNING) };
	struct spot_watch a;

	(void)state;
	a = watch_run(&t, 1, "", SPOT_DONE);
	assert_int_equal(a.seen_n, 1);
	assert_false(a.gap);
	assert_string_equal(a.next_cursor, "/turn=1 main=9");
}

static void bookmarks_move_the_place_on_without_news(void **state)
{
	static const struct drive_try t = { .method = "GET",
		.status = 200,
		.lines = { MARK("11"), MARK("12") } };
	struct spot_watch a;

	(void)state;
	a = watch_run(&t, 1, "/turn=0 main=7", SPOT_DONE);
	assert_int_equal(a.seen_n, 0);
	assert_string_equal(a.next_cursor, "/turn=1 main=12");
}

static void the_first_news_end_the_call(void **state)
{
	static const struct drive_try taken = { .status = 200,
		.lines = { MARK("11"), EVENT("MODIFIED", LEAVING) } };
	static const struct drive_try ours = { .status = 200,
		.lines = { EVENT("MODIFIED", OURS) } };
	static const struct drive_try vanished = { .status = 200,
		.lines = { EVENT("DELETED", RUNNING) } };
	static const struct drive_try gone = { .status = 200, .lines = { EVENT("DELETED", OURS) } };
	struct spot_watch a;

	(void)state;
	a = watch_run(&taken, 1, "main=7", SPOT_DONE);
	assert_int_equal(a.notices_n, 1);
	assert_int_equal(a.notices[0].kind, SPOT_NOTICE_INTERRUPTION);
	assert_int_equal(a.notices[0].deadline_us, DRIVE_NOW_US + 400 * SPOT_US_PER_S);
	assert_int_equal(a.seen[0].state, SPOT_INSTANCE_STOPPING);
	a = watch_run(&ours, 1, "main=7", SPOT_DONE);
	assert_int_equal(a.notices_n, 0);
	assert_int_equal(a.seen_n, 1);
	a = watch_run(&gone, 1, "main=7", SPOT_DONE);
	assert_int_equal(a.seen[0].state, SPOT_INSTANCE_GONE);
	assert_int_equal(a.seen[0].end_cause, SPOT_END_USER);
	/* nobody of us ended it, and it did not end by itself */
	a = watch_run(&vanished, 1, "main=7", SPOT_DONE);
	assert_int_equal(a.seen[0].state, SPOT_INSTANCE_GONE);
	assert_int_equal(a.seen[0].end_cause, SPOT_END_RECLAIM);
}

static void history_that_is_gone_is_a_gap_and_a_new_list(void **state)
{
	static const struct drive_try by_status[] = {
		{ .status = 410, .reply = CW_STATUS(410, "Expired", "too old", "{}") },
		{ .hasnt = { "watch=1" }, .status = 200, .reply = CW_LIST("PodList", RUNNING) }
	};
	static const struct drive_try by_event[] = { { .status = 200, .lines = { EXPIRED } },
		{ .hasnt = { "watch=1" }, .status = 200, .reply = CW_LIST("PodList", RUNNING) } };
	struct spot_watch a;

	(void)state;
	a = watch_run(by_status, 2, "main=1", SPOT_DONE);
	assert_true(a.gap);
	assert_int_equal(a.seen_n, 1);
	assert_string_equal(a.next_cursor, "/turn=1 main=9");
	a = watch_run(by_event, 2, "main=1", SPOT_DONE);
	assert_true(a.gap);
	assert_string_equal(a.next_cursor, "/turn=1 main=9");
}

static void a_stream_that_is_cut_keeps_what_came(void **state)
{
	static const struct drive_try t = { .status = 200,
		.lines = { MARK("11") },
		.reply = "{\"type\":\"MODIF" };
	struct spot_watch a;

	(void)state;
	a = watch_run(&t, 1, "main=7", SPOT_DONE);
	assert_string_equal(a.next_cursor, "/turn=1 main=11");
}

static void nonsense_in_a_stream_is_a_bad_reply(void **state)
{
	static const struct drive_try junk = { .status = 200, .lines = { "<html>\n" } };
	static const struct drive_try no_pod = { .status = 200,
		.lines = { "{\"type\":\"ADDED\",\"object\":{}}\n" } };

	(void)state;
	watch_run(&junk, 1, "main=7", SPOT_FAIL);
	watch_run(&no_pod, 1, "main=7", SPOT_FAIL);
}

static void a_cursor_of_nobody_is_a_new_beginning(void **state)
{
	static const struct drive_try t = { .hasnt = { "watch=1" },
		.status = 200,
		.reply = CW_LIST("PodList", "") };

	(void)state;
	watch_run(&t, 1, "other=7", SPOT_DONE);
	watch_run(&t, 1, "main=a&b", SPOT_DONE);
	watch_run(&t, 1, "main=", SPOT_DONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_call_lists_and_tells_where_to_go_on),
		cmocka_unit_test(bookmarks_move_the_place_on_without_news),
		cmocka_unit_test(the_first_news_end_the_call),
		cmocka_unit_test(history_that_is_gone_is_a_gap_and_a_new_list),
		cmocka_unit_test(a_stream_that_is_cut_keeps_what_came),
		cmocka_unit_test(nonsense_in_a_stream_is_a_bad_reply),
		cmocka_unit_test(a_cursor_of_nobody_is_a_new_beginning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
