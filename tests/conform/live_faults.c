/* Effects of the wire's, the clock's and the cloud's faults. */
#include "live.h"

#include "base/text/text.h"

#define RESET_BEFORE "\"kind\":\"reset_before\""
#define RESET_AFTER "\"kind\":\"reset_after\""
#define TRUNCATE "\"kind\":\"truncate\""
#define MALFORM "\"kind\":\"malform\""
#define HANG "\"kind\":\"hang\""
#define HANG_AFTER "\"kind\":\"hang\",\"after\":true"
#define DUPLICATE "\"kind\":\"duplicate\""
#define STATUS(n) "\"kind\":\"status\",\"status\":" #n
#define AFTER ",\"after\":true"

/* ---- the request that creates ---------------------------------------------------------------- */

/* A launch under that fault; afterwards there is one machine, or none, and the verdict did not lie
 * about it. */
static void launch_under(struct live *v, const char *members, size_t least, size_t most)
{
	struct spot_launch a = live_launch(v);
	struct spot_err err;
	enum spot_rc rc;
	size_t n;

	v->timeout_us = 2 * SPOT_US_PER_S;
	live_fault(v, v->cloud->create, members, 1);
	rc = live_run(v, CALL_LAUNCH, &a, &err);
	v->timeout_us = 0;
	live_struck(v);
	n = live_find(v, &a);
	if (n < least || n > most) {
		fail_msg("%s: %zu machines (%s %s)", members, n, spot_rc_name(rc), err.text);
	}
	if ((rc == SPOT_OK && n == 0) || (n > 0 && rc != SPOT_OK && rc != SPOT_UNKNOWN)) {
		fail_msg("%s: %zu machines, and the verdict is %s %s", members, n, spot_rc_name(rc),
		    err.text);
	}
	if (v->ops.token_scope != SPOT_TOKEN_NONE) {
		/* Doubt is ended by the same launch once more. */
		live_ok(v, CALL_LAUNCH, &a);
		assert_int_equal(live_find(v, &a), 1);
		assert_int_equal(live_count(v), 1);
	}
}

static void a_create_cut_off_before_its_effect(struct live *v)
{
	launch_under(v, RESET_BEFORE, 0, 1);
}
static void a_create_cut_off_after_its_effect(struct live *v)
{
	launch_under(v, RESET_AFTER, 1, 1);
}
static void a_create_whose_reply_is_cut(struct live *v)
{
	launch_under(v, TRUNCATE, 1, 1);
}
static void a_create_whose_reply_is_garbage(struct live *v)
{
	launch_under(v, MALFORM, 1, 1);
}
static void a_create_answered_with_500(struct live *v)
{
	launch_under(v, STATUS(500), 0, 1);
}
static void a_create_answered_with_503_after_its_effect(struct live *v)
{
	launch_under(v, STATUS(503) AFTER, 1, 1);
}
static void a_create_answered_with_html(struct live *v)
{
	launch_under(v, STATUS(502) ",\"body\":\"<html>Bad Gateway</html>\"", 0, 1);
}
static void a_create_that_hangs(struct live *v)
{
	launch_under(v, HANG, 0, 1);
}
static void a_create_that_hangs_after_its_effect(struct live *v)
{
	launch_under(v, HANG_AFTER, 1, 1);
}
static void a_create_that_arrives_twice(struct live *v)
{
	/* Without tokens nothing but the sweeper helps: both are found by name. */
	launch_under(v, DUPLICATE, 1, v->ops.token_scope == SPOT_TOKEN_NONE ? 2 : 1);
}

static void a_throttled_create_launches_once(struct live *v)
{
	struct spot_launch a = live_launch(v);
	struct spot_err err;
	enum spot_rc rc;

	live_fault(v, v->cloud->create, v->cloud->throttled, 1);
	v->timeout_us = 10 * SPOT_US_PER_S;
	rc = live_run(v, CALL_LAUNCH, &a, &err);
	v->timeout_us = 0;
	live_struck(v);
	assert_true(rc == SPOT_OK || rc == SPOT_THROTTLED);
	if (v->ops.token_scope == SPOT_TOKEN_NONE) {
		assert_int_equal(rc, SPOT_THROTTLED); /* nothing may be sent twice */
	} else if (v->cloud->throttled_for_s == 0) {
		assert_int_equal(rc, SPOT_OK);
	}
	assert_int_equal(live_find(v, &a), rc == SPOT_OK);
}

