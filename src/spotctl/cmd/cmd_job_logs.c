/*
 * job logs: text of one attempt after the other. The reply's headers say how to go on. X-Log-Epoch
 * and X-Log-Next tell the part that was read, X-Log-Next-Epoch the next attempt. X-Log-End says
 * that no more will come.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/cmd/cmd.h"

struct log_place {
	int64_t epoch; /* 0 = the first that has a log */
	int64_t offset;
	int64_t rank;
	bool one; /* only this attempt */
	bool away;
};

static bool header_i64(const struct reply *r, const char *name, int64_t min, int64_t *ret)
{
	const char *v = reply_header(r, name);

	return v != NULL && parse_i64(v, min, INT64_MAX / 2, ret);
}

enum log_more { LOG_MORE = 1, LOG_IDLE, LOG_END };

/* Moves on by a reply. */
static enum log_more move_on(struct log_place *at, const struct reply *r)
{
	int64_t epoch = at->epoch, next = 0;

	(void)header_i64(r, "X-Log-Epoch", 1, &epoch);
	if (r->body.n > 0) {
		at->epoch = epoch;
		return header_i64(r, "X-Log-Next", 0, &at->offset) ? LOG_MORE : LOG_END;
	}
	/* the attempt after this one is named by a header of its own, or in place of this one */
	if (!header_i64(r, "X-Log-Next-Epoch", 1, &next) && at->epoch > 0 && epoch > at->epoch) {
		next = epoch;
	}
	if (next > 0 && at->one) {
		return LOG_END;
	}
	if (next > at->epoch) {
		if (at->offset > 0) {
			say("--- attempt %" PRId64, next);
		}
		*at = (struct log_place){ .epoch = next, .rank = at->rank };
		return LOG_MORE;
	}
	at->epoch = epoch;
	return reply_header(r, "X-Log-End") != NULL ? LOG_END : LOG_IDLE;
}

/* One request. Returns -1 while there is more to ask for. */
static int log_step(struct ctl *c, const char *job, struct log_place *at, bool follow, bool first)
{
	char *path = arena_printf(c->arena, "/v1/jobs/%s/logs?offset=%" PRId64 "%s",
	    url_encode(c->arena, job, false), at->offset, follow ? "&follow_s=20" : "");
	struct reply r;
	enum log_more more;
	int rc;

	if (at->rank > 0) {
		path = arena_printf(c->arena, "%s&rank=%" PRId64, path, at->rank);
	}
	if (at->epoch > 0) {
		path = arena_printf(c->arena, "%s&epoch=%" PRId64, path, at->epoch);
	}
	rc = follow && !first ? conn_poll(c, path, true, &r) : conn_get_text(c, path, &r);
	if (rc == CTL_UNREACHABLE && follow && !first) {
		if (!at->away) {
			say("spotctl: %s does not answer; retrying, then the log continues",
			    c->url);
		}
		at->away = true;
		pause_ms(1000);
		return -1;
	}
	if (rc != CTL_OK) {
		return rc;
	}
	at->away = false;
	if (fwrite(r.body.p, 1, r.body.n, stdout) != r.body.n || fflush(stdout) != 0) {
		return CTL_FAILED;
	}
	more = move_on(at, &r);
	if (more == LOG_END || (more == LOG_IDLE && !follow)) {
		return CTL_OK;
	}
	if (more == LOG_IDLE) {
		pause_ms(100); /* a daemon that goes down holds nobody */
	}
	return -1;
}

int job_follow(struct ctl *c, const char *job, int64_t epoch, int64_t rank, bool follow)
{
	struct log_place at = { .epoch = epoch, .rank = rank, .one = epoch > 0 };
	bool first = true;
	int rc;

	do {
		struct round round;

		round_begin(c, &round);
		rc = log_step(c, job, &at, follow, first);
		round_end(c, &round);
		first = false;
	} while (rc < 0);
	return rc;
}

int cmd_job_logs(struct ctl *c)
{
	const char *text = opt_value(c, "epoch"), *which = opt_value(c, "rank");
	int64_t epoch = 0, rank = 0;

	if (text != NULL && !parse_i64(text, 1, INT32_MAX, &epoch)) {
		say("spotctl job logs: --epoch must be the number of an attempt, not '%s'", text);
		return CTL_USAGE;
	}
	if (which != NULL && !parse_i64(which, 0, INT32_MAX, &rank)) {
		say("spotctl job logs: --rank must be a number from 0, not '%s'", which);
		return CTL_USAGE;
	}
	return job_follow(c, c->args[0], epoch, rank, opt_flag(c, "follow"));
}
