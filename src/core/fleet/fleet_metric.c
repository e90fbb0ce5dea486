/* Demand by a Prometheus query: its answer, and the capacity that it asks for. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet_size.h"

#include <math.h>
#include <strings.h>

#define UNITS_MAX 100000

static bool sample_read(const json_t *pair, double *ret)
{
	const char *text = json_string_value(json_array_get(pair, 1));
	double v;

	/* "NaN" and "+Inf" are samples, too, and no demand. */
	if (text == NULL || !parse_f64(text, -1e15, 1e15, &v)) {
		return false;
	}
	*ret += v;
	return true;
}

enum spot_rc fleet_metric_read(struct str body, double *ret, struct spot_err *err)
{
	AUTO(json) json_t *doc = NULL;
	const json_t *data, *result;
	const char *type;

	*ret = 0;
	if (json_parse(body, "the answer", &doc, err) != SPOT_OK) {
		return err->rc;
	}
	if (strcmp(json_str(doc, "status", "", NULL), "success") != 0) {
		return err_set(err, SPOT_BAD_REPLY, "%.200s",
		    json_str(doc, "error", "the answer has no status success", NULL));
	}
	data = json_object_get(doc, "data");
	type = json_str(data, "resultType", "", NULL);
	result = json_object_get(data, "result");
	if (strcmp(type, "scalar") == 0 && sample_read(result, ret)) {
		return SPOT_OK;
	}
	if (strcmp(type, "vector") != 0) {
		return err_set(err, SPOT_BAD_REPLY,
		    "the query gives no number: '%.40s', not a scalar or a vector", type);
	}
	if (json_array_size(result) == 0) {
		return err_set(err, SPOT_BAD_REPLY, "the query gives no series");
	}
	for (size_t i = 0; i < json_array_size(result); i++) {
		if (!sample_read(json_object_get(json_array_get(result, i), "value"), ret)) {
			return err_set(err, SPOT_BAD_REPLY, "a value of the query is no number");
		}
	}
	return SPOT_OK;
}

void fleet_metric_demand(struct arena *a, const struct fleet_metric *m,
    const struct fleet_answer *last, int64_t now_us, struct fleet_demand *ret)
{
	int64_t hold_us = FLEET_METRIC_HOLD * m->every_us, age_us = now_us - last->at_us;
	bool rises = last->before_there && last->value > last->before;
	double replicas = ceil(fmax(last->value, 0) / m->target - 1e-9);

	*ret = (struct fleet_demand){ 0 };
	if (!last->there || age_us >= hold_us) {
		ret->words = *last->error == '\0' && !last->there
		    ? "the query has no answer yet"
		    : arena_printf(a, "the query has no answer for %" PRId64 " s: %s",
			  last->there ? age_us / SPOT_US_PER_S : 0, last->error);
		return;
	}
	ret->there = true;
	ret->units = (int32_t)fmin(replicas * m->per + (rises ? m->prewarm : 0), (double)UNITS_MAX);
	ret->until_us = last->at_us + hold_us;
	ret->words = arena_printf(a, "query %g / target %g asks for %d%s%s", last->value, m->target,
	    (int)ret->units, rises && m->prewarm > 0 ? ", rising" : "",
	    *last->error != '\0' ? arena_printf(a, " (answer of %" PRId64 " s ago is held: %s)",
				       age_us / SPOT_US_PER_S, last->error)
				 : "");
}

bool fleet_metric_allowed(const char *hosts, const char *url)
{
	const char *host = strstr(url, "://");
	size_t n;

	if (host == NULL || hosts == NULL) {
		return false;
	}
	host += 3;
	n = strcspn(host, "/");
	while (*hosts != '\0') {
		size_t len = strcspn(hosts, " ,");

		if (len == n && len > 0 && strncasecmp(hosts, host, n) == 0) {
			return true;
		}
		hosts += len;
		hosts += strspn(hosts, " ,");
	}
	return false;
}
