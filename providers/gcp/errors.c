#include "base/base.h"
#include "gcp_priv.h"

/*
 * Errors, in one table. The same error has two spellings. The body of a refused request has
 * camelCase reasons
 * (docs.cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability, api
 * error reference). A failed operation has UPPER_SNAKE codes. They are compared without case and
 * underscores. Which code means what is from Google's troubleshooting pages and from SkyPilot's
 * FailoverCloudErrorHandlerV2.
 */

#include <strings.h>

#define MINUTE_US (INT64_C(60) * SPOT_US_PER_S)
#define RANK_QUOTA 3
#define RANK_EMPTY 2
#define RANK_KNOWN 1
#define RANK_SUMMARY (-1)

const struct gcp_code gcp_codes[] = {
	/* Nothing left there. */
	{ "ZONE_RESOURCE_POOL_EXHAUSTED", SPOT_NO_CAPACITY, GCP_FAIL, RANK_EMPTY, "zone",
	    SPOT_SCOPE_POOL },
	{ "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", SPOT_NO_CAPACITY, GCP_FAIL, RANK_EMPTY,
	    "zone", SPOT_SCOPE_POOL },
	{ "REGION_RESOURCE_POOL_EXHAUSTED", SPOT_NO_CAPACITY, GCP_FAIL, RANK_EMPTY, "region",
	    SPOT_SCOPE_TYPE },
	{ "RESOURCE_POOL_EXHAUSTED", SPOT_NO_CAPACITY, GCP_FAIL, RANK_EMPTY, "region",
	    SPOT_SCOPE_TYPE },
	{ "INSUFFICIENT_CAPACITY", SPOT_NO_CAPACITY, GCP_FAIL, RANK_EMPTY, "zone" },
	{ "STOCKOUT", SPOT_NO_CAPACITY, GCP_FAIL, RANK_EMPTY, "zone" },
	/* A spot VM that is preempted while it is being created ends so (SkyPilot). */
	{ "UNSUPPORTED_OPERATION", SPOT_NO_CAPACITY, GCP_FAIL, RANK_EMPTY,
	    "preempted while created" },
	/* A summary that names no cause: its children do (launch_gang asks them). */
	{ "VM_MIN_COUNT_NOT_REACHED", SPOT_NO_CAPACITY, GCP_FAIL, RANK_SUMMARY, "zone" },
	/* The project's limits. */
	{ "QUOTA_EXCEEDED", SPOT_QUOTA, GCP_FAIL, RANK_QUOTA, "quota" },
	{ "RESOURCE_EXHAUSTED", SPOT_QUOTA, GCP_FAIL, RANK_QUOTA, "quota" },
	{ "limitExceeded", SPOT_QUOTA, GCP_FAIL, RANK_QUOTA, "quota" },
	/* Too fast: buckets are filled at the minute's turn (compute/api-quota). */
	{ "rateLimitExceeded", SPOT_THROTTLED, GCP_MINUTE, RANK_KNOWN, "rate limit" },
	{ "userRateLimitExceeded", SPOT_THROTTLED, GCP_MINUTE, RANK_KNOWN, "rate limit" },
	{ "RESOURCE_OPERATION_RATE_EXCEEDED", SPOT_THROTTLED, GCP_MINUTE, RANK_KNOWN,
	    "rate limit" },
	{ "dailyLimitExceeded", SPOT_QUOTA, GCP_FAIL, RANK_KNOWN, "requests of this day",
	    SPOT_SCOPE_PROVIDER },
	/* The far side. */
	{ "RESOURCE_NOT_READY", SPOT_UNAVAILABLE, GCP_AGAIN, RANK_KNOWN, "resource" },
	{ "INTERNAL_ERROR", SPOT_UNAVAILABLE, GCP_AGAIN, 0, "Google" },
	{ "INTERNAL", SPOT_UNAVAILABLE, GCP_AGAIN, 0, "Google" },
	{ "backendError", SPOT_UNAVAILABLE, GCP_AGAIN, 0, "Google" },
	{ "UNAVAILABLE", SPOT_UNAVAILABLE, GCP_AGAIN, 0, "Google" },
	{ "SERVICE_UNAVAILABLE", SPOT_UNAVAILABLE, GCP_AGAIN, 0, "Google" },
	{ "DEADLINE_EXCEEDED", SPOT_UNAVAILABLE, GCP_AGAIN, 0, "Google" },
	{ "ABORTED", SPOT_UNAVAILABLE, GCP_AGAIN, 0, "Google" },
	/* Authentication and authorization. */
	{ "authError", SPOT_UNAUTHENTICATED, GCP_REAUTH, RANK_KNOWN, "access token" },
	{ "UNAUTHENTICATED", SPOT_UNAUTHENTICATED, GCP_REAUTH, RANK_KNOWN, "access token" },
	{ "ACCESS_TOKEN_EXPIRED", SPOT_UNAUTHENTICATED, GCP_REAUTH, RANK_KNOWN, "access token" },
	{ "required_login", SPOT_UNAUTHENTICATED, GCP_REAUTH, RANK_KNOWN, "access token" },
	{ "forbidden", SPOT_DENIED, GCP_FAIL, RANK_KNOWN, "permission", SPOT_SCOPE_PROVIDER },
	{ "IAM_PERMISSION_DENIED", SPOT_DENIED, GCP_FAIL, RANK_KNOWN, "permission",
	    SPOT_SCOPE_PROVIDER },
	{ "PERMISSION_DENIED", SPOT_DENIED, GCP_FAIL, RANK_KNOWN, "permission",
	    SPOT_SCOPE_PROVIDER },
	{ "PERMISSIONS_ERROR", SPOT_DENIED, GCP_FAIL, RANK_KNOWN, "permission",
	    SPOT_SCOPE_PROVIDER },
	{ "ACCESS_TOKEN_SCOPE_INSUFFICIENT", SPOT_DENIED, GCP_FAIL, RANK_KNOWN,
	    "scope of the access token", SPOT_SCOPE_PROVIDER },
	{ "insufficientPermissions", SPOT_DENIED, GCP_FAIL, RANK_KNOWN, "permission",
	    SPOT_SCOPE_PROVIDER },
	{ "accessNotConfigured", SPOT_CONFIG, GCP_FAIL, RANK_KNOWN,
	    "API is not enabled in the project", SPOT_SCOPE_PROVIDER },
	{ "SERVICE_DISABLED", SPOT_CONFIG, GCP_FAIL, RANK_KNOWN,
	    "API is not enabled in the project", SPOT_SCOPE_PROVIDER },
	{ "BILLING_DISABLED", SPOT_CONFIG, GCP_FAIL, RANK_KNOWN, "billing of the project",
	    SPOT_SCOPE_PROVIDER },
	{ "invalid_grant", SPOT_UNAUTHENTICATED, GCP_FAIL, RANK_KNOWN,
	    "clock that is off, or a key that was deleted" },
	{ "invalid_client", SPOT_UNAUTHENTICATED, GCP_FAIL, RANK_KNOWN, "credentials" },
	{ "unauthorized_client", SPOT_UNAUTHENTICATED, GCP_FAIL, RANK_KNOWN, "credentials" },
	{ "invalid_target", SPOT_CONFIG, GCP_FAIL, RANK_KNOWN, "audience of the credentials file" },
	{ "invalid_request", SPOT_CONFIG, GCP_FAIL, RANK_KNOWN, "credentials file" },
	{ "invalid_scope", SPOT_CONFIG, GCP_FAIL, RANK_KNOWN, "credentials" },
	{ "access_denied", SPOT_DENIED, GCP_FAIL, RANK_KNOWN, "credentials" },
	/* Wrong requests. */
	{ "invalid", SPOT_INVALID, GCP_FAIL, RANK_KNOWN, "request" },
	{ "INVALID_ARGUMENT", SPOT_INVALID, GCP_FAIL, RANK_KNOWN, "request" },
	{ "INVALID_FIELD_VALUE", SPOT_INVALID, GCP_FAIL, RANK_KNOWN, "request" },
	{ "INVALID_USAGE", SPOT_INVALID, GCP_FAIL, RANK_KNOWN, "request" },
	{ "invalidParameter", SPOT_INVALID, GCP_FAIL, RANK_KNOWN, "request" },
	{ "badRequest", SPOT_INVALID, GCP_FAIL, RANK_KNOWN, "request" },
	{ "parseError", SPOT_INVALID, GCP_FAIL, RANK_KNOWN, "request" },
	{ "required", SPOT_INVALID, GCP_FAIL, RANK_KNOWN, "request" },
	{ "FAILED_PRECONDITION", SPOT_CONFLICT, GCP_FAIL, RANK_KNOWN, "resource" },
	{ "SERVICE_ACCOUNT_ACCESS_DENIED", SPOT_DENIED, GCP_FAIL, RANK_KNOWN, "service account" },
	{ "EXTERNAL_RESOURCE_NOT_FOUND", SPOT_CONFIG, GCP_FAIL, RANK_KNOWN, "service account" },
	{ "IP_SPACE_EXHAUSTED", SPOT_QUOTA, GCP_FAIL, RANK_QUOTA, "addresses of the subnetwork",
	    SPOT_SCOPE_REGION },
	{ "IP_SPACE_EXHAUSTED_WITH_DETAILS", SPOT_QUOTA, GCP_FAIL, RANK_QUOTA,
	    "addresses of the subnetwork", SPOT_SCOPE_REGION },
	{ "conditionNotMet", SPOT_CONFLICT, GCP_FAIL, RANK_KNOWN, "resource" },
	{ "CONDITION_NOT_MET", SPOT_CONFLICT, GCP_FAIL, RANK_KNOWN, "resource" },
	{ "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", SPOT_CONFLICT, GCP_FAIL, RANK_KNOWN, "resource" },
	{ "alreadyExists", SPOT_CONFLICT, GCP_FAIL, RANK_KNOWN, "name" },
	{ "RESOURCE_ALREADY_EXISTS", SPOT_CONFLICT, GCP_FAIL, RANK_KNOWN, "name" },
	{ "notFound", SPOT_NOT_FOUND, GCP_FAIL, RANK_KNOWN, "resource" },
	{ "NOT_FOUND", SPOT_NOT_FOUND, GCP_FAIL, RANK_KNOWN, "resource" },
	{ "RESOURCE_NOT_FOUND", SPOT_CONFIG, GCP_FAIL, RANK_KNOWN,
	    "image, network, disk type or service account" },
};
const size_t gcp_codes_n = ARRAY_LEN(gcp_codes);

