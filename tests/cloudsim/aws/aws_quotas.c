/* Service Quotas: applied and default values of the EC2 vCPU classes. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "base/text/text.h"

static json_t *quota_json(struct sim_req *rq, const struct quota *q, bool dflt)
{
	/* New accounts have none of the GPU classes. */
	int64_t value = dflt ? (str_prefix(q->klass, "Standard") ? 5 : 0)
			     : quota_value(rq->sim, rq->region, q->code);

	return json_pack("{s:s, s:s, s:o, s:s, s:s, s:f, s:s, s:b, s:b, s:{s:s, s:s, s:{s:s, s:s, "
			 "s:s, s:s}, s:s}}",
	    "ServiceCode", "ec2", "ServiceName", "Amazon Elastic Compute Cloud (Amazon EC2)",
	    "QuotaArn",
	    json_sprintf("arn:aws:servicequotas:%s:%s:ec2/%s", rq->region, AWS_ACCOUNT, q->code),
	    "QuotaCode", q->code, "QuotaName", q->name, "Value", (double)value, "Unit", "None",
	    "Adjustable", 1, "GlobalQuota", 0, "UsageMetric", "MetricNamespace", "AWS/Usage",
	    "MetricName", "ResourceCount", "MetricDimensions", "Class", q->klass, "Resource",
	    "vCPU", "Service", "EC2", "Type", "Resource", "MetricStatisticRecommendation",
	    "Maximum");
}

/* Two rows of the table may be one quota (types of several families). */
static bool told_before(size_t k)
{
	for (size_t i = 0; i < k; i++) {
		if (str_same(quotas[i].code, quotas[k].code)) {
			return true;
		}
	}
	return false;
}

static void quotas_list(struct sim_req *rq, struct sim_reply *rep, const json_t *doc, bool dflt)
{
	const json_t *size = json_object_get(doc, "MaxResults");
	const char *token = json_string_value(json_object_get(doc, "NextToken"));
	int64_t from = 0, max = size ? json_integer_value(size) : 100, at = 0;
	json_t *found, *out;
	bool more = false;

	if (max < 1 || max > 100 || (token && !parse_i64(token, 0, 1000, &from))) {
		reply_fail(rq, rep, 400,
		    token ? "InvalidPaginationTokenException" : "IllegalArgumentException",
		    "Invalid MaxResults or NextToken");
		return;
	}
	found = json_array();
	for (size_t k = 0; k < quotas_n; k++) {
		if (told_before(k) || at++ < from) {
			continue;
		}
		if (at > from + max) {
			more = true;
			break;
		}
		json_array_append_new(found, quota_json(rq, &quotas[k], dflt));
	}
	out = json_pack("{s:o}", "Quotas", found);
	if (more) {
		json_object_set_new(out, "NextToken", json_sprintf("%d", (int)(from + max)));
	}
	reply_json(rq, rep, 200, out);
}

static void quota_get(struct sim_req *rq, struct sim_reply *rep, const json_t *doc, bool dflt)
{
	const char *code = json_string_value(json_object_get(doc, "QuotaCode"));

	for (size_t k = 0; k < quotas_n; k++) {
		if (str_same(quotas[k].code, code)) {
			reply_json(rq, rep, 200,
			    json_pack("{s:o}", "Quota", quota_json(rq, &quotas[k], dflt)));
			return;
		}
	}
	reply_fail(rq, rep, 400, "NoSuchResourceException",
	    "The request failed because the specified quota does not exist.");
}

void quotas_serve(struct sim_req *rq, struct sim_reply *rep)
{
	json_t *doc = aws_json_body(rq, rep);
	bool dflt = str_same(rq->action, "ListAWSDefaultServiceQuotas") ||
	    str_same(rq->action, "GetAWSDefaultServiceQuota");

	if (!doc) {
		return;
	}
	if (!str_same(json_string_value(json_object_get(doc, "ServiceCode")), "ec2")) {
		reply_fail(rq, rep, 400, "NoSuchResourceException",
		    "The request failed because the specified service does "
		    "not exist.");
	} else if (str_same(rq->action, "ListServiceQuotas") ||
	    str_same(rq->action, "ListAWSDefaultServiceQuotas")) {
		quotas_list(rq, rep, doc, dflt);
	} else if (str_same(rq->action, "GetServiceQuota") ||
	    str_same(rq->action, "GetAWSDefaultServiceQuota")) {
		quota_get(rq, rep, doc, dflt);
	} else {
		reply_fail(rq, rep, 400, "UnknownOperationException", "%s", "");
	}
	json_decref(doc);
}
