/* The requests by which machines come and go, in the words of each cloud. */
#include "base/base.h"
#include "base/text/text.h"
#include "sim/net/net.h"

/* Google: insert and bulkInsert; CoreWeave: a Pod that is posted; Azure: a PUT of a machine. */
bool act_is_launch(const char *url, struct str body)
{
	static const char *const forms[] = { "Action=RunInstances", "Action=CreateFleet" };
	static const char *const urls[] = { "/instance-operations/launch",
		"/instances?requestId=", "/instances/bulkInsert?", "/pods?fieldManager=" };

	if (memmem(body.p, body.n, "DryRun=true", strlen("DryRun=true")) != NULL) {
		return false; /* the doctor asks whether it may */
	}
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		if (memmem(body.p, body.n, forms[i], strlen(forms[i])) != NULL) {
			return true;
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
		if (strstr(url, urls[i]) != NULL) {
			return true;
		}
	}
	return body.n > 0 && strstr(url, "Microsoft.Compute/virtualMachines/") != NULL;
}

static bool body_has(struct str body, const char *text)
{
	return memmem(body.p, body.n, text, strlen(text)) != NULL;
}

bool act_is_set(const char *url, struct str body)
{
	return act_is_launch(url, body) &&
	    ((body_has(body, "MinCount=1&") && !body_has(body, "MaxCount=1&")) ||
		(strstr(url, "/instances/bulkInsert?") != NULL &&
		    body_has(body, "\"minCount\":\"1\"")));
}

bool act_is_end(const char *method, const char *url, struct str body)
{
	return str_same(method, "DELETE") ||
	    strstr(url, "/instance-operations/terminate") != NULL ||
	    memmem(body.p, body.n, "Action=TerminateInstances", 25) != NULL;
}
