/* Shared by the tests of the AWS provider: keys, an authenticated drive, error replies. */
#ifndef TESTS_AWS_TEST_H
#define TESTS_AWS_TEST_H

#include "base/base.h"
#include "base/text/text.h"
#include "golden.h"
#include "aws.h"

#define EC2_XML(code, message) \
	"<Response><Errors><Error><Code>" code "</Code><Message>" message \
	"</Message></Error></Errors>" \
	"<RequestID>r-1</RequestID></Response>"
#define US_EAST "https://ec2.us-east-1.amazonaws.com/"

/* Keys of every case that has none of its own. */
extern const char *const golden_env[];

/* Opens with keys in the environment and runs auth. settings may be NULL. */
static inline void keyed_init(struct drive *d, const char *const *settings)
{
	drive_init(d, &aws_ops, golden_env, settings);
	assert_int_equal(drive_run(d, DRIVE_AUTH, NULL), SPOT_DONE);
}

#endif
