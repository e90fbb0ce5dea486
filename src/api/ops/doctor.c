/* Examinations: a request is a row that the engine answers; GET holds until it did. No provider is
 * called from here. */
#include "base/base.h"
#include "api/ops/ops_priv.h"

#define HOLD_MAX_S 60
#define NAMES_MOST 16
#define NAME_MAX_N 64

static void doctor_shown(struct areq *q)
{
	struct q_api_doctor_row *row;
	int status = *(int *)q->own;

	if (q_api_doctor_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no examination 'r%" PRId64 "'", q->id);
	} else if (strcmp(row->state, "done") == 0 || !areq_park(q)) {
		areq_text(q, status, row->doc);
	}
}

static void doctor_look(struct areq *q)
{
	SQL(q, api_doctor, doctor_shown, .id = q->id);
}

void show_doctor(struct areq *q, int status)
{
	areq_show(q, status, doctor_look);
}

void get_doctor(struct areq *q)
{
	areq_hold(q, 'r', HOLD_MAX_S, doctor_look);
}

static void doctor_asked(struct areq *q)
{
	struct q_api_doctor_ask_row *row;

	if (q_api_doctor_ask_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_INTERNAL, "the request was not written");
		return;
	}
	if (idem_overtaken(q, row->id)) {
		return;
	}
	q->id = row->id;
	httpd_set(q->http, "Location", arena_printf(q->arena, "/v1/doctor/r%" PRId64, row->id));
	show_doctor(q, 202);
}

static bool name_ok(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	return n > 0 && n <= NAME_MAX_N &&
	    strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

/* Comma separated, as the row keeps them. The invariants of the rows stand among them under a name
 * of their own; they alone are checked where no provider is named. */
static bool names_read(struct areq *q, const json_t *body, struct sbuf *ret)
{
	const json_t *list = json_object_get(body, "providers"),
		     *rows = json_object_get(body, "consistency"), *v;
	size_t i;

	if (rows && !json_is_null(rows) && !json_is_boolean(rows)) {
		areq_fail_field(q, "consistency", "must be true or false");
		return false;
	}
	if (json_is_true(rows)) {
		sbuf_printf(ret, "consistency");
	}

	if (!list || json_is_null(list)) {
		return true;
	}
	if (!json_is_array(list) || json_array_size(list) > NAMES_MOST) {
		areq_fail_field(q, "providers", "must be a list of at most %d provider names",
		    NAMES_MOST);
		return false;
	}
	json_array_foreach (list, i, v) {
		if (!name_ok(json_string_value(v))) {
			areq_fail_field(q, "providers", "must hold provider names such as 'aws'");
			return false;
		}
		sbuf_printf(ret, "%s%s", ret->n > 0 ? "," : "", json_string_value(v));
	}
	return true;
}

void post_doctor(struct areq *q)
{
	static const char *const known[] = { "providers", "consistency", NULL };
	AUTO(sbuf) struct sbuf names;
	json_t *body;

	sbuf_init(&names, 0);
	if (q->http->body.n > 0) {
		if (!areq_body(q, &body) || !areq_body_keys(q, body, known) ||
		    !names_read(q, body, &names)) {
			return;
		}
	}
	SQL(q, api_doctor_ask, doctor_asked, .actor = q->who.name,
	    .providers = names.p ? names.p : "", .at_us = q->now_us, .token_id = q->who.token_id,
	    .idem_key = q->idem_key ? q->idem_key : "");
}
