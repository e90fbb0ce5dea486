#include "base/base.h"
#include "azure_priv.h"

/*
 * A machine as the vendor tells it, and terminating one. States:
 * learn.microsoft.com/azure/virtual-machines/ states-billing and
 * rest/api/compute/virtual-machines/instance-view.
 */

#include <ctype.h>
#include <strings.h>

int64_t azure_time(const char *text)
{
	int64_t us;

	return !str_empty(text) && parse_time_us(text, &us) ? us : 0;
}

const char *azure_id_part(struct arena *a, const char *id, const char *kind)
{
	size_t n = strlen(kind);

	for (const char *p = id; p != NULL && (p = strchr(p, '/')) != NULL; p++) {
		if (strncasecmp(p + 1, kind, n) == 0 && p[1 + n] == '/') {
			char *part = arena_strndup(a, p + 2 + n, strcspn(p + 2 + n, "/"));

			for (char *q = part; *q != '\0'; q++) {
				*q = (char)tolower((unsigned char)*q);
			}
			return part;
		}
	}
	return "";
}

/* ---- states ---------------------------------------------------------------------------------- */

/* The status of a kind: "PowerState/running" of the statuses; "" if it has none. */
static const char *status_code(const json_t *view, const char *kind)
{
	const json_t *all = json_object_get(view, "statuses");

	for (size_t i = 0; i < json_array_size(all); i++) {
		const char *code = azure_text(json_array_get(all, i), "code");

		if (strncasecmp(code, kind, strlen(kind)) == 0) {
			return code;
		}
	}
	return "";
}

/* ProvisioningState/failed/ZonalAllocationFailed and its message. */
static const char *status_error(struct arena *a, const json_t *view)
{
	const json_t *all = json_object_get(view, "statuses");

	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *s = json_array_get(all, i);

		if (strcasecmp(azure_text(s, "level"), "Error") == 0) {
			return redact_words(a,
			    arena_printf(a, "%.80s: %.200s", azure_text(s, "code"),
				azure_text(s, "message")),
			    SIZE_MAX);
		}
	}
	return "";
}

/* Messages have slashes, too: those of links. */
const char *azure_status_code(struct arena *a, const char *reason)
{
	size_t n, from;

	if (str_prefix(reason, "NO_CAPACITY ")) {
		reason += sizeof("NO_CAPACITY ") - 1;
	} else if (str_prefix(reason, "QUOTA ")) {
		reason += sizeof("QUOTA ") - 1;
	}
	n = from = strcspn(reason, ":");
	while (from > 0 && reason[from - 1] != '/') {
		from--;
	}
	return from > 0 ? arena_strndup(a, reason + from, n - from) : "";
}

/* The core takes these words for a machine that never came for want of room. */
static const char *failure_reason(struct arena *a, const char *reason)
{
	const struct azure_code *e = azure_code_find(azure_status_code(a, reason), reason);

	if (e != NULL && e->rc == SPOT_NO_CAPACITY) {
		return arena_printf(a, "NO_CAPACITY %s", reason);
	}
	return e != NULL && e->rc == SPOT_QUOTA ? arena_printf(a, "QUOTA %s", reason) : reason;
}

static void power_read(struct spot_instance *i, const char *code)
{
	static const struct {
		const char *code;
		enum spot_instance_state state;
		enum spot_end_cause cause;
	} powers[] = {
		{ "PowerState/starting", SPOT_INSTANCE_PENDING, SPOT_END_NONE },
		{ "PowerState/running", SPOT_INSTANCE_RUNNING, SPOT_END_NONE },
		{ "PowerState/stopping", SPOT_INSTANCE_STOPPING, SPOT_END_NONE },
		{ "PowerState/deallocating", SPOT_INSTANCE_STOPPING, SPOT_END_NONE },
		/* Still there: the one bills, the other's disk does. */
		{ "PowerState/stopped", SPOT_INSTANCE_FAILED, SPOT_END_GUEST },
		{ "PowerState/deallocated", SPOT_INSTANCE_FAILED, SPOT_END_NONE },
	};

	for (size_t k = 0; k < ARRAY_LEN(powers); k++) {
		if (strcasecmp(powers[k].code, code) == 0) {
			i->state = powers[k].state;
			i->end_cause = powers[k].cause;
			i->raw_state = powers[k].code;
			return;
		}
	}
	i->state = SPOT_INSTANCE_ODD;
}

