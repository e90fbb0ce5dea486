#include "base/base.h"
#include "call_fake.h"

#include "base/text/text.h"

/* ---- the provider ---------------------------------------------------------------------------- */

static enum spot_step step_of(void *self, struct spot_call *c, void *args UNUSED)
{
	struct fake *f = self;

	f->entries++;
	return f->step(f, c);
}

static enum spot_step fake_list(void *self, struct spot_call *c, struct spot_list *a)
{
	return step_of(self, c, a);
}

static enum spot_step fake_launch(void *self, struct spot_call *c, struct spot_launch *a)
{
	return step_of(self, c, a);
}

static enum spot_step fake_terminate(void *self, struct spot_call *c, struct spot_terminate *a)
{
	return step_of(self, c, a);
}

static void fake_close(void *self)
{
	((struct fake *)self)->closed++;
}

static bool fake_fresh(const void *self, int64_t now_us UNUSED)
{
	return ((const struct fake *)self)->fresh;
}

static enum spot_step fake_auth(void *self, struct spot_call *c)
{
	struct fake *f = self;
	enum spot_step s = SPOT_DONE;

	if (f->auth != NULL) {
		s = f->auth(f, c);
	}
	if (s == SPOT_DONE) {
		f->auths++;
		f->fresh = true;
	}
	return s;
}

static size_t fake_secrets(const void *self, const char **ret, size_t n)
{
	const struct fake *f = self;

	if (n == 0 || f->secret == NULL) {
		return 0;
	}
	ret[0] = f->secret;
	return 1;
}

static const struct spot_limit fake_limits[] = {
	{ .name = "free", .per_second = 0, .burst = 0 },
	{ .name = "slow", .per_second = 1, .burst = 2 },
	{ .name = "account", .per_second = 1, .burst = 1, .shared = true },
	{ .name = "narrow", .per_second = 0.25, .burst = 1, .within = 2 },
};

enum spot_step fake_get(struct fake *f, struct spot_call *c, const char *path)
{
	call_request(c, "GET", arena_printf(c->arena, "%s%s", f->url, path));
	c->mutating = false;
	return SPOT_SEND;
}

enum spot_step fake_post(struct fake *f, struct spot_call *c, const char *path)
{
	call_request(c, "POST", arena_printf(c->arena, "%s%s", f->url, path));
	call_body(c, "text/plain", "make", 4);
	c->mutating = true;
	return SPOT_SEND;
}

static enum spot_step by_status(struct spot_call *c)
{
	switch (c->in->status) {
	case 200:
		return SPOT_DONE;
	case 429:
		return call_again(c, SPOT_THROTTLED, call_retry_after_us(c), "Slow", "too fast");
	case 503:
		return call_again(c, SPOT_UNAVAILABLE, 0, "Broken", "far side broken");
	case 401:
		call_fail(c, SPOT_UNAUTHENTICATED, "Expired", "the key expired");
		return SPOT_REAUTH;
	default:
		return call_fail(c, SPOT_NO_CAPACITY, "SoldOut", "sold out");
	}
}

enum spot_step fake_step_get(struct fake *f, struct spot_call *c)
{
	return c->in == NULL ? fake_get(f, c, "/x") : by_status(c);
}

enum spot_step fake_step_post(struct fake *f, struct spot_call *c)
{
	return c->in == NULL ? fake_post(f, c, "/x") : by_status(c);
}

/* ---- the server ------------------------------------------------------------------------------ */

static void on_request(void *ctx, struct httpd_req *r)
{
	struct fake *f = ctx;

	assert_in_range(f->requests, 0, FAKE_REQUESTS_MAX - 1);
	f->at_us[f->requests] = loop_mono_us(f->loop);
	snprintf(f->path[f->requests], sizeof(f->path[0]), "%s", r->path);
	f->requests++;
	f->serve(f, r);
}

void fake_serve_ok(struct fake *f UNUSED, struct httpd_req *r)
{
	httpd_reply(r, 200, "text/plain", "ok", 2);
}

