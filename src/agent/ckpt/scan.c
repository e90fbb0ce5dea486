#include "base/base.h"
#include "agent/ckpt/ckpt.h"

#include "base/text/text.h"
#include "base/crypto/crypto.h"
#include "agent/sys/sys.h"
#include "spot/agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCAN_FD 3
#define SCAN_IN_MAX ((size_t)64 << 20)
#define SCAN_DEPTH_MAX 64
#define READ_BYTES ((size_t)1 << 20)

/* ---- lists ----------------------------------------------------------------------------------- */

static void scan_file_fini(struct scan_file *f)
{
	free(f->path);
	free(f->sha256);
}

void scan_list_fini(struct scan_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		scan_file_fini(&l->files[i]);
	}
	free(l->files);
	*l = (struct scan_list){ 0 };
}

void scan_list_add(struct scan_list *l, struct scan_file f)
{
	if (l->n == l->cap) {
		l->cap = l->cap > 0 ? 2 * l->cap : 64;
		l->files = realloc(l->files, l->cap * sizeof(*l->files));
		if (l->files == NULL) {
			abort();
		}
	}
	l->files[l->n++] = f;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct scan_file *)a)->path, ((const struct scan_file *)b)->path);
}

void scan_list_sort(struct scan_list *l)
{
	if (l->n > 0) {
		qsort(l->files, l->n, sizeof(*l->files), by_path);
	}
}

void scan_list_copy(struct scan_list *to, const struct scan_list *from)
{
	scan_list_fini(to);
	for (size_t i = 0; i < from->n; i++) {
		struct scan_file f = from->files[i];

		f.path = strdup(f.path);
		f.sha256 = calloc(f.chunks_n, sizeof(*f.sha256));
		if (f.path == NULL || f.sha256 == NULL) {
			abort();
		}
		memcpy(f.sha256, from->files[i].sha256, f.chunks_n * sizeof(*f.sha256));
		scan_list_add(to, f);
	}
}

const struct scan_file *scan_list_find(const struct scan_list *l, const char *path)
{
	struct scan_file key = { .path = (char *)(uintptr_t)path };

	return l == NULL || l->n == 0 ? NULL
				      : bsearch(&key, l->files, l->n, sizeof(*l->files), by_path);
}

bool scan_list_same(const struct scan_list *a, const struct scan_list *b)
{
	if (a->n != b->n) {
		return false;
	}
	for (size_t i = 0; i < a->n; i++) {
		const struct scan_file *x = &a->files[i], *y = &b->files[i];

		if (strcmp(x->path, y->path) != 0 || x->mode != y->mode || x->bytes != y->bytes ||
		    x->chunks_n != y->chunks_n ||
		    memcmp(x->sha256, y->sha256, x->chunks_n * sizeof(*x->sha256)) != 0) {
			return false;
		}
	}
	return true;
}

int64_t scan_list_newest(const struct scan_list *l)
{
	int64_t newest = 0;

	for (size_t i = 0; i < l->n; i++) {
		newest = MAX(newest, l->files[i].mtime_ns);
	}
	return newest;
}

/* ---- hashing --------------------------------------------------------------------------------- */

struct scan {
	const struct scan_list *known;
	struct scan_list *list;
	struct spot_err *err;
	unsigned char *buf;
};

static int64_t stat_mtime_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static enum spot_rc chunk_hash(struct scan *s, int fd, const char *path, int64_t at, int64_t bytes,
    char ret[65])
{
	struct sha256_stream *sha = sha256_stream_new();
	char hex[SHA256_HEX];

	while (bytes > 0) {
		ssize_t got = pread(fd, s->buf, (size_t)MIN(bytes, (int64_t)READ_BYTES), (off_t)at);

		if (got <= 0) {
			sha256_stream_end(sha, hex);
			return err_set(s->err, SPOT_CONFLICT, "%s: %s", path,
			    got == 0 ? "became shorter while it was read" : strerror(errno));
		}
		sha256_stream_add(sha, s->buf, (size_t)got);
		at += got;
		bytes -= got;
	}
	sha256_stream_end(sha, hex);
	memcpy(ret, hex, SHA256_HEX);
	return SPOT_OK;
}

