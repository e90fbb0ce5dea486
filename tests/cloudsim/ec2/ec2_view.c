/* DescribeInstances, DescribeInstanceStatus and the XML of an instance. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

const char *ec2_state_word(const struct inst *i, int *ret_code)
{
	switch (i->state) {
	case INST_PENDING:
		*ret_code = 0;
		return "pending";
	case INST_UNHEALTHY:
	case INST_RUNNING:
		*ret_code = 16;
		return "running";
	case INST_SHUTTING:
		*ret_code = 32;
		return "shutting-down";
	case INST_STOPPED:
		if (i->sim && sim_wall(i->sim) < i->stop_done_us) {
			*ret_code = 64;
			return "stopping";
		}
		*ret_code = 80;
		return "stopped";
	case INST_GONE:
	case INST_NONE:
		break;
	}
	*ret_code = 48;
	return "terminated";
}

static void state_xml(struct sbuf *b, const char *tag, const struct inst *i)
{
	int code;
	const char *word = ec2_state_word(i, &code);

	x_open(b, tag);
	x_int(b, "code", code);
	x_text(b, "name", word);
	x_close(b, tag);
}

static void reason_xml(struct ec2 *e, struct sbuf *b, const struct inst *i)
{
	char text[TIME_TEXT_MAX];

	if (!i->reason_code) {
		x_text(b, "reason", "");
		return;
	}
	format_time_s(i->billed_to_us, text);
	if (str_prefix(i->reason_code, "Client.User")) {
		x_text(b, "reason",
		    arena_printf(e->rq->arena, "User initiated (%.10s %.8s GMT)", text, text + 11));
	} else {
		x_text(b, "reason", i->reason_code);
	}
	x_open(b, "stateReason");
	x_text(b, "code", i->reason_code);
	x_text(b, "message", i->reason_message);
	x_close(b, "stateReason");
}

static void network_xml(struct ec2 *e, struct sbuf *b, const struct inst *i)
{
	bool gone = i->state == INST_GONE;

	if (gone) {
		return;
	}
	x_text(b, "privateIpAddress", i->private_ip);
	x_text(b, "ipAddress", i->ip);
	x_text(b, "subnetId", i->subnet);
	x_text(b, "vpcId", net_vpc(e->rq->arena, i->pool->region->name));
	sbuf_puts(b, "<groupSet><item>");
	x_text(b, "groupId", i->security_group);
	x_text(b, "groupName", "default");
	sbuf_puts(b, "</item></groupSet>");
	x_open(b, "networkInterfaceSet");
	ec2_nic_xml(e, b, i, false);
	x_close(b, "networkInterfaceSet");
}

void ec2_instance_xml(struct ec2 *e, struct sbuf *b, const struct inst *i)
{
	x_open(b, "item");
	x_text(b, "instanceId", i->id);
	x_text(b, "imageId", i->image);
	state_xml(b, "instanceState", i);
	reason_xml(e, b, i);
	x_text(b, "keyName", i->key_name);
	x_int(b, "amiLaunchIndex", i->launch_index);
	x_text(b, "instanceType", i->pool->type->name);
	x_text(b, "launchTime", aws_time_ms(e->rq->arena, i->launched_us));
	x_open(b, "placement");
	x_text(b, "availabilityZone", i->pool->zone->name);
	x_text(b, "availabilityZoneId", i->pool->zone->id);
	x_text(b, "groupName", i->group);
	x_text(b, "tenancy", "default");
	x_close(b, "placement");
	network_xml(e, b, i);
	x_text(b, "architecture", i->pool->type->arch);
	x_text(b, "rootDeviceType", "ebs");
	x_text(b, "rootDeviceName", "/dev/sda1");
	ec2_disk_map_xml(e, b, i);
	x_text(b, "virtualizationType", "hvm");
	/* On-demand has no such element. */
	if (i->side == SIDE_SPOT) {
		x_text(b, "instanceLifecycle", "spot");
		x_text(b, "spotInstanceRequestId", i->sir);
	}
	if (reserved_lifecycle(i) != NULL) {
		x_text(b, "instanceLifecycle", reserved_lifecycle(i));
	}
	x_text(b, "capacityReservationId", i->own);
	if (i->token) {
		x_text(b, "clientToken", i->token);
	}
	ec2_tags_xml(b, i->tags, i->tags_n);
	x_open(b, "metadataOptions");
	x_text(b, "state", "applied");
	x_text(b, "httpTokens", i->tokens_required ? "required" : "optional");
	x_int(b, "httpPutResponseHopLimit", i->hop_limit);
	x_text(b, "httpEndpoint", i->metadata_off ? "disabled" : "enabled");
	x_text(b, "instanceMetadataTags", i->metadata_tags ? "enabled" : "disabled");
	x_close(b, "metadataOptions");
	if (i->profile) {
		sbuf_printf(b, "<iamInstanceProfile><arn>arn:aws:iam::%s:instance-profile/",
		    AWS_ACCOUNT),
		    x_raw(b, i->profile),
		    sbuf_puts(b, "</arn><id>AIPACLOUDSIM</id></iamInstanceProfile>");
	}
	x_close(b, "item");
}

