#include "base/base.h"
#include "base/text/text.h"
#include "store/bind.h"

/* Oids of the element types, fixed in the server's bootstrap catalog. */
enum { OID_BOOL = 16, OID_INT8 = 20, OID_INT4 = 23, OID_TEXT = 25, OID_FLOAT8 = 701 };

static void put_be32(char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++) {
		p[i] = (char)(v >> (24 - 8 * i));
	}
}

static void put_be64(char *p, uint64_t v)
{
	for (int i = 0; i < 8; i++) {
		p[i] = (char)(v >> (56 - 8 * i));
	}
}

static uint64_t f64_bits(double v)
{
	uint64_t u;

	memcpy(&u, &v, sizeof(u));
	return u;
}

static void bind_die(const char *stmt, const char *what, const char *name)
    __attribute__((noreturn));
static void bind_die(const char *stmt, const char *what, const char *name)
{
	fprintf(stderr, "store: statement %s: %s %s\n", stmt, what, name);
	abort();
}

void bind_init(struct bind *b, const char *stmt)
{
	b->stmt = stmt;
	b->n = 0;
	memset(b->owned, 0, sizeof(b->owned));
}

void bind_fini(struct bind *b)
{
	for (int i = 0; i < b->n; i++) {
		free(b->owned[i]);
	}
	b->n = 0;
}

static void bind_add(struct bind *b, const char *p, size_t n, int binary)
{
	assert(b->n < BIND_MAX && n <= INT32_MAX);
	b->params[b->n] = (struct pg_param){ .p = p, .n = (int)n, .binary = binary };
	b->n++;
}

static void bind_absent(struct bind *b, bool may_null)
{
	char pos[16];

	if (!may_null) {
		snprintf(pos, sizeof(pos), "$%d", b->n + 1);
		bind_die(b->stmt, "NULL given for", pos);
	}
	bind_null(b);
}

void bind_null(struct bind *b)
{
	bind_add(b, NULL, 0, 1);
}

void bind_i64(struct bind *b, int64_t v)
{
	char *p = b->scalar[b->n];

	put_be64(p, (uint64_t)v);
	bind_add(b, p, 8, 1);
}

void bind_i32(struct bind *b, int32_t v)
{
	char *p = b->scalar[b->n];

	put_be32(p, (uint32_t)v);
	bind_add(b, p, 4, 1);
}

void bind_f64(struct bind *b, double v)
{
	char *p = b->scalar[b->n];

	put_be64(p, f64_bits(v));
	bind_add(b, p, 8, 1);
}

void bind_bool(struct bind *b, bool v)
{
	char *p = b->scalar[b->n];

	p[0] = v ? 1 : 0;
	bind_add(b, p, 1, 1);
}

void bind_text(struct bind *b, const char *v, bool may_null)
{
	size_t n = v == NULL ? 0 : strlen(v), ascii = 0;
	char *copy;

	if (v == NULL) {
		bind_absent(b, may_null);
		return;
	}
	while (ascii < n && (unsigned char)v[ascii] < 0x80) {
		ascii++;
	}
	if (ascii == n) { /* as nearly all text is */
		bind_add(b, v, n, 1);
		return;
	}
	copy = strdup(v);
	if (copy == NULL) {
		bind_die(b->stmt, "no memory for", "a text");
	}
	(void)str_utf8_mend(copy, n);
	b->owned[b->n] = copy;
	bind_add(b, copy, n, 1);
}

/* jsonb's binary form only puts a version byte before the text, so the text form saves a copy. */
void bind_jsonb(struct bind *b, const char *v, bool may_null)
{
	if (v == NULL) {
		bind_absent(b, may_null);
	} else {
		bind_add(b, v, strlen(v), 0);
	}
}

void bind_bytes(struct bind *b, struct str v, bool may_null)
{
	if (v.p == NULL && (may_null || v.n > 0)) {
		bind_absent(b, may_null);
	} else {
		bind_add(b, v.p == NULL ? "" : v.p, v.n, 1);
	}
}

/*
 * Arrays on the wire (the server's array_recv) begin with dimensions, has-null flag and element
 * type. Length and lower bound of each dimension follow, then every element with its length (-1 =
 * NULL).
 */
#define ARRAY_HEAD 20
#define ARRAY_BYTES_MAX ((size_t)256 << 20)