static enum spot_rc file_hash(struct scan *s, int fd, const char *path, struct scan_file *f)
{
	const struct scan_file *old = scan_list_find(s->known, path);
	struct stat after;

	f->chunks_n = (size_t)MAX(INT64_C(1),
	    (f->bytes + SPOT_AGENT_CHUNK_BYTES - 1) / SPOT_AGENT_CHUNK_BYTES);
	f->sha256 = calloc(f->chunks_n, sizeof(*f->sha256));
	if (f->sha256 == NULL) {
		abort();
	}
	if (old != NULL && old->bytes == f->bytes && old->mtime_ns == f->mtime_ns &&
	    old->inode == f->inode && old->chunks_n == f->chunks_n) {
		memcpy(f->sha256, old->sha256, f->chunks_n * sizeof(*f->sha256));
		return SPOT_OK;
	}
	for (size_t i = 0; i < f->chunks_n; i++) {
		int64_t at = (int64_t)i * SPOT_AGENT_CHUNK_BYTES;
		enum spot_rc rc = chunk_hash(s, fd, path, at,
		    MIN(f->bytes - at, (int64_t)SPOT_AGENT_CHUNK_BYTES), f->sha256[i]);

		if (rc != SPOT_OK) {
			return rc;
		}
	}
	if (fstat(fd, &after) != 0 || after.st_size != f->bytes ||
	    stat_mtime_ns(&after) != f->mtime_ns) {
		return err_set(s->err, SPOT_CONFLICT, "%s: changed while it was read", path);
	}
	return SPOT_OK;
}

static enum spot_rc file_scan(struct scan *s, int dir_fd, const char *name, const char *path)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct scan_file f = { 0 };
	struct stat st;
	enum spot_rc rc;

	if (fd < 0) {
		return errno == ENOENT || errno == ELOOP ? SPOT_OK : /* removed, or a link */
		    err_set(s->err, SPOT_INTERNAL, "%s: %s", path, strerror(errno));
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return SPOT_OK;
	}
	if (s->list->n >= SPOT_AGENT_FILES_MAX) {
		close(fd);
		return err_set(s->err, SPOT_TOO_LARGE,
		    "more than %d files in the checkpoint directory", SPOT_AGENT_FILES_MAX);
	}
	f.mode = (int)(st.st_mode & 07777);
	f.bytes = st.st_size;
	f.mtime_ns = stat_mtime_ns(&st);
	f.inode = st.st_ino;
	rc = file_hash(s, fd, path, &f);
	close(fd);
	if (rc != SPOT_OK) {
		scan_file_fini(&f);
		return rc;
	}
	f.path = strdup(path);
	if (f.path == NULL) {
		abort();
	}
	scan_list_add(s->list, f);
	return SPOT_OK;
}

static enum spot_rc dir_scan(struct scan *s, int dir_fd, const char *prefix, int depth)
{
	DIR *d = fdopendir(dir_fd);
	struct dirent *e;
	enum spot_rc rc = SPOT_OK;

	if (d == NULL) {
		close(dir_fd);
		return err_set(s->err, SPOT_INTERNAL, "%s: %s", prefix, strerror(errno));
	}
	while (rc == SPOT_OK && (e = readdir(d)) != NULL) {
		char path[AGENT_PATH_MAX];
		int n, fd;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
			continue;
		}
		n = snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] != '\0' ? "/" : "",
		    e->d_name);
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (n >= (int)sizeof(path) || (fd >= 0 && depth == 0)) {
			if (fd >= 0) {
				close(fd);
			}
			rc = err_set(s->err, SPOT_TOO_LARGE, "%.80s...: path too deep", path);
		} else if (fd >= 0) {
			rc = dir_scan(s, fd, path, depth - 1); /* closes fd */
		} else {
			rc = file_scan(s, dirfd(d), e->d_name, path);
		}
	}
	closedir(d);
	return rc;
}

