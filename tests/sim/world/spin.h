/* A seed that does not come to its end; tests/sim/world/spin.c. */
#ifndef SIM_SPIN_H
#define SIM_SPIN_H

#include <stdbool.h>

#define SPIN_RULE "time goes on"
/* Real seconds that a seed may take: it takes one, and some where a machine has much else to do. */
#define SPIN_REAL_S 900

/* Bounds the processor time of a seed's process from here on. A process that has used it up says so
 * to out, and ends. alone: prints more. */
void spin_limit(int out, bool alone);
void spin_turn(void); /* one turn of a loop */
bool spin_seen(void);
void spin_check(void); /* the rule */
void spin_raise(bool on); /* breaks.c */

#endif
