/* Operators of the daemon. */
#ifndef SIM_ASKS_H
#define SIM_ASKS_H

#include "base/base.h"

void asks_minute(void);
bool asks_done(void); /* everything was accepted */

#endif
