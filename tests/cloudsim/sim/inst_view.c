/* An instance as the control API shows it. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"

static void put_time(json_t *o, const char *key, int64_t us)
{
	if (us) {
		json_object_set_new(o, key, json_integer(us));
	}
}

static void put_text(json_t *o, const char *key, const char *text)
{
	if (text) {
		json_object_set_new(o, key, json_string(text));
	}
}

static void put_agent(json_t *o, const struct inst *i)
{
	json_t *a;

	if (!i->agent_started) {
		return;
	}
	a = json_pack("{s:b, s:b, s:i}", "started", 1, "ended", i->agent_ended, "status",
	    i->agent_status);
	put_text(a, "home", i->home);
	if (i->imds_port) {
		json_object_set_new(a, "imds_port", json_integer(i->imds_port));
	}
	json_object_set_new(o, "agent", a);
}

json_t *inst_json(const struct inst *i)
{
	json_t *o = json_object(), *tags = json_object();
	int64_t from, to, cost = bill_micros(i, &from, &to);

	put_text(o, "id", i->id);
	put_text(o, "provider", cloud_name(i->cloud));
	put_text(o, "region", i->pool->region->name);
	if (i->pool->zone) {
		put_text(o, "zone", i->pool->zone->id);
		put_text(o, "zone_name", i->pool->zone->name);
	}
	put_text(o, "type", i->pool->type->name);
	put_text(o, "market", side_name(i->side));
	put_text(o, "state", inst_state_name(i));
	put_text(o, "token", i->token);
	put_text(o, "name", i->name);
	put_text(o, "hostname", i->hostname);
	put_text(o, "image", i->image);
	put_text(o, "spot_request", i->sir);
	put_text(o, "spot_status", i->sir_code);
	put_text(o, "reason_code", i->reason_code);
	put_text(o, "ended_by", i->ended_by);
	put_time(o, "launched_us", i->launched_us);
	put_time(o, "running_us", i->running_us);
	put_time(o, "rebalance_us", i->rebalance_us);
	put_time(o, "notice_us", i->notice_us);
	put_time(o, "action_us", i->action_us);
	put_time(o, "billed_to_us", i->billed_to_us);
	put_time(o, "gone_us", i->gone_us);
	json_object_set_new(o, "reclaimed", json_boolean(i->reclaimed));
	json_object_set_new(o, "cost_micros", json_integer(cost));
	for (size_t k = 0; k < i->tags_n; k++) {
		json_object_set_new(tags, i->tags[k].key, json_string(i->tags[k].value));
	}
	json_object_set_new(o, "tags", tags);
	put_agent(o, i);
	return o;
}