/* The words decide where one code stands for several things. */
static const struct {
	const char *code, *words;
	struct gcp_code means;
} by_words[] = {
	{ "RESOURCE_NOT_FOUND", "/instances/",
	    { "RESOURCE_NOT_FOUND", SPOT_NO_CAPACITY, GCP_FAIL, RANK_EMPTY,
		"preempted while created" } },
	{ "notFound", "/machineTypes/",
	    { "notFound", SPOT_NOT_OFFERED, GCP_FAIL, RANK_KNOWN, "machine type in zone" } },
	{ "invalid", "resource.machineType",
	    { "invalid", SPOT_NOT_OFFERED, GCP_FAIL, RANK_KNOWN, "machine type in zone" } },
	{ "INVALID_FIELD_VALUE", "resource.machineType",
	    { "INVALID_FIELD_VALUE", SPOT_NOT_OFFERED, GCP_FAIL, RANK_KNOWN,
		"machine type in zone" } },
	{ "forbidden", "is not found or access is unauthorized",
	    { "forbidden", SPOT_NOT_OFFERED, GCP_FAIL, RANK_KNOWN, "zone", SPOT_SCOPE_ZONE } },
	{ "notFound", "is not found or access is unauthorized",
	    { "notFound", SPOT_NOT_OFFERED, GCP_FAIL, RANK_KNOWN, "zone", SPOT_SCOPE_ZONE } },
	/* 412: a policy of the organization, which a repeat does not change. */
	{ "conditionNotMet", "onstraint ",
	    { "conditionNotMet", SPOT_CONFIG, GCP_FAIL, RANK_KNOWN,
		"policy of the organization" } },
	{ "QUOTA_EXCEEDED", "_ALL_REGIONS",
	    { "QUOTA_EXCEEDED", SPOT_QUOTA, GCP_FAIL, RANK_QUOTA, "quota of the whole project",
		SPOT_SCOPE_PROVIDER } },
	/* Limits of the region that every machine draws on, whatever its GPU. */
	{ "QUOTA_EXCEEDED", "IN_USE_ADDRESSES",
	    { "QUOTA_EXCEEDED", SPOT_QUOTA, GCP_FAIL, RANK_QUOTA, "addresses in region",
		SPOT_SCOPE_REGION } },
	{ "QUOTA_EXCEEDED", "SSD_TOTAL_GB",
	    { "QUOTA_EXCEEDED", SPOT_QUOTA, GCP_FAIL, RANK_QUOTA, "disks in region",
		SPOT_SCOPE_REGION } },
	{ "QUOTA_EXCEEDED", "DISKS_TOTAL_GB",
	    { "QUOTA_EXCEEDED", SPOT_QUOTA, GCP_FAIL, RANK_QUOTA, "disks in region",
		SPOT_SCOPE_REGION } },
};

