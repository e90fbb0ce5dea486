/* The cells of a plan's tables in 80 columns, and what is said around them. */
#include "base/base.h"
#include "spotctl/cmd/cmd.h"

#include <stdarg.h>

#define LINE_MOST 80
#define INDENT 2
#define PLACE_MOST 14
#define GPU_MOST 11
#define GANG_PLACE_MOST 34

/* ---- words ----------------------------------------------------------------------------------- */

/* The end of the part that fits into most columns, at a blank where there is one. */
static size_t line_end(struct ctl *c, const char *text, size_t most)
{
	size_t end = 0, n = strlen(text);

	if (text_width(text) <= most) {
		return n;
	}
	for (size_t i = 1; i < n; i++) {
		if (text[i] == ' ' && text_width(arena_strndup(c->arena, text, i)) <= most) {
			end = i;
		}
	}
	return end > 0 ? end : strcspn(text, " ");
}

void plan_say(struct ctl *c, const char *fmt, ...)
{
	size_t most = LINE_MOST;
	char text[4096];
	const char *at = text;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	while (*at != '\0') {
		size_t n = line_end(c, at, most);

		say("%*s%.*s", (int)(LINE_MOST - most), "", (int)n, at);
		at += n + strspn(at + n, " ");
		most = LINE_MOST - INDENT;
	}
}

static const char *member_text(const json_t *o, const char *name)
{
	return json_str(o, name, "", NULL);
}

static const json_t *offer_find(const json_t *plan, const char *pool)
{
	const json_t *o;
	size_t i;

	json_array_foreach (json_object_get(plan, "offers"), i, o) {
		if (strcmp(member_text(json_object_get(o, "pool"), "id"), pool) == 0) {
			return json_object_get(o, "pool");
		}
	}
	return NULL;
}

static const char *choice_words(const char *choice)
{
	if (strcmp(choice, "park") == 0) {
		return "be parked";
	}
	return strcmp(choice, "defer") == 0 ? "begin later" : "wait";
}

void plan_say_decision(struct ctl *c, const json_t *plan)
{
	const json_t *d = json_object_get(plan, "decision"),
		     *passed = json_object_get(d, "passed_over");
	const char *pool = member_text(d, "pool"), *why = member_text(d, "why"), *zone;
	const json_t *o = offer_find(plan, pool);

	if (!json_is_object(d)) {
		return; /* of a daemon that does not say it */
	}
	if (o != NULL) {
		zone = member_text(o, "zone");
		plan_say(c, "chosen: %s, %s/%s %s %s: %s", pool, member_text(o, "provider"),
		    *zone != '\0' ? zone : member_text(o, "region"),
		    member_text(o, "instance_type"), member_text(o, "market"), why);
	} else if (*pool != '\0') {
		plan_say(c, "chosen: %s: %s", pool, why);
	} else {
		plan_say(c, "now it would %s%s%s: %s", choice_words(member_text(d, "choice")),
		    *member_text(d, "until_at") != '\0' ? ", until " : "",
		    member_text(d, "until_at"), why);
	}
	if (json_is_object(passed) && *member_text(passed, "why") != '\0') {
		plan_say(c, "passed over: %s, which stands first: %s", member_text(passed, "pool"),
		    member_text(passed, "why"));
	}
}

void plan_say_refusal(struct ctl *c, const json_t *plan)
{
	const json_t *r = json_object_get(plan, "submit_refusal");
	const char *field = member_text(r, "field");

	if (json_is_object(r)) {
		plan_say(c, "submitting this file would be refused: %s%s%s", field,
		    *field != '\0' ? ": " : "", member_text(r, "detail"));
	}
}

int plan_exit(const json_t *plan)
{
	const json_t *r = json_object_get(plan, "submit_refusal");

	if (!json_is_object(r)) {
		return CTL_OK;
	}
	return strcmp(member_text(r, "code"), "denied") == 0 ? CTL_DENIED : CTL_USAGE;
}

/* ---- cells ----------------------------------------------------------------------------------- */

static void cell_set(json_t *cell, const char *name, const char *text)
{
	json_object_set_new(cell, name, json_string(text));
}

static const char *text_cut(struct ctl *c, const char *text, size_t most)
{
	size_t n = strlen(text);

	if (text_width(text) <= most) {
		return text;
	}
	while (n > 0 && text_width(arena_strndup(c->arena, text, n)) >= most) {
		n--;
	}
	return arena_printf(c->arena, "%.*s\u2026", (int)n, text);
}

