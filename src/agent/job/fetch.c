/*
 * Fetches the files that a job starts with: its checkpoint and its mounts, in chunks by presigned
 * GETs, four at a time. The agent checks each chunk against its sha256 and repeats it if they
 * differ. The sha256 of a mount is unknown, so the agent checks the hash of its store (net.h). A
 * complete file gets its name.
 *
 * URLs expire, and the daemon then gives the job again with fresh ones. The agent keeps the checked
 * chunks, so that a fetch may take longer than one URL lives.
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"
#include "spot/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES_MAX 8
#define SAME_BYTES 3 /* repeats after which we accept bytes against the hash of the store */
#define FETCH_HEADERS_MAX 4

struct fetch_file {
	char *place, *part, *name; /* name: path in the checkpoint directory; NULL for mounts */
	int mode, fd;
	int64_t bytes;
	size_t left; /* missing chunks */
	bool kept, whole; /* an earlier round has begun it; has completed it */
	size_t first, chunks_n; /* range in the list of chunks */
};

struct fetch_chunk {
	struct agent *agent;
	struct fetch_file *file;
	char *url;
	char *headers[FETCH_HEADERS_MAX + 1];
	int64_t at, bytes;
	char sha256[65]; /* "": not known */
	uint8_t refused[MD5_BYTES]; /* MD5 of the bytes that differed from the store's hash */
	int refusals; /* number of times in a row that the same bytes came */
	struct http_call *call;
	struct retry backoff;
	bool done;
};

struct fetch_kept {
	char *place;
	int64_t file_bytes, at;
	char sha256[65];
	bool whole; /* the file is complete, under its name */
};

void fetch_fail(struct agent *a, int rounds_max, const char *why)
{
	struct fetch *f = &a->fetch;

	if (f->at == FETCH_FAILED) {
		return;
	}
	f->at = FETCH_FAILED;
	f->rounds_max = rounds_max;
	(void)snprintf(f->why, sizeof(f->why), "%s", why);
}

int fetch_rounds(int error)
{
	return disk_trouble(error) ? FETCH_ROUNDS_OURS : FETCH_ROUNDS;
}

static char *dup_checked(const char *s)
{
	char *p = strdup(s);

	if (p == NULL) {
		abort();
	}
	return p;
}

/* Returns the path of a file. Mounts may name absolute paths and "~/": the job runs as our user and
 * could write there anyway. */
static bool place_of(struct agent *a, const char *root, const char *path, char ret[AGENT_PATH_MAX])
{
	const char *below = path[0] == '/' ? path + 1 : path;

	if (strcmp(root, "checkpoint") == 0) {
		return path_is_inside(path) && path_join(ret, a->job.ckpt_dir, path);
	}
	if (strcmp(root, "mount") != 0) {
		return false;
	}
	if (strncmp(path, "~/", 2) == 0) {
		return path_is_inside(path + 2) && path_join(ret, home_dir(), path + 2);
	}
	if (path[0] == '/') {
		return path_is_inside(below) && str_copy(ret, AGENT_PATH_MAX, path);
	}
	return path_is_inside(path) && path_join(ret, a->job.cwd, path);
}

/* Limit for an object of unknown size (a mount). */
#define FETCH_UNKNOWN_MAX (INT64_C(1) << 42)

/* ---- the list -------------------------------------------------------------------------------- */

static enum spot_rc chunk_read(struct agent *a, struct fetch_file *file, const json_t *o,
    int64_t at, struct fetch_chunk *ret, struct spot_err *err)
{
	struct spot_err bad = { 0 };
	const char *url = json_need_str(o, "url", &bad), *sha = json_str(o, "sha256", "", &bad);
	/* A mount: the daemon has not read the object. */
	bool unknown = *sha == '\0' && file->name == NULL;

	*ret = (struct fetch_chunk){ .agent = a,
		.file = file,
		.at = at,
		.bytes = unknown ? FETCH_UNKNOWN_MAX : json_need_i64(o, "bytes", &bad) };
	if (bad.rc == SPOT_OK && (ret->bytes < 0 || (!unknown && strlen(sha) != 64))) {
		(void)err_set(&bad, SPOT_INVALID, "bad chunk");
	}
	if (bad.rc != SPOT_OK) {
		return err_set(err, SPOT_INVALID, "%s", bad.text);
	}
	if (!unknown) {
		memcpy(ret->sha256, sha, 65);
	}
	ret->url = dup_checked(url);
	if (!http_headers_read(json_object_get(o, "headers"), ret->headers, FETCH_HEADERS_MAX)) {
		return err_set(err, SPOT_INVALID, "bad headers of a chunk");
	}
	return SPOT_OK;
}

