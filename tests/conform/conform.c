/* The suite. Each case runs once per provider; its name ends with the provider. */
#include "base/base.h"
#include "conform.h"

#include "base/text/text.h"
#include "registry.h"

#define PAGES 3000
#define SCRIPT_MAX 16
#define FOR_EVER 12 /* more than one call ever repeats */

static const struct conform_provider *const providers[] = { &conform_aws, &conform_azure,
	&conform_coreweave, &conform_kubernetes, &conform_gcp, &conform_lambda };

struct run {
	const struct conform_provider *p;
	struct drive d;
};

static void open_run(struct run *r, const struct conform_provider *p)
{
	r->p = p;
	drive_init(&r->d, p->ops, p->env, p->settings);
	drive_script(&r->d, p->auth, p->auth_n);
	assert_int_equal(drive_run(&r->d, DRIVE_AUTH, NULL), SPOT_DONE);
	drive_used(&r->d);
}

static void close_run(struct run *r)
{
	drive_fini(&r->d);
}

/* drive.c checks the provider's own secrets on every verdict; these are those in replies. */
static void no_secrets(const struct run *r)
{
	for (const char *const *s = r->p->secrets; *s != NULL; s++) {
		if (strstr(r->d.call.err.text, *s) != NULL ||
		    strstr(r->d.call.err.code, *s) != NULL) {
			fail_msg("a secret is in: %s", r->d.call.err.text);
		}
	}
}

static struct drive_try as_try(const struct conform_reply *r)
{
	return (struct drive_try){ .status = r->status, .reply = r->body };
}

static struct drive_try reply_good(const char *body)
{
	return (struct drive_try){ .status = 200, .reply = body };
}

/* before, the tried request, after */
static void script_set(struct run *r, struct conform_tries before, const struct drive_try *tries,
    size_t n, struct conform_tries after)
{
	struct drive_try *all = arena_array(r->d.arena, before.n + n + after.n + 1, sizeof(*all));

	if (before.n > 0) {
		memcpy(all, before.t, before.n * sizeof(*all));
	}
	memcpy(all + before.n, tries, n * sizeof(*all));
	if (after.n > 0) {
		memcpy(all + before.n + n, after.t, after.n * sizeof(*all));
	}
	drive_script(&r->d, all, before.n + n + after.n);
}

/* The same reply as often as any call may ask. */
static const struct drive_try *for_ever(struct run *r, struct drive_try t)
{
	struct drive_try *all = arena_array(r->d.arena, FOR_EVER, sizeof(*all));

	for (size_t i = 0; i < FOR_EVER; i++) {
		all[i] = t;
	}
	return all;
}

/* A call that succeeded used all of its script; one that failed may leave the rest. */
static enum spot_step run_over(struct run *r, enum spot_step s)
{
	if (s == SPOT_DONE) {
		drive_used(&r->d);
	}
	r->d.used = r->d.script_n;
	no_secrets(r);
	return s;
}

static enum spot_step run_list(struct run *r, const struct drive_try *script, size_t n,
    struct spot_list *a)
{
	*a = (struct spot_list){ .region = r->p->region, .install = r->p->install };
	script_set(r, r->p->list_before, script, n, r->p->list_after);
	return run_over(r, drive_run(&r->d, DRIVE_LIST, a));
}

static enum spot_step run_launch(struct run *r, const struct drive_try *script, size_t n,
    struct spot_launch *a)
{
	*a = r->p->launch;
	script_set(r, r->p->launch_before, script, n, r->p->launch_after);
	return run_over(r, drive_run(&r->d, DRIVE_LAUNCH, a));
}

static enum spot_step run_refused(struct run *r, const struct conform_reply *at_once,
    struct conform_tries later, struct spot_launch *a)
{
	struct drive_try t = as_try(at_once);

	return later.n > 0 ? run_launch(r, later.t, later.n, a) : run_launch(r, &t, 1, a);
}

static void assert_failed(const struct run *r, enum spot_step s, enum spot_rc rc)
{
	assert_int_equal(s, SPOT_FAIL);
	if (r->d.call.err.rc != rc) {
		fail_msg("rc is %s, not %s: %s", spot_rc_name(r->d.call.err.rc), spot_rc_name(rc),
		    r->d.call.err.text);
	}
}

/* ---- accepted calls -------------------------------------------------------------------------- */

