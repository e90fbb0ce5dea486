/*
 * One run of the load generator: keep-alive connections that send requests and time the replies.
 *
 * - closed loop (rate 0): each connection sends its next request after the reply to the last
 * - open loop: requests fall due at a fixed rate, and a latency counts from that moment. So a
 *   server that stalls also pays for the requests that waited.
 *
 * The rate is of the replies that come after the warm-up and before the end. The latencies are
 * those of requests that fall due after the warm-up. A request that was never sent counts with its
 * wait until the end, so percentiles of an overload are lower bounds.
 */
#ifndef BENCH_HTTP_LOAD_RUN_H
#define BENCH_HTTP_LOAD_RUN_H

#include "histogram.h"
#include "templates.h"

#include <netinet/in.h>

#define LOAD_STATUS_MAX 600

struct load_conf {
	struct sockaddr_in address;
	int64_t connections;
	double rate; /* requests a second; 0 = closed loop */
	int64_t warmup_us, measure_us;
	int64_t counter; /* {counter} of the first request */
	uint64_t seed;
};
struct load_result {
	struct histogram latency;
	int64_t statuses[LOAD_STATUS_MAX]; /* of all replies */
	int64_t answered; /* within the measured time */
	int64_t late; /* answered after the end, latency included */
	int64_t unsent; /* open loop: due before the end, but no connection was free */
	int64_t errors; /* connection refused, cut, or a reply that is not HTTP */
	int64_t reply_bytes; /* of everything received */
	char error[128]; /* the first one */
};

/* Returns when the last reply came, at most half a minute after the end. */
void load_run(const struct load_conf *conf, const struct templates *templates,
    struct load_result *ret);

#endif
