/* RFC 4180 reader over a whole text: quoted fields, doubled quotes, header row by name. */
#ifndef BASE_CSV_H
#define BASE_CSV_H

#include "base/base.h"

struct arena;
struct csv {
	struct str text;
	size_t pos;
	int line;
	const char **header;
	size_t columns;
	const char **row; /* after csv_next: columns strings, NUL terminated */
	struct arena *arena;
};
NODISCARD enum spot_rc csv_open(struct csv *c, struct arena *a, struct str text,
    struct spot_err *err);
/* 1 = row, 0 = end, -1 = err. A row with a wrong number of fields is an error. */
int csv_next(struct csv *c, struct spot_err *err);
const char *csv_get(const struct csv *c, const char *column); /* "" if there is no such column */

#endif
