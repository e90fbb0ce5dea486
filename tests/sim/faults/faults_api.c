/* Answers of clouds that are wrong, missing or cut short. faults_coreweave.c has those of
 * Kubernetes. */
#include "sim/world/world.h"
#include "sim/check/check.h"
#include "sim/cloud/cloud.h"
#include "sim/cloud/cloud_priv.h"
#include "sim/faults/faults_coreweave.h"

#include "base/text/text.h"

static const struct api_fault api_faults[] = {
	{ "aws", "an instance was made and 500 answered", "ec2", "RunInstances", "status", true,
	    500, "InternalError" },
	{ "aws", "an instance was made and the line broke", "ec2", "RunInstances", "reset_after",
	    false, 0, NULL },
	{ "aws", "a launch was never answered", "ec2", "RunInstances", "hang", true, 0, NULL },
	{ "aws", "EC2 served a launch twice", "ec2", "RunInstances", "duplicate", false, 0, NULL },
	{ "aws", "a terminate was done and 500 answered", "ec2", "TerminateInstances", "status",
	    true, 500, "InternalError" },
	{ "aws", "a terminate was refused", "ec2", "TerminateInstances", "status", false, 503,
	    "Unavailable" },
	{ "aws", "a list was refused", "ec2", "DescribeInstances", "status", false, 503,
	    "RequestLimitExceeded" },
	{ "aws", "a list was cut short", "ec2", "DescribeInstances", "truncate", false, 0, NULL },
	{ "aws", "prices were garbage", "ec2", "DescribeSpotPriceHistory", "malform", false, 0,
	    NULL },
	{ "lambda", "Lambda launched and answered 500", "lambda",
	    "POST /instance-operations/launch", "status", true, 500, "global/internal-error" },
	{ "lambda", "Lambda launched and the line broke", "lambda",
	    "POST /instance-operations/launch", "reset_after", false, 0, NULL },
	{ "lambda", "Lambda's list was cut short", "lambda", "GET /instances", "truncate", false, 0,
	    NULL },
	{ "gcp", "Google took an insert and answered 503", "compute", "instances.insert", "status",
	    true, 503, "backendError" },
	{ "gcp", "Google took an insert and the line broke", "compute", "instances.insert",
	    "reset_after", false, 0, NULL },
	{ "gcp", "Google served an insert twice", "compute", "instances.insert", "duplicate", false,
	    0, NULL },
	{ "gcp", "Google never answered an insert", "compute", "instances.insert", "hang", true, 0,
	    NULL },
	{ "gcp", "Google took a bulkInsert and the line broke", "compute", "instances.bulkInsert",
	    "reset_after", false, 0, NULL },
	{ "gcp", "Google's operation was not told", "compute", "zoneOperations.wait", "status",
	    false, 503, "backendError" },
	{ "gcp", "Google deleted and answered 503", "compute", "instances.delete", "status", true,
	    503, "backendError" },
	{ "gcp", "Google's list was refused", "compute", "instances.aggregatedList", "status",
	    false, 403, "rateLimitExceeded" },
	{ "gcp", "Google's list was cut short", "compute", "instances.aggregatedList", "truncate",
	    false, 0, NULL },
	{ "gcp", "Google gave no token", "oauth2", "token", "status", false, 503,
	    "internal_failure" },
	{ "gcp", "Google's prices were garbage", "billing", "services.skus.list", "malform", false,
	    0, NULL },
	{ "azure", "Azure took a machine and answered 500", "arm", "PUT virtualMachines", "status",
	    true, 500, "InternalServerError" },
	{ "azure", "Azure took a machine and the line broke", "arm", "PUT virtualMachines",
	    "reset_after", false, 0, NULL },
	{ "azure", "Azure served a machine's creation twice", "arm", "PUT virtualMachines",
	    "duplicate", false, 0, NULL },
	{ "azure", "Azure never answered for a machine", "arm", "PUT virtualMachines", "hang", true,
	    0, NULL },
	{ "azure", "Azure made a group and the line broke", "arm", "PUT resourceGroups",
	    "reset_after", false, 0, NULL },
	{ "azure", "Azure deleted and answered 500", "arm", "DELETE resourceGroups", "status", true,
	    500, "InternalServerError" },
	{ "azure", "Azure's list was refused", "arm", "POST resources", "status", false, 429,
	    "RateLimiting" },
	{ "azure", "Azure's list was cut short", "arm", "POST resources", "truncate", false, 0,
	    NULL },
	{ "azure", "Azure gave no token", "login", "token", "status", false, 503,
	    "temporarily_unavailable" },
	{ "azure", "Azure's prices were garbage", "prices", "GET prices", "malform", false, 0,
	    NULL },
};

