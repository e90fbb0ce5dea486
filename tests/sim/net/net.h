/* The network: requests that travel to a server in this process, and their replies. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "base/base.h"
#include "base/text/text.h"
#include "io/loop/loop.h"
#include "spot/http.h"

struct flight_to {
	void (*over)(struct flight_to *t); /* reply, or reset */
	/* NULL: a reply comes whole. Else reply has the bytes since its last call; the rest comes
	 * with over. */
	void (*streamed)(struct flight_to *t);
	struct loop *loop;
	/* the sender, for the trace and partitions: "engine", "i-0123" */
	const char *from;
	const char *method, *url;
	const struct spot_header *headers;
	size_t headers_n;
	struct str body;
	/* no reply: the connection broke; the request may have arrived */
	bool reset, sent;
	int status;
	struct spot_header *reply_headers; /* these live until flight_forget */
	size_t reply_headers_n;
	struct str reply;
	struct flight *flight;
};
void flight_start(struct flight_to *t);
void flight_forget(struct flight_to *t); /* idempotent; over is not called any more */
/* Messages between the two are lost until then. */
void net_cut(const char *from, bool cut);
bool net_any_cut(void);
/* its messages on the way may still arrive; no reply finds it */
void net_crash(const char *from);

/* A launch that comes once more does so after so long at least, and after a minute and a half at
 * most (net.c). */
#define NET_GHOST_US (13 * SPOT_US_PER_S)

/* acts.c */
bool act_is_launch(const char *url, struct str body);
/* The launch of a set: of several machines that do not need one another. */
bool act_is_set(const char *url, struct str body);
/* of a machine, an order or a fleet */
bool act_is_end(const char *method, const char *url, struct str body);

/* Others look at messages and draw their fates. The network calls them by this table alone. */
struct flight;
struct net_fates {
	void (*left)(const struct flight_to *t); /* one leaves its sender */
	void (*drawn)(struct flight *f); /* the same: now its fate is drawn */
	/* around its service */
	void (*begins)(const char *url, struct str body);
	void (*ends)(void);
};
extern const struct net_fates net_fates; /* faults_net.c */

#endif
