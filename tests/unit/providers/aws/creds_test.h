/* Shared by the tests of the credential chain: replies of its sources, and the credentials in
 * use. */
#ifndef TESTS_AWS_CREDS_TEST_H
#define TESTS_AWS_CREDS_TEST_H

#include "aws_test.h"

#include "aws_int.h"

#define STS "https://sts.us-east-1.amazonaws.com/"
#define STS_KEYS(op, id, expires) \
	"<" op "Response><" op "Result><Credentials><AccessKeyId>" id \
	"</AccessKeyId><SecretAccessKey>secret-of-" id \
	"</SecretAccessKey><SessionToken>token-of-" id "</SessionToken><Expiration>" expires \
	"</Expiration>" \
	"</Credentials></" op "Result></" op "Response>"
#define JSON_KEYS(id, expires) \
	"{\"AccessKeyId\":\"" id "\",\"SecretAccessKey\":\"secret-of-" id \
	"\",\"Token\":\"token-of-" id "\",\"Expiration\":\"" expires "\"}"
#define LATER "2015-08-30T13:36:00Z"
#define META "http://169.254.169.254/latest"
#define META_ROLE META "/meta-data/iam/security-credentials/"

/* The access key that a signed request now carries. */
static inline const char *key_in_use(struct drive *d)
{
	const char *account = NULL, *at;
	struct drive_try t = {
		.status = 200,
		.reply =
		    "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>"
		    "123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
	};

	drive_script(d, &t, 1);
	assert_int_equal(drive_run(d, DRIVE_WHOAMI, &account), SPOT_DONE);
	assert_string_equal(account, "123456789012");
	at = strstr(drive_request_text(d), "Credential=");
	assert_non_null(at);
	drive_script(d, NULL, 0);
	return arena_strndup(d->arena, at + 11, strcspn(at + 11, "/"));
}

#define AUTH(d, ...) RUN_SCRIPT(d, DRIVE_AUTH, NULL, __VA_ARGS__)
#define FILES_EMPTY \
	{ .read = "/h/.aws/config", .status = 404 }, \
	{ \
		.read = "/h/.aws/credentials", .status = 404 \
	}
#define FILES(config, credentials) \
	{ .read = "/h/.aws/config", .status = 200, .reply = config }, \
	{ \
		.read = "/h/.aws/credentials", .status = 200, .reply = credentials \
	}
#define ENV(...) ((const char *const[]){ "HOME", "/h", __VA_ARGS__, NULL })
#define NO_METADATA "AWS_EC2_METADATA_DISABLED", "true"

#endif
