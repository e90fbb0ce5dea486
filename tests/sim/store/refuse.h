/* A database that refuses statements for a while. */
#ifndef SIM_REFUSE_H
#define SIM_REFUSE_H

#include <libpq-fe.h>

struct pg_stmt;
void refuse_minute(void);
void refuse_calm(void);
PGresult *refuse_ran(const struct pg_stmt *s); /* the error, or NULL: it is let through */
void refuse_break(void); /* for breaks.c */

#endif
