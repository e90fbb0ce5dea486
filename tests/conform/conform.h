/*
 * The common behaviour of every provider, whatever its wire format. One suite, and one table per
 * provider that says how its vendor expresses each case. A new provider adds a file like lambda.c
 * and a line in conform.c.
 */
#ifndef TESTS_CONFORM_H
#define TESTS_CONFORM_H

#include "base/base.h"
#include "drive.h"

struct conform_reply {
	int status;
	const char *body;
};

/* Replies in their order. */
struct conform_tries {
	const struct drive_try *t;
	size_t n;
};

/* A refused launch that reaches further, or less far, than its code alone says. */
struct conform_reach {
	struct conform_tries tries; /* from the reply to the create on */
	enum spot_rc rc;
	enum spot_scope scope;
};

struct conform_provider {
	const char *name;
	const struct spot_provider_ops *ops;
	const char *const *env, *const *settings;
	const struct drive_try *auth;
	size_t auth_n; /* script of the auth step, each time */
	const char *const *secrets; /* in good replies or settings: never in an error text */
	/* arguments; the request that creates is the one that is tried out */
	struct spot_launch launch;
	const char *install, *region, *ref;
	/* Good replies before and after the tried request (the one that lists instances, creates,
	 * ends). Empty where the verb is one request. */
	struct conform_tries list_before, list_after, launch_before, launch_after, terminate_before,
	    terminate_after;
	/* good replies */
	const char *list_good; /* at least one instance of install */
	const char *list_empty;
	const char *list_odd; /* one instance of install in a state that nobody knows */
	/* a page that refers to another; "@@" is the page token, NULL: this vendor has no pages */
	const char *list_page;
	const char *launch_good;
	const char *const *list_wrong; /* right syntax, wrong types or parts missing */
	/* refusals */
	struct conform_reply throttled, broken, expired, denied, capacity, quota;
	/* For vendors that refuse later: everything from the reply to the create on, instead of the
	 * reply above. */
	struct conform_tries capacity_later, quota_later, mismatch_later;
	struct conform_reply
	    mismatch; /* token used before with other parameters; status 0: no tokens */
	struct conform_reply unknown_instance; /* to a terminate */
	struct conform_reply wrong_place; /* answer of something that is not this API */
	const struct conform_reach *reach;
	size_t reach_n;
};

extern const struct conform_provider conform_aws, conform_azure, conform_coreweave,
    conform_kubernetes, conform_gcp, conform_lambda;

#endif