static char *array_new(struct bind *b, uint32_t oid, size_t n, bool nulls, size_t body)
{
	char *p;

	assert(b->n < BIND_MAX && n <= INT32_MAX && body <= ARRAY_BYTES_MAX);
	p = malloc(ARRAY_HEAD + body + 1);
	if (p == NULL) {
		bind_die(b->stmt, "no memory for", "an array");
	}
	put_be32(p, n > 0 ? 1 : 0);
	put_be32(p + 4, nulls ? 1 : 0);
	put_be32(p + 8, oid);
	put_be32(p + 12, (uint32_t)n);
	put_be32(p + 16, 1);
	b->owned[b->n] = p;
	/* The empty array has no dimensions: its head ends before them. */
	bind_add(b, p, n > 0 ? ARRAY_HEAD + body : 12, 1);
	return p + ARRAY_HEAD;
}

static const void *column_item(const struct bind_column *c, size_t i)
{
	return (const char *)c->base + i * c->stride;
}

static bool column_has(const struct bind_column *c, size_t i)
{
	return c->has == NULL || *(const bool *)((const char *)c->has + i * c->stride);
}

/* Writes elements of one size; put writes one of them. */
static void column_fixed(struct bind *b, struct bind_column c, uint32_t oid, size_t size,
    void (*put)(char *to, const void *item))
{
	size_t nulls = 0;
	char *p;

	if (c.base == NULL && c.n > 0) {
		bind_absent(b, false);
		return;
	}
	for (size_t i = 0; i < c.n; i++) {
		nulls += !column_has(&c, i);
	}
	p = array_new(b, oid, c.n, nulls > 0, c.n * (4 + size) - nulls * size);
	for (size_t i = 0; i < c.n; i++) {
		bool has = column_has(&c, i);

		put_be32(p, has ? (uint32_t)size : UINT32_MAX);
		if (has) {
			put(p + 4, column_item(&c, i));
		}
		p += has ? 4 + size : 4;
	}
}

static void put_i64(char *to, const void *item)
{
	put_be64(to, (uint64_t) * (const int64_t *)item);
}

static void put_i32(char *to, const void *item)
{
	put_be32(to, (uint32_t) * (const int32_t *)item);
}

static void put_f64(char *to, const void *item)
{
	put_be64(to, f64_bits(*(const double *)item));
}

static void put_bool(char *to, const void *item)
{
	to[0] = *(const bool *)item ? 1 : 0;
}

void bind_i64_column(struct bind *b, struct bind_column c)
{
	column_fixed(b, c, OID_INT8, 8, put_i64);
}

void bind_i32_column(struct bind *b, struct bind_column c)
{
	column_fixed(b, c, OID_INT4, 4, put_i32);
}

void bind_f64_column(struct bind *b, struct bind_column c)
{
	column_fixed(b, c, OID_FLOAT8, 8, put_f64);
}

void bind_bool_column(struct bind *b, struct bind_column c)
{
	column_fixed(b, c, OID_BOOL, 1, put_bool);
}

/* Returns the text of item i. name is NULL if the items are texts already. */
static const char *column_text(const struct bind_column *c, size_t i, const char *(*name)(int))
{
	const void *item = column_item(c, i);

	return name != NULL ? name(*(const int *)item) : *(const char *const *)item;
}

static void column_texts(struct bind *b, struct bind_column c, const char *(*name)(int))
{
	size_t body = 0;
	bool nulls = false;
	char *p;

	if (c.base == NULL && c.n > 0) {
		bind_absent(b, false);
		return;
	}
	for (size_t i = 0; i < c.n; i++) {
		const char *v = column_text(&c, i, name);

		body += 4 + (v == NULL ? 0 : strlen(v));
		nulls |= v == NULL;
	}
	p = array_new(b, OID_TEXT, c.n, nulls, body);
	for (size_t i = 0; i < c.n; i++) {
		const char *v = column_text(&c, i, name);
		size_t len = v == NULL ? 0 : strlen(v);

		put_be32(p, v == NULL ? UINT32_MAX : (uint32_t)len);
		if (len > 0) {
			memcpy(p + 4, v, len);
		}
		(void)str_utf8_mend(p + 4, len);
		p += 4 + len;
	}
}

void bind_text_column(struct bind *b, struct bind_column c)
{
	column_texts(b, c, NULL);
}

