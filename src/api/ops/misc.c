/* Health, version, who am I, the agent's binaries, the OpenAPI document. */
#include "base/base.h"
#include "api/server/api_priv.h"
#include "api/agent/handout.h"

void get_healthz(struct areq *q)
{
	areq_reply(q, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

static bool not_ready(struct areq *q)
{
	httpd_set(q->http, "Retry-After", "1");
	areq_fail(q, SPOT_UNAVAILABLE,
	    "the database does not answer or its schema is not there yet");
	return true;
}

static void ready(struct areq *q)
{
	struct q_api_ready_row *row;

	if (q_api_ready_rows(&q->pg, q->arena, &row) == 0 || q->api->draining) {
		areq_fail(q, SPOT_UNAVAILABLE, "the daemon is going down");
		return;
	}
	areq_json(q, 200,
	    json_pack("{s:b, s:b, s:I}", "ready", 1, "engine", row->engine, "schema",
		(json_int_t)row->version));
}

void get_readyz(struct areq *q)
{
	SQL(q, api_ready, ready, .at_us = q->now_us);
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

void get_openapi(struct areq *q)
{
	struct api *api = q->api;

	if (api->openapi.p == NULL) { /* made for the first who asks: few do */
		api->openapi.p = openapi_text(api->arena, api->conf.version, &api->openapi.n);
	}
	areq_reply(q, 200, "application/json", api->openapi.p, api->openapi.n);
}

static void download_send(struct areq *q, const char *sha256, struct str bytes)
{
	httpd_set(q->http, "X-Sha256", sha256);
	httpd_set(q->http, "ETag", arena_printf(q->arena, "\"%s\"", sha256));
	areq_reply(q, 200, "application/octet-stream", bytes.p, bytes.n);
}

static void download_kept(struct areq *q)
{
	struct q_api_handout_get_row *row;

	if (q_api_handout_get_rows(&q->pg, q->arena, &row) == 1) {
		download_send(q, row->sha256, row->bytes);
	} else {
		areq_fail(q, SPOT_NOT_FOUND,
		    "no daemon on this database has handed out a %s with that SHA-256 lately",
		    q->arg[0]);
	}
}

/* A node that says what its user data pin gets just that, whichever daemon launched it: during an
 * upgrade they have different ones. */
void get_download(struct areq *q)
{
	const struct handout_file *f = handout_find(q->api->conf.handout, q->arg[0]);
	const char *want = httpd_header(q->http, "x-sha256");

	if (want != NULL && (strlen(want) != 64 || strspn(want, "0123456789abcdef") != 64)) {
		areq_fail(q, SPOT_INVALID, "X-Sha256 must be 64 lower-case hexadecimal digits");
	} else if (want != NULL && (f == NULL || strcmp(want, f->sha256) != 0)) {
		SQL(q, api_handout_get, download_kept, .sha256 = want);
	} else if (f != NULL) {
		download_send(q, f->sha256, f->bytes);
	} else {
		areq_fail(q, SPOT_NOT_FOUND,
		    "there is no %s to hand out; the daemon's agent_dir holds spot-agent and "
		    "spot-nvml",
		    q->arg[0]);
	}
}
