/* Private to the jobspec sources. */
#ifndef CORE_SPEC_PARTS_H
#define CORE_SPEC_PARTS_H

#include "base/text/yaml.h"
#include "core/spec/jobspec.h"

/* Replaces a secret in a file that is shown. */
#define JOB_SECRET_SHOWN "***"

struct jobspec_ctx {
	struct arena *arena;
	int64_t now_us;
	const char **warnings;
	size_t warnings_n, warnings_cap;
};

void jobspec_warn(struct jobspec_ctx *x, const struct yaml *at, const char *text);
/* Parse scalars. *ret stays unchanged if y is NULL or null. */
NODISCARD enum spot_rc spec_text(const struct yaml *y, const char **ret, struct spot_err *err);
NODISCARD enum spot_rc spec_int(const struct yaml *y, int64_t min, int64_t max, int64_t *ret,
    struct spot_err *err);
NODISCARD enum spot_rc spec_bool(const struct yaml *y, bool *ret, struct spot_err *err);
NODISCARD enum spot_rc spec_seconds(const struct yaml *y, int64_t *ret, struct spot_err *err);
/* micro-dollars, above 0 */
NODISCARD enum spot_rc spec_money(const struct yaml *y, const char *what, int64_t *ret,
    struct spot_err *err);
/* Refuses keys not in `known`. Keys in `later` get their own sentence with the reason. */
struct spec_unsupported {
	const char *key, *why;
};
NODISCARD enum spot_rc spec_keys(const struct yaml *map, const char *what, const char *const *known,
    const struct spec_unsupported *later, struct spot_err *err);
/* resources: gives at least one ask. */
NODISCARD enum spot_rc spec_resources(struct jobspec_ctx *x, const struct yaml *y,
    struct job_spec *s, struct spot_err *err);

/* file_mounts: fills mounts. */
NODISCARD enum spot_rc spec_mounts(struct jobspec_ctx *x, const struct yaml *y, struct job_spec *s,
    struct spot_err *err);
/* Returns NULL, or why the agent cannot make that place on a machine. */
const char *spec_place_wrong(const char *path);
/* deadline, start_after, off_peak, patience, late of config.spotctl. */
NODISCARD enum spot_rc spec_times(struct jobspec_ctx *x, const struct yaml *y, struct job_spec *s,
    struct spot_err *err);
/* data: fills data_*. */
NODISCARD enum spot_rc spec_data(const struct yaml *y, struct job_spec *s, struct spot_err *err);

#endif
