#include "base/base.h"
#include "io/pg/pg_priv.h"

size_t pg_rows(const struct pg_result *r)
{
	return r == NULL ? 0 : (size_t)PQntuples(r->res);
}

int pg_columns(const struct pg_result *r)
{
	return r == NULL ? 0 : PQnfields(r->res);
}

/* Returns the number in the server's command tag ("UPDATE 3"); 0 if there is none. */
int64_t pg_affected(const struct pg_result *r)
{
	/* PQcmdTuples() takes a non-const pointer, but changes nothing. */
	const char *s = r == NULL ? "" : PQcmdTuples(r->res);
	int64_t n = 0;

	while (*s >= '0' && *s <= '9') {
		n = n * 10 + (*s++ - '0');
	}
	return n;
}

bool pg_null(const struct pg_result *r, size_t row, int col)
{
	return PQgetisnull(r->res, (int)row, col) != 0;
}

struct str pg_bytes(const struct pg_result *r, size_t row, int col)
{
	return (struct str){ PQgetvalue(r->res, (int)row, col),
		(size_t)PQgetlength(r->res, (int)row, col) };
}

static uint64_t read_be(const struct pg_result *r, size_t row, int col, size_t *ret_n)
{
	struct str s = pg_bytes(r, row, col);
	uint64_t v = 0;

	assert(s.n <= 8); /* we always ask for the binary format */
	for (size_t i = 0; i < s.n; i++) {
		v = v << 8 | (uint8_t)s.p[i];
	}
	*ret_n = s.n;
	return v;
}

int64_t pg_int(const struct pg_result *r, size_t row, int col)
{
	size_t n;
	uint64_t v = read_be(r, row, col, &n);

	switch (n) {
	case 0:
		return 0; /* NULL */
	case 2:
		return (int16_t)(uint16_t)v;
	case 4:
		return (int32_t)(uint32_t)v;
	case 8:
		return (int64_t)v;
	default:
		assert(false && "pg_int: not an integer column");
		return 0;
	}
}

double pg_float(const struct pg_result *r, size_t row, int col)
{
	size_t n;
	uint64_t v = read_be(r, row, col, &n);
	uint32_t v4 = (uint32_t)v;
	double d = 0;
	float f;

	assert(n == 0 || n == 4 || n == 8);
	if (n == 8) {
		memcpy(&d, &v, sizeof(d));
	} else if (n == 4) {
		memcpy(&f, &v4, sizeof(f));
		d = (double)f;
	}
	return d;
}

bool pg_bool(const struct pg_result *r, size_t row, int col)
{
	size_t n;

	return read_be(r, row, col, &n) != 0;
}
