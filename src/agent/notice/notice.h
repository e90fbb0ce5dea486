/*
 * Notices: the cloud reclaims this machine, recommends a rebalance, or plans maintenance. One file
 * per cloud watches its source and calls notice_seen(). Their effects are in notice.c.
 */
#ifndef AGENT_NOTICE_H
#define AGENT_NOTICE_H

#include "base/base.h"

#include "agent/ckpt/ckpt.h"
#include "agent/net/net.h"

struct notice_key { /* one watched metadata path */
	struct http_call *call;
	int64_t next_us;
	char seen[65]; /* sha256 of the last content */
};
struct gcp_key { /* one hanging GET */
	struct http_call *call;
	int64_t next_us, started_us;
	int faults;
	bool waited; /* the last GET was one that waits */
	char etag[128], value[64]; /* etag "" = the next GET does not wait */
};
struct azure_event { /* a scheduled event of this machine */
	char id[128];
	int kind; /* NOTICE_...; -1 = without effect */
	int64_t deadline_wall_us;
	bool alone; /* the event names no other machine */
	bool acking; /* the agent has sent its approval */
};
#define AZURE_EVENTS_MAX 16
struct azure {
	struct http_call *call, *name_call, *ack_call;
	int64_t next_us, name_next_us;
	int faults;
	bool awake; /* the service has answered once */
	char name[256]; /* of this machine; "" = not known yet */
	struct azure_event events[AZURE_EVENTS_MAX];
	size_t events_n;
	struct retry ack_backoff;
};
struct notice_post { /* a notice for the daemon */
	bool wanted;
	struct http_call *call;
	struct retry backoff;
	const char *kind;
	int64_t deadline_wall_us;
	int64_t deadline_us; /* if the source gave a duration; 0 = it gave a time */
	const char *source;
	char raw[1024];
	int64_t seen_us; /* when the source was first heard */
};
struct notice {
	struct notice_key action, rebalance, maintenance; /* AWS */
	struct gcp_key preempted, host_event;
	struct azure azure;
	int stop_signal; /* the signal to stop; 0 = none */
	int64_t stop_us; /* its time */
	bool stop_final; /* the machine ends with the agent: no successor */
	struct notice_post post[3]; /* interruption, rebalance, maintenance */
	bool interrupted;
	int64_t seen_us, deadline_us, deadline_wall_us;
	int64_t rebalance_saved_us; /* last checkpoint for a rebalance; 0 = never */
};

void notice_source_step(struct agent *a); /* watches the source of this cloud */
void notice_step(struct agent *a); /* reports notices to the daemon */
void notice_file_write(struct agent *a); /* for a job that starts after the notice */
void notice_stop(struct agent *a, int signo); /* handles a signal to stop */
void notice_stop_step(struct agent *a);

#endif
