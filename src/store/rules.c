#include "base/base.h"
#include "store/bind.h"
#include "store/store.h"

void rule_ask(struct pg *pg, struct pg_req *req, const struct rule *r,
    int64_t (*value)(void *ctx, const char *name), void *ctx, void (*done)(struct op *))
{
	struct bind b;

	bind_init(&b, r->stmt->name);
	for (size_t i = 0; r->params[i] != NULL; i++) {
		bind_i64(&b, value(ctx, r->params[i]));
	}
	pg_exec(pg, req, r->stmt, b.params, done);
	bind_fini(&b);
}

struct rule_found rule_read(const struct pg_req *req, const struct rule *r, struct arena *a)
{
	const struct pg_result *rows = req->result;
	const char *stmt = r->stmt->name;

	(void)row_count(rows, 3, stmt, 1);
	return (struct rule_found){
		.checked = row_i64(rows, 0, 0, stmt, "checked"),
		.broken = row_i64(rows, 0, 1, stmt, "broken"),
		.words = row_text(rows, 0, 2, a, false, stmt, "words"),
	};
}
