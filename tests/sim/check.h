/* What must always hold, and what must hold once everything is calm. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "base/base.h"
#include "base/str.h"

#include <libpq-fe.h>

void check_step(void);     /* each minute */
bool check_settled(void);  /* all jobs are over and all machines are gone */
void check_end(void);
/* The rules that check_end looks at, and no more. progress: also of programs that were looked at before. */
void check_rules_end(void);
void check_progress_again(void);
PGresult *check_rows(const char *sql); /* sql: a literal, prepared once */

/* check_acts.c */
void check_sent(const char *url, struct str body); /* a message leaves */
void check_ended(void);

/* breaks.c: breaks each rule on purpose, at the end of a seed, and counts what was heard of it. */
void breaks_all(void);

#endif
