/* Changes of a fleet: its size, its range, and its end, with If-Match. */
#include "base/base.h"
#include "api/fleet/fleet_priv.h"

#define SIZE_MOST 100000

enum range_key { RANGE_MIN, RANGE_MAX, RANGE_TARGET, RANGE_HEADROOM, RANGE_KEYS };
static const char *const range_keys[RANGE_KEYS] = { "min", "max", "target", "headroom" };

struct fleet_change {
	int64_t version; /* of If-Match; 0 = none sent */
	bool closing, by_gpus;
	int64_t size; /* wanted; of a range its target */
	bool ranged; /* range instead of size */
	bool has[RANGE_KEYS];
	int64_t range[RANGE_KEYS];
	const char *why;
};

bool fleet_if_match(struct areq *q, int64_t *version)
{
	const char *m = httpd_header(q->http, "if-match");
	struct spot_err err = { 0 };
	size_t n;

	if (!m || strcmp(m, "*") == 0) {
		return true;
	}
	n = strlen(m);
	if (n >= 4 && str_prefix(m, "\"v") && m[n - 1] == '"' &&
	    parse_i64(arena_strndup(q->arena, m + 2, n - 3), 1, INT64_MAX, version)) {
		return true;
	}
	err_set(&err, SPOT_CONFLICT, "If-Match must be an ETag of this route, such as \"v3\"");
	areq_problem(q, 412, &err, "If-Match");
	return false;
}

static void fleet_changed(struct areq *q)
{
	struct q_api_fleet_update_row *row;
	struct spot_err err = { 0 };

	if (q_api_fleet_update_rows(&q->pg, q->arena, &row) == 1) {
		show_fleet(q, q->route->status);
		return;
	}
	err_set(&err, SPOT_CONFLICT,
	    "fleet 'f%" PRId64 "' was changed meanwhile; read it again and repeat", q->id);
	areq_problem(q, 412, &err, "If-Match");
}

/* Sets the new size in a stored spec. *ret_scaled: the row has it, too. NULL: replied. */
static const char *spec_resize(struct areq *q, const char *stored, struct fleet_change *c,
    bool *ret_scaled)
{
	const char *unit = c->by_gpus ? "gpus" : "nodes";
	AUTO(json) json_t *spec = view_parse(stored);
	json_t *s = json_object_get(spec, "scaling");
	int64_t least = json_i64(s, "min", 0, NULL), most = json_i64(s, "max", 0, NULL);

	*ret_scaled = json_is_object(s);
	if (!*ret_scaled) {
		json_object_del(spec, c->by_gpus ? "nodes" : "gpus");
	} else if (strcmp(json_str(s, "unit", "", NULL), unit) != 0) {
		areq_fail_field(q, unit, "the size of this fleet counts '%s'",
		    json_str(s, "unit", "", NULL));
		return NULL;
	} else if (least == most) {
		json_object_set_new(s, "min", json_integer(c->size));
		json_object_set_new(s, "max", json_integer(c->size));
	} else if (c->size < least || c->size > most) {
		areq_fail_field(q, unit, "must be from min %" PRId64 " to max %" PRId64, least,
		    most);
		return NULL;
	}
	if (*ret_scaled) {
		json_object_set_new(s, "target", json_integer(c->size));
	}
	json_object_set_new(spec, unit, json_integer(c->size));
	c->why = arena_printf(q->arena, "wanted size is now %" PRId64 " %s", c->size,
	    c->by_gpus ? "GPUs" : "nodes");
	return json_text(q->arena, spec);
}

/* The order of the range. Blames a member that the request has. Replies if false. */
static bool range_holds(struct areq *q, const struct fleet_change *c, const int64_t *v)
{
	if (v[RANGE_MIN] > v[RANGE_MAX] || v[RANGE_MAX] < 1) {
		areq_fail_field(q, c->has[RANGE_MAX] ? "max" : "min",
		    "min %" PRId64 " must be at most max %" PRId64 ", and max at least 1",
		    v[RANGE_MIN], v[RANGE_MAX]);
		return false;
	}
	if (v[RANGE_TARGET] < v[RANGE_MIN] || v[RANGE_TARGET] > v[RANGE_MAX]) {
		areq_fail_field(q, "target", "must be from min %" PRId64 " to max %" PRId64,
		    v[RANGE_MIN], v[RANGE_MAX]);
		return false;
	}
	if (v[RANGE_HEADROOM] > v[RANGE_MAX]) {
		areq_fail_field(q, c->has[RANGE_HEADROOM] ? "headroom" : "max",
		    "headroom %" PRId64 " must be at most max %" PRId64, v[RANGE_HEADROOM],
		    v[RANGE_MAX]);
		return false;
	}
	return true;
}

/* Sets members of the range in a stored spec. The target follows into the range; the size changes
 * at once only by an explicit target. *ret_sized: it does. NULL: replied. */
