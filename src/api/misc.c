/* Health, version, who am I, the agent's binaries, the OpenAPI document. */
#include "base/base.h"
#include "api/api_priv.h"

void get_healthz(struct areq *q)
{
	areq_reply(q, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

static bool not_ready(struct areq *q)
{
	httpd_set(q->http, "Retry-After", "1");
	areq_fail(q, SPOT_UNAVAILABLE, "the database does not answer or its schema is not there yet");
	return true;
}

static void ready(struct areq *q)
{
	struct q_api_ready_row *row;

	if (q_api_ready_rows(&q->pg, q->arena, &row) == 0 || q->api->draining) {
		areq_fail(q, SPOT_UNAVAILABLE, "the daemon is going down");
		return;
	}
	areq_json(q, 200, json_pack("{s:b, s:b, s:I}", "ready", 1, "engine", row->engine, "schema",
	        (json_int_t)row->version));
}

void get_readyz(struct areq *q)
{
	SQL(q, api_ready, ready, .at_us = q->now_us);
	q->failed = not_ready;
}

void get_version(struct areq *q)
{
	areq_json(q, 200, json_pack("{s:s, s:s, s:I, s:I}", "version", q->api->conf.version, "install", q->api->conf.install,
	        "time@", (json_int_t)q->now_us, "started@", (json_int_t)q->api->started_us));
}

void get_whoami(struct areq *q)
{
	areq_json(q, 200, json_pack("{s:s, s:s, s:s}", "name", q->who.name, "role", q->who.role, "team", q->who.team));
}

void get_openapi(struct areq *q)
{
	struct api *api = q->api;

	if (api->openapi.p == NULL) /* made for the first who asks: few do */
		api->openapi.p = openapi_text(api->arena, api->conf.version, &api->openapi.n);
	areq_reply(q, 200, "application/json", api->openapi.p, api->openapi.n);
}

void get_download(struct areq *q)
{
	for (size_t i = 0; i < API_BLOBS; i++) {
		const struct blob *b = &q->api->blobs[i];

		if (strcmp(b->name, q->arg[0]) != 0 || !b->bytes.n)
			continue;
		httpd_set(q->http, "X-Sha256", b->sha256);
		httpd_set(q->http, "ETag", arena_printf(q->arena, "\"%s\"", b->sha256));
		areq_reply(q, 200, "application/octet-stream", b->bytes.p, b->bytes.n);
		return;
	}
	areq_fail(q, SPOT_NOT_FOUND, "there is no %s to hand out; the daemon's agent_dir holds spot-agent and spot-nvml",
	    q->arg[0]);
}
