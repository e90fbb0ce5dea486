/* One value of a row as text for a person (or for CSV). */
#include "base/base.h"
#include "base/clock.h"
#include "base/str.h"
#include "spotctl/ctl.h"

const json_t *json_path(const json_t *o, const char *path)
{
	char part[64];

	while (o != NULL && *path != '\0') {
		size_t n = strcspn(path, ".");

		if (n >= sizeof(part)) {
			return NULL;
		}
		memcpy(part, path, n);
		part[n] = '\0';
		o = json_object_get(o, part);
		path += n + (path[n] == '.');
	}
	return o;
}

static const char *usd_text(struct ctl *c, const json_t *v, int digits)
{
	return arena_printf(c->arena, "%.*f", digits, (double)json_integer_value(v) / 1e6);
}

static const char *age_text(struct ctl *c, const json_t *v)
{
	char buf[32];
	int64_t us;

	if (json_is_number(v)) {
		return arena_strdup(c->arena, format_duration((int64_t)(json_number_value(v) * 1e6), buf));
	}
	if (json_is_string(v) && parse_time_us(json_string_value(v), &us)) {
		return arena_strdup(c->arena, format_duration(MAX(clock_real.wall_us(&clock_real) - us, 0), buf));
	}
	return "";
}

static const char *time_text(struct ctl *c, const json_t *v)
{
	const char *s = json_string_value(v);

	return s == NULL ? "" : arena_strndup(c->arena, s, MIN(strlen(s), (size_t)19));
}

static const char *steps_text(struct ctl *c, const json_t *row)
{
	int64_t done = json_i64(row, "steps_done", 0, NULL), total = json_i64(row, "steps_total", 0, NULL);

	if (total > 0) {
		return arena_printf(c->arena, "%" PRId64 "/%" PRId64, done, total);
	}
	return done > 0 ? arena_printf(c->arena, "%" PRId64, done) : "";
}

static const char *gpu_text(struct ctl *c, const json_t *pool)
{
	double n = json_f64(pool, "gpus", 0, NULL);
	const char *gpu = json_str(pool, "gpu", "", NULL);

	return *gpu != '\0' ? arena_printf(c->arena, "%gx%s", n, gpu) : "";
}

static const char *place_text(struct ctl *c, const json_t *pool)
{
	const char *zone = json_str(pool, "zone", "", NULL);

	if (!json_is_object(pool)) {
		return "";
	}
	return arena_printf(c->arena, "%s/%s", json_str(pool, "provider", "?", NULL),
	    *zone != '\0' ? zone : json_str(pool, "region", "?", NULL));
}

static const char *hazard_text(struct ctl *c, const json_t *h)
{
	if (!json_is_object(h)) {
		return "";
	}
	return arena_printf(c->arena, "%.4f [%.4f-%.4f]", json_f64(h, "per_hour", 0, NULL), json_f64(h, "lo", 0, NULL),
	    json_f64(h, "hi", 0, NULL));
}

const char *cell_text(struct ctl *c, const json_t *row, const struct column *col)
{
	const json_t *v = json_path(row, col->path);

	switch (col->kind) {
	case CELL_STEPS:
		return steps_text(c, row);
	case CELL_GPU:
		return gpu_text(c, v);
	case CELL_PLACE:
		return place_text(c, v);
	case CELL_HAZARD:
		return hazard_text(c, v);
	case CELL_TEXT:
	case CELL_STATE:
	case CELL_USD:
	case CELL_USD_HOUR:
	case CELL_AGE:
	case CELL_TIME:
	case CELL_INT:
	case CELL_REAL:
	case CELL_HOURS:
		break;
	}
	if (v == NULL || json_is_null(v)) {
		return "";
	}
	switch (col->kind) {
	case CELL_USD:
		return usd_text(c, v, 4);
	case CELL_USD_HOUR:
		return usd_text(c, v, 4);
	case CELL_AGE:
		return age_text(c, v);
	case CELL_TIME:
		return time_text(c, v);
	case CELL_REAL:
		return arena_printf(c->arena, "%.2f", json_number_value(v));
	case CELL_HOURS:
		return arena_printf(c->arena, "%.3f", json_number_value(v));
	case CELL_TEXT:
	case CELL_STATE:
	case CELL_INT:
	case CELL_STEPS:
	case CELL_GPU:
	case CELL_PLACE:
	case CELL_HAZARD:
		break;
	}
	if (json_is_string(v)) {
		return json_string_value(v);
	}
	return json_text(c->arena, v);
}
