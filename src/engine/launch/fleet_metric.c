/* Asks Prometheus for the demand of fleets whose file has a query. The answer goes to the fleet's
 * row; fleet_size.c decides by it. Only hosts of [engine] demand_hosts are asked. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet.h"
#include "engine/launch/launch_priv.h"

#define MOST 50 /* requests begun in a pass */
#define TIMEOUT_US (5 * SPOT_US_PER_S)
#define REPLY_MAX (64 << 10)
#define PAUSE_US SPOT_US_PER_S

struct metric_state {
	int64_t next_us; /* mono: the next pass begins */
};

static void metric_store(struct act *a, bool answered, double value, const char *error)
{
	ACT_WRITE(a, engine_fleet_metric_set,
	    (&(struct q_engine_fleet_metric_set){ .id = a->id,
		.answered = answered,
		.value = value,
		.error = error,
		.at_us = engine_now(a->e),
		.fence = a->epoch }));
}

static void metric_answered(struct act *a)
{
	struct spot_err err = { 0 };
	double value = 0;

	if (a->http.op.rc != SPOT_OK) {
		metric_store(a, false, 0, a->http.op.err.text);
	} else if (fleet_metric_read(a->http.in.body, &value, &err) != SPOT_OK) {
		metric_store(a, false, 0,
		    a->http.in.status == 200
			? err.text
			: arena_printf(a->arena, "HTTP %d: %s", a->http.in.status, err.text));
	} else {
		metric_store(a, true, value, "");
	}
}

static void metric_ask(struct recon *r, const struct q_engine_fleet_metrics_row *f)
{
	struct act *a = act_new(r->e, f->id, metric_answered);
	size_t n = strlen(f->url);

	if (r->e->http == NULL || !fleet_metric_allowed(r->e->conf.demand_hosts, f->url)) {
		metric_store(a, false, 0, "its host is not in [engine] demand_hosts");
		return;
	}
	while (n > 0 && f->url[n - 1] == '/') {
		n--;
	}
	a->http_out = (struct spot_http_request){ .method = "GET",
		.url = arena_printf(a->arena, "%.*s/api/v1/query?query=%s", (int)n, f->url,
		    url_encode(a->arena, f->query, false)),
		.timeout_us = TIMEOUT_US,
		.reply_bytes_max = REPLY_MAX };
	act_http(a, false);
}

static void metrics_due(struct step *s)
{
	struct q_engine_fleet_metrics_row *rows;
	size_t n = q_engine_fleet_metrics_rows(&s->req, s->r->arena, &rows);

	for (size_t i = 0; i < n; i++) {
		metric_ask(s->r, &rows[i]);
	}
	if (n > 0) {
		recon_later(s->r, PAUSE_US);
	}
}

static void fleet_metric_pass(struct recon *r, void *state)
{
	struct metric_state *st = state;
	struct step *s;

	if (!recon_paced(r, &st->next_us, PAUSE_US)) {
		return;
	}
	s = step_new(r, metrics_due, NULL);
	STEP(s, engine_fleet_metrics,
	    (&(struct q_engine_fleet_metrics){ .most = MOST,
		.at_us = engine_now(r->e),
		.fence = r->epoch }));
}

const struct recon_kind fleet_metric_kind = { .name = "fleet_metric",
	.wakes = TOUCH_FLEET,
	.ticks = 1,
	.idle_ticks = 5,
	.state_size = sizeof(struct metric_state),
	.pass = fleet_metric_pass };