static void a_throttled_read_waits_as_told_and_succeeds(void **state)
{
	struct run r;
	struct spot_list a;
	struct drive_try script[2];

	open_run(&r, *state);
	script[0] = as_try(&r.p->throttled);
	script[0].reply_headers[0] = "Retry-After: 7";
	script[1] = reply_good(r.p->list_good);
	assert_int_equal(run_list(&r, script, 2, &a), SPOT_DONE);
	assert_int_equal(r.d.waited_us, 7 * SPOT_US_PER_S);
	assert_int_equal(r.d.agains, 1);
	assert_true(a.n > 0);
	script[0].reply_headers[0] = NULL;
	assert_int_equal(run_list(&r, script, 2, &a), SPOT_DONE);
	assert_int_equal(r.d.waited_us, 0); /* left to the core's own backoff */
	close_run(&r);
}

static void a_read_that_stays_throttled_says_so(void **state)
{
	struct run r;
	struct spot_list a;

	open_run(&r, *state);
	assert_failed(&r, run_list(&r, for_ever(&r, as_try(&r.p->throttled)), FOR_EVER, &a),
	    SPOT_THROTTLED);
	close_run(&r);
}

static void a_fault_or_a_lost_reply_of_a_read_is_repeated(void **state)
{
	struct run r;
	struct spot_list a;
	struct drive_try script[3];

	open_run(&r, *state);
	script[0] = as_try(&r.p->broken);
	script[1] = (struct drive_try){ .status = 0 };
	script[2] = reply_good(r.p->list_good);
	assert_int_equal(run_list(&r, script, 3, &a), SPOT_DONE);
	assert_int_equal(r.d.agains, 2);
	close_run(&r);
}

static void a_read_that_stays_broken_may_be_tried_later(void **state)
{
	struct run r;
	struct spot_list a;

	open_run(&r, *state);
	assert_failed(&r, run_list(&r, for_ever(&r, as_try(&r.p->broken)), FOR_EVER, &a),
	    SPOT_UNAVAILABLE);
	close_run(&r);
}

static void credentials_that_expire_mid_call_are_renewed_once(void **state)
{
	struct run r;
	struct spot_list list;
	struct spot_launch launch;
	struct drive_try script[SCRIPT_MAX];
	size_t n = 0;

	open_run(&r, *state);
	script[n++] = as_try(&r.p->expired);
	for (size_t i = 0; i < r.p->auth_n; i++) {
		script[n++] = r.p->auth[i];
	}
	script[n] = reply_good(r.p->list_good);
	assert_int_equal(run_list(&r, script, n + 1, &list), SPOT_DONE);
	assert_int_equal(r.d.reauths, 1);
	drive_used(&r.d);
	script[n] =
	    reply_good(r.p->launch_good); /* refused for its key, so nothing was launched yet */
	assert_int_equal(run_launch(&r, script, n + 1, &launch), SPOT_DONE);
	drive_used(&r.d);
	script[n] = as_try(&r.p->expired);
	assert_failed(&r, run_list(&r, script, n + 1, &list), SPOT_UNAUTHENTICATED);
	drive_used(&r.d);
	close_run(&r);
}

/* ---- refused calls --------------------------------------------------------------------------- */

static void refusals_of_a_launch_say_what_may_be_done(void **state)
{
	struct run r;
	struct spot_launch a;
	struct drive_try t;

	open_run(&r, *state);
	assert_failed(&r, run_refused(&r, &r.p->capacity, r.p->capacity_later, &a),
	    SPOT_NO_CAPACITY);
	assert_int_equal(r.d.agains, 0); /* never in place */
	assert_int_equal(spot_rc_act(r.d.call.err.rc), SPOT_ACT_ELSEWHERE);
	assert_string_not_equal(r.d.call.err.code, "");
	assert_failed(&r, run_refused(&r, &r.p->quota, r.p->quota_later, &a), SPOT_QUOTA);
	t = as_try(&r.p->denied);
	assert_failed(&r, run_launch(&r, &t, 1, &a), SPOT_DENIED);
	close_run(&r);
}