void fault_inject(const struct api_fault *l, int64_t times)
{
	json_t *body = json_pack("{s:{s:s, s:s}, s:s, s:i, s:b}", "match", "service", l->service,
	    "action", l->action, "kind", l->kind, "count", (int)times, "after", l->after);

	if (l->status != 0) {
		json_object_set_new(body, "status", json_integer(l->status));
	}
	if (l->code != NULL) {
		json_object_set_new(body, "code", json_string(l->code));
	}
	if (l->body != NULL) {
		json_object_set_new(body, "body", json_string(l->body));
	}
	trace("cloud will lie: %s", l->name);
	fault_seen(l->name);
	cloud_post("/fault", body);
}

const struct api_fault *fault_find(const struct api_fault *list, size_t n, const char *action)
{
	const struct api_fault *found = NULL;
	uint64_t seen = 0;

	for (size_t k = 0; k < n; k++) {
		if (str_same(list[k].action, action) && rng_below(&world.dice, ++seen) == 0) {
			found = &list[k];
		}
	}
	return found;
}

void faults_api_minute(void)
{
	const struct api_fault *l;

	do {
		l = &api_faults[rng_below(&world.dice, ARRAY_LEN(api_faults))];
	} while (!cloud_is_here(l->cloud));
	fault_inject(l, dice_us(1, 3));
}

/* ---- between us and Google ------------------------------------------------------------------- */

static struct rng fronts; /* its own, so that all else falls as it does */
static bool fronts_begun;
static int64_t out_of_reach_until; /* 0 = all zones can be reached */

static void out_of_reach(const char *zone)
{
	trace("cloud gcp: %s",
	    *zone != '\0' ? "a zone is out of reach" : "all zones can be reached again");
	cloud_post("/gcp/config", json_pack("{s:s}", "unreachable", zone));
}

/* A proxy's page is no word of Google's about a machine, and a list without a zone says nothing
 * about that zone. */
void faults_front_minute(void)
{
	static const struct api_fault pages[] = {
		{ "gcp", "a front said 404 to a question for a machine of Google", "compute",
		    "instances.get", "status", false, 404, NULL, "<html>404 Not Found</html>" },
		{ "gcp", "a front said 404 to the end of a machine of Google", "compute",
		    "instances.delete", "status", false, 404, NULL, "<html>404 Not Found</html>" },
		{ "gcp", "a front said 404 to how an insert at Google goes", "compute",
		    "zoneOperations.wait", "status", false, 404, NULL,
		    "<html>404 Not Found</html>" },
	};
	static const char *const zones[] = { "us-central1-a", "us-central1-b" };
	uint64_t what;

	if (out_of_reach_until != 0 && world_now() >= out_of_reach_until) {
		faults_api_calm();
	}
	if (!DICE(front) || !cloud_is_here("gcp")) {
		return;
	}
	if (!fronts_begun) {
		rng_seeded_init(&fronts, world.conf.seed ^ UINT64_C(0x3c6ef372fe94f82b));
	}
	fronts_begun = true;
	world.taken_until = world_now() + 600 * SPOT_US_PER_S;
	what = rng_below(&fronts, ARRAY_LEN(pages) + ARRAY_LEN(zones));
	if (what < ARRAY_LEN(pages)) {
		fault_inject(&pages[what], 1 + (int64_t)rng_below(&fronts, 3));
		return;
	}
	sometimes("a zone of Google was out of reach");
	out_of_reach(zones[what - ARRAY_LEN(pages)]);
	out_of_reach_until = world_now() + (60 + (int64_t)rng_below(&fronts, 300)) * SPOT_US_PER_S;
}

void faults_api_calm(void)
{
	if (out_of_reach_until != 0) {
		out_of_reach("");
	}
	out_of_reach_until = 0;
}

/* ---- just as it is asked to begin or to end a machine ---------------------------------------- */

