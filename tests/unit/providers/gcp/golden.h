/*
 * Golden exchanges of the Google Cloud provider: tests/golden/gcp/<case>.txt holds, in order, each request byte for
 * byte, the reply to it, and at the end the result as text. A case is a verb with fixed arguments and a fixed
 * clock, so that Google's own discovery documents can judge it (discovery_check.py).
 *
 *	--- request            "POST url", headers, empty line, body
 *	--- read PATH          a file that the provider asks for; the reply's body is its text
 *	--- reply STATUS       headers, empty line, body
 *	--- result             verdict and what came out
 *
 * GOLDEN_UPDATE=1 in the environment rewrites requests and results and keeps the replies.
 */
#ifndef TESTS_GCP_GOLDEN_H
#define TESTS_GCP_GOLDEN_H

#include "base/base.h"
#include "base/sbuf.h"
#include "drive.h"

#define GOLDEN_EXCHANGES 24

struct golden_file {
	struct arena *arena;
	struct drive_try tries[GOLDEN_EXCHANGES]; /* replies; .read set for files */
	const char *requests[GOLDEN_EXCHANGES], *raw[GOLDEN_EXCHANGES]; /* raw: the reply before @KEY@ was filled in */
	size_t n;
	const char *result;
};

/* One case: how to run it. */
struct golden_case {
	const char *name;
	enum drive_verb verb;
	const char *const *env, *const *settings; /* NULL: golden_env, golden_settings */
	bool no_token;				  /* auth is what is tested: do not authenticate before */
	void *(*args)(struct arena *a);
	void (*print)(const void *args, struct sbuf *out);
};
extern const struct golden_case golden_cases[];
extern const size_t golden_cases_n;
/* A token of the metadata server, for all cases that do not test auth. */
extern const char *const golden_env[], *const golden_settings[];
extern const struct drive_try golden_auth[];
extern const size_t golden_auth_n;
#define GOLDEN_NOW_US INT64_C(1767323045000000) /* 2026-01-02T03:04:05Z */
#define GOLDEN_TOKEN  "ya29.golden-access-token"

void golden_load(struct golden_file *f, const char *name);
void golden_free(struct golden_file *f);
/* Opens the provider for the case, token in place, script loaded; run with drive_run(d, k->verb, args). */
void golden_open(struct drive *d, const struct golden_case *k, const struct golden_file *f);
/* A file of tests/golden/gcp. */
struct str golden_data(struct arena *a, const char *name);
/* The key of service_account.txt in PEM; as JSON: with its line ends escaped. */
const char *golden_key(struct arena *a, bool json);
/* text with every `from` replaced. */
const char *golden_replace(struct arena *a, const char *text, const char *from, const char *to);
#define GOLDEN_EMAIL "test-iam-credentials@dummy-project-id.iam.gserviceaccount.com"

#endif
