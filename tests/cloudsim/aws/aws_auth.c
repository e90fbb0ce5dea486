/* Refusals of authentication, in each protocol's own words. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "base/text/text.h"

/* The verdicts as the services name them: EC2, query services (STS), JSON services, S3. Sources:
 * "Error codes for the Amazon EC2 API", "Common errors", S3 "Error responses". EC2 answers
 * RequestExpired also for expired temporary credentials. */
struct refusal {
	enum sig_verdict v;
	struct {
		int status;
		const char *code;
	} p[4];
};
static const struct refusal refusals[] = {
	{ SIG_ABSENT,
	    { { 403, "MissingAuthenticationToken" }, { 403, "MissingAuthenticationToken" },
		{ 400, "MissingAuthenticationTokenException" }, { 403, "AccessDenied" } } },
	{ SIG_MALFORMED,
	    { { 400, "IncompleteSignature" }, { 400, "IncompleteSignature" },
		{ 400, "IncompleteSignatureException" },
		{ 400, "AuthorizationHeaderMalformed" } } },
	{ SIG_KEY_UNKNOWN,
	    { { 401, "AuthFailure" }, { 403, "InvalidClientTokenId" },
		{ 400, "UnrecognizedClientException" }, { 403, "InvalidAccessKeyId" } } },
	{ SIG_MISMATCH,
	    { { 403, "SignatureDoesNotMatch" }, { 403, "SignatureDoesNotMatch" },
		{ 400, "InvalidSignatureException" }, { 403, "SignatureDoesNotMatch" } } },
	{ SIG_SKEWED,
	    { { 400, "RequestExpired" }, { 403, "SignatureDoesNotMatch" },
		{ 400, "InvalidSignatureException" }, { 403, "RequestTimeTooSkewed" } } },
	{ SIG_TOKEN_EXPIRED,
	    { { 400, "RequestExpired" }, { 403, "ExpiredToken" }, { 400, "ExpiredTokenException" },
		{ 400, "ExpiredToken" } } },
	{ SIG_TOKEN_INVALID,
	    { { 401, "AuthFailure" }, { 403, "InvalidClientTokenId" },
		{ 400, "UnrecognizedClientException" }, { 400, "InvalidToken" } } },
	{ SIG_PRESIGN_EXPIRED,
	    { { 400, "RequestExpired" }, { 403, "SignatureDoesNotMatch" },
		{ 400, "InvalidSignatureException" }, { 403, "AccessDenied" } } },
	{ SIG_HEADER_UNSIGNED,
	    { { 403, "SignatureDoesNotMatch" }, { 403, "SignatureDoesNotMatch" },
		{ 400, "InvalidSignatureException" }, { 403, "AccessDenied" } } },
	{ SIG_BODY_MISMATCH,
	    { { 403, "SignatureDoesNotMatch" }, { 403, "SignatureDoesNotMatch" },
		{ 400, "InvalidSignatureException" }, { 400, "XAmzContentSHA256Mismatch" } } },
	{ SIG_BODY_UNDECLARED,
	    { { 400, "IncompleteSignature" }, { 400, "IncompleteSignature" },
		{ 400, "IncompleteSignatureException" }, { 400, "InvalidRequest" } } },
	{ SIG_SCOPE,
	    { { 403, "SignatureDoesNotMatch" }, { 403, "SignatureDoesNotMatch" },
		{ 400, "InvalidSignatureException" }, { 400, "AuthorizationHeaderMalformed" } } },
};

static const char *mismatch_text(const struct sim_req *rq, const struct sig *g)
{
	if (rq->proto == PROTO_S3) {
		return "The request signature we calculated does not match the signature you "
		       "provided. Check your "
		       "key and signing method.";
	}
	return arena_printf(rq->arena,
	    "The request signature we calculated does not match the signature you "
	    "provided. Check your AWS Secret Access Key and signing method. Consult the service "
	    "documentation for "
	    "details.\n\nThe Canonical String for this request should have been\n'%s'\n\nThe "
	    "String-to-Sign should "
	    "have been\n'%s'\n",
	    g->canonical, g->to_sign);
}

static const char *skew_text(const struct sim_req *rq, const struct sig *g)
{
	int64_t now = sim_wall(rq->sim) + rq->skew_us;

	if (rq->proto == PROTO_EC2) {
		return "Request has expired.";
	}
	if (rq->proto == PROTO_S3) {
		return "The difference between the request time and the current time is too large.";
	}
	return g->at_us < now
	    ? arena_printf(rq->arena, "Signature expired: %s is now earlier than %s", g->amz_date,
		  aws_time_ms(rq->arena, now - 15 * 60 * SPOT_US_PER_S))
	    : arena_printf(rq->arena, "Signature not yet current: %s is still later than %s",
		  g->amz_date, aws_time_ms(rq->arena, now + 15 * 60 * SPOT_US_PER_S));
}

static const char *refusal_text(const struct sim_req *rq, const struct sig *g, enum sig_verdict v)
{
	switch (v) {
	case SIG_ABSENT:
		return rq->proto == PROTO_S3 ? "Access Denied"
					     : "Request is missing Authentication Token";
	case SIG_MALFORMED:
		return g->why;
	case SIG_KEY_UNKNOWN:
		return rq->proto == PROTO_EC2
		    ? "AWS was not able to validate the provided access credentials"
		    : rq->proto == PROTO_S3
		    ? "The AWS Access Key Id you provided does not exist in our records."
		    : "The security token included in the request is invalid.";
	case SIG_MISMATCH:
		return mismatch_text(rq, g);
	case SIG_SKEWED:
		return skew_text(rq, g);
	case SIG_TOKEN_EXPIRED:
		return rq->proto == PROTO_EC2 ? "Request has expired."
		    : rq->proto == PROTO_S3
		    ? "The provided token has expired."
		    : "The security token included in the request is expired";
	case SIG_TOKEN_INVALID:
		return rq->proto == PROTO_EC2
		    ? "AWS was not able to validate the provided access credentials"
		    : "The security token included in the request is invalid.";
	case SIG_PRESIGN_EXPIRED:
		return "Request has expired";
	case SIG_HEADER_UNSIGNED:
		return arena_printf(rq->arena,
		    "There were headers present in the request which were not signed or "
		    "are out of order: %s",
		    g->why);
	case SIG_BODY_MISMATCH:
		return "The provided 'x-amz-content-sha256' header does not match what was "
		       "computed.";
	case SIG_BODY_UNDECLARED:
		return "Missing required header for this request: x-amz-content-sha256";
	case SIG_SCOPE:
		return "Credential should be scoped to a valid date and region.";
	case SIG_OK:
		break;
	}
	return "";
}

bool aws_auth(struct sim_req *rq, struct sim_reply *rep)
{
	struct sig g;
	enum sig_verdict v;
	size_t column = rq->proto == PROTO_EC2 ? 0
	    : rq->proto == PROTO_QUERY         ? 1
	    : rq->proto == PROTO_JSON          ? 2
					       : 3;

	v = sig_read(rq, &g) ? sig_verify(rq, &g, &rq->cred) : SIG_MALFORMED;
	if (v == SIG_OK && rq->proto != PROTO_S3 &&
	    !market_region(rq->sim->market, CLOUD_AWS, g.region)) {
		v = SIG_SCOPE;
	}
	if (v == SIG_OK) {
		return true;
	}
	for (size_t k = 0; k < ARRAY_LEN(refusals); k++) {
		if (refusals[k].v == v) {
			reply_fail(rq, rep, refusals[k].p[column].status,
			    refusals[k].p[column].code, "%s", refusal_text(rq, &g, v));
		}
	}
	return false;
}
