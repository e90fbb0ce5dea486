#include "world.h"
#include "broker.h"
#include "work.h"

#include "base/json.h"
#include "base/str.h"

#define JOBS_MAX 64
#define HEAR_US (20 * SPOT_US_PER_S)

struct wish {
	struct flight_to to;
	struct spot_header headers[4];
	struct loop_timer timer, late;
	char text[1200], url[128], key[80], auth[96], id[64];
	bool accepted, cancels, cancelled;
	int64_t cancel_after_us;
};
static struct wish wishes[JOBS_MAX];
static size_t wishes_n;

static void send(struct loop_timer *t);

static void again(struct wish *w)
{
	loop_timer_stop(&w->late);
	loop_timer_set(&w->timer, dice_us(SPOT_US_PER_S, 15 * SPOT_US_PER_S));
}

static void accepted(struct wish *w, struct str reply)
{
	json_t *o AUTO(json) = NULL;

	if (json_parse(reply, "job", &o, NULL) != SPOT_OK)
		return;
	snprintf(w->id, sizeof(w->id), "%s", json_str(o, "id", "", NULL));
	w->accepted = true;
	trace("user's job %s is accepted", w->id);
	if (w->cancels)
		loop_timer_set(&w->timer, w->cancel_after_us);
}

static void heard(struct flight_to *to)
{
	struct wish *w = container_of(to, struct wish, to);

	loop_timer_stop(&w->late);
	if (!to->reset && to->status / 100 == 2) {
		if (!w->accepted)
			accepted(w, to->reply);
		else
			w->cancelled = true;
		return;
	}
	if (!to->reset && to->status / 100 == 4 && to->status != 409 && to->status != 429) {
		/* A job that ended before its cancellation arrived. */
		always(w->accepted, "a user's request is understood", "%d %.*s", to->status, (int)MIN(to->reply.n, (size_t)300),
		    to->reply.p);
		return;
	}
	if (w->accepted && to->status == 409)
		return;
	again(w);
}

static void late(struct loop_timer *t)
{
	struct wish *w = container_of(t, struct wish, late);

	flight_forget(&w->to);
	again(w);
}

static void send(struct loop_timer *t)
{
	struct wish *w = container_of(t, struct wish, timer);
	size_t n = 0;

	snprintf(w->auth, sizeof(w->auth), "Bearer %s", SIM_TOKEN);
	w->headers[n++] = (struct spot_header){"Authorization", w->auth};
	w->headers[n++] = (struct spot_header){"Content-Type", w->accepted ? "application/json" : "application/yaml"};
	w->headers[n++] = (struct spot_header){"Idempotency-Key", w->key};
	if (w->accepted) {
		snprintf(w->url, sizeof(w->url), "http://127.0.0.1:8080/v1/jobs/%s/cancel", w->id);
		snprintf(w->key, sizeof(w->key), "cancel-%s", w->id);
		sometimes("a job was cancelled by its user");
	} else {
		snprintf(w->url, sizeof(w->url), "http://127.0.0.1:8080/v1/jobs");
	}
	w->to = (struct flight_to){.over = heard, .loop = world.loop, .from = "user", .method = "POST", .url = w->url,
	    .headers = w->headers, .headers_n = n, .body = w->accepted ? (struct str){"{}", 2} : str_from(w->text)};
	loop_timer_set(&w->late, HEAR_US);
	flight_start(&w->to);
}

static void wish_make(struct wish *w, size_t k, int64_t until_us)
{
	static const char *const gpus[] = {"L4: 1", "A10G: 1", "T4: 1", "H100: 1", "A10: 1"};
	const char *gpu = gpus[rng_below(&world.dice, ARRAY_LEN(gpus))];
	int64_t steps = dice_us(20, 200), step_ms = dice_us(500, 5000);
	bool saves = rng_below(&world.dice, 5) > 0, fails = rng_below(&world.dice, 12) == 0;
	int64_t fail_at = steps / 2;

	snprintf(w->key, sizeof(w->key), "wish-%zu", k);
	snprintf(w->text, sizeof(w->text),
	    "name: job-%zu\nresources:\n  accelerators: {%s}\n  use_spot: true\nrun: |\n"
	    "  steps=%" PRId64 " step_ms=%" PRId64 " save_ms=%" PRId64 "%s\n"
	    "config:\n  spotctl:\n    team: research\n    project: sim\n    class: training\n%s",
	    k, gpu, steps, step_ms, dice_us(100, 20000), fails ? " fail_at=1" : "",
	    saves ? "    checkpoint: {path: ckpt, signal: USR1, interval: 120s, budget: 30s}\n" : "");
	(void)fail_at;
	w->cancels = rng_below(&world.dice, 8) == 0;
	w->cancel_after_us = dice_us(SPOT_US_PER_S, 900 * SPOT_US_PER_S);
	loop_timer_init(&w->timer, world.loop, send);
	loop_timer_init(&w->late, world.loop, late);
	loop_timer_set(&w->timer, dice_us(5 * SPOT_US_PER_S, until_us));
}

void work_begin(int64_t jobs, int64_t until_us)
{
	wishes_n = (size_t)MIN(jobs, (int64_t)JOBS_MAX);
	for (size_t k = 0; k < wishes_n; k++)
		wish_make(&wishes[k], k, until_us);
}

size_t work_accepted(void)
{
	size_t n = 0;

	for (size_t k = 0; k < wishes_n; k++)
		n += wishes[k].accepted;
	return n;
}

bool work_done(void)
{
	return work_accepted() == wishes_n;
}

void work_forget(bool forget)
{
	wishes[0].accepted = !forget;
}

void work_mishear(void)
{
	struct wish w = {.to = {.status = 422, .reply = str_from("refused")}};

	loop_timer_init(&w.late, world.loop, late);
	heard(&w.to);
}
