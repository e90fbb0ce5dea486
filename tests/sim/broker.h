/* The daemon inside of the simulation: wired as src/spotd/roles.c does, killed and started at will. */
#ifndef SIM_BROKER_H
#define SIM_BROKER_H

#include "base/base.h"

#define SIM_PORT 8080
#define SIM_TOKEN "spt_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

void broker_install(void);          /* rows that the first start makes */
void broker_start(const char *providers);
/* kill -9: what it had sent may still take effect, what it would have heard is lost. */
void broker_crash(void);
bool broker_up(void);

#endif
