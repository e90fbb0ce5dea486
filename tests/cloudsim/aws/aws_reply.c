/* Shared by every AWS service: times, JSON bodies, the error shapes of the protocols. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "base/text/text.h"

const char *aws_time_ms(struct arena *a, int64_t us)
{
	char text[TIME_TEXT_MAX];

	format_time_s(us, text);
	return arena_printf(a, "%.19s.%03dZ", text, (int)(us / 1000 % 1000));
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

	if (rq->proto == PROTO_PLAIN) {
		reply_json(rq, rep, status,
		    json_pack("{s:{s:s, s:s}}", "error", "code", code, "message", message));
		return;
	}
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
