/* Verdicts about machines, each with the reports behind it, in words: job show --why and node show.
 * All times are before the verdict. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/cmd/cmd.h"

struct view {
	struct ctl *c;
	struct sbuf *o;
	int64_t at_us;
};

static bool time_of(const json_t *v, int64_t *ret_us)
{
	return json_is_string(v) && parse_time_us(json_string_value(v), ret_us);
}

/* "12 s before", "at that moment", or what to say where there is no time. */
static void put_before(const struct view *w, const json_t *v, const char *none)
{
	char left[32];
	int64_t us;

	if (!time_of(v, &us)) {
		sbuf_puts(w->o, none);
	} else if (w->at_us - us < SPOT_US_PER_S) {
		sbuf_puts(w->o, "at that moment");
	} else {
		format_duration(w->at_us - us, left);
		sbuf_printf(w->o, "%s before", left);
	}
}

static void put_text(const struct view *w, const json_t *o, const char *key, const char *head)
{
	const char *text = json_str(o, key, "", NULL);

	if (!str_empty(text)) {
		sbuf_printf(w->o, "%s%s", head, text_clean(w->c->arena, text));
	}
}

static void put_agent(const struct view *w, const json_t *a)
{
	bool spoke = json_is_string(json_object_get(a, "spoke_at"));

	sbuf_puts(w->o, spoke ? "    agent     polled last " : "    agent     never polled");
	put_before(w, json_object_get(a, "spoke_at"), "");
	if (json_is_string(json_object_get(a, "job"))) {
		put_text(w, a, "job", ", it had ");
		sbuf_printf(w->o, " try %" PRId64, json_i64(a, "epoch", 0, NULL));
		if (json_is_integer(json_object_get(a, "step"))) {
			sbuf_printf(w->o, " at step %" PRId64, json_i64(a, "step", 0, NULL));
		}
	}
	sbuf_puts(w->o, "\n");
}

static void put_past(const struct view *w, const json_t *past)
{
	const json_t *one;
	size_t i;

	json_array_foreach (past, i, one) {
		sbuf_puts(w->o, i == 0 ? "; it said " : ", ");
		put_text(w, one, "state", "");
		put_text(w, one, "by", " (");
		sbuf_puts(w->o, ") ");
		put_before(w, json_object_get(one, "at"), "");
	}
}

static void put_provider(const struct view *w, const json_t *p)
{
	int64_t without = json_i64(p, "answers_without_it", 0, NULL),
		unanswered = json_i64(p, "unanswered", 0, NULL);

	sbuf_puts(w->o, "    provider  ");
	if (str_empty(json_str(p, "state", "", NULL))) {
		sbuf_puts(w->o, "had not reported it");
	} else {
		put_text(w, p, "state", "");
		sbuf_puts(w->o, ", received ");
		put_before(w, json_object_get(p, "said_at"), "never");
	}
	put_text(w, p, "reason", ", saying: ");
	put_past(w, json_object_get(p, "past"));
	if (without > 0) {
		sbuf_printf(w->o,
		    without == 1 ? "; %" PRId64 " complete answer lacked it"
				 : "; %" PRId64 " consecutive complete answers lacked it",
		    without);
	}
	if (unanswered > 0) {
		sbuf_printf(w->o,
		    "; %" PRId64 " consecutive queries without a complete answer, the last ",
		    unanswered);
		put_before(w, json_object_get(p, "unanswered_at"), "");
		put_text(w, p, "unanswered_why", ": ");
	}
	sbuf_puts(w->o, "\n");
}

static void put_notices(const struct view *w, const json_t *list)
{
	const json_t *one;
	size_t i;

	json_array_foreach (list, i, one) {
		put_text(w, one, "kind", "    notice    ");
		put_text(w, one, "by", " by ");
		sbuf_puts(w->o, ", received ");
		put_before(w, json_object_get(one, "heard_at"), "");
		put_text(w, one, "deadline_at", ", until ");
		sbuf_puts(w->o, "\n");
	}
}

static void put_job(const struct view *w, const json_t *j)
{
	if (!json_is_object(j)) {
		return;
	}
	put_text(w, j, "job", "    job       ");
	sbuf_printf(w->o, " try %" PRId64, json_i64(j, "epoch", 0, NULL));
	put_text(w, j, "phase", " was ");
	sbuf_printf(w->o, " at step %" PRId64, json_i64(j, "step", 0, NULL));
	if (json_is_string(json_object_get(j, "step_at"))) {
		sbuf_puts(w->o, " (said ");
		put_before(w, json_object_get(j, "step_at"), "");
		sbuf_puts(w->o, ")");
	}
	put_text(w, j, "checkpoint", ", newest checkpoint ");
	sbuf_puts(w->o, "\n");
}

static void put_daemon(const struct view *w, const json_t *d)
{
	int64_t others = json_i64(d, "other_agents", 0, NULL);

	sbuf_puts(w->o, "    daemon    listened since ");
	put_before(w, json_object_get(d, "listens_at"), "an unknown time");
	if (others > 0) {
		sbuf_printf(w->o, "; the last of %" PRId64 " other agents polled ", others);
		put_before(w, json_object_get(d, "others_spoke_at"), "never");
	}
	sbuf_puts(w->o, "\n");
}

static void put_after(const struct view *w, const json_t *v)
{
	if (json_is_string(json_object_get(v, "over_since_at"))) {
		sbuf_puts(w->o, "    over      since ");
		put_before(w, json_object_get(v, "over_since_at"), "");
		sbuf_puts(w->o,
		    json_is_true(json_object_get(v, "missed")) ? ": found too late (missed loss)\n"
							       : "\n");
	}
	if (json_is_string(json_object_get(v, "alive_after_at"))) {
		put_text(w, v, "alive_after_why", "    but       it was alive (false recovery): ");
		sbuf_puts(w->o, "\n");
	}
}

static void put_verdict(struct view *w, const json_t *v)
{
	const json_t *seen = json_object_get(v, "seen");

	w->at_us = 0;
	(void)time_of(json_object_get(v, "at"), &w->at_us);
	put_text(w, v, "at", "");
	put_text(w, v, "node", "  ");
	put_text(w, v, "verdict", "  ");
	put_text(w, v, "job", "  ");
	put_text(w, v, "why", ": ");
	sbuf_puts(w->o, "\n");
	put_agent(w, json_object_get(seen, "agent"));
	put_provider(w, json_object_get(seen, "provider"));
	put_notices(w, json_object_get(seen, "notices"));
	put_job(w, json_object_get(seen, "job"));
	put_daemon(w, json_object_get(seen, "daemon"));
	put_after(w, v);
}

void show_verdicts(struct ctl *c, const json_t *list)
{
	struct sbuf o;
	struct view w = { .c = c, .o = &o };
	const json_t *one;
	size_t i;

	if (json_array_size(list) == 0) {
		return;
	}
	sbuf_init(&o, 0);
	sbuf_puts(&o, "\nVERDICTS with their evidence\n");
	json_array_foreach (list, i, one) {
		put_verdict(&w, one);
	}
	fputs(o.p, stdout);
	sbuf_fini(&o);
}
