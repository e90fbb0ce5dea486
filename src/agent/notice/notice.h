/*
 * Notices: the cloud says that it takes this machine, advises to leave, or maintains it. One file
 * per cloud watches its source and calls notice_seen; notice.c does what follows.
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
	bool waited; /* the question was one that waits */
	char etag[128], value[64]; /* etag "" = ask without waiting */
};
struct azure_event { /* a scheduled event of this machine */
	char id[128];
	int kind; /* NOTICE_...; -1 = nothing to do about it */
	int64_t deadline_wall_us;
	bool alone; /* it names no other machine */
	bool acking; /* approved, or about to be */
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
struct notice_post { /* one notice on its way to the daemon */
	bool wanted;
	struct http_call *call;
	struct retry backoff;
	const char *kind;
	int64_t deadline_wall_us;
	int64_t deadline_us; /* the source told a span, not a time; 0 = a time */
	const char *source;
	char raw[1024];
};
struct notice {
	struct notice_key action, rebalance, maintenance; /* AWS */
	struct gcp_key preempted, host_event;
	struct azure azure;
	int stop_signal; /* we were asked to stop; 0 = no */
	int64_t stop_us; /* when that was */
	bool stop_final; /* the machine goes with us: there is no successor */
	struct notice_post post[3]; /* interruption, rebalance, maintenance */
	bool interrupted;
	int64_t seen_us, deadline_us, deadline_wall_us;
	/* when a rebalance last caused a checkpoint; 0 = never */
	int64_t rebalance_saved_us;
};

void notice_source_step(struct agent *a); /* watches the source of this cloud */
void notice_step(struct agent *a); /* tells the daemon what was seen */
void notice_file_write(struct agent *a); /* for a job that starts after the notice */
void notice_stop(struct agent *a, int signo); /* we are asked to stop */
void notice_stop_step(struct agent *a);

#endif
