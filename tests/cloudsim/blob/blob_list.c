/* List Blobs and List Containers. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/blob/blob.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"

#define PAGE_MAX 5000

static void entry_write(struct blob_call *b, struct sbuf *s, const struct blob *x)
{
	struct arena *a = b->rq->arena;
	const char *etag = x->etag ? x->etag : "\"\"";

	x_open(s, "Blob");
	x_text(s, "Name", x->name);
	x_open(s, "Properties");
	if (x->committed) {
		x_text(s, "Creation-Time", blob_date(a, x->made_us));
		x_text(s, "Last-Modified", blob_date(a, x->at_us));
		x_text(s, "Etag", arena_strndup(a, etag + 1, strlen(etag) - 2));
		x_int(s, "Content-Length", (int64_t)x->size);
		x_text(s, "Content-Type", x->type);
	} else {
		x_int(s, "Content-Length", 0);
	}
	if (x->whole_md5) {
		x_text(s, "Content-MD5", base64_encode(a, x->md5, 16));
	}
	x_text(s, "BlobType", "BlockBlob");
	if (x->committed) {
		x_text(s, "AccessTier", "Hot");
		x_text(s, "AccessTierInferred", "true");
		x_text(s, "LeaseStatus", "unlocked");
		x_text(s, "LeaseState", "available");
		x_text(s, "ServerEncrypted", "true");
	}
	x_close(s, "Properties");
	if (az_query(b->c, "include") && strstr(az_query(b->c, "include"), "metadata") &&
	    x->meta_n > 0) {
		x_open(s, "Metadata");
		for (size_t k = 0; k < x->meta_n; k++) {
			x_text(s, x->meta[k].key, x->meta[k].value);
		}
		x_close(s, "Metadata");
	}
	x_close(s, "Blob");
}

/* Returns the prefix into which a listing with a delimiter folds the name; NULL = it lists the
 * name. */
static const char *name_fold(struct arena *a, const char *name, const char *prefix,
    const char *delimiter)
{
	const char *at = delimiter && *delimiter ? strstr(name + strlen(prefix), delimiter) : NULL;

	return at ? arena_strndup(a, name, (size_t)(at - name) + strlen(delimiter)) : NULL;
}

/* Entries from the marker on; the marker for the rest, or "". */
static const char *entries_write(struct blob_call *b, struct sbuf *s, const char *prefix,
    const char *delimiter, const char *marker, int64_t max)
{
	const char *include = az_query(b->c, "include"), *last = NULL;
	bool staged = include && strstr(include, "uncommittedblobs");
	int64_t n = 0;

	for (const struct blob *x = b->box->blobs; x; x = x->next) {
		const char *fold;

		if ((!x->committed && !staged) || !str_prefix(x->name, prefix)) {
			continue;
		}
		fold = name_fold(b->rq->arena, x->name, prefix, delimiter);
		if (marker && strcmp(fold ? fold : x->name, marker) < 0) {
			continue;
		}
		if (fold && str_same(last, fold)) {
			continue;
		}
		if (n == max) {
			return fold ? fold : arena_strdup(b->rq->arena, x->name);
		}
		n++;
		last = fold;
		if (fold) {
			x_open(s, "BlobPrefix");
			x_text(s, "Name", fold);
			x_close(s, "BlobPrefix");
		} else {
			entry_write(b, s, x);
		}
	}
	return "";
}

static bool page_size(struct blob_call *b, int64_t *ret)
{
	const char *text = az_query(b->c, "maxresults");

	*ret = PAGE_MAX;
	if (!text || parse_i64(text, 1, INT32_MAX, ret)) {
		*ret = MIN(*ret, PAGE_MAX);
		return true;
	}
	blob_fail(b, 400, "OutOfRangeQueryParameterValue",
	    "One of the query parameters specified in the request URI is outside the permissible "
	    "range.");
	return false;
}

static void text_if(struct sbuf *s, const char *tag, const char *value)
{
	if (value && *value) {
		x_text(s, tag, value);
	}
}

void blob_list(struct blob_call *b)
{
	const char *prefix = az_query(b->c, "prefix"), *delimiter = az_query(b->c, "delimiter"),
		   *marker = az_query(b->c, "marker"), *next;
	struct sbuf s AUTO(sbuf) = { 0 };
	int64_t max;

	if (!page_size(b, &max)) {
		return;
	}
	sbuf_init(&s, 32 << 20);
	sbuf_printf(&s,
	    "<EnumerationResults ServiceEndpoint=\"%s/" AZ_ACCOUNT "\" ContainerName=\"%s\">",
	    b->c->base, b->container);
	text_if(&s, "Prefix", prefix);
	text_if(&s, "Marker", marker);
	if (az_query(b->c, "maxresults")) {
		x_int(&s, "MaxResults", max);
	}
	text_if(&s, "Delimiter", delimiter);
	x_open(&s, "Blobs");
	next = entries_write(b, &s, prefix ? prefix : "", delimiter,
	    marker && *marker ? marker : NULL, max);
	x_close(&s, "Blobs");
	x_text(&s, "NextMarker", next);
	sbuf_puts(&s, "</EnumerationResults>");
	blob_xml(b, 200, &s);
}

void blob_list_containers(struct blob_call *b)
{
	struct sbuf s AUTO(sbuf) = { 0 };

	if (!str_same(az_query(b->c, "comp"), "list")) {
		blob_fail(b, 400, "InvalidQueryParameterValue",
		    "Value for one of the query parameters specified in the request URI is "
		    "invalid. (comp)");
		return;
	}
	sbuf_init(&s, 4 << 20);
	sbuf_printf(&s, "<EnumerationResults ServiceEndpoint=\"%s/" AZ_ACCOUNT "\">", b->c->base);
	x_open(&s, "Containers");
	for (const struct blob_container *x = b->st->containers; x; x = x->next) {
		x_open(&s, "Container");
		x_text(&s, "Name", x->name);
		x_open(&s, "Properties");
		x_text(&s, "Last-Modified", blob_date(b->rq->arena, x->at_us));
		x_text(&s, "Etag", x->etag);
		x_text(&s, "LeaseStatus", "unlocked");
		x_text(&s, "LeaseState", "available");
		x_close(&s, "Properties");
		x_close(&s, "Container");
	}
	x_close(&s, "Containers");
	x_text(&s, "NextMarker", "");
	sbuf_puts(&s, "</EnumerationResults>");
	blob_xml(b, 200, &s);
}
