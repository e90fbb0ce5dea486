/* Checks that the object store still has the checkpoints of jobs. Asks for each object by a
 * presigned HEAD, many at a time, for as long as an examination may take. Objects of unfinished
 * jobs come first. Writes nothing and reads no bytes: it compares the size that the store reports
 * with the row. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/doctor/doctor_priv.h"

/* rows that ended before are not checked again */
#define HISTORY_US (INT64_C(30) * 86400 * SPOT_US_PER_S)
#define AT_ONCE 16
#define MOST 10000
/* no request begins later: the client waits for a minute */
#define BEGIN_US (25 * SPOT_US_PER_S)
#define ANSWER_US (10 * SPOT_US_PER_S)
#define SHOWN 5
#define NAME "objects"
#define RULE "checkpoints and leftovers of jobs are in the object store"

struct objects {
	struct act *main;
	struct q_consistency_objects_row *rows;
	size_t n, next, asked, unanswered, broken;
	int waiting;
	int64_t begun_us; /* mono */
	const char *words[SHOWN], *why; /* of the broken ones; of one without an answer */
};

static void object_next(struct act *a);

static void objects_end(struct objects *k)
{
	struct act *a = k->main;
	size_t whole = k->n > 0 ? (size_t)k->rows[0].whole : 0;
	const char *words = "";

	for (size_t i = 0; i < MIN(k->broken, (size_t)SHOWN); i++) {
		words = arena_printf(a->arena, "%s%s%s", words, i > 0 ? "; " : "", k->words[i]);
	}
	if (k->broken > 0) {
		probe_item(a, NAME, SPOT_CHECK_BAD,
		    "see what deletes below the store's prefix (a lifecycle rule?); do not let the "
		    "job be moved before its next checkpoint is committed",
		    "%zu of %zu break it (%s): %s%s", k->broken, k->asked, RULE, words,
		    k->broken > SHOWN ? "; ..." : "");
	} else if (k->unanswered > 0) {
		probe_item(a, NAME, SPOT_CHECK_UNTESTED,
		    "spotctl doctor spotd sends an object there and back",
		    "%s: %zu of %zu were not told: %s", RULE, k->unanswered, k->asked, k->why);
	} else {
		probe_item(a, NAME, SPOT_CHECK_OK, "", "%s: %zu looked at%s", RULE, k->asked,
		    k->asked < whole ? arena_printf(a->arena, " of %zu", whole) : "");
	}
	probe_amount(a, (int64_t)k->broken);
	probe_write(a);
}

static void objects_note(struct objects *k, const struct q_consistency_objects_row *w,
    const char *what)
{
	if (k->broken < SHOWN) {
		k->words[k->broken] =
		    arena_printf(k->main->arena, "c%" PRId64 " of j%" PRId64 ": piece %d of %s %s",
			w->checkpoint_id, w->job_id, (int)w->seq, w->path, what);
	}
	k->broken++;
}

static void object_judge(struct act *a, struct objects *k,
    const struct q_consistency_objects_row *w)
{
	int status = a->http.in.status;
	const char *length = a->http.op.rc == SPOT_OK && status == 200
	    ? spot_http_header(&a->http.in, "content-length")
	    : NULL;

	if (a->http.op.rc == SPOT_OK && (status == 404 || status == 410)) {
		objects_note(k, w, "is not there");
	} else if (length != NULL && strtoll(length, NULL, 10) != w->bytes) {
		objects_note(k, w,
		    arena_printf(k->main->arena, "has %s of %" PRId64 " bytes", length, w->bytes));
	} else if (length == NULL) {
		k->unanswered++;
		k->why = a->http.op.rc != SPOT_OK
		    ? arena_strdup(k->main->arena, a->http.op.err.text)
		    : arena_printf(k->main->arena, "HTTP %d", status);
	}
}

struct question {
	struct objects *k;
	const struct q_consistency_objects_row *row;
};

static void object_answered(struct act *a)
{
	const struct question *q = a->ctx;
	struct objects *k = q->k;

	object_judge(a, k, q->row);
	act_end(a);
	k->waiting--;
	object_next(k->main);
}