bool gcp_code_is(const char *code, const char *name)
{
	for (;;) {
		while (*code == '_') {
			code++;
		}
		while (*name == '_') {
			name++;
		}
		if (*code == '\0' || *name == '\0') {
			return *code == *name;
		}
		char a = *code++, b = *name++;

		a = a >= 'A' && a <= 'Z' ? (char)(a - 'A' + 'a') : a;
		b = b >= 'A' && b <= 'Z' ? (char)(b - 'A' + 'a') : b;
		if (a != b) {
			return false;
		}
	}
}

const struct gcp_code *gcp_code_find(const char *code, const char *message)
{
	for (size_t i = 0; i < ARRAY_LEN(by_words); i++) {
		if (gcp_code_is(by_words[i].code, code) &&
		    strstr(message, by_words[i].words) != NULL) {
			return &by_words[i].means;
		}
	}
	for (size_t i = 0; i < gcp_codes_n; i++) {
		if (gcp_code_is(gcp_codes[i].code, code)) {
			return &gcp_codes[i];
		}
	}
	return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s != NULL ? s : "";
}

/* reason of the google.rpc.ErrorInfo among the details. */
static const char *info_reason(const json_t *details)
{
	const json_t *d;
	size_t i;

	json_array_foreach (details, i, d) {
		if (str_suffix(text_of(d, "@type"), "google.rpc.ErrorInfo") &&
		    *text_of(d, "reason") != '\0') {
			return text_of(d, "reason");
		}
	}
	return "";
}

