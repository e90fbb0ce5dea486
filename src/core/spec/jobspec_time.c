/* Times of the job file: deadline, start_after, off_peak, patience and late. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

#define DEADLINE_MAX_US (INT64_C(87600) * SPOT_US_PER_HOUR) /* ten years */
#define PATIENCE_MAX_US (INT64_C(24) * 365 * SPOT_US_PER_HOUR)

static enum spot_rc parse_deadline(struct jobspec_ctx *x, const struct yaml *y, struct job_spec *s,
    struct spot_err *err)
{
	const char *text = NULL;
	int64_t us;
	enum spot_rc rc = spec_text(y, &text, err);

	if (rc != SPOT_OK || text == NULL) {
		return rc;
	}
	if (parse_time_us(text, &us)) {
		s->deadline_us = us;
	} else if (parse_duration_us(text, &us) && us > 0 && us <= DEADLINE_MAX_US) {
		s->deadline_us = x->now_us + us;
	} else {
		return yaml_fail(y, err,
		    "deadline: a time such as 2026-01-31T18:00:00Z, or a duration such as 6h");
	}
	if (s->deadline_us <= x->now_us) {
		return yaml_fail(y, err, "deadline: %s is in the past", text);
	}
	return SPOT_OK;
}

/* Parses start_after. A deadline must lie after it. */
static enum spot_rc parse_start(struct jobspec_ctx *x, const struct yaml *y, struct job_spec *s,
    struct spot_err *err)
{
	const char *text = NULL;
	int64_t us;
	enum spot_rc rc = spec_text(y, &text, err);

	if (rc != SPOT_OK || text == NULL) {
		return rc;
	}
	if (parse_time_us(text, &us)) {
		s->start_after_us = us;
	} else if (parse_duration_us(text, &us) && us >= 0 && us <= DEADLINE_MAX_US) {
		s->start_after_us = x->now_us + us;
	} else {
		return yaml_fail(y, err,
		    "start_after: a time such as 2026-01-31T22:00:00Z, or a duration such as 6h");
	}
	if (s->start_after_us > x->now_us + DEADLINE_MAX_US) {
		return yaml_fail(y, err, "start_after: %s is more than ten years away", text);
	}
	if (s->deadline_us != 0 && s->start_after_us >= s->deadline_us) {
		return yaml_fail(y, err, "start_after: %s is not before the deadline", text);
	}
	return SPOT_OK;
}

static enum spot_rc parse_off_peak(const struct yaml *y, struct job_spec *s, struct spot_err *err)
{
	bool wanted = s->off_peak > 0;
	enum spot_rc rc = spec_bool(y, &wanted, err);

	if (rc == SPOT_OK && y != NULL && !yaml_is_null(y)) {
		s->off_peak = wanted;
	}
	return rc;
}

/* Parses patience. 0s means never wait. */
static enum spot_rc parse_patience(const struct yaml *y, struct job_spec *s, struct spot_err *err)
{
	const char *text = NULL;
	int64_t us;
	enum spot_rc rc = spec_text(y, &text, err);

	if (rc != SPOT_OK || text == NULL) {
		return rc;
	}
	if (!parse_duration_us(text, &us) || us < 0 || us > PATIENCE_MAX_US) {
		return yaml_fail(y, err,
		    "patience: how long to wait for spot before on-demand is taken, such as 2h, at "
		    "most a year");
	}
	s->patience_s = us / SPOT_US_PER_S;
	return SPOT_OK;
}

static enum spot_rc parse_late(const struct yaml *y, struct job_spec *s, struct spot_err *err)
{
	const char *text = NULL;
	enum spot_rc rc = spec_text(y, &text, err);

	if (rc != SPOT_OK || text == NULL) {
		return rc;
	}
	if (strcmp(text, "fastest") != 0 && strcmp(text, "cheapest") != 0) {
		return yaml_fail(y, err,
		    "late: fastest or cheapest: what counts once the deadline has passed");
	}
	s->late_cheapest = text[0] == 'c';
	s->late_said = true;
	return SPOT_OK;
}

enum spot_rc spec_times(struct jobspec_ctx *x, const struct yaml *y, struct job_spec *s,
    struct spot_err *err)
{
	enum spot_rc rc = parse_deadline(x, yaml_get(y, "deadline"), s, err);

	if (rc == SPOT_OK) {
		rc = parse_start(x, yaml_get(y, "start_after"), s, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_off_peak(yaml_get(y, "off_peak"), s, err);
	}
	if (rc == SPOT_OK) {
		rc = parse_patience(yaml_get(y, "patience"), s, err);
	}
	return rc != SPOT_OK ? rc : parse_late(yaml_get(y, "late"), s, err);
}