static bool object_ask(struct objects *k, const struct q_consistency_objects_row *w)
{
	struct engine *e = k->main->e;
	struct act *a = act_new(e, 0, object_answered);
	struct question *q = arena_alloc(a->arena, sizeof(*q));
	struct spot_presign p;
	struct spot_err err = { 0 };

	*q = (struct question){ .k = k, .row = w };
	a->ctx = q;
	if (objects_presign(e, a->arena, "HEAD", w->object_key, &p, &err) != SPOT_OK) {
		k->unanswered++;
		k->why = arena_printf(k->main->arena, "cannot be signed: %s", err.text);
		act_end(a);
		return false;
	}
	a->http_out =
	    (struct spot_http_request){ .method = "HEAD", .url = p.url, .timeout_us = ANSWER_US };
	for (size_t i = 0; i < p.headers_n && i < ARRAY_LEN(a->http_out.headers); i++) {
		a->http_out.headers[a->http_out.headers_n++] = p.headers[i];
	}
	act_http(a, false);
	return true;
}

static void object_next(struct act *a)
{
	const struct probe *l = a->ctx;
	struct objects *k = l->more;
	bool go = true;

	while (go && k->waiting < AT_ONCE && k->next < k->n &&
	    loop_mono_us(a->e->loop) - k->begun_us < BEGIN_US) {
		k->asked++;
		go = object_ask(k, &k->rows[k->next++]);
		k->waiting += go;
	}
	if (k->waiting == 0) {
		objects_end(k);
	}
}

static void rows_read(struct op *op)
{
	struct pg_req *req = container_of(op, struct pg_req, op);
	struct act *a = container_of(req, struct act, req);
	const struct probe *l = a->ctx;
	struct objects *k = l->more;

	a->writing = false;
	if (op->rc != SPOT_OK) {
		probe_item(a, NAME, SPOT_CHECK_UNTESTED,
		    "ask again when the database has less to do", "%s: %s", RULE, op->err.text);
		probe_write(a);
		return;
	}
	k->n = q_consistency_objects_rows(req, a->arena, &k->rows);
	for (size_t i = 0; i < k->n; i++) {
		k->rows[i].object_key = arena_strdup(a->arena, k->rows[i].object_key);
		k->rows[i].path = arena_strdup(a->arena, k->rows[i].path);
	}
	pg_req_fini(req);
	k->begun_us = loop_mono_us(a->e->loop);
	object_next(a);
}

/* Signing needs fresh credentials; any call renews them. */
static void signer_called(struct act *a)
{
	if (a->call.op.rc != SPOT_OK) {
		probe_item(a, NAME, SPOT_CHECK_UNTESTED, rc_remedy(a->call.op.rc),
		    "%s: the store's credentials: %s", RULE, a->call.op.err.text);
		probe_write(a);
		return;
	}
	a->writing = true;
	q_consistency_objects(a->e->pg, &a->req,
	    &(struct q_consistency_objects){ .since_us = engine_now(a->e) - HISTORY_US,
		.most = MOST },
	    rows_read);
}

void objects_examine(struct exam *x)
{
	struct engine *e = x->e;
	struct act *a = probe_new(x, DOCTOR_SELF, "", NAME, signer_called);
	struct probe *l = a->ctx;
	struct objects *k = arena_alloc(a->arena, sizeof(*k));
	struct call_provider *p =
	    objects_configured(e) ? engine_provider(e, e->conf.store_provider) : NULL;

	*k = (struct objects){ .main = a, .why = "" };
	l->more = k;
	if (e->http == NULL || p == NULL || call_provider_ops(p)->presign == NULL) {
		probe_item(a, NAME, SPOT_CHECK_UNTESTED,
		    "set [checkpoint] store, provider and region",
		    "%s: there is no store that can be asked", RULE);
		probe_write(a);
	} else if (call_provider_ops(p)->whoami != NULL) {
		act_call(a, p, CALL_WHOAMI, &l->args.account, e->conf.call_timeout_us, false);
	} else {
		a->call.op.rc = SPOT_OK;
		signer_called(a);
	}
}