/* ---- the request that lists ------------------------------------------------------------------ */

/* One machine exists; a list under the fault names it or fails, and is never a shorter one. */
static enum spot_rc list_under(struct live *v, const char *members, int count, enum spot_rc want)
{
	struct spot_launch a = live_launch(v);
	struct spot_list list = { .install = LIVE_INSTALL,
		.region = (v->ops.caps & SPOT_CAP_ALL_REGIONS) != 0 ? "" : v->cloud->region };
	struct spot_err err;
	enum spot_rc rc;

	live_ok(v, CALL_LAUNCH, &a);
	live_fault(v, v->cloud->list, members, count);
	v->timeout_us = count < 0 ? 4 * SPOT_US_PER_S : 20 * SPOT_US_PER_S;
	rc = live_run(v, CALL_LIST, &list, &err);
	v->timeout_us = 0;
	live_struck(v);
	if (rc == SPOT_OK && live_in(&list) != 1) {
		fail_msg("%s: the list has %zu live machines, not 1", members, live_in(&list));
	}
	if (want != SPOT_RC_COUNT && rc != want) {
		fail_msg("%s: %s %s", members, spot_rc_name(rc), err.text);
	}
	return rc;
}

/* A vendor may say a pause that is longer than the call may take: then the call says so at once. */
static void a_throttled_list_comes_in_the_end(struct live *v)
{
	enum spot_rc rc = list_under(v, v->cloud->throttled, 1,
	    v->cloud->throttled_for_s > 0 ? SPOT_RC_COUNT : SPOT_OK);

	assert_true(rc == SPOT_OK || rc == SPOT_THROTTLED || rc == SPOT_TIMEOUT);
}
static void a_list_answered_with_500_comes_in_the_end(struct live *v)
{
	(void)list_under(v, STATUS(500), 1, SPOT_OK);
}
static void a_list_cut_off_comes_in_the_end(struct live *v)
{
	(void)list_under(v, RESET_AFTER, 1, SPOT_OK);
}
static void a_list_whose_reply_is_cut_is_never_shorter(struct live *v)
{
	(void)list_under(v, TRUNCATE, 1, SPOT_RC_COUNT);
}
static void a_list_of_garbage_is_never_shorter(struct live *v)
{
	(void)list_under(v, MALFORM, 1, SPOT_RC_COUNT);
}
static void a_list_that_hangs_ends_in_time(struct live *v)
{
	(void)list_under(v, HANG, -1, SPOT_TIMEOUT);
}

static void credentials_that_run_out_are_renewed(struct live *v)
{
	if (v->cloud->expired != NULL) {
		(void)list_under(v, v->cloud->expired, 1, SPOT_OK);
	}
}

static void a_clock_that_is_off_is_corrected_or_named(struct live *v)
{
	struct spot_list list = { .install = LIVE_INSTALL,
		.region = (v->ops.caps & SPOT_CAP_ALL_REGIONS) != 0 ? "" : v->cloud->region };
	struct spot_err err;

	if (!v->cloud->skew) {
		return;
	}
	live_fault(v, v->cloud->service, "\"kind\":\"clock_skew\",\"ms\":1200000", -1);
	if (live_run(v, CALL_LIST, &list, &err) != SPOT_OK) {
		fail_msg("%s %s", spot_rc_name(err.rc), err.text);
	}
	live_struck(v);
}

