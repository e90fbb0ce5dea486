#include "base/base.h"
#include "azure_priv.h"

/*
 * Launches one machine: PUT of its resource group, PUT of the machine, then a watch of its
 * operation. A lack of capacity may show only there
 * (learn.microsoft.com/azure/azure-resource-manager/management/async-operations). Both PUTs may be
 * repeated: the same name with the same body changes nothing. A failed machine leaves a resource in
 * state Failed, and maybe a card and an address. So its group is deleted before the refusal is
 * passed on. Machines that are to be close together get their proximity placement group first
 * (near.c).
 */

#include <strings.h>

#define CUSTOM_DATA_MAX 65535 /* before base64: virtual-machines/custom-data */
#define TAGS_MAX 46 /* 50 of a resource, four are ours */
#define POLLS_MAX 3 /* then it is PENDING, and what becomes of it is seen in lists */
#define POLL_US (10 * SPOT_US_PER_S)
#define POLL_MAX_US (30 * SPOT_US_PER_S)

enum { GROUP = 0, MACHINE, OPERATION, LOCATION, RESOURCE, CLEAN_UP, RESERVATION, NEAR_GROUP, NEAR };

struct launching {
	const char *lease, *group_body, *body;
	const char *operation; /* link to poll; NULL: the resource itself */
	int polls;
	struct spot_instance instance;
	struct spot_err refused; /* why, while we clean up */
	const char *reservation_group;
	struct azure_reservations reservations;
};

/* ---- requests -------------------------------------------------------------------------------- */