static void state_read(struct arena *a, const json_t *properties, struct spot_instance *i)
{
	const json_t *view = json_object_get(properties, "instanceView");
	const char *state = azure_text(properties, "provisioningState"),
		   *power = status_code(view, "PowerState/");

	if (*state == '\0') { /* lists with statusOnly */
		state = status_code(view, "ProvisioningState/");
		state = *state != '\0' ? state + sizeof("ProvisioningState/") - 1 : "";
	}
	i->raw_state = arena_strdup(a, state);
	/* "creating/osProvisioningInProgress" is creating. */
	state = arena_strndup(a, state, strcspn(state, "/"));
	i->raw_reason = status_error(a, view);
	if (strcasecmp(state, "Creating") == 0) {
		i->state = SPOT_INSTANCE_PENDING;
	} else if (strcasecmp(power, "PowerState/running") == 0 &&
	    strcasecmp(state, "Failed") == 0 && strstr(i->raw_reason, "OSProvisioning") == NULL) {
		/* Failed is the last request for the machine (an update, an extension that a policy
		 * puts there), not the machine: virtual-machines/states-billing. */
		i->state = SPOT_INSTANCE_RUNNING;
	} else if (strcasecmp(state, "Failed") == 0 || strcasecmp(state, "Canceled") == 0) {
		i->state = SPOT_INSTANCE_FAILED;
		i->raw_reason = failure_reason(a, i->raw_reason);
	} else if (strcasecmp(state, "Deleting") == 0) {
		i->state = SPOT_INSTANCE_STOPPING;
	} else if (strcasecmp(state, "Succeeded") == 0 || strcasecmp(state, "Updating") == 0) {
		i->state = SPOT_INSTANCE_RUNNING;
		if (*power != '\0') {
			power_read(i, arena_strdup(a, power));
		}
	} else {
		i->state = SPOT_INSTANCE_ODD;
	}
}

/* ---- a machine ------------------------------------------------------------------------------- */

bool azure_instance_read(const struct azure *self, struct arena *a, const json_t *vm,
    struct spot_instance *ret)
{
	const json_t *properties = json_object_get(vm, "properties"),
		     *tags = json_object_get(vm, "tags");
	const char *zone = json_string_value(json_array_get(json_object_get(vm, "zones"), 0));
	const char *priority = azure_text(properties, "priority");
	struct spot_instance i = { .ref =
				       azure_id_part(a, azure_text(vm, "id"), "virtualMachines") };

	if (*i.ref == '\0' || !json_is_object(properties) || *azure_text(vm, "location") == '\0') {
		return false;
	}
	i.token = arena_strdup(a, azure_tag(tags, AZURE_TAG_TOKEN));
	i.install = arena_strdup(a, azure_tag(tags, AZURE_TAG_INSTALL));
	i.key.provider = self->name;
	i.key.region = azure_region(a, azure_text(vm, "location"));
	i.key.zone = azure_zone(a, i.key.region, zone);
	i.key.instance_type =
	    arena_strdup(a, azure_text(json_object_get(properties, "hardwareProfile"), "vmSize"));
	/* Low is what spot was called before 2019. */
	i.key.market = strcasecmp(priority, "Spot") == 0 || strcasecmp(priority, "Low") == 0
	    ? SPOT_MARKET_SPOT
	    : SPOT_MARKET_ON_DEMAND;
	if (json_object_get(json_object_get(properties, "capacityReservation"),
		"capacityReservationGroup") != NULL) {
		i.key.market = SPOT_MARKET_RESERVED;
	}
	state_read(a, properties, &i);
	i.ip = "";
	i.spot_request = "";
	i.created_us = azure_time(azure_text(properties, "timeCreated"));
	*ret = i;
	return true;
}

/* ---- terminate ------------------------------------------------------------------------------- */

enum { LOOK = 0, DELETE };

