/* StopInstances, StartInstances, RebootInstances, instance attributes, console output (their pages
 * of the EC2 API reference). */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

/* Ids of the request, all of them there; 0 = e->failed. */
static size_t named_all(struct ec2 *e, const char ***ret)
{
	size_t n = form_list(&e->form, e->rq->arena, "InstanceId", ret);

	form_accept(&e->form, "Force");
	form_accept(&e->form, "SkipOsShutdown");
	form_accept(&e->form, "AdditionalInfo");
	if (n == 0) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter InstanceId");
	}
	if (!ec2_ready(e)) {
		return 0;
	}
	for (size_t k = 0; k < n; k++) {
		if (!ec2_named(e, (*ret)[k])) {
			return 0;
		}
	}
	return n;
}

static void wrong_state(struct ec2 *e, const struct inst *i, const char *verb)
{
	int code;

	ec2_fail(e, 400, "IncorrectInstanceState",
	    "The instance '%s' is not in a state from which it can be %s. (%s)", i->id, verb,
	    ec2_state_word(i, &code));
}

static bool may_stop(struct ec2 *e, const struct inst *i, bool hibernate)
{
	if (i->side == SIDE_SPOT && !i->persistent) {
		ec2_fail(e, 400, "UnsupportedOperation",
		    "You can't stop the Spot Instance '%s' because it is associated with a "
		    "one-time "
		    "Spot Instance request. You can only stop Spot Instances associated with "
		    "persistent Spot Instance requests.",
		    i->id);
	} else if (hibernate) {
		ec2_fail(e, 400, "UnsupportedHibernationConfiguration",
		    "The instance '%s' was not configured for hibernation at launch.", i->id);
	} else if (i->state == INST_SHUTTING || i->state == INST_GONE || i->state == INST_PENDING) {
		wrong_state(e, i, "stopped");
	}
	return !e->failed;
}

void ec2_stop(struct ec2 *e)
{
	const char **ids;
	bool hibernate = ec2_bool(e, "Hibernate", false);
	size_t n = named_all(e, &ids);

	for (size_t k = 0; k < n; k++) {
		if (!may_stop(e, inst_find(e->sim, ids[k]), hibernate)) {
			return;
		}
	}
	if (n == 0) {
		return;
	}
	ec2_begin(e);
	x_open(&e->out, "instancesSet");
	for (size_t k = 0; k < n; k++) {
		struct inst *i = inst_find(e->sim, ids[k]);
		enum inst_state before = i->state;

		inst_stop(i);
		inst_sir_set(i, "disabled", "instance-stopped-by-user",
		    "Your Spot Instance was stopped by you.");
		ec2_change_xml(e, i, before);
	}
	x_close(&e->out, "instancesSet");
}

static bool may_start(struct ec2 *e, const struct inst *i)
{
	const struct quota *q = quota_of(i->pool->type, i->side);
	int code;

	if (i->state == INST_RUNNING || i->state == INST_PENDING) {
		return true; /* nothing is done to it */
	}
	ec2_state_word(i, &code);
	if (i->state != INST_STOPPED || code != 80) {
		wrong_state(e, i, "started");
		return false;
	}
	if (q && !i->counted &&
	    quota_used(e->sim, e->rq->region, q) + i->pool->type->vcpus >
		quota_value(e->sim, e->rq->region, q->code)) {
		ec2_fail(e, 400,
		    i->side == SIDE_SPOT ? "MaxSpotInstanceCountExceeded" : "VcpuLimitExceeded",
		    "You have requested more vCPU capacity than your current vCPU limit allows for "
		    "the instance bucket that the specified instance type belongs to.");
	} else if (!i->counted && pool_free(i->pool, i->side) < 1) {
		ec2_fail(e, 500, "InsufficientInstanceCapacity",
		    "Insufficient capacity. We currently do not have sufficient %s capacity in the "
		    "Availability Zone of the instance (%s).",
		    i->pool->type->name, i->pool->zone->name);
	}
	return !e->failed;
}

void ec2_start(struct ec2 *e)
{
	const char **ids;
	size_t n = named_all(e, &ids);

	for (size_t k = 0; k < n; k++) {
		if (!may_start(e, inst_find(e->sim, ids[k]))) {
			return;
		}
	}
	if (n == 0) {
		return;
	}
	ec2_begin(e);
	x_open(&e->out, "instancesSet");
	for (size_t k = 0; k < n; k++) {
		struct inst *i = inst_find(e->sim, ids[k]);
		enum inst_state before = i->state;

		inst_restart(i);
		inst_sir_set(i, "active", "fulfilled", "Your Spot request is fulfilled.");
		ec2_change_xml(e, i, before);
	}
	x_close(&e->out, "instancesSet");
}

