/*
 * Each verb of the CoreWeave and Kubernetes providers once, with fixed arguments and replies. They
 * make the golden requests, the input of the check against the official models, and the seeds of
 * the fuzzer.
 */
#ifndef TESTS_CW_CASES_H
#define TESTS_CW_CASES_H

#include "base/base.h"
#include "coreweave/coreweave.h"
#include "drive.h"

#define CW_INSTALL "7f3a9c01"
#define CW_NAME "brk.7f3a9c01.n1.1767323045"
#define CW_UID "5f0c6d2e-0001-4000-8000-000000000001"
#define CW_REF "main/" CW_NAME "/" CW_UID
#define CW_POOL "sb-7f3a9c01-gd-8xh100ib-i128-spot"
#define CW_TOKEN "CW-SECRET-test-0123456789"
#define SA_TOKEN "eyJhbGciOiJSUzI1NiJ9.test.0123456789"
#define CW_STATUS(code, reason, message, details) \
	"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\"," \
	"\"message\":\"" message "\",\"reason\":\"" reason "\",\"details\":" details \
	",\"code\":" #code "}"
/* more: further members of the metadata; spec and status: members */
#define CW_POD(more, spec, status) \
	"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"" CW_NAME \
	"\",\"uid\":\"" CW_UID \
	"\",\"resourceVersion\":\"7\",\"creationTimestamp\":\"2015-08-30T12:30:00Z\",\"labels\":{" \
	"\"spotbroker.io/install\":\"" CW_INSTALL \
	"\",\"spotbroker.io/market\":\"spot\",\"spotbroker.io/pool\":\"" CW_POOL \
	"\"},\"annotations\":{\"spotbroker.io/token\":\"tok\",\"spotbroker.io/instance-type\":" \
	"\"gd-8xh100ib-i128\"}" more "},\"spec\":{\"containers\":[{\"name\":\"node\"}]" spec \
	"},\"status\":{" status "}}"
#define CW_LIST(kind, items) \
	"{\"kind\":\"" kind \
	"\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[" items "]}"
#define CW_NODEPOOL(target, current, conditions) \
	"{\"kind\":\"NodePool\",\"apiVersion\":\"compute.coreweave.com/" \
	"v1alpha1\",\"metadata\":{\"name\":\"" CW_POOL \
	"\",\"uid\":\"u\",\"resourceVersion\":\"5\",\"labels\":{\"spotbroker.io/" \
	"install\":\"" CW_INSTALL "\"}}," \
	"\"spec\":{\"computeClass\":\"spot\",\"instanceType\":\"gd-8xh100ib-i128\"," \
	"\"targetNodes\":" #target "}," \
	"\"status\":{\"currentNodes\":" #current ",\"conditions\":[" conditions "]}}"
#define CW_CLUSTERS \
	"{\"items\":[{\"id\":\"c-1\",\"name\":\"main\",\"zone\":\"US-EAST-04A\",\"status\":" \
	"\"STATUS_RUNNING\"," \
	"\"apiServerEndpoint\":\"https://org-1a2b.k8s.us-east-04a.coreweave.com\"}]}"

struct cw_case {
	const char *name;
	const struct spot_provider_ops *ops;
	enum drive_verb verb;
	const struct drive_try *tries; /* NULL method and url: whatever is asked */
	size_t n;
};
extern const struct cw_case cw_cases[];
extern const size_t cw_cases_n;
extern const char *const case_env[], *const case_settings[], *const case_kube_settings[];
extern const struct drive_try case_auth[2], case_kube_auth[1];

void *cw_args(struct arena *a, enum drive_verb verb, bool cks);
/* Opens and authenticates; auth's own requests go to dump if it is not NULL. */
void cw_open(struct drive *d, const struct spot_provider_ops *ops, FILE *dump);
/* For cmocka: *state is a struct drive that is open. */
int cw_setup(void **state);
int cw_teardown(void **state);

/* A reply of a drive_try, and one that lists Pods. */
#define R(code, body) \
	{ \
		.status = (code), .reply = (body) \
	}
#define PODS(items) R(200, CW_LIST("PodList", items))

#endif