/* Which of the emulator's actions the request is; NULL: none that anybody lies about. */
static const char *action_of(const char *method, const char *url, struct str body)
{
	static const struct {
		const char *method, *url, *body, *action;
	} known[] = {
		{ "POST", "", "Action=RunInstances", "RunInstances" },
		{ "POST", "", "Action=TerminateInstances", "TerminateInstances" },
		{ "POST", "/instance-operations/launch", "", "POST /instance-operations/launch" },
		{ "POST", "/instances?requestId=", "", "instances.insert" },
		{ "POST", "/instances/bulkInsert", "", "instances.bulkInsert" },
		{ "DELETE", "/zones/", "", "instances.delete" },
		{ "PUT", "Microsoft.Compute/virtualMachines/", "", "PUT virtualMachines" },
		{ "DELETE", "/resourceGroups/", "", "DELETE resourceGroups" },
		{ "POST", "/pods?fieldManager=", "", "POST pods" },
		{ "DELETE", "/pods/", "", "DELETE pods" },
	};

	for (size_t k = 0; k < ARRAY_LEN(known); k++) {
		size_t n = strlen(known[k].body);

		if (str_same(method, known[k].method) && strstr(url, known[k].url) != NULL &&
		    (n == 0 || memmem(body.p, body.n, known[k].body, n) != NULL)) {
			return known[k].action;
		}
	}
	return NULL;
}

/* Of success, and nothing has happened. One for each action; most of them are about the end of a
 * machine, once or some times in a row. */
static const struct api_fault pretences[] = {
	{ "aws", "EC2 said that it made an instance and did not", "ec2", "RunInstances", "pretend",
	    false, 0, NULL, NULL },
	{ "aws", "EC2 said that it ended a machine and did not", "ec2", "TerminateInstances",
	    "pretend", false, 0, NULL, NULL },
	{ "lambda", "Lambda said that it launched and did not", "lambda",
	    "POST /instance-operations/launch", "pretend", false, 0, NULL, NULL },
	{ "lambda", "Lambda said that it ended a machine and did not", "lambda",
	    "POST /instance-operations/terminate", "pretend", false, 0, NULL, NULL },
	{ "gcp", "Google said that it made a machine and did not", "compute", "instances.insert",
	    "pretend", false, 0, NULL, NULL },
	{ "gcp", "Google said that it made machines and did not", "compute", "instances.bulkInsert",
	    "pretend", false, 0, NULL, NULL },
	{ "gcp", "Google said that it deleted a machine and did not", "compute", "instances.delete",
	    "pretend", false, 0, NULL, NULL },
	{ "azure", "Azure said that it made a machine and did not", "arm", "PUT virtualMachines",
	    "pretend", false, 0, NULL, NULL },
	{ "azure", "Azure said that it deleted a group and did not", "arm", "DELETE resourceGroups",
	    "pretend", false, 0, NULL, NULL },
	{ "coreweave", "a Pod was said to be made and was not", "k8s", "POST pods", "pretend",
	    false, 0, NULL, NULL },
	{ "coreweave", "a Pod was said to be deleted and was not", "k8s", "DELETE pods", "pretend",
	    false, 0, NULL, NULL },
};

static void pretend_act(const char *action)
{
	static struct rng own; /* so that all else falls as it does */
	static bool begun;

	if (!DICE(pretend)) {
		return;
	}
	if (!begun) {
		rng_seeded_init(&own, world.conf.seed ^ UINT64_C(0xa54ff53a5f1d36f1));
	}
	begun = true;
	for (size_t k = 0; k < ARRAY_LEN(pretences); k++) {
		if (!str_same(pretences[k].action, action)) {
			continue;
		}
		world.taken_until = world_now() + 600 * SPOT_US_PER_S;
		sometimes("a cloud said that it did what it did not do");
		fault_inject(&pretences[k], 1 + (int64_t)rng_below(&own, 3) / 2);
	}
}

void faults_api_act(const char *method, const char *url, struct str body)
{
	const char *action = action_of(method, url, body);
	const struct api_fault *l;

	if (action != NULL) {
		pretend_act(action);
	} else if (str_same(method, "POST") &&
	    strstr(url, "/instance-operations/terminate") != NULL) {
		pretend_act("POST /instance-operations/terminate");
	}
	if (action == NULL || !DICE(lie_act)) {
		return;
	}
	world.taken_until = world_now() + 600 * SPOT_US_PER_S;
	sometimes("a cloud lied just as it was asked to begin or to end a machine");
	l = fault_find(api_faults, ARRAY_LEN(api_faults), action);
	if (l != NULL) {
		fault_inject(l, 1);
	} else {
		faults_coreweave_once(action);
	}
}