static enum spot_step launch_send(struct azure *self, struct spot_call *c,
    const struct spot_launch *a, struct launching *l)
{
	const struct call_state *st = c->state;
	struct azure_request r = { .method = "PUT", .limit = AZURE_LIMIT_WRITE, .mutating = true };

	switch (st->at) {
	case RESERVATION:
		return azure_reservations_send(self, c, l->reservation_group);
	case NEAR_GROUP:
		return azure_near_group_send(self, c, a);
	case NEAR:
		return azure_near_send(self, c, a);
	case GROUP:
		r.what = "PUT resourceGroups";
		r.path = arena_printf(c->arena, "%s?api-version=" API_GROUPS,
		    azure_group_path(self, c->arena, l->lease));
		r.body = l->group_body;
		break;
	case MACHINE:
		r.what = "PUT virtualMachines";
		r.path = arena_printf(c->arena, "%s?api-version=" API_COMPUTE,
		    azure_vm_path(self, c->arena, l->lease));
		r.body = l->body;
		break;
	case CLEAN_UP:
		r = (struct azure_request){ .what = "DELETE resourceGroups",
			.method = "DELETE",
			.limit = AZURE_LIMIT_DELETE,
			.mutating = true,
			.path = arena_printf(c->arena,
			    "%s?api-version=" API_GROUPS
			    "&forceDeletionTypes=Microsoft.Compute%%2FvirtualMachines",
			    azure_group_path(self, c->arena, l->lease)) };
		break;
	case OPERATION:
	case LOCATION:
		r = (struct azure_request){ .what = "GET operation",
			.method = "GET",
			.limit = AZURE_LIMIT_READ,
			.url = l->operation };
		break;
	default:
		r = (struct azure_request){ .what = "GET virtualMachines",
			.method = "GET",
			.limit = AZURE_LIMIT_READ,
			.path = arena_printf(c->arena,
			    "%s?$expand=instanceView&api-version=" API_COMPUTE,
			    azure_vm_path(self, c->arena, l->lease)) };
		break;
	}
	return azure_send(self, c, &r);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static enum spot_step launch_done(struct spot_launch *a, const struct launching *l)
{
	a->instance = l->instance;
	return SPOT_DONE;
}

/* After these nothing was made, or what was made is of no use; after all others it may still come
 * to something. */
static bool refusal_is_final(enum spot_rc rc)
{
	return rc == SPOT_NO_CAPACITY || rc == SPOT_NOT_OFFERED || rc == SPOT_PRICE_CAP ||
	    rc == SPOT_QUOTA || rc == SPOT_INVALID || rc == SPOT_CONFIG || rc == SPOT_DENIED ||
	    rc == SPOT_NOT_FOUND;
}

static enum spot_step launch_refused(struct azure *self, struct spot_call *c,
    const struct spot_launch *a, struct launching *l)
{
	struct call_state *st = c->state;

	l->refused = c->err;
	st->at = CLEAN_UP;
	return launch_send(self, c, a, l);
}

/* Ignores the answer: lists show anything that is left. */
static enum spot_step clean_up_reply(struct spot_call *c, const struct launching *l)
{
	c->err = l->refused;
	return SPOT_FAIL;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static enum spot_step launch_wait(struct spot_call *c, struct spot_launch *a, struct launching *l)
{
	int64_t wait = call_retry_after_us(c);

	if (l->polls++ >= POLLS_MAX || wait > POLL_MAX_US) {
		return launch_done(a, l);
	}
	return call_again(c, SPOT_UNAVAILABLE, wait > 0 ? wait : POLL_US, NULL,
	    "azure launch: %s is being created", l->lease);
}

/* A failure of something that was accepted before: the code in the operation tells which. */
static enum spot_step operation_failed(struct azure *self, struct spot_call *c,
    const struct spot_launch *a, struct launching *l, const json_t *error, const char *state)
{
	const struct azure_code *e;
	const char *code, *message;

	azure_error_walk(c->arena, error, &code, &message);
	code = redact_words(c->arena, code, SIZE_MAX);
	e = *code != '\0' ? azure_code_find(code, message) : NULL;
	/* The platform's own faults: another name, and another place, is the better bet. */
	call_fail(c, e != NULL && refusal_is_final(e->rc) ? e->rc : SPOT_NO_CAPACITY, code,
	    "azure launch: creation ended %s: %s%s%s: %s", state,
	    *code != '\0' ? code : "without a code", e != NULL ? ", " : "",
	    e != NULL ? e->scope : "", redact_words(c->arena, message, SIZE_MAX));
	if (e != NULL && c->err.rc == e->rc) {
		c->err.scope = e->rests;
	}
	return launch_refused(self, c, a, l);
}

/* Azure-AsyncOperation: 200 with a status, also when it failed. */
static enum spot_step operation_reply(struct azure *self, struct spot_call *c,
    struct spot_launch *a, struct launching *l)
{
	json_t *doc AUTO(json) = NULL;
	const char *status;

	/* A poll that fails says nothing about the machine: it was accepted. */
	if (c->in->status != 200 || json_parse(c->in->body, "operation", &doc, NULL) != SPOT_OK) {
		return launch_wait(c, a, l);
	}
	status = azure_text(doc, "status");
	if (strcasecmp(status, "Failed") == 0 || strcasecmp(status, "Canceled") == 0) {
		return operation_failed(self, c, a, l, doc,
		    strcasecmp(status, "Failed") == 0 ? "Failed" : "Canceled");
	}
	if (*status != '\0' && strcasecmp(status, "Succeeded") != 0) {
		return launch_wait(c, a, l);
	}
	return launch_done(a, l);
}

static enum spot_step location_reply(struct azure *self, struct spot_call *c, struct spot_launch *a,
    struct launching *l)
{
	json_t *doc AUTO(json) = NULL;

	if (c->in->status == 202 || c->in->status == 0 || c->in->status == 429 ||
	    c->in->status >= 500) {
		return launch_wait(c, a, l);
	}
	if (c->in->status < 300) {
		return launch_done(a, l);
	}
	if (c->in->status == 401 || c->in->status == 403 || c->in->status == 404 ||
	    json_parse(c->in->body, "operation", &doc, NULL) != SPOT_OK) {
		return launch_done(a, l);
	}
	return operation_failed(self, c, a, l, doc, "Failed");
}

static enum spot_step resource_reply(struct azure *self, struct spot_call *c, struct spot_launch *a,
    struct launching *l)
{
	json_t *doc AUTO(json) = NULL;
	struct spot_instance i;
	const char *code;

	if (c->in->status != 200 ||
	    json_parse(c->in->body, "virtual machine", &doc, NULL) != SPOT_OK ||
	    !azure_instance_read(self, c->arena, doc, &i)) {
		return launch_wait(c, a, l);
	}
	if (i.state == SPOT_INSTANCE_PENDING) {
		return launch_wait(c, a, l);
	}
	if (i.state == SPOT_INSTANCE_FAILED) {
		json_t *error AUTO(json) = NULL;

		code = azure_status_code(c->arena, i.raw_reason);
		error = json_pack("{s:s, s:s}", "code", code, "message", i.raw_reason);
		return operation_failed(self, c, a, l, error, "Failed");
	}
	i.token = l->instance.token;
	i.install = l->instance.install;
	l->instance = i;
	return launch_done(a, l);
}

/* ---- the answer to the PUT ------------------------------------------------------------------- */

static enum spot_step group_reply(struct spot_call *c)
{
	json_t *doc AUTO(json) = NULL;
	struct call_state *st = c->state;
	enum spot_step s = azure_reply(c, "PUT resourceGroups", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (*azure_text(doc, "id") == '\0') {
		return azure_bad_reply(c, "PUT resourceGroups", "no id in it");
	}
	st->at = MACHINE;
	return SPOT_STEP_NONE;
}

/* Chooses the next place to look at: Azure-AsyncOperation, then Location, then the resource
 * itself. */
static enum spot_step operation_take(struct azure *self, struct spot_call *c, struct launching *l)
{
	static const struct {
		const char *header;
		int at;
	} ways[] = { { "Azure-AsyncOperation", OPERATION }, { "Location", LOCATION } };
	struct call_state *st = c->state;

	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		const char *link = spot_http_header(c->in, ways[i].header);

		/* The token goes with it: to nobody else. */
		if (str_empty(link) || !azure_same_host(self->endpoint, link) ||
		    strlen(link) > 8000 || strpbrk(link, " \r\n\t") != NULL) {
			continue;
		}
		l->operation = arena_strdup(c->arena, link);
		st->at = ways[i].at;
		return SPOT_STEP_NONE;
	}
	st->at = RESOURCE;
	return SPOT_STEP_NONE;
}

static enum spot_step machine_reply(struct azure *self, struct spot_call *c, struct spot_launch *a,
    struct launching *l)
{
	json_t *doc AUTO(json) = NULL;
	enum spot_step s = azure_reply(c, "PUT virtualMachines", &doc);

	if (s == SPOT_FAIL && refusal_is_final(c->err.rc)) {
		return launch_refused(self, c, a, l);
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (!azure_instance_read(self, c->arena, doc, &l->instance)) {
		return azure_bad_reply(c, "PUT virtualMachines", "no machine in it");
	}
	if (strcmp(l->instance.ref, l->lease) != 0) {
		return azure_bad_reply(c, "PUT virtualMachines",
		    "the machine in it is not the one that was asked for");
	}
	/* Fill from the request: the reply may lack these. */
	if (*l->instance.token == '\0') {
		l->instance.token = a->token;
	}
	if (*l->instance.install == '\0') {
		l->instance.install = a->install;
	}
	if (*l->instance.key.instance_type == '\0') {
		l->instance.key.instance_type = a->key.instance_type;
	}
	if (*l->instance.key.zone == '\0') {
		l->instance.key.zone = a->key.zone;
	}
	if (a->key.market == SPOT_MARKET_RESERVED) {
		l->instance.key.market = a->key.market;
	}
	/* A repeat of what is done already. */
	if (c->in->status == 200 && l->instance.state == SPOT_INSTANCE_RUNNING) {
		return launch_done(a, l);
	}
	operation_take(self, c, l);
	return launch_wait(c, a, l);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static enum spot_step tags_check(struct spot_call *c, const struct spot_launch *l)
{
	if (l->tags_n > TAGS_MAX) {
		return call_fail(c, SPOT_INVALID, NULL, "azure launch: %zu tags, at most %d",
		    l->tags_n, TAGS_MAX);
	}
	for (size_t i = 0; i < l->tags_n; i++) {
		const char *k = l->tags[i].key, *v = l->tags[i].value;

		if (str_empty(k) || strlen(k) > 512 || strpbrk(k, "<>%&\\?/") != NULL ||
		    v == NULL || strlen(v) > 256) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "azure launch: tag '%.40s': key 1 to 512 without "
			    "<>%%&\\?/, value to 256 characters",
			    k != NULL ? k : "");
		}
		if (strncasecmp(k, "spotbroker-", 11) == 0) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "azure launch: tag key '%.40s' is reserved", k);
		}
	}
	return SPOT_STEP_NONE;
}

