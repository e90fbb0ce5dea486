/*
 * A provider made of test functions, a scripted HTTP server and a loop on a manual clock, for tests
 * of io/call. Each test sets its step and its server; time moves only while call_pump runs.
 */
#ifndef TESTS_CALL_FAKE_H
#define TESTS_CALL_FAKE_H

#include "base/base.h"
#include "io/call/call.h"
#include "io/httpd/httpd.h"
#include "spot/provider.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define FAKE_WALL_US INT64_C(1790000000000000)
#define FAKE_SECRET "fake-secret-0123456789"
#define FAKE_REQUESTS_MAX 64

struct fake {
	/* the provider */
	enum spot_step (*step)(struct fake *f, struct spot_call *c);
	enum spot_step (*auth)(struct fake *f, struct spot_call *c);
	bool fresh; /* auth_fresh; set by a good auth */
	const char *secret;
	int entries, auths, closed;
	/* the server */
	void (*serve)(struct fake *f, struct httpd_req *r);
	int requests;
	int64_t at_us[FAKE_REQUESTS_MAX]; /* mono time of each request */
	char path[FAKE_REQUESTS_MAX][64];
	struct httpd_req *held; /* for servers that do not answer */
	/* the machine */
	struct clock_manual clock;
	struct rng rng;
	struct loop *loop;
	struct http_client *http;
	struct httpd *httpd;
	char url[64]; /* "http://127.0.0.1:4711" */
	struct call_provider *p;
	struct spot_provider_ops ops;
	struct arena *arena;
	int64_t tick_us; /* the clock moves by this per turn */
};

struct fake_call {
	struct call call;
	struct fake *f;
	int done;
	enum spot_rc rc;
	struct spot_err err;
	int64_t began_us, ended_us; /* mono */
};

int fake_setup(void **state);
int fake_teardown(void **state);
void fake_reset(struct fake *f, struct call_shared *shared); /* a new provider instance */

/* Starts a verb (CALL_LIST or CALL_LAUNCH); the step decides the outcome. */
void fake_start(struct fake *f, struct fake_call *k, enum call_verb verb, int64_t timeout_us,
    int tries, bool urgent);
/* Turns until k is done; fails the test if it takes unreasonably long. */
void fake_wait(struct fake *f, struct fake_call *k);
/* The one and the other. */
void fake_run(struct fake *f, struct fake_call *k, enum call_verb verb, int64_t timeout_us,
    int tries, bool urgent);
void fake_turns(struct fake *f, int n);
/* Start with 60 s and default tries, and wait. */
void fake_call_now(struct fake *f, struct fake_call *k);

/* Requests of steps. */
enum spot_step fake_get(struct fake *f, struct spot_call *c, const char *path);
enum spot_step fake_post(struct fake *f, struct spot_call *c, const char *path); /* mutating */
/* GET /x, DONE on 200, AGAIN on 429 (THROTTLED) and 503 (UNAVAILABLE), REAUTH on 401, else FAIL. */
enum spot_step fake_step_get(struct fake *f, struct spot_call *c);
enum spot_step fake_step_post(struct fake *f, struct spot_call *c);
/* Servers. */
void fake_serve_ok(struct fake *f, struct httpd_req *r);
void fake_serve_hang(struct fake *f, struct httpd_req *r);
void fake_serve_cut(struct fake *f, struct httpd_req *r); /* closes without a reply */

#endif
