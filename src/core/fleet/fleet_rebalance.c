/* The disruption budget of a fleet: the key `rebalance` of its file. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/fleet/fleet_move.h"
#include "core/fleet/fleet_priv.h"
#include "core/policy/policy.h"
#include "core/spec/spec.h"

#define MOVES_MAX 1000
#define ALL_HOURS UINT32_C(0xffffff)

struct fleet_rebalance fleet_rebalance_of(const struct fleet_spec *f)
{
	struct fleet_rebalance b = f->rebalance;

	b.at_once = b.at_once > 0 ? b.at_once : 1;
	b.per_zone = b.per_zone > 0 ? b.per_zone : 1;
	b.per_hour = b.per_hour > 0 ? b.per_hour : 4;
	b.hours = b.hours != 0 ? b.hours : ALL_HOURS;
	b.hours_text = b.hours_text != NULL ? b.hours_text : "";
	return b;
}

static enum spot_rc moves_parse(const struct yaml *y, int32_t *ret, struct spot_err *err)
{
	int64_t v = *ret;
	enum spot_rc rc = spec_int(y, 1, MOVES_MAX, &v, err);

	*ret = (int32_t)v;
	return rc;
}

static enum spot_rc hours_parse(const struct yaml *y, struct fleet_rebalance *b,
    struct spot_err *err)
{
	enum spot_rc rc = spec_text(y, &b->hours_text, err);

	if (rc == SPOT_OK && b->hours_text != NULL &&
	    !rebalance_hours_parse(b->hours_text, &b->hours)) {
		return yaml_fail(y, err,
		    "rebalance.hours '%.40s': must be hours from 0 to 23 (UTC) or ranges, such as "
		    "0-6,22",
		    b->hours_text);
	}
	return rc;
}

enum spot_rc fleet_rebalance_parse(const struct yaml *y, struct fleet_rebalance *ret,
    struct spot_err *err)
{
	static const char *const known[] = { "enabled", "at_once", "per_zone", "per_hour", "hours",
		NULL };
	static const struct spec_unsupported later[] = { { NULL, NULL } };
	bool enabled = true;
	enum spot_rc rc = spec_keys(y, "rebalance", known, later, err);

	if (rc == SPOT_OK) {
		rc = spec_bool(yaml_get(y, "enabled"), &enabled, err);
	}
	if (rc == SPOT_OK) {
		rc = moves_parse(yaml_get(y, "at_once"), &ret->at_once, err);
	}
	if (rc == SPOT_OK) {
		rc = moves_parse(yaml_get(y, "per_zone"), &ret->per_zone, err);
	}
	if (rc == SPOT_OK) {
		rc = moves_parse(yaml_get(y, "per_hour"), &ret->per_hour, err);
	}
	if (rc == SPOT_OK) {
		rc = hours_parse(yaml_get(y, "hours"), ret, err);
	}
	ret->off = !enabled;
	return rc;
}

json_t *fleet_rebalance_json(const struct fleet_rebalance *b)
{
	struct fleet_spec f = { .rebalance = *b };
	struct fleet_rebalance x = fleet_rebalance_of(&f);

	return json_pack("{s:b, s:i, s:i, s:i, s:s}", "enabled", !x.off, "at_once", x.at_once,
	    "per_zone", x.per_zone, "per_hour", x.per_hour, "hours", x.hours_text);
}

void fleet_rebalance_read(struct arena *a, const json_t *j, struct fleet_rebalance *ret,
    struct spot_err *err)
{
	if (j == NULL) {
		return; /* a fleet stored before moves */
	}
	ret->off = !json_bool(j, "enabled", true, err);
	ret->at_once = (int32_t)json_i64(j, "at_once", 0, err);
	ret->per_zone = (int32_t)json_i64(j, "per_zone", 0, err);
	ret->per_hour = (int32_t)json_i64(j, "per_hour", 0, err);
	ret->hours_text = arena_strdup(a, json_str(j, "hours", "", err));
	if (!rebalance_hours_parse(ret->hours_text, &ret->hours)) {
		(void)err_set(err, SPOT_INVALID, "rebalance.hours '%.40s'", ret->hours_text);
	}
}
