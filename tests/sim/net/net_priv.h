/* Shared by the two sides of the network (net.c, net_server.c) and faults_net.c. */
#ifndef SIM_NET_PRIV_H
#define SIM_NET_PRIV_H

#include "sim/world/world.h"
#include "sim/net/net.h"
#include "base/text/text.h"
#include "io/httpd/httpd.h"

struct httpd {
	struct httpd *next;
	struct loop *loop;
	struct httpd_conf conf;
	int port;
	bool draining;
	struct served *served;
	struct httpd_stats stats;
};

/* A request at its server. */
struct served {
	struct httpd_req pub;
	struct httpd *h;
	struct served *next, **at;
	struct flight *flight; /* NULL: nobody waits for the reply */
	struct arena *arena;
	struct spot_header *extra;
	size_t extra_n, extra_cap;
	struct sbuf stream;
	struct loop_timer gone, due;
	struct httpd_parked *parked; /* NULL = it is not */
	int status;
	bool streaming;
};

struct flight {
	struct flight_to *to; /* NULL: forgotten */
	struct arena *arena;
	struct loop_timer timer, lines_timer;
	struct sbuf lines; /* of a streamed reply: on their way */
	struct served *served;
	struct httpd *server; /* it waits there to be taken */
	struct flight *next, **at;
	const char *from, *method, *url, *host;
	int port;
	struct spot_header *headers;
	size_t headers_n;
	struct str body;
	bool twice, answered, broken, swallowed, unheard;
	/* the reply on its way */
	int status;
	struct spot_header *reply_headers;
	size_t reply_headers_n;
	struct str reply;
};

extern struct httpd *net_servers;
extern struct flight *net_flights;

/* The server has answered, or nobody waits for the answer. */
void net_served_done(struct served *s);
void net_served_gone(struct loop_timer *t);
/* The reply is sent off and arrives after us; the connection breaks instead. */
void net_travel_back(struct flight *f, int64_t us);
void net_break_up(struct flight *f, const char *why);
/* The same request once more, after us; nobody waits for its reply. */
void net_again(const struct flight_to *t, int64_t us);
/* Bytes of a reply that goes on leave. */
void net_stream(struct served *s, const char *p, size_t n);

#endif