/* ---- filters --------------------------------------------------------------------------------- */

static bool tag_filter(const struct inst *i, const struct ec2_filter *f)
{
	const char *value;

	if (str_same(f->name, "tag-key")) {
		for (size_t k = 0; k < i->tags_n; k++) {
			if (ec2_filter_hits(f, i->tags[k].key)) {
				return true;
			}
		}
		return false;
	}
	value = inst_tag(i, f->name + strlen("tag:"));
	return value && ec2_filter_hits(f, value);
}

static const char *inst_field(struct ec2 *e, const struct inst *i, const char *name)
{
	int code;

	if (str_same(name, "client-token")) {
		return i->token ? i->token : "";
	}
	if (str_same(name, "instance-state-name")) {
		return ec2_state_word(i, &code);
	}
	if (str_same(name, "instance-state-code")) {
		ec2_state_word(i, &code);
		return arena_printf(e->rq->arena, "%d", code);
	}
	if (str_same(name, "instance-lifecycle")) {
		return i->side == SIDE_SPOT ? "spot" : reserved_lifecycle(i);
	}
	if (str_same(name, "spot-instance-request-id")) {
		return i->sir;
	}
	if (str_same(name, "state-reason-code")) {
		return i->reason_code;
	}
	if (str_same(name, "launch-time")) {
		return aws_time_ms(e->rq->arena, i->launched_us);
	}
	if (str_same(name, "availability-zone")) {
		return i->pool->zone->name;
	}
	if (str_same(name, "availability-zone-id")) {
		return i->pool->zone->id;
	}
	if (str_same(name, "instance-type")) {
		return i->pool->type->name;
	}
	if (str_same(name, "instance-id")) {
		return i->id;
	}
	if (str_same(name, "image-id")) {
		return i->image;
	}
	if (str_same(name, "reservation-id")) {
		return i->reservation;
	}
	if (str_same(name, "capacity-reservation-id")) {
		return i->own;
	}
	if (str_same(name, "subnet-id")) {
		return i->state == INST_GONE ? NULL : i->subnet;
	}
	if (str_same(name, "private-ip-address")) {
		return i->private_ip;
	}
	return i->ip;
}

static const char *const inst_filters[] = { "tag:*", "tag-key", "client-token",
	"instance-state-name", "instance-state-code", "instance-lifecycle",
	"spot-instance-request-id", "state-reason-code", "launch-time", "availability-zone",
	"availability-zone-id", "instance-type", "instance-id", "image-id", "reservation-id",
	"capacity-reservation-id", "subnet-id", "private-ip-address", "ip-address", NULL };