static void terminate_after(const struct azure *self, struct spot_terminate *a,
    enum spot_instance_state state, const char *raw)
{
	a->after = (struct spot_instance){ .ref = a->ref,
		.token = "",
		.install = "",
		.state = state,
		.raw_state = raw,
		.raw_reason = "",
		.ip = "",
		.spot_request = "" };
	a->after.key = (struct spot_pool_key){ .provider = self->name,
		.region = a->region,
		.zone = a->zone != NULL ? a->zone : "",
		.instance_type = "" };
}

static bool code_is(struct spot_call *c, const char *wanted)
{
	const char *code, *message;

	azure_error_read(c, &code, &message);
	return strcasecmp(code, wanted) == 0;
}

static enum spot_step terminate_send(struct azure *self, struct spot_call *c, const char *ref)
{
	const struct call_state *st = c->state;
	const char *path = azure_group_path(self, c->arena, ref);
	struct azure_request r = { .what = "GET resourceGroups",
		.method = "GET",
		.limit = AZURE_LIMIT_READ };

	if (st->at == LOOK) {
		r.path = arena_printf(c->arena, "%s?api-version=" API_GROUPS, path);
		return azure_send(self, c, &r);
	}
	/* The machine is not shut down first: quicker, and nobody waits for its Terminate event. */
	r = (struct azure_request){ .what = "DELETE resourceGroups",
		.method = "DELETE",
		.limit = AZURE_LIMIT_DELETE,
		.mutating = true,
		.path = arena_printf(c->arena,
		    "%s?api-version=" API_GROUPS
		    "&forceDeletionTypes=Microsoft.Compute%%2FvirtualMachines",
		    path) };
	return azure_send(self, c, &r);
}

/* A termination deletes a whole resource group, so only one that carries our tag. */
static enum spot_step look_reply(struct azure *self, struct spot_call *c, struct spot_terminate *a)
{
	json_t *doc AUTO(json) = NULL;
	struct call_state *st = c->state;
	enum spot_step s;

	if (c->in->status == 404 && code_is(c, "ResourceGroupNotFound")) {
		terminate_after(self, a, SPOT_INSTANCE_GONE, "not-found");
		return SPOT_DONE;
	}
	s = azure_reply(c, "GET resourceGroups", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (*azure_tag(json_object_get(doc, "tags"), AZURE_TAG_INSTALL) == '\0') {
		return call_fail(c, SPOT_DENIED, NULL,
		    "azure terminate: resource group %s does not carry the tag " AZURE_TAG_INSTALL
		    ": it is not ours",
		    a->ref);
	}
	if (strcasecmp(azure_text(json_object_get(doc, "properties"), "provisioningState"),
		"Deleting") == 0) {
		terminate_after(self, a, SPOT_INSTANCE_STOPPING, "Deleting");
		return SPOT_DONE;
	}
	st->at = DELETE;
	return SPOT_STEP_NONE;
}

static enum spot_step delete_reply(struct azure *self, struct spot_call *c,
    struct spot_terminate *a)
{
	enum spot_step s;

	if (c->in->status == 404 && code_is(c, "ResourceGroupNotFound")) {
		terminate_after(self, a, SPOT_INSTANCE_GONE, "not-found");
		return SPOT_DONE;
	}
	if (c->in->status == 409 && code_is(c, "ResourceGroupBeingDeleted")) {
		terminate_after(self, a, SPOT_INSTANCE_STOPPING, "Deleting");
		return SPOT_DONE;
	}
	s = azure_reply_plain(c, "DELETE resourceGroups");
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	/* 202 and a Location: it takes minutes. The core asks again until it is not there. */
	terminate_after(self, a, c->in->status == 202 ? SPOT_INSTANCE_STOPPING : SPOT_INSTANCE_GONE,
	    "Deleting");
	return SPOT_DONE;
}

enum spot_step azure_terminate(void *p, struct spot_call *c, struct spot_terminate *a)
{
	struct azure *self = p;
	struct call_state *st = call_state_get(c, 0);
	enum spot_step s = SPOT_STEP_NONE;

	if (!azure_lease_ok(self, a->ref)) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "azure terminate: '%.64s' is not a machine of ours (%s-...)",
		    a->ref != NULL ? a->ref : "", self->group_prefix);
	}
	if (c->in != NULL) {
		s = st->at == LOOK ? look_reply(self, c, a) : delete_reply(self, c, a);
	}
	return s != SPOT_STEP_NONE ? s : terminate_send(self, c, a->ref);
}
