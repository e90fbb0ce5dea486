/*
 * The daemon inside of the simulation: wired as src/spotd/roles.c does, killed, stopped and started
 * at will. In some seeds there are two of them on the one database, at one address.
 */
#ifndef SIM_BROKER_H
#define SIM_BROKER_H

#include "base/base.h"
#include "io/loop/loop.h"

#define SIM_PORT 8080
#define SIM_TOKEN "spt_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

void broker_install(void); /* rows that the first start makes */
void brokers_begin(const char *providers);
/* After the turn of that loop: daemons die, pause, go on, start again. */
void brokers_turn(const struct loop *turned);
void brokers_minute(void);
void brokers_calm(void); /* paused daemons go on, clocks are right */
void brokers_end(void);
bool brokers_on_time(void); /* nobody's clock is off by a minute or more */
/* The rule: the market that each daemon keeps equals the rows. */
void brokers_market_check(void);
void brokers_market_break(void); /* breaks.c */
bool broker_up(void); /* all that there should be run */

#endif