static enum spot_rc file_read_spec(struct agent *a, const json_t *o, struct fetch_file *file,
    struct spot_err *err)
{
	struct spot_err bad = { 0 };
	const char *root = json_need_str(o, "root", &bad), *path = json_need_str(o, "path", &bad);
	const json_t *chunks = json_object_get(o, "chunks");
	char place[AGENT_PATH_MAX];
	int64_t at = 0;

	file->mode = (int)(json_i64(o, "mode", 0644, &bad) & 0777);
	file->bytes = json_need_i64(o, "bytes", &bad);
	file->fd = -1;
	if (bad.rc != SPOT_OK) {
		return err_set(err, SPOT_INVALID, "files: %s", bad.text);
	}
	if (!place_of(a, root, path, place) || strlen(place) > AGENT_PATH_MAX - 16) {
		return err_set(err, SPOT_INVALID, "files: %.20s path '%.150s' is not allowed", root,
		    path);
	}
	file->place = dup_checked(place);
	(void)snprintf(place + strlen(place), 16, ".spot-part");
	file->part = dup_checked(place);
	file->name = strcmp(root, "checkpoint") == 0 ? dup_checked(path) : NULL;
	file->first = a->fetch.chunks_n;
	file->chunks_n = file->left = json_array_size(chunks);
	for (size_t i = 0; i < file->chunks_n; i++) {
		struct fetch_chunk *c = &a->fetch.chunks[a->fetch.chunks_n];
		enum spot_rc rc = chunk_read(a, file, json_array_get(chunks, i), at, c, err);

		a->fetch.chunks_n++; /* counts a refused one, too, so that fetch_stop frees it */
		if (rc != SPOT_OK) {
			return rc;
		}
		at += c->bytes;
	}
	if (at != file->bytes && !(file->chunks_n == 1 && at == FETCH_UNKNOWN_MAX)) {
		return err_set(err, SPOT_INVALID, "files: '%.150s': chunks do not add up", path);
	}
	return SPOT_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void file_complete(struct agent *a, struct fetch_file *file)
{
	struct scan_file known = { 0 };
	struct stat st;
	char why[400];

	if (fchmod(file->fd, (mode_t)file->mode) == 0 && fstat(file->fd, &st) == 0 &&
	    (file->whole || rename(file->part, file->place) == 0)) {
		file->whole = true; /* even if another file has failed meanwhile */
	} else {
		int error = errno;

		(void)snprintf(why, sizeof(why), "cannot finish %.200s: %s", file->place,
		    strerror(error));
		fetch_fail(a, fetch_rounds(error), why);
	}
	close(file->fd);
	file->fd = -1;
	if (a->fetch.at == FETCH_FAILED || file->name == NULL || file->chunks_n == 0) {
		return;
	}
	/* We have checked this file: the next checkpoint need not hash it again. */
	known.path = dup_checked(file->name);
	known.mode = file->mode;
	known.bytes = file->bytes;
	known.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	known.inode = st.st_ino;
	known.chunks_n = file->chunks_n;
	known.sha256 = calloc(known.chunks_n, sizeof(*known.sha256));
	if (known.sha256 == NULL) {
		abort();
	}
	for (size_t i = 0; i < known.chunks_n; i++) {
		memcpy(known.sha256[i], a->fetch.chunks[file->first + i].sha256, 65);
	}
	scan_list_add(&a->ckpt.known, known);
}

static bool file_open(struct agent *a, struct fetch_file *file)
{
	struct spot_err err = { 0 };
	char why[400];

	if (file->fd >= 0) {
		return true;
	}
	errno = 0;
	if (dir_make_above(file->place, &err) != SPOT_OK) {
		fetch_fail(a, fetch_rounds(errno), err.text);
		return false;
	}
	file->fd = open(file->whole ? file->place : file->part,
	    O_RDWR | O_CREAT | (file->kept ? 0 : O_TRUNC) | O_CLOEXEC, 0600);
	if (file->fd < 0) {
		int error = errno;

		(void)snprintf(why, sizeof(why), "cannot write %.200s: %s", file->part,
		    strerror(error));
		fetch_fail(a, fetch_rounds(error), why);
		return false;
	}
	return true;
}

/* ---- chunks of earlier rounds ---------------------------------------------------------------- */

static void kept_drop(struct agent *a)
{
	struct fetch *f = &a->fetch;

	for (size_t i = 0; i < f->kept_n; i++) {
		free(f->kept[i].place);
	}
	free(STEAL(f->kept));
	f->kept_n = 0;
	f->kept_dir[0] = '\0';
}

void fetch_keep(struct agent *a)
{
	struct fetch *f = &a->fetch;
	struct fetch_kept *kept = calloc(f->chunks_n + 1, sizeof(*kept));
	size_t n = 0, before = f->kept_n;

	if (kept == NULL) {
		abort();
	}
	for (size_t i = 0; i < f->chunks_n; i++) {
		const struct fetch_chunk *c = &f->chunks[i];

		if (!c->done || c->sha256[0] == '\0') {
			continue;
		}
		kept[n] = (struct fetch_kept){ .place = dup_checked(c->file->place),
			.file_bytes = c->file->bytes,
			.at = c->at,
			.whole = c->file->whole };
		memcpy(kept[n++].sha256, c->sha256, sizeof(kept->sha256));
	}
	kept_drop(a);
	f->kept = kept;
	f->kept_n = n;
	if (n > 0) {
		memcpy(f->kept_dir, a->job.dir, sizeof(f->kept_dir));
	}
	if (n > before) {
		f->rounds = 0;
		retry_clear(&f->again);
	}
}

void fetch_forget(struct agent *a)
{
	if (a->fetch.kept_dir[0] != '\0' && strcmp(a->fetch.kept_dir, a->job.dir) != 0) {
		dir_remove(a->fetch.kept_dir);
	}
	kept_drop(a);
}

static const struct fetch_kept *kept_find(const struct fetch *f, const struct fetch_chunk *c)
{
	for (size_t i = 0; i < f->kept_n; i++) {
		const struct fetch_kept *k = &f->kept[i];

		if (k->at == c->at && k->file_bytes == c->file->bytes &&
		    strcmp(k->sha256, c->sha256) == 0 && strcmp(k->place, c->file->place) == 0) {
			return k;
		}
	}
	return NULL;
}

static void kept_use(struct agent *a)
{
	struct fetch *f = &a->fetch;

	for (size_t i = 0; i < f->chunks_n; i++) {
		struct fetch_chunk *c = &f->chunks[i];
		const struct fetch_kept *k = c->sha256[0] != '\0' ? kept_find(f, c) : NULL;

		if (k == NULL) {
			continue;
		}
		c->done = c->file->kept = true;
		c->file->whole = k->whole;
		c->file->left--;
		f->done_n++;
	}
	for (size_t i = 0; i < f->files_n && f->at == FETCH_RUNNING; i++) {
		if (f->files[i].kept && f->files[i].left == 0 && file_open(a, &f->files[i])) {
			file_complete(a, &f->files[i]);
		}
	}
}

/* ---- begin ----------------------------------------------------------------------------------- */

void fetch_begin(struct agent *a, const json_t *files)
{
	struct fetch *f = &a->fetch;
	struct spot_err err = { 0 };
	size_t files_n = json_array_size(files), chunks_n = 0;

	fetch_stop(a);
	f->at = FETCH_RUNNING;
	if (files_n > SPOT_AGENT_FILES_MAX) {
		fetch_fail(a, 0, "too many files");
		return;
	}
	for (size_t i = 0; i < files_n; i++) {
		chunks_n += json_array_size(json_object_get(json_array_get(files, i), "chunks"));
	}
	f->files = calloc(files_n + 1, sizeof(*f->files));
	f->chunks = calloc(chunks_n + 1, sizeof(*f->chunks));
	if (f->files == NULL || f->chunks == NULL) {
		abort();
	}
	for (size_t i = 0; i < files_n; i++) {
		f->files_n++;
		if (file_read_spec(a, json_array_get(files, i), &f->files[i], &err) != SPOT_OK) {
			fetch_fail(a, 0, err.text);
			return;
		}
	}
	kept_use(a);
	log_info("fetch.begin", STR("job", a->job.id), I64("files", files_n),
	    I64("chunks", chunks_n), I64("kept", f->done_n));
}

/* ---- transfers ------------------------------------------------------------------------------- */

/* Checks the bytes against the store's hash. That may be wrong, so the same bytes three times in a
 * row count as right. */
static bool store_vouches(struct fetch_chunk *c, const struct http_reply *r)
{
	char words[TOLD_WORDS_MAX];

	if (r->md5 == NULL || r->status != 200 || told_reply(r, r->md5, words) != TOLD_OTHER) {
		return true;
	}
	c->refusals =
	    c->refusals > 0 && memcmp(c->refused, r->md5, MD5_BYTES) == 0 ? c->refusals + 1 : 1;
	if (c->refusals == SAME_BYTES) {
		log_warn("fetch.hash_of_other_bytes", STR("file", c->file->place),
		    STR("told", words));
		return true;
	}
	memcpy(c->refused, r->md5, MD5_BYTES);
	return false;
}

static void chunk_done(void *chunk, const struct http_reply *r)
{
	struct fetch_chunk *c = chunk;
	struct agent *a = c->agent;
	bool whole = r->status >= 200 && r->status <= 299, refused = whole && !store_vouches(c, r);
	const char *error = refused ? "the bytes do not match the store's hash" : r->error;
	int rounds = c->file->name != NULL ? FETCH_ROUNDS_OURS : FETCH_ROUNDS;
	char why[400];

	c->call = NULL;
	a->fetch.flying--;
	if (whole && !refused) {
		c->done = true;
		a->fetch.done_n++;
		if (--c->file->left == 0) {
			file_complete(a, c->file);
		}
		return;
	}
	log_warn("fetch.chunk_failed", STR("file", c->file->place), I64("status", r->status),
	    STR("error", error));
	retry_fail(a, &c->backoff, r->retry_after_us);
	(void)snprintf(why, sizeof(why), "cannot fetch %.150s: status %d %.60s", c->file->place,
	    r->status, error);
	/* 403: the signature has expired, or clock skew spoils it. 404: the object is gone. Only
	 * new URLs can help. */
	if (r->status == 404) {
		fetch_fail(a, FETCH_ROUNDS, why);
	} else if (r->status == 403 || r->status == 400) {
		fetch_fail(a, rounds, why);
	} else if (c->backoff.failures >= TRIES_MAX) {
		fetch_fail(a, r->wrong_bytes || refused ? 0 : rounds, why);
	}
}

static void chunk_start(struct agent *a, struct fetch_chunk *c)
{
	struct http_piece piece = { .at = c->at, .bytes = c->bytes };
	struct http_want w = { .far = HTTP_OBJECT,
		.method = "GET",
		.url = c->url,
		.headers = (const char *const *)c->headers,
		.piece = &piece,
		.done = chunk_done,
		.ctx = c };

	if (!file_open(a, c->file)) {
		return;
	}
	/* The length is unknown: drop the bytes that an earlier try may have written after it. */
	if (c->sha256[0] == '\0' && ftruncate(c->file->fd, 0) != 0) {
		int error = errno;
		char why[400];

		(void)snprintf(why, sizeof(why), "cannot write %.200s: %s", c->file->part,
		    strerror(error));
		fetch_fail(a, fetch_rounds(error), why);
		return;
	}
	piece.fd = c->file->fd;
	memcpy(piece.sha256, c->sha256, sizeof(piece.sha256));
	c->call = http_start(a->http, &w);
	a->fetch.flying++;
}

static void fetch_finish(struct agent *a)
{
	struct fetch *f = &a->fetch;

	for (size_t i = 0; i < f->files_n && f->at == FETCH_RUNNING; i++) {
		if (f->files[i].chunks_n == 0 && file_open(a, &f->files[i])) {
			file_complete(a, &f->files[i]); /* an empty file */
		}
	}
	if (f->at != FETCH_RUNNING) {
		return;
	}
	f->at = FETCH_DONE;
	scan_list_sort(&a->ckpt.known);
	if (a->job.restored) { /* the directory now equals that checkpoint */
		scan_list_copy(&a->ckpt.committed, &a->ckpt.known);
		a->ckpt.committed_steps = a->job.steps_start;
	}
}

void fetch_step(struct agent *a)
{
	struct fetch *f = &a->fetch;

	if (f->at != FETCH_RUNNING) {
		return;
	}
	for (size_t i = 0; i < f->chunks_n && f->flying < AGENT_TRANSFERS_MAX; i++) {
		struct fetch_chunk *c = &f->chunks[i];

		if (!c->done && c->call == NULL && retry_due(a, &c->backoff)) {
			chunk_start(a, c);
		}
		if (f->at != FETCH_RUNNING) {
			return;
		}
	}
	if (f->done_n == f->chunks_n) {
		fetch_finish(a);
	}
}

void fetch_stop(struct agent *a)
{
	struct fetch *f = &a->fetch;
	struct fetch keep = { .rounds = f->rounds,
		.again = f->again,
		.kept = f->kept,
		.kept_n = f->kept_n };

	memcpy(keep.kept_dir, f->kept_dir, sizeof(keep.kept_dir));
	for (size_t i = 0; i < f->chunks_n; i++) {
		http_stop(a->http, f->chunks[i].call);
		free(f->chunks[i].url);
		for (size_t k = 0; f->chunks[i].headers[k] != NULL; k++) {
			free(f->chunks[i].headers[k]);
		}
	}
	for (size_t i = 0; i < f->files_n; i++) {
		if (f->files[i].fd >= 0) {
			close(f->files[i].fd);
		}
		free(f->files[i].place);
		free(f->files[i].part);
		free(f->files[i].name);
	}
	free(f->files);
	free(f->chunks);
	*f = keep;
}
