/* Helpers for provider step functions (and for tests that drive them). Request building keeps the
 * invariants of the contract: strings in the call's arena, header limit checked. */
#ifndef BASE_CALL_H
#define BASE_CALL_H

#include "base/base.h"
#include "base/arena.h"
#include "spot/provider.h"

/* Starts c->out afresh. */
void call_request(struct spot_call *c, const char *method, const char *url);
void call_header(struct spot_call *c, const char *name, const char *value);
void call_body(struct spot_call *c, const char *content_type, const char *body, size_t n);
enum spot_step call_fail(struct spot_call *c, enum spot_rc rc, const char *code, const char *fmt, ...)
    PRINTF(4, 5);
enum spot_step call_again(struct spot_call *c, enum spot_rc rc, int64_t retry_after_us, const char *code,
    const char *fmt, ...) PRINTF(5, 6);
/* Retry-After in seconds or HTTP date; 0 if absent or unusable. */
int64_t call_retry_after_us(const struct spot_call *c);
/* Drives a step function with a scripted transport until a verdict: for tests without a loop. */

#endif
