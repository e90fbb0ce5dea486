/* What must always hold, and what must hold once everything is calm. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "base/base.h"

void check_step(void);     /* each minute */
bool check_settled(void);  /* all jobs are over and all machines are gone */
void check_end(void);

#endif
