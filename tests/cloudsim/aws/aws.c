/* The table of AWS, and which of its services and calls a request is. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/ec2/ec2.h"
#include "cloudsim/s3/s3.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

#define ADVISOR_PATH "/spot-advisor-data.json"

static const struct {
	const char *service;
	enum proto proto;
	void (*serve)(struct sim_req *, struct sim_reply *);
} services[] = {
	{ "ec2", PROTO_EC2, ec2_serve },
	{ "sts", PROTO_QUERY, sts_serve },
	{ "pricing", PROTO_JSON, pricing_serve },
	{ "servicequotas", PROTO_JSON, quotas_serve },
	{ "ssm", PROTO_JSON, ssm_serve },
	{ "sqs", PROTO_JSON, sqs_serve },
	{ "s3", PROTO_S3, s3_serve },
};

/* ---- classification -------------------------------------------------------------------------- */

static const char *form_action(struct sim_req *rq, const char *name)
{
	struct form f = { 0 };

	form_parse(rq, &f);
	return form_get(&f, name);
}

static void aws_classify(struct sim_req *rq)
{
	struct sig g;
	const char *target = req_header(rq, "x-amz-target");

	rq->id_header = "x-amzn-RequestId";
	if (str_same(rq->http->path, ADVISOR_PATH)) {
		rq->proto = PROTO_PLAIN;
		rq->service = "advisor";
		rq->action = "GetAdvisorData";
		return;
	}
	rq->proto = PROTO_S3;
	rq->service = "s3";
	rq->account = AWS_ACCOUNT;
	if (sig_read(rq, &g) && g.present) {
		rq->service = g.service;
		rq->region = g.region;
		for (size_t k = 0; k < ARRAY_LEN(services); k++) {
			if (str_same(services[k].service, g.service)) {
				rq->proto = services[k].proto;
			}
		}
	} else if (str_same(rq->http->path, "/") && !target) {
		const char *action = form_action(rq, "Action");

		if (action) {
			bool sts = str_same(form_action(rq, "Version"), "2011-06-15");

			rq->proto = sts ? PROTO_QUERY : PROTO_EC2;
			rq->service = sts ? "sts" : "ec2";
		}
	} else if (target) {
		rq->proto = PROTO_JSON;
		rq->service = str_prefix(target, "AmazonSSM") ? "ssm"
		    : str_prefix(target, "AmazonSQS")         ? "sqs"
		    : str_prefix(target, "AWSPriceList")      ? "pricing"
							      : "servicequotas";
	}
	if (rq->proto == PROTO_EC2 || rq->proto == PROTO_QUERY) {
		rq->action = form_action(rq, "Action");
	} else if (rq->proto == PROTO_JSON) {
		rq->action = target && strchr(target, '.') ? strchr(target, '.') + 1 : "";
	} else {
		rq->action = s3_action(rq);
		rq->id_header = "x-amz-request-id";
	}
}

static void aws_serve(struct sim_req *rq, struct sim_reply *rep)
{
	if (rq->proto == PROTO_PLAIN) {
		const char *advisor = rq->sim->market->advisor_json;

		reply_set(rep, 200, "application/json", advisor, strlen(advisor));
		return;
	}
	/* The one call without a signature: the token is the proof. */
	if (rq->proto == PROTO_QUERY && str_same(rq->action, "AssumeRoleWithWebIdentity") &&
	    !req_header(rq, "authorization")) {
		sts_serve(rq, rep);
		return;
	}
	if (!aws_auth(rq, rep)) {
		return;
	}
	for (size_t k = 0; k < ARRAY_LEN(services); k++) {
		if (str_same(services[k].service, rq->service)) {
			services[k].serve(rq, rep);
			return;
		}
	}
	reply_fail(rq, rep, 400, "UnknownService", "Service %s is not emulated", rq->service);
}

