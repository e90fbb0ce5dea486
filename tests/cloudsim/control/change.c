/*
 * Control calls that change something. A body names pools by "pool": an object or a text
 * provider/region/zone/type/market, * and ? in each part.
 */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/sim/cloud.h"
#include "cloudsim/control/control.h"
#include "base/text/text.h"

/* ---- selection ------------------------------------------------------------------------------- */

static bool pool_read(const json_t *doc, struct arena *a, struct selector *ret,
    struct spot_err *err)
{
	const json_t *pool = json_object_get(doc, "pool");

	return selector_from_json(pool ? pool : doc, a, ret, err);
}

/* Instances named by "instance" (pattern of ids) or "pool"; dead ones are left out. */
struct picked {
	struct inst **list;
	size_t n;
};

static bool insts_pick(struct sim *s, const json_t *doc, struct arena *a, struct picked *ret,
    struct spot_err *err)
{
	const char *id = json_str(doc, "instance", NULL, err);
	int64_t max = json_i64(doc, "max", INT64_MAX, err);
	struct selector sel = { 0 };

	*ret = (struct picked){ arena_array(a, (size_t)s->inst_seq + 1, sizeof(struct inst *)), 0 };
	if (!id && !pool_read(doc, a, &sel, err)) {
		return false;
	}
	for (struct inst *i = s->insts; i && (int64_t)ret->n < max; i = i->next) {
		if (i->state == INST_GONE || i->state == INST_SHUTTING) {
			continue;
		}
		if (id ? glob_match(id, i->id)
		       : selector_pool(&sel, i->pool) && selector_side(&sel, i->side)) {
			ret->list[ret->n++] = i;
		}
	}
	if (id && ret->n == 0) {
		err_set(err, SPOT_NOT_FOUND, "no live instance %s", id);
	}
	return err->rc == SPOT_OK;
}

static json_t *picked_json(const struct picked *p)
{
	json_t *ids = json_array();

	for (size_t k = 0; k < p->n; k++) {
		json_array_append_new(ids, json_string(p->list[k]->id));
	}
	return json_pack("{s:o}", "instances", ids);
}

/* ---- changes --------------------------------------------------------------------------------- */

json_t *control_price(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	const json_t *usd = json_object_get(doc, "usd");
	int64_t micros, n = 0;
	struct selector sel;

	if (!pool_read(doc, a, &sel, err)) {
		return NULL;
	}
	if (usd && !json_is_null(usd) && (!json_is_number(usd) || json_number_value(usd) <= 0)) {
		err_set(err, SPOT_INVALID,
		    "usd must be a number above 0, or null to follow the record again");
		return NULL;
	}
	micros = (int64_t)(json_number_value(usd) * 1e6 + 0.5);
	for (size_t k = 0; k < s->market->pools_n; k++) {
		struct pool *p = &s->market->pools[k];

		for (enum side side = 0; side < SIDE_COUNT; side++) {
			if (!selector_pool(&sel, p) || !selector_side(&sel, side) ||
			    !p->price[side].sold) {
				continue;
			}
			p->price[side].held = micros > 0;
			if (micros > 0) {
				price_set(s, p, side, sim_wall(s), micros);
			}
			if (cloud_ops(p->cloud)->price) {
				cloud_ops(p->cloud)->price(s, p, side);
			}
			n++;
		}
	}
	return json_pack("{s:I}", "pools", (json_int_t)n);
}

static int64_t stock_set(struct sim *s, const struct selector *sel, int64_t count,
    const json_t *advertised)
{
	int64_t n = 0;

	for (size_t k = 0; k < s->market->pools_n; k++) {
		struct pool *p = &s->market->pools[k];

		if (!selector_pool(sel, p)) {
			continue;
		}
		if (advertised && p->cloud == CLOUD_LAMBDA) {
			p->advertised_by_hand = !json_is_null(advertised);
			p->advertised = json_is_true(advertised);
		}
		for (enum side side = 0; side < SIDE_COUNT; side++) {
			if (!selector_side(sel, side) || count < 0) {
				continue;
			}
			p->supply_held = true;
			pool_stock_set(s, p, side, count);
			n++;
		}
	}
	return n;
}

