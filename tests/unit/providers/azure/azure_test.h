/* Shared by the tests of the Azure provider: a token, scripts, error replies, machines. */
#ifndef TESTS_AZURE_TEST_H
#define TESTS_AZURE_TEST_H

#include "base/base.h"
#include "base/text/text.h"
#include "golden.h"
#include "azure.h"

#define GOLDEN_SUB "11111111-2222-3333-4444-555555555555"
#define GOLDEN_TOKEN "eyJ0eXAiOiJKV1QifQ.golden-token.c2lnbmF0dXJl"

#define ARM "https://management.azure.com"
#define SUB "/subscriptions/" GOLDEN_SUB
#define LEASE "spotbroker-brk-7f3a-n41-1767323045"
#define ERROR(c, m) "{\"error\":{\"code\":\"" c "\",\"message\":\"" m "\"}}"
#define TOKEN_URL "https://login.microsoftonline.com/contoso.example/oauth2/v2.0/token"
#define TOKEN_OK(t) "{\"token_type\":\"Bearer\",\"expires_in\":3599,\"access_token\":\"" t "\"}"
#define GROUP \
	"{\"id\":\"" SUB "/resourceGroups/" LEASE "\",\"name\":\"" LEASE \
	"\",\"location\":\"eastus2\"," \
	"\"tags\":{\"spotbroker-install\":\"7f3a\"},\"properties\":{\"provisioningState\":" \
	"\"Succeeded\"}}"
#define VM_ID SUB "/resourceGroups/" LEASE "/providers/Microsoft.Compute/virtualMachines/" LEASE
/* A machine with state and further properties (", ..."). */
#define VM(state, more) \
	"{\"id\":\"" VM_ID "\",\"name\":\"" LEASE "\",\"location\":\"EastUS2\",\"zones\":[\"1\"]," \
	"\"tags\":{\"spotbroker-install\":\"7f3a\"},\"properties\":{\"vmId\":" \
	"\"0e1f2a3b-1111-2222-3333-444455556666\",\"hardwareProfile\":{\"vmSize\":" \
	"\"Standard_NC40ads_H100_v5\"},\"priority\":\"Spot\",\"provisioningState\":\"" state \
	"\"" more "}}"

/* Settings and secret of every case that has none of its own. */
extern const char *const golden_env[], *const golden_settings[];

/* Opens with the golden settings, or these, and runs auth. */
static inline void keyed_init(struct drive *d, const char *const *settings)
{
	static const struct drive_try token[] = { { .status = 200,
	    .reply = TOKEN_OK(GOLDEN_TOKEN) } };

	drive_init(d, &azure_ops, golden_env, settings != NULL ? settings : golden_settings);
	d->now_us = GOLDEN_NOW_US;
	drive_script(d, token, 1);
	assert_int_equal(drive_run(d, DRIVE_AUTH, NULL), SPOT_DONE);
}

#endif
