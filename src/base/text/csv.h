/* RFC 4180 reader over a whole text: quoted fields, doubled quotes, columns by header name. */
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
/* Reads the next row: 1 = a row, 0 = the end, -1 = an error, such as a wrong number of fields. */
int csv_next(struct csv *c, struct spot_err *err);
const char *csv_get(const struct csv *c, const char *column); /* "" if there is no such column */

#endif