static void held_gone(struct httpd_req *r)
{
	struct fake *f = r->user;

	f->held = NULL;
}

void fake_serve_hang(struct fake *f, struct httpd_req *r)
{
	r->user = f;
	r->gone = held_gone;
	f->held = r;
}

void fake_serve_cut(struct fake *f UNUSED, struct httpd_req *r)
{
	httpd_abort(r);
}

/* ---- the machine ----------------------------------------------------------------------------- */

void fake_reset(struct fake *f, struct call_shared *shared)
{
	if (f->p != NULL) {
		call_provider_free(f->p);
	}
	f->p = call_provider_new(f->loop, f->http, &f->ops, f, "fake", shared);
	f->closed = 0;
}

int fake_setup(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct httpd_conf conf = { .address = "127.0.0.1", .ctx = f, .handle = on_request };
	struct http_client_conf client = { .user_agent = "test" };
	struct spot_err err = { 0 };

	assert_non_null(f);
	clock_manual_init(&f->clock, FAKE_WALL_US);
	rng_seeded_init(&f->rng, 7);
	f->loop = loop_new(&f->clock.clock, &f->rng);
	f->tick_us = 1000;
	f->fresh = true;
	f->secret = FAKE_SECRET;
	f->serve = fake_serve_ok;
	f->step = fake_step_get;
	assert_int_equal(httpd_new(f->loop, &conf, &f->httpd, &err), SPOT_OK);
	snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%d", httpd_port(f->httpd));
	f->http = http_client_new(f->loop, &client);
	f->arena = arena_new(0);
	f->ops = (struct spot_provider_ops){
		.abi = SPOT_PROVIDER_ABI,
		.size = sizeof(f->ops),
		.kind = "fake",
		.limits = fake_limits,
		.limits_n = ARRAY_LEN(fake_limits),
		.close = fake_close,
		.auth_fresh = fake_fresh,
		.auth = fake_auth,
		.secrets = fake_secrets,
		.list = fake_list,
		.launch = fake_launch,
		.terminate = fake_terminate,
	};
	fake_reset(f, NULL);
	*state = f;
	return 0;
}

int fake_teardown(void **state)
{
	struct fake *f = *state;

	call_provider_free(f->p);
	f->p = NULL;
	http_client_free(f->http);
	httpd_free(f->httpd);
	fake_turns(f, 5);
	loop_free(f->loop);
	arena_free(f->arena);
	free(f);
	return 0;
}

void fake_turns(struct fake *f, int n)
{
	for (int i = 0; i < n; i++) {
		loop_turn(f->loop, 500);
		clock_manual_advance(&f->clock, f->tick_us);
	}
}

static void fake_done(struct op *op)
{
	struct call *call = container_of(op, struct call, op);
	struct fake_call *k = container_of(call, struct fake_call, call);

	k->done++;
	k->rc = op->rc;
	k->err = op->err;
	k->ended_us = loop_mono_us(op->loop);
}

void fake_start(struct fake *f, struct fake_call *k, enum call_verb verb, int64_t timeout_us,
    int tries, bool urgent)
{
	*k = (struct fake_call){ .f = f, .began_us = loop_mono_us(f->loop) };
	call_start(&k->call, f->p, verb, NULL, f->arena, timeout_us, tries, urgent, fake_done);
	assert_int_equal(k->done, 0); /* never inside its own start */
}

void fake_wait(struct fake *f, struct fake_call *k)
{
	for (int i = 0; i < 20000 && k->done == 0; i++) {
		fake_turns(f, 1);
	}
	assert_int_equal(k->done, 1);
	fake_turns(f, 3);
	assert_int_equal(k->done, 1); /* exactly once */
}

void fake_run(struct fake *f, struct fake_call *k, enum call_verb verb, int64_t timeout_us,
    int tries, bool urgent)
{
	fake_start(f, k, verb, timeout_us, tries, urgent);
	fake_wait(f, k);
}

void fake_call_now(struct fake *f, struct fake_call *k)
{
	fake_run(f, k, CALL_LIST, 60 * SPOT_US_PER_S, 0, false);
}
