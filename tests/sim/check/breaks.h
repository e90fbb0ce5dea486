/* Breaks of facts that are no rows (breaks_programs.c), for the table in breaks.c. */
#ifndef SIM_CHECK_BREAKS_H
#define SIM_CHECK_BREAKS_H

void epoch_twice(void);
void began_long_ago(void);
void begun_twice(void);
void begun_anew(void);
void alien_found(void);

#endif
