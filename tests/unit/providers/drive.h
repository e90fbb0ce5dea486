/*
 * Drives one step function of a provider with a scripted transport: text in, text out, no loop, no
 * sockets. It plays the core's part by the letter of spot/provider.h. It re-enters the step with
 * the reply. On AGAIN it repeats with c->at as it was before the request was built, and c->in ==
 * NULL. On REAUTH it runs auth (once). It answers READ from the script. README.md has an example.
 *
 * Every mismatch fails the running cmocka test with the number of the try and the request in full.
 * Each step keeps these rules: strings are set, header and limit indexes in range, URLs absolute. A
 * verdict FAIL has an rc and words, and c->err holds no secret of the provider.
 */
#ifndef TESTS_DRIVE_H
#define TESTS_DRIVE_H

#include "base/base.h"
#include "spot/provider.h"

/* cmocka wants these before itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define DRIVE_WORDS 16

/* One expected request (or file read), and its reply. NULL and 0 fields are not checked. */
struct drive_try {
	/* expected */
	const char *read; /* SPOT_READ of exactly this path, not a request */
	const char *method;
	const char *url; /* exact; a trailing '*' makes it a prefix */
	const char *has[DRIVE_WORDS]; /* substrings of the body */
	const char *hasnt[DRIVE_WORDS]; /* must not be in the body, url or any header */
	const char *headers[DRIVE_WORDS]; /* "Name: substring of the value"; "!Name" = absent */
	const char *body; /* the whole body */
	const char *limit; /* name of the rate limit it draws from */
	const char *limit_scope;
	int mutating; /* 1 = must be, -1 = must not be */
	bool fresh; /* must ask for a connection of its own */
	/* reply */
	int status; /* 0 = the connection broke: no reply */
	const char *reply_headers[DRIVE_WORDS]; /* "Name: value" */
	const char *reply;
	size_t reply_n; /* 0 = strlen(reply) */
	int64_t later_us; /* the clock moves on before the reply is seen */
	/* of a stream: handed over one by one while the step answers MORE, before `reply` */
	const char *lines[DRIVE_WORDS];
};

enum drive_verb {
	DRIVE_AUTH = 1,
	DRIVE_REGIONS,
	DRIVE_POOLS,
	DRIVE_PRICES,
	DRIVE_LAUNCH,
	DRIVE_FIND,
	DRIVE_LIST,
	DRIVE_DESCRIBE,
	DRIVE_TERMINATE,
	DRIVE_WHOAMI,
	DRIVE_SIGNALS,
	DRIVE_QUOTAS,
	DRIVE_NOTICES,
	DRIVE_LAUNCH_GANG,
	DRIVE_VERIFY,
	DRIVE_WATCH,
	DRIVE_CHECK,
};

struct drive_conf { /* the source of the provider's conf */
	const char *const *env, *const *settings;
};

#define DRIVE_SECRETS_MAX 16

struct drive {
	const struct spot_provider_ops *ops;
	void *self;
	struct drive_conf *conf; /* lives until drive_fini; tests may change it in between */
	struct arena *arena; /* results live here until drive_fini */
	int64_t now_us; /* starts at DRIVE_NOW_US; tests may set it */
	uint64_t rnd;
	struct spot_call call; /* of the last run: err and all */
	const struct drive_try *script;
	size_t script_n, used;
	int agains, reauths; /* of the last run */
	int agains_max; /* default 5: then the verdict is FAIL, as in the core */
	int64_t waited_us; /* sum of retry_after_us of the last run */
	/* fuzzing: never asserts on requests; an exhausted script ends the run with
	 * SPOT_STEP_NONE */
	bool lenient;
	bool cycle; /* fuzzing: the script starts over when used up */
	/* the try whose lines are being handed over, and the next one */
	const struct drive_try *streaming;
	size_t line;
	size_t sends_max; /* default 1000 requests and reads per run */
	char *secrets[DRIVE_SECRETS_MAX]; /* registered for redaction */
	size_t secrets_n;
	FILE *dump; /* every request is written here, NULL = nowhere */
};

#define DRIVE_NOW_US \
	INT64_C(1440938160000000) /* 2015-08-30T12:36:00Z, the clock of AWS's vectors */

/* Opens ops; fails the test if open refuses. env and settings: NULL-terminated key, value, ...;
 * may be NULL. They must outlive d. */
void drive_init(struct drive *d, const struct spot_provider_ops *ops, const char *const *env,
    const char *const *settings);
/* Only opens and closes: the rc of open, for tests of settings. */
enum spot_rc drive_open(const struct spot_provider_ops *ops, const char *const *env,
    const char *const *settings, struct spot_err *err);
void drive_script(struct drive *d, const struct drive_try *script, size_t n);
/* Runs verb to its verdict: SPOT_DONE or SPOT_FAIL. args: struct spot_launch etc.; for WHOAMI
 * const char **; for AUTH NULL. */
enum spot_step drive_run(struct drive *d, enum drive_verb verb, void *args);
/* The script must be used up (not checked when lenient or cycling). */
void drive_used(const struct drive *d);
void drive_fini(struct drive *d);
/* Runs verb against exactly this script (a list of struct drive_try); the verdict. */
#define RUN_SCRIPT(d, verb, args, ...) \
	__extension__({ \
		const struct drive_try script_[] = { __VA_ARGS__ }; \
		drive_script(d, script_, ARRAY_LEN(script_)); \
		enum spot_step step_ = drive_run(d, verb, args); \
		drive_used(d); \
		drive_script(d, NULL, 0); \
		step_; \
	})
/* The step was FAIL, with this code and, if words is not NULL, with these among its words. */
void failed_with(const struct drive *d, enum spot_step s, enum spot_rc rc, const char *words);
/* Text of the request in d->call.out ("POST url\nname: value\n...\n\nbody\n"), in d->arena. */
const char *drive_request_text(struct drive *d);
/* Whole file as text in the arena; fails the test if it is not there. */
struct str drive_file(struct arena *a, const char *path);

#endif