/* {"error":{"errors":[{"reason"}],"status","details","message"}} of the APIs,
 * {"error":"invalid_grant","error_description"} of the token services (RFC 6749, 5.2). */
void gcp_error_read(struct spot_call *c, const char **ret_code, const char **ret_message)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *e;
	const char *code, *status;

	*ret_code = *ret_message = "";
	if (json_parse(c->in->body, "error reply", &doc, NULL) != SPOT_OK) {
		return;
	}
	/* Methods that stream have their error in a list. */
	e = json_object_get(json_is_array(doc) ? json_array_get(doc, 0) : doc, "error");
	if (json_is_string(e)) {
		*ret_code = arena_strdup(c->arena, json_string_value(e));
		*ret_message = arena_strdup(c->arena, text_of(doc, "error_description"));
		return;
	}
	status = text_of(e, "status");
	code = text_of(json_array_get(json_object_get(e, "errors"), 0), "reason");
	/* The newer APIs say RESOURCE_EXHAUSTED of a rate too; ErrorInfo then knows better. */
	if (*code == '\0' || gcp_code_is(code, "forbidden")) {
		code = *info_reason(json_object_get(e, "details")) != '\0'
		    ? info_reason(json_object_get(e, "details"))
		    : *code != '\0' ? code
				    : status;
	}
	*ret_code = arena_strdup(c->arena, code);
	*ret_message = arena_strdup(c->arena, text_of(e, "message"));
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* To the turn of the minute, and a little beyond so that not all come back at once. */
int64_t gcp_minute_us(int64_t now_us, uint64_t rnd)
{
	return MINUTE_US - now_us % MINUTE_US + (int64_t)(rnd % 2000) * 1000;
}

static enum spot_step error_unknown(struct spot_call *c, const char *what, const char *code,
    const char *words)
{
	if (c->in->status == 401) {
		call_fail(c, SPOT_UNAUTHENTICATED, code, "gcp %s: HTTP 401: %s", what,
		    *words != '\0' ? words : "no words");
		return SPOT_REAUTH;
	}
	return call_status_verdict(c, "gcp", what, code, words, call_retry_after_us(c));
}

enum spot_step gcp_error(struct gcp *self, struct spot_call *c, const char *what)
{
	const struct gcp_code *e;
	const char *code, *message, *words;
	int64_t wait = call_retry_after_us(c);
	enum spot_rc rc;

