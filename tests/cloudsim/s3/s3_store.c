/* The index of buckets and objects, and the common part of every call. */
#include "base/base.h"
#include "cloudsim/s3/s3.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <openssl/evp.h>
#include <unistd.h>

void s3_meta_free(struct s3_meta *m)
{
	for (size_t k = 0; k < m->n; k++) {
		free(m->at[k].name);
		free(m->at[k].value);
	}
	free(m->at);
	*m = (struct s3_meta){ 0 };
}

void s3_upload_free(struct s3_upload *u)
{
	for (size_t k = 0; k < u->parts_n; k++) {
		s3_part_free(&u->parts[k], true);
	}
	free(u->parts);
	free(u->id);
	free(u->key);
	free(u->type);
	s3_meta_free(&u->meta);
	free(u);
}

void s3_new(struct sim *s)
{
	char path[4096];

	s->s3 = calloc(1, sizeof(*s->s3));
	if (!s->s3) {
		abort();
	}
	snprintf(path, sizeof(path), "%s/s3", s->conf.dir);
	dir_make(path, 0700);
}

static void object_free(struct s3_object *o)
{
	unlink(o->file);
	free(o->key);
	free(o->etag);
	free(o->type);
	free(o->file);
	s3_meta_free(&o->meta);
	free(o);
}

void s3_bucket_free(struct s3_bucket *b)
{
	while (b->objects) {
		struct s3_object *o = b->objects;

		b->objects = o->next;
		object_free(o);
	}
	while (b->uploads) {
		struct s3_upload *u = b->uploads;

		b->uploads = u->next;
		s3_upload_free(u);
	}
	free(b->name);
	free(b->region);
	free(b);
}

void s3_free(struct sim *s)
{
	if (!s->s3) {
		return;
	}
	while (s->s3->buckets) {
		struct s3_bucket *b = s->s3->buckets;

		s->s3->buckets = b->next;
		s3_bucket_free(b);
	}
	free(s->s3);
	s->s3 = NULL;
}

void s3_left(const struct sim *s, json_t *left)
{
	for (const struct s3_bucket *b = s->s3 ? s->s3->buckets : NULL; b; b = b->next) {
		for (const struct s3_upload *u = b->uploads; u; u = u->next) {
			json_array_append_new(left,
			    json_sprintf("aws/upload/%s/%s", b->name, u->key));
		}
	}
}

struct s3_object *s3_find(const struct s3_bucket *b, const char *key)
{
	for (struct s3_object *o = b->objects; o; o = o->next) {
		if (strcmp(o->key, key) == 0) {
			return o;
		}
	}
	return NULL;
}

void s3_drop(struct s3_bucket *b, const char *key)
{
	for (struct s3_object **at = &b->objects; *at; at = &(*at)->next) {
		if (strcmp((*at)->key, key) == 0) {
			struct s3_object *o = *at;

			*at = o->next;
			object_free(o);
			return;
		}
	}
}

struct s3_object *s3_put(struct s3_bucket *b, const char *key, const char *type, size_t size,
    char *etag, char *file, int64_t at_us)
{
	struct s3_object *o = calloc(1, sizeof(*o)), **at = &b->objects;

	if (!o) {
		abort();
	}
	s3_drop(b, key);
	o->key = dup_text(key);
	o->type = dup_text(type ? type : "binary/octet-stream");
	o->size = size;
	o->etag = etag;
	o->file = file;
	o->at_us = at_us;
	while (*at && strcmp((*at)->key, key) < 0) {
		at = &(*at)->next;
	}
	o->next = *at;
	*at = o;
	return o;
}

char *s3_file_name(struct sim *s)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/s3/%08" PRIu64, s->conf.dir, ++s->s3->files);
	return dup_text(path);
}

void s3_md5(const void *p, size_t n, uint8_t ret[16])
{
	unsigned len = 16;

	EVP_Digest(p ? p : "", n, ret, &len, EVP_md5(), NULL);
}

char *s3_quoted_etag(const uint8_t md5[16], size_t parts)
{
	char hex[33], text[64];

	hex_encode(md5, 16, hex);
	if (parts) {
		snprintf(text, sizeof(text), "\"%s-%zu\"", hex, parts);
	} else {
		snprintf(text, sizeof(text), "\"%s\"", hex);
	}
	return dup_text(text);
}

/* ---- request parts --------------------------------------------------------------------------- */

const char *s3_query(struct s3_call *c, const char *name)
{
	return httpd_query(c->rq->http, name);
}

bool s3_has(struct s3_call *c, const char *name)
{
	return s3_query(c, name) != NULL;
}

void s3_xml(struct s3_call *c, int status, const struct sbuf *b)
{
	const char *text = arena_printf(c->rq->arena,
	    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n%.*s", (int)b->n, b->p);

	reply_set(c->rep, status, "application/xml", text, strlen(text));
}

const char *s3_element(struct arena *a, const char **at, const char *tag)
{
	const char *open = arena_printf(a, "<%s>", tag), *close = arena_printf(a, "</%s>", tag);
	const char *from = strstr(*at, open), *to;
	char *out, *w;

	to = from ? strstr(from, close) : NULL;
	if (!to) {
		return NULL;
	}
	from += strlen(open);
	*at = to + strlen(close);
	out = w = arena_alloc(a, (size_t)(to - from) + 1);
	while (from < to) {
		static const struct {
			const char *name;
			char c;
		} entities[] = { { "&quot;", '"' }, { "&#34;", '"' }, { "&amp;", '&' },
			{ "&lt;", '<' }, { "&gt;", '>' }, { "&apos;", '\'' } };
		bool done = false;

		for (size_t k = 0; k < ARRAY_LEN(entities) && !done; k++) {
			if (str_prefix(from, entities[k].name)) {
				*w++ = entities[k].c;
				from += strlen(entities[k].name);
				done = true;
			}
		}
		if (!done) {
			*w++ = *from++;
		}
	}
	return out;
}

void s3_part_free(struct s3_part *p, bool with_file)
{
	if (with_file) {
		unlink(p->file);
	}
	free(p->etag);
	free(p->file);
}
