/* ListObjects, ListObjectsV2, ListBuckets. */
#include "base/base.h"
#include "cloudsim/s3/s3.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

struct listing {
	const char *prefix, *delimiter, *after;
	bool v2, encode, more;
	int64_t max, n;
	const char *last; /* last key or common prefix shown */
	struct sbuf keys, prefixes;
};

static const char *text_shown(struct s3_call *c, const struct listing *l, const char *text)
{
	return l->encode ? url_encode(c->rq->arena, text, true) : text;
}

static void put_key(struct s3_call *c, struct listing *l, const struct s3_object *o)
{
	struct sbuf *b = &l->keys;

	x_open(b, "Contents");
	x_text(b, "Key", text_shown(c, l, o->key));
	x_text(b, "LastModified", aws_time_ms(c->rq->arena, o->at_us));
	x_text(b, "ETag", o->etag);
	x_int(b, "Size", (int64_t)o->size);
	x_text(b, "StorageClass", "STANDARD");
	x_close(b, "Contents");
}

/* The part up to the delimiter behind the prefix, or NULL. */
static const char *prefix_common(struct s3_call *c, const struct listing *l, const char *key)
{
	const char *end;

	if (!*l->delimiter) {
		return NULL;
	}
	end = strstr(key + strlen(l->prefix), l->delimiter);
	return end ? arena_strndup(c->rq->arena, key, (size_t)(end - key) + strlen(l->delimiter))
		   : NULL;
}

static void keys_walk(struct s3_call *c, struct listing *l)
{
	for (const struct s3_object *o = c->b->objects; o; o = o->next) {
		const char *group;

		if (!str_prefix(o->key, l->prefix) || (l->after && strcmp(o->key, l->after) <= 0)) {
			continue;
		}
		group = prefix_common(c, l, o->key);
		if (group &&
		    ((l->last && str_same(group, l->last)) ||
			(l->after && str_prefix(l->after, group)))) {
			continue;
		}
		if (l->n >= l->max) {
			l->more = true;
			return;
		}
		l->n++;
		l->last = group ? group : o->key;
		if (group) {
			x_open(&l->prefixes, "CommonPrefixes");
			x_text(&l->prefixes, "Prefix", text_shown(c, l, group));
			x_close(&l->prefixes, "CommonPrefixes");
		} else {
			put_key(c, l, o);
		}
	}
}

static bool read_listing(struct s3_call *c, struct listing *l)
{
	const char *max = s3_query(c, "max-keys"), *token = s3_query(c, "continuation-token");
	struct str raw;

	l->v2 = str_same(s3_query(c, "list-type"), "2");
	l->prefix = s3_query(c, "prefix") ? s3_query(c, "prefix") : "";
	l->delimiter = s3_query(c, "delimiter") ? s3_query(c, "delimiter") : "";
	l->encode = str_same(s3_query(c, "encoding-type"), "url");
	l->after = s3_query(c, l->v2 ? "start-after" : "marker");
	l->max = 1000;
	if (max && !parse_i64(max, 0, INT32_MAX, &l->max)) {
		reply_fail(c->rq, c->rep, 400, "InvalidArgument",
		    "Provided max-keys not an integer or within integer range");
		return false;
	}
	l->max = MIN(l->max, 1000);
	if (!l->v2 || !token) {
		return true;
	}
	if (!base64_decode(c->rq->arena, token, strlen(token), &raw)) {
		reply_fail(c->rq, c->rep, 400, "InvalidArgument",
		    "The continuation token provided is incorrect");
		return false;
	}
	l->after = arena_strndup(c->rq->arena, raw.p, raw.n);
	return true;
}

void s3_list(struct s3_call *c)
{
	struct listing l = { 0 };
	struct sbuf b AUTO(sbuf) = { 0 };

	if (!read_listing(c, &l)) {
		return;
	}
	sbuf_init(&b, 8 << 20);
	sbuf_init(&l.keys, 8 << 20);
	sbuf_init(&l.prefixes, 1 << 20);
	keys_walk(c, &l);
	sbuf_puts(&b, "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	x_text(&b, "Name", c->b->name);
	x_text(&b, "Prefix", text_shown(c, &l, l.prefix));
	if (*l.delimiter) {
		x_text(&b, "Delimiter", text_shown(c, &l, l.delimiter));
	}
	if (l.encode) {
		x_text(&b, "EncodingType", "url");
	}
	x_int(&b, "MaxKeys", l.max);
	if (l.v2) {
		x_int(&b, "KeyCount", l.n);
	}
	x_bool(&b, "IsTruncated", l.more);
	if (l.more && l.last && l.v2) {
		x_text(&b, "NextContinuationToken",
		    base64_encode(c->rq->arena, l.last, strlen(l.last)));
	} else if (l.more && l.last) {
		x_text(&b, "NextMarker", text_shown(c, &l, l.last));
	}
	if (l.keys.n > 0) {
		sbuf_add(&b, l.keys.p, l.keys.n);
	}
	if (l.prefixes.n > 0) {
		sbuf_add(&b, l.prefixes.p, l.prefixes.n);
	}
	sbuf_puts(&b, "</ListBucketResult>");
	s3_xml(c, 200, &b);
	sbuf_fini(&l.keys);
	sbuf_fini(&l.prefixes);
}

void s3_list_buckets(struct s3_call *c)
{
	struct sbuf b AUTO(sbuf) = { 0 };

	sbuf_init(&b, 1 << 20);
	sbuf_puts(&b,
	    "<ListAllMyBucketsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Owner>");
	x_text(&b, "ID", AWS_ACCOUNT);
	sbuf_puts(&b, "</Owner><Buckets>");
	for (const struct s3_bucket *k = c->s3->buckets; k; k = k->next) {
		x_open(&b, "Bucket");
		x_text(&b, "Name", k->name);
		x_text(&b, "CreationDate", aws_time_ms(c->rq->arena, k->at_us));
		x_close(&b, "Bucket");
	}
	sbuf_puts(&b, "</Buckets></ListAllMyBucketsResult>");
	s3_xml(c, 200, &b);
}