static const char *spec_range(struct areq *q, const char *stored, struct fleet_change *c,
    bool *ret_sized)
{
	AUTO(json) json_t *spec = view_parse(stored);
	json_t *s = json_object_get(spec, "scaling");
	const char *words = "";
	int64_t v[RANGE_KEYS];

	*ret_sized = c->has[RANGE_TARGET];
	if (!json_is_object(s)) {
		areq_fail(q, SPOT_INVALID,
		    "the size of this fleet is fixed; change it by 'nodes' or 'gpus', or create it "
		    "with a range such as nodes: {min: 0, max: 8}");
		return NULL;
	}
	for (size_t i = 0; i < RANGE_KEYS; i++) {
		int64_t was = json_i64(s, range_keys[i], 0, NULL);

		v[i] = c->has[i] ? c->range[i] : was;
		if (c->has[i]) {
			words = arena_printf(q->arena, "%s%s%s %" PRId64 " (was %" PRId64 ")",
			    words, *words ? ", " : "", range_keys[i], v[i], was);
		}
	}
	if (!c->has[RANGE_TARGET]) {
		v[RANGE_TARGET] = MIN(MAX(v[RANGE_TARGET], v[RANGE_MIN]), v[RANGE_MAX]);
	}
	if (!range_holds(q, c, v)) {
		return NULL;
	}
	for (size_t i = 0; i < RANGE_KEYS; i++) {
		json_object_set_new(s, range_keys[i], json_integer(v[i]));
	}
	json_object_set_new(spec, json_str(s, "unit", "nodes", NULL),
	    json_integer(v[RANGE_TARGET]));
	c->size = v[RANGE_TARGET];
	c->why = words;
	return json_text(q->arena, spec);
}

static void change_read(struct areq *q)
{
	struct fleet_change *c = q->own;
	struct q_api_fleet_row *row;
	struct spot_err err = { 0 };
	const char *spec = NULL;
	bool scaled = false;

	if (q_api_fleet_rows(&q->pg, q->arena, &row) == 0) {
		areq_fail(q, SPOT_NOT_FOUND, "no fleet 'f%" PRId64 "'", q->id);
		return;
	}
	if (!fleet_team_allowed(q, row->team)) {
		return;
	}
	if (c->version && c->version != row->version) {
		err_set(&err, SPOT_CONFLICT,
		    "fleet 'f%" PRId64 "' is at version %" PRId64 "; read it again and repeat",
		    q->id, row->version);
		areq_problem(q, 412, &err, "If-Match");
		return;
	}
	if (row->state != FLEET_ACTIVE) {
		if (c->closing) {
			show_fleet(q, q->route->status);
		} else {
			areq_fail(q, SPOT_CONFLICT,
			    "fleet 'f%" PRId64 "' is %s and cannot be changed", q->id,
			    fleet_state_name(row->state));
		}
		return;
	}
	if (!c->closing) {
		spec = c->ranged ? spec_range(q, row->spec, c, &scaled)
				 : spec_resize(q, row->spec, c, &scaled);
		if (spec == NULL) {
			return;
		}
	}
	SQL(q, api_fleet_update, fleet_changed, .id = q->id, .version = row->version, .spec = spec,
	    .closing = c->closing, .has_size = scaled, .size = (int32_t)c->size,
	    .why = c->closing ? "closed by request" : c->why, .actor = q->who.name,
	    .at_us = q->now_us);
}

/* Either a size, or members of the range. Replies if false. */
static bool change_body_read(struct areq *q, const json_t *body, struct fleet_change *c)
{
	struct spot_err err = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < RANGE_KEYS; i++) {
		c->has[i] = json_object_get(body, range_keys[i]) != NULL;
		if (c->has[i]) {
			c->range[i] = json_need_i64(body, range_keys[i], &err);
			n++;
		}
		if (err.rc != SPOT_OK || c->range[i] < 0 || c->range[i] > SIZE_MOST) {
			areq_fail_field(q, range_keys[i],
			    "must be a whole number from 0 to 100000");
			return false;
		}
	}
	c->ranged = n > 0;
	c->by_gpus = json_object_get(body, "gpus") != NULL;
	if (json_object_size(body) != (c->ranged ? n : 1)) {
		areq_fail(q, SPOT_INVALID,
		    "the body must have either 'nodes' or 'gpus', or some of 'min', 'max', "
		    "'target' and 'headroom'");
		return false;
	}
	if (!c->ranged) {
		c->size = json_need_i64(body, c->by_gpus ? "gpus" : "nodes", &err);
		if (err.rc != SPOT_OK || c->size < 0 || c->size > SIZE_MOST) {
			areq_fail_field(q, c->by_gpus ? "gpus" : "nodes",
			    "must be a whole number from 0 to 100000");
			return false;
		}
	}
	return true;
}

void patch_fleet(struct areq *q)
{
	static const char *const known[] = { "nodes", "gpus", "min", "max", "target", "headroom",
		NULL };
	struct fleet_change *c = arena_alloc(q->arena, sizeof(*c));
	json_t *body;

	if (!areq_body(q, &body) || !areq_body_keys(q, body, known) ||
	    !fleet_if_match(q, &c->version) || !change_body_read(q, body, c)) {
		return;
	}
	q->own = c;
	SQL(q, api_fleet, change_read, .id = q->id);
}

void delete_fleet(struct areq *q)
{
	struct fleet_change *c = arena_alloc(q->arena, sizeof(*c));

	if (!fleet_if_match(q, &c->version)) {
		return;
	}
	c->closing = true;
	q->own = c;
	SQL(q, api_fleet, change_read, .id = q->id);
}