enum spot_rc scan_dir(const char *dir, const struct scan_list *known, struct scan_list *ret,
    struct spot_err *err)
{
	struct scan_list list = { 0 };
	struct scan s = { .known = known, .list = &list, .err = err, .buf = malloc(READ_BYTES) };
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum spot_rc rc = SPOT_OK;

	if (s.buf == NULL) {
		abort();
	}
	if (fd >= 0) {
		rc = dir_scan(&s, fd, "", SCAN_DEPTH_MAX);
	} else if (errno != ENOENT) { /* an absent directory has no files */
		rc = err_set(err, SPOT_INTERNAL, "%s: %s", dir, strerror(errno));
	}
	free(s.buf);
	if (rc != SPOT_OK) {
		scan_list_fini(&list);
		return rc;
	}
	scan_list_sort(&list);
	*ret = list;
	return SPOT_OK;
}

/* ---- as text between the two processes ------------------------------------------------------- */

static json_t *file_to_json(const struct scan_file *f)
{
	json_t *chunks = json_array();
	json_t *o;

	for (size_t i = 0; i < f->chunks_n; i++) {
		(void)json_array_append_new(chunks, json_string(f->sha256[i]));
	}
	o = json_pack("{s:s, s:i, s:I, s:I, s:I, s:o}", "path", f->path, "mode", f->mode, "bytes",
	    (json_int_t)f->bytes, "mtime_ns", (json_int_t)f->mtime_ns, "inode",
	    (json_int_t)f->inode, "chunks", chunks);
	return o; /* NULL: the name is not UTF-8 */
}

static enum spot_rc file_from_json(const json_t *o, struct scan_file *ret, struct spot_err *err)
{
	struct spot_err first = { 0 };
	struct scan_file f = { 0 };
	const json_t *chunks = json_object_get(o, "chunks");
	const char *path = json_need_str(o, "path", &first);

	f.mode = (int)json_need_i64(o, "mode", &first);
	f.bytes = json_need_i64(o, "bytes", &first);
	f.mtime_ns = json_need_i64(o, "mtime_ns", &first);
	f.inode = (uint64_t)json_need_i64(o, "inode", &first);
	f.chunks_n = json_array_size(chunks);
	if (first.rc != SPOT_OK || f.chunks_n == 0) {
		return err_set(err, SPOT_BAD_REPLY, "scan: bad line: %s", first.text);
	}
	f.path = strdup(path);
	f.sha256 = calloc(f.chunks_n, sizeof(*f.sha256));
	if (f.path == NULL || f.sha256 == NULL) {
		abort();
	}
	for (size_t i = 0; i < f.chunks_n; i++) {
		const char *sha = json_string_value(json_array_get(chunks, i));

		if (sha == NULL || !str_copy(f.sha256[i], sizeof(*f.sha256), sha)) {
			scan_file_fini(&f);
			return err_set(err, SPOT_BAD_REPLY, "scan: bad chunk");
		}
	}
	*ret = f;
	return SPOT_OK;
}

enum spot_rc scan_line(struct scan_list *l, struct str line, bool *ret_done, struct spot_err *err)
{
	AUTO(json) json_t *o = NULL;
	struct scan_file f;
	const char *failed;
	enum spot_rc rc = json_parse(line, "scan", &o, err);

	if (rc != SPOT_OK) {
		return rc;
	}
	failed = json_str(o, "error", NULL, NULL);
	if (failed != NULL) {
		return err_set(err, (enum spot_rc)json_i64(o, "rc", SPOT_INTERNAL, NULL), "%s",
		    failed);
	}
	*ret_done = json_object_get(o, "done") != NULL;
	if (*ret_done) {
		return SPOT_OK;
	}
	rc = file_from_json(o, &f, err);
	if (rc == SPOT_OK) {
		scan_list_add(l, f);
	}
	return rc;
}

static int instructions_file(const char *dir, const struct scan_list *known)
{
	json_t *files = json_array(), *o;
	int fd = memfd_create("spot-scan", MFD_CLOEXEC);
	bool ok;

	for (size_t i = 0; known != NULL && i < known->n; i++) {
		json_t *f = file_to_json(&known->files[i]);

		if (f != NULL) {
			(void)json_array_append_new(files, f);
		}
	}
	o = json_pack("{s:s, s:o}", "dir", dir, "known", files);
	ok = fd >= 0 && o != NULL && json_dumpfd(o, fd, JSON_COMPACT) == 0;
	json_decref(o);
	if (!ok && fd >= 0) {
		close(fd);
	}
	return ok ? fd : -1;
}

