/*
 * The object store: buckets by name in the path, objects as files in DIR/s3. The index is in
 * memory. After the Amazon S3 API reference, as far as checkpoints need it.
 */
#ifndef CLOUDSIM_S3_H
#define CLOUDSIM_S3_H

#include "cloudsim/aws/aws.h"

#define S3_META_MAX 16 /* x-amz-meta-... headers kept of an object */
struct s3_meta {
	struct {
		char *name, *value;
	} *at;
	size_t n;
};
struct s3_object {
	struct s3_object *next; /* by key, ascending */
	char *key, *etag, *type, *file;
	struct s3_meta meta;
	size_t size;
	int64_t at_us;
};
struct s3_part {
	int number;
	char *etag, *file;
	uint8_t md5[16];
	size_t size;
};
struct s3_upload {
	struct s3_upload *next;
	char *id, *key, *type;
	struct s3_meta meta;
	int64_t at_us;
	struct s3_part *parts;
	size_t parts_n;
};
struct s3_bucket {
	struct s3_bucket *next;
	char *name, *region;
	int64_t at_us;
	struct s3_object *objects;
	struct s3_upload *uploads;
};
struct s3 {
	struct s3_bucket *buckets;
	uint64_t files;
};
/* One request taken apart. */
struct s3_call {
	struct sim_req *rq;
	struct sim_reply *rep;
	struct s3 *s3;
	struct s3_bucket *b;
	const char *bucket, *key; /* key "" = the bucket itself */
	struct str body; /* aws-chunked framing removed */
};
void s3_serve(struct sim_req *rq, struct sim_reply *rep);
const char *s3_action(struct sim_req *rq);
/* s3_store.c */
void s3_new(struct sim *s);
void s3_free(struct sim *s);
/* Multipart uploads that were neither completed nor aborted: their parts are paid for. */
void s3_left(const struct sim *s, json_t *left);
struct s3_object *s3_find(const struct s3_bucket *b, const char *key);
/* Takes over file and etag. */
struct s3_object *s3_put(struct s3_bucket *b, const char *key, const char *type, size_t size,
    char *etag, char *file, int64_t at_us);
void s3_drop(struct s3_bucket *b, const char *key);
char *s3_file_name(struct sim *s);
void s3_md5(const void *p, size_t n, uint8_t ret[16]);
char *s3_quoted_etag(const uint8_t md5[16], size_t parts); /* malloc'd; parts 0 = plain */
const char *s3_query(struct s3_call *c, const char *name);
bool s3_has(struct s3_call *c, const char *name); /* ?name or ?name=... */
void s3_xml(struct s3_call *c, int status, const struct sbuf *b);
/* Text of the next <tag>...</tag> after *at, entities of quotes decoded; NULL: none left. */
const char *s3_element(struct arena *a, const char **at, const char *tag);

/* s3_object.c, s3_list.c, s3_multipart.c */
void s3_object_put(struct s3_call *c);
void s3_object_get(struct s3_call *c, bool head);
void s3_object_delete(struct s3_call *c);
void s3_objects_delete(struct s3_call *c);
void s3_list(struct s3_call *c);
void s3_list_buckets(struct s3_call *c);
void s3_upload_create(struct s3_call *c);
void s3_upload_part(struct s3_call *c);
void s3_upload_complete(struct s3_call *c);
void s3_upload_abort(struct s3_call *c);
void s3_upload_free(struct s3_upload *u);
void s3_part_free(struct s3_part *p, bool with_file);
void s3_bucket_free(struct s3_bucket *b);
void s3_parts_list(struct s3_call *c);

/* s3_more.c */
/* the sub-resource that is asked for and not served, or NULL */
const char *s3_unserved(struct sim_req *rq);
void s3_object_copy(struct s3_call *c);
void s3_uploads_list(struct s3_call *c);
void s3_meta_read(struct s3_call *c, struct s3_meta *m);
void s3_meta_show(struct s3_call *c, const struct s3_meta *m);
void s3_meta_free(struct s3_meta *m);

#endif
