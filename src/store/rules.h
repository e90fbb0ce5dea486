/*
 * Rules about rows: queries that find the rows which break them. src/store/rules holds those of the
 * doctor. The tests add theirs in the same form, which gen_rules.py defines.
 */
#ifndef STORE_RULES_H
#define STORE_RULES_H

#include "io/pg/pg.h"

struct arena;
#define RULE_PARAMS_MAX 4
struct rule {
	const char *key; /* the rule, or "RULE / CASE" where it has several queries */
	const char *rule; /* one plain sentence */
	const char *name, *fix; /* the doctor's; NULL if the doctor does not ask it */
	const char *params[RULE_PARAMS_MAX + 1]; /* names of int8 parameters, in order; then NULL */
	const struct pg_stmt *stmt; /* one row: checked, broken, words of up to five */
};
extern const struct rule rules_all[]; /* those of src/store/rules; a NULL key ends the list */

struct rule_found {
	int64_t checked, broken;
	const char *words;
};
/* Asks a rule. value returns a parameter by its name. done gets &req->op, as of pg_exec. */
void rule_ask(struct pg *pg, struct pg_req *req, const struct rule *r,
    int64_t (*value)(void *ctx, const char *name), void *ctx, void (*done)(struct op *));
/* Reads the answer of a request that succeeded. The words live in the arena. */
struct rule_found rule_read(const struct pg_req *req, const struct rule *r, struct arena *a);

#endif
