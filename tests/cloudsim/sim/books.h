/*
 * What was asked of us and what it costs: launches, terminations, request counters, events (with
 * long poll), and the provider's own bill.
 */
#ifndef EMULATOR_BOOKS_H
#define EMULATOR_BOOKS_H

#include "cloudsim/sim/instance.h"
#include "cloudsim/sim/front.h"

void books_new(struct sim *s);
void books_free(struct sim *s);
void books_request(struct sim *s, const char *service, const char *action, const char *code,
    int status);
/* One launch request that reached the point of effect. code NULL = instances were made. */
void books_launch(struct sim *s, enum cloud c, const char *token, const char *scope,
    const char *params_hash, const struct pool *p, enum side side, const char *code,
    struct inst *const *insts, size_t n, bool replayed);
/* Event for /wait; detail may be NULL, is stolen. */
void books_event(struct sim *s, const char *type, struct inst *i, json_t *detail);
json_t *books_counts(const struct sim *s);
json_t *books_launches(const struct sim *s);
json_t *books_bill(const struct sim *s);
/* Events after seq that match (NULL = any); new array. */
json_t *books_events(const struct sim *s, uint64_t since, const char *type, const char *instance,
    const char *token);
uint64_t books_seq(const struct sim *s);
/* waits.c: parks the request until events match. */
void waits_new(struct sim *s);
void waits_free(struct sim *s);
void waits_park(struct sim *s, struct httpd_req *r);
void waits_wake(struct sim *s);
/* Cost of one instance so far, in micro-dollars: price in force, second by second. */
int64_t bill_micros(const struct inst *i, int64_t *ret_from, int64_t *ret_to);

#endif
