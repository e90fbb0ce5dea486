/* GET and POST /v1/leaks: resources with our tag that belong to no node, and the decision of the
 * operator about each: end or keep. */
#include "base/base.h"
#include "api/ops/ops_priv.h"

#define LEAKS_MOST 5000
#define REF_MAX 512

static void leaks_done(struct areq *q)
{
	struct q_api_leaks_row *row;

	if (q_api_leaks_rows(&q->pg, q->arena, &row) == 1) {
		areq_text(q, 200, row->doc);
	}
}

void get_leaks(struct areq *q)
{
	static const char *const states[] = { "found", "kept", "ending", "gone" };
	const char *state = areq_query(q, "state");
	bool known = state == NULL;

	for (size_t i = 0; i < ARRAY_LEN(states) && !known; i++) {
		known = strcmp(state, states[i]) == 0;
	}
	if (!known) {
		areq_fail_field(q, "state",
		    "no leak state '%s'; valid are found, kept, ending, gone", state);
		return;
	}
	SQL(q, api_leaks, leaks_done, .provider = areq_query(q, "provider"), .state = state,
	    .gone = state != NULL && strcmp(state, "gone") == 0, .at_us = q->now_us,
	    .most = LEAKS_MOST);
}

static void word_done(struct areq *q)
{
	struct q_api_leak_word_row *row;

	if (q_api_leak_word_rows(&q->pg, q->arena, &row) != 1) {
		return;
	}
	if (row->found == 0) {
		areq_fail(q, SPOT_NOT_FOUND,
		    "no open leak has this name; 'spotctl leaks' lists the open ones");
		return;
	}
	if (row->told == 0) {
		areq_fail_field(q, "provider",
		    "is required, because leaks at several providers have this name");
		return;
	}
	SQL(q, api_leaks, leaks_done, .ref = q->own, .at_us = q->now_us, .most = LEAKS_MOST);
}

void post_leak(struct areq *q)
{
	static const char *const known[] = { "provider", "ref", "act", NULL };
	struct spot_err err = { 0 };
	const char *ref, *act;
	json_t *body;

	if (!areq_body(q, &body) || !areq_body_keys(q, body, known)) {
		return;
	}
	ref = json_need_str(body, "ref", &err);
	act = json_need_str(body, "act", &err);
	if (err.rc != SPOT_OK) {
		areq_problem(q, 400, &err, NULL);
		return;
	}
	if (strcmp(act, "end") != 0 && strcmp(act, "keep") != 0) {
		areq_fail_field(q, "act", "must be 'end' or 'keep'");
		return;
	}
	if (strlen(ref) > REF_MAX) {
		areq_fail_field(q, "ref", "must have at most %d bytes", REF_MAX);
		return;
	}
	q->own = arena_strdup(q->arena, ref);
	SQL(q, api_leak_word, word_done, .provider = json_str(body, "provider", NULL, NULL),
	    .ref = ref, .word = act, .actor = q->who.name, .at_us = q->now_us);
}
