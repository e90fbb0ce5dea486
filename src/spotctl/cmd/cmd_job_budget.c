/* job budget, and what other commands say of it. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/cmd/cmd.h"

#define CENT_MICROS 10000

/* Cents, or all digits of what is less than a dollar in all. */
static const char *budget_amount(struct ctl *c, const json_t *budget, const char *key)
{
	int64_t limit = json_i64(budget, "limit_micros", 0, NULL);

	return usd_text(c, json_i64(budget, key, 0, NULL), limit >= 100 * CENT_MICROS ? 2 : 6);
}

const char *job_budget_words(struct ctl *c, const json_t *job)
{
	const json_t *b = json_object_get(job, "budget");

	if (!json_is_object(b)) {
		return "";
	}
	return arena_printf(c->arena, "%s USD, %s spent, %s left",
	    budget_amount(c, b, "limit_micros"), budget_amount(c, b, "spent_micros"),
	    budget_amount(c, b, "left_micros"));
}

const char *job_parked_words(struct ctl *c, const json_t *job)
{
	const json_t *b = json_object_get(job, "budget");
	const char *id = json_str(job, "id", "JOB", NULL), *needs = "more";
	int64_t need = json_i64(b, "needs_micros", 0, NULL),
		to = json_i64(b, "spent_micros", 0, NULL) + need;

	if (strcmp(json_str(job, "state", "", NULL), "PARKED") != 0) {
		return "";
	}
	if (need > 0) { /* rounded up: with less than what is said here it would stay parked */
		need += (CENT_MICROS - need % CENT_MICROS) % CENT_MICROS;
		to += (CENT_MICROS - to % CENT_MICROS) % CENT_MICROS;
		needs = arena_printf(c->arena, "at least %s USD left, which is a budget of %s USD",
		    usd_text(c, need, 2), usd_text(c, to, 2));
	}
	return arena_printf(c->arena,
	    "needs %s; raise it with 'spotctl job budget %s AMOUNT', or cancel with 'spotctl job "
	    "cancel %s'",
	    needs, id, id);
}

/* The request's body, NULL if the amount is none. */
static char *budget_change(struct ctl *c, const char *text)
{
	int64_t micros;

	if (strcmp(text, "none") == 0) {
		return arena_strdup(c->arena, "{\"budget_usd\":null}");
	}
	if (!parse_usd_micros(text, &micros) || micros <= 0) {
		return NULL;
	}
	return arena_printf(c->arena, "{\"budget_usd\":\"%s\"}", text);
}

int cmd_job_budget(struct ctl *c)
{
	static const struct column cols[] = { { "JOB", "id", CELL_TEXT, ALWAYS },
		{ "STATE", "state", CELL_STATE, ALWAYS },
		{ "LIMIT USD", "budget.limit_micros", CELL_USD, ALWAYS },
		{ "SPENT USD", "budget.spent_micros", CELL_USD, ALWAYS },
		{ "LEFT USD", "budget.left_micros", CELL_USD, ALWAYS },
		{ "NEEDS USD", "budget.needs_micros", CELL_USD, ALWAYS }, { 0 } };
	char *path = arena_printf(c->arena, "/v1/jobs/%s", url_encode(c->arena, c->args[0], false)),
	     *body = NULL;
	struct reply r;
	int rc;

	if (c->args_n > 1) {
		body = budget_change(c, c->args[1]);
		if (body == NULL) {
			say("spotctl job budget: the budget must be US dollars above 0 such as 25 "
			    "or 12.50, or 'none', not '%s'",
			    c->args[1]);
			return CTL_USAGE;
		}
	}
	rc = body != NULL ? conn_send(c, "PATCH", path, NULL, str_from(body), &r)
			  : conn_get(c, path, &r);
	rc = rc != CTL_OK ? rc : render_one(c, r.json, cols);
	if (rc != CTL_OK || (c->format != FORMAT_TABLE && c->format != FORMAT_WIDE)) {
		return rc;
	}
	if (!json_is_object(json_object_get(r.json, "budget"))) {
		say("%s has no budget; 'spotctl job budget %s AMOUNT' sets one", c->args[0],
		    c->args[0]);
	} else if (*job_parked_words(c, r.json) != '\0') {
		say("parked: %s", job_parked_words(c, r.json));
	}
	return CTL_OK;
}