void bind_enum_column(struct bind *b, struct bind_column c, const char *(*name)(int))
{
	column_texts(b, c, name);
}

/* Binds an array parameter. NULL with no items is SQL NULL if that is allowed. */
#define ARRAY_BIND(type, c_type) \
	void bind_##type##_array(struct bind *b, c_type const *v, size_t n, bool may_null) \
	{ \
		if (v == NULL && (may_null || n > 0)) { \
			bind_absent(b, may_null); \
		} else { \
			bind_##type##_column(b, BIND_ARRAY(v, n)); \
		} \
	}
ARRAY_BIND(i64, int64_t)
ARRAY_BIND(i32, int32_t)
ARRAY_BIND(f64, double)
ARRAY_BIND(bool, bool)
ARRAY_BIND(text, const char *)

size_t row_count(const struct pg_result *r, int cols, const char *stmt, size_t max)
{
	size_t n = r == NULL ? 0 : pg_rows(r);

	if (n > max) {
		bind_die(stmt, "gave several rows,", "its header promises one");
	}
	if (n > 0 && pg_columns(r) != cols) {
		bind_die(stmt, "gave another number of columns than", "its header says");
	}
	return n;
}

static void row_need(const struct pg_result *r, size_t row, int col, const char *stmt,
    const char *name)
{
	if (pg_null(r, row, col)) {
		bind_die(stmt, "NULL in column", name);
	}
}

int64_t row_i64(const struct pg_result *r, size_t row, int col, const char *stmt, const char *name)
{
	int64_t v = pg_int(r, row, col);

	if (v == 0) { /* a NULL reads as 0; asking only then saves a call per value */
		row_need(r, row, col, stmt, name);
	}
	return v;
}

int32_t row_i32(const struct pg_result *r, size_t row, int col, const char *stmt, const char *name)
{
	int64_t v = row_i64(r, row, col, stmt, name);

	assert(v >= INT32_MIN && v <= INT32_MAX);
	return (int32_t)v;
}

double row_f64(const struct pg_result *r, size_t row, int col, const char *stmt, const char *name)
{
	row_need(r, row, col, stmt, name);
	return pg_float(r, row, col);
}

bool row_bool(const struct pg_result *r, size_t row, int col, const char *stmt, const char *name)
{
	row_need(r, row, col, stmt, name);
	return pg_bool(r, row, col);
}

const char *row_text(const struct pg_result *r, size_t row, int col, struct arena *a, bool may_null,
    const char *stmt, const char *name)
{
	struct str s;

	s = pg_bytes(r, row, col);
	if (s.n == 0) {
		if (may_null && pg_null(r, row, col)) {
			return NULL;
		}
		row_need(r, row, col, stmt, name);
	}
	return arena_strndup(a, s.p, s.n);
}

const char *row_jsonb(const struct pg_result *r, size_t row, int col, struct arena *a,
    bool may_null, const char *stmt, const char *name)
{
	struct str s;

	if (may_null && pg_null(r, row, col)) {
		return NULL;
	}
	row_need(r, row, col, stmt, name);
	s = pg_bytes(r, row, col);
	assert(s.n > 0 && s.p[0] == 1); /* jsonb_send: version 1, then the text */
	return arena_strndup(a, s.p + 1, s.n - 1);
}

int row_enum(const struct pg_result *r, size_t row, int col, bool may_null,
    int (*parse)(const char *), const char *stmt, const char *name)
{
	struct str s = pg_bytes(r, row, col);
	char text[32];
	int v;

	if (may_null && pg_null(r, row, col)) {
		return 0;
	}
	row_need(r, row, col, stmt, name);
	snprintf(text, sizeof(text), "%.*s", (int)MIN(s.n, sizeof(text) - 1), s.p);
	v = parse(text);
	if (v == 0) {
		bind_die(stmt, "unknown word in column", name);
	}
	return v;
}

struct str row_bytes(const struct pg_result *r, size_t row, int col, struct arena *a, bool may_null,
    const char *stmt, const char *name)
{
	if (may_null && pg_null(r, row, col)) {
		return (struct str){ NULL, 0 };
	}
	row_need(r, row, col, stmt, name);
	struct str s = pg_bytes(r, row, col);
	return arena_bytes(a, s.p, s.n);
}
