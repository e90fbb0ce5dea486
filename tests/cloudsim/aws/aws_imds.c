/*
 * Instance metadata, version 2 (EC2 User Guide, "Use the Instance Metadata Service"), of one
 * instance.
 */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

#define TOKENS_MAX 64

struct imds_token {
	char text[57];
	int64_t expires_us;
};

static void put_token(struct inst *i, struct httpd_req *r)
{
	const char *ttl = httpd_header(r, "x-aws-ec2-metadata-token-ttl-seconds");
	struct imds_token *t;
	int64_t seconds;

	/* A forwarded PUT is refused: the service answers only the instance itself. */
	if (httpd_header(r, "x-forwarded-for")) {
		imds_text(r, 403, "text/html", "Forbidden");
		return;
	}
	if (!ttl || !parse_i64(ttl, 1, 21600, &seconds)) {
		imds_text(r, 400, "text/html", "Bad Request");
		return;
	}
	if (i->imds_tokens_n >= TOKENS_MAX) {
		memmove(i->imds_tokens, i->imds_tokens + 1,
		    (TOKENS_MAX - 1) * sizeof(*i->imds_tokens));
		i->imds_tokens_n--;
	}
	i->imds_tokens = realloc(i->imds_tokens, (i->imds_tokens_n + 1) * sizeof(*i->imds_tokens));
	if (!i->imds_tokens) {
		abort();
	}
	t = &i->imds_tokens[i->imds_tokens_n++];
	rng_hex(&i->sim->rng, t->text, 28);
	t->expires_us = sim_wall(i->sim) + seconds * SPOT_US_PER_S;
	httpd_set(r, "X-aws-ec2-metadata-token-ttl-seconds", ttl);
	imds_text(r, 200, "text/plain", t->text);
}

static bool token_valid(const struct inst *i, const char *token)
{
	for (size_t k = 0; token && k < i->imds_tokens_n; k++) {
		if (str_same(i->imds_tokens[k].text, token)) {
			return i->imds_tokens[k].expires_us > sim_wall(i->sim);
		}
	}
	return false;
}

static const char *action_document(struct inst *i, struct arena *a)
{
	char at[TIME_TEXT_MAX];

	/* A lent reservation's warning is only an event (capacity-consumer-procedures.html). */
	if (!i->notice_us || i->lent) {
		return NULL;
	}
	return arena_printf(a, "{\"action\":\"%s\",\"time\":\"%s\"}", inst_interruption(i),
	    format_time_s(i->action_us, at));
}

static const char *rebalance_document(struct inst *i, struct arena *a)
{
	char at[TIME_TEXT_MAX];

	if (!i->rebalance_us) {
		return NULL;
	}
	return arena_printf(a, "{\"noticeTime\":\"%s\"}", format_time_s(i->rebalance_us, at));
}

static const char *life_cycle_document(struct inst *i, struct arena *a)
{
	(void)a;
	return i->side == SIDE_SPOT ? "spot" : "on-demand";
}

static const char *identity_document(struct inst *i, struct arena *a)
{
	char at[TIME_TEXT_MAX];

	return arena_printf(a,
	    "{\n  \"accountId\" : \"%s\",\n  \"architecture\" : \"%s\",\n  \"availabilityZone\" : "
	    "\"%s\",\n"
	    "  \"billingProducts\" : null,\n  \"devpayProductCodes\" : null,\n  "
	    "\"marketplaceProductCodes\" : null,\n"
	    "  \"imageId\" : \"%s\",\n  \"instanceId\" : \"%s\",\n  \"instanceType\" : \"%s\",\n  "
	    "\"kernelId\" : null,\n"
	    "  \"pendingTime\" : \"%s\",\n  \"privateIp\" : \"%s\",\n  \"ramdiskId\" : null,\n  "
	    "\"region\" : \"%s\",\n"
	    "  \"version\" : \"2017-09-30\"\n}",
	    AWS_ACCOUNT, i->pool->type->arch, i->pool->zone->name, i->image, i->id,
	    i->pool->type->name, format_time_s(i->launched_us, at), i->private_ip,
	    i->pool->region->name);
}

static const char *maintenance_document(struct inst *i, struct arena *a)
{
	(void)a;
	return i->maintenance ? i->maintenance : "[]";
}

