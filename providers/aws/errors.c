#include "base/base.h"
#include "aws_priv.h"

/*
 * Every vendor code that means something to us, once. Sources: "Error codes for the Amazon EC2 API"
 * (docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html), the service models of STS,
 * Price List, Service Quotas and SSM, and botocore's retry lists. A code that is not here is judged
 * by its HTTP class.
 */

#include <strings.h>

#define SKEW_MIN_US (INT64_C(4) * 60 * SPOT_US_PER_S) /* the vendor allows 5 minutes */
#define IAM_WAIT_US (INT64_C(10) * SPOT_US_PER_S)

const struct aws_code aws_codes[] = {
	/* Capacity. InsufficientInstanceCapacity comes with HTTP 500 and must not be repeated in
	 * place. */
	{ "InsufficientInstanceCapacity", SPOT_NO_CAPACITY, AWS_FAIL, "pool" },
	{ "InsufficientHostCapacity", SPOT_NO_CAPACITY, AWS_FAIL, "pool" },
	{ "InsufficientCapacity", SPOT_NO_CAPACITY, AWS_FAIL, "pool" },
	{ "InsufficientCapacityOnHost", SPOT_NO_CAPACITY, AWS_FAIL, "pool" },
	{ "UnfulfillableCapacity", SPOT_NO_CAPACITY, AWS_FAIL, "request" },
	{ "ReservationCapacityExceeded", SPOT_NO_CAPACITY, AWS_FAIL, "reservation" },
	{ "InsufficientReservedInstanceCapacity", SPOT_NO_CAPACITY, AWS_FAIL, "pool" },
	{ "InsufficientFreeAddressesInSubnet", SPOT_NO_CAPACITY, AWS_FAIL, "subnet",
	    SPOT_SCOPE_ZONE },
	{ "SpotMaxPriceTooLow", SPOT_PRICE_CAP, AWS_FAIL, "pool" },
	{ "Unsupported", SPOT_NOT_OFFERED, AWS_FAIL, "type in zone" },
	{ "UnsupportedOperation", SPOT_NOT_OFFERED, AWS_FAIL, "type in zone" },
	{ "InvalidInstanceType", SPOT_NOT_OFFERED, AWS_FAIL, "type in region", SPOT_SCOPE_TYPE },
	/* Account limits. */
	{ "MaxSpotInstanceCountExceeded", SPOT_QUOTA, AWS_FAIL, "spot quota class in region" },
	{ "SpotInstanceCountExceeded", SPOT_QUOTA, AWS_FAIL, "spot quota class in region" },
	{ "VcpuLimitExceeded", SPOT_QUOTA, AWS_FAIL, "on-demand quota class in region" },
	{ "InstanceLimitExceeded", SPOT_QUOTA, AWS_FAIL, "on-demand quota class in region" },
	{ "MaxSpotFleetRequestCountExceeded", SPOT_QUOTA, AWS_FAIL, "fleets in region" },
	{ "MaxFleetCountExceeded", SPOT_QUOTA, AWS_FAIL, "fleets in region" },
	{ "ResourceCountExceeded", SPOT_QUOTA, AWS_FAIL, "call" },
	{ "RequestResourceCountExceeded", SPOT_QUOTA, AWS_FAIL, "call" },
	{ "VolumeLimitExceeded", SPOT_QUOTA, AWS_FAIL, "volumes in region", SPOT_SCOPE_REGION },
	{ "MaxIOPSLimitExceeded", SPOT_QUOTA, AWS_FAIL, "volumes in region", SPOT_SCOPE_REGION },
	{ "AddressLimitExceeded", SPOT_QUOTA, AWS_FAIL, "addresses in region", SPOT_SCOPE_REGION },
	{ "NetworkInterfaceLimitExceeded", SPOT_QUOTA, AWS_FAIL, "interfaces in region",
	    SPOT_SCOPE_REGION },
	{ "PrivateIpAddressLimitExceeded", SPOT_QUOTA, AWS_FAIL, "interface" },
	{ "PlacementGroupLimitExceeded", SPOT_QUOTA, AWS_FAIL, "placement groups in region",
	    SPOT_SCOPE_POOL },
	{ "MaxTemplateLimitExceeded", SPOT_QUOTA, AWS_FAIL, "launch templates in region" },
	{ "MaxTemplateVersionLimitExceeded", SPOT_QUOTA, AWS_FAIL, "launch template" },
	{ "MaxConfigLimitExceededException", SPOT_QUOTA, AWS_FAIL,
	    "placement-score configurations per day" },
	{ "TargetCapacityLimitExceededException", SPOT_QUOTA, AWS_FAIL,
	    "placement-score capacity" },
	/* Throttling (botocore retries/standard.py, ThrottledRetryableChecker). */
	{ "RequestLimitExceeded", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "Throttling", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "ThrottlingException", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "ThrottledException", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "RequestThrottled", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "RequestThrottledException", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "TooManyRequestsException", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "EC2ThrottledException", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "BandwidthLimitExceeded", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "PriorRequestNotComplete", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "ProvisionedThroughputExceededException", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "TransactionInProgressException", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "OverLimit", SPOT_THROTTLED, AWS_AGAIN, "messages in flight" },
	{ "KmsThrottled", SPOT_THROTTLED, AWS_AGAIN, "key of the queue" },
	{ "LimitExceededException", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	{ "SlowDown", SPOT_THROTTLED, AWS_AGAIN, "API in region" },
	/* Faults of the vendor: repeat with the same token. */
	{ "InternalError", SPOT_UNAVAILABLE, AWS_AGAIN, "region" },
	{ "InternalFailure", SPOT_UNAVAILABLE, AWS_AGAIN, "region" },
	{ "InternalErrorException", SPOT_UNAVAILABLE, AWS_AGAIN, "region" },
	{ "InternalServerError", SPOT_UNAVAILABLE, AWS_AGAIN, "region" },
	{ "ServiceException", SPOT_UNAVAILABLE, AWS_AGAIN, "region" },
	{ "ServiceUnavailable", SPOT_UNAVAILABLE, AWS_AGAIN, "region" },
	{ "Unavailable", SPOT_UNAVAILABLE, AWS_AGAIN, "region" },
	{ "ServerInternal", SPOT_UNAVAILABLE, AWS_AGAIN, "region" },
	{ "RequestTimeout", SPOT_UNAVAILABLE, AWS_AGAIN, "region" },
	{ "RequestTimeoutException", SPOT_UNAVAILABLE, AWS_AGAIN, "region" },
	{ "IDPCommunicationError", SPOT_UNAVAILABLE, AWS_AGAIN, "identity provider" },
	{ "PendingVerification", SPOT_UNAVAILABLE, AWS_FAIL, "account in region" },
	{ "PendingSnapshotLimitExceeded", SPOT_UNAVAILABLE, AWS_FAIL, "region" },
	/* Idempotency (docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html). */
	{ "IdempotentParameterMismatch", SPOT_MISMATCH, AWS_FAIL, "token" },
	{ "IdempotentInstanceTerminated", SPOT_GONE, AWS_FAIL, "token" },
	/* Authentication. */
	{ "ExpiredToken", SPOT_UNAUTHENTICATED, AWS_REAUTH, "credentials" },
	{ "ExpiredTokenException", SPOT_UNAUTHENTICATED, AWS_REAUTH, "credentials" },
	{ "RequestExpired", SPOT_UNAUTHENTICATED, AWS_EXPIRED, "credentials or clock" },
	{ "RequestTimeTooSkewed", SPOT_UNAUTHENTICATED, AWS_SKEW, "clock" },
	{ "RequestInTheFuture", SPOT_UNAUTHENTICATED, AWS_SKEW, "clock" },
	{ "SignatureDoesNotMatch", SPOT_UNAUTHENTICATED, AWS_KEYS, "credentials or clock" },
	{ "InvalidSignatureException", SPOT_UNAUTHENTICATED, AWS_KEYS, "credentials or clock" },
	{ "AuthFailure", SPOT_UNAUTHENTICATED, AWS_KEYS, "credentials or clock" },
	{ "InvalidClientTokenId", SPOT_UNAUTHENTICATED, AWS_REAUTH, "credentials" },
	{ "UnrecognizedClientException", SPOT_UNAUTHENTICATED, AWS_REAUTH, "credentials" },
	{ "MissingAuthenticationToken", SPOT_UNAUTHENTICATED, AWS_FAIL, "credentials" },
	{ "MissingAuthenticationTokenException", SPOT_UNAUTHENTICATED, AWS_FAIL, "credentials" },
	{ "IncompleteSignature", SPOT_UNAUTHENTICATED, AWS_FAIL, "credentials" },
	{ "InvalidIdentityToken", SPOT_UNAUTHENTICATED, AWS_FAIL, "web identity token" },
	{ "IDPRejectedClaim", SPOT_UNAUTHENTICATED, AWS_FAIL, "web identity token" },
	{ "InvalidAccessKeyId", SPOT_UNAUTHENTICATED, AWS_REAUTH, "credentials" },
	/* Authorization. */
	{ "UnauthorizedOperation", SPOT_DENIED, AWS_FAIL, "account" },
	{ "AccessDenied", SPOT_DENIED, AWS_FAIL, "account" },
	{ "AccessDeniedException", SPOT_DENIED, AWS_FAIL, "account" },
	{ "AuthFailure.ServiceLinkedRoleCreationNotPermitted", SPOT_DENIED, AWS_FAIL,
	    "spot in account: create AWSServiceRoleForEC2Spot", SPOT_SCOPE_MARKET },
	{ "KmsAccessDenied", SPOT_DENIED, AWS_FAIL, "key of the queue" },
	{ "OptInRequired", SPOT_DENIED, AWS_FAIL, "account", SPOT_SCOPE_PROVIDER },
	{ "Blocked", SPOT_DENIED, AWS_FAIL, "account", SPOT_SCOPE_PROVIDER },
	{ "AccountDisabled", SPOT_DENIED, AWS_FAIL, "account", SPOT_SCOPE_PROVIDER },
	{ "RegionDisabledException", SPOT_DENIED, AWS_FAIL, "region" },
	{ "OperationNotPermitted", SPOT_DENIED, AWS_FAIL, "instance" },
	/* Things the operator named that are not there. */
	{ "InvalidAMIID.NotFound", SPOT_CONFIG, AWS_FAIL, "image in region" },
	{ "InvalidAMIID.Malformed", SPOT_CONFIG, AWS_FAIL, "image in region" },
	{ "InvalidAMIID.Unavailable", SPOT_CONFIG, AWS_FAIL, "image in region" },
	{ "InvalidSubnetID.NotFound", SPOT_CONFIG, AWS_FAIL, "subnet" },
	{ "InvalidSubnet", SPOT_CONFIG, AWS_FAIL, "subnet" },
	{ "InvalidGroup.NotFound", SPOT_CONFIG, AWS_FAIL, "security group" },
	{ "InvalidSecurityGroupID.NotFound", SPOT_CONFIG, AWS_FAIL, "security group" },
	{ "InvalidGroupId.Malformed", SPOT_CONFIG, AWS_FAIL, "security group" },
	{ "VPCIdNotSpecified", SPOT_CONFIG, AWS_FAIL, "region: no default VPC, set subnet.<zone>" },
	{ "MissingInput", SPOT_CONFIG, AWS_FAIL, "region: no default subnet, set subnet.<zone>" },
	{ "ParameterNotFound", SPOT_CONFIG, AWS_FAIL, "ami_parameter in region" },
	{ "QueueDoesNotExist", SPOT_CONFIG, AWS_FAIL, "interruption_queue" },
	{ "AWS.SimpleQueueService.NonExistentQueue", SPOT_CONFIG, AWS_FAIL, "interruption_queue" },
	{ "InvalidAddress", SPOT_CONFIG, AWS_FAIL, "interruption_queue" },
	{ "InvalidCapacityReservationId.NotFound", SPOT_NO_CAPACITY, AWS_FAIL, "reservation" },
	{ "CapacityReservationNotActive", SPOT_NO_CAPACITY, AWS_FAIL, "reservation" },
	{ "InvalidLaunchTemplateId.NotFound", SPOT_CONFIG, AWS_FAIL, "launch template" },
	{ "InvalidBlockDeviceMapping", SPOT_CONFIG, AWS_FAIL, "root_gib or root_device" },
	/* Things that are gone. */
	{ "InvalidInstanceID.NotFound", SPOT_NOT_FOUND, AWS_FAIL, "instance" },
	{ "InvalidInstanceID.Malformed", SPOT_NOT_FOUND, AWS_FAIL, "instance" },
	{ "InvalidSpotInstanceRequestID.NotFound", SPOT_NOT_FOUND, AWS_FAIL, "spot request" },
	{ "InvalidSpotInstanceRequestID.Malformed", SPOT_NOT_FOUND, AWS_FAIL, "spot request" },
	{ "NoSuchResourceException", SPOT_NOT_FOUND, AWS_FAIL, "quota" },
	{ "NotFoundException", SPOT_NOT_FOUND, AWS_FAIL, "price list" },
	{ "IncorrectInstanceState", SPOT_CONFLICT, AWS_FAIL, "instance" },
	/* A launch makes its group anew, under the same name. */
	{ "InvalidPlacementGroup.Unknown", SPOT_UNAVAILABLE, AWS_FAIL, "placement group" },
	{ "InvalidPlacementGroup.InUse", SPOT_CONFLICT, AWS_FAIL, "placement group" },
	{ "InvalidNextToken", SPOT_BAD_REPLY, AWS_FAIL, "page" },
	{ "InvalidNextTokenException", SPOT_BAD_REPLY, AWS_FAIL, "page" },
	{ "ExpiredNextTokenException", SPOT_BAD_REPLY, AWS_FAIL, "page" },
	{ "InvalidPaginationTokenException", SPOT_BAD_REPLY, AWS_FAIL, "page" },
	/* Wrong requests. */
	{ "InvalidUserData.Malformed", SPOT_INVALID, AWS_FAIL, "user data" },
	{ "InvalidParameterValue", SPOT_INVALID, AWS_FAIL, "call" },
	{ "InvalidParameter", SPOT_INVALID, AWS_FAIL, "call" },
	{ "InvalidParameterException", SPOT_INVALID, AWS_FAIL, "call" },
	{ "InvalidParameterCombination", SPOT_INVALID, AWS_FAIL, "call" },
	{ "MissingParameter", SPOT_INVALID, AWS_FAIL, "call" },
	{ "UnknownParameter", SPOT_INVALID, AWS_FAIL, "call" },
	{ "ValidationError", SPOT_INVALID, AWS_FAIL, "call" },
	{ "ValidationException", SPOT_INVALID, AWS_FAIL, "call" },
	{ "InvalidAction", SPOT_INVALID, AWS_FAIL, "call" },
	{ "MalformedQueryString", SPOT_INVALID, AWS_FAIL, "call" },
	{ "TagLimitExceeded", SPOT_INVALID, AWS_FAIL, "tags" },
};
const size_t aws_codes_n = ARRAY_LEN(aws_codes);

/* A freshly made instance profile takes seconds to reach EC2 (Karpenter:
 * IsInstanceProfileNotFound). */
static const struct aws_code profile_not_yet = { "InvalidParameterValue", SPOT_CONFIG, AWS_AGAIN,
	"instance profile" };

const struct aws_code *aws_code_find(const char *code, const char *message)
{
	/* Tools print "Server.X" and "Client.X" for the same codes. */
	if (str_prefix(code, "Server.") || str_prefix(code, "Client.")) {
		code += 7;
	}
	if (strcmp(code, "InvalidParameterValue") == 0 && message != NULL &&
	    strstr(message, "Invalid IAM Instance Profile")) {
		return &profile_not_yet;
	}
	for (size_t i = 0; i < aws_codes_n; i++) {
		if (strcmp(aws_codes[i].code, code) == 0) {
			return &aws_codes[i];
		}
	}
	return NULL;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *aws_words(struct arena *a, const char *message)
{
	/* After these words comes an encrypted policy dump, or the signed headers with the
	 * token. */
	static const char *const cuts[] = { "Encoded authorization failure message",
		"The Canonical String for this request", "The String-to-Sign should have been" };
	char *text = arena_strdup(a, message);

	for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
		char *at = strstr(text, cuts[i]);

		if (at != NULL) {
			*at = '\0';
		}
	}
	return redact_words(a, text, SIZE_MAX);
}

/* ---- reading an error reply ------------------------------------------------------------------ */

/* <Response><Errors><Error> of EC2, <ErrorResponse><Error> of STS, <Error> of S3. */
static bool error_read_xml(struct spot_call *c, const char **ret_code, const char **ret_message)
{
	struct xml *doc;
	const struct xml *e;

	if (xml_parse(c->arena, c->in->body, &doc, NULL) != SPOT_OK) {
		return false;
	}
	e = strcmp(doc->name, "Error") == 0 ? doc : xml_at(doc, "Errors/Error");
	if (e == NULL) {
		e = xml_at(doc, "Error");
	}
	*ret_code = xml_text(e, "Code", "");
	*ret_message = xml_text(e, "Message", "");
	return true;
}

/* "com.amazonaws.ssm#ParameterNotFound:http://..." to "ParameterNotFound". */
static const char *json_code(struct arena *a, const char *code)
{
	const char *hash = strchr(code, '#');

	if (hash != NULL) {
		code = hash + 1;
	}
	return arena_strndup(a, code, strcspn(code, ":;"));
}

static bool error_read_json(struct spot_call *c, const char **ret_code, const char **ret_message)
{
	json_t *doc AUTO(json) = NULL;
	const char *code = spot_http_header(c->in, "x-amzn-errortype"), *message;

	if (json_parse(c->in->body, "error reply", &doc, NULL) != SPOT_OK) {
		return false;
	}
	message = json_string_value(json_object_get(doc, "message"));
	if (message == NULL) {
		message = json_string_value(json_object_get(doc, "Message"));
	}
	if (str_empty(code)) {
		code = json_string_value(json_object_get(doc, "__type"));
	}
	if (str_empty(code)) {
		code = json_string_value(json_object_get(doc, "code"));
	}
	*ret_code = json_code(c->arena, code != NULL ? code : "");
	*ret_message = arena_strdup(c->arena, message != NULL ? message : "");
	return true;
}

void aws_error_read(struct spot_call *c, const char **ret_code, const char **ret_message)
{
	const char *body = c->in->body.p;
	const char *header = spot_http_header(c->in, "x-amzn-errortype");
	size_t skip = body != NULL ? strspn(body, " \t\r\n\xef\xbb\xbf") : 0;
	bool ok = false;

	*ret_code = *ret_message = "";
	if (body != NULL && body[skip] == '<') {
		ok = error_read_xml(c, ret_code, ret_message);
	} else if (body != NULL && body[skip] == '{') {
		ok = error_read_json(c, ret_code, ret_message);
	}
	if (!ok && !str_empty(header)) {
		*ret_code = json_code(c->arena, header);
	}
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* Only a clock that is off explains these codes as skew; otherwise the keys are wrong. */
static bool clock_resync(struct aws *self, struct spot_call *c)
{
	struct call_state *st = c->state;
	int64_t skew, off;

	if (st == NULL || st->resynced || !call_clock_off(c, &skew)) {
		return false;
	}
	off = skew - self->skew_us;
	if (off < SKEW_MIN_US && off > -SKEW_MIN_US) {
		return false;
	}
	self->skew_us = skew;
	st->resynced = true;
	return true;
}

static enum spot_step error_again(struct spot_call *c, const char *action, const struct aws_code *e,
    const char *code, const char *words)
{
	int64_t wait = call_retry_after_us(c);
	enum spot_rc rc = e->rc;

	/* After a fault of the vendor nobody knows what happened to a request that creates things.
	 */
	if (c->mutating && rc == SPOT_UNAVAILABLE) {
		rc = SPOT_UNKNOWN;
	}
	if (wait == 0 && rc == SPOT_CONFIG) {
		wait = IAM_WAIT_US;
	}
	return call_again(c, rc, wait, code, "aws %s: %s (%s): %s", action, code, e->scope, words);
}

enum spot_step aws_error(struct aws *self, struct spot_call *c, const char *action,
    const char *code, const char *message)
{
	const struct aws_code *e;
	const char *words = aws_words(c->arena, message);

	code = aws_words(c->arena, code);
	e = *code ? aws_code_find(code, message) : NULL;
	if (e == NULL) {
		return call_status_verdict(c, "aws", action, code, words, call_retry_after_us(c));
	}
	switch (e->how) {
	case AWS_AGAIN:
		return error_again(c, action, e, code, words);
	case AWS_EXPIRED:
	case AWS_KEYS:
	case AWS_SKEW:
		if (clock_resync(self, c)) {
			return call_again(c, e->rc, 0, code,
			    "aws %s: %s: our clock is off, taking the vendor's", action, code);
		}
		/* EC2 says RequestExpired for an expired session token too. Keys without expiry may
		 * have been replaced in their file since. */
		if (e->how == AWS_SKEW ||
		    (e->how == AWS_EXPIRED && !secret_set(&self->keys.session_token))) {
			break;
		}
		/* fall through */
	case AWS_REAUTH:
		call_fail(c, e->rc, code, "aws %s: %s: %s", action, code, words);
		return SPOT_REAUTH;
	case AWS_FAIL:
		break;
	}
	call_fail(c, e->rc, code, "aws %s: %s (%s): %s", action, code, e->scope, words);
	c->err.scope = e->rests;
	return SPOT_FAIL;
}
