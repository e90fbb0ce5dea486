/*
 * Primitives of the generated store/q.c: they put parameters into the wire's binary form and read
 * columns of a result. Only q.c uses them. A NULL that the statement's header does not allow is a
 * programming error. It ends the process with the names of statement and column, since a wrong row
 * would be worse.
 */
#ifndef STORE_BIND_H
#define STORE_BIND_H

#include "io/pg/pg.h"

struct arena;
#define BIND_MAX 64
struct bind {
	const char *stmt;
	int n;
	struct pg_param params[BIND_MAX];
	char scalar[BIND_MAX][8];
	char *owned[BIND_MAX]; /* arrays; freed by bind_fini */
};
void bind_init(struct bind *b, const char *stmt);
void bind_fini(struct bind *b);
void bind_null(struct bind *b);
void bind_i64(struct bind *b, int64_t v);
void bind_i32(struct bind *b, int32_t v);
void bind_f64(struct bind *b, double v);
void bind_bool(struct bind *b, bool v);
/* Binds a view, which must stay valid until pg_exec() returns. may_null: NULL becomes SQL NULL.
 * Bytes that are not UTF-8 become '?', since the server would refuse the whole statement. They
 * occur in a gateway's page or in a truncated text of a vendor. */
void bind_text(struct bind *b, const char *v, bool may_null);
void bind_jsonb(struct bind *b, const char *v, bool may_null);
void bind_bytes(struct bind *b, struct str v, bool may_null);
/* NULL with n == 0 is the empty array, or SQL NULL if may_null. */
void bind_i64_array(struct bind *b, const int64_t *v, size_t n, bool may_null);
void bind_i32_array(struct bind *b, const int32_t *v, size_t n, bool may_null);
void bind_f64_array(struct bind *b, const double *v, size_t n, bool may_null);
void bind_bool_array(struct bind *b, const bool *v, size_t n, bool may_null);
void bind_text_array(struct bind *b, const char *const *v, size_t n,
    bool may_null); /* NULL items are NULL */

/* One member of an array of structs, as an array parameter. `has` is the optional bool member that
 * says whether an item has the value. NULL texts and enums of value 0 are SQL NULL. */
struct bind_column {
	const void *base;
	const bool *has;
	size_t n, stride;
};
#define BIND_COLUMN(rows, count, member) \
	((struct bind_column){ .base = (rows) != NULL ? &(rows)->member : NULL, \
	    .n = (count), \
	    .stride = sizeof(*(rows)) })
#define BIND_NULL_COLUMN(rows, count, member, has_member) \
	((struct bind_column){ .base = (rows) != NULL ? &(rows)->member : NULL, \
	    .has = (rows) != NULL ? &(rows)->has_member : NULL, \
	    .n = (count), \
	    .stride = sizeof(*(rows)) })
#define BIND_ARRAY(items, count) \
	((struct bind_column){ .base = (items), .n = (count), .stride = sizeof(*(items)) })
void bind_i64_column(struct bind *b, struct bind_column c);
void bind_i32_column(struct bind *b, struct bind_column c);
void bind_f64_column(struct bind *b, struct bind_column c);
void bind_bool_column(struct bind *b, struct bind_column c);
void bind_text_column(struct bind *b, struct bind_column c);
void bind_enum_column(struct bind *b, struct bind_column c, const char *(*name)(int));

/* Returns the number of rows in r (0 for NULL). Asserts the promised width and at most max rows. */
size_t row_count(const struct pg_result *r, int cols, const char *stmt, size_t max);
int64_t row_i64(const struct pg_result *r, size_t row, int col, const char *stmt, const char *name);
int32_t row_i32(const struct pg_result *r, size_t row, int col, const char *stmt, const char *name);
double row_f64(const struct pg_result *r, size_t row, int col, const char *stmt, const char *name);
bool row_bool(const struct pg_result *r, size_t row, int col, const char *stmt, const char *name);
const char *row_text(const struct pg_result *r, size_t row, int col, struct arena *a, bool may_null,
    const char *stmt, const char *name);
const char *row_jsonb(const struct pg_result *r, size_t row, int col, struct arena *a,
    bool may_null, const char *stmt, const char *name);
/* Returns the enum that the text names. An unknown word ends the process, like a NULL. */
int row_enum(const struct pg_result *r, size_t row, int col, bool may_null,
    int (*parse)(const char *), const char *stmt, const char *name);
struct str row_bytes(const struct pg_result *r, size_t row, int col, struct arena *a, bool may_null,
    const char *stmt, const char *name);

#endif
