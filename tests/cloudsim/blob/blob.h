/*
 * Blob storage of one account (REST reference, "Blob service REST API"): containers, block blobs
 * with their staged blocks, in memory and files below DIR/blobs. Path style:
 * /account/container/blob.
 */
#ifndef CLOUDSIM_BLOB_H
#define CLOUDSIM_BLOB_H

#include "cloudsim/azure/azure.h"

struct sbuf;
struct blob_block {
	char *id; /* base64 text as sent */
	char *file;
	size_t size;
};
struct blob {
	struct blob *next; /* by name, ascending */
	char *name, *type, *etag, *file;
	uint8_t md5[16];
	size_t size;
	int64_t at_us, made_us;
	bool committed; /* false: only staged blocks exist */
	bool whole_md5; /* of a Put Blob */
	struct blob_block *blocks, *staged;
	size_t blocks_n, staged_n;
	struct inst_tag *meta;
	size_t meta_n;
};
struct blob_container {
	struct blob_container *next;
	char *name, *etag;
	int64_t at_us;
	struct blob *blobs;
};
struct blob_store {
	struct blob_container *containers;
	uint64_t files, etags;
};
struct blob_call {
	struct az_call *c;
	struct sim_req *rq;
	struct sim_reply *rep;
	struct blob_store *st;
	struct blob_container *box;
	const char *container, *name; /* decoded; name "" = the container itself */
	const char *permissions; /* of the SAS; NULL = all */
	const char *sas_scope; /* "b" one blob, "c" container */
};

/* blob.c */
void blob_new(struct sim *s);
void blob_free(struct sim *s);
void blob_left(const struct sim *s, json_t *left);
const char *blob_action(struct az_call *c);
void blob_serve(struct az_call *c);
void blob_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message);
json_t *blob_container_add(struct sim *s, const json_t *doc, struct spot_err *err);
struct blob *blob_find(const struct blob_container *b, const char *name);
struct blob *blob_get_or_add(struct blob_container *b, const char *name);
void blob_container_free(struct blob_container *b);
void blob_drop(struct blob_container *b, const char *name);
char *blob_file(struct sim *s);
char *blob_etag(struct sim *s);
bool blob_conditions(struct blob_call *b, const struct blob *x);
const char *blob_header(struct blob_call *b, const char *name);
void blob_fail(struct blob_call *b, int status, const char *code, const char *message);
void blob_xml(struct blob_call *b, int status, const struct sbuf *out);
const char *blob_date(struct arena *a, int64_t us);

/* blob_auth.c: false and answered when refused */
bool blob_authorized(struct blob_call *b);
void blob_user_key(struct blob_call *b);

/* blob_object.c, blob_block.c, blob_list.c */
void blob_put(struct blob_call *b);
void blob_read(struct blob_call *b, bool head);
void blob_delete(struct blob_call *b);
void blob_stamp(struct blob_call *b, const struct blob *x);
void blob_written(struct blob_call *b, struct blob *x);
bool blob_md5_good(struct blob_call *b, uint8_t md5[16]);
void blob_put_meta(struct blob_call *b);
void blob_put_block(struct blob_call *b);
void blob_put_list(struct blob_call *b);
void blob_get_list(struct blob_call *b);
void blob_list(struct blob_call *b);
void blob_list_containers(struct blob_call *b);

#endif
