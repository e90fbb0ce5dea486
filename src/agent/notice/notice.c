/*
 * The effects of a notice, the same for every cloud:
 *
 * - interruption: the agent signals the job at once, and reports to the daemon at the same time
 * - rebalance recommendation: a checkpoint at most once in ten minutes; the job goes on
 * - maintenance: the daemon decides
 */
#include "base/base.h"
#include "agent/agent.h"
#include "agent/notice/notice_priv.h"

#include "base/text/text.h"

#define REBALANCE_EVERY_US (600 * SPOT_US_PER_S)
#define POST_TIMEOUT_US (2 * SPOT_US_PER_S)
#define DEADLINE_MAX_US (3600 * SPOT_US_PER_S)

static const char *const kinds[] = { "interruption", "rebalance", "maintenance" };

/* Writes {"kind","deadline_us"}. The job sees the file complete or not at all. */
static void notice_file_put(struct agent *a, const char *kind, int64_t deadline_wall_us)
{
	char text[160];

	(void)snprintf(text, sizeof(text), "{\"kind\":\"%s\",\"deadline_us\":%" PRId64 "}\n", kind,
	    deadline_wall_us);
	if (job_alive(&a->job) &&
	    file_write(a->job.notice, str_from(text), 0644, false, NULL) != SPOT_OK) {
		log_warn("notice.file_not_written", STR("job", a->job.id));
	}
}

void notice_file_write(struct agent *a)
{
	if (a->notice.interrupted) {
		notice_file_put(a, kinds[NOTICE_INTERRUPTION], a->notice.deadline_wall_us);
	}
}

static void interruption_begin(struct agent *a, int64_t deadline_wall_us)
{
	struct notice *n = &a->notice;
	int64_t left = deadline_wall_us - agent_wall_us(a);

	/* The wall clock may be wrong right after boot: limit the deadline to between now and an
	 * hour. Of two notices the earlier deadline counts. */
	left = MAX(INT64_C(0), MIN(left, DEADLINE_MAX_US));
	if (!n->interrupted || a->now_us + left < n->deadline_us) {
		n->deadline_us = a->now_us + left;
		n->deadline_wall_us = deadline_wall_us;
	}
	if (!n->interrupted) {
		n->seen_us = a->now_us;
	}
	n->interrupted = true;
	notice_file_put(a, kinds[NOTICE_INTERRUPTION], n->deadline_wall_us);
	if (job_alive(&a->job)) {
		ckpt_begin(a, "notice", true, n->deadline_us);
	}
}

static void rebalance_save(struct agent *a)
{
	struct notice *n = &a->notice;

	if (n->interrupted || a->job.phase != JOB_RUNNING || !a->job.has_checkpoint ||
	    a->ckpt.at != CKPT_IDLE) {
		return;
	}
	if (n->rebalance_saved_us != 0 && a->now_us < n->rebalance_saved_us + REBALANCE_EVERY_US) {
		return;
	}
	n->rebalance_saved_us = a->now_us;
	notice_file_put(a, kinds[NOTICE_REBALANCE], 0);
	ckpt_begin(a, "notice", false, 0);
}

static void notice_take(struct agent *a, int kind, int64_t deadline_wall_us, int64_t deadline_us,
    const char *source, struct str raw)
{
	struct notice_post *p = &a->notice.post[kind];
	size_t n = MIN(raw.n, sizeof(p->raw) - 1);

	log_warn("notice.seen", STR("kind", kinds[kind]), STR("source", source),
	    I64("deadline_us", deadline_wall_us));
	if (kind == NOTICE_INTERRUPTION) {
		interruption_begin(a, deadline_wall_us);
	} else if (kind == NOTICE_REBALANCE) {
		rebalance_save(a);
	}
	p->wanted = true;
	p->seen_us = p->seen_us != 0 ? p->seen_us : a->now_us;
	p->kind = kinds[kind];
	p->deadline_wall_us = deadline_wall_us;
	p->deadline_us = deadline_us;
	p->source = source;
	memcpy(p->raw, raw.p, n);
	p->raw[n] = '\0';
	for (size_t i = 0; i < n; i++) { /* make it valid in JSON */
		if ((unsigned char)p->raw[i] >= 0x80 || p->raw[i] == '\0') {
			p->raw[i] = '?';
		}
	}
	retry_clear(&p->backoff);
	http_stop(a->http, STEAL(p->call));
	notice_step(a);
}

void notice_seen(struct agent *a, int kind, int64_t deadline_wall_us, const char *source,
    struct str raw)
{
	notice_take(a, kind, deadline_wall_us, 0, source, raw);
}

void notice_seen_for(struct agent *a, int kind, int64_t left_us, const char *source, struct str raw)
{
	notice_take(a, kind, agent_wall_us(a) + left_us, a->now_us + left_us, source, raw);
}

static void post_done(struct agent *a, struct notice_post *p, const struct http_reply *reply)
{
	AUTO(daemon_reply) struct daemon_reply r;

	daemon_read(a, reply, &r);
	p->call = NULL;
	if (r.status == 200 ||
	    (r.status >= 400 && r.status < 500 && r.status != 401 && r.status != 429)) {
		p->wanted = false;
		return;
	}
	/* Repeat at once after the first failures, since seconds count and the cause may be a dead
	 * connection. */
	if (p->backoff.failures < 2) {
		p->backoff.failures++;
	} else {
		retry_fail(a, &p->backoff, r.retry_after_us);
	}
}

static void post_done_0(void *agent, const struct http_reply *r)
{
	post_done(agent, &((struct agent *)agent)->notice.post[0], r);
}

static void post_done_1(void *agent, const struct http_reply *r)
{
	post_done(agent, &((struct agent *)agent)->notice.post[1], r);
}

static void post_done_2(void *agent, const struct http_reply *r)
{
	post_done(agent, &((struct agent *)agent)->notice.post[2], r);
}

void notice_step(struct agent *a)
{
	static void (*const dones[])(void *, const struct http_reply *) = { post_done_0,
		post_done_1, post_done_2 };

	if (a->enrol.at != ENROL_DONE) {
		return;
	}
	for (int i = 0; i < 3; i++) {
		struct notice_post *p = &a->notice.post[i];
		json_t *body;

		if (!p->wanted || p->call != NULL || !retry_due(a, &p->backoff)) {
			continue;
		}
		body = json_pack("{s:s, s:I, s:s, s:s}", "kind", p->kind, "deadline_us",
		    (json_int_t)p->deadline_wall_us, "source", p->source, "raw", p->raw);
		if (p->deadline_us != 0) {
			(void)json_object_set_new(body, "left_us",
			    json_integer((json_int_t)MAX(p->deadline_us - a->now_us, INT64_C(0))));
		}
		(void)json_object_set_new(body, "heard_ago_us",
		    json_integer(MAX(a->now_us - p->seen_us, INT64_C(0))));
		p->call = daemon_post(a, "notice", body, POST_TIMEOUT_US, dones[i]);
	}
}
