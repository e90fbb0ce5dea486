#include "base/base.h"
#include "cases.h"

#include "base/text/text.h"

/*
 * The order for machines against the live Pods, under every interleaving. Launches and terminates
 * of one NodePool run side by side against an API server of a few lines. Requests come in every
 * possible sequence, and replies and requests get lost. When all have come to rest, the target is
 * the number of live Pods. After a launch that ended as UNKNOWN a caller calls find; after a failed
 * terminate it repeats it, as the engine does.
 */

#define PODS_MAX 6
#define ACTORS_MAX 3
#define STEPS_MAX 400

/* ---- the server ------------------------------------------------------------------------------ */

struct world {
	struct {
		json_t *doc;
		char name[64], uid[64];
	} pods[PODS_MAX];
	int uids, rv, target;
	bool pool;
	char counted[16];
};

static const char *pod_text(struct arena *a, const struct world *w, size_t i)
{
	return json_text(a, w->pods[i].doc);
}

static size_t pod_find(const struct world *w, const char *name)
{
	size_t i = 0;

	while (i < PODS_MAX && (w->pods[i].doc == NULL || strcmp(w->pods[i].name, name) != 0)) {
		i++;
	}
	return i;
}

static void pod_add(struct world *w, json_t *doc)
{
	size_t i = 0;
	json_t *meta = json_object_get(doc, "metadata");

	while (w->pods[i].doc != NULL) {
		i++;
		assert_true(i < PODS_MAX);
	}
	w->pods[i].doc = doc;
	snprintf(w->pods[i].name, sizeof(w->pods[i].name), "%s",
	    json_string_value(json_object_get(meta, "name")));
	snprintf(w->pods[i].uid, sizeof(w->pods[i].uid), "u-%d", ++w->uids);
	json_object_set_new(meta, "uid", json_string(w->pods[i].uid));
	json_object_set_new(doc, "status", json_pack("{s:s}", "phase", "Pending"));
}

static int live_pods(const struct world *w)
{
	int n = 0;

	for (size_t i = 0; i < PODS_MAX; i++) {
		n += w->pods[i].doc != NULL;
	}
	return n;
}

static const char *pool_text(struct arena *a, const struct world *w)
{
	return arena_printf(a,
	    "{\"kind\":\"NodePool\",\"metadata\":{\"name\":\"" CW_POOL
	    "\",\"uid\":\"u\",\"resourceVersion\":\"%d\",\"labels\":{"
	    "\"spotbroker.io/install\":\"" CW_INSTALL
	    "\"}},\"spec\":{\"computeClass\":\"spot\",\"instanceType\":\"gd-8xh100ib-i128\","
	    "\"targetNodes\":%d}}",
	    w->rv, w->target);
}

static int failure_reply(struct arena *a, int code, const char *reason, const char **ret)
{
	*ret = arena_printf(a,
	    "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"m\",\"reason\":\"%s\","
	    "\"code\":%d}",
	    reason, code);
	return code;
}

static int serve_pods(struct arena *a, struct world *w, const struct spot_http_request *r,
    json_t *body, const char **ret)
{
	const char *name = strstr(r->url, "/pods/");
	size_t i;

	if (strcmp(r->method, "POST") == 0) {
		if (pod_find(w,
			json_string_value(json_object_get(json_object_get(body, "metadata"),
			    "name"))) < PODS_MAX) {
			return failure_reply(a, 409, "AlreadyExists", ret);
		}
		pod_add(w, json_deep_copy(body));
		*ret = pod_text(a, w,
		    pod_find(w,
			json_string_value(
			    json_object_get(json_object_get(body, "metadata"), "name"))));
		return 201;
	}
	if (name == NULL) {
		*ret = "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[";
		for (i = 0; i < PODS_MAX; i++) {
			const char *comma = (*ret)[strlen(*ret) - 1] == '[' ? "" : ",";

			*ret = w->pods[i].doc != NULL
			    ? arena_printf(a, "%s%s%s", *ret, comma, pod_text(a, w, i))
			    : *ret;
		}
		*ret = arena_printf(a, "%s]}", *ret);
		return 200;
	}
	i = pod_find(w, name + 6);
	if (i == PODS_MAX) {
		return failure_reply(a, 404, "NotFound", ret);
	}
	*ret = pod_text(a, w, i);
	if (strcmp(r->method, "DELETE") == 0) {
		json_t *uid = json_object_get(json_object_get(body, "preconditions"), "uid");

		if (strcmp(json_string_value(uid), w->pods[i].uid) != 0) {
			return failure_reply(a, 409, "Conflict", ret);
		}
		json_decref(w->pods[i].doc);
		w->pods[i].doc = NULL;
	}
	return 200;
}