static void a_refusal_says_how_far_it_reaches(void **state)
{
	struct run r;
	struct spot_launch a;

	open_run(&r, *state);
	/* If the vendor says no scope, the code alone decides; a hint never outlives its
	 * refusal. */
	assert_failed(&r, run_refused(&r, &r.p->quota, r.p->quota_later, &a), SPOT_QUOTA);
	assert_int_equal(r.d.call.err.scope, SPOT_SCOPE_NONE);
	for (size_t i = 0; i < r.p->reach_n; i++) {
		const struct conform_reach *w = &r.p->reach[i];

		assert_failed(&r, run_launch(&r, w->tries.t, w->tries.n, &a), w->rc);
		if (r.d.call.err.scope != w->scope) {
			fail_msg("scope is %d, not %d: %s", r.d.call.err.scope, w->scope,
			    r.d.call.err.text);
		}
	}
	assert_failed(&r, run_refused(&r, &r.p->quota, r.p->quota_later, &a), SPOT_QUOTA);
	assert_int_equal(r.d.call.err.scope, SPOT_SCOPE_NONE);
	close_run(&r);
}

static void a_token_that_was_used_before_launches_nothing(void **state)
{
	struct run r;
	struct spot_launch a;
	struct drive_try t;

	open_run(&r, *state);
	if (r.p->ops->token_scope != SPOT_TOKEN_NONE) {
		assert_true(r.p->mismatch.status != 0 || r.p->mismatch_later.n > 0);
		assert_failed(&r, run_refused(&r, &r.p->mismatch, r.p->mismatch_later, &a),
		    SPOT_MISMATCH);
	} else {
		/* No tokens: then nothing of a launch may be sent twice, whatever comes back. */
		t = as_try(&r.p->broken);
		assert_failed(&r, run_launch(&r, &t, 1, &a), SPOT_UNKNOWN);
		assert_int_equal(r.d.agains, 0);
		t = as_try(&r.p->throttled);
		assert_failed(&r, run_launch(&r, &t, 1, &a), SPOT_THROTTLED);
		assert_int_equal(r.d.agains, 0);
	}
	close_run(&r);
}

static void a_launch_without_a_sure_answer_is_unknown(void **state)
{
	struct run r;
	struct spot_launch a;
	struct drive_try t = { .status = 0 };

	open_run(&r, *state);
	assert_failed(&r, run_launch(&r, &t, 1, &a), SPOT_UNKNOWN);
	/* with a token it may be repeated first */
	assert_failed(&r, run_launch(&r, for_ever(&r, as_try(&r.p->broken)), FOR_EVER, &a),
	    SPOT_UNKNOWN);
	t = reply_good("");
	assert_failed(&r, run_launch(&r, &t, 1, &a), SPOT_UNKNOWN);
	t = reply_good("<html>welcome</html>");
	assert_failed(&r, run_launch(&r, &t, 1, &a), SPOT_UNKNOWN);
	t = reply_good(r.p->list_empty);
	assert_failed(&r, run_launch(&r, &t, 1, &a), SPOT_UNKNOWN);
	close_run(&r);
}

static void a_launch_request_marks_itself_and_is_never_re_sent_by_the_transport(void **state)
{
	struct run r;
	struct spot_launch a;
	struct drive_try t;

	open_run(&r, *state);
	t = reply_good(r.p->launch_good);
	t.mutating = 1;
	t.fresh = true;
	assert_int_equal(run_launch(&r, &t, 1, &a), SPOT_DONE);
	assert_string_not_equal(a.instance.ref, "");
	assert_string_equal(a.instance.install, r.p->install);
	close_run(&r);
}

static void terminating_what_is_gone_succeeds(void **state)
{
	struct run r;
	struct spot_terminate a;
	struct drive_try t;

	open_run(&r, *state);
	a = (struct spot_terminate){ .region = r.p->region,
		.zone = "",
		.ref = r.p->ref,
		.spot_request = "" };
	t = as_try(&r.p->unknown_instance);
	script_set(&r, r.p->terminate_before, &t, 1, r.p->terminate_after);
	assert_int_equal(run_over(&r, drive_run(&r.d, DRIVE_TERMINATE, &a)), SPOT_DONE);
	assert_int_equal(a.after.state, SPOT_INSTANCE_GONE);
	close_run(&r);
}

