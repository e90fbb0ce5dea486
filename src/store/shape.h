/*
 * Rows of a statement as JSON objects, written straight from the binary columns of its result. The
 * `-- json:` line of the statement's header is the shape, and gen_sql.py turns it into these steps.
 * Marks are those of base/text/json_marks.h.
 */
#ifndef STORE_SHAPE_H
#define STORE_SHAPE_H

#include "base/base.h"
#include "base/text/sbuf.h"

struct pg_result;

enum shape_kind {
	SHAPE_I64 = 1,
	SHAPE_F64,
	SHAPE_BOOL,
	SHAPE_TEXT,
	SHAPE_JSONB,
	SHAPE_JSON, /* text that is JSON */
	SHAPE_ID, /* "j12" */
	SHAPE_MILLI, /* thousandths, as a decimal */
	SHAPE_TIME,
	SHAPE_AGE,
	SHAPE_MONEY,
	SHAPE_OPEN, /* an object; null if column `col` is NULL: then `skip` steps are left out */
	SHAPE_CLOSE,
};
struct shape_step {
	enum shape_kind kind;
	int col, skip;
	char letter; /* of an id */
	struct str key; /* with quotes and colon: "\"price_micros\":" */
	struct str second; /* of money and ages: the other member */
};
struct shape {
	const char *stmt;
	const struct shape_step *steps;
	size_t n;
};
/* Writes the members of a row's object, without its braces, so that a caller may add more. */
void shape_put(struct sbuf *b, const struct shape *s, const struct pg_result *r, size_t row,
    int64_t now_us);

#endif
