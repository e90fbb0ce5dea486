/* The keys of the fleet file that move the size, and their stored form. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet_plan.h"
#include "core/fleet/fleet_size.h"
#include "core/spec/spec.h"

#define NODES_MAX 10000
#define GPUS_MAX (INT64_C(8) * NODES_MAX)
#define YEAR_US (INT64_C(365) * 24 * SPOT_US_PER_HOUR)
#define QUERY_MAX 2000
#define IDLE_US (600 * SPOT_US_PER_S)
#define WAIT_US (120 * SPOT_US_PER_S)
#define COOLDOWN_US (300 * SPOT_US_PER_S)
#define EVERY_US (30 * SPOT_US_PER_S)

static const struct spec_unsupported none[] = { { NULL, NULL } };

static bool is_given(const struct yaml *y)
{
	return y != NULL && !yaml_is_null(y);
}

static enum spot_rc parse_count(const struct yaml *y, int64_t least, int64_t most, int32_t *ret,
    struct spot_err *err)
{
	int64_t v = *ret;
	enum spot_rc rc = spec_int(y, least, most, &v, err);

	*ret = (int32_t)v;
	return rc;
}

static enum spot_rc parse_span(const struct yaml *y, int64_t least_us, int64_t most_us,
    int64_t *ret, struct spot_err *err)
{
	const char *text = NULL;
	char least[32], most[32];
	enum spot_rc rc = spec_text(y, &text, err);

	if (rc != SPOT_OK || text == NULL) {
		return rc;
	}
	if (!parse_duration_us(text, ret) || *ret < least_us || *ret > most_us) {
		return yaml_fail(y, err, "%s: a duration from %s to %s, such as 10m, not '%.40s'",
		    y->key, format_duration(least_us, least), format_duration(most_us, most), text);
	}
	return SPOT_OK;
}

/* ---- nodes, gpus ----------------------------------------------------------------------------- */

static enum spot_rc parse_gpu_name(const struct yaml *at, const char *name, struct fleet_spec *f,
    struct spot_err *err)
{
	f->gpus_of = name;
	if (gpu_perf_find(name) == NULL) {
		return yaml_fail(at, err,
		    "gpus: how fast '%.40s' is is not known; name a GPU of 'spotctl gpus'", name);
	}
	return SPOT_OK;
}

static enum spot_rc parse_range(const struct yaml *y, struct fleet_spec *f, int64_t most,
    struct spot_err *err)
{
	static const char *const nodes_known[] = { "min", "max", "target", NULL };
	static const char *const gpus_known[] = { "of", "min", "max", "target", NULL };
	struct fleet_scaling *s = f->scaling;
	const struct yaml *of = yaml_get(y, "of");
	enum spot_rc rc = spec_keys(y, y->key, s->by_gpus ? gpus_known : nodes_known, none, err);

	if (rc == SPOT_OK && of != NULL) {
		rc = parse_gpu_name(of, of->kind == YAML_SCALAR ? of->text : "", f, err);
	}
	if (rc == SPOT_OK && !is_given(yaml_get(y, "max"))) {
		return yaml_fail(y, err, "%s.max is missing: the most that the fleet may have",
		    y->key);
	}
	if (rc == SPOT_OK) {
		rc = parse_count(yaml_get(y, "min"), 0, most, &s->min, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_count(yaml_get(y, "max"), 1, most, &s->max, err);
	}
	s->target = s->min;
	if (rc == SPOT_OK) {
		rc = parse_count(yaml_get(y, "target"), 0, most, &s->target, err);
	}
	if (rc == SPOT_OK && (s->min > s->max || s->target < s->min || s->target > s->max)) {
		return yaml_fail(y, err, "%s: min %d, target %d and max %d must rise in this order",
		    y->key, (int)s->min, (int)s->target, (int)s->max);
	}
	return rc;
}

/* {H100: 16} is one GPU with its number. */
static bool is_range(const struct yaml *y)
{
	static const char *const keys[] = { "of", "min", "max", "target" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (yaml_get(y, keys[i]) != NULL) {
			return true;
		}
	}
	return false;
}

/* 16, {H100: 16}, or a range: {min, max, target} and for GPUs {of: H100, ...}. */
static enum spot_rc parse_size(const struct yaml *y, struct fleet_spec *f, bool *ret_range,
    struct spot_err *err)
{
	struct fleet_scaling *s = f->scaling;
	int64_t most = s->by_gpus ? GPUS_MAX : NODES_MAX;
	const struct yaml *count = y;
	enum spot_rc rc = SPOT_OK;