static void an_outage_is_no_evidence(struct live *v)
{
	struct spot_launch a = live_launch(v);
	struct spot_describe d = { .region = a.key.region, .refs_n = 1 };
	struct spot_terminate end = { .region = a.key.region,
		.zone = a.key.zone,
		.spot_request = "" };
	struct spot_launch b = live_launch(v);
	struct spot_err err;

	live_ok(v, CALL_LAUNCH, &a);
	d.refs = &a.instance.ref;
	end.ref = a.instance.ref;
	live_fault(v, v->cloud->service, STATUS(503), -1);
	v->timeout_us = 3 * SPOT_US_PER_S;
	assert_int_not_equal(live_run(v, CALL_DESCRIBE, &d, &err), SPOT_OK);
	assert_int_equal(spot_rc_act(err.rc), SPOT_ACT_LATER);
	assert_int_not_equal(live_run(v, CALL_TERMINATE, &end, &err), SPOT_OK);
	assert_int_not_equal(err.rc, SPOT_NOT_FOUND);
	assert_int_not_equal(live_run(v, CALL_LAUNCH, &b, &err), SPOT_OK);
	assert_int_not_equal(spot_rc_act(err.rc), SPOT_ACT_ELSEWHERE); /* it is no refusal either */
	live_struck(v);
	v->timeout_us = 0;
	assert_int_equal(live_plain(v, "DELETE",
			     arena_printf(v->arena, "%s/fault", live_text(v, "urls/control")), NULL,
			     NULL),
	    200);
	assert_int_equal(live_find(v, &a), 1);
}

/* ---- the request that ends ------------------------------------------------------------------- */

static void end_under(struct live *v, const char *members)
{
	struct spot_launch a = live_launch(v);
	struct spot_terminate end = { .region = a.key.region,
		.zone = a.key.zone,
		.spot_request = "" };
	struct spot_err err;
	enum spot_rc rc;

	live_ok(v, CALL_LAUNCH, &a);
	end.ref = a.instance.ref;
	v->timeout_us = 2 * SPOT_US_PER_S;
	live_fault(v, v->cloud->end, members, 1);
	rc = live_run(v, CALL_TERMINATE, &end, &err);
	v->timeout_us = 0;
	live_struck(v);
	assert_true(rc == SPOT_OK || rc == SPOT_UNKNOWN || spot_rc_act(rc) == SPOT_ACT_LATER);
	live_end(v, &a.instance);
	assert_int_equal(live_count(v), 0);
}

static void an_end_cut_off_before_its_effect(struct live *v)
{
	end_under(v, RESET_BEFORE);
}
static void an_end_cut_off_after_its_effect(struct live *v)
{
	end_under(v, RESET_AFTER);
}
static void an_end_answered_with_500(struct live *v)
{
	end_under(v, STATUS(500));
}
static void an_end_that_hangs(struct live *v)
{
	end_under(v, HANG);
}
static void an_end_that_arrives_twice(struct live *v)
{
	end_under(v, DUPLICATE);
}

#define CASE(fn) \
	{ \
		#fn, fn \
	}
const struct live_case live_faults[] = {
	CASE(a_create_cut_off_before_its_effect),
	CASE(a_create_cut_off_after_its_effect),
	CASE(a_create_whose_reply_is_cut),
	CASE(a_create_whose_reply_is_garbage),
	CASE(a_create_answered_with_500),
	CASE(a_create_answered_with_503_after_its_effect),
	CASE(a_create_answered_with_html),
	CASE(a_create_that_hangs),
	CASE(a_create_that_hangs_after_its_effect),
	CASE(a_create_that_arrives_twice),
	CASE(a_throttled_create_launches_once),
	CASE(a_throttled_list_comes_in_the_end),
	CASE(a_list_answered_with_500_comes_in_the_end),
	CASE(a_list_cut_off_comes_in_the_end),
	CASE(a_list_whose_reply_is_cut_is_never_shorter),
	CASE(a_list_of_garbage_is_never_shorter),
	CASE(a_list_that_hangs_ends_in_time),
	CASE(credentials_that_run_out_are_renewed),
	CASE(a_clock_that_is_off_is_corrected_or_named),
	CASE(an_outage_is_no_evidence),
	CASE(an_end_cut_off_before_its_effect),
	CASE(an_end_cut_off_after_its_effect),
	CASE(an_end_answered_with_500),
	CASE(an_end_that_hangs),
	CASE(an_end_that_arrives_twice),
	{ NULL, NULL },
};
