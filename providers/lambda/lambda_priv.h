/*
 * Inside of the Lambda provider. One struct lambda per open provider instance: settings (read once
 * at open) and the API key (changed by auth only). Steps keep their place in struct lambda_state
 * (arena memory of the call), not in c->at: the number of the request that is out. So a step
 * entered with c->in == NULL builds that request again, which is what AGAIN and REAUTH want.
 */
#ifndef PROVIDERS_LAMBDA_PRIV_H
#define PROVIDERS_LAMBDA_PRIV_H

#include "base/base.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"

#define LAMBDA_TAG_INSTALL "brk-install"
#define LAMBDA_TAG_ATTEMPT "brk-attempt"
#define LAMBDA_NAME_PREFIX "brk."
#define LAMBDA_NAME_MAX 64

/* Indexes into lambda_ops.limits. */
enum lambda_limit { LAMBDA_LIMIT_GENERAL = 0, LAMBDA_LIMIT_LAUNCH, LAMBDA_LIMIT_COUNT };

struct lambda {
	char *name; /* provider instance name */
	char *endpoint; /* without trailing slash and without /api/v1 */
	char *ssh_key_name; /* NULL = not set: launches are refused */
	char *image_family, *image_family_arm64;
	bool audit_events; /* ask who ended what is gone */
	struct spot_provider_conf conf; /* for the settings that name a region */
	char *key_file; /* NULL = the key came from the environment */
	bool key_file_chosen; /* by a setting, not by default */
	struct secret key;
};

struct lambda_evidence;
struct lambda_checking;
struct lambda_state {
	int at; /* request that is out, or to be built */
	/* describe: the list is read, the audit events are next */
	struct lambda_evidence *evidence;
	struct lambda_checking *checking;
	const char **regions;
	size_t regions_n;
};

/* ---- lambda_settings.c ----------------------------------------------------------------------- */
/* Fills self from the settings, the name included. */
NODISCARD enum spot_rc lambda_settings_read(struct lambda *self,
    const struct spot_provider_conf *conf, struct spot_err *err);
bool lambda_auth_fresh(const void *self, int64_t now_us);
enum spot_step lambda_auth(void *self, struct spot_call *c);

/* ---- lambda_http.c: requests, replies, errors ------------------------------------------------ */

/* The state of the call, made when it is first asked for. */
struct lambda_state *lambda_state_get(struct spot_call *c);
/* The meaning of a reply, whatever verb it answers. */
enum lambda_kind {
	LAMBDA_GOOD = 1,
	LAMBDA_THROTTLED, /* refused unseen */
	LAMBDA_KEY, /* key refused */
	LAMBDA_REFUSED, /* definite: nothing happened; rc says why */
	LAMBDA_BROKEN, /* the far side is broken: it may have happened */
};
struct lambda_reply {
	enum lambda_kind kind;
	enum spot_rc rc, rc_launch; /* meaning for reads and terminate; for launch */
	const char *code; /* vendor's, "" if none */
	const char *words; /* vendor's, made safe */
	json_t *doc; /* GOOD: whole body, an object; owned by the caller */
};
/* Starts a request with the key. path begins behind /api/v1. */
void lambda_request(const struct lambda *self, struct spot_call *c, const char *method,
    const char *path, enum lambda_limit limit);
void lambda_request_json(struct spot_call *c, const json_t *body);
void lambda_reply_read(const struct spot_call *c, struct lambda_reply *ret);
/* Verdict for a request that changes nothing: SPOT_STEP_NONE if the reply is good. */
enum spot_step lambda_reply_get(const struct lambda *self, struct spot_call *c, const char *what,
    struct lambda_reply *ret);
/* The key was refused: REAUTH where another look at its file may help. */
enum spot_step lambda_key_refused(const struct lambda *self, struct spot_call *c, const char *what,
    const struct lambda_reply *r);
/* A vendor text for people: one line, no secrets, short. */
const char *lambda_words(struct arena *a, const char *text);