static const char *plain_document(struct inst *i, struct arena *a, const char *what)
{
	(void)a;
	if (str_same(what, "instance-id")) {
		return i->id;
	}
	if (str_same(what, "ami-id")) {
		return i->image;
	}
	if (str_same(what, "instance-type")) {
		return i->pool->type->name;
	}
	if (str_same(what, "local-ipv4")) {
		return i->private_ip;
	}
	if (str_same(what, "public-ipv4")) {
		return i->ip;
	}
	if (str_same(what, "placement/availability-zone")) {
		return i->pool->zone->name;
	}
	if (str_same(what, "placement/availability-zone-id")) {
		return i->pool->zone->id;
	}
	if (str_same(what, "placement/region")) {
		return i->pool->region->name;
	}
	if (str_same(what, "reservation-id")) {
		return i->reservation;
	}
	if (str_same(what, "services/domain")) {
		return "amazonaws.com";
	}
	return NULL;
}

static const char *tag_document(struct inst *i, struct arena *a, const char *what)
{
	const char *list = "";

	if (!i->metadata_tags || !str_prefix(what, "tags/instance")) {
		return NULL;
	}
	what += strlen("tags/instance");
	if (*what == '/' && what[1]) {
		return inst_tag(i, what + 1);
	}
	for (size_t k = 0; k < i->tags_n; k++) {
		list = arena_printf(a, "%s%s%s", list, k ? "\n" : "", i->tags[k].key);
	}
	return list;
}

static void get_metadata(struct inst *i, struct httpd_req *r, const char *what)
{
	static const struct {
		const char *path;
		const char *(*make)(struct inst *, struct arena *);
		const char *type;
	} documents[] = {
		{ "meta-data/spot/instance-action", action_document, "application/json" },
		{ "meta-data/events/recommendations/rebalance", rebalance_document,
		    "application/json" },
		{ "meta-data/events/maintenance/scheduled", maintenance_document,
		    "application/json" },
		{ "meta-data/instance-life-cycle", life_cycle_document, "text/plain" },
		{ "dynamic/instance-identity/document", identity_document, "text/plain" },
	};
	const char *found = NULL;
	char at[TIME_TEXT_MAX];

	for (size_t k = 0; k < ARRAY_LEN(documents); k++) {
		if (!str_same(documents[k].path, what)) {
			continue;
		}
		found = documents[k].make(i, r->arena);
		if (found) {
			imds_text(r, 200, documents[k].type, found);
		} else {
			imds_not_found(r);
		}
		return;
	}
	if (str_same(what, "meta-data/spot/termination-time") && i->notice_us && !i->lent &&
	    str_same(inst_interruption(i), "terminate")) {
		found = format_time_s(i->action_us, at);
	} else if (str_same(what, "user-data") && i->user_data_n > 0) {
		httpd_reply(r, 200, "application/octet-stream", i->user_data, i->user_data_n);
		return;
	} else if (str_prefix(what, "dynamic/instance-identity/")) {
		found = imds_signature(i->sim, r->arena,
		    what + strlen("dynamic/instance-identity/"), identity_document(i, r->arena));
	} else if (str_prefix(what, "meta-data/")) {
		found = plain_document(i, r->arena, what + strlen("meta-data/"));
	}
	if (!found && str_prefix(what, "meta-data/")) {
		found = tag_document(i, r->arena, what + strlen("meta-data/"));
	}
	if (found) {
		imds_text(r, 200, "text/plain", found);
	} else {
		imds_not_found(r);
	}
}

void aws_imds(struct inst *i, struct httpd_req *r, const char *path)
{
	const char *what, *token = httpd_header(r, "x-aws-ec2-metadata-token");

	if (i->metadata_off || i->state == INST_GONE || i->state == INST_SHUTTING) {
		httpd_abort(r);
		return;
	}
	while (*path == '/') {
		path++;
	}
	if (!(str_prefix(path, "latest/") || glob_match("20*-*-*/*", path))) {
		imds_not_found(r);
		return;
	}
	what = strchr(path, '/') + 1;
	if (str_same(what, "api/token")) {
		if (str_same(r->method, "PUT")) {
			put_token(i, r);
		} else {
			imds_text(r, 405, "text/html", "Not allowed");
		}
		return;
	}
	if (!str_same(r->method, "GET") && !str_same(r->method, "HEAD")) {
		imds_text(r, 405, "text/html", "Not allowed");
		return;
	}
	if (token ? !token_valid(i, token) : i->tokens_required) {
		imds_text(r, 401, "text/html", "Unauthorized");
		return;
	}
	get_metadata(i, r, what);
}

size_t aws_env(const struct inst *i, struct arena *a, const char **env, size_t max)
{
	if (i->metadata_off || max < 1) {
		return 0;
	}
	env[0] =
	    arena_printf(a, "AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:%d/", i->imds_port);
	return 1;
}
