#include "sim/world/world.h"
#include "sim/net/net.h"
#include "sim/broker/broker.h"
#include "sim/users/wish.h"
#include "sim/users/work.h"

#include "base/text/text.h"

#define JOBS_MAX 64
#define HEAR_US (20 * SPOT_US_PER_S)

struct wish {
	struct flight_to to;
	struct spot_header headers[4];
	struct loop_timer timer, late;
	struct wish_text what;
	char url[128], key[80], auth[96], id[64], limit_text[64];
	bool accepted, refused, cancelled;
	size_t limit; /* which of its limits is set next */
};
static struct wish wishes[JOBS_MAX];
static size_t wishes_n;

static void wish_send(struct loop_timer *t);

static bool is_limited(const struct wish *w)
{
	return w->what.limits_n > 0 && !w->what.cancels;
}

static bool lifts_limit(const struct wish *w)
{
	return w->limit == w->what.limits_n;
}

static void limit_later(struct wish *w)
{
	/* While things go wrong nobody lifts it. */
	int64_t calm = world.conf.minutes * 60 * SPOT_US_PER_S - (world_now() - SIM_T0);

	loop_timer_set(&w->timer,
	    lifts_limit(w) ? MAX(calm, 0) + dice_us(SPOT_US_PER_S, 60 * SPOT_US_PER_S)
			   : w->what.limit_after_us[w->limit]);
}

static void limit_heard(struct wish *w, bool over)
{
	if (over || lifts_limit(w)) {
		return;
	}
	w->limit++;
	if (lifts_limit(w) && w->what.gives_up) {
		w->what.cancels = true;
		loop_timer_set(&w->timer, dice_us(SPOT_US_PER_S, 300 * SPOT_US_PER_S));
		return;
	}
	limit_later(w);
}

static bool fleet_is_there(const char *name)
{
	for (size_t k = 0; k < wishes_n; k++) {
		if (wishes[k].what.kind == WISH_FLEET && str_same(wishes[k].what.fleet, name)) {
			return wishes[k].accepted;
		}
	}
	return false;
}

static void wish_again(struct wish *w)
{
	loop_timer_stop(&w->late);
	loop_timer_set(&w->timer, dice_us(SPOT_US_PER_S, 15 * SPOT_US_PER_S));
}

static void wish_accepted(struct wish *w, struct str reply)
{
	json_t *o AUTO(json) = NULL;

	if (json_parse(reply, "job", &o, NULL) != SPOT_OK) {
		return;
	}
	snprintf(w->id, sizeof(w->id), "%s", json_str(o, "id", "", NULL));
	w->accepted = true;
	trace("user's wish %s is accepted", w->id);
	if (w->what.cancels) {
		loop_timer_set(&w->timer, w->what.cancel_after_us);
	} else if (is_limited(w)) {
		limit_later(w);
	}
}

static bool text_says(struct str words, const char *what)
{
	return memmem(words.p, words.n, what, strlen(what)) != NULL;
}

/* A deadline that cannot be met is refused at once. So are a job and a demand for a fleet that was
 * closed meanwhile. */
static bool is_refused(const struct wish *w, struct str words)
{
	if (w->what.kind == WISH_DEMAND) {
		return text_says(words, "fleet");
	}
	return w->what.kind == WISH_JOB &&
	    (text_says(words, "cannot be met") ||
		(w->what.fleet != NULL && text_says(words, "fleet")));
}

static void reply_heard(struct flight_to *to)
{
	struct wish *w = container_of(to, struct wish, to);

	loop_timer_stop(&w->late);
	if (!to->reset && to->status / 100 == 2) {
		if (!w->accepted) {
			wish_accepted(w, to->reply);
		} else if (is_limited(w)) {
			limit_heard(w, false);
		} else {
			w->cancelled = true;
		}
		return;
	}
	if (!to->reset && w->what.kind == WISH_DEMAND && to->status == 409 &&
	    text_says(to->reply, "is CLOS")) {
		w->refused = true;
		return;
	}
	if (!to->reset && to->status / 100 == 4 && to->status != 409 && to->status != 412 &&
	    to->status != 429) {
		w->refused = !w->accepted && is_refused(w, to->reply);
		if (w->refused) {
			trace("a wish is refused: %.*s", (int)MIN(to->reply.n, (size_t)300),
			    to->reply.p);
		}
		/* A job that ended before its cancellation arrived. */
		always((w->accepted && w->what.kind == WISH_JOB) || w->refused,
		    "a user's request is understood", "%d %.*s", to->status,
		    (int)MIN(to->reply.n, (size_t)300), to->reply.p);
		return;
	}
	/* It is over, or has cost more than the limit. */
	if (w->accepted && is_limited(w) && to->status == 409 && text_says(to->reply, "is over")) {
		limit_heard(w, true);
		return;
	}
	if (w->accepted && is_limited(w) && to->status == 409 && text_says(to->reply, "has cost")) {
		sometimes("a limit below what a job had cost was refused");
		limit_heard(w, false);
		return;
	}
	if (w->accepted && !is_limited(w) && to->status == 409 && w->what.kind == WISH_JOB &&
	    text_says(to->reply, "is over")) {
		return;
	}
	wish_again(w);
}

static void reply_late(struct loop_timer *t)
{
	struct wish *w = container_of(t, struct wish, late);

	flight_forget(&w->to);
	wish_again(w);
}