/* ---- lambda_types.c -------------------------------------------------------------------------- */
enum spot_step lambda_regions(void *self, struct spot_call *c, struct spot_regions *a);
enum spot_step lambda_pools(void *self, struct spot_call *c, struct spot_pools *a);
enum spot_step lambda_prices(void *self, struct spot_call *c, struct spot_prices *a);
enum spot_step lambda_signals(void *self, struct spot_call *c, struct spot_signals *a);

/* ---- lambda_gpu.c ---------------------------------------------------------------------------- */
/* GPU, architecture and memory out of a type's name and its gpu_description. */
void lambda_gpu_shape(struct arena *a, const char *type, const char *gpu_description,
    struct spot_shape *ret);

/* ---- lambda_instances.c ---------------------------------------------------------------------- */
enum spot_step lambda_find(void *self, struct spot_call *c, struct spot_find *a);
enum spot_step lambda_list(void *self, struct spot_call *c, struct spot_list *a);
enum spot_step lambda_describe(void *self, struct spot_call *c, struct spot_describe *a);
/* One Instance object. On failure err names the field. */
NODISCARD enum spot_rc lambda_instance_read(const struct lambda *self, struct arena *arena,
    const json_t *o, struct spot_instance *ret, struct spot_err *err);
/* Is it there, and in which state? Fills ret and *ret_there; *ret_blocked is the reason why it
 * cannot be terminated now, NULL if it can. */
enum spot_step lambda_instance_look(const struct lambda *self, struct spot_call *c, const char *ref,
    bool *ret_there, struct spot_instance *ret, const char **ret_blocked);
void lambda_instances_request(const struct lambda *self, struct spot_call *c);
int64_t lambda_name_time_us(const char *name); /* 0 if the name carries no time */

/* ---- lambda_change.c ------------------------------------------------------------------------- */
enum spot_step lambda_launch(void *self, struct spot_call *c, struct spot_launch *a);
enum spot_step lambda_terminate(void *self, struct spot_call *c, struct spot_terminate *a);

/* ---- lambda_place.c -------------------------------------------------------------------------- */
enum lambda_place { LAMBDA_PLACE_FILE_SYSTEM = 0, LAMBDA_PLACE_RULESET, LAMBDA_PLACE_COUNT };
extern const char *const lambda_place_keys[LAMBDA_PLACE_COUNT]; /* settings, without ".<region>" */
/* The list in the setting of that region; NONE, or FAIL with CONFIG. */
enum spot_step lambda_place_read(const struct lambda *self, struct spot_call *c,
    enum lambda_place what, const char *region, const char *const **ret, size_t *ret_n);
/* Both into the body of a launch. */
enum spot_step lambda_place_add(const struct lambda *self, struct spot_call *c, const char *region,
    json_t *body);
const char *lambda_image_family(const struct lambda *self, const char *arch);

/* ---- lambda_audit.c -------------------------------------------------------------------------- */
struct lambda_evidence {
	struct spot_instance *list; /* asked about; end_cause set where an event tells */
	size_t n;
	int pages;
};
/* One that is not there, as far as that can be said of it: raw_state and raw_reason are kept as
 * they are. */
struct spot_instance lambda_gone(const struct lambda *self, struct spot_call *c, const char *region,
    const char *ref, const char *raw_state, const char *raw_reason);
void lambda_audit_request(const struct lambda *self, struct spot_call *c, const char *page_token);
/* False: the reply is none. Sets cause and reason of those in list that an event tells about. */
bool lambda_audit_read(struct spot_call *c, struct spot_instance *list, size_t n,
    const char **ret_token);
/* Goes on with a describe whose list is in a: DONE, or SEND for the events. Never fails. */
enum spot_step lambda_evidence_step(const struct lambda *self, struct spot_call *c,
    struct spot_describe *a);

/* ---- lambda_check.c -------------------------------------------------------------------------- */
enum spot_step lambda_check(void *self, struct spot_call *c, struct spot_check *a);

#endif
