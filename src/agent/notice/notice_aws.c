/*
 * AWS notices from the instance metadata service. EC2 user guide, "Spot Instance interruption
 * notices" (spot/instance-action), "EC2 instance rebalance recommendations", "View scheduled
 * events". 404 means that there is none. The interruption notice has no id, so the agent compares
 * the content.
 *
 * The agent reads the interruption key twice a second, to signal the job within a second of the
 * notice. It reads the other two keys every five seconds, as AWS recommends for all.
 */
#include "base/base.h"
#include "agent/agent.h"
#include "agent/notice/notice_priv.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"

#define ACTION_EVERY_US (SPOT_US_PER_S / 2)
#define OTHERS_EVERY_US (5 * SPOT_US_PER_S)

bool notice_aws_action(struct str body, int64_t now_wall_us, int64_t *ret_deadline_wall_us)
{
	AUTO(json) json_t *o = NULL;
	const char *action, *time;

	if (json_parse(body, "instance-action", &o, NULL) != SPOT_OK) {
		return false;
	}
	action = json_str(o, "action", NULL, NULL);
	time = json_str(o, "time", NULL, NULL);
	if (action == NULL) {
		return false;
	}
	/* Hibernation begins at once, without two minutes of notice. An invalid time counts as
	 * now, too. */
	if (strcmp(action, "hibernate") == 0 || time == NULL ||
	    !parse_time_us(time, ret_deadline_wall_us)) {
		*ret_deadline_wall_us = now_wall_us;
	}
	return true;
}

/* Parses "21 Jan 2019 09:00:43 GMT". */
static bool maintenance_time(const char *text, int64_t *ret)
{
	struct tm tm = { 0 };
	const char *end = text != NULL ? strptime(text, "%d %b %Y %H:%M:%S", &tm) : NULL;

	if (end == NULL || strcmp(end, " GMT") != 0) {
		return false;
	}
	*ret = (int64_t)timegm(&tm) * SPOT_US_PER_S;
	return true;
}

bool notice_aws_maintenance(struct str body, int64_t *ret_deadline_wall_us)
{
	AUTO(json) json_t *list = NULL;
	bool found = false;

	if (json_parse(body, "maintenance", &list, NULL) != SPOT_OK) {
		return false;
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *event = json_array_get(list, i);
		const char *state = json_str(event, "State", "active", NULL);
		int64_t at = 0;

		if (strcmp(state, "active") != 0) {
			continue; /* the event is completed or canceled */
		}
		(void)maintenance_time(json_str(event, "NotBefore", NULL, NULL), &at);
		if (!found || *ret_deadline_wall_us == 0 ||
		    (at != 0 && at < *ret_deadline_wall_us)) {
			*ret_deadline_wall_us = at;
		}
		found = true;
	}
	return found;
}

/* Handles a reply. True: the value of the key has changed. */
static bool key_answer(struct agent *a, struct notice_key *k, const struct http_reply *r)
{
	char hex[SHA256_HEX];

	k->call = NULL;
	if (r->status == 401) {
		imds_token_refused(a);
	}
	if (r->status == 404) {
		k->seen[0] = '\0';
	}
	if (r->status != 200) {
		return false;
	}
	sha256_hex(r->body.p, r->body.n, hex);
	if (strcmp(hex, k->seen) == 0) {
		return false;
	}
	memcpy(k->seen, hex, sizeof(k->seen));
	return true;
}

static void action_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;
	int64_t deadline = 0;

	if (key_answer(a, &a->notice.action, r) &&
	    notice_aws_action(r->body, agent_wall_us(a), &deadline)) {
		notice_seen(a, NOTICE_INTERRUPTION, deadline, "imds", r->body);
	}
}

static void rebalance_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;

	if (key_answer(a, &a->notice.rebalance, r)) {
		notice_seen(a, NOTICE_REBALANCE, 0, "imds", r->body);
	}
}

static void maintenance_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;
	int64_t deadline = 0;

	if (key_answer(a, &a->notice.maintenance, r) &&
	    notice_aws_maintenance(r->body, &deadline)) {
		notice_seen(a, NOTICE_MAINTENANCE, deadline, "imds", r->body);
	}
}

static void key_ask(struct agent *a, struct notice_key *k, const char *path, int64_t every_us,
    void (*done)(void *agent, const struct http_reply *r))
{
	if (k->call == NULL && a->now_us >= k->next_us) {
		k->next_us = a->now_us + every_us;
		k->call = imds_get(a, path, done);
	}
	agent_wake(a, k->next_us > a->now_us ? k->next_us : a->now_us + every_us);
}

void notice_aws_step(struct agent *a)
{
	struct notice *n = &a->notice;

	if (!imds_ready(a)) {
		return;
	}
	key_ask(a, &n->action, "meta-data/spot/instance-action", ACTION_EVERY_US, action_done);
	key_ask(a, &n->rebalance, "meta-data/events/recommendations/rebalance", OTHERS_EVERY_US,
	    rebalance_done);
	key_ask(a, &n->maintenance, "meta-data/events/maintenance/scheduled", OTHERS_EVERY_US,
	    maintenance_done);
}
