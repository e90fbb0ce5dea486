/*
 * Azure Scheduled Events from the metadata service. See
 * learn.microsoft.com/azure/virtual-machines/linux/scheduled-events.
 *
 * The first call switches the service on and may take two minutes. Then the agent polls once a
 * second; Preempt comes at least 30 seconds ahead. The document also lists events of other machines
 * in the set, which the agent ignores.
 *
 * The agent approves an event (StartRequests) once the node has nothing left to save, and only if
 * the event names no other machine. The approval starts it at once for all its machines. Without
 * approval the event begins at its time.
 */
#include "base/base.h"
#include "agent/agent.h"
#include "agent/notice/notice_priv.h"

#include "base/text/text.h"

#define EVENTS_PATH "metadata/scheduledevents?api-version=2020-07-01"
#define NAME_PATH "metadata/instance/compute/name?api-version=2021-02-01&format=text"
#define EVERY_US SPOT_US_PER_S
#define FIRST_TIMEOUT_US (180 * SPOT_US_PER_S)
#define TIMEOUT_US (5 * SPOT_US_PER_S)
#define FAULT_MAX_US (5 * SPOT_US_PER_S)

/* ---- the document ---------------------------------------------------------------------------- */

/* Returns the kind of an event; -1 for Freeze, a pause of seconds, and for unknown types. */
static int event_kind(const char *type)
{
	if (strcmp(type, "Preempt") == 0 || strcmp(type, "Terminate") == 0) {
		return NOTICE_INTERRUPTION;
	}
	if (strcmp(type, "Reboot") == 0 || strcmp(type, "Redeploy") == 0) {
		return NOTICE_MAINTENANCE;
	}
	return -1;
}

/* Parses "Mon, 19 Sep 2016 18:29:47 GMT". An empty text means that the event has started: now. */
static int64_t event_time(const json_t *o, int64_t now_wall_us)
{
	const char *text = json_str(o, "NotBefore", "", NULL), *end;
	struct tm tm = { 0 };

	if (strcmp(json_str(o, "EventStatus", "", NULL), "Started") == 0) {
		return now_wall_us;
	}
	end = strptime(text, "%a, %d %b %Y %H:%M:%S", &tm);
	return end != NULL && strcmp(end, " GMT") == 0 ? (int64_t)timegm(&tm) * SPOT_US_PER_S
						       : now_wall_us;
}

static bool event_names_us(const json_t *resources, const char *name)
{
	for (size_t i = 0; i < json_array_size(resources); i++) {
		const char *s = json_string_value(json_array_get(resources, i));

		if (s != NULL && strcasecmp(s, name) == 0) {
			return true;
		}
	}
	return false;
}

bool notice_azure_events(struct str body, const char *name, int64_t now_wall_us,
    struct azure_event ret[AZURE_EVENTS_MAX], size_t *ret_n)
{
	AUTO(json) json_t *o = NULL;
	struct spot_err bad = { 0 };
	const json_t *list;

	*ret_n = 0;
	if (json_parse(body, "scheduledevents", &o, NULL) != SPOT_OK || !json_is_object(o)) {
		return false;
	}
	(void)json_need_i64(o, "DocumentIncarnation", &bad);
	list = json_object_get(o, "Events");
	if (bad.rc != SPOT_OK || !json_is_array(list)) {
		return false;
	}
	for (size_t i = 0; i < json_array_size(list) && *ret_n < AZURE_EVENTS_MAX; i++) {
		const json_t *e = json_array_get(list, i),
			     *resources = json_object_get(e, "Resources");
		struct azure_event *ev = &ret[*ret_n];

		*ev =
		    (struct azure_event){ .kind = event_kind(json_str(e, "EventType", "", NULL)) };
		if (!event_names_us(resources, name) ||
		    !str_copy(ev->id, sizeof(ev->id), json_str(e, "EventId", "", NULL))) {
			continue;
		}
		ev->deadline_wall_us = event_time(e, now_wall_us);
		ev->alone = json_array_size(resources) == 1;
		*ret_n += ev->id[0] != '\0';
	}
	return true;
}

static struct azure_event *event_find(struct azure *z, const char *id)
{
	for (size_t i = 0; i < z->events_n; i++) {
		if (strcmp(z->events[i].id, id) == 0) {
			return &z->events[i];
		}
	}
	return NULL;
}