static enum spot_step launch_check(struct spot_call *c, const struct spot_launch *l)
{
	if (l->key.market != SPOT_MARKET_SPOT && l->key.market != SPOT_MARKET_ON_DEMAND &&
	    l->key.market != SPOT_MARKET_RESERVED) {
		return call_fail(c, SPOT_INVALID, NULL, "azure launch: market %s is not supported",
		    spot_market_name(l->key.market));
	}
	if (str_empty(l->key.instance_type) || !azure_region_ok(l->key.region)) {
		return call_fail(c, SPOT_INVALID, NULL, "azure launch: size and region are needed");
	}
	/* The name is the only thing that keeps a repeat from launching twice. */
	if (str_empty(l->token) || strlen(l->token) > 64 ||
	    (l->name != NULL && strlen(l->name) > 64)) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "azure launch: token and name of 1 to 64 characters needed");
	}
	if (str_empty(l->install) || strlen(l->install) > 256) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "azure launch: installation of 1 to 256 characters needed");
	}
	if (l->user_data.n > CUSTOM_DATA_MAX) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "azure launch: user data is %zu bytes, Azure takes %d", l->user_data.n,
		    CUSTOM_DATA_MAX);
	}
	return tags_check(c, l);
}

static enum spot_step launch_begin(struct azure *self, struct spot_call *c,
    const struct spot_launch *a)
{
	struct launching *l;
	enum spot_step s = launch_check(c, a);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	l = call_state_get(c, sizeof(*l))->own;
	l->lease = azure_lease(self, c->arena, str_empty(a->name) ? a->token : a->name);
	l->group_body = azure_group_body(c, a);
	if (a->key.market == SPOT_MARKET_RESERVED) {
		((struct call_state *)c->state)->at = RESERVATION;
		s = azure_reservation_group(self, c, a->key.region, &l->reservation_group);
	} else if (azure_near_lease(self, c->arena, a) != NULL) {
		((struct call_state *)c->state)->at = NEAR_GROUP;
	}
	return s != SPOT_STEP_NONE ? s : azure_vm_body(self, c, a, l->lease, &l->body);
}

