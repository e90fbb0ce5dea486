/*
 * The second half of conformance: every provider behind io/call over real sockets against the
 * emulator. One table per cloud has its address and the names of its faults (live_<cloud>.c). The
 * cases are written once (live_cases.c, live_faults.c). live.c is the world: emulator, loop,
 * provider, log.
 */
#ifndef TESTS_CONFORM_LIVE_H
#define TESTS_CONFORM_LIVE_H

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "base/text/text.h"
#include "io/call/call.h"

struct live;
struct live_case {
	const char *name;
	void (*run)(struct live *v);
};
struct live_cloud {
	const char *name;
	const struct spot_provider_ops *ops;
	/* NULL: not set. Values come out of the emulator's announcement (live_text). */
	const char *(*env)(struct live *v, const char *name);
	const char *(*setting)(struct live *v, const char *key);
	void (*prepare)(struct live *v); /* once, before the first call; NULL = nothing */
	/* the emulator's name of this cloud in pool patterns; NULL = name */
	const char *sim_name;
	const char *region, *type; /* launched; spot where the cloud has spot */
	/* "service":"...","action":"..." of the request that creates, that lists, that ends one */
	const char *create, *list, *end;
	const char *create_set; /* the one that creates a set; NULL = create */
	const char *service; /* "service":"..." of all of them */
	const char *throttled; /* fault members: slow down, the vendor's way */
	/* the provider knows that it is for that long; 0 = it does not */
	int throttled_for_s;
	const char *expired; /* fault members: the credentials ran out */
	/* fault members: over quota, at the create; NULL: said elsewhere */
	const char *quota;
	/* of presigned requests, and where in the announcement its store is; NULL = none */
	const char *bucket, *objects;
	bool late; /* a lack of capacity shows after the launch succeeded */
	/* its machines are there already, launches only take them */
	bool fixed;
	bool skew; /* the provider corrects for a clock that is off */
	/* cases of this cloud alone, before the others; NULL = none */
	const struct live_case *own;
};
extern const struct live_cloud live_aws, live_lambda, live_gcp, live_gcp_attached, live_azure,
    live_coreweave, live_kubernetes;

struct live {
	const struct live_cloud *cloud;
	char dir[64];
	int pid;
	json_t *doc; /* cloudsim.json */
	struct rng rng;
	struct loop *loop;
	struct http_client *http;
	struct call_provider *p;
	struct spot_provider_ops ops; /* the cloud's, without limits */
	struct arena *arena;
	int64_t timeout_us; /* of calls, 0 = a minute */
	int launches; /* names differ */
	struct spot_pool_info pool; /* that is launched into; found by the first live_launch */
	int log_fd;
};

/* A string of the announcement: "credentials/aws/access_key_id"; NULL if it has none. */
const char *live_text(struct live *v, const char *path);
/* The control API. Fails the test unless the answer is 200. body NULL = GET. */
json_t *live_control(struct live *v, const char *path, const char *body);
/* Fault members, struck at "service":..,"action":.. count times. */
void live_fault(struct live *v, const char *at, const char *members, int count);
void live_unfault(struct live *v); /* none strikes any more */
/* Fails the test unless a fault struck: one that matches nothing proves nothing. */
void live_struck(struct live *v);
/* Any request, to prepare something. Returns the status. */
int live_plain(struct live *v, const char *method, const char *url, const char *bearer,
    const char *body);
/* The same as a form; the reply's document, NULL if it is none. */
json_t *live_form(struct live *v, const char *url, const char *body);
enum spot_rc live_run(struct live *v, enum call_verb verb, void *args, struct spot_err *err);
/* Fails the test with the error's words unless OK. */
void live_ok(struct live *v, enum call_verb verb, void *args);
/* Sends a presigned request, as a node would. */
void live_send(struct live *v, const struct spot_presign *p, const char *body,
    struct spot_http_request *out, struct http_req *req);
/* Turns the loop for that long. */
void live_pause(struct live *v, int64_t us);

/* A pool of the cloud's type, and a launch into it under a new name. */
struct spot_launch live_launch(struct live *v);
/* How many live machines carry our tag, as the provider says. */
size_t live_count(struct live *v);
size_t live_in(const struct spot_list *list); /* the same of a list that was made */
size_t live_find(struct live *v, const struct spot_launch *a);
/* Ends one and waits until it is gone. */
void live_end(struct live *v, const struct spot_instance *x);
void live_end_all(struct live *v);

#define LIVE_INSTALL "0badcafe"

/* The cases; NULL ends. */
extern const struct live_case live_cases[], live_faults[];
/* With the published limits on both sides, in a world of its own. */
void live_market_within_limits(struct live *v);

/* Writes every request and reply to the file that $LIVE_RECORD names, if it is set. */
void live_record(struct live *v);
void live_record_faulty(bool faulty); /* the emulator was told to misbehave */
void live_up(struct live *v, const struct live_cloud *cloud, const char *program, bool limits);
void live_down(struct live *v);
/* Fails if a secret of the provider or of the announcement was logged. */
void live_log_check(struct live *v);

#endif
