/*
 * Google Cloud notices from the metadata server. A hanging GET watches each of two keys:
 * instance/preempted and instance/maintenance-event. Sources:
 *
 * - cloud.google.com/compute/docs/metadata/querying-metadata, "Waiting for updates"
 * - cloud.google.com/compute/docs/instances/spot, "Preemption process": about 30 seconds, best
 *   effort
 *
 * The first GET does not wait, since the value may be TRUE already. The next ones carry the last
 * etag, so that no change between two GETs is lost. After a fault the agent starts again without an
 * etag. The value stays after its change, so the agent may see it late but does not miss it.
 */
#include "base/base.h"
#include "agent/agent.h"
#include "agent/notice/notice_priv.h"

#include "base/text/text.h"

#include <ctype.h>

#define HANG_S 60
#define ASK_TIMEOUT_US (5 * SPOT_US_PER_S)
#define HANG_TIMEOUT_US ((HANG_S + 10) * SPOT_US_PER_S)
#define FAULT_MIN_US (SPOT_US_PER_S / 10)
#define FAULT_MAX_US SPOT_US_PER_S
#define QUICK_US (SPOT_US_PER_S / 10)
#define PREEMPTION_US (30 * SPOT_US_PER_S)
/* One hour ahead: cloud.google.com/compute/docs/gpus/gpu-host-maintenance */
#define MAINTENANCE_US (3600 * SPOT_US_PER_S)

/* Keeps an etag of letters and digits, as the vendor's are, since it goes into the next URL. */
static bool etag_keep(struct gcp_key *k, const char *etag)
{
	static const char good[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

	return str_copy(k->etag, sizeof(k->etag), etag[strspn(etag, good)] == '\0' ? etag : "") &&
	    k->etag[0] != '\0';
}

bool notice_gcp_answer(struct gcp_key *k, int64_t now_us, const char *etag, struct str body)
{
	char value[sizeof(k->value)];
	bool changed;

	while (body.n > 0 && isspace((unsigned char)body.p[body.n - 1])) {
		body.n--;
	}
	(void)snprintf(value, sizeof(value), "%.*s", (int)MIN(body.n, sizeof(value) - 1), body.p);
	changed = strcmp(value, k->value) != 0;
	memcpy(k->value, value, sizeof(k->value));
	k->faults = 0;
	/* Poll once a second if the server does not wait, or sends no etag. */
	k->next_us = now_us;
	if (!etag_keep(k, etag) || (k->waited && !changed && now_us - k->started_us < QUICK_US)) {
		k->next_us = now_us + FAULT_MAX_US;
	}
	return changed;
}

void notice_gcp_fault(struct gcp_key *k, int64_t now_us)
{
	static const struct backoff waits = { .first_us = FAULT_MIN_US, .cap_us = FAULT_MAX_US };

	k->etag[0] = '\0';
	k->next_us = now_us + backoff_wait_us(&waits, k->faults, NULL);
	k->faults++;
}

/* Handles a reply. True: the value of the key has changed. */
static bool key_answer(struct agent *a, struct gcp_key *k, const struct http_reply *r)
{
	k->call = NULL;
	if (r->status == 200 && gcp_is_google(r)) {
		return notice_gcp_answer(k, a->now_us, http_reply_header(r, "ETag"), r->body);
	}
	if (k->faults == 0) {
		log_info("gcp.no_answer", I64("status", r->status), STR("error", r->error));
	}
	notice_gcp_fault(k, a->now_us);
	return false;
}

static void preempted_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;
	struct gcp_key *k = &a->notice.preempted;

	if (key_answer(a, k, r) && strcasecmp(k->value, "TRUE") == 0) {
		notice_seen_for(a, NOTICE_INTERRUPTION, PREEMPTION_US, "gcp", r->body);
	}
}

static void maintenance_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;
	struct gcp_key *k = &a->notice.host_event;

	/* MIGRATE_ON_HOST_MAINTENANCE is a pause, not an end. */
	if (key_answer(a, k, r) && strcmp(k->value, "TERMINATE_ON_HOST_MAINTENANCE") == 0) {
		notice_seen_for(a, NOTICE_MAINTENANCE, MAINTENANCE_US, "gcp", r->body);
	}
}

static void key_ask(struct agent *a, struct gcp_key *k, const char *name,
    void (*done)(void *agent, const struct http_reply *r))
{
	char path[256];
	bool hang = k->etag[0] != '\0';

	if (k->call != NULL) {
		return;
	}
	if (a->now_us < k->next_us) {
		agent_wake(a, k->next_us);
		return;
	}
	if (hang) {
		(void)snprintf(path, sizeof(path),
		    "%s?wait_for_change=true&timeout_sec=%d&last_etag=%s", name, HANG_S, k->etag);
	} else {
		(void)snprintf(path, sizeof(path), "%s", name);
	}
	k->started_us = a->now_us;
	k->waited = hang;
	k->call = gcp_get(a, path, hang ? HANG_TIMEOUT_US : ASK_TIMEOUT_US, done);
}

void notice_gcp_ask(struct agent *a)
{
	struct gcp_key *k = &a->notice.preempted;

	http_stop(a->http, STEAL(k->call));
	k->etag[0] = '\0';
	k->next_us = a->now_us;
}

void notice_gcp_step(struct agent *a)
{
	key_ask(a, &a->notice.preempted, "instance/preempted", preempted_done);
	key_ask(a, &a->notice.host_event, "instance/maintenance-event", maintenance_done);
}
