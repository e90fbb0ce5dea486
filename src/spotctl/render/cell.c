/* One value of a row as text: for a person, or exact for -o csv. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

#include <math.h>

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

/* Rounded half away from zero in integers; digits 0..6. */
char *usd_text(struct ctl *c, int64_t micros, int digits)
{
	uint64_t v = micros < 0 ? 0 - (uint64_t)micros : (uint64_t)micros, unit = 1;

	for (int i = digits; i < 6; i++) {
		unit *= 10;
	}
	v = (v + unit / 2) / unit * unit;
	return arena_printf(c->arena, "%s%" PRIu64 "%s%.*s", micros < 0 && v > 0 ? "-" : "",
	    v / 1000000, digits > 0 ? "." : "", digits,
	    arena_printf(c->arena, "%06" PRIu64, v % 1000000));
}

static const char *age_text(struct ctl *c, const json_t *v)
{
	char buf[32];
	int64_t us;

	if (json_is_number(v)) {
		us = (int64_t)(json_number_value(v) * 1e6);
	} else if (json_is_string(v) && parse_time_us(json_string_value(v), &us)) {
		us = MAX(clock_real.wall_us(&clock_real) - us, 0);
	} else {
		return "";
	}
	return arena_strdup(c->arena, format_duration(us - us % SPOT_US_PER_S, buf));
}

static const char *span_text(struct ctl *c, const json_t *v)
{
	double s = json_number_value(v);
	char buf[32];

	if (s < 60) {
		return arena_printf(c->arena, "%.*fs", s < 0.1 ? 3 : s < 10 ? 2 : 1, s);
	}
	return arena_strdup(c->arena, format_duration((int64_t)(s * 1e6), buf));
}

static const char *time_text(struct ctl *c, const json_t *v)
{
	char buf[TIME_TEXT_MAX];
	int64_t us;

	if (!json_is_string(v) || !parse_time_us(json_string_value(v), &us)) {
		return "";
	}
	return arena_strdup(c->arena, format_time_s(us, buf));
}

