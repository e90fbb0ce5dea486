/* STS: who am I, and sessions. Query protocol, 2011-06-15. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "base/text/text.h"

static void sts_begin(struct sim_req *rq, struct sbuf *b)
{
	sbuf_init(b, 1 << 20);
	sbuf_printf(b, "<%sResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><%sResult>",
	    rq->action, rq->action);
}

static void sts_end(struct sim_req *rq, struct sim_reply *rep, struct sbuf *b)
{
	sbuf_printf(b, "</%sResult><ResponseMetadata>", rq->action);
	x_text(b, "RequestId", rq->request_id);
	sbuf_printf(b, "</ResponseMetadata></%sResponse>", rq->action);
	reply_set(rep, 200, "text/xml", arena_strndup(rq->arena, b->p, b->n), b->n);
	sbuf_fini(b);
}

static void identity_get(struct sim_req *rq, struct sim_reply *rep)
{
	struct sbuf b;

	sts_begin(rq, &b);
	x_text(&b, "Arn", rq->cred->arn);
	x_text(&b, "UserId", rq->cred->user_id);
	x_text(&b, "Account", AWS_ACCOUNT);
	sts_end(rq, rep, &b);
}

struct assume {
	const char *role, *name, *token;
	int64_t seconds;
};

static bool read_assume(struct sim_req *rq, struct sim_reply *rep, struct form *f, struct assume *a)
{
	const char *seconds = form_get(f, "DurationSeconds");

	a->role = form_get(f, "RoleArn");
	a->name = form_get(f, "RoleSessionName");
	a->token = form_get(f, "WebIdentityToken");
	a->seconds = 3600;
	if (!a->role || !glob_match("arn:aws:iam::????????????:role/?*", a->role)) {
		reply_fail(rq, rep, 400, "ValidationError",
		    "1 validation error detected: Value '%s' at 'roleArn' is not a "
		    "valid role ARN",
		    a->role ? a->role : "");
	} else if (!a->name || strlen(a->name) < 2 || strlen(a->name) > 64 ||
	    a->name[strspn(a->name,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+=,.@-")]) {
		reply_fail(rq, rep, 400, "ValidationError",
		    "1 validation error detected: Value at 'roleSessionName' failed "
		    "to satisfy constraint: 2 to 64 characters of [\\w+=,.@-]");
	} else if (seconds && !parse_i64(seconds, 900, 43200, &a->seconds)) {
		reply_fail(rq, rep, 400, "ValidationError",
		    "1 validation error detected: Value '%s' at 'durationSeconds' "
		    "must be between 900 and 43200",
		    seconds);
	} else {
		return true;
	}
	return false;
}

static void put_session(struct sim_req *rq, struct sim_reply *rep, const struct assume *a, bool web)
{
	const char *role = strstr(a->role, ":role/") + strlen(":role/");
	const char *arn = arena_printf(rq->arena, "arn:aws:sts::%.12s:assumed-role/%s/%s",
	    a->role + strlen("arn:aws:iam::"), role, a->name);
	const char *id = arena_printf(rq->arena, "AROACLOUDSIM:%s", a->name);
	const struct cred *c = cred_session(rq->sim, arn, id, a->seconds);
	char at[TIME_TEXT_MAX];
	struct sbuf b;

	sts_begin(rq, &b);
	x_open(&b, "Credentials");
	x_text(&b, "AccessKeyId", c->akid);
	x_text(&b, "SecretAccessKey", c->secret);
	x_text(&b, "SessionToken", c->session_token);
	x_text(&b, "Expiration", format_time_s(c->expires_us, at));
	x_close(&b, "Credentials");
	x_open(&b, "AssumedRoleUser");
	x_text(&b, "AssumedRoleId", id);
	x_text(&b, "Arn", arn);
	x_close(&b, "AssumedRoleUser");
	if (web) {
		x_text(&b, "SubjectFromWebIdentityToken", "system:serviceaccount:default:broker");
		x_text(&b, "Audience", "sts.amazonaws.com");
		x_text(&b, "Provider", "oidc.cloudsim.invalid");
	} else {
		x_int(&b, "PackedPolicySize", 0);
	}
	sts_end(rq, rep, &b);
}

/* A token is three parts; the texts "expired" and "rejected" in it give those answers. */
static void web_identity(struct sim_req *rq, struct sim_reply *rep, struct form *f)
{
	struct assume a;

	if (!read_assume(rq, rep, f, &a)) {
		return;
	}
	if (!a.token || !glob_match("?*.?*.?*", a.token)) {
		reply_fail(rq, rep, 400, "InvalidIdentityToken",
		    "The ID Token provided is not a valid JWT. (You may see this "
		    "error if you sent an Access Token)");
	} else if (strstr(a.token, "expired")) {
		reply_fail(rq, rep, 400, "ExpiredTokenException",
		    "Token expired: current date/time must be before the "
		    "expiration date/time");
	} else if (strstr(a.token, "rejected")) {
		reply_fail(rq, rep, 403, "IDPRejectedClaim",
		    "The identity provider reported that authentication failed.");
	} else {
		put_session(rq, rep, &a, true);
	}
}

void sts_serve(struct sim_req *rq, struct sim_reply *rep)
{
	struct form f = { 0 };
	struct assume a;

	form_parse(rq, &f);
	if (str_same(rq->action, "GetCallerIdentity")) {
		identity_get(rq, rep);
	} else if (str_same(rq->action, "AssumeRoleWithWebIdentity")) {
		web_identity(rq, rep, &f);
	} else if (str_same(rq->action, "AssumeRole")) {
		if (read_assume(rq, rep, &f, &a)) {
			put_session(rq, rep, &a, false);
		}
	} else {
		reply_fail(rq, rep, 400, "InvalidAction",
		    "Could not find operation %s for version 2011-06-15",
		    rq->action ? rq->action : "(none)");
	}
}