/* The machine goes on, and so does the bill; its program is not started anew. */
void ec2_reboot(struct ec2 *e)
{
	const char **ids;
	size_t n = named_all(e, &ids);

	for (size_t k = 0; k < n; k++) {
		const struct inst *i = inst_find(e->sim, ids[k]);

		if (i->state != INST_RUNNING && i->state != INST_UNHEALTHY) {
			wrong_state(e, i, "rebooted");
			return;
		}
	}
	if (n == 0) {
		return;
	}
	ec2_begin(e);
	x_bool(&e->out, "return", true);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void value_xml(struct ec2 *e, const char *tag, const char *value)
{
	x_open(&e->out, tag);
	x_text(&e->out, "value", value);
	x_close(&e->out, tag);
}

static void attribute_xml(struct ec2 *e, const struct inst *i, const char *name)
{
	struct arena *a = e->rq->arena;

	if (str_same(name, "instanceType")) {
		value_xml(e, name, i->pool->type->name);
	} else if (str_same(name, "userData")) {
		value_xml(e, name,
		    i->user_data ? base64_encode(a, i->user_data, i->user_data_n) : NULL);
	} else if (str_same(name, "disableApiTermination")) {
		value_xml(e, name, i->guarded ? "true" : "false");
	} else if (str_same(name, "instanceInitiatedShutdownBehavior")) {
		value_xml(e, name, i->shutdown_behaviour);
	} else if (str_same(name, "rootDeviceName")) {
		value_xml(e, name, "/dev/sda1");
	} else if (str_same(name, "blockDeviceMapping")) {
		ec2_disk_map_xml(e, &e->out, i);
	} else if (str_same(name, "groupSet")) {
		sbuf_puts(&e->out, "<groupSet><item>");
		x_text(&e->out, "groupId", i->security_group);
		x_text(&e->out, "groupName", "default");
		sbuf_puts(&e->out, "</item></groupSet>");
	} else if (str_same(name, "sriovNetSupport")) {
		value_xml(e, name, "simple");
	} else {
		value_xml(e, name,
		    str_same(name, "sourceDestCheck") || str_same(name, "enaSupport") ? "true"
			: str_same(name, "disableApiStop") || str_same(name, "ebsOptimized")
			? "false"
			: NULL);
	}
}

void ec2_attribute(struct ec2 *e)
{
	static const char *const known[] = { "instanceType", "kernel", "ramdisk", "userData",
		"disableApiTermination", "instanceInitiatedShutdownBehavior", "rootDeviceName",
		"blockDeviceMapping", "sourceDestCheck", "groupSet", "ebsOptimized",
		"sriovNetSupport", "enaSupport", "disableApiStop" };
	const char *id = form_get(&e->form, "InstanceId"), *name = form_get(&e->form, "Attribute");
	const struct inst *i;

	if (!id || !name) {
		ec2_fail(e, 400, "MissingParameter", "The request must contain the parameter %s",
		    id ? "attribute" : "instanceId");
	} else if (!ec2_match_any(known, ARRAY_LEN(known), name)) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter attribute is invalid. Unknown attribute.", name);
	}
	if (!ec2_ready(e) || !(i = ec2_named(e, id))) {
		return;
	}
	ec2_begin(e);
	x_text(&e->out, "instanceId", i->id);
	attribute_xml(e, i, name);
}

/* "Attribute" and "Value", or one member named for itself. */
static const char *new_value(struct ec2 *e, const char *attribute, const char *member)
{
	const char *name = form_get(&e->form, "Attribute"), *value = form_get(&e->form, "Value");
	const char *own = form_get(&e->form, member);

	return own ? own : str_same(name, attribute) ? value : NULL;
}

static void set_text(char **at, const char *text)
{
	free(*at);
	*at = dup_text(text);
}

/* Another type or other user data need a stopped instance; another type also its own capacity at
 * the start. */
