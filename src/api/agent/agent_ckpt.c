/*
 * Checkpoints. The agent names its chunks; the reply has presigned URLs for the new ones. The
 * engine presigns them, because this process has no cloud keys, so the request is held until they
 * are there. Only a commit counts. The next checkpoint gives up an open one; the same request
 * again continues it while its URLs are valid.
 */
#include "base/base.h"
#include "api/agent/agent_priv.h"

#include "spot/agent.h"

#define URLS_US (20 * SPOT_US_PER_S)
#define AGAIN_US (SPOT_US_PER_S / 2)

struct chunks {
	struct agent_claim claim;
	const char *reason;
	int64_t steps, id;
	struct q_checkpoint_chunk *list;
	size_t n;
	const char *field, *why; /* of a list that is refused */
};

static void urls_read(struct areq *q)
{
	struct chunks *c = q->own;
	struct q_api_checkpoint_urls_row *row;
	bool given_up;

	if (q_api_checkpoint_urls_rows(&q->pg, q->arena, &row) == 0) {
		agent_stale(q, c->claim.job, c->claim.epoch);
		return;
	}
	given_up = row->state == CHECKPOINT_ABANDONED;
	if (given_up && !row->current) {
		agent_stale(q, c->claim.job, c->claim.epoch);
		return;
	}
	/* Another request came after it and began a checkpoint of its own: nothing is wrong with
	 * the attempt. */
	if (given_up) {
		httpd_set(q->http, "Retry-After", "1");
		areq_fail(q, SPOT_UNAVAILABLE,
		    "a newer request opened another checkpoint; repeat the request");
		return;
	}
	if (row->ready) {
		areq_text(q, 200, row->doc);
		return;
	}
	if (areq_park(q)) {
		return;
	}
	httpd_set(q->http, "Retry-After", "1");
	areq_fail(q, SPOT_UNAVAILABLE, "upload URLs are not ready yet; repeat the request");
}

static void urls_look(struct areq *q)
{
	struct chunks *c = q->own;

	SQL(q, api_checkpoint_urls, urls_read, .id = c->id);
}

static void ckpt_opened(struct areq *q)
{
	struct chunks *c = q->own;
	struct q_api_checkpoint_open_row *row;

	if (q_api_checkpoint_open_rows(&q->pg, q->arena, &row) == 0) {
		agent_stale(q, c->claim.job, c->claim.epoch);
		return;
	}
	c->id = row->id;
	areq_watch(q, 'c', c->id, URLS_US, AGAIN_US, urls_look);
	urls_look(q);
}

/* ---- a list that is refused ------------------------------------------------------------------ */

static void ckpt_refused(struct areq *q)
{
	const struct chunks *c = q->own;

	areq_fail_field(q, c->field, "%s", c->why);
}

static bool refused_untold(struct areq *q)
{
	ckpt_refused(q);
	return true;
}

static void ckpt_refuse(struct areq *q, struct chunks *c, const char *field, const char *why)
{
	c->field = field;
	c->why = why;
	q->own = c;
	q->api->checkpoints_refused++;
	SQL(q, api_checkpoint_refused, ckpt_refused, .node_id = q->who.node_id,
	    .job_id = c->claim.job, .epoch = c->claim.epoch,
	    .why = arena_printf(q->arena, "checkpoint refused: %s", why), .at_us = q->now_us);
	q->failed = refused_untold;
}

/* ---- the list of chunks ---------------------------------------------------------------------- */

/* Relative, no empty, "." or ".." parts, no control characters. */
static bool path_ok(const char *p)
{
	if (!*p || *p == '/' || strlen(p) > 1024) {
		return false;
	}
	while (*p) {
		const char *end = strchrnul(p, '/');
		size_t n = (size_t)(end - p);

		if (n == 0 || (n == 1 && *p == '.') || (n == 2 && memcmp(p, "..", 2) == 0)) {
			return false;
		}
		for (size_t i = 0; i < n; i++) {
			if ((unsigned char)p[i] < 0x20 || p[i] == 0x7f) {
				return false;
			}
		}
		if (*end && !end[1]) {
			return false;
		}
		p = *end ? end + 1 : end;
	}
	return true;
}

static bool sha_ok(const char *s)
{
	return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

/* A name that people can be shown. */
static const char *path_shown(struct areq *q, const char *path)
{
	char *name = arena_strndup(q->arena, path, strnlen(path, 100));

	for (char *p = name; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f) {
			*p = '?';
		}
	}
	(void)str_utf8_mend(name, strlen(name));
	return name;
}

static bool chunk_read(struct areq *q, const json_t *o, struct chunks *c, size_t i)
{
	struct spot_err err = { 0 };
	int64_t seq = json_need_i64(o, "seq", &err), mode = json_i64(o, "mode", 0644, &err);
	const char *why = NULL;
	const char *path = json_need_str(o, "path", &err);
	const char *sha256 = json_need_str(o, "sha256", &err);
	int64_t bytes = json_need_i64(o, "bytes", &err);

	if (err.rc != SPOT_OK) {
		why = err.text;
	} else if (!path_ok(path)) {
		why = "path must be relative, at most 1024 bytes, without '.' or '..' parts and "
		      "control characters";
	} else if (!sha_ok(sha256)) {
		why = "sha256 must be 64 lower-case hex digits";
	} else if (bytes < 0 || bytes > SPOT_AGENT_CHUNK_BYTES) {
		why = "bytes must be from 0 to 64 MiB";
	} else if (seq < 0 || seq > 1000000 || mode < 0 || mode > 07777) {
		why = "seq or mode is out of range";
	}
	if (why) {
		ckpt_refuse(q, c, arena_printf(q->arena, "chunks[%zu]", i),
		    arena_printf(q->arena, "file '%s': %s", path_shown(q, path ? path : ""), why));
		return false;
	}
	c->list[i] = (struct q_checkpoint_chunk){ .path = path,
		.seq = (int32_t)seq,
		.bytes = bytes,
		.mode = (int32_t)mode,
		.sha256 = sha256 };
	return true;
}

