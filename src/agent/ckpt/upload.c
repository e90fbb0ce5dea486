/*
 * The store's side of a checkpoint. The agent sends the list of chunks to the daemon and uploads
 * the missing ones by presigned URLs, four at a time. Then the daemon commits.
 *
 * The agent may repeat each step, since the sha256 identifies a chunk. When URLs have expired, it
 * sends the list again, but not the chunks that the store has. If a file changes during its upload,
 * the store never gets it under the wrong hash (net.h), and the agent scans again.
 */
#include "base/base.h"
#include "agent/ckpt/upload.h"

#include "base/text/text.h"
#include "spot/agent.h"

#include <fcntl.h>
#include <unistd.h>

#define POST_TIMEOUT_US (30 * SPOT_US_PER_S)
#define TRIES_MAX 6
#define SAME_WORDS 3
#define ROUNDS_PERIODIC 5
#define ROUNDS_LAST 30
#define REFUSALS_LAST 30
#define HELD_US (10 * SPOT_US_PER_S)
#define REFUSED_LAST_US (24 * SPOT_US_PER_HOUR) /* longer than an outage of a cloud or a daemon */

static void upload_free(struct upload *u)
{
	if (u->fd >= 0) {
		close(u->fd);
	}
	upload_piece_reset(u);
	for (size_t i = 0; u->headers[i] != NULL; i++) {
		free(u->headers[i]);
	}
	free(u->url);
	free(u->session);
	free(u->listed);
}

void upload_stop(struct agent *a)
{
	struct ckpt *c = &a->ckpt;

	http_stop(a->http, STEAL(c->call));
	for (size_t i = 0; i < c->uploads_n; i++) {
		struct upload *u = &c->uploads[i];

		if (u->how != UPLOAD_RESUMABLE || !upload_resumable_leave(u)) {
			http_stop(a->http, u->call);
		}
		upload_free(u);
	}
	free(c->uploads);
	c->uploads = NULL;
	c->uploads_n = c->uploads_done = 0;
	c->flying = 0;
}

static bool is_last(const struct ckpt *c)
{
	return c->leave || strcmp(c->reason, "final") == 0;
}

/* Schedules a retry. While the job runs, retries cost nothing. The last checkpoint keeps a paid
 * machine that does nothing else, so the agent gives it up after REFUSED_LAST_US. Refusals count
 * only while the daemon answers other calls: else it could not learn the job's end either. */
static void daemon_refused(struct agent *a, const struct daemon_reply *r)
{
	struct ckpt *c = &a->ckpt;
	char why[sizeof(c->why)];

	if (r->status >= 500 && a->now_us - c->asked_us >= HELD_US) {
		/* The daemon has held the request, and the engine may answer at any moment: ask
		 * again soon. */
		retry_clear(&c->backoff);
		c->backoff.next_us = a->now_us + MAX(SPOT_US_PER_S, r->retry_after_us);
	} else {
		retry_fail(a, &c->backoff, r->retry_after_us);
	}
	if (!is_last(c) || r->status < 500 || r->code[0] == '\0') {
		return;
	}
	if (c->refusals == 0) {
		c->refused_us = a->now_us;
	}
	c->refusals += c->refusals == 0 || a->contact_us > c->refusal_us;
	c->refusal_us = a->now_us;
	if (c->refusals <= REFUSALS_LAST || a->now_us < c->refused_us + REFUSED_LAST_US) {
		return;
	}
	(void)snprintf(why, sizeof(why),
	    "its last checkpoint could not be stored for a day: %.200s", r->error);
	ckpt_end(a, false, why);
}

void ckpt_again(struct agent *a, enum ckpt_at at, const char *why)
{
	struct ckpt *c = &a->ckpt;

	upload_stop(a);
	/* A large checkpoint has made progress before its URLs expired: rounds start again at 0. */
	if (c->stored_n > c->stored_before) {
		c->rounds = 0;
		retry_clear(&c->backoff);
	}
	c->stored_before = c->stored_n;
	log_warn("checkpoint.again", STR("job", a->job.id), STR("why", why),
	    I64("round", c->rounds));
	if (++c->rounds > (is_last(c) ? ROUNDS_LAST : ROUNDS_PERIODIC)) {
		ckpt_end(a, false, why);
		return;
	}
	if (at == CKPT_STOP && job_alive(&a->job)) {
		/* The job runs on and has changed its files: leave it to the next checkpoint. */
		ckpt_end(a, false, why);
		return;
	}
	retry_fail(a, &c->backoff, 0);
	ckpt_set(a, at);
}

