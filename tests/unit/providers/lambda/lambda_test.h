/* Shared by the tests of the Lambda provider: an opened provider, a known key, golden files. */
#ifndef TESTS_LAMBDA_H
#define TESTS_LAMBDA_H

#include "base/base.h"
#include "drive.h"
#include "lambda/lambda.h"

#define LAMBDA_KEY "lambda-test-key-0123456789"
#define LAMBDA_JUP "jup-5ecre7-5ecre7-5ecre7"
#define LAMBDA_API "https://cloud.lambda.ai/api/v1"
#define LAMBDA_ID "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
#define LAMBDA_NAME "brk.7f3a.n12.1767323045"
#define LAMBDA_ERROR(code) "{\"error\":{\"code\":\"" code "\",\"message\":\"words of the vendor\"}}"

extern const char *const lambda_env[]; /* the key */
extern const char *const lambda_settings[]; /* an ssh key */

int lambda_setup(void **state); /* *state = struct drive *, opened with the above */
int lambda_teardown(void **state);
const char *golden(struct drive *d, const char *name);
/* Runs a verb against one reply (status, body) and returns the verdict. */
enum spot_step reply_with(struct drive *d, enum drive_verb verb, void *args, int status,
    const char *body);
void rc_is(const struct drive *d, enum spot_rc rc);

#define T(fn) cmocka_unit_test_setup_teardown(fn, lambda_setup, lambda_teardown)

#endif
