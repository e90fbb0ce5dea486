/* Between the files of this folder. */
#ifndef API_SERVER_PRIV_H
#define API_SERVER_PRIV_H

#include "api/server/server.h"

/* request.c: with the headers of all replies */
struct areq *areq_new(struct api *api, struct httpd_req *r);
/* wait.c */
void areq_unwatch(struct areq *q);
void wait_wake_all(struct api *api);
void wait_wake(struct api *api, const char *key);
/* auth.c: calls next if the caller may use the route, else replies 401 or 403. */
void auth_begin(struct areq *q, void (*next)(struct areq *q));
/* tokens_known.c: bearer tokens that were looked up within the last second. */
struct token_known {
	uint8_t hash[32];
	int64_t id, until_us, expires_us; /* mono; wall, 0 = never */
	char *name, *role, *team;
};
struct token_cache *tokens_new(void);
void tokens_free(struct token_cache *c);
/* Returns the entry of a hash; NULL: ask the database. Valid until the next call. */
const struct token_known *tokens_find(struct token_cache *c, const uint8_t hash[32],
    int64_t mono_us, int64_t wall_us);
/* Changes whenever tokens are forgotten. */
uint64_t tokens_round(const struct token_cache *c);
/* Keeps what a look-up found that began in this round at mono_us. */
void tokens_keep(struct token_cache *c, uint64_t round, int64_t mono_us,
    const struct q_api_token_by_hash_row *row);
void tokens_forget(struct token_cache *c);
/* idem.c: notes the Idempotency-Key, if any, and runs the route's handler or replays the reply. */
void idem_begin(struct areq *q);
/* dispatch.c: callbacks of the HTTP server; ctx is the struct api. */
void api_handle(void *ctx, struct httpd_req *r);
size_t api_body_max(void *ctx, const char *method, const char *path);
/* reply.c: counts and sends a reply, and ends the request. */
void reply_send(struct areq *q, int status, const char *type, const char *body, size_t n);
/* share.c */
/* Takes a request of a shared route, whose handler then runs for it or for another one; false: it
 * runs alone. */
bool share_begin(struct areq *q);
/* Replies to q, which ran the handler, and to all that share its reply. */
void share_reply(struct areq *q, int status, const char *type, const char *body, size_t n);
void shares_fini(struct api *api);
/* batch.c */
void batches_fini(struct api *api);
/* form.c */
#define TAG_MAX 24
struct form { /* one reply of status 200 for several requests */
	const char *type, *body;
	size_t n;
	char tag[TAG_MAX]; /* made at the first use, as packed */
	struct str packed;
};
void form_send(struct areq *q, struct form *f);
void tag_make(const char *body, size_t n, char tag[TAG_MAX]);
bool tag_matches(const char *if_none_match, const char *tag);
bool gzip_accepted(const char *accept_encoding);
/* Compresses a reply. The result is valid until the next call. */
struct str gzip_pack(struct api *api, const char *body, size_t n);
#define PACKED_KEPT ((size_t)4 << 20) /* bytes of its buffer that stay for the next reply */
size_t gzip_held(const struct gzip *g); /* bytes of that buffer now */
void gzip_free(struct gzip *g); /* NULL accepted */
/* stream.c */
struct stream_hub *hub_new(struct api *api);
void hub_free(struct stream_hub *h);
void hub_poke(struct stream_hub *h); /* events may have been written */
void hub_drain(struct stream_hub *h);
/* seen.c */
void seen_init(struct api *api);
void seen_fini(struct api *api);
/* served.c: counts a reply and its latency. */
void served_count(struct areq *q, int status);
/* generated from schemas.json */
extern const char api_schemas_json[];

#endif
