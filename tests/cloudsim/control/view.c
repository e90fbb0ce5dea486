/* Control calls that only look. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/sim/cloud.h"
#include "cloudsim/control/control.h"
#include "cloudsim/lambda/lambda.h"
#include "base/text/text.h"

void control_send(struct httpd_req *r, int status, json_t *doc)
{
	char *text = json_text(r->arena, doc);

	json_decref(doc);
	httpd_reply(r, status, "application/json", text, strlen(text));
}

void control_send_error(struct httpd_req *r, const struct spot_err *err)
{
	control_send(r, spot_rc_http(err->rc),
	    json_pack("{s:s, s:s}", "error", err->text, "code", spot_rc_name(err->rc)));
}

json_t *control_session(struct sim *s, int64_t seconds)
{
	const struct cred *c =
	    cred_session(s, "arn:aws:sts::" AWS_ACCOUNT ":assumed-role/broker/control",
		"AROACLOUDSIM:control", seconds);
	char at[TIME_TEXT_MAX], now[TIME_TEXT_MAX];

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "Code", "Success", "LastUpdated",
	    format_time_s(sim_wall(s), now), "Type", "AWS-HMAC", "AccessKeyId", c->akid,
	    "SecretAccessKey", c->secret, "Token", c->session_token, "Expiration",
	    format_time_s(c->expires_us, at));
}

json_t *control_state(struct sim *s, struct httpd_req *r)
{
	const char *provider = httpd_query(r, "provider"), *live = httpd_query(r, "live");
	json_t *list = json_array();

	for (const struct inst *i = s->insts; i; i = i->next) {
		if ((provider && !str_same(provider, cloud_name(i->cloud))) ||
		    (live && i->state == INST_GONE)) {
			continue;
		}
		json_array_append_new(list, inst_json(i));
	}
	return json_pack("{s:I, s:I, s:i, s:I, s:o, s:o, s:o, s:o}", "now_us",
	    (json_int_t)sim_wall(s), "clock_us", (json_int_t)sim_clock(s), "alive", s->alive, "seq",
	    (json_int_t)books_seq(s), "instances", list, "launches", books_launches(s), "requests",
	    books_counts(s), "faults", fault_json(s));
}

static json_t *price_json(const struct sim *s, const struct pool *p, enum side side)
{
	if (!p->price[side].sold) {
		return json_null();
	}
	return json_integer(price_at(&p->price[side], sim_wall(s)));
}

static json_t *stock_json(const struct pool *p, enum side side)
{
	return p->stock[side] >= STOCK_OPEN ? json_null() : json_integer(p->stock[side]);
}

json_t *control_pools(struct sim *s, struct httpd_req *r)
{
	const char *text = httpd_query(r, "pool");
	json_t *list = json_array(), *path = json_string(text ? text : "*");
	struct spot_err err = { 0 };
	struct selector sel;
	bool ok = selector_from_json(path, r->arena, &sel, &err);

	json_decref(path);
	if (!ok) {
		json_decref(list);
		control_send_error(r, &err);
		return NULL;
	}
	for (size_t k = 0; k < s->market->pools_n; k++) {
		const struct pool *p = &s->market->pools[k];

		if (!selector_pool(&sel, p)) {
			continue;
		}
		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:b}",
			"provider", cloud_name(p->cloud), "region", p->region->name, "zone",
			p->zone ? p->zone->id : "", "zone_name", p->zone ? p->zone->name : "",
			"type", p->type->name, "spot_micros", price_json(s, p, SIDE_SPOT),
			"on_demand_micros", price_json(s, p, SIDE_ON_DEMAND), "spot_stock",
			stock_json(p, SIDE_SPOT), "on_demand_stock", stock_json(p, SIDE_ON_DEMAND),
			"spot_used", (json_int_t)p->used[SIDE_SPOT], "on_demand_used",
			(json_int_t)p->used[SIDE_ON_DEMAND], "advertised", p->advertised));
	}
	return json_pack("{s:o}", "pools", list);
}

json_t *control_events(struct sim *s, struct httpd_req *r)
{
	const char *since = httpd_query(r, "since");
	int64_t from = 0;

	if (since && !parse_i64(since, 0, INT64_MAX, &from)) {
		from = 0;
	}
	return json_pack("{s:o, s:I}", "events",
	    books_events(s, (uint64_t)from, httpd_query(r, "event"), httpd_query(r, "instance"),
		httpd_query(r, "token")),
	    "seq", (json_int_t)books_seq(s));
}

/* The replies of an instance role's or a container's endpoint, for tests of the credential
 * chain. */
json_t *control_role(struct sim *s, struct httpd_req *r)
{
	const char *path = r->path + strlen("/role");

	if (str_same(path, "/latest/api/token") && str_same(r->method, "PUT")) {
		httpd_set(r, "X-aws-ec2-metadata-token-ttl-seconds", "21600");
		httpd_reply(r, 200, "text/plain", "AQAEAcloudsim==", 15);
	} else if (!str_same(httpd_header(r, "x-aws-ec2-metadata-token"), "AQAEAcloudsim==")) {
		httpd_reply(r, 401, "text/plain", "Unauthorized", 12);
	} else if (str_same(path, "/latest/meta-data/iam/security-credentials/")) {
		httpd_reply(r, 200, "text/plain", "broker", 6);
	} else if (str_same(path, "/latest/meta-data/iam/security-credentials/broker")) {
		control_send(r, 200, control_session(s, 3600));
	} else if (str_same(path, "/latest/meta-data/placement/availability-zone")) {
		httpd_reply(r, 200, "text/plain", "us-east-1a", 10);
	} else {
		httpd_reply(r, 404, "text/plain", "Not Found", 9);
	}
	return NULL;
}

json_t *control_books(struct sim *s, struct httpd_req *r UNUSED)
{
	return books_bill(s);
}

json_t *control_wait(struct sim *s, struct httpd_req *r)
{
	waits_park(s, r);
	return NULL;
}

json_t *control_faults(struct sim *s, struct httpd_req *r UNUSED)
{
	return json_pack("{s:o}", "faults", fault_json(s));
}

json_t *control_fault_drop(struct sim *s, struct httpd_req *r)
{
	const char *id = httpd_query(r, "id");
	int64_t n = 0;

	if (id && !parse_i64(id, 1, INT64_MAX, &n)) {
		n = INT64_MAX;
	}
	return json_pack("{s:I}", "dropped", (json_int_t)fault_drop(s, (uint64_t)n));
}

json_t *control_keys(struct sim *s, struct httpd_req *r UNUSED)
{
	return creds_json(s);
}

json_t *control_container(struct sim *s, struct httpd_req *r UNUSED)
{
	return control_session(s, 3600);
}

json_t *control_certificate(struct sim *s, struct httpd_req *r)
{
	const char *pem = imds_certificate(s, r->arena);

	httpd_reply(r, 200, "application/x-pem-file", pem, strlen(pem));
	return NULL;
}

json_t *control_health(struct sim *s UNUSED, struct httpd_req *r UNUSED)
{
	return json_pack("{s:b}", "ok", 1);
}
