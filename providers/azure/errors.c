#include "base/base.h"
#include "azure_priv.h"

/*
 * Every vendor code that means something to us, once. Sources:
 * learn.microsoft.com/azure/virtual-machines/error-codes-spot,
 * azure/azure-resource-manager/troubleshooting/common-deployment-errors,
 * azure/virtual-machines/constrained-vm-allocation, Azure/azure-sdk-for-go-extensions pkg/errors
 * (Karpenter). A code that is not here is judged by its HTTP class.
 */

#include <strings.h>

#define DEPTH_MAX 5
#define NIC_WAIT_US (INT64_C(180) * SPOT_US_PER_S)

const struct azure_code azure_codes[] = {
	/* Capacity. SkuNotAvailable is also what a restricted size says; pools.c leaves those
	 * out. */
	{ "SkuNotAvailable", SPOT_NO_CAPACITY, AZURE_FAIL, "size in region or zone" },
	{ "AllocationFailed", SPOT_NO_CAPACITY, AZURE_FAIL, "size in region", SPOT_SCOPE_TYPE },
	{ "ZonalAllocationFailed", SPOT_NO_CAPACITY, AZURE_FAIL, "size in zone", SPOT_SCOPE_POOL },
	{ "OverconstrainedAllocationRequest", SPOT_NO_CAPACITY, AZURE_FAIL,
	    "these constraints in region", SPOT_SCOPE_TYPE },
	{ "OverconstrainedZonalAllocationRequest", SPOT_NO_CAPACITY, AZURE_FAIL,
	    "these constraints in zone", SPOT_SCOPE_POOL },
	{ "AvailabilityZoneNotSupported", SPOT_NOT_OFFERED, AZURE_FAIL, "size in zone" },
	{ "ResourceTypeNotSupportAvailabilityZones", SPOT_NOT_OFFERED, AZURE_FAIL,
	    "region has no zones", SPOT_SCOPE_POOL },
	{ "LocationNotAvailableForResourceType", SPOT_NOT_OFFERED, AZURE_FAIL, "region",
	    SPOT_SCOPE_REGION },
	/* The vendor's own policy of where a new subscription may deploy. */
	{ "RequestDisallowedByAzure", SPOT_NOT_OFFERED, AZURE_FAIL, "region for this subscription",
	    SPOT_SCOPE_REGION },
	{ "NotAvailableForSubscription", SPOT_NOT_OFFERED, AZURE_FAIL, "size for this subscription",
	    SPOT_SCOPE_TYPE },
	{ "AzureSpotIsNotSupportedForThisVMSize", SPOT_NOT_OFFERED, AZURE_FAIL, "spot for size",
	    SPOT_SCOPE_TYPE },
	{ "VMPriorityCannotBeApplied", SPOT_NOT_OFFERED, AZURE_FAIL, "spot for size",
	    SPOT_SCOPE_TYPE },
	{ "AzureSpotFeatureNotEnabledForSubscription", SPOT_DENIED, AZURE_FAIL,
	    "spot in subscription: its offer has none", SPOT_SCOPE_MARKET },
	{ "SpotPriceGreaterThanProvidedMaxPrice", SPOT_PRICE_CAP, AZURE_FAIL, "size in region",
	    SPOT_SCOPE_TYPE },
	/* Limits of the subscription. */
	{ "QuotaExceeded", SPOT_QUOTA, AZURE_FAIL, "quota in region" },
	{ "ResourceQuotaExceeded", SPOT_QUOTA, AZURE_FAIL, "quota in region" },
	{ "PublicIPCountLimitReached", SPOT_QUOTA, AZURE_FAIL, "public addresses in region",
	    SPOT_SCOPE_REGION },
	{ "ResourceGroupQuotaExceeded", SPOT_QUOTA, AZURE_FAIL, "resource groups in subscription",
	    SPOT_SCOPE_PROVIDER },
	{ "ResourceCountExceedsLimitDueToTemplate", SPOT_QUOTA, AZURE_FAIL,
	    "resources in subscription" },
	{ "SubnetIsFull", SPOT_NO_CAPACITY, AZURE_FAIL, "subnet", SPOT_SCOPE_REGION },
	/* Ordering, throttling, faults: repeat with the same body. */
	{ "Conflict", SPOT_UNAVAILABLE, AZURE_AGAIN, "another operation is under way" },
	{ "AnotherOperationInProgress", SPOT_UNAVAILABLE, AZURE_AGAIN,
	    "another operation is under way" },
	{ "OperationPreempted", SPOT_UNAVAILABLE, AZURE_AGAIN, "another operation was newer" },
	{ "CanceledAndSupersededDueToAnotherOperation", SPOT_UNAVAILABLE, AZURE_AGAIN,
	    "another operation was newer" },
	{ "ReferencedResourceNotProvisioned", SPOT_UNAVAILABLE, AZURE_AGAIN,
	    "a resource that it refers to is not ready" },
	{ "ResourceGroupDeletionBlocked", SPOT_UNAVAILABLE, AZURE_AGAIN, "resource group" },
	{ "RetryableError", SPOT_UNAVAILABLE, AZURE_AGAIN, "region" },
	{ "RetryableErrorDueToAnotherOperation", SPOT_UNAVAILABLE, AZURE_AGAIN,
	    "another operation is under way" },
	{ "NicReservedForAnotherVm", SPOT_UNAVAILABLE, AZURE_AGAIN,
	    "network card is reserved for 180 s" },
	{ "NicInUse", SPOT_UNAVAILABLE, AZURE_AGAIN, "network card" },
	{ "PublicIPAddressCannotBeDeleted", SPOT_UNAVAILABLE, AZURE_AGAIN, "public address" },
	{ "TooManyRequests", SPOT_THROTTLED, AZURE_AGAIN, "subscription in region" },
	{ "SubscriptionRequestsThrottled", SPOT_THROTTLED, AZURE_AGAIN, "subscription" },
	{ "ResourceCollectionRequestsThrottled", SPOT_THROTTLED, AZURE_AGAIN,
	    "kind of resource in region" },
	{ "RateLimiting", SPOT_THROTTLED, AZURE_AGAIN, "resource graph" },
	{ "ServerTimeout", SPOT_UNAVAILABLE, AZURE_AGAIN, "region" },
	{ "GatewayTimeout", SPOT_UNAVAILABLE, AZURE_AGAIN, "region" },
	{ "ServiceUnavailable", SPOT_UNAVAILABLE, AZURE_AGAIN, "region" },
	{ "InternalServerError", SPOT_UNAVAILABLE, AZURE_AGAIN, "region" },
	{ "InternalExecutionError", SPOT_UNAVAILABLE, AZURE_AGAIN, "region" },
	{ "InternalOperationError", SPOT_UNAVAILABLE, AZURE_AGAIN, "region" },
	{ "NetworkingInternalOperationError", SPOT_UNAVAILABLE, AZURE_AGAIN, "region" },
	{ "VMStartTimedOut", SPOT_UNAVAILABLE, AZURE_AGAIN, "machine did not start" },
	{ "OSProvisioningTimedOut", SPOT_UNAVAILABLE, AZURE_AGAIN, "machine did not boot" },
	{ "OSProvisioningInternalError", SPOT_UNAVAILABLE, AZURE_AGAIN, "machine did not boot" },
	/* Conflicts with an existing resource. */
	{ "PropertyChangeNotAllowed", SPOT_MISMATCH, AZURE_FAIL, "name" },
	{ "InvalidResourceGroupLocation", SPOT_MISMATCH, AZURE_FAIL, "name, in another region" },
	{ "PreconditionFailed", SPOT_MISMATCH, AZURE_FAIL, "name" },
	{ "ResourceGroupBeingDeleted", SPOT_GONE, AZURE_FAIL, "name" },
	{ "ResourceGroupDeletionTimeout", SPOT_UNAVAILABLE, AZURE_AGAIN, "resource group" },
	/* Authentication. */
	{ "ExpiredAuthenticationToken", SPOT_UNAUTHENTICATED, AZURE_REAUTH, "token" },
	{ "InvalidAuthenticationToken", SPOT_UNAUTHENTICATED, AZURE_REAUTH, "token" },
	{ "AuthenticationFailed", SPOT_UNAUTHENTICATED, AZURE_REAUTH, "token" },
	{ "InvalidAuthenticationTokenTenant", SPOT_UNAUTHENTICATED, AZURE_FAIL, "tenant" },
	{ "InvalidAuthenticationTokenAudience", SPOT_UNAUTHENTICATED, AZURE_FAIL, "audience" },
	/* Authorization. */
	{ "AuthorizationFailed", SPOT_DENIED, AZURE_FAIL, "role assignment" },
	{ "LinkedAuthorizationFailed", SPOT_DENIED, AZURE_FAIL,
	    "role on a resource that it refers to" },
	{ "RequestDisallowedByPolicy", SPOT_DENIED, AZURE_FAIL, "policy" },
	{ "ScopeLocked", SPOT_DENIED, AZURE_FAIL, "lock" },
	{ "ReadOnlyDisabledSubscription", SPOT_DENIED, AZURE_FAIL, "subscription",
	    SPOT_SCOPE_PROVIDER },
	{ "SubscriptionNotFound", SPOT_CONFIG, AZURE_FAIL, "subscription", SPOT_SCOPE_PROVIDER },
	{ "InvalidSubscriptionId", SPOT_CONFIG, AZURE_FAIL, "subscription", SPOT_SCOPE_PROVIDER },
	{ "SubscriptionNotRegistered", SPOT_CONFIG, AZURE_FAIL,
	    "subscription: az provider register --namespace Microsoft.Compute",
	    SPOT_SCOPE_PROVIDER },
	{ "MissingSubscriptionRegistration", SPOT_CONFIG, AZURE_FAIL,
	    "subscription: az provider register --namespace Microsoft.Compute",
	    SPOT_SCOPE_PROVIDER },
	/* Things that the operator named. */
	{ "ImageNotFound", SPOT_CONFIG, AZURE_FAIL, "image in region" },
	{ "PlatformImageNotFound", SPOT_CONFIG, AZURE_FAIL, "image in region" },
	{ "GalleryImageNotFound", SPOT_CONFIG, AZURE_FAIL, "image in region" },
	{ "MarketplacePurchaseEligibilityFailed", SPOT_CONFIG, AZURE_FAIL,
	    "image: its terms are not accepted" },
	{ "ResourcePurchaseValidationFailed", SPOT_CONFIG, AZURE_FAIL,
	    "image: its terms are not accepted" },
	{ "VMMarketplaceInvalidInput", SPOT_CONFIG, AZURE_FAIL, "image" },
	{ "InvalidResourceReference", SPOT_CONFIG, AZURE_FAIL, "subnet or nsg of the region" },
	{ "SubnetNotFound", SPOT_CONFIG, AZURE_FAIL, "subnet of the region" },
	{ "InvalidUserAssignedIdentities", SPOT_CONFIG, AZURE_FAIL, "identity" },
	{ "FailedIdentityOperation", SPOT_CONFIG, AZURE_FAIL, "identity" },
	/* Things that are gone. */
	{ "ResourceNotFound", SPOT_NOT_FOUND, AZURE_FAIL, "machine" },
	{ "ResourceGroupNotFound", SPOT_NOT_FOUND, AZURE_FAIL, "resource group" },
	{ "NotFound", SPOT_NOT_FOUND, AZURE_FAIL, "resource" },
	/* Wrong requests. */
	{ "InvalidParameter", SPOT_INVALID, AZURE_FAIL, "call" },
	{ "InvalidRequestFormat", SPOT_INVALID, AZURE_FAIL, "call" },
	{ "InvalidRequestContent", SPOT_INVALID, AZURE_FAIL, "call" },
	{ "BadRequest", SPOT_INVALID, AZURE_FAIL, "call" },
	{ "MissingApiVersionParameter", SPOT_INVALID, AZURE_FAIL, "call" },
	{ "InvalidApiVersionParameter", SPOT_INVALID, AZURE_FAIL, "call" },
	{ "NoRegisteredProviderFound", SPOT_INVALID, AZURE_FAIL, "call" },
	{ "MaxPriceValueInvalid", SPOT_INVALID, AZURE_FAIL, "price cap" },
	{ "MaxPriceChangeNotAllowed", SPOT_INVALID, AZURE_FAIL, "price cap" },
	{ "MaxPriceIsSupportedOnlyForAzureSpotVirtualMachines", SPOT_INVALID, AZURE_FAIL,
	    "price cap" },
	{ "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines", SPOT_INVALID, AZURE_FAIL,
	    "call" },
	{ "AzureSpotVMNotSupportedInAvailabilitySet", SPOT_INVALID, AZURE_FAIL, "call" },
	{ "AzureSpotIsNotSupportedForThisAPIVersion", SPOT_INVALID, AZURE_FAIL, "call" },
	{ "OSProvisioningClientError", SPOT_CONFIG, AZURE_FAIL,
	    "image: it did not take its set-up" },
};
const size_t azure_codes_n = ARRAY_LEN(azure_codes);

