/*
 * Workload classes. Pure. A class sets the defaults of its jobs: market, priority, allowed GPUs and
 * patience for spot. It says whether a higher job may preempt them, and the goal once they are
 * late. The table has built-in defaults; the configuration changes them ([class NAME]).
 */
#ifndef CORE_CLASS_POLICY_H
#define CORE_CLASS_POLICY_H

#include "base/base.h"
#include "core/spec/jobspec.h"

#define CLASSES 7
#define CLASS_TIERS_MAX 32
#define CLASS_GPU_MAX 32

enum class_tolerance { CLASS_SPOT = 1, CLASS_ON_DEMAND }; /* on_demand: or reserved */
struct class_policy {
	const char *name;
	enum class_tolerance tolerance;
	bool preemptible;
	int32_t priority;
	/* wait for spot this long before on-demand; -1 = as the daemon ([engine] patience) */
	int64_t patience_s;
	/* after its deadline: true as if there were none, false as soon as possible */
	bool late_cheapest;
	char tiers[CLASS_TIERS_MAX][CLASS_GPU_MAX];
	size_t tiers_n; /* allowed GPUs; 0 = any */
};
struct class_table {
	struct class_policy list[CLASSES];
};
void class_table_default(struct class_table *t);
/* Returns NULL for an unknown class. */
struct class_policy *class_find(struct class_table *t, const char *name);
const struct class_policy *class_get(const struct class_table *t, const char *name);
/* Sets one key of [class NAME]: tolerance, preemptible, priority, patience, late, tiers. The error
 * does not name the section. */
NODISCARD enum spot_rc class_set(struct class_policy *c, const char *key, const char *value,
    struct spot_err *err);
/* Fills in the defaults of the class, and narrows the GPUs to those it allows. Refuses the job,
 * with a reason, if none is left. */
NODISCARD enum spot_rc class_apply(struct arena *a, const struct class_policy *c,
    struct job_spec *s, struct spot_err *err);
/* The same for asks that name an instance type and no GPU, once the market is known. Refuses the
 * job if the class may not have the GPU of any alternative. A type without an offer passes; ranking
 * checks again (ask.tiers). */
struct offer;
NODISCARD enum spot_rc class_types_check(struct arena *a, const struct class_policy *c,
    const struct job_spec *s, const struct offer *offers, size_t n, struct spot_err *err);
/* Returns "eval: fault-tolerant, spot by default; ...". Call after class_apply(). */
const char *class_words(struct arena *a, const struct class_policy *c, const struct job_spec *s);

#endif
