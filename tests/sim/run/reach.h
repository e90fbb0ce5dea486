/* States and faults that the seeds of a batch reached, and must reach (reach.c). */
#ifndef SIM_REACH_H
#define SIM_REACH_H

#include <stdbool.h>
#include <stdint.h>

void reach_add(const char *kind, const char *name, int64_t n); /* of one seed */
int64_t reach_stat(const char *name);
void reach_print(void);
void reach_list(void); /* prints the kind and name of each row of the table */
/* Tells of whatever so many seeds must have come to and did not. small: they were small worlds. */
bool reach_all(int64_t seeds, bool small);

#endif