/* count null: open again (and the supply record, if one plays, is followed again). */
json_t *control_stock(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	const json_t *count = json_object_get(doc, "count"),
		     *advertised = json_object_get(doc, "advertised");
	struct selector sel;
	int64_t n;

	if (!pool_read(doc, a, &sel, err)) {
		return NULL;
	}
	if (!count && !advertised) {
		err_set(err, SPOT_INVALID,
		    "count (a number, or null for no limit) or advertised is needed");
		return NULL;
	}
	n = stock_set(s, &sel,
	    json_is_integer(count) ? json_integer_value(count)
		: count            ? STOCK_OPEN
				   : -1,
	    advertised);
	for (size_t k = 0; json_is_null(count) && k < s->market->pools_n; k++) {
		if (selector_pool(&sel, &s->market->pools[k])) {
			s->market->pools[k].supply_held = false;
		}
	}
	return json_pack("{s:I}", "pools", (json_int_t)n);
}

json_t *control_reclaim(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	double notice = json_f64(doc, "notice_s", -1, err),
	       before = json_f64(doc, "rebalance_s_before", 0, err);
	int64_t stock = json_i64(doc, "stock", -1, err);
	struct picked p;

	if (!insts_pick(s, doc, a, &p, err)) {
		return NULL;
	}
	for (size_t k = 0; k < p.n; k++) {
		if (stock >= 0) {
			p.list[k]->pool->supply_held = true;
			pool_stock_set(s, p.list[k]->pool, p.list[k]->side, stock);
		}
		inst_reclaim(p.list[k],
		    (int64_t)((notice >= 0 ? notice : cloud_ops(p.list[k]->cloud)->notice_s) * 1e6),
		    (int64_t)(before * 1e6), false);
	}
	return picked_json(&p);
}

/* A host that fails: no notice, no reclaim status. what=program ends only the process tree,
 * what=reboot starts it again. */
json_t *control_kill(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	const char *what = json_str(doc, "what", "", err);
	struct picked p;

	if (!insts_pick(s, doc, a, &p, err)) {
		return NULL;
	}
	for (size_t k = 0; k < p.n; k++) {
		if (str_same(what, "program")) {
			agent_kill(p.list[k]);
		} else if (str_same(what, "reboot")) {
			agent_reboot(p.list[k]);
		} else {
			inst_end(p.list[k], "kill", "Server.InternalError",
			    "Server.InternalError: Internal error on launch");
		}
	}
	return picked_json(&p);
}

json_t *control_unhealthy(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	struct picked p;

	if (!insts_pick(s, doc, a, &p, err)) {
		return NULL;
	}
	for (size_t k = 0; k < p.n; k++) {
		loop_timer_stop(&p.list[k]->timer);
		p.list[k]->state = INST_UNHEALTHY;
		books_event(s, "unhealthy", p.list[k], NULL);
	}
	return picked_json(&p);
}

/* Lambda: any text as status, such as one that nobody knows; null ends it. */
json_t *control_status(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	const char *status = json_str(doc, "status", NULL, err);
	struct picked p;

	if (!insts_pick(s, doc, a, &p, err)) {
		return NULL;
	}
	for (size_t k = 0; k < p.n; k++) {
		free(p.list[k]->status);
		p.list[k]->status = dup_text(status);
	}
	return picked_json(&p);
}

/* A scheduled event, in the words of meta-data/events/maintenance/scheduled. "21 Jan 2019 09:00:43
 * GMT": an HTTP date without its weekday. */
static json_t *maintenance_event(struct sim *s, const json_t *doc, const struct inst *i, int which,
    struct arena *a, struct spot_err *err)
{
	int64_t in_s = json_i64(doc, "in_s", 3600, err);
	char from[64], to[64];

	sim_http_date(sim_wall(s) + in_s * SPOT_US_PER_S, from);
	sim_http_date(sim_wall(s) + (in_s + 7200) * SPOT_US_PER_S, to);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "NotBefore", from + 5, "Code",
	    json_str(doc, "code", "instance-retirement", err), "Description", "scheduled event",
	    "EventId", arena_printf(a, "instance-event-%.16s%d", i->id + 2, which), "NotAfter",
	    to + 5, "State", json_str(doc, "state", "active", err));
}