/* A patch that changes nothing is not written: the resourceVersion stays. */
static int serve_patch(struct arena *a, struct world *w, json_t *body, const char **ret)
{
	json_t *meta = json_object_get(body, "metadata");
	const char *note = json_string_value(
	    json_object_get(json_object_get(meta, "annotations"), "spotbroker.io/counted"));
	int target =
	    (int)json_integer_value(json_object_get(json_object_get(body, "spec"), "targetNodes"));

	int64_t rv = 0;

	if (!parse_i64(json_string_value(json_object_get(meta, "resourceVersion")), 0, INT32_MAX,
		&rv) ||
	    rv != w->rv) {
		return failure_reply(a, 409, "Conflict", ret);
	}
	if (target != w->target || (note != NULL && strcmp(note, w->counted) != 0)) {
		w->rv++;
	}
	w->target = target;
	snprintf(w->counted, sizeof(w->counted), "%s", note != NULL ? note : w->counted);
	*ret = pool_text(a, w);
	return 200;
}

static int request_serve(struct arena *a, struct world *w, const struct spot_http_request *r,
    const char **ret)
{
	struct spot_err err = { 0 };
	AUTO(json) json_t *body = NULL;

	if (r->body.n > 0) {
		assert_int_equal(json_parse(r->body, "body", &body, &err), SPOT_OK);
	}
	if (strstr(r->url, "/pods") != NULL) {
		return serve_pods(a, w, r, body, ret);
	}
	if (strcmp(r->method, "POST") == 0) {
		if (w->pool) {
			return failure_reply(a, 409, "AlreadyExists", ret);
		}
		w->pool = true;
		w->rv = 1;
		w->target = 0;
		*ret = pool_text(a, w);
		return 201;
	}
	if (!w->pool) {
		return failure_reply(a, 404, "NotFound", ret);
	}
	if (strcmp(r->method, "PATCH") == 0) {
		return serve_patch(a, w, body, ret);
	}
	*ret = pool_text(a, w);
	return 200;
}

/* ---- the actors ------------------------------------------------------------------------------ */

struct actor {
	enum drive_verb verb; /* as given: LAUNCH or TERMINATE */
	bool finding, over;
	const char *name, *ref;
	struct spot_launch launch;
	struct spot_find find;
	struct spot_terminate end;
	struct spot_call c;
	int at_before;
};

struct run {
	struct drive *d;
	struct arena *a;
	struct world w;
	struct actor actors[ACTORS_MAX];
	size_t n;
	int faults; /* that may still happen */
};

static void actor_begin(struct run *r, struct actor *x)
{
	struct spot_launch *l = cw_args(r->a, DRIVE_LAUNCH, true);

	x->c = (struct spot_call){ .arena = r->a };
	x->launch = *l;
	x->launch.name = x->name;
	x->find = (struct spot_find){ "US-EAST", "", "tok", x->name, CW_INSTALL, NULL, 0 };
	x->end = (struct spot_terminate){ .region = "US-EAST",
		.zone = "",
		.ref = x->ref,
		.spot_request = CW_POOL };
}

static enum spot_step actor_step(struct run *r, struct actor *x)
{
	const struct spot_provider_ops *o = r->d->ops;

	x->c.now_us = DRIVE_NOW_US;
	if (x->verb == DRIVE_TERMINATE) {
		return o->terminate(r->d->self, &x->c, &x->end);
	}
	return x->finding ? o->find(r->d->self, &x->c, &x->find)
			  : o->launch(r->d->self, &x->c, &x->launch);
}

/* Until it has a request out, or is over. */
static void actor_go(struct run *r, struct actor *x)
{
	for (;;) {
		int at = x->c.at;
		enum spot_step s = actor_step(r, x);

		if (s == SPOT_SEND) {
			x->at_before = at;
			return;
		}
		if (s == SPOT_AGAIN) {
			x->c.at = x->at_before;
			x->c.in = NULL;
			continue;
		}
		assert_true(s == SPOT_DONE || s == SPOT_FAIL);
		if (s == SPOT_DONE ||
		    (x->verb == DRIVE_LAUNCH && x->c.err.rc != SPOT_UNKNOWN && !x->finding)) {
			x->over = true;
			return;
		}
		x->finding = x->verb == DRIVE_LAUNCH;
		actor_begin(r, x);
	}
}

/* fault: 1 = the request is lost, 2 = the reply. */
static void actor_exchange(struct run *r, struct actor *x, int fault)
{
	struct spot_http_response *in = arena_alloc(r->a, sizeof(*in));
	const char *text = "";

	if (fault != 1) {
		in->status = request_serve(r->a, &r->w, &x->c.out, &text);
	}
	in->status = fault != 0 ? 0 : in->status;
	in->body = str_from(fault != 0 ? "" : text);
	if (fault != 0 && x->c.mutating) {
		/* The core's part: a call that may have had an effect ends as unknown. */
		x->finding = x->verb == DRIVE_LAUNCH;
		actor_begin(r, x);
	} else {
		x->c.in = in;
	}
	actor_go(r, x);
}

/* ---- the sequences --------------------------------------------------------------------------- */