static enum spot_step reservation_reply(struct azure *self, struct spot_call *c,
    const struct spot_launch *a, struct launching *l)
{
	struct call_state *st = c->state;
	enum spot_step s = azure_reservations_reply(self, c, &l->reservations);

	if (s != SPOT_STEP_NONE || st->next != NULL) {
		return s;
	}
	if (!azure_reserved(&l->reservations, a->key.instance_type, a->zone_name, 1)) {
		return call_fail(c, SPOT_NO_CAPACITY, NULL,
		    "azure launch: no reservation of %s in %s has room", a->key.instance_type,
		    str_empty(a->key.zone) ? a->key.region : a->key.zone);
	}
	st->at = GROUP;
	return SPOT_STEP_NONE;
}

enum spot_step azure_launch(void *p, struct spot_call *c, struct spot_launch *a)
{
	struct azure *self = p;
	enum spot_step s = SPOT_STEP_NONE;
	struct call_state *st;
	struct launching *l;

	if (c->state == NULL) {
		s = launch_begin(self, c, a);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	st = c->state;
	l = st->own;
	if (c->in == NULL) {
		return launch_send(self, c, a, l);
	}
	switch (st->at) {
	case RESERVATION:
		s = reservation_reply(self, c, a, l);
		break;
	case NEAR_GROUP:
		s = azure_near_reply(c, "PUT resourceGroups");
		st->at = s == SPOT_STEP_NONE ? NEAR : NEAR_GROUP;
		break;
	case NEAR:
		s = azure_near_reply(c, "PUT proximityPlacementGroups");
		st->at = s == SPOT_STEP_NONE ? GROUP : NEAR;
		break;
	case GROUP:
		s = group_reply(c);
		break;
	case MACHINE:
		return machine_reply(self, c, a, l);
	case OPERATION:
		return operation_reply(self, c, a, l);
	case LOCATION:
		return location_reply(self, c, a, l);
	case RESOURCE:
		return resource_reply(self, c, a, l);
	default:
		return clean_up_reply(c, l);
	}
	return s != SPOT_STEP_NONE ? s : launch_send(self, c, a, l);
}