/* One code, two meanings (error-codes-spot, Karpenter's pkg/errors): the message tells. */
static const struct azure_code over_quota = { "OperationNotAllowed", SPOT_QUOTA, AZURE_FAIL,
	"quota in region" };
static const struct azure_code not_now = { "OperationNotAllowed", SPOT_UNAVAILABLE, AZURE_AGAIN,
	"not in this state" };
static const struct azure_code in_use = { "", SPOT_UNAVAILABLE, AZURE_AGAIN, "it is in use" };
static const struct azure_code too_many = { "", SPOT_QUOTA, AZURE_FAIL, "limit in region" };

const struct azure_code *azure_code_find(const char *code, const char *message)
{
	if (strcasecmp(code, "OperationNotAllowed") == 0) {
		return message != NULL && strcasestr(message, "quota") != NULL ? &over_quota
									       : &not_now;
	}
	for (size_t i = 0; i < azure_codes_n; i++) {
		if (strcasecmp(azure_codes[i].code, code) == 0) {
			return &azure_codes[i];
		}
	}
	/* InUseSubnetCannotBeDeleted and its kin: what uses it goes first. */
	if (strncasecmp(code, "InUse", 5) == 0 && str_suffix(code, "CannotBeDeleted")) {
		return &in_use;
	}
	return str_suffix(code, "LimitReached") ? &too_many : NULL;
}

