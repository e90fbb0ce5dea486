/* GET /v1/agent/download: the programs that a node's user data fetches. */
#include "base/base.h"
#include "api/agent/agent.h"
#include "api/agent/agent_priv.h"

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
		    "no daemon of this installation has served a '%s' with this SHA-256 recently",
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
		    "no program '%s' to download; install spot-agent and spot-nvml in the daemon's "
		    "agent_dir",
		    q->arg[0]);
	}
}
