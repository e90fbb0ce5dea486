/* One job in full, at once or when it has a state that the caller waits for. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"

#include "base/text/text.h"
#include "core/life/life.h"

#define HOLD_MAX_S 300
#define AGAIN_US (5 * SPOT_US_PER_S)

/* ---- states ---------------------------------------------------------------------------------- */

static bool job_states_read(struct areq *q, const char *name, enum job_state **ret, size_t *ret_n)
{
	const char **names;

	if (!areq_query_list(q, name, &names, ret_n)) {
		return false;
	}
	*ret = arena_array(q->arena, *ret_n, sizeof(**ret));
	for (size_t i = 0; i < *ret_n; i++) {
		(*ret)[i] = job_state_parse(names[i]);
		if ((*ret)[i] == JOB_NONE) {
			areq_fail_field(q, name,
			    "no job state '%s'; valid are active, terminal, QUEUED, STARTING, "
			    "RUNNING, DRAINING, PARKED, CANCELLING, SUCCEEDED, FAILED, CANCELLED",
			    names[i]);
			return false;
		}
	}
	return true;
}

/* "active" or "terminal" stand for their states. */
bool job_states(struct areq *q, const char *name, enum job_state **ret, size_t *ret_n)
{
	const char *v = areq_query(q, name);
	bool active = v && strcmp(v, "active") == 0, terminal = v && strcmp(v, "terminal") == 0;

	if (!active && !terminal) {
		return job_states_read(q, name, ret, ret_n);
	}
	*ret = arena_array(q->arena, JOB_STATE_COUNT, sizeof(**ret));
	*ret_n = 0;
	for (int s = JOB_NONE + 1; s < JOB_STATE_COUNT; s++) {
		if (job_state_final((enum job_state)s) == terminal) {
			(*ret)[(*ret_n)++] = (enum job_state)s;
		}
	}
	return true;
}

static bool state_wanted(const struct job_show *s, enum job_state state)
{
	for (size_t i = 0; i < s->wanted_n; i++) {
		if (s->wanted[i] == state) {
			return true;
		}
	}
	return s->wanted_n == 0;
}

/* ---- the reply ------------------------------------------------------------------------------- */

const char *job_not_stored(const struct areq *q, bool saves)
{
	return saves && api_storeless(q->api)
	    ? "no checkpoint is stored, so the job starts over after every move: "
	      "[checkpoint] store is empty in the daemon's configuration"
	    : NULL;
}

static void text_member(struct sbuf *b, const char *name, const char *text)
{
	sbuf_puts(b, name);
	if (text != NULL) {
		json_put_str(b, text, strlen(text));
	} else {
		json_put_null(b);
	}
}

struct job_ends { /* members that are not columns as they are */
	bool saves, stored, has_not_before;
	int64_t not_before_us;
};

static void job_reply(struct areq *q, struct sbuf *b, const struct job_ends *e)
{
	const struct job_show *s = q->own;
	char text[TIME_TEXT_MAX];

	text_member(b, ",\"not_stored\":", job_not_stored(q, e->saves && !e->stored));
	text_member(b, ",\"not_before_at\":",
	    e->has_not_before ? format_time_s(e->not_before_us, text) : NULL);
	sbuf_putc(b, '}');
	areq_body_reply(q, s->status);
}

/* False: the request is parked until the job has a state that the caller waits for. */
static bool job_ready(struct areq *q, enum job_state state)
{
	return state_wanted(q->own, state) || !areq_park(q);
}

static struct sbuf *job_begin(struct areq *q, const struct shape *shape, const struct pg_result *r,
    size_t at)
{
	struct sbuf *b = areq_body_begin(q);

	q->now_us = loop_wall_us(q->api->loop);
	sbuf_putc(b, '{');
	shape_put(b, shape, r, at, q->now_us);
	return b;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void full_read(struct areq *q, const struct pg_result *r, size_t at)
{
	struct q_api_jobs_full_row row;

	if (at == BATCH_NONE) {
		areq_fail(q, SPOT_NOT_FOUND, "no job 'j%" PRId64 "'", q->id);
		return;
	}
	q_api_jobs_full_row_at(r, at, q->arena, &row);
	if (!job_ready(q, row.state)) {
		return;
	}
	job_reply(q, job_begin(q, &q_shape_api_jobs_full, r, at),
	    /* One that is over with a checkpoint had a store. */
	    &(struct job_ends){ row.saves, row.has_checkpoint_id && row.has_ended_us,
		row.has_not_before_us, row.not_before_us });
}

static void full_start(struct pg *pg, struct pg_req *req, const int64_t *ids, size_t n,
    int64_t at_us, void (*done)(struct op *))
{
	q_api_jobs_full(pg, req,
	    &(struct q_api_jobs_full){ .ids = ids, .ids_n = n, .at_us = at_us }, done);
}

static void plain_read(struct areq *q, const struct pg_result *r, size_t at)
{
	static const struct batch_kind full = { full_start };
	struct q_api_jobs_plain_row row;
	struct sbuf *b;

	if (at == BATCH_NONE) {
		areq_fail(q, SPOT_NOT_FOUND, "no job 'j%" PRId64 "'", q->id);
		return;
	}
	q_api_jobs_plain_row_at(r, at, q->arena, &row);
	if (!row.plain) {
		areq_batch(q, &full, full_read);
		return;
	}
	if (!job_ready(q, row.state)) {
		return;
	}
	b = job_begin(q, &q_shape_api_jobs_plain, r, at);
	sbuf_puts(b,
	    ",\"pool\":null,\"node\":null,\"market\":null,\"attempts\":0,\"interruptions\":0,"
	    "\"checkpoint\":null,\"attempts_list\":[],\"recoveries\":[],\"checkpoints\":[],\"lost_"
	    "steps\":0,"
	    "\"budget\":null");
	job_reply(q, b,
	    &(struct job_ends){ row.saves, false, row.has_not_before_us, row.not_before_us });
}

static void plain_start(struct pg *pg, struct pg_req *req, const int64_t *ids, size_t n,
    int64_t at_us UNUSED, void (*done)(struct op *))
{
	q_api_jobs_plain(pg, req, &(struct q_api_jobs_plain){ .ids = ids, .ids_n = n }, done);
}

void job_full_look(struct areq *q)
{
	static const struct batch_kind plain = { plain_start };

	areq_batch(q, &plain, plain_read);
}

void show_job(struct areq *q, int status)
{
	struct job_show *s = arena_alloc(q->arena, sizeof(*s));

	s->status = status;
	q->own = s;
	job_full_look(q);
}

void get_job(struct areq *q)
{
	struct job_show *s = arena_alloc(q->arena, sizeof(*s));
	int64_t hold;

	s->status = 200;
	q->own = s;
	if (!areq_query_i64(q, "timeout_s", 0, HOLD_MAX_S, 25, &hold) ||
	    !job_states(q, "wait_state", &s->wanted, &s->wanted_n)) {
		return;
	}
	if (s->wanted_n > 0) {
		areq_watch(q, 'j', q->id, hold * SPOT_US_PER_S, AGAIN_US, job_full_look);
	}
	job_full_look(q);
}