json_t *control_maintenance(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	const json_t *also = json_object_get(doc, "also");
	struct picked p;

	if (!insts_pick(s, doc, a, &p, err)) {
		return NULL;
	}
	for (size_t k = 0; k < p.n; k++) {
		struct inst *i = p.list[k];
		AUTO(json) json_t *events = json_array();

		json_array_append_new(events, maintenance_event(s, doc, i, 0, a, err));
		if (also != NULL) {
			json_array_append_new(events, maintenance_event(s, also, i, 1, a, err));
		}
		free(i->maintenance);
		i->maintenance = json_dumps(events, JSON_COMPACT);
		books_event(s, "maintenance", i, NULL);
	}
	return picked_json(&p);
}

json_t *control_quota(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	const char *provider = json_str(doc, "provider", "aws", err);
	const char *path = arena_printf(a, "/%s/quota", provider);
	const struct control_call *call = clouds_call("POST", path);

	if (err->rc != SPOT_OK) {
		return NULL;
	}
	if (!call) {
		err_set(err, SPOT_NOT_FOUND, "no such control call: POST %s", path);
		return NULL;
	}
	return call->post(s, doc, a, err);
}

json_t *control_fault(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	uint64_t id;

	(void)a;
	return fault_add(s, doc, &id, err) ? json_pack("{s:I}", "id", (json_int_t)id) : NULL;
}

/* rotate: new AWS key, the old is refused; rotate_lambda; expire: all sessions end now; session: a
 * new temporary credential. */
json_t *control_credentials(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	const char *action = json_need_str(doc, "action", err);
	int64_t seconds = json_i64(doc, "seconds", 3600, err);

	(void)a;
	if (err->rc != SPOT_OK) {
		return NULL;
	}
	if (str_same(action, "rotate")) {
		creds_rotate(s);
	} else if (str_same(action, "rotate_lambda")) {
		lambda_key_set(s, NULL);
	} else if (str_same(action, "expire")) {
		return json_pack("{s:I}", "expired", (json_int_t)creds_expire(s));
	} else if (str_same(action, "session")) {
		return control_session(s, seconds);
	} else {
		err_set(err, SPOT_INVALID, "unknown action %s", action);
		return NULL;
	}
	return creds_json(s);
}

json_t *control_advance(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	double seconds = json_f64(doc, "seconds", 0, err);

	(void)a;
	if (err->rc != SPOT_OK) {
		return NULL;
	}
	s->advanced_us += (int64_t)(seconds * 1e6);
	market_replay(s);
	return json_pack("{s:I}", "clock_us", (json_int_t)sim_clock(s));
}

static void ms_read(const json_t *doc, const char *key, int64_t *us, struct spot_err *err)
{
	*us = json_i64(doc, key, *us / 1000, err) * 1000;
}

json_t *control_config(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	static const char *const known[] = { "lag_ms", "boot_ms", "terminate_ms", "notice_ms",
		"throttle", "lambda_tags", NULL };

	(void)a;
	if (json_unknown_key(doc, known)) {
		err_set(err, SPOT_INVALID, "unknown setting %s", json_unknown_key(doc, known));
		return NULL;
	}
	ms_read(doc, "lag_ms", &s->conf.lag_us, err);
	ms_read(doc, "boot_ms", &s->conf.boot_us, err);
	ms_read(doc, "terminate_ms", &s->conf.terminate_us, err);
	ms_read(doc, "notice_ms", &s->conf.notice_us, err);
	s->conf.throttle = json_bool(doc, "throttle", s->conf.throttle, err);
	s->conf.lambda_tags_hidden =
	    !json_bool(doc, "lambda_tags", !s->conf.lambda_tags_hidden, err);
	throttle_reset(s);
	return err->rc == SPOT_OK ? json_object() : NULL;
}

/* Freezes a price feed: it answers with the old prices and times. Machines cost the new ones. */
json_t *control_feed(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	const char *name = json_string_value(json_object_get(doc, "cloud"));
	enum cloud cloud = name ? cloud_parse(name) : CLOUD_NONE;
	const json_t *frozen = json_object_get(doc, "frozen");

	(void)a;
	if (!cloud_ops(cloud)->has_feed || !json_is_boolean(frozen)) {
		err_set(err, SPOT_INVALID,
		    "cloud must be aws, gcp or azure, and frozen true or false");
		return NULL;
	}
	s->frozen_us[cloud] = json_is_true(frozen) ? sim_wall(s) : 0;
	if (cloud_ops(cloud)->feed) {
		cloud_ops(cloud)->feed(s);
	}
	return json_object();
}

json_t *control_quit(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	(void)doc;
	(void)a;
	(void)err;
	sim_quit(s);
	return json_object();
}
