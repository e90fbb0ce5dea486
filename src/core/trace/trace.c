/* Reads trace files. It checks every sample, since a wrong one would show only as a wrong
 * figure. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/trace/trace.h"

#include <math.h>

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "us-east-1a" is zone a of us-east-1 (AWS), "us-central1-a" of us-central1 (Google), "eastus-1" of
 * eastus (Azure). */
static size_t region_bytes(const char *zone)
{
	size_t n = strlen(zone);

	if (n > 2 && zone[n - 2] == '-' &&
	    (is_digit(zone[n - 1]) ? !is_digit(zone[n - 3]) && strchr(zone, '-') == zone + n - 2
				   : is_digit(zone[n - 3]))) {
		return n - 2;
	}
	if (n > 1 && is_digit(zone[n - 2]) && zone[n - 1] >= 'a' && zone[n - 1] <= 'z') {
		return n - 1;
	}
	return n;
}

static void name_trace(struct arena *a, const char *path, struct trace *ret)
{
	const char *name = last_part(path), *end = strchr(name, '_');
	size_t n = end != NULL ? (size_t)(end - name) : strlen(name);

	if (end == NULL && str_suffix(name, ".json")) {
		n -= strlen(".json");
	}
	ret->name = arena_strdup(a, name);
	ret->zone = arena_strndup(a, name, n);
	ret->region = arena_strndup(a, ret->zone, region_bytes(ret->zone));
}

static enum spot_rc read_gap(const json_t *doc, const char *path, int64_t *ret_us,
    struct spot_err *err)
{
	const json_t *gap = json_object_get(json_object_get(doc, "metadata"), "gap_seconds");
	double s = json_number_value(gap);

	if (!json_is_number(gap)) {
		return err_set(err, SPOT_INVALID,
		    "%s: metadata.gap_seconds is missing or no number: how long does a sample "
		    "hold?",
		    path);
	}
	if (!(s >= 1 && s <= TRACE_GAP_S_MAX && s == floor(s))) {
		return err_set(err, SPOT_INVALID,
		    "%s: metadata.gap_seconds is %g; whole seconds from 1 to %d are understood",
		    path, s, TRACE_GAP_S_MAX);
	}
	*ret_us = (int64_t)s * SPOT_US_PER_S;
	return SPOT_OK;
}

static enum spot_rc open_trace(struct str text, const char *path, json_t **ret_doc,
    int64_t *ret_gap, struct spot_err *err)
{
	AUTO(json) json_t *doc = NULL;
	const json_t *data;
	enum spot_rc rc = json_parse(text, path, &doc, err);

	if (rc == SPOT_OK) {
		rc = read_gap(doc, path, ret_gap, err);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	data = json_object_get(doc, "data");
	if (!json_is_array(data) || json_array_size(data) == 0) {
		return err_set(err, SPOT_INVALID,
		    "%s: \"data\" is missing, empty or no array of samples", path);
	}
	if (json_array_size(data) > TRACE_SAMPLES_MAX) {
		return err_set(err, SPOT_TOO_LARGE, "%s: %zu samples, more than %d", path,
		    json_array_size(data), TRACE_SAMPLES_MAX);
	}
	*ret_doc = STEAL(doc);
	return SPOT_OK;
}

enum spot_rc trace_parse_supply(struct arena *a, struct str text, const char *path,
    struct trace *ret, struct spot_err *err)
{
	AUTO(json) json_t *doc = NULL;
	const json_t *data, *v;
	int64_t gap = 0;
	int32_t *counts;
	size_t i;
	enum spot_rc rc = open_trace(text, path, &doc, &gap, err);

	if (rc != SPOT_OK) {
		return rc;
	}
	data = json_object_get(doc, "data");
	counts = arena_array(a, json_array_size(data), sizeof(*counts));
	json_array_foreach (data, i, v) {
		double x = json_number_value(v);

		if (!json_is_number(v) || !(x >= 0 && x <= TRACE_COUNT_MAX && x == floor(x))) {
			return err_set(err, SPOT_INVALID,
			    "%s: data[%zu] is no count of nodes (0, 1, 2, ...)%s", path, i,
			    json_is_real(v) ? "; a price trace goes with --price-trace" : "");
		}
		counts[i] = (int32_t)x;
	}
	*ret = (struct trace){ .gap_us = gap, .n = json_array_size(data), .counts = counts };
	name_trace(a, path, ret);
	return SPOT_OK;
}

enum spot_rc trace_parse_prices(struct arena *a, struct str text, const char *path,
    struct trace *ret, struct spot_err *err)
{
	AUTO(json) json_t *doc = NULL;
	const json_t *data, *v;
	int64_t gap = 0, *prices;
	size_t i;
	enum spot_rc rc = open_trace(text, path, &doc, &gap, err);

	if (rc != SPOT_OK) {
		return rc;
	}
	data = json_object_get(doc, "data");
	prices = arena_array(a, json_array_size(data), sizeof(*prices));
	json_array_foreach (data, i, v) {
		double x = json_number_value(v);

		if (!json_is_number(v) || !(x > 0 && x * 1e6 <= TRACE_PRICE_MICROS_MAX)) {
			return err_set(err, SPOT_INVALID,
			    "%s: data[%zu] is no price: USD per hour, above 0 and at most %d", path,
			    i, TRACE_PRICE_MICROS_MAX / 1000000);
		}
		prices[i] = (int64_t)(x * 1e6 + 0.5);
	}
	*ret = (struct trace){ .gap_us = gap, .n = json_array_size(data), .price_micros = prices };
	name_trace(a, path, ret);
	return SPOT_OK;
}

const uint8_t *trace_up(struct arena *a, const struct trace *t, int64_t nodes)
{
	uint8_t *up = arena_array(a, t->n, sizeof(*up));

	for (size_t i = 0; i < t->n; i++) {
		up[i] = t->counts[i] >= nodes;
	}
	return up;
}