	if (y->kind == YAML_MAP && (!s->by_gpus || is_range(y))) {
		*ret_range = true;
		return parse_range(y, f, most, err);
	}
	if (y->kind == YAML_MAP && y->children != 1) {
		return yaml_fail(y, err,
		    "gpus: one GPU to count in, such as {H100: 16}, or a range such as {of: H100, "
		    "min: 0, max: 16}");
	}
	if (y->kind == YAML_MAP) {
		rc = parse_gpu_name(y->child, y->child->key, f, err);
		count = y->child;
	}
	if (rc == SPOT_OK) {
		rc = parse_count(count, 0, most, &s->target, err);
	}
	s->min = s->max = s->target;
	return rc;
}

/* ---- scale, schedule, expires, demand ------------------------------------------------------- */

static enum spot_rc parse_scale(const struct yaml *y, struct fleet_scaling *s, struct spot_err *err)
{
	static const char *const known[] = { "wait", "cooldown", "step", NULL };
	enum spot_rc rc = spec_keys(y, "scale", known, none, err);

	if (rc == SPOT_OK) {
		rc = parse_span(yaml_get(y, "wait"), 0, YEAR_US, &s->wait_us, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_span(yaml_get(y, "cooldown"), 0, YEAR_US, &s->cooldown_us, err);
	}
	return rc != SPOT_OK ? rc : parse_count(yaml_get(y, "step"), 1, GPUS_MAX, &s->step, err);
}

static enum spot_rc parse_window(struct arena *a, const struct yaml *y, struct fleet_window *w,
    struct spot_err *err)
{
	static const char *const known[] = { "up", "down", "tz", NULL };
	const char *up = NULL, *down = NULL;
	const struct zone *zone;
	struct spot_err why = { 0 };
	enum spot_rc rc = spec_keys(y, "schedule", known, none, err);

	w->tz = "UTC";
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "up"), &up, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "down"), &down, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "tz"), &w->tz, err);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	if (up == NULL || down == NULL || !fleet_window_read(up, down, w)) {
		return yaml_fail(y, err,
		    "schedule: up must be days and a time such as \"Mon-Fri 08:00\", down a time "
		    "such as \"20:00\"");
	}
	if (zone_load(a, w->tz, &zone, &why) != SPOT_OK) {
		return yaml_fail(yaml_get(y, "tz"), err, "schedule.tz: %s", why.text);
	}
	return SPOT_OK;
}

static enum spot_rc parse_schedule(struct arena *a, const struct yaml *y, struct fleet_scaling *s,
    struct spot_err *err)
{
	enum spot_rc rc = SPOT_OK;

	if (!is_given(y)) {
		return SPOT_OK;
	}
	if (y->kind == YAML_SCALAR || (y->kind == YAML_SEQ && y->children == 0) ||
	    y->children > FLEET_WINDOWS_MAX) {
		return yaml_fail(y, err,
		    "schedule: {up: \"Mon-Fri 08:00\", down: \"20:00\", tz: Europe/Berlin}, or a "
		    "list "
		    "of at most %d of them",
		    FLEET_WINDOWS_MAX);
	}
	s->windows = arena_array(a, y->children, sizeof(*s->windows));
	if (y->kind == YAML_MAP) {
		return parse_window(a, y, &s->windows[s->windows_n++], err);
	}
	for (const struct yaml *i = y->child; i != NULL && rc == SPOT_OK; i = i->next) {
		rc = parse_window(a, i, &s->windows[s->windows_n++], err);
	}
	return rc;
}

static enum spot_rc parse_expires(const struct yaml *y, struct fleet_scaling *s,
    struct spot_err *err)
{
	const char *text = NULL;
	enum spot_rc rc = spec_text(y, &text, err);

	if (rc != SPOT_OK || text == NULL) {
		return rc;
	}
	if (parse_time_us(text, &s->expires_us) && s->expires_us > 0) {
		return SPOT_OK;
	}
	if (!parse_duration_us(text, &s->expires_after_us) || s->expires_after_us <= 0 ||
	    s->expires_after_us > 10 * YEAR_US) {
		return yaml_fail(y, err,
		    "expires: a duration such as 72h, or a time such as 2026-12-31T18:00:00Z, not "
		    "'%.40s'",
		    text);
	}
	return SPOT_OK;
}

static enum spot_rc parse_metric(const struct yaml *y, struct fleet_metric *m, struct spot_err *err)
{
	static const char *const known[] = { "url", "query", "target", "per", "every", "prewarm",
		NULL };
	const struct yaml *target = yaml_get(y, "target");
	enum spot_rc rc = spec_keys(y, "demand.prometheus", known, none, err);