static const char *wish_address(struct wish *w)
{
	const char *base = "http://127.0.0.1:8080/v1";

	if (w->what.kind == WISH_REBALANCE) {
		snprintf(w->url, sizeof(w->url), "%s/rebalance", base);
	} else if (w->what.kind == WISH_DEMAND) {
		snprintf(w->url, sizeof(w->url), "%s/fleets/%s/demand", base, w->what.fleet);
	} else if (!w->accepted) {
		snprintf(w->url, sizeof(w->url), "%s/%s", base,
		    w->what.kind == WISH_FLEET ? "fleets" : "jobs");
	} else if (w->what.kind == WISH_FLEET) {
		snprintf(w->url, sizeof(w->url), "%s/fleets/%s", base, w->id);
	} else {
		snprintf(w->url, sizeof(w->url), "%s/jobs/%s%s", base, w->id,
		    is_limited(w) ? "" : "/cancel");
	}
	return w->url;
}

static void wish_send(struct loop_timer *t)
{
	struct wish *w = container_of(t, struct wish, timer);
	bool closes = w->accepted && w->what.kind == WISH_FLEET,
	     file = !w->accepted && w->what.kind <= WISH_FLEET;
	bool limits = w->accepted && is_limited(w);
	size_t n = 0;

	if (!w->accepted && w->what.kind != WISH_FLEET && w->what.fleet != NULL &&
	    !fleet_is_there(w->what.fleet)) {
		wish_again(w);
		return;
	}
	snprintf(w->auth, sizeof(w->auth), "Bearer %s", SIM_TOKEN);
	if (limits) {
		snprintf(w->key, sizeof(w->key), "limit-%s-%zu", w->id, w->limit);
		snprintf(w->limit_text, sizeof(w->limit_text), "{\"budget_usd\": null}");
		if (!lifts_limit(w)) {
			snprintf(w->limit_text, sizeof(w->limit_text), "{\"budget_usd\": %.6f}",
			    (double)w->what.limits[w->limit] / 1e6);
		}
	} else if (w->accepted) {
		snprintf(w->key, sizeof(w->key), "cancel-%s", w->id);
	}
	w->headers[n++] = (struct spot_header){ "Authorization", w->auth };
	w->headers[n++] =
	    (struct spot_header){ "Content-Type", file ? "application/yaml" : "application/json" };
	w->headers[n++] = (struct spot_header){ "Idempotency-Key", w->key };
	if (w->accepted && w->what.kind == WISH_JOB && !limits) {
		sometimes("a job was cancelled by its user");
	}
	w->to = (struct flight_to){ .over = reply_heard,
		.loop = world.loop,
		.from = "user",
		.method = closes                  ? "DELETE"
		    : w->what.kind == WISH_DEMAND ? "PUT"
		    : limits                      ? "PATCH"
						  : "POST",
		.url = wish_address(w),
		.headers = w->headers,
		.headers_n = n,
		.body = closes    ? (struct str){ "", 0 }
		    : limits      ? str_from(w->limit_text)
		    : w->accepted ? (struct str){ "{}", 2 }
				  : str_from(w->what.text) };
	loop_timer_set(&w->late, HEAR_US);
	flight_start(&w->to);
}

void work_begin(int64_t jobs, int64_t until_us)
{
	static struct wish_text drawn[JOBS_MAX];

	wishes_n = wishes_draw(drawn, JOBS_MAX, jobs, until_us);
	for (size_t k = 0; k < wishes_n; k++) {
		struct wish *w = &wishes[k];

		w->what = drawn[k];
		snprintf(w->key, sizeof(w->key), "wish-%zu", k);
		loop_timer_init(&w->timer, world.loop, wish_send);
		loop_timer_init(&w->late, world.loop, reply_late);
		loop_timer_set(&w->timer, w->what.at_us);
	}
}

size_t work_accepted(void)
{
	size_t n = 0;

	for (size_t k = 0; k < wishes_n; k++) {
		n += wishes[k].accepted || wishes[k].refused;
	}
	return n;
}

static size_t accepted_of(enum wish_kind kind)
{
	size_t n = 0;

	for (size_t k = 0; k < wishes_n; k++) {
		n += wishes[k].accepted && wishes[k].what.kind == kind;
	}
	return n;
}

size_t work_jobs(void)
{
	return accepted_of(WISH_JOB);
}

size_t work_fleets(void)
{
	return accepted_of(WISH_FLEET);
}

const char *work_cancelled(size_t wish)
{
	return wish < wishes_n && wishes[wish].cancelled && wishes[wish].what.kind == WISH_JOB
	    ? wishes[wish].id
	    : NULL;
}

bool work_limited(void)
{
	for (size_t k = 0; k < wishes_n; k++) {
		if (wishes[k].what.limits_n > 0) {
			return true;
		}
	}
	return false;
}

bool work_timed(void)
{
	for (size_t k = 0; k < wishes_n; k++) {
		if (wishes[k].what.timed) {
			return true;
		}
	}
	return false;
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
	struct wish w = { .what = { .kind = WISH_JOB },
		.to = { .status = 422, .reply = str_from("refused") } };

	loop_timer_init(&w.late, world.loop, reply_late);
	reply_heard(&w.to);
}