/* Fewer decimals of more dollars. */
static const char *usd_cell(struct ctl *c, const json_t *v)
{
	int64_t micros = json_integer_value(v);
	int digits = micros >= 1000 * INT64_C(1000000) ? 0
	    : micros >= 100 * INT64_C(1000000)         ? 2
						       : 4;

	return json_is_integer(v) ? usd_text(c, micros, digits) : "";
}

static const char *hours_cell(struct ctl *c, const json_t *v)
{
	double h = json_number_value(v);

	return json_is_number(v) ? arena_printf(c->arena, h < 100 ? "%.2f" : "%.0f", h) : "";
}

/* Of odds: never 0 % or 100 % of what is not quite so. */
static const char *odds_cell(struct ctl *c, const json_t *v)
{
	double p = json_number_value(v) * 100;

	if (!json_is_number(v)) {
		return "";
	}
	if (p > 0 && p < 1) {
		return "<1%";
	}
	return p > 99 && p < 100 ? ">99%" : arena_printf(c->arena, "%.0f%%", p);
}

static const char *market_cell(const char *market)
{
	return strcmp(market, "on_demand") == 0    ? "demand"
	    : strcmp(market, "reserved") == 0      ? "paid"
	    : strcmp(market, "interruptible") == 0 ? "lent"
	    : strcmp(market, "flex_start") == 0    ? "queue"
						   : market;
}

void plan_offer_cells(struct ctl *c, json_t *offers)
{
	json_t *o;
	size_t i;

	json_array_foreach (offers, i, o) {
		const json_t *pool = json_object_get(o, "pool"),
			     *price = json_object_get(o, "price_micros");
		const char *zone = member_text(pool, "zone");
		json_t *cell = json_object();

		cell_set(cell, "place",
		    text_cut(c,
			arena_printf(c->arena, "%s/%s", member_text(pool, "provider"),
			    *zone != '\0' ? zone : member_text(pool, "region")),
			PLACE_MOST));
		cell_set(cell, "gpu",
		    text_cut(c,
			arena_printf(c->arena, "%gx%s", json_f64(pool, "gpus", 0, NULL),
			    member_text(pool, "gpu")),
			GPU_MOST));
		cell_set(cell, "market", market_cell(member_text(pool, "market")));
		cell_set(cell, "price",
		    json_is_integer(price) ? usd_text(c, json_integer_value(price), 2) : "");
		cell_set(cell, "odds", odds_cell(c, json_object_get(o, "launch_odds")));
		cell_set(cell, "hours", hours_cell(c, json_object_get(o, "hours_to_finish")));
		cell_set(cell, "late", odds_cell(c, json_object_get(o, "deadline_risk")));
		cell_set(cell, "total", usd_cell(c, json_object_get(o, "total_micros")));
		json_object_set_new(o, "cell", cell);
	}
}

void plan_spread_cells(struct ctl *c, json_t *list)
{
	static const char *const usd[][2] = { { "expected", "expected_micros" },
		{ "p5", "cost_p5_micros" }, { "p50", "cost_p50_micros" },
		{ "p95", "cost_p95_micros" } };
	json_t *o;
	size_t i;

	json_array_foreach (list, i, o) {
		json_t *cell = json_object();

		for (size_t k = 0; k < ARRAY_LEN(usd); k++) {
			cell_set(cell, usd[k][0], usd_cell(c, json_object_get(o, usd[k][1])));
		}
		cell_set(cell, "hours_p50", hours_cell(c, json_object_get(o, "hours_p50")));
		cell_set(cell, "hours_p95", hours_cell(c, json_object_get(o, "hours_p95")));
		cell_set(cell, "late", odds_cell(c, json_object_get(o, "deadline_risk")));
		json_object_set_new(o, "cell", cell);
	}
}

void plan_gang_cells(struct ctl *c, json_t *list)
{
	json_t *o;
	size_t i;

	json_array_foreach (list, i, o) {
		json_t *cell = json_object();

		cell_set(cell, "place", text_cut(c, member_text(o, "place"), GANG_PLACE_MOST));
		cell_set(cell, "market", market_cell(member_text(o, "market")));
		cell_set(cell, "hours", hours_cell(c, json_object_get(o, "hours")));
		cell_set(cell, "total", usd_cell(c, json_object_get(o, "total_micros")));
		cell_set(cell, "refused", *member_text(o, "refused") != '\0' ? "not now" : "");
		json_object_set_new(o, "cell", cell);
	}
}