static void scan_exec(int fd, int out)
{
	char *argv[] = { (char *)(uintptr_t) "spot-agent", (char *)(uintptr_t) "--scan", NULL };
	char *envp[] = { NULL };

	if (dup2(out, 1) < 0) {
		_exit(125);
	}
	if (fd == SCAN_FD) {
		(void)fcntl(fd, F_SETFD, 0);
	} else if (dup2(fd, SCAN_FD) < 0) {
		_exit(125);
	}
	(void)execve("/proc/self/exe", argv, envp);
	_exit(125);
}

enum spot_rc scan_spawn(const char *dir, const struct scan_list *known, pid_t *ret_pid, int *ret_fd,
    struct spot_err *err)
{
	int fd = instructions_file(dir, known), out[2];
	pid_t pid;

	if (fd < 0 || pipe2(out, O_CLOEXEC) != 0) {
		if (fd >= 0) {
			close(fd);
		}
		return err_set(err, SPOT_INTERNAL, "scan: %s", strerror(errno));
	}
	pid = spawn_fork();
	if (pid == 0) {
		scan_exec(fd, out[1]);
	}
	close(fd);
	close(out[1]);
	if (pid < 0) {
		close(out[0]);
		return err_set(err, SPOT_INTERNAL, "fork: %s", strerror(errno));
	}
	(void)fcntl(out[0], F_SETFL, O_NONBLOCK);
	*ret_pid = pid;
	*ret_fd = out[0];
	return SPOT_OK;
}

static void line_put(json_t *o)
{
	(void)json_dumpf(o, stdout, JSON_COMPACT);
	(void)putchar('\n');
	json_decref(o);
}

/* Reads the instructions of the parent; the caller owns *ret. */
static enum spot_rc instructions_read(json_t **ret, struct scan_list *known, struct spot_err *err)
{
	struct str text = { 0 };
	const json_t *list;
	char path[32];
	enum spot_rc rc;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", SCAN_FD);
	rc = file_read(path, SCAN_IN_MAX, &text, err);
	if (rc == SPOT_OK) {
		rc = json_parse(text, "scan instructions", ret, err);
	}
	free((void *)(uintptr_t)text.p);
	if (rc != SPOT_OK) {
		return rc;
	}
	list = json_object_get(*ret, "known");
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct scan_file f;

		if (file_from_json(json_array_get(list, i), &f, NULL) == SPOT_OK) {
			scan_list_add(known, f);
		}
	}
	return SPOT_OK;
}

static void found_put(const struct scan_list *found, struct spot_err *err)
{
	for (size_t i = 0; err->rc == SPOT_OK && i < found->n; i++) {
		json_t *line = file_to_json(&found->files[i]);

		if (line == NULL) {
			(void)err_set(err, SPOT_INVALID,
			    "a file name in the checkpoint directory is not UTF-8");
		} else {
			line_put(line);
		}
	}
	if (err->rc != SPOT_OK) {
		line_put(json_pack("{s:s, s:i}", "error", err->text, "rc", (int)err->rc));
	} else {
		line_put(json_pack("{s:b}", "done", 1));
	}
}

int scan_main(void)
{
	struct scan_list known = { 0 }, found = { 0 };
	struct spot_err err = { 0 };
	json_t *o = NULL;

	if (instructions_read(&o, &known, &err) != SPOT_OK) {
		return 125;
	}
	for (int tries = 0; tries < 3; tries++) { /* a file may change meanwhile */
		err = (struct spot_err){ 0 };
		if (scan_dir(json_str(o, "dir", "", NULL), &known, &found, &err) != SPOT_CONFLICT) {
			break;
		}
	}
	found_put(&found, &err);
	json_decref(o);
	scan_list_fini(&known);
	scan_list_fini(&found);
	return fflush(stdout) == 0 ? 0 : 125;
}