static bool reply_is_stale(struct agent *a, const struct daemon_reply *r)
{
	if (r->stale) {
		ckpt_stop(a);
		a->job.fenced = true;
		agent_wake(a, a->now_us);
	}
	return r->stale;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

bool upload_is_passing(int status)
{
	return status == 408 || status == 429 || status >= 500;
}

void upload_start(struct upload *u, const struct http_want *w)
{
	u->call = http_start(u->agent->http, w);
	u->agent->ckpt.flying++;
}

void upload_landed(struct upload *u)
{
	u->call = NULL;
	u->agent->ckpt.flying--;
	if (u->fd >= 0) {
		close(u->fd);
	}
	u->fd = -1;
}

bool upload_vouched(struct upload *u, const struct http_reply *r, const uint8_t *md5)
{
	char words[TOLD_WORDS_MAX];

	if (u->agent->store_counts || md5 == NULL || told_reply(r, md5, words) != TOLD_OTHER) {
		return true;
	}
	u->words_n = strcmp(u->words, words) == 0 ? u->words_n + 1 : 1;
	memcpy(u->words, words, sizeof(words));
	log_warn("upload.other_bytes", STR("file", u->file->path), I64("seq", u->seq),
	    STR("told", words));
	u->agent->store_counts = u->words_n == SAME_WORDS; /* other chunks need no repeats */
	return u->agent->store_counts;
}

static const char *sha_of(const struct upload *u)
{
	return u->file->sha256[u->seq];
}

static void stored_add(struct ckpt *c, const char *sha256)
{
	if (c->stored_n == c->stored_room) {
		c->stored_room = MAX(c->stored_room * 2, (size_t)64);
		c->stored = reallocarray(c->stored, c->stored_room, sizeof(*c->stored));
		if (c->stored == NULL) {
			abort();
		}
	}
	memcpy(c->stored[c->stored_n++], sha256, sizeof(*c->stored));
	c->refusals = 0;
}

static bool stored_has(const struct ckpt *c, const char *sha256)
{
	for (size_t i = 0; i < c->stored_n; i++) {
		if (memcmp(c->stored[i], sha256, sizeof(*c->stored)) == 0) {
			return true;
		}
	}
	return false;
}

void upload_success(struct upload *u)
{
	u->done = true;
	stored_add(&u->agent->ckpt, sha_of(u));
	upload_piece_reset(u);
	u->agent->ckpt.uploads_done++;
	agent_wake(u->agent, u->agent->now_us);
}

void upload_fault(struct upload *u, const struct http_reply *r)
{
	struct agent *a = u->agent;

	log_warn("upload.failed", STR("file", u->file->path), I64("seq", u->seq),
	    I64("status", r->status), STR("error", r->error));
	retry_fail(a, &u->backoff, r->retry_after_us);
	if (r->wrong_bytes) {
		ckpt_again(a, CKPT_STOP, "a file changed while it was stored");
	} else if (r->status == 403 || r->status == 400 || u->backoff.failures >= TRIES_MAX) {
		ckpt_again(a, CKPT_POST, "the object store refused a chunk");
	}
}

static void chunk_done(void *upload, const struct http_reply *r)
{
	struct upload *u = upload;

	upload_landed(u);
	if (r->status >= 200 && r->status <= 299 && upload_vouched(u, r, r->md5)) {
		upload_success(u);
	} else {
		upload_fault(u, r);
	}
}

static void chunk_put(struct upload *u)
{
	struct http_piece piece = { .at = (int64_t)u->seq * SPOT_AGENT_CHUNK_BYTES,
		.bytes = u->bytes };
	struct http_want w = { .far = HTTP_OBJECT,
		.method = "PUT",
		.url = u->url,
		.headers = (const char *const *)u->headers,
		.piece = &piece,
		.done = chunk_done,
		.ctx = u };
	char path[AGENT_PATH_MAX];

	memcpy(piece.sha256, u->file->sha256[u->seq], sizeof(piece.sha256));
	if (path_join(path, u->agent->job.ckpt_dir, u->file->path)) {
		u->fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (u->fd < 0) {
		ckpt_again(u->agent, CKPT_STOP, "a file disappeared before it was stored");
		return;
	}
	piece.fd = u->fd;
	upload_start(u, &w);
}

static void upload_go_on(struct upload *u)
{
	switch (u->how) {
	case UPLOAD_PUT:
		chunk_put(u);
		break;
	case UPLOAD_RESUMABLE:
		upload_resumable_step(u);
		break;
	case UPLOAD_BLOCKS:
		upload_blocks_step(u);
		break;
	}
}

/* Counts an upload that waits for a retry, too, since it keeps its piece in memory. */
static bool upload_is_open(const struct upload *u)
{
	return u->call != NULL || u->buf != NULL;
}

static void step_upload(struct agent *a)
{
	struct ckpt *c = &a->ckpt;
	size_t open = 0;

	for (size_t i = 0; i < c->uploads_n; i++) {
		open += upload_is_open(&c->uploads[i]);
	}
	for (size_t i = 0; i < c->uploads_n; i++) {
		struct upload *u = &c->uploads[i];

		if (u->done || u->call != NULL ||
		    (!upload_is_open(u) && open >= AGENT_TRANSFERS_MAX) ||
		    !retry_due(a, &u->backoff)) {
			continue;
		}
		open += !upload_is_open(u);
		upload_go_on(u);
		if (c->at != CKPT_UPLOAD) {
			return;
		}
	}
	if (c->uploads_done == c->uploads_n) {
		retry_clear(&c->backoff);
		ckpt_set(a, CKPT_COMMIT);
	}
}

/* ---- the list -------------------------------------------------------------------------------- */

static bool how_read(const char *how, enum upload_how *ret)
{
	static const char *const names[] = { "put", "resumable", "blocks" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(how, names[i]) == 0) {
			*ret = (enum upload_how)i;
			return true;
		}
	}
	return false;
}

/* Drops the header with the blob's type, which Put Blob needs and Put Block does not take. */
static void drop_blob_type(char **headers)
{
	char **to = headers;

	for (char **from = headers; *from != NULL; from++) {
		if (strncasecmp(*from, "x-ms-blob-type:", 15) == 0) {
			free(*from);
		} else {
			*to++ = *from;
		}
	}
	*to = NULL;
}

static bool upload_init(struct agent *a, const json_t *o, struct upload *u)
{
	const char *path = json_str(o, "path", "", NULL), *url = json_str(o, "url", NULL, NULL);
	int64_t seq = json_i64(o, "seq", -1, NULL);
	const struct scan_file *f = scan_list_find(&a->ckpt.found, path);

	*u = (struct upload){ .agent = a, .file = f, .fd = -1 };
	if (f == NULL || url == NULL || seq < 0 || (uint64_t)seq >= f->chunks_n ||
	    !how_read(json_str(o, "how", "put", NULL), &u->how) ||
	    !http_headers_read(json_object_get(o, "headers"), u->headers, UPLOAD_HEADERS_MAX)) {
		return false;
	}
	if (u->how == UPLOAD_BLOCKS) {
		drop_blob_type(u->headers);
	}
	u->seq = (size_t)seq;
	u->bytes = MIN(f->bytes - seq * SPOT_AGENT_CHUNK_BYTES, (int64_t)SPOT_AGENT_CHUNK_BYTES);
	/* The store may have blocks of an earlier round, or of an earlier agent. */
	u->ask = u->how == UPLOAD_BLOCKS && u->bytes > UPLOAD_PIECE_BYTES;
	u->url = strdup(url);
	if (u->url == NULL) {
		abort();
	}
	return true;
}

static bool uploads_read(struct agent *a, const json_t *list)
{
	struct ckpt *c = &a->ckpt;
	size_t n = json_array_size(list);

	c->uploads = calloc(n + 1, sizeof(*c->uploads));
	if (c->uploads == NULL) {
		abort();
	}
	while (c->uploads_n < n) { /* counts a refused one, too, so that upload_stop frees it */
		struct upload *u = &c->uploads[c->uploads_n];

		if (!upload_init(a, json_array_get(list, c->uploads_n++), u)) {
			return false;
		}
		u->done = stored_has(c, sha_of(u));
		c->uploads_done += u->done;
	}
	return true;
}

static void list_posted(void *agent, const struct http_reply *reply)
{
	struct agent *a = agent;
	struct ckpt *c = &a->ckpt;
	AUTO(daemon_reply) struct daemon_reply r;

	daemon_read(a, reply, &r);
	c->call = NULL;
	if (reply_is_stale(a, &r)) {
		return;
	}
	if (r.status == 200) {
		if (!str_copy(c->id, sizeof(c->id), json_str(r.body, "checkpoint", "", NULL)) ||
		    c->id[0] == '\0' || !uploads_read(a, json_object_get(r.body, "uploads"))) {
			ckpt_again(a, CKPT_POST,
			    "the daemon's answer to the checkpoint is not understood");
			return;
		}
		log_info("checkpoint.upload", STR("job", a->job.id), STR("checkpoint", c->id),
		    I64("files", c->found.n), I64("fresh", c->uploads_n), I64("steps", c->steps));
		ckpt_set(a, CKPT_UPLOAD);
	} else if (r.status >= 400 && r.status < 500 && r.status != 401 && r.status != 408 &&
	    r.status != 429) {
		ckpt_again(a, CKPT_POST,
		    r.error[0] != '\0' ? r.error : "the daemon refused the checkpoint");
	} else {
		daemon_refused(a, &r);
	}
}

static void list_post(struct agent *a)
{
	struct ckpt *c = &a->ckpt;
	json_t *chunks = json_array();

	for (size_t i = 0; i < c->found.n; i++) {
		const struct scan_file *f = &c->found.files[i];

		for (size_t k = 0; k < f->chunks_n; k++) {
			int64_t at = (int64_t)k * SPOT_AGENT_CHUNK_BYTES;

			(void)json_array_append_new(chunks,
			    json_pack("{s:s, s:I, s:I, s:i, s:s}", "path", f->path, "seq",
				(json_int_t)k, "bytes",
				(json_int_t)MIN(f->bytes - at, (int64_t)SPOT_AGENT_CHUNK_BYTES),
				"mode", f->mode, "sha256", f->sha256[k]));
		}
	}
	c->call = daemon_post(a, "checkpoint",
	    json_pack("{s:s, s:I, s:s, s:I, s:o}", "job", a->job.id, "epoch",
		(json_int_t)a->job.epoch, "reason", c->reason, "steps", (json_int_t)c->steps,
		"chunks", chunks),
	    POST_TIMEOUT_US, list_posted);
}

/* ---- the commit ------------------------------------------------------------------------------ */

static void commit_done(void *agent, const struct http_reply *reply)
{
	struct agent *a = agent;
	struct ckpt *c = &a->ckpt;
	AUTO(daemon_reply) struct daemon_reply r;

	daemon_read(a, reply, &r);
	c->call = NULL;
	if (reply_is_stale(a, &r)) {
		return;
	}
	if (r.status == 200) {
		scan_list_copy(&c->committed, &c->found);
		c->committed_steps = c->steps;
		ckpt_end(a, true, "committed");
	} else if (r.status >= 400 && r.status < 500 && r.status != 401 && r.status != 408 &&
	    r.status != 429) {
		ckpt_again(a, CKPT_POST,
		    r.error[0] != '\0' ? r.error : "the daemon refused the commit");
	} else {
		daemon_refused(a, &r);
	}
}

void upload_step(struct agent *a)
{
	struct ckpt *c = &a->ckpt;

	if (a->enrol.at != ENROL_DONE || c->call != NULL) {
		return;
	}
	if (c->at == CKPT_UPLOAD) {
		step_upload(a);
	} else if (retry_due(a, &c->backoff)) {
		c->asked_us = a->now_us;
		if (c->at == CKPT_POST) {
			list_post(a);
		} else {
			c->call = daemon_post(a, "commit",
			    json_pack("{s:s, s:I, s:s}", "job", a->job.id, "epoch",
				(json_int_t)a->job.epoch, "checkpoint", c->id),
			    POST_TIMEOUT_US, commit_done);
		}
	}
}
