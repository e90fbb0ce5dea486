/*
 * Request templates of the load generator. A file holds any number of them:
 *
 *     ### POST /v1/jobs 3
 *     Content-Type: application/yaml
 *     Idempotency-Key: bench-{counter}
 *
 *     name: bench
 *
 * A template begins with `###`, its method, its path and its weight (1 if absent). Headers follow,
 * then an empty line and the body, up to the next template. `{counter}` becomes a number that each
 * request has for itself, `{random:N}` one of 1 to N, in path, headers and body. Other braces stay.
 * Host and Content-Length are added.
 */
#ifndef BENCH_HTTP_TEMPLATES_H
#define BENCH_HTTP_TEMPLATES_H

#include "base/base.h"
#include "base/text/text.h"

struct arena;

struct template_piece {
	enum template_kind { TEMPLATE_TEXT, TEMPLATE_COUNTER, TEMPLATE_RANDOM } kind;
	struct str text; /* of TEMPLATE_TEXT */
	int64_t most; /* of TEMPLATE_RANDOM */
};
struct template_text {
	struct template_piece *pieces;
	size_t n, cap;
};
struct template
{
	struct template_text head, body; /* head: request line and headers, each with its CRLF */
	const char *method;
	int64_t weight;
	bool has_body;
};
struct templates {
	struct template *all;
	size_t n, cap;
	int64_t weight; /* of all */
};

/* Parses the text of a file; everything lives in the arena. The error names the line. */
NODISCARD enum spot_rc templates_parse(struct arena *a, struct str text, const char *host,
    struct templates *ret, struct spot_err *err);
/* Returns one at random, by weight. */
const struct template *templates_pick(const struct templates *t, struct rng *rng);
/* Appends the whole request to out. */
void template_render(const struct template *t, int64_t counter, struct rng *rng, struct sbuf *out);

#endif