	(void)self;
	gcp_error_read(c, &code, &message);
	code = redact_words(c->arena, code, SIZE_MAX);
	words = redact_words(c->arena, message, SIZE_MAX);
	e = *code != '\0' ? gcp_code_find(code, message) : NULL;
	/* 429 is a rate whatever the words; 5xx with a code of capacity is not a fault. */
	if (e == NULL || (c->in->status == 429 && e->rc == SPOT_QUOTA)) {
		return error_unknown(c, what, code, words);
	}
	rc = e->rc;
	switch (e->how) {
	case GCP_MINUTE:
		/* HTTP 429 is left to the caller's back-off: it is not one of Compute's buckets. */
		if (wait == 0 && c->in->status != 429) {
			wait = gcp_minute_us(c->now_us, c->rnd);
		}
		/* fall through */
	case GCP_AGAIN:
		/* After a fault of the vendor nobody knows what happened to a request that creates
		 * things. */
		if (c->mutating && rc == SPOT_UNAVAILABLE) {
			rc = SPOT_UNKNOWN;
		}
		return call_again(c, rc, wait, code, "gcp %s: %s (%s): %s", what, code, e->scope,
		    words);
	case GCP_REAUTH:
		call_fail(c, rc, code, "gcp %s: %s: %s", what, code, words);
		return SPOT_REAUTH;
	case GCP_FAIL:
		break;
	}
	call_fail(c, rc, code, "gcp %s: %s (%s): %s", what, code, e->scope, words);
	c->err.scope = e->rests;
	return SPOT_FAIL;
}

/* ---- operations ------------------------------------------------------------------------------ */

const json_t *gcp_error_worst(const json_t *errors, const struct gcp_code **ret_code)
{
	const json_t *e, *worst = NULL;
	int rank = INT32_MIN;
	size_t i;

	*ret_code = NULL;
	json_array_foreach (errors, i, e) {
		const struct gcp_code *k = gcp_code_find(text_of(e, "code"), text_of(e, "message"));

		if (worst == NULL || (k != NULL ? k->rank : 0) > rank) {
			worst = e;
			rank = k != NULL ? k->rank : 0;
			*ret_code = k;
		}
	}
	return worst;
}

/* The zones that still have capacity, as far as Google tells: comma list, may be empty. The key is
 * "metadatas". */
static const char *zones_available(const json_t *e)
{
	const json_t *details = json_object_get(e, "errorDetails"), *d;
	size_t i;

	json_array_foreach (details, i, d) {
		const json_t *info = json_object_get(d, "errorInfo");
		const char *zones = text_of(json_object_get(info, "metadatas"), "zonesAvailable");

		if (*zones != '\0') {
			return zones;
		}
	}
	return "";
}

bool gcp_operation_failed(const json_t *op)
{
	const json_t *error = json_object_get(op, "error");
	bool bad = false;

	return (error != NULL && !json_is_null(error)) ||
	    gcp_int(op, "httpErrorStatusCode", 0, &bad) >= 400 || bad;
}

enum spot_step gcp_operation_error(struct spot_call *c, const char *what, const json_t *op)
{
	const struct gcp_code *k;
	const json_t *e =
	    gcp_error_worst(json_object_get(json_object_get(op, "error"), "errors"), &k);
	const char *code, *words, *zones;

	if (e == NULL) {
		return call_fail(c, SPOT_UNKNOWN, NULL,
		    "gcp %s: the operation failed without saying why", what);
	}
	code = redact_words(c->arena, text_of(e, "code"), SIZE_MAX);
	words = redact_words(c->arena, text_of(e, "message"), SIZE_MAX);
	zones = redact_words(c->arena, zones_available(e), SIZE_MAX);
	/* An operation that ended in a fault of Google's may have left something. */
	if (k == NULL || k->rc == SPOT_UNAVAILABLE || k->rc == SPOT_THROTTLED) {
		return call_fail(c,
		    k != NULL && k->rc == SPOT_THROTTLED ? SPOT_THROTTLED : SPOT_UNKNOWN, code,
		    "gcp %s: %s: %s", what, *code != '\0' ? code : "no code", words);
	}
	call_fail(c, k->rc, code, "gcp %s: %s (%s): %s%s%s", what, code, k->scope, words,
	    *zones != '\0' ? "; Google names " : "", zones);
	c->err.scope = k->rests;
	return SPOT_FAIL;
}