static struct chunks *chunks_new(struct areq *q, size_t n)
{
	struct chunks *c = arena_alloc(q->arena, sizeof(*c));

	c->n = n;
	c->list = arena_array(q->arena, n, sizeof(*c->list));
	return c;
}

static bool chunk_twice(struct areq *q)
{
	if (q->pg.op.rc != SPOT_CONFLICT) {
		return false;
	}
	ckpt_refuse(q, q->own, "chunks", "the list names the same path and seq twice");
	return true;
}

static void open_new(struct areq *q)
{
	const struct chunks *c = q->own;

	SQL(q, api_checkpoint_open, ckpt_opened, .node_id = q->who.node_id, .job_id = c->claim.job,
	    .epoch = c->claim.epoch, .reason = c->reason, .steps = c->steps, .chunk = c->list,
	    .chunk_n = c->n, .at_us = q->now_us);
	q->failed = chunk_twice;
}

/* The same as before, whose URLs are still being signed, goes on. */
static void chunks_known(struct areq *q)
{
	struct chunks *c = q->own;
	struct q_api_checkpoint_again_row *row;

	if (q_api_checkpoint_again_rows(&q->pg, q->arena, &row) == 0) {
		open_new(q);
		return;
	}
	c->id = row->id;
	areq_watch(q, 'c', c->id, URLS_US, AGAIN_US, urls_look);
	urls_look(q);
}

void post_checkpoint(struct areq *q)
{
	struct spot_err err = { 0 };
	struct agent_claim claim;
	json_t *body, *list;
	struct chunks *c;

	if (!agent_body(q, &body) || !agent_claim_read(q, body, &claim)) {
		return;
	}
	list = json_object_get(body, "chunks");
	if (!json_is_array(list)) {
		areq_fail_field(q, "chunks", "must be a list of chunks");
		return;
	}
	c = chunks_new(q, json_array_size(list) > SPOT_AGENT_FILES_MAX ? 0 : json_array_size(list));
	c->claim = claim;
	if (json_array_size(list) > SPOT_AGENT_FILES_MAX) {
		ckpt_refuse(q, c, "chunks",
		    arena_printf(q->arena,
			"the list has more than %d chunks (one for each %d MiB of a file, %d GB in "
			"all); save fewer or smaller files",
			SPOT_AGENT_FILES_MAX, (int)(SPOT_AGENT_CHUNK_BYTES >> 20),
			(int)(SPOT_AGENT_FILES_MAX * SPOT_AGENT_CHUNK_BYTES / 1000000000)));
		return;
	}
	c->reason = json_need_str(body, "reason", &err);
	c->steps = json_i64(body, "steps", 0, &err);
	if (err.rc != SPOT_OK || c->steps < 0 ||
	    (strcmp(c->reason, "periodic") != 0 && strcmp(c->reason, "notice") != 0 &&
		strcmp(c->reason, "burst") != 0 && strcmp(c->reason, "drain") != 0 &&
		strcmp(c->reason, "final") != 0)) {
		areq_fail_field(q, "reason",
		    "kind must be 'periodic', 'notice', 'burst', 'drain' or 'final', and steps a "
		    "number from 0");
		return;
	}
	for (size_t i = 0; i < c->n; i++) {
		if (!chunk_read(q, json_array_get(list, i), c, i)) {
			return;
		}
	}
	q->own = c;
	SQL(q, api_checkpoint_again, chunks_known, .node_id = q->who.node_id,
	    .job_id = c->claim.job, .epoch = c->claim.epoch, .reason = c->reason, .steps = c->steps,
	    .chunk = c->list, .chunk_n = c->n);
}

/* ---- commit ---------------------------------------------------------------------------------- */

static void ckpt_committed(struct areq *q)
{
	struct agent_claim *c = q->own;
	struct q_api_checkpoint_commit_row *row;

	if (q_api_checkpoint_commit_rows(&q->pg, q->arena, &row) == 0) {
		agent_stale(q, c->job, c->epoch);
	} else if (row->state == CHECKPOINT_COMMITTED) {
		areq_done(q);
	} else if (!row->current) {
		agent_stale(q, c->job, c->epoch);
	} else {
		areq_fail(q, SPOT_CONFLICT,
		    "checkpoint is '%s' and cannot be committed; open a new one",
		    checkpoint_state_name(row->state));
	}
}

void post_commit(struct areq *q)
{
	struct agent_claim *c = arena_alloc(q->arena, sizeof(*c));
	struct spot_err err = { 0 };
	const char *name;
	int64_t id;
	json_t *body;

	if (!agent_body(q, &body) || !agent_claim_read(q, body, c)) {
		return;
	}
	name = json_need_str(body, "checkpoint", &err);
	if (err.rc != SPOT_OK || !parse_id(name, 'c', &id)) {
		areq_fail_field(q, "checkpoint", "must be a checkpoint id such as 'c12'");
		return;
	}
	q->own = c;
	SQL(q, api_checkpoint_commit, ckpt_committed, .node_id = q->who.node_id, .job_id = c->job,
	    .epoch = c->epoch, .checkpoint_id = id, .at_us = q->now_us);
}
