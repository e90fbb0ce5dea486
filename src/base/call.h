/* Helpers for provider step functions, and for tests that drive them. They copy the strings of a
 * request into the call's arena and check its header limit, as include/spot/provider.h requires. */
#ifndef BASE_CALL_H
#define BASE_CALL_H

#include "base/macros.h"
#include "base/arena.h"
#include "spot/provider.h"

#include <jansson.h>

/* Clears c->out and starts a new request in it. */
void call_request(struct spot_call *c, const char *method, const char *url);
void call_header(struct spot_call *c, const char *name, const char *value);
void call_body(struct spot_call *c, const char *content_type, const char *body, size_t n);
/* Fills c->err and ends the call: returns SPOT_FAIL. code is the vendor's, or NULL. */
enum spot_step call_fail(struct spot_call *c, enum spot_rc rc, const char *code, const char *fmt,
    ...) PRINTF(4, 5);
/* Fills c->err and asks for a retry: returns SPOT_AGAIN. retry_after_us 0: the usual back-off. */
enum spot_step call_again(struct spot_call *c, enum spot_rc rc, int64_t retry_after_us,
    const char *code, const char *fmt, ...) PRINTF(5, 6);
/* Returns the wait of Retry-After, given in seconds or as an HTTP date; 0 if absent or invalid. */
int64_t call_retry_after_us(const struct spot_call *c);
/* Sets *ret_us to the lead of the vendor's clock (the Date of the reply) over c->now_us. Returns
 * false if the reply has no valid Date. */
NODISCARD bool call_clock_off(const struct spot_call *c, int64_t *ret_us);

/* Reports whether the time at_us has come. No caller schedules further ahead than most_us. A later
 * time was written before the wall clock stepped back, so it counts as come. */
bool call_due(int64_t now_us, int64_t at_us, int64_t most_us);

/* Verdicts that are the same for every vendor. An error text begins with vendor and what:
 * "gcp instances.list: no reply". */

/* Verdict for a broken connection: UNKNOWN if the request is mutating, else a retry. */
enum spot_step call_no_reply(struct spot_call *c, const char *vendor, const char *what);
/* Verdict for a reply that breaks the vendor's format: UNKNOWN if the request is mutating, else
 * BAD_REPLY. */
enum spot_step call_bad_reply(struct spot_call *c, const char *vendor, const char *what,
    const char *fmt, ...) PRINTF(4, 5);
/* Verdict for an error reply with an unlisted code ("" if none), by its HTTP status. The caller
 * cleans code and words first (redact_words). wait_us is the wait before a retry. */
enum spot_step call_status_verdict(struct spot_call *c, const char *vendor, const char *what,
    const char *code, const char *words, int64_t wait_us);
/* Parses the body as a JSON object into *ret, which the caller owns, and returns SPOT_STEP_NONE.
 * Otherwise returns the verdict. */
enum spot_step call_json_object(struct spot_call *c, const char *vendor, const char *what,
    json_t **ret);
/* Progress of a call that takes several requests. */
struct call_state {
	int at; /* the verb's next step */
	bool resynced; /* this call has adopted the vendor's clock once */
	const char *next; /* page token or link of the next request, NULL = first page */
	size_t pages;
	void *own; /* the verb's struct */
};
/* Returns the state of the call. The first use allocates it, with own_size bytes at own, zeroed. */
struct call_state *call_state_get(struct spot_call *c, size_t own_size);
/* Moves on to the page of token and keeps a copy in *next; false at the end (no token or ""). Sets
 * *ret_bad and returns false if the token repeats or pages_max pages have come. */
bool call_next_page(struct arena *a, const char *token, size_t pages_max, const char **next,
    size_t *pages, bool *ret_bad);

/* Prices of a call that collects them over several replies. The arena of the call holds them. */
struct price_points {
	struct spot_price_point *items;
	size_t n, cap;
};
/* Appends a price that was observed now. Keeps the pointers of pool and source. */
void price_point_add(struct spot_call *c, struct price_points *x, const struct spot_pool_info *pool,
    int64_t micros, int64_t effective_us, const char *source);

#endif