static void a_wrong_address_makes_nothing_gone(void **state)
{
	struct run r;
	struct spot_terminate a;
	struct spot_list list;
	const struct drive_try *t;

	open_run(&r, *state);
	a = (struct spot_terminate){ .region = r.p->region,
		.zone = "",
		.ref = r.p->ref,
		.spot_request = "" };
	t = for_ever(&r, as_try(&r.p->wrong_place));
	drive_script(&r.d, t, FOR_EVER);
	assert_int_equal(run_over(&r, drive_run(&r.d, DRIVE_TERMINATE, &a)), SPOT_FAIL);
	assert_int_not_equal(r.d.call.err.rc, SPOT_NOT_FOUND);
	assert_int_equal(run_list(&r, t, FOR_EVER, &list), SPOT_FAIL);
	close_run(&r);
}

/* ---- bodies
 * ---------------------------------------------------------------------------------------- */

static void an_empty_list_is_empty(void **state)
{
	struct run r;
	struct spot_list a;
	struct drive_try t;

	open_run(&r, *state);
	t = reply_good(r.p->list_empty);
	assert_int_equal(run_list(&r, &t, 1, &a), SPOT_DONE);
	assert_int_equal(a.n, 0);
	close_run(&r);
}

static void a_state_that_nobody_knows_is_odd(void **state)
{
	struct run r;
	struct spot_list a;
	struct drive_try t;

	open_run(&r, *state);
	t = reply_good(r.p->list_odd);
	assert_int_equal(run_list(&r, &t, 1, &a), SPOT_DONE);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.found[0].state, SPOT_INSTANCE_ODD);
	assert_string_equal(a.found[0].raw_state, "dreaming");
	close_run(&r);
}

/* A body cut anywhere is never taken for a shorter list: an absent instance may count as gone. */
static void a_cut_body_is_never_a_shorter_list(void **state)
{
	struct run r;
	struct spot_list a;
	struct spot_launch l;
	struct drive_try t;
	const char *body;

	open_run(&r, *state);
	body = r.p->list_good;
	for (size_t n = 0; n < strlen(body); n++) {
		t = reply_good(arena_strndup(r.d.arena, body, n));
		assert_failed(&r, run_list(&r, &t, 1, &a), SPOT_BAD_REPLY);
	}
	body = r.p->launch_good;
	for (size_t n = 0; n < strlen(body); n++) {
		t = reply_good(arena_strndup(r.d.arena, body, n));
		assert_failed(&r, run_launch(&r, &t, 1, &l), SPOT_UNKNOWN);
	}
	close_run(&r);
}

static void wrong_types_and_missing_parts_are_bad_replies(void **state)
{
	struct run r;
	struct spot_list a;
	struct drive_try t;

	open_run(&r, *state);
	for (const char *const *w = r.p->list_wrong; *w != NULL; w++) {
		t = reply_good(*w);
		if (run_list(&r, &t, 1, &a) != SPOT_FAIL || r.d.call.err.rc != SPOT_BAD_REPLY) {
			fail_msg("not a bad reply: %s", *w);
		}
	}
	close_run(&r);
}

static const char *text_repeat(struct arena *a, const char *word, size_t n)
{
	size_t len = strlen(word);
	char *text = arena_alloc(a, len * n + 1);

	for (size_t i = 0; i < n; i++) {
		memcpy(text + i * len, word, len);
	}
	return text;
}

static void deep_and_large_nonsense_is_a_bad_reply(void **state)
{
	static const char *const words[] = { "[", "{\"data\":", "<a>", "<a b=\"", "&amp;", " ",
		"\xff", "9" };
	struct run r;
	struct spot_list a;
	struct drive_try t;

	open_run(&r, *state);
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		t = reply_good(text_repeat(r.d.arena, words[i], 1000000));
		assert_failed(&r, run_list(&r, &t, 1, &a), SPOT_BAD_REPLY);
	}
	close_run(&r);
}

/* No byte anywhere in a reply may do more than spoil the call. */
static void any_changed_byte_ends_in_a_verdict(void **state)
{
	static const char bytes[] = "0\"x<}\xff";
	struct run r;
	struct spot_list a;
	struct drive_try t;
	char *body;

	open_run(&r, *state);
	r.d.lenient = true;
	body = arena_strdup(r.d.arena, r.p->list_good);
	for (size_t at = 0; body[at] != '\0'; at++) {
		char was = body[at];

		for (size_t k = 0; k < sizeof(bytes) - 1; k++) {
			enum spot_step s;

			body[at] = bytes[k];
			t = reply_good(body);
			s = run_list(&r, &t, 1, &a);
			/* STEP_NONE: the change made it ask for more than the script has. */
			assert_true(s == SPOT_DONE || s == SPOT_FAIL || s == SPOT_STEP_NONE);
		}
		body[at] = was;
	}
	close_run(&r);
}

