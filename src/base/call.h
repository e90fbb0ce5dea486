/* Helpers for provider step functions (and for tests that drive them). Request building keeps the
 * invariants of the contract: strings in the call's arena, header limit checked. */
#ifndef BASE_CALL_H
#define BASE_CALL_H

#include "base/base.h"
#include "base/arena.h"
#include "spot/provider.h"

#include <jansson.h>

/* Starts c->out afresh. */
void call_request(struct spot_call *c, const char *method, const char *url);
void call_header(struct spot_call *c, const char *name, const char *value);
void call_body(struct spot_call *c, const char *content_type, const char *body, size_t n);
enum spot_step call_fail(struct spot_call *c, enum spot_rc rc, const char *code, const char *fmt,
    ...) PRINTF(4, 5);
enum spot_step call_again(struct spot_call *c, enum spot_rc rc, int64_t retry_after_us,
    const char *code, const char *fmt, ...) PRINTF(5, 6);
/* Retry-After in seconds or HTTP date; 0 if absent or unusable. */
int64_t call_retry_after_us(const struct spot_call *c);
/* How far the vendor's clock, by the Date of the reply, is ahead of now_us; false: the reply has
 * none. */
NODISCARD bool call_clock_off(const struct spot_call *c, int64_t *ret_us);

/* Whether at_us, which is never put off by more than most_us, has come. One that lies further ahead
 * was written by a wall clock that was ahead and has been set right since: it has come too. */
bool call_due(int64_t now_us, int64_t at_us, int64_t most_us);

/* The meaning of replies that is the same for every vendor. vendor and what begin the words of an
 * error: "gcp instances.list: no reply". */

/* The connection broke. The core turns that into UNKNOWN for mutating requests by itself; a step
 * that is asked all the same says the same. */
enum spot_step call_no_reply(struct spot_call *c, const char *vendor, const char *what);
/* A reply that cannot be what the vendor says; one to a request that creates things leaves it
 * open. */
enum spot_step call_bad_reply(struct spot_call *c, const char *vendor, const char *what,
    const char *fmt, ...) PRINTF(4, 5);
/* An error reply whose code (may be "") means nothing to us: judged by its HTTP class. code and
 * words are clean (redact_words). */
enum spot_step call_status_verdict(struct spot_call *c, const char *vendor, const char *what,
    const char *code, const char *words, int64_t wait_us);
/* The body as a JSON object: SPOT_STEP_NONE and *ret, which the caller owns; or the verdict. */
enum spot_step call_json_object(struct spot_call *c, const char *vendor, const char *what,
    json_t **ret);
/* Where a call of several requests stands, in its own memory; at: what is asked or done next. */
struct call_state {
	int at;
	bool resynced; /* the vendor's clock was taken over once in this call */
	const char *next; /* page token or link of the request to build, NULL = first page */
	size_t pages;
	void *own; /* the verb's struct */
};
/* The call's, zeroed when it is asked for the first time. */
struct call_state *call_state_get(struct spot_call *c, size_t own_size);
/* The page after this one: true, and its token is kept in *next. An absent or empty token is the
 * end. *ret_bad: the token repeats, or there have been pages_max pages. */
bool call_next_page(struct arena *a, const char *token, size_t pages_max, const char **next,
    size_t *pages, bool *ret_bad);

#endif
