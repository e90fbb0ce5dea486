/* The index of containers and blobs, and the common part of every Blob call. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/blob/blob.h"
#include "base/text/text.h"

#include <unistd.h>

void blob_new(struct sim *s)
{
	char path[4096];

	s->azure->blobs = calloc(1, sizeof(*s->azure->blobs));
	if (!s->azure->blobs) {
		abort();
	}
	snprintf(path, sizeof(path), "%s/blobs", s->conf.dir);
	dir_make(path, 0700);
}

static void blocks_free(struct blob_block *list, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		if (list[k].file) {
			unlink(list[k].file);
			free(list[k].file);
		}
		free(list[k].id);
	}
	free(list);
}

static void blob_one_free(struct blob *x)
{
	if (x->file) {
		unlink(x->file);
	}
	for (size_t k = 0; k < x->meta_n; k++) {
		free(x->meta[k].key);
		free(x->meta[k].value);
	}
	free(x->meta);
	blocks_free(x->blocks, x->blocks_n);
	blocks_free(x->staged, x->staged_n);
	free(x->name);
	free(x->type);
	free(x->etag);
	free(x->file);
	free(x);
}

void blob_container_free(struct blob_container *b)
{
	while (b->blobs) {
		struct blob *x = b->blobs;

		b->blobs = x->next;
		blob_one_free(x);
	}
	free(b->name);
	free(b->etag);
	free(b);
}

void blob_free(struct sim *s)
{
	struct blob_store *st = s->azure->blobs;

	while (st && st->containers) {
		struct blob_container *b = st->containers;

		st->containers = b->next;
		blob_container_free(b);
	}
	free(st);
	s->azure->blobs = NULL;
}

/* Staged blocks are billed until they are committed or expire. */
void blob_left(const struct sim *s, json_t *left)
{
	for (const struct blob_container *b = s->azure->blobs->containers; b; b = b->next) {
		for (const struct blob *x = b->blobs; x; x = x->next) {
			if (x->staged_n > 0) {
				json_array_append_new(left,
				    json_sprintf("azure uncommitted blocks %s/%s (%d)", b->name,
					x->name, (int)x->staged_n));
			}
		}
	}
}

struct blob *blob_find(const struct blob_container *b, const char *name)
{
	for (struct blob *x = b->blobs; x; x = x->next) {
		if (strcmp(x->name, name) == 0) {
			return x;
		}
	}
	return NULL;
}

struct blob *blob_get_or_add(struct blob_container *b, const char *name)
{
	struct blob *x = blob_find(b, name), **at = &b->blobs;

	if (x) {
		return x;
	}
	x = calloc(1, sizeof(*x));
	if (!x) {
		abort();
	}
	x->name = dup_text(name);
	while (*at && strcmp((*at)->name, name) < 0) {
		at = &(*at)->next;
	}
	x->next = *at;
	*at = x;
	return x;
}

void blob_drop(struct blob_container *b, const char *name)
{
	for (struct blob **at = &b->blobs; *at; at = &(*at)->next) {
		if (strcmp((*at)->name, name) == 0) {
			struct blob *x = *at;

			*at = x->next;
			blob_one_free(x);
			return;
		}
	}
}

char *blob_file(struct sim *s)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/blobs/%08" PRIu64, s->conf.dir, ++s->azure->blobs->files);
	return dup_text(path);
}

char *blob_etag(struct sim *s)
{
	char text[32];

	snprintf(text, sizeof(text), "\"0x8D%013" PRIX64 "\"", ++s->azure->blobs->etags);
	return dup_text(text);
}

const char *blob_date(struct arena *a, int64_t us)
{
	char date[64];

	sim_http_date(us, date);
	return arena_strdup(a, date);
}

void blob_fail(struct blob_call *b, int status, const char *code, const char *message)
{
	reply_fail(b->rq, b->rep, status, code, "%s", message);
}

void blob_xml(struct blob_call *b, int status, const struct sbuf *out)
{
	const char *text = arena_printf(b->rq->arena,
	    "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?>%.*s", (int)out->n, out->p);

	reply_set(b->rep, status, "application/xml", text, strlen(text));
}

const char *blob_header(struct blob_call *b, const char *name)
{
	return req_header(b->rq, name);
}

static bool etag_in(const char *list, const char *etag)
{
	return str_same(list, "*") || (etag && strstr(list, etag));
}

/* true: go on. Put with If-None-Match: * on an existing blob is 409, other failures 412, reads
 * 304. */
bool blob_conditions(struct blob_call *b, const struct blob *x)
{
	const char *match = blob_header(b, "if-match"), *none = blob_header(b, "if-none-match");
	bool there = x && x->committed,
	     get = str_same(b->rq->http->method, "GET") || str_same(b->rq->http->method, "HEAD");

	if (match && !(there && etag_in(match, x->etag))) {
		blob_fail(b, 412, "ConditionNotMet",
		    "The condition specified using HTTP conditional header(s) is not met.");
		return false;
	}
	if (none && there && etag_in(none, x->etag)) {
		if (get) {
			reply_set(b->rep, 304, NULL, NULL, 0);
		} else if (str_same(none, "*")) {
			blob_fail(b, 409, "BlobAlreadyExists",
			    "The specified blob already exists.");
		} else {
			blob_fail(b, 412, "ConditionNotMet",
			    "The condition specified using HTTP conditional header(s) is not met.");
		}
		return false;
	}
	return true;
}
