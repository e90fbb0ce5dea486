/* The leader, by the leases that were given. */
#ifndef SIM_LEADERS_H
#define SIM_LEADERS_H

#include "base/base.h"

struct pg;
void leaders_born(const struct pg *p); /* a daemon starts; this is its pool */
size_t leaders_daemon(const struct pg *p); /* 0 or 1 */
void leaders_took(const struct pg *p, int64_t epoch);
bool leaders_leads(const struct pg *p); /* no newer lease was given */
int64_t leaders_newest(void); /* 0 = there was no lease */
int64_t leaders_epoch(size_t daemon); /* that it was given last */
/* That daemon stops, or goes on. */
void leaders_stop(const struct pg *p, bool stop);
/* Since when one daemon leads that never stood still; 0 = none does. Such a leader does its work
 * within a few passes. */
int64_t leaders_steady_since(void);
void leaders_unsteady(void); /* it cannot do its work just now */
/* For breaks.c: the rules of how the lease is taken. */
void leaders_break_lease(void);

#endif