	*m = (struct fleet_metric){ .target = 1, .per = 1, .every_us = EVERY_US };
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "url"), &m->url, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "query"), &m->query, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_count(yaml_get(y, "per"), 1, GPUS_MAX, &m->per, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_count(yaml_get(y, "prewarm"), 0, GPUS_MAX, &m->prewarm, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_span(yaml_get(y, "every"), SPOT_US_PER_S, SPOT_US_PER_HOUR, &m->every_us,
		    err);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	if (m->url == NULL || m->query == NULL || strlen(m->query) > QUERY_MAX) {
		return yaml_fail(y, err, "demand.prometheus: url and query are needed");
	}
	if ((!str_prefix(m->url, "http://") && !str_prefix(m->url, "https://")) ||
	    strpbrk(m->url, "@?# ") != NULL) {
		return yaml_fail(yaml_get(y, "url"), err,
		    "demand.prometheus.url: the address of the server such as "
		    "http://prometheus:9090, without a password");
	}
	if (is_given(target) &&
	    (target->kind != YAML_SCALAR || !parse_f64(target->text, 1e-9, 1e12, &m->target))) {
		return yaml_fail(target, err, "demand.prometheus.target: a number above 0");
	}
	return SPOT_OK;
}

static enum spot_rc parse_demand(const struct yaml *y, struct fleet_scaling *s,
    struct spot_err *err)
{
	static const char *const known[] = { "per", "prometheus", NULL };
	enum spot_rc rc;

	if (!is_given(y)) {
		return SPOT_OK;
	}
	rc = spec_keys(y, "demand", known, none, err);
	if (rc == SPOT_OK) {
		rc = parse_count(yaml_get(y, "per"), 1, GPUS_MAX, &s->per, err);
	}
	return rc != SPOT_OK || !is_given(yaml_get(y, "prometheus"))
	    ? rc
	    : parse_metric(yaml_get(y, "prometheus"), &s->metric, err);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static enum spot_rc parse_moves(struct arena *a, const struct yaml *doc, struct fleet_scaling *s,
    bool range, struct spot_err *err)
{
	static const char *const ranged[] = { "idle_timeout", "headroom", "scale", "demand" };
	enum spot_rc rc = SPOT_OK;

	for (size_t i = 0; i < ARRAY_LEN(ranged) && !range; i++) {
		if (is_given(yaml_get(doc, ranged[i]))) {
			return yaml_fail(yaml_get(doc, ranged[i]), err,
			    "%s: the size is fixed; give a range such as nodes: {min: 0, max: 8}",
			    ranged[i]);
		}
	}
	rc = parse_span(yaml_get(doc, "idle_timeout"), 0, YEAR_US, &s->idle_us, err);
	if (rc == SPOT_OK) {
		rc = parse_count(yaml_get(doc, "headroom"), 0, s->max, &s->headroom, err);
	}
	if (rc == SPOT_OK && is_given(yaml_get(doc, "scale"))) {
		rc = parse_scale(yaml_get(doc, "scale"), s, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_expires(yaml_get(doc, "expires"), s, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_schedule(a, yaml_get(doc, "schedule"), s, err);
	}
	return rc != SPOT_OK ? rc : parse_demand(yaml_get(doc, "demand"), s, err);
}

enum spot_rc fleet_scaling_parse(struct arena *a, const struct yaml *doc, struct fleet_spec *f,
    struct spot_err *err)
{
	const struct yaml *nodes = yaml_get(doc, "nodes"), *gpus = yaml_get(doc, "gpus");
	struct fleet_scaling *s = arena_alloc(a, sizeof(*s));
	bool range = false;
	enum spot_rc rc;

	/* A size without a value must not count as zero machines. */
	if (is_given(nodes) == is_given(gpus)) {
		return yaml_fail(doc, err, "fleet: give nodes or gpus, one of the two");
	}
	*s = (struct fleet_scaling){ .by_gpus = is_given(gpus),
		.idle_us = IDLE_US,
		.wait_us = WAIT_US,
		.cooldown_us = COOLDOWN_US,
		.per = 1 };
	f->scaling = s;
	rc = parse_size(is_given(gpus) ? gpus : nodes, f, &range, err);
	if (rc == SPOT_OK) {
		rc = parse_moves(a, doc, s, range, err);
	}
	*(s->by_gpus ? &f->gpus : &f->nodes) = s->target;
	if (!range && s->windows_n == 0 && s->expires_us == 0 && s->expires_after_us == 0) {
		f->scaling = NULL;
	}
	return rc;
}

int64_t fleet_node_milli(const struct fleet_spec *f, const char *gpu, int64_t gpu_milli)
{
	if (!f->scaling->by_gpus) {
		return 1000;
	}
	return f->gpus_of != NULL && *f->gpus_of != '\0'
	    ? fleet_gpus_work(f->gpus_of, gpu, gpu_milli)
	    : gpu_milli;
}

/* ---- the stored form ------------------------------------------------------------------------- */

static json_t *windows_json(const struct fleet_scaling *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->windows_n; i++) {
		const struct fleet_window *w = &s->windows[i];

		json_array_append_new(list,
		    json_pack("{s:i, s:i, s:i, s:s}", "days", (int)w->days, "up_min",
			(int)w->up_min, "down_min", (int)w->down_min, "tz", w->tz));
	}
	return list;
}

json_t *fleet_scaling_to_json(const struct fleet_scaling *s)
{
	const struct fleet_metric *m = &s->metric;
	json_t *o = json_pack("{s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:I, s:I, s:o}",
	    "unit", s->by_gpus ? "gpus" : "nodes", "min", (int)s->min, "max", (int)s->max, "target",
	    (int)s->target, "idle_us", (json_int_t)s->idle_us, "wait_us", (json_int_t)s->wait_us,
	    "cooldown_us", (json_int_t)s->cooldown_us, "step", (int)s->step, "headroom",
	    (int)s->headroom, "per", (int)s->per, "expires_us", (json_int_t)s->expires_us,
	    "expires_after_us", (json_int_t)s->expires_after_us, "windows", windows_json(s));

	if (m->url != NULL) {
		json_object_set_new(o, "metric",
		    json_pack("{s:s, s:s, s:f, s:i, s:I, s:i}", "url", m->url, "query", m->query,
			"target", m->target, "per", (int)m->per, "every_us",
			(json_int_t)m->every_us, "prewarm", (int)m->prewarm));
	}
	return o;
}

static void windows_read(struct arena *a, const json_t *list, struct fleet_scaling *s,
    struct spot_err *e)
{
	size_t n = MIN(json_array_size(list), (size_t)FLEET_WINDOWS_MAX);

	s->windows = arena_array(a, n + 1, sizeof(*s->windows));
	for (; s->windows_n < n; s->windows_n++) {
		const json_t *j = json_array_get(list, s->windows_n);

		s->windows[s->windows_n] =
		    (struct fleet_window){ .days = (uint8_t)json_i64(j, "days", 0, e),
			    .up_min = (int32_t)json_i64(j, "up_min", 0, e),
			    .down_min = (int32_t)json_i64(j, "down_min", 1, e),
			    .tz = arena_strdup(a, json_str(j, "tz", "UTC", e)) };
	}
}

struct fleet_scaling *fleet_scaling_from_json(struct arena *a, const json_t *j,
    struct spot_err *err)
{
	struct fleet_scaling *s = arena_alloc(a, sizeof(*s));
	const json_t *m = json_object_get(j, "metric");

	s->by_gpus = strcmp(json_str(j, "unit", "nodes", err), "gpus") == 0;
	s->min = (int32_t)json_i64(j, "min", 0, err);
	s->max = (int32_t)json_i64(j, "max", 0, err);
	s->target = (int32_t)json_i64(j, "target", 0, err);
	s->idle_us = json_i64(j, "idle_us", IDLE_US, err);
	s->wait_us = json_i64(j, "wait_us", WAIT_US, err);
	s->cooldown_us = json_i64(j, "cooldown_us", COOLDOWN_US, err);
	s->step = (int32_t)json_i64(j, "step", 0, err);
	s->headroom = (int32_t)json_i64(j, "headroom", 0, err);
	s->per = (int32_t)json_i64(j, "per", 1, err);
	s->expires_us = json_i64(j, "expires_us", 0, err);
	s->expires_after_us = json_i64(j, "expires_after_us", 0, err);
	windows_read(a, json_object_get(j, "windows"), s, err);
	if (m != NULL) {
		s->metric =
		    (struct fleet_metric){ .url = arena_strdup(a, json_str(m, "url", "", err)),
			    .query = arena_strdup(a, json_str(m, "query", "", err)),
			    .target = json_f64(m, "target", 1, err),
			    .per = (int32_t)json_i64(m, "per", 1, err),
			    .every_us = json_i64(m, "every_us", EVERY_US, err),
			    .prewarm = (int32_t)json_i64(m, "prewarm", 0, err) };
	}
	return s;
}