static bool inst_shown(struct ec2 *e, const struct inst *i, const struct ec2_filter *f, size_t n)
{
	if (i->cloud != CLOUD_AWS || !inst_visible(i) ||
	    !str_same(i->pool->region->name, e->rq->region)) {
		return false;
	}
	for (size_t k = 0; k < n; k++) {
		bool hit = str_prefix(f[k].name, "tag")
		    ? tag_filter(i, &f[k])
		    : ec2_filter_hits(&f[k], inst_field(e, i, f[k].name));

		if (!hit) {
			return false;
		}
	}
	return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void reservation_open(struct ec2 *e, const struct inst *i)
{
	x_open(&e->out, "item");
	x_text(&e->out, "reservationId", i->reservation);
	x_text(&e->out, "ownerId", AWS_ACCOUNT);
	sbuf_puts(&e->out, "<groupSet/>");
	x_open(&e->out, "instancesSet");
}

static void reservation_close(struct ec2 *e)
{
	x_close(&e->out, "instancesSet");
	x_close(&e->out, "item");
}

/* Instances of one launch follow each other in the record, so a reservation is a run of them. */
static void put_instance(struct ec2 *e, const struct inst *i, const struct inst **last)
{
	if (!*last || !str_same((*last)->reservation, i->reservation)) {
		if (*last) {
			reservation_close(e);
		}
		reservation_open(e, i);
	}
	ec2_instance_xml(e, &e->out, i);
	*last = i;
}

struct inst *ec2_named(struct ec2 *e, const char *id)
{
	struct inst *i = inst_find(e->sim, id);

	if (!str_prefix(id, "i-") || strlen(id) < 10) {
		ec2_fail(e, 400, "InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id);
		return NULL;
	}
	if (i && i->cloud == CLOUD_AWS && inst_visible(i) &&
	    str_same(i->pool->region->name, e->rq->region)) {
		return i;
	}
	ec2_fail(e, 400, "InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id);
	return NULL;
}

/* While a zone is disrupted, a call fails that names instances there or names none at all
 * (API_DescribeInstances.html). */
static bool is_disrupted(struct ec2 *e, const char *const *ids, size_t n)
{
	const char *bad = aws_controls(e->sim)->impaired;
	const struct zone *z = *bad ? market_zone(e->sim->market, e->rq->region, bad) : NULL;
	bool hit = z && n == 0;

	for (size_t k = 0; z && k < n; k++) {
		const struct inst *i = inst_find(e->sim, ids[k]);

		hit = hit || (i && i->pool->zone == z);
	}
	if (hit) {
		ec2_fail(e, 503, "Unavailable",
		    "The server is overloaded and can't handle the request.");
	}
	return hit;
}

void ec2_describe_instances(struct ec2 *e)
{
	const char **ids;
	size_t ids_n = form_list(&e->form, e->rq->arena, "InstanceId", &ids), n;
	bool sized = form_get(&e->form, "MaxResults") != NULL;
	const struct inst *last = NULL;
	struct ec2_page page;
	struct ec2_filter *f;
	int64_t shown = 0;

	if (!ec2_filters(e, inst_filters, &f, &n) || !ec2_page(e, 5, 1000, 1000, &page) ||
	    !ec2_ready(e) || is_disrupted(e, ids, ids_n)) {
		return;
	}
	if (ids_n > 0 && sized) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "The parameter instancesSet cannot be used with the parameter "
		    "maxResults");
		return;
	}
	for (size_t k = 0; k < ids_n; k++) {
		if (!ec2_named(e, ids[k])) {
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "reservationSet");
	/* The token is the last instance shown, so that a list that grows loses nothing. */
	for (const struct inst *i = e->sim->insts; i && shown <= page.size; i = i->next) {
		if ((int64_t)i->seq <= page.at || !ec2_match_any(ids, ids_n, i->id) ||
		    !inst_shown(e, i, f, n)) {
			continue;
		}
		if (shown++ < page.size) {
			put_instance(e, i, &last);
		}
	}
	if (last) {
		reservation_close(e);
	}
	x_close(&e->out, "reservationSet");
	if (shown > page.size && last) {
		x_text(&e->out, "nextToken", ec2_next_token(e, (int64_t)last->seq));
	}
}

/* "21 Jan 2019 09:00:43 GMT", as the metadata service has it, to ISO 8601. */
static const char *event_time(struct arena *a, const char *text)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	char month[4] = "";
	int day = 0, year = 0, h = 0, m = 0, s = 0;
	const char *at;

	if (!text || sscanf(text, "%2d %3s %4d %2d:%2d:%2d", &day, month, &year, &h, &m, &s) != 6) {
		return NULL;
	}
	at = strstr(months, month);
	return arena_printf(a, "%04d-%02d-%02dT%02d:%02d:%02d.000Z", year,
	    at ? (int)(at - months) / 3 + 1 : 1, day, h, m, s);
}

static const char *event_code(const struct inst *i, struct arena *a, json_t **ret)
{
	json_t *doc = NULL;

	if (ret) {
		*ret = NULL;
	}
	if (!i->maintenance ||
	    json_parse(str_from(i->maintenance), "events", &doc, NULL) != SPOT_OK) {
		return NULL;
	}
	const char *code =
	    arena_strdup(a, json_string_value(json_object_get(json_array_get(doc, 0), "Code")));
	if (ret) {
		*ret = doc;
	} else {
		json_decref(doc);
	}
	return code;
}

static void events_xml(struct ec2 *e, const struct inst *i)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *x;
	size_t k;

	if (!event_code(i, e->rq->arena, &doc)) {
		return;
	}
	x_open(&e->out, "eventsSet");
	json_array_foreach (doc, k, x) {
		bool over = str_same(json_string_value(json_object_get(x, "State")), "completed");
		const char *words = json_string_value(json_object_get(x, "Description"));

		x_open(&e->out, "item");
		x_text(&e->out, "instanceEventId",
		    json_string_value(json_object_get(x, "EventId")));
		x_text(&e->out, "code", json_string_value(json_object_get(x, "Code")));
		x_text(&e->out, "description",
		    arena_printf(e->rq->arena, "%s%s", over ? "[Completed] " : "", words));
		x_text(&e->out, "notAfter",
		    event_time(e->rq->arena, json_string_value(json_object_get(x, "NotAfter"))));
		x_text(&e->out, "notBefore",
		    event_time(e->rq->arena, json_string_value(json_object_get(x, "NotBefore"))));
		x_close(&e->out, "item");
	}
	x_close(&e->out, "eventsSet");
}