/* ---- reading an error reply ------------------------------------------------------------------ */

/* Codes that only wrap another one. */
static bool code_wraps(const char *code)
{
	static const char *const codes[] = { "DeploymentFailed", "InvalidTemplateDeployment",
		"Conflict", "BadRequest", "MultipleErrorsOccurred", "OperationFailed",
		"ResourceOperationFailure", "ResourceDeploymentFailure",
		"VMExtensionProvisioningError", "NotFound", "ResourceDeletionFailed",
		"ResourceGroupDeletionFailed" };

	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		if (strcasecmp(codes[i], code) == 0) {
			return true;
		}
	}
	return *code == '\0';
}

struct walk {
	const char *code, *message;
	bool sure; /* a code that we know and that wraps nothing */
};

static void walk_one(struct arena *a, const json_t *e, int depth, struct walk *w)
{
	const char *code = azure_text(e, "code"), *message = azure_text(e, "message");
	/* innererror is one level of an OData error, with a code of its own (Resource Manager's
	 * common types, ErrorDetail). */
	const json_t *details = json_object_get(e, "details"),
		     *inner = json_object_get(e, "innererror");
	bool sure = !code_wraps(code) && azure_code_find(code, message) != NULL;

	if (w->code == NULL || (sure && !w->sure)) {
		w->code = arena_strdup(a, code);
		w->message = arena_strdup(a, message);
		w->sure = sure;
	}
	for (size_t i = 0; depth < DEPTH_MAX && !w->sure && i < json_array_size(details); i++) {
		walk_one(a, json_array_get(details, i), depth + 1, w);
	}
	if (depth < DEPTH_MAX && !w->sure && json_is_object(inner)) {
		walk_one(a, inner, depth + 1, w);
	}
}

