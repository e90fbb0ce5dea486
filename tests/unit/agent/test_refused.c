/* A daemon that takes no checkpoint: how long the last save of a job waits for it. */
#include "base/base.h"
#include "unit.h"

#include "agent/ckpt/upload.h"
#include "base/text/text.h"

#define APART_US (40 * SPOT_US_PER_S)

struct http_call *__wrap_http_start(struct http *h, const struct http_want *w);
void __wrap_http_stop(struct http *h, struct http_call *c);

static struct http_want asked;

struct http_call *__wrap_http_start(struct http *h UNUSED, const struct http_want *w)
{
	asked = *w;
	return (struct http_call *)(void *)&asked;
}

void __wrap_http_stop(struct http *h UNUSED, struct http_call *c UNUSED)
{
}

static struct agent *agent_that_saves(const char *reason)
{
	struct agent *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	rng_seeded_init(&a->rng, 7);
	a->now_us = a->contact_us = SPOT_US_PER_HOUR;
	a->boot.url = (char *)(uintptr_t) "http://daemon";
	a->enrol.at = ENROL_DONE;
	a->job.phase = strcmp(reason, "final") == 0 ? JOB_ENDED : JOB_RUNNING;
	a->ckpt.reason = reason;
	a->ckpt.at = CKPT_POST;
	return a;
}

/* Asks until the save is over, at most for so long; the time that it took. */
static int64_t refused_for(struct agent *a, int status, const char *body, bool serves_all_else,
    int64_t most_us)
{
	struct http_reply r = { .status = status,
		.body = str_from(body),
		.error = "",
		.retry_after_us = SPOT_US_PER_S };
	int64_t began = a->now_us;

	while (a->ckpt.at != CKPT_IDLE && a->now_us < began + most_us) {
		upload_step(a);
		if (a->ckpt.call != NULL) {
			asked.done(asked.ctx, &r);
		}
		a->now_us += APART_US;
		if (serves_all_else) {
			a->contact_us = a->now_us;
		}
	}
	return a->now_us - began;
}

#define NO_URLS "{\"code\":\"unavailable\",\"detail\":\"upload URLs are not ready yet\"}"
#define DAY_US (24 * SPOT_US_PER_HOUR)
#define LONG_US (3 * DAY_US)

static void the_last_save_ends_after_a_day(void **state)
{
	struct agent *a = agent_that_saves("final");
	int64_t took = refused_for(a, 503, NO_URLS, true, LONG_US);

	(void)state;
	assert_true(took >= DAY_US && took <= DAY_US + 3 * APART_US);
	assert_false(a->ckpt.ok);
	assert_non_null(strstr(a->ckpt.why, "for a day: upload URLs are not ready yet"));
	free(a);
}

static void so_does_a_commit(void **state)
{
	struct agent *a = agent_that_saves("final");

	(void)state;
	a->ckpt.at = CKPT_COMMIT;
	assert_true(refused_for(a, 503, NO_URLS, true, LONG_US) <= DAY_US + 3 * APART_US);
	assert_false(a->ckpt.ok);
	free(a);
}

static void goes_on(const char *reason, int status, const char *body, bool serves_all_else)
{
	struct agent *a = agent_that_saves(reason);

	assert_true(refused_for(a, status, body, serves_all_else, LONG_US) >= LONG_US);
	assert_int_equal(a->ckpt.at, CKPT_POST);
	free(a);
}

/* URLs that are signed for longer than a request is held. */
static void a_held_request_is_repeated_at_once(void **state)
{
	struct agent *a = agent_that_saves("periodic");
	struct http_reply r = { .status = 503,
		.body = str_from(NO_URLS),
		.error = "",
		.retry_after_us = SPOT_US_PER_S };

	(void)state;
	for (int i = 0; i < 10; i++) {
		upload_step(a);
		assert_non_null(a->ckpt.call);
		a->now_us = a->contact_us = a->now_us + 20 * SPOT_US_PER_S;
		asked.done(asked.ctx, &r);
		assert_true(a->ckpt.backoff.next_us <= a->now_us + SPOT_US_PER_S);
		a->now_us = a->ckpt.backoff.next_us;
	}
	free(a);
}

static void a_job_that_runs_goes_on_trying(void **state)
{
	(void)state;
	goes_on("periodic", 503, NO_URLS, true);
}

static void a_daemon_that_is_away_is_waited_for(void **state)
{
	(void)state;
	goes_on("final", 0, "", false); /* nobody */
	goes_on("final", 503, "<html>bad gateway</html>", true); /* somebody else */
	/* its database is away: it could not be told the end either */
	goes_on("final", 503, NO_URLS, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_save_ends_after_a_day),
		cmocka_unit_test(so_does_a_commit),
		cmocka_unit_test(a_held_request_is_repeated_at_once),
		cmocka_unit_test(a_job_that_runs_goes_on_trying),
		cmocka_unit_test(a_daemon_that_is_away_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
