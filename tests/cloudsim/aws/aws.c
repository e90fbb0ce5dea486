/* Which AWS service and call a request is, and the error shapes of the protocols. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/aws/sqs.h"
#include "base/text/str.h"

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

const char *aws_time_ms(struct arena *a, int64_t us)
{
	char text[TIME_TEXT_MAX];

	format_time_s(us, text);
	return arena_printf(a, "%.19s.%03dZ", text, (int)(us / 1000 % 1000));
}

void aws_http_date(int64_t us, char ret[64])
{
	static const char *const week[] = { "Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed" };
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	char t[TIME_TEXT_MAX];
	int64_t month = 1;

	format_time_s(us, t);
	if (!parse_i64((char[]){ t[5] == '0' ? t[6] : t[5], t[5] == '0' ? '\0' : t[6], '\0' }, 1,
		12, &month)) {
		month = 1;
	}
	snprintf(ret, 64, "%s, %.2s %.3s %.4s %.8s GMT", week[us / SPOT_US_PER_S / 86400 % 7],
	    t + 8, months + 3 * (month - 1), t, t + 11);
}

/* ---- classification -------------------------------------------------------------------------- */

static const char *form_action(struct sim_req *rq, const char *name)
{
	struct form f = { 0 };

	form_parse(rq, &f);
	return form_get(&f, name);
}

void aws_classify(struct sim_req *rq)
{
	struct sig g;
	const char *target = req_header(rq, "x-amz-target");

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
	}
}

void aws_serve(struct sim_req *rq, struct sim_reply *rep)
{
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

json_t *aws_json_body(struct sim_req *rq, struct sim_reply *rep)
{
	struct spot_err err = { 0 };
	json_t *doc = NULL;

	if (rq->http->body.n == 0) {
		return json_object();
	}
	if (json_parse(rq->http->body, "request", &doc, &err) != SPOT_OK || !json_is_object(doc)) {
		json_decref(doc);
		reply_fail(rq, rep, 400, "SerializationException",
		    "Start of structure or map found where not expected.");
		return NULL;
	}
	return doc;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void error_xml(struct sim_req *rq, struct sbuf *b, const char *code, const char *message)
{
	if (rq->proto == PROTO_EC2) {
		sbuf_puts(b,
		    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error>");
		x_text(b, "Code", code);
		x_text(b, "Message", message);
		sbuf_puts(b, "</Error></Errors>");
		x_text(b, "RequestID", rq->request_id);
		sbuf_puts(b, "</Response>");
	} else if (rq->proto == PROTO_QUERY) {
		sbuf_puts(b,
		    "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error>");
		x_text(b, "Type", "Sender");
		x_text(b, "Code", code);
		x_text(b, "Message", message);
		sbuf_puts(b, "</Error>");
		x_text(b, "RequestId", rq->request_id);
		sbuf_puts(b, "</ErrorResponse>");
	} else {
		sbuf_puts(b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>");
		x_text(b, "Code", code);
		x_text(b, "Message", message);
		if (str_same(code, "RequestTimeTooSkewed") || str_same(code, "AccessDenied")) {
			x_text(b, "ServerTime",
			    aws_time_ms(rq->arena, sim_wall(rq->sim) + rq->skew_us));
		}
		x_text(b, "Resource", rq->http->path);
		x_text(b, "RequestId", rq->request_id);
		sbuf_puts(b, "</Error>");
	}
}

void aws_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message)
{
	struct sbuf b AUTO(sbuf) = { 0 };

	if (rq->proto == PROTO_JSON) {
		reply_json(rq, rep, status,
		    json_pack("{s:s, s:s}", "__type", code, "message", message));
		return;
	}
	sbuf_init(&b, 1 << 20);
	error_xml(rq, &b, code, message);
	reply_set(rep, status, rq->proto == PROTO_S3 ? "application/xml" : "text/xml;charset=UTF-8",
	    arena_strndup(rq->arena, b.p, b.n), b.n);
}