static const char *const status_filters[] = { "availability-zone", "availability-zone-id",
	"event.code", "instance-state-name", "instance-state-code", NULL };

static bool status_shown(struct ec2 *e, const struct inst *i, struct ec2_filter *f, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		if (str_same(f[k].name, "event.code") &&
		    !ec2_filter_hits(&f[k], event_code(i, e->rq->arena, NULL))) {
			return false;
		}
		if (!str_same(f[k].name, "event.code") && !inst_shown(e, i, &f[k], 1)) {
			return false;
		}
	}
	return inst_shown(e, i, NULL, 0);
}

void ec2_describe_status(struct ec2 *e)
{
	const char **ids;
	size_t ids_n = form_list(&e->form, e->rq->arena, "InstanceId", &ids), n;
	bool all = ec2_bool(e, "IncludeAllInstances", false);
	struct ec2_page page;
	struct ec2_filter *f;

	if (!ec2_filters(e, status_filters, &f, &n) || !ec2_page(e, 5, 1000, 1000, &page) ||
	    !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < ids_n; k++) {
		if (!ec2_named(e, ids[k])) {
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "instanceStatusSet");
	for (const struct inst *i = e->sim->insts; i; i = i->next) {
		const char *status = i->state == INST_RUNNING ? "ok" : "not-applicable";

		if (!ec2_match_any(ids, ids_n, i->id) || !status_shown(e, i, f, n) ||
		    (!all && i->state != INST_RUNNING)) {
			continue;
		}
		x_open(&e->out, "item");
		x_text(&e->out, "instanceId", i->id);
		x_text(&e->out, "availabilityZone", i->pool->zone->name);
		events_xml(e, i);
		state_xml(&e->out, "instanceState", i);
		sbuf_printf(&e->out,
		    "<systemStatus><status>%s</status></systemStatus><instanceStatus><status>%s</"
		    "status>"
		    "</instanceStatus>",
		    status, status);
		x_close(&e->out, "item");
	}
	x_close(&e->out, "instanceStatusSet");
}

void ec2_change_xml(struct ec2 *e, const struct inst *i, enum inst_state before)
{
	struct inst was = { .state = before }; /* no clock: a stopped one has stopped */

	x_open(&e->out, "item");
	x_text(&e->out, "instanceId", i->id);
	state_xml(&e->out, "currentState", i);
	state_xml(&e->out, "previousState", &was);
	x_close(&e->out, "item");
}

void ec2_terminate(struct ec2 *e)
{
	const char **ids;
	size_t ids_n = form_list(&e->form, e->rq->arena, "InstanceId", &ids);

	form_accept(&e->form, "Force");
	form_accept(&e->form, "SkipOsShutdown");
	if (ids_n == 0) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter InstanceId");
	}
	if (!ec2_ready(e)) {
		return;
	}
	if (!throttle_take(e->sim,
		arena_printf(e->rq->arena, "ec2|%s|TerminateInstances-resources", e->rq->region),
		1000, 20, (double)ids_n)) {
		ec2_fail(e, 503, "RequestLimitExceeded", "Request limit exceeded.");
		return;
	}
	/* One unknown id fails the batch and ends none. */
	for (size_t k = 0; k < ids_n; k++) {
		if (!ec2_named(e, ids[k])) {
			return;
		}
	}
	for (size_t k = 0; k < ids_n; k++) {
		if (inst_find(e->sim, ids[k])->guarded) {
			ec2_fail(e, 400, "OperationNotPermitted",
			    "The instance '%s' may not be terminated. Modify its "
			    "'disableApiTermination' instance attribute and try again.",
			    ids[k]);
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "instancesSet");
	for (size_t k = 0; k < ids_n; k++) {
		struct inst *i = inst_find(e->sim, ids[k]);
		enum inst_state before = i->state;

		inst_end(i, "api", "Client.UserInitiatedShutdown",
		    "Client.UserInitiatedShutdown: User initiated shutdown");
		ec2_change_xml(e, i, before);
	}
	x_close(&e->out, "instancesSet");
}
