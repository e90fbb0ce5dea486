/*
 * Operators. They run the doctor, and have orphans ended before their grace is over. Each request
 * is over in the end, whatever crashed meanwhile (check_work.c). A request may be lost: they repeat
 * it.
 *
 * Only in small worlds and every sixteenth seed, with draws of its own.
 */
#include "sim/world/world.h"
#include "sim/net/net.h"
#include "sim/users/asks.h"
#include "sim/broker/broker.h"
#include "sim/check/check.h"
#include "sim/store/rows.h"
#include "sim/world/mix.h"
#include "sim/world/profiles.h"

#include "base/base.h"

#include <libpq-fe.h>

#define HEAR_US (20 * SPOT_US_PER_S)

static struct rng rng;
static struct {
	struct flight_to to;
	struct loop_timer late;
	struct spot_header headers[3];
	char auth[128], key[32], url[64], body[256];
	bool on, leak;
	size_t n; /* how many were asked for */
} ask;

static bool asks_here(void)
{
	return profile_is(PROFILE_ASKING);
}

static void ask_send(void);

static void ask_again(void)
{
	loop_timer_stop(&ask.late);
	if (ask.on) {
		ask_send();
	}
}

static void reply_late(struct loop_timer *t UNUSED)
{
	flight_forget(&ask.to);
	ask_again();
}

/* 404: somebody was faster. */
static void reply_heard(struct flight_to *to)
{
	bool no = to->status / 100 == 4 && to->status != 409 && to->status != 429;

	loop_timer_stop(&ask.late);
	if (to->reset || (to->status / 100 != 2 && !no)) {
		loop_timer_set(&ask.late, SPOT_US_PER_S);
		return;
	}
	always(!no || (ask.leak && to->status == 404), "a user's request is understood",
	    "%s %d %.*s", ask.url, to->status, (int)MIN(to->reply.n, (size_t)300), to->reply.p);
	if (!no) {
		sometimes(ask.leak ? "the end of a leak was asked for" : "somebody ran the doctor");
	}
	ask.on = false;
}

static void ask_send(void)
{
	ask.to = (struct flight_to){ .over = reply_heard,
		.loop = world.loop,
		.from = "user",
		.method = "POST",
		.url = ask.url,
		.headers = ask.headers,
		.headers_n = 3,
		.body = str_from(ask.body) };
	loop_timer_set(&ask.late, HEAR_US);
	flight_start(&ask.to);
}

/* One that is known for long enough to be seen; a machine unknown to a restored backup is to be
 * kept. */
static bool leak_draw(void)
{
	PGresult *r = check_rows("SELECT provider, ref FROM orphan WHERE gone_us IS NULL AND "
				 "terminate_us IS NULL AND NOT kept AND word = '' ORDER BY ref");
	int n = PQntuples(r);
	int at = n > 0 ? (int)rng_below(&rng, (uint64_t)n) : 0;

	if (n > 0) {
		snprintf(ask.body, sizeof(ask.body),
		    "{\"provider\": \"%s\", \"ref\": \"%s\", \"act\": \"end\"}",
		    PQgetvalue(r, at, 0), PQgetvalue(r, at, 1));
	}
	PQclear(r);
	return n > 0;
}

void asks_minute(void)
{
	static bool begun;

	if (!asks_here() || ask.on) {
		return;
	}
	if (!begun) {
		rng_seeded_init(&rng, world.conf.seed ^ UINT64_C(0x9b05688c2b3e6c1f));
		loop_timer_init(&ask.late, world.loop, reply_late);
		snprintf(ask.auth, sizeof(ask.auth), "Bearer %s", SIM_TOKEN);
		ask.headers[0] = (struct spot_header){ "Authorization", ask.auth };
		ask.headers[1] = (struct spot_header){ "Content-Type", "application/json" };
		ask.headers[2] = (struct spot_header){ "Idempotency-Key", ask.key };
		begun = true;
	}
	if (world.quiet) {
		return;
	}
	ask.leak = leak_draw();
	if (!ask.leak && rng_below(&rng, 4) != 0) {
		return;
	}
	if (!ask.leak) {
		snprintf(ask.body, sizeof(ask.body), "%s",
		    rng_below(&rng, 2) == 0 ? "{}" : "{\"consistency\": true}");
	}
	snprintf(ask.url, sizeof(ask.url), "http://127.0.0.1:8080/v1/%s",
	    ask.leak ? "leaks" : "doctor");
	snprintf(ask.key, sizeof(ask.key), "ask-%zu", ++ask.n);
	ask.on = true;
	ask_send();
}

bool asks_done(void)
{
	return !ask.on;
}
