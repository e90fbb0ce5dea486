/*
 * Inside of the credential chain. auth is one call: creds.c is its frame, creds_profile.c decides
 * from environment and files which source is to be asked, creds_source.c asks it.
 */
#ifndef PROVIDERS_AWS_CREDS_INT_H
#define PROVIDERS_AWS_CREDS_INT_H

#include "aws_int.h"

#define ROLES_MAX 5

enum creds_source { CREDS_NONE = 0, CREDS_STATIC, CREDS_WEB, CREDS_CONTAINER, CREDS_METADATA };

struct role {
	const char *arn, *session, *external_id, *duration; /* NULL = not given */
};

/* One run of auth. */
struct auth {
	struct str config, credentials; /* the shared files, empty if absent */
	enum creds_source source; /* where the first keys come from */
	struct role roles[ROLES_MAX];
	size_t roles_n; /* to be assumed with them, last first */
	struct role web;
	const char *web_file; /* CREDS_WEB */
	const char *role_name; /* CREDS_METADATA */
};

/* creds_profile.c: fills a->source and what belongs to it, for CREDS_STATIC also self->next.
 * SPOT_STEP_NONE or the verdict FAIL. */
enum spot_step creds_choose(struct aws *self, struct spot_call *c, struct auth *a);
const char *creds_path(struct aws *self, struct spot_call *c, const char *variable,
    const char *under_home);
/* Are there keys in the environment? *ret is the verdict on them. */
bool creds_from_env(struct aws *self, struct spot_call *c, enum spot_step *ret);

/* creds_source.c: each builds a request or reads its reply. Replies fill self->next. */
enum spot_step creds_web_send(struct aws *self, struct spot_call *c, struct auth *a);
enum spot_step creds_role_send(struct aws *self, struct spot_call *c, struct auth *a);
enum spot_step creds_sts_reply(struct aws *self, struct spot_call *c, const char *action);
enum spot_step creds_container_send(struct aws *self, struct spot_call *c);
enum spot_step creds_container_reply(struct aws *self, struct spot_call *c);
enum spot_step creds_token_send(struct aws *self, struct spot_call *c);
enum spot_step creds_token_reply(struct aws *self, struct spot_call *c);
enum spot_step creds_metadata_send(struct aws *self, struct spot_call *c, const struct auth *a);
enum spot_step creds_name_reply(struct aws *self, struct spot_call *c, struct auth *a);
enum spot_step creds_metadata_reply(struct aws *self, struct spot_call *c);
/* Token file's text into self->hop. */
enum spot_step creds_hop_file(struct aws *self, struct spot_call *c, const char *what);
/* FAIL: one of them could not be a header. */
enum spot_step creds_next_set(struct aws *self, struct spot_call *c, const char *access,
    const char *secret, const char *token, int64_t expires_us);

#endif
