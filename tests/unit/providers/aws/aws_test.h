/* Shared by the tests of the AWS provider: keys, an authenticated drive, error replies. */
#ifndef TESTS_AWS_TEST_H
#define TESTS_AWS_TEST_H

#include "base/base.h"
#include "base/str.h"
#include "golden.h"
#include "aws.h"

#define EC2_XML(code, message)                                                                     \
	"<Response><Errors><Error><Code>" code "</Code><Message>" message                          \
	"</Message></Error></Errors>"                                                              \
	"<RequestID>r-1</RequestID></Response>"
#define US_EAST "https://ec2.us-east-1.amazonaws.com/"

/* Opens with keys in the environment and runs auth. settings may be NULL. */
static inline void keyed_init(struct drive *d, const char *const *settings)
{
	drive_init(d, &aws_ops, golden_env, settings);
	assert_int_equal(drive_run(d, DRIVE_AUTH, NULL), SPOT_DONE);
}

#define RUN_SCRIPT(d, verb, args, ...)                                                             \
	__extension__({                                                                            \
		static const struct drive_try script_[] = {__VA_ARGS__};                           \
		drive_script(d, script_, ARRAY_LEN(script_));                                      \
		enum spot_step step_ = drive_run(d, verb, args);                                   \
		drive_used(d);                                                                     \
		step_;                                                                             \
	})

static inline void failed_with(
    const struct drive *d, enum spot_step s, enum spot_rc rc, const char *words)
{
	assert_int_equal(s, SPOT_FAIL);
	if (d->call.err.rc != rc)
		fail_msg("rc is %s, not %s: %s", spot_rc_name(d->call.err.rc), spot_rc_name(rc),
		    d->call.err.text);
	if (words != NULL && strstr(d->call.err.text, words) == NULL)
		fail_msg("'%s' is not in: %s", words, d->call.err.text);
}

#endif
