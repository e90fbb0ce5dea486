/*
 * Workload classes: what a job of a class may be put on when its file does not say, whether it may
 * be made to leave for one of higher priority, which GPUs it may have, its priority, how long it
 * waits for spot, and what counts once it is late. A table with built-in defaults that the
 * configuration changes ([class NAME]). Pure.
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
	/* wait for spot so long before on-demand; -1 = as the daemon ([engine] patience) */
	int64_t patience_s;
	/* once its deadline has passed: as if there were none; else as soon as may be */
	bool late_cheapest;
	char tiers[CLASS_TIERS_MAX][CLASS_GPU_MAX];
	size_t tiers_n; /* GPUs it may have; 0 = any */
};
struct class_table {
	struct class_policy list[CLASSES];
};
void class_table_default(struct class_table *t);
/* NULL: no such class. */
struct class_policy *class_find(struct class_table *t, const char *name);
const struct class_policy *class_get(const struct class_table *t, const char *name);
/* One key of [class NAME]: tolerance, preemptible, priority, patience, late, tiers. Words without
 * the section's name. */
NODISCARD enum spot_rc class_set(struct class_policy *c, const char *key, const char *value,
    struct spot_err *err);
/* Fills in what the file did not say, and narrows the GPUs to those of the class; refused, in
 * words, where none is left. */
NODISCARD enum spot_rc class_apply(struct arena *a, const struct class_policy *c,
    struct job_spec *s, struct spot_err *err);
/* The same for asks that name an instance type and no GPU, when the market is known: refused where
 * every alternative is such a type whose GPU the class may not have. A type that no offer is of is
 * let pass: ranking looks again (ask.tiers). */
struct offer;
NODISCARD enum spot_rc class_types_check(struct arena *a, const struct class_policy *c,
    const struct job_spec *s, const struct offer *offers, size_t n, struct spot_err *err);
/* "eval: fault-tolerant, spot by default; ...": after class_apply. */
const char *class_words(struct arena *a, const struct class_policy *c, const struct job_spec *s);

#endif