static const char *page_text(struct arena *a, const char *form, size_t number)
{
	const char *at = strstr(form, "@@");

	assert_non_null(at);
	return arena_printf(a, "%.*stoken-%zu%s", (int)(at - form), form, number, at + 2);
}

static void pages_without_end_are_cut(void **state)
{
	struct run r;
	struct spot_list a;
	struct drive_try *script;

	open_run(&r, *state);
	if (r.p->list_page != NULL) {
		script = arena_array(r.d.arena, PAGES, sizeof(*script));
		for (size_t i = 0; i < PAGES; i++) {
			script[i] = reply_good(page_text(r.d.arena, r.p->list_page, i));
		}
		r.d.sends_max = PAGES;
		assert_failed(&r, run_list(&r, script, PAGES, &a), SPOT_BAD_REPLY);
		/* the same token again and again */
		assert_failed(&r, run_list(&r, for_ever(&r, script[0]), FOR_EVER, &a),
		    SPOT_BAD_REPLY);
	}
	close_run(&r);
}

/* ---- the suite itself
 * -------------------------------------------------------------------------------- */

static void every_built_in_provider_is_in_the_suite(void **state)
{
	size_t n = 0;
	const struct spot_provider_ops *const *all = provider_registry(&n);

	(void)state;
	assert_int_equal(n, ARRAY_LEN(providers));
	for (size_t i = 0; i < n; i++) {
		bool there = false;

		for (size_t k = 0; k < ARRAY_LEN(providers); k++) {
			there |= providers[k]->ops == all[i];
		}
		assert_true(there);
		assert_ptr_equal(provider_by_kind(all[i]->kind), all[i]);
		assert_int_equal(all[i]->abi, SPOT_PROVIDER_ABI);
		assert_int_equal(all[i]->size, sizeof(struct spot_provider_ops));
	}
	assert_null(provider_by_kind("no such cloud"));
}

/* ---- all of it for each
 * -------------------------------------------------------------------------- */

#define CASE(fn) \
	{ \
		#fn, fn \
	}
static const struct {
	const char *name;
	CMUnitTestFunction fn;
} cases[] = {
	CASE(a_throttled_read_waits_as_told_and_succeeds),
	CASE(a_read_that_stays_throttled_says_so),
	CASE(a_fault_or_a_lost_reply_of_a_read_is_repeated),
	CASE(a_read_that_stays_broken_may_be_tried_later),
	CASE(credentials_that_expire_mid_call_are_renewed_once),
	CASE(refusals_of_a_launch_say_what_may_be_done),
	CASE(a_refusal_says_how_far_it_reaches),
	CASE(a_token_that_was_used_before_launches_nothing),
	CASE(a_launch_without_a_sure_answer_is_unknown),
	CASE(a_launch_request_marks_itself_and_is_never_re_sent_by_the_transport),
	CASE(terminating_what_is_gone_succeeds),
	CASE(a_wrong_address_makes_nothing_gone),
	CASE(an_empty_list_is_empty),
	CASE(a_state_that_nobody_knows_is_odd),
	CASE(a_cut_body_is_never_a_shorter_list),
	CASE(wrong_types_and_missing_parts_are_bad_replies),
	CASE(deep_and_large_nonsense_is_a_bad_reply),
	CASE(any_changed_byte_ends_in_a_verdict),
	CASE(pages_without_end_are_cut),
};

int main(void)
{
	struct CMUnitTest tests[ARRAY_LEN(cases) * ARRAY_LEN(providers) + 1];
	struct arena *names = arena_new(0);
	size_t n = 0;
	int rc;

	tests[n++] = (struct CMUnitTest)cmocka_unit_test(every_built_in_provider_is_in_the_suite);
	for (size_t p = 0; p < ARRAY_LEN(providers); p++) {
		for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
			tests[n++] = (struct CMUnitTest){
				.name = arena_printf(names, "%s: %s", providers[p]->name,
				    cases[i].name),
				.test_func = cases[i].fn,
				.initial_state = (void *)(uintptr_t)providers[p],
			};
		}
	}
	rc = cmocka_run_group_tests_name("conform", tests, NULL, NULL);
	arena_free(names);
	return rc;
}
