/* The document of a job that was submitted just now, without reading it back. It has the members of
 * job_full.c. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"

#include "base/text/text.h"

static void text_add(struct sbuf *b, const char *key, const char *text)
{
	sbuf_printf(b, ",\"%s\":", key);
	if (text == NULL) {
		sbuf_puts(b, "null");
	} else {
		sbuf_json_str(b, text);
	}
}

static void time_add(struct sbuf *b, const char *key, int64_t us)
{
	char at[TIME_TEXT_MAX];

	text_add(b, key, us == 0 ? NULL : format_time(us, at));
}

static void budget_add(struct areq *q, struct sbuf *b, const struct q_api_jobs_submit_job *row)
{
	json_t *doc;

	if (!row->has_budget_micros) {
		sbuf_puts(b, ",\"budget\":null");
		return;
	}
	doc = json_pack("{s:I, s:I, s:I, s:n}", "limit$", (json_int_t)row->budget_micros, "spent$",
	    (json_int_t)0, "left$", (json_int_t)row->budget_micros, "needs$");
	view_resolve(doc, q->now_us);
	sbuf_printf(b, ",\"budget\":%s", json_text(q->arena, doc));
	json_decref(doc);
}

static const char *text_take(struct areq *q, struct sbuf *b)
{
	char *text = arena_strndup(q->arena, b->p, b->n);

	sbuf_reset(b);
	return text;
}

static void head_add(struct sbuf *b, const struct q_api_jobs_submit_job *row)
{
	text_add(b, "name", row->name);
	text_add(b, "state", "QUEUED");
	text_add(b, "owner", row->owner);
	text_add(b, "team", row->team);
	text_add(b, "project", row->project);
	text_add(b, "class", row->class);
	sbuf_puts(b, ",\"fleet\":");
}

void submit_reply(struct areq *q, const struct job_spec *spec,
    const struct q_api_jobs_submit_job *row, const char *const *warnings, size_t warnings_n,
    const char **ret_head, const char **ret_tail)
{
	AUTO(sbuf) struct sbuf b;
	char at[TIME_TEXT_MAX];

	sbuf_init(&b, 0);
	head_add(&b, row);
	*ret_head = text_take(q, &b);
	sbuf_printf(&b, ",\"epoch\":0,\"priority\":%d,\"num_nodes\":%d", row->priority,
	    spec->num_nodes);
	time_add(&b, "created_at", row->at_us);
	time_add(&b, "queued_at", row->at_us);
	sbuf_puts(&b, ",\"started_at\":null,\"ended_at\":null");
	time_add(&b, "deadline_at", row->deadline_us);
	sbuf_puts(&b,
	    ",\"cancel_at\":null,\"steps_done\":0,\"steps_total\":0,\"restarts\":0,\"reason\":\"\","
	    "\"why\":\"\",\"pool\":null,\"node\":null,\"market\":null,\"attempts\":0,"
	    "\"interruptions\":0,\"cost_micros\":0,\"cost_usd\":0.0,\"checkpoint\":null,"
	    "\"lost_steps\":0,\"attempts_list\":[],\"recoveries\":[],\"checkpoints\":[]");
	text_add(&b, "not_stored", job_not_stored(q, !str_empty(spec->checkpoint.path)));
	text_add(&b, "source", row->source);
	text_add(&b, "not_before_at",
	    row->has_not_before_us ? format_time_s(row->not_before_us, at) : NULL);
	sbuf_puts(&b, ",\"queue\":null");
	text_add(&b, "network_tier", spec->together ? "best" : "standard");
	budget_add(q, &b, row);
	sbuf_puts(&b, ",\"warnings\":[");
	for (size_t i = 0; i < warnings_n; i++) {
		sbuf_puts(&b, i > 0 ? "," : "");
		sbuf_json_str(&b, warnings[i]);
	}
	sbuf_puts(&b, "]}");
	*ret_tail = text_take(q, &b);
}