/* Handles a document. False: it is not valid. */
static bool document_take(struct agent *a, struct str body)
{
	struct azure *z = &a->notice.azure;
	struct azure_event now[AZURE_EVENTS_MAX];
	size_t n;

	if (!notice_azure_events(body, z->name, agent_wall_us(a), now, &n)) {
		return false;
	}
	if (z->name[0] == '\0') {
		return true; /* without our name we cannot match events yet */
	}
	/* Read every document and ignore its incarnation, because ids show the new events. */
	for (size_t i = 0; i < n; i++) {
		const struct azure_event *old = event_find(z, now[i].id);

		now[i].acking = old != NULL && old->acking;
		if (old != NULL) { /* a known event: only its first time counts */
			continue;
		}
		if (now[i].kind >= 0) {
			notice_seen(a, now[i].kind, now[i].deadline_wall_us, "azure", body);
		} else {
			log_info("azure.event", STR("id", now[i].id));
		}
	}
	memcpy(z->events, now, sizeof(now));
	z->events_n = n;
	return true;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void events_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;
	struct azure *z = &a->notice.azure;
	static const struct backoff waits = { .first_us = EVERY_US, .cap_us = FAULT_MAX_US };
	int64_t wait;

	z->call = NULL;
	if (r->status == 200 && document_take(a, r->body)) {
		if (!z->awake) {
			log_info("azure.events_on", STR("name", z->name));
		}
		z->awake = true;
		z->faults = 0;
		return;
	}
	if (z->faults++ == 0) {
		log_info("azure.no_answer", I64("status", r->status), STR("error", r->error));
	}
	/* 410, 429 and 5xx pass. Keep the wait short: the notice comes only 30 seconds ahead. */
	wait = MAX(backoff_wait_us(&waits, z->faults - 1, NULL), r->retry_after_us);
	z->next_us = a->now_us + MIN(wait, FAULT_MAX_US);
}

static void name_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;
	struct azure *z = &a->notice.azure;

	z->name_call = NULL;
	if (r->status == 200 && r->body.n > 0 && strlen(r->body.p) == r->body.n &&
	    str_copy(z->name, sizeof(z->name), r->body.p)) {
		z->name[strcspn(z->name, "\r\n")] = '\0';
	}
	z->name_next_us = a->now_us + EVERY_US;
}

/* ---- approval -------------------------------------------------------------------------------- */

static void ack_done(void *agent, const struct http_reply *r)
{
	struct agent *a = agent;
	struct azure *z = &a->notice.azure;

	z->ack_call = NULL;
	if (r->status == 0 || r->status == 408 || r->status == 410 || r->status == 429 ||
	    r->status >= 500) {
		retry_fail(a, &z->ack_backoff, r->retry_after_us);
		for (size_t i = 0; i < z->events_n; i++) {
			z->events[i].acking = false;
		}
		return;
	}
	/* 200, also for an approved event. A retry does not help with other statuses. */
	log_info("azure.approved", I64("status", r->status));
}

/* Reports that the job's result is in the store, and that the daemon has its end and the notice. */
static bool nothing_left(const struct agent *a)
{
	return (a->job.phase == JOB_NONE || a->job.phase == JOB_REPORTED) &&
	    a->ckpt.at == CKPT_IDLE && a->enrol.at == ENROL_DONE &&
	    !a->notice.post[NOTICE_INTERRUPTION].wanted;
}

static void ack_step(struct agent *a)
{
	struct azure *z = &a->notice.azure;
	json_t *list;
	char *text;

	if (z->ack_call != NULL || !a->notice.interrupted || !nothing_left(a) ||
	    !retry_due(a, &z->ack_backoff)) {
		return;
	}
	list = json_array();
	for (size_t i = 0; i < z->events_n; i++) {
		struct azure_event *e = &z->events[i];

		if (e->kind != NOTICE_INTERRUPTION || !e->alone || e->acking) {
			continue;
		}
		(void)json_array_append_new(list, json_pack("{s:s}", "EventId", e->id));
		e->acking = true;
	}
	if (json_array_size(list) > 0) {
		AUTO(json) json_t *o = json_pack("{s:O}", "StartRequests", list);

		text = json_dumps(o, JSON_COMPACT);
		if (text == NULL) {
			abort();
		}
		z->ack_call = azure_metadata_send(a, "POST", EVENTS_PATH, str_from(text),
		    TIMEOUT_US, ack_done);
		free(text);
	}
	json_decref(list);
}

static bool time_is_due(struct agent *a, int64_t at_us)
{
	if (a->now_us >= at_us) {
		return true;
	}
	agent_wake(a, at_us);
	return false;
}

void notice_azure_step(struct agent *a)
{
	struct azure *z = &a->notice.azure;

	if (z->call == NULL && time_is_due(a, z->next_us)) {
		z->next_us = a->now_us + EVERY_US;
		z->call = azure_get(a, EVENTS_PATH, z->awake ? TIMEOUT_US : FIRST_TIMEOUT_US,
		    events_done);
	}
	if (z->name[0] == '\0' && z->name_call == NULL && time_is_due(a, z->name_next_us)) {
		z->name_call = azure_get(a, NAME_PATH, TIMEOUT_US, name_done);
	}
	ack_step(a);
}
