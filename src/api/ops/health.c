/* Health, version, who am I, the agent's binaries, the OpenAPI document. */
#include "base/base.h"
#include "api/ops/ops_priv.h"
#include "api/agent/agent.h"

void get_healthz(struct areq *q)
{
	areq_reply(q, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

static bool not_ready(struct areq *q)
{
	httpd_set(q->http, "Retry-After", "1");
	areq_fail(q, SPOT_UNAVAILABLE,
	    "the database does not answer, or its schema is not created yet");
	return true;
}

static void ready_read(struct areq *q)
{
	struct q_api_ready_row *row;

	if (q_api_ready_rows(&q->pg, q->arena, &row) == 0 || q->api->draining) {
		areq_fail(q, SPOT_UNAVAILABLE, "the daemon is shutting down");
		return;
	}
	areq_json(q, 200,
	    json_pack("{s:b, s:b, s:I}", "ready", 1, "engine", row->engine, "schema",
		(json_int_t)row->version));
}

void get_readyz(struct areq *q)
{
	SQL(q, api_ready, ready_read, .at_us = q->now_us);
	q->failed = not_ready;
}

void get_version(struct areq *q)
{
	areq_json(q, 200,
	    json_pack("{s:s, s:s, s:I, s:I}", "version", q->api->conf.version, "install",
		q->api->conf.install, "time@", (json_int_t)q->now_us, "started@",
		(json_int_t)q->api->started_us));
}

void get_whoami(struct areq *q)
{
	areq_json(q, 200,
	    json_pack("{s:s, s:s, s:s}", "name", q->who.name, "role", q->who.role, "team",
		q->who.team));
}
