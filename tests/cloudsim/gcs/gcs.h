/* Cloud Storage: buckets, objects and resumable uploads, in memory. */
#ifndef CLOUDSIM_GCS_H
#define CLOUDSIM_GCS_H

#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

struct gcs_object {
	struct gcs_object *next;
	char *name, *type, *bytes;
	size_t n;
	int64_t metageneration, generation, created_us;
	char md5[32], crc32c[16]; /* base64 */
	json_t *metadata; /* custom */
};
struct gcs_bucket {
	struct gcs_bucket *next;
	char *name, *location;
	int64_t created_us;
	struct gcs_object *objects;
};
struct gcs_upload {
	struct gcs_upload *next;
	char *id, *bucket, *name, *type;
	json_t *metadata;
	int64_t if_generation; /* -1 = none */
	bool xml;
	struct sbuf bytes;
	int64_t started_us;
	int64_t announced; /* X-Upload-Content-Length; -1 = not said */
};
struct gcs {
	struct gcs_bucket *buckets;
	struct gcs_upload *uploads;
	int64_t last_generation;
};

struct gcs_bucket *gcs_bucket_find(struct gcp_call *c, const char *name); /* NULL: answered 404 */
struct gcs_object *gcs_object_find(const struct gcs_bucket *b, const char *name);
/* ifGenerationMatch and the like; -1 = none asked. false: answered 412. */
bool gcs_matches(struct gcp_call *c, const struct gcs_object *o, int64_t generation);
int64_t gcs_wanted_generation(struct gcp_call *c); /* parameter or x-goog header; -1 = none */
/* A new version; bytes are copied. metadata may be NULL. */
struct gcs_object *gcs_object_put(struct gcp_call *c, struct gcs_bucket *b, const char *name,
    const char *type, const json_t *metadata, const char *bytes, size_t n);
/* Checks the request's hashes of the bytes. Returns false after it has answered. metadata may be
 * NULL. */
bool gcs_digests(struct gcp_call *c, const json_t *metadata, const char *bytes, size_t n);
void gcs_object_drop(struct gcs_bucket *b, struct gcs_object *o);
json_t *gcs_object_json(struct gcp_call *c, const struct gcs_object *o, const struct gcs_bucket *b);
void gcs_download(struct gcp_call *c, const struct gcs_object *o);
void gcs_put_hashes(struct gcp_call *c, const struct gcs_object *o);
uint32_t gcs_crc32c(const void *p, size_t n);
/* gcs_upload.c */
struct gcs_upload *gcs_upload_start(struct gcp_call *c, const char *bucket, const char *name);
struct gcs_upload *gcs_upload_find(struct gcp_call *c); /* by upload_id; NULL: answered 404 */
void gcs_upload_chunk(struct gcp_call *c, struct gcs_upload *u);
void gcs_upload_drop(struct gcp_call *c, struct gcs_upload *u);
void gcs_bucket_free(struct gcs_bucket *b);
void gcs_upload_unlink(struct gcs *g, struct gcs_upload *u);
void gcs_uploads_free(struct gcs *g);
/* gcs_sign.c: the query string's V4 signature. false: answered. */
bool gcs_signed(struct gcp_call *c);

#endif