static void state_change(struct ec2 *e, struct inst *i, const char *type, const char *data)
{
	struct pool *p = type
	    ? market_pool(e->sim->market, CLOUD_AWS, e->rq->region, i->pool->zone, type)
	    : NULL;
	struct str raw = { 0 };

	if ((type || data) && i->state != INST_STOPPED) {
		ec2_fail(e, 400, "IncorrectInstanceState",
		    "The instance '%s' is not in the 'stopped' state.", i->id);
	} else if (type && i->side == SIDE_SPOT) {
		ec2_fail(e, 400, "UnsupportedOperation",
		    "Modifying the instance type of a Spot Instance is not supported.");
	} else if (type && (!p || !p->price[i->side].sold)) {
		ec2_fail(e, 400, "InvalidInstanceAttributeValue",
		    "Invalid value '%s' for InstanceType.", type);
	} else if (data &&
	    (!base64_decode(e->rq->arena, data, strlen(data), &raw) || raw.n > 16384)) {
		ec2_fail(e, 400, "InvalidUserData.Malformed",
		    "Invalid BASE64 encoding of user data.");
	} else {
		if (p && !i->counted) {
			i->pool = p;
		}
		if (data) {
			set_text(&i->user_data,
			    arena_strndup(e->rq->arena, raw.p ? raw.p : "", raw.n));
			i->user_data_n = strlen(i->user_data);
		}
	}
}

void ec2_modify_attribute(struct ec2 *e)
{
	const char *id = form_get(&e->form, "InstanceId");
	const char *guard = new_value(e, "disableApiTermination", "DisableApiTermination.Value");
	const char *down = new_value(e, "instanceInitiatedShutdownBehavior",
	    "InstanceInitiatedShutdownBehavior.Value");
	const char *type = new_value(e, "instanceType", "InstanceType.Value");
	const char *data = new_value(e, "userData", "UserData.Value");
	const char **groups;
	size_t groups_n = form_list(&e->form, e->rq->arena, "GroupId", &groups);
	struct inst *i;

	form_accept(&e->form, "SourceDestCheck.Value");
	form_accept(&e->form, "EbsOptimized.Value");
	form_accept(&e->form, "DisableApiStop.Value");
	form_accept(&e->form, "EnaSupport.Value");
	if (!id) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter instanceId");
	}
	if (down && !str_same(down, "stop") && !str_same(down, "terminate")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter instanceInitiatedShutdownBehavior is invalid.", down);
	}
	for (size_t k = 0; k < groups_n; k++) {
		if (!str_same(groups[k], net_group(e->rq->arena, e->rq->region))) {
			ec2_fail(e, 400, "InvalidGroup.NotFound",
			    "The security group '%s' does not exist", groups[k]);
		}
	}
	if (!ec2_ready(e) || !(i = ec2_named(e, id))) {
		return;
	}
	state_change(e, i, type, data);
	if (!e->failed && str_same(guard, "true") && i->side == SIDE_SPOT) {
		ec2_fail(e, 400, "UnsupportedOperation",
		    "Termination protection is not supported for Spot Instances.");
	}
	if (e->failed) {
		return;
	}
	i->guarded = guard ? str_same(guard, "true") : i->guarded;
	if (down) {
		set_text(&i->shutdown_behaviour, down);
	}
	ec2_begin(e);
	x_bool(&e->out, "return", true);
}

/* ---- console --------------------------------------------------------------------------------- */

void ec2_console(struct ec2 *e)
{
	struct arena *a = e->rq->arena;
	const char *id = form_get(&e->form, "InstanceId"), *text;
	const struct inst *i;
	struct str log = { 0 };

	form_accept(&e->form, "Latest");
	if (!id) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter instanceId");
	}
	if (!ec2_ready(e) || !(i = ec2_named(e, id))) {
		return;
	}
	if (i->home) {
		file_get(a, arena_printf(a, "%s/console.log", i->home), &log);
	}
	/* The last 64 KiB; nothing before the first boot has written. */
	if (log.n > 65536) {
		log = (struct str){ log.p + log.n - 65536, 65536 };
	}
	text = i->home ? base64_encode(a, log.p ? log.p : "", log.n)
	    : i->state == INST_PENDING
	    ? ""
	    : base64_encode(a, "[    0.000000] Linux version 6.8.0 (cloudsim)\n", 46);
	ec2_begin(e);
	x_text(&e->out, "instanceId", i->id);
	x_text(&e->out, "timestamp", aws_time_ms(a, sim_wall(e->sim)));
	x_text(&e->out, "output", text);
}
