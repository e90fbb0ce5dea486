/* Counts of replies and their latency; ops/metrics.c publishes them. */
#include "base/base.h"
#include "api/server/server_priv.h"

const int64_t api_latency_bounds_us[API_LATENCY_BUCKETS] = { 1000, 2500, 5000, 10000, 25000, 50000,
	100000, 250000, 500000, 1000000, 5000000, 30000000 };

void served_count(struct areq *q, int status)
{
	struct api *api = q->api;
	int class = status / 100 >= 1 && status / 100 <= 5 ? status / 100 : 5;
	int64_t took = loop_wall_us(api->loop) - q->http->received_us;
	size_t b = 0;

	if (q->route) {
		api->served[q->route_at * 6 + (size_t) class]++;
	} else {
		api->unrouted[class]++;
	}
	if (q->wait.look != NULL) { /* a long poll is slow on purpose */
		return;
	}
	while (b < API_LATENCY_BUCKETS && took > api_latency_bounds_us[b]) {
		b++;
	}
	api->latency[b]++;
	api->latency_us += MAX(took, 0);
}