static void aws_inst_free(struct inst *i)
{
	free(i->own);
	i->own = NULL;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void aws_init(struct sim *s)
{
	aws_state_new(s);
	s3_new(s);
}

static void aws_free(struct sim *s)
{
	s3_free(s);
	if (!s->aws) {
		return;
	}
	sqs_free(*aws_sqs(s));
	reserved_free_all(aws_controls(s));
	templates_free(aws_controls(s));
	groups_free(aws_controls(s));
	requests_free(aws_controls(s));
	keys_free(aws_controls(s));
	filled_free(aws_controls(s));
	aws_state_free(s);
}

static json_t *events_post(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	aws_controls(s)->events_twice = json_bool(doc, "twice", false, err);
	return err->rc == SPOT_OK ? json_object() : NULL;
}

static json_t *impaired_post(struct sim *s, const json_t *doc, struct arena *a UNUSED,
    struct spot_err *err)
{
	struct aws_controls *c = aws_controls(s);

	snprintf(c->impaired, sizeof(c->impaired), "%.31s", json_str(doc, "zone", "", err));
	return err->rc == SPOT_OK ? json_object() : NULL;
}

static const struct control_call aws_calls[] = {
	{ "POST", "/aws/capacity-manager", "{\"region\": NAME, \"lag_h\": 1}", "{}",
	    "Enable Capacity Manager in a region; without one, disable it. Its data are late by "
	    "these hours.",
	    manager_post, NULL },
	{ "POST", "/aws/events", "{\"twice\": true}", "{}",
	    "Deliver every event of an instance to the queues twice, under one id.", events_post,
	    NULL },
	{ "POST", "/aws/fulfilment",
	    "{\"region\": NAME, \"zone\": ID, \"type\": NAME, \"requested\": VCPUS, "
	    "\"fulfilled\": VCPUS, \"combinations\": 1, \"hours_ago\": 1}",
	    "{}",
	    "Let the account have asked for spot capacity of a pool in an hour. combinations is "
	    "how many pools the requests would take.",
	    filled_post, NULL },
	{ "POST", "/aws/impaired", "{\"zone\": ID}", "{}",
	    "Make DescribeInstances fail for instances of a zone and for calls without ids. An "
	    "empty "
	    "zone ends it.",
	    impaired_post, NULL },
	{ "POST", "/aws/quota", "{\"region\": PATTERN, \"code\": PATTERN, \"vcpus\": N}", "{}",
	    "Set applied quotas, as POST /quota does.", quota_post, NULL },
	{ "POST", "/aws/reservation",
	    "{\"region\": NAME, \"zone\": ID, \"type\": NAME, \"count\": 1, \"open\": false, "
	    "\"block\": false, \"interruptible\": false, \"owner\": ACCOUNT, \"ends_in_s\": 86400} "
	    "or {\"cancel\": ID} or {\"extend\": ID, \"ends_in_s\": N} or {\"reclaim\": ID, "
	    "\"count\": N, \"notice_s\": 120}",
	    "{\"id\": ID}, {} or {\"instances\": [ID]}",
	    "Make a capacity reservation (targeted unless open, without an end unless told) or a "
	    "capacity block (a day), cancel one, or set another end. The instances of a block end "
	    "30 minutes before it. The owner of an interruptible one reclaims count of it (all "
	    "unless "
	    "told): unused capacity first, then that of instances, which end after the notice.",
	    reserved_post, NULL },
	{ .path = NULL },
};

const struct cloud_ops aws_cloud = {
	.name = "aws",
	.notice_s = 120,
	.shared_prefix = "/",
	.init = aws_init,
	.free = aws_free,
	.classify = aws_classify,
	.serve = aws_serve,
	.error = aws_error,
	.imds = aws_imds,
	.env = aws_env,
	.event = aws_event,
	.inst_free = aws_inst_free,
	.left = s3_left,
	.has_feed = true,
	.calls = aws_calls,
};