void azure_error_walk(struct arena *a, const json_t *error, const char **ret_code,
    const char **ret_message)
{
	struct walk w = { 0 };

	if (json_is_object(json_object_get(error, "error"))) {
		error = json_object_get(error, "error");
	}
	walk_one(a, error, 0, &w);
	*ret_code = w.code;
	*ret_message = w.message;
}

/* Gateways answer in plain text or HTML at times. The Blob service says its code in a header. */
void azure_error_read(struct spot_call *c, const char **ret_code, const char **ret_message)
{
	const char *header = spot_http_header(c->in, "x-ms-error-code");
	json_t *doc AUTO(json) = NULL;

	*ret_code = *ret_message = "";
	if (c->in->body.n > 0 && json_parse(c->in->body, "error reply", &doc, NULL) == SPOT_OK &&
	    json_is_object(doc)) {
		azure_error_walk(c->arena, doc, ret_code, ret_message);
	}
	if (**ret_code == '\0' && !str_empty(header)) {
		*ret_code = arena_strdup(c->arena, header);
	}
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* x-ms-user-quota-resets-after: 00:00:03 (Resource Graph). */
static int64_t wait_told(const struct spot_call *c)
{
	const char *v = spot_http_header(c->in, "x-ms-user-quota-resets-after");
	int h, m, s, n = 0;
	int64_t wait = call_retry_after_us(c);

	if (wait == 0 && v != NULL && sscanf(v, "%2d:%2d:%2d%n", &h, &m, &s, &n) == 3 &&
	    v[n] == '\0' && h >= 0 && m >= 0 && s >= 0) {
		wait = (h * INT64_C(3600) + m * 60 + s) * SPOT_US_PER_S;
	}
	return wait;
}

static enum spot_step error_unknown(struct spot_call *c, const char *what, const char *code,
    const char *words)
{
	int status = c->in->status;
	const char *of = *words ? words : "no words";

	if (status == 401) {
		/* With or without a code: continuous access evaluation says it in WWW-Authenticate
		 * only. */
		call_fail(c, SPOT_UNAUTHENTICATED, code, "azure %s: HTTP 401: %s", what, of);
		return SPOT_REAUTH;
	}
	/* A timeout of the front end, and conflicts that have no name here, pass. */
	if (*code != '\0' && (status == 408 || status == 409)) {
		return call_again(c, SPOT_UNAVAILABLE, wait_told(c), code, "azure %s: %s: %s", what,
		    code, of);
	}
	return call_status_verdict(c, "azure", what, code, words, wait_told(c));
}

enum spot_step azure_error(struct spot_call *c, const char *what, const char *code,
    const char *message)
{
	const struct azure_code *e;
	const char *words = redact_words(c->arena, message, SIZE_MAX);
	enum spot_rc rc;
	int64_t wait;

	code = redact_words(c->arena, code, SIZE_MAX);
	/* 429 is a throttle whatever its code says: Compute wraps it in OperationNotAllowed. */
	if (c->in->status == 429) {
		return call_again(c, SPOT_THROTTLED, wait_told(c), code,
		    "azure %s: throttled: %s %s", what, code, words);
	}
	e = *code ? azure_code_find(code, message) : NULL;
	if (e == NULL) {
		return error_unknown(c, what, code, words);
	}
	switch (e->how) {
	case AZURE_AGAIN:
		wait = wait_told(c);
		rc = e->rc;
		if (wait == 0 && strcasecmp(code, "NicReservedForAnotherVm") == 0) {
			wait = NIC_WAIT_US;
		}
		/* After a fault of the vendor nobody knows what happened to a request that creates
		 * things. */
		if (c->mutating && rc == SPOT_UNAVAILABLE && c->in->status >= 500) {
			rc = SPOT_UNKNOWN;
		}
		return call_again(c, rc, wait, code, "azure %s: %s (%s): %s", what, code, e->scope,
		    words);
	case AZURE_REAUTH:
		call_fail(c, e->rc, code, "azure %s: %s: %s", what, code, words);
		return SPOT_REAUTH;
	case AZURE_FAIL:
		break;
	}
	call_fail(c, e->rc, code, "azure %s: %s (%s): %s", what, code, e->scope, words);
	c->err.scope = e->rests;
	return SPOT_FAIL;
}