struct choices {
	uint8_t taken[STEPS_MAX], of[STEPS_MAX];
	size_t n, at;
	uint64_t rnd; /* not 0: by chance */
};

static size_t choice_next(struct choices *ch, size_t of)
{
	assert_true(ch->at < STEPS_MAX && of > 0 && of < 256);
	if (ch->rnd != 0) {
		ch->rnd = ch->rnd * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		return (size_t)(ch->rnd >> 33) % of;
	}
	if (ch->at == ch->n) {
		ch->taken[ch->n++] = 0;
	}
	ch->of[ch->at] = (uint8_t)of;
	return ch->taken[ch->at++];
}

/* The next sequence; false: that was the last. */
static bool choices_next(struct choices *ch)
{
	ch->at = 0;
	while (ch->n > 0 && ch->taken[ch->n - 1] + 1 >= ch->of[ch->n - 1]) {
		ch->n--;
	}
	if (ch->n == 0) {
		return false;
	}
	ch->taken[ch->n - 1]++;
	return true;
}

static void pod_seed(struct run *r, const char *name)
{
	pod_add(&r->w,
	    json_pack("{s:s, s:{s:s, s:{s:s, s:s, s:s}, s:{s:s}}, s:{}}", "kind", "Pod", "metadata",
		"name", name, "labels", "spotbroker.io/install", CW_INSTALL, "spotbroker.io/pool",
		CW_POOL, "spotbroker.io/market", "spot", "annotations",
		"spotbroker.io/instance-type", "gd-8xh100ib-i128", "spec"));
}

/* Plays an actor for each letter of `what`: L launches, 1 and 2 end the first and the second
 * existing Pod. */
static void actors_play(struct drive *d, const char *what, int there, int faults,
    struct choices *ch)
{
	static const char *const names[] = { "brk.7f3a9c01.a", "brk.7f3a9c01.b", "brk.7f3a9c01.c",
		"brk.7f3a9c01.p1", "brk.7f3a9c01.p2" };
	struct run r = { .d = d, .a = arena_new(0), .n = strlen(what), .faults = faults };

	for (int i = 0; i < there; i++) {
		pod_seed(&r, names[3 + i]);
	}
	r.w.pool = there > 0;
	r.w.rv = 1;
	r.w.target = there;
	for (size_t i = 0; i < r.n; i++) {
		struct actor *x = &r.actors[i];

		x->verb = what[i] == 'L' ? DRIVE_LAUNCH : DRIVE_TERMINATE;
		x->name = names[i];
		x->ref = what[i] == 'L'
		    ? ""
		    : arena_printf(r.a, "main/%s/u-%c", names[2 + what[i] - '0'], what[i]);
		actor_begin(&r, x);
		actor_go(&r, x);
	}
	for (;;) {
		struct actor *ready[ACTORS_MAX];
		size_t n = 0, k;

		for (size_t i = 0; i < r.n; i++) {
			if (!r.actors[i].over) {
				ready[n++] = &r.actors[i];
			}
		}
		if (n == 0) {
			break;
		}
		k = choice_next(ch, r.faults > 0 ? n * 3 : n);
		r.faults -= k >= n;
		actor_exchange(&r, ready[k % n], (int)(k / n));
	}
	if (r.w.target != live_pods(&r.w)) {
		fail_msg("%s with %d there: target %d, %d live Pods", what, there, r.w.target,
		    live_pods(&r.w));
	}
	for (size_t i = 0; i < PODS_MAX; i++) {
		json_decref(r.w.pods[i].doc);
	}
	arena_free(r.a);
}

static void every_sequence(struct drive *d, const char *what, int there, int faults)
{
	struct choices ch = { 0 };

	do {
		actors_play(d, what, there, faults, &ch);
	} while (choices_next(&ch));
}

static void two_side_by_side_leave_the_right_target(void **state)
{
	every_sequence(*state, "LL", 0, 0);
	every_sequence(*state, "L1", 1, 0);
	every_sequence(*state, "L1", 2, 0);
	every_sequence(*state, "12", 2, 0);
	every_sequence(*state, "11", 2, 0);
}

static void a_lost_request_or_reply_changes_nothing_of_it(void **state)
{
	every_sequence(*state, "L1", 1, 1);
}

static void three_side_by_side_leave_the_right_target(void **state)
{
	static const char *const whats[] = { "LL1", "L12", "LLL" };

	for (uint64_t i = 1; i <= 3000; i++) {
		struct choices ch = { .rnd = i * UINT64_C(0x9e3779b97f4a7c15) };

		actors_play(*state, whats[i % 3],
		    i % 3 == 1       ? 2
			: i % 3 == 0 ? 1
				     : 0,
		    (int)(i % 4), &ch);
	}
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, cw_setup, cw_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(two_side_by_side_leave_the_right_target),
		T(a_lost_request_or_reply_changes_nothing_of_it),
		T(three_side_by_side_leave_the_right_target),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