static const char *steps_text(struct ctl *c, const json_t *row)
{
	int64_t done = json_i64(row, "steps_done", 0, NULL),
		total = json_i64(row, "steps_total", 0, NULL);

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

/* GPUs that count by their speed are no whole numbers. */
const char *amount_text(struct ctl *c, const json_t *v)
{
	return arena_printf(c->arena, "%g", rint(json_number_value(v) * 100) / 100);
}

static const char *size_text(struct ctl *c, const json_t *size)
{
	const char *range = "", *of = json_str(size, "gpus_of", "", NULL);
	bool gpus = strcmp(json_str(size, "unit", "", NULL), "gpus") == 0;

	if (!json_is_object(size)) {
		return "";
	}
	if (json_is_integer(json_object_get(size, "max"))) {
		range = arena_printf(c->arena, " %" PRId64 "-%" PRId64,
		    json_i64(size, "min", 0, NULL), json_i64(size, "max", 0, NULL));
	}
	return arena_printf(c->arena, "%s/%" PRId64 "%s%s%s",
	    amount_text(c, json_object_get(size, "have")), json_i64(size, "wanted", 0, NULL), range,
	    gpus ? " " : "",
	    *of != '\0' ? of
		: gpus  ? "GPUs"
			: "");
}

static const char *saving_text(struct ctl *c, const json_t *row)
{
	const json_t *now = json_path(row, "size.hourly_micros");
	int64_t instead = json_i64(row, "on_demand_micros", 0, NULL), price;

	price = now != NULL ? json_integer_value(now) : json_i64(row, "price_micros", 0, NULL);
	return instead <= 0 ? ""
			    : arena_printf(c->arena, "%.0f %%",
				  100.0 * (double)(instead - price) / (double)instead);
}

static const char *hazard_text(struct ctl *c, const json_t *h)
{
	if (!json_is_object(h)) {
		return "";
	}
	return arena_printf(c->arena, "%.4f [%.4f-%.4f]", json_f64(h, "per_hour", 0, NULL),
	    json_f64(h, "lo", 0, NULL), json_f64(h, "hi", 0, NULL));
}

static const char *interval_text(struct ctl *c, const json_t *h)
{
	return json_is_object(h) ? arena_printf(c->arena, "%.4f..%.4f", json_f64(h, "lo", 0, NULL),
				       json_f64(h, "hi", 0, NULL))
				 : "";
}

/* "score 7/10, odds 62 %, filled 27 % of 11, has some, ends 2026-12-01T09:30Z": what providers tell
 * of their room. */
static const char *capacity_text(struct ctl *c, const json_t *signals)
{
	const char *text = "";
	const json_t *s;
	size_t i;

	json_array_foreach (signals, i, s) {
		const char *kind = json_str(s, "kind", "", NULL), *more = NULL;
		double v = json_f64(s, "value", 0, NULL);
		char at[TIME_TEXT_MAX];

		if (strcmp(kind, "placement_score") == 0) {
			more = arena_printf(c->arena, "score %g/10", v);
		} else if (strcmp(kind, "obtainability") == 0) {
			more = arena_printf(c->arena, "odds %.0f %%", v * 100);
		} else if (strcmp(kind, "fulfilment") == 0) {
			more = arena_printf(c->arena, "filled %.0f %% of %.0f", v * 100,
			    json_f64(s, "hi", 0, NULL));
		} else if (strcmp(kind, "capacity") == 0) {
			more = v >= 0.5 ? "has some" : "has none";
		} else if (strcmp(kind, "ends") == 0) {
			format_time_s((int64_t)v * SPOT_US_PER_S, at);
			more = arena_printf(c->arena, "ends %.16sZ", at);
		}
		if (more != NULL && strstr(text, more) == NULL) {
			text =
			    arena_printf(c->arena, "%s%s%s", text, *text != '\0' ? ", " : "", more);
		}
	}
	return text;
}

/* Words one after the other; what else is in a list is shown as it came. */
static const char *cell_plain(struct ctl *c, const json_t *v)
{
	const char *words = "";

	for (size_t i = 0; i < json_array_size(v); i++) {
		const char *word = json_string_value(json_array_get(v, i));

		if (word == NULL) {
			return json_text(c->arena, v);
		}
		words = arena_printf(c->arena, "%s%s%s", words, i > 0 ? ", " : "", word);
	}
	if (json_is_array(v)) {
		return words;
	}
	return json_is_string(v) ? json_string_value(v) : json_text(c->arena, v);
}

static const char *number_text(struct ctl *c, const json_t *v, int digits)
{
	return json_is_number(v) ? arena_printf(c->arena, "%.*f", digits, json_number_value(v))
				 : cell_plain(c, v);
}

/* A number or a text that is there. */
static const char *value_text(struct ctl *c, const json_t *v, enum cell_kind kind)
{
	bool exact = c->format == FORMAT_CSV;

	switch (kind) {
	case CELL_USD:
		return json_is_integer(v) ? usd_text(c, json_integer_value(v), exact ? 6 : 4)
					  : cell_plain(c, v);
	case CELL_AGE:
		return exact ? cell_plain(c, v) : age_text(c, v);
	case CELL_TIME:
		return exact ? cell_plain(c, v) : time_text(c, v);
	case CELL_REAL:
		return exact ? cell_plain(c, v) : number_text(c, v, 2);
	case CELL_HOURS:
		return exact ? cell_plain(c, v) : number_text(c, v, 3);
	case CELL_RATE:
		return exact ? cell_plain(c, v) : number_text(c, v, 5);
	case CELL_FINE:
		return json_is_integer(v) ? usd_text(c, json_integer_value(v), 6)
		    : exact               ? cell_plain(c, v)
					  : number_text(c, v, 6);
	case CELL_SPAN:
		return exact ? cell_plain(c, v) : span_text(c, v);
	case CELL_TEXT:
	case CELL_STATE:
	case CELL_INT:
	case CELL_STEPS:
	case CELL_GPU:
	case CELL_PLACE:
	case CELL_SIZE:
	case CELL_SAVING:
	case CELL_HAZARD:
	case CELL_INTERVAL:
	case CELL_CAPACITY:
	case CELL_NUMBER:
		break;
	}
	return cell_plain(c, v);
}

const char *cell_text(struct ctl *c, const json_t *row, const struct column *col)
{
	const json_t *v = json_path(row, col->path);

	switch (col->kind) {
	case CELL_STEPS:
		return steps_text(c, row);
	case CELL_GPU:
		return gpu_text(c, v);
	case CELL_SIZE:
		return size_text(c, v);
	case CELL_SAVING:
		return saving_text(c, row);
	case CELL_PLACE:
		return place_text(c, v);
	case CELL_HAZARD:
		return hazard_text(c, v);
	case CELL_INTERVAL:
		return interval_text(c, v);
	case CELL_CAPACITY:
		return capacity_text(c, v);
	case CELL_NUMBER:
	case CELL_SPAN:
	case CELL_TEXT:
	case CELL_STATE:
	case CELL_USD:
	case CELL_AGE:
	case CELL_TIME:
	case CELL_INT:
	case CELL_REAL:
	case CELL_HOURS:
	case CELL_RATE:
	case CELL_FINE:
		break;
	}
	return v == NULL || json_is_null(v) ? "" : value_text(c, v, col->kind);
}
