/* The workload classes, their defaults, and their effect on a job file. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"
#include "core/rank/rank.h"

/* For classes without a waiting user. A day of patience costs 0.84 of what ten minutes cost, seven
 * days 0.83 (tests/bench/fleetsim). */
#define LONG_PATIENCE_S 86400
#define PATIENCE_MAX_US (INT64_C(24) * 365 * SPOT_US_PER_HOUR)

void class_table_default(struct class_table *t)
{
	*t = (struct class_table){ .list = {
				       { .name = "training",
					   .patience_s = -1,
					   .tolerance = CLASS_SPOT,
					   .preemptible = true },
				       { .name = "batch_inference",
					   .patience_s = LONG_PATIENCE_S,
					   .tolerance = CLASS_SPOT,
					   .preemptible = true,
					   .priority = -20 },
				       { .name = "fine_tune",
					   .patience_s = -1,
					   .tolerance = CLASS_SPOT,
					   .preemptible = true },
				       { .name = "eval",
					   .patience_s = -1,
					   .tolerance = CLASS_SPOT,
					   .preemptible = true,
					   .priority = 10 },
				       { .name = "sweep",
					   .patience_s = LONG_PATIENCE_S,
					   .tolerance = CLASS_SPOT,
					   .preemptible = true,
					   .priority = -20 },
				       { .name = "dev",
					   .patience_s = -1,
					   .tolerance = CLASS_ON_DEMAND,
					   .preemptible = false,
					   .priority = 50 },
				       { .name = "serving",
					   .patience_s = -1,
					   .tolerance = CLASS_ON_DEMAND,
					   .preemptible = false,
					   .priority = 100 },
				   } };
}

const struct class_policy *class_get(const struct class_table *t, const char *name)
{
	for (size_t i = 0; i < CLASSES; i++) {
		if (strcmp(t->list[i].name, name) == 0) {
			return &t->list[i];
		}
	}
	return NULL;
}

struct class_policy *class_find(struct class_table *t, const char *name)
{
	const struct class_policy *c = class_get(t, name);

	return c == NULL ? NULL : &t->list[c - t->list];
}

/* ---- configuration --------------------------------------------------------------------------- */

static enum spot_rc tier_add(struct class_policy *c, const char *at, size_t n, struct spot_err *err)
{
	char name[CLASS_GPU_MAX];

	if (n == 0 || n >= sizeof(name)) {
		return err_set(err, SPOT_CONFIG, "tiers: %s",
		    n == 0 ? "a name is missing between the commas" : "a name is too long");
	}
	if (c->tiers_n == CLASS_TIERS_MAX) {
		return err_set(err, SPOT_CONFIG, "tiers: more than %d GPUs", CLASS_TIERS_MAX);
	}
	memcpy(name, at, n);
	name[n] = '\0';
	if (gpu_perf_find(name) == NULL) {
		return err_set(err, SPOT_CONFIG,
		    "tiers: %s is not a GPU that is known (spotctl gpus)", name);
	}
	memcpy(c->tiers[c->tiers_n++], name, n + 1);
	return SPOT_OK;
}

static enum spot_rc tiers_set(struct class_policy *c, const char *value, struct spot_err *err)
{
	enum spot_rc rc = SPOT_OK;

	c->tiers_n = 0;
	memset(c->tiers, 0, sizeof(c->tiers));
	for (const char *p = value; rc == SPOT_OK && *value != '\0';) {
		size_t skip = strspn(p, " "), n = strcspn(p + skip, ","), used = n;

		while (used > 0 && p[skip + used - 1] == ' ') {
			used--;
		}
		rc = tier_add(c, p + skip, used, err);
		if (p[skip + n] == '\0') {
			break;
		}
		p += skip + n + 1;
	}
	return rc;
}

static enum spot_rc waiting_set(struct class_policy *c, const char *key, const char *value,
    struct spot_err *err)
{
	int64_t us;

	if (strcmp(key, "patience") == 0) {
		if (strcmp(value, "default") == 0) {
			c->patience_s = -1;
			return SPOT_OK;
		}
		if (!parse_duration_us(value, &us) || us < 0 || us > PATIENCE_MAX_US) {
			return err_set(err, SPOT_CONFIG,
			    "patience = %.40s: expected a duration up to a year, such as 2h, or "
			    "default for "
			    "that of [engine]",
			    value);
		}
		c->patience_s = us / SPOT_US_PER_S;
		return SPOT_OK;
	}
	if (strcmp(key, "late") == 0) {
		if (strcmp(value, "fastest") != 0 && strcmp(value, "cheapest") != 0) {
			return err_set(err, SPOT_CONFIG,
			    "late = %.40s: expected fastest or cheapest", value);
		}
		c->late_cheapest = value[0] == 'c';
		return SPOT_OK;
	}
	return err_set(err, SPOT_CONFIG,
	    "%.40s is not a key; these are: tolerance, preemptible, priority, patience, late, "
	    "tiers",
	    key);
}

enum spot_rc class_set(struct class_policy *c, const char *key, const char *value,
    struct spot_err *err)
{
	int64_t priority;

	if (strcmp(key, "tolerance") == 0) {
		bool spot = strcmp(value, "spot") == 0;

		if (!spot && strcmp(value, "on_demand") != 0) {
			return err_set(err, SPOT_CONFIG,
			    "tolerance = %.40s: expected spot or on_demand", value);
		}
		c->tolerance = spot ? CLASS_SPOT : CLASS_ON_DEMAND;
		return SPOT_OK;
	}
	if (strcmp(key, "preemptible") == 0) {
		if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
			return err_set(err, SPOT_CONFIG,
			    "preemptible = %.40s: expected true or false", value);
		}
		c->preemptible = value[0] == 't';
		return SPOT_OK;
	}
	if (strcmp(key, "priority") == 0) {
		if (!parse_i64(value, -1000, 1000, &priority)) {
			return err_set(err, SPOT_CONFIG,
			    "priority = %.40s: expected a number from -1000 to 1000", value);
		}
		c->priority = (int32_t)priority;
		return SPOT_OK;
	}
	if (strcmp(key, "tiers") == 0) {
		return tiers_set(c, value, err);
	}
	return waiting_set(c, key, value, err);
}

/* ---- a job of the class ---------------------------------------------------------------------- */

static const char *tiers_text(struct arena *a, const struct class_policy *c)
{
	const char *text = "";

	for (size_t i = 0; i < c->tiers_n; i++) {
		text = arena_printf(a, "%s%s%s", text, i > 0 ? ", " : "", c->tiers[i]);
	}
	return text;
}

static bool asked_already(const struct gpu_ask *list, size_t n, const struct gpu_ask *g)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i].milli == g->milli && strcmp(list[i].gpu, g->gpu) == 0) {
			return true;
		}
	}
	return false;
}

/* Keeps the GPUs of the ask that belong to a tier, by the narrower of the two names. */
static void ask_narrow(struct arena *a, const struct class_policy *c, struct resource_ask *k)
{
	struct gpu_ask *kept = arena_array(a, k->gpus_n * (c->tiers_n + 1), sizeof(*kept));
	size_t n = 0;

	for (size_t i = 0; i < k->gpus_n; i++) {
		for (size_t t = 0; t < c->tiers_n; t++) {
			struct gpu_ask g = k->gpus[i];

			if (!gpu_matches(c->tiers[t], g.gpu)) {
				if (!gpu_matches(g.gpu, c->tiers[t])) {
					continue;
				}
				g.gpu = arena_strdup(a, c->tiers[t]);
			}
			if (!asked_already(kept, n, &g)) {
				kept[n++] = g;
			}
		}
	}
	k->gpus = kept;
	k->gpus_n = n;
}

static enum spot_rc tiers_refuse(struct arena *a, const struct class_policy *c, const char *what,
    struct spot_err *err)
{
	return err_set(err, SPOT_INVALID,
	    "%s: a job of class %s may have %s only; ask for one of these, or let an administrator "
	    "change tiers of [class %s]",
	    what, c->name, tiers_text(a, c), c->name);
}

/* Stores the tiers with the ask. The GPU of an instance type is known only when offers are read. */
static void tiers_keep(struct arena *a, const struct class_policy *c, struct resource_ask *k)
{
	k->tiers = arena_array(a, c->tiers_n, sizeof(*k->tiers));
	for (k->tiers_n = 0; k->tiers_n < c->tiers_n; k->tiers_n++) {
		k->tiers[k->tiers_n] = arena_strdup(a, c->tiers[k->tiers_n]);
	}
}

static enum spot_rc tiers_apply(struct arena *a, const struct class_policy *c, struct job_spec *s,
    struct spot_err *err)
{
	size_t n = 0;
	bool any = false;

	for (size_t i = 0; i < s->asks_n; i++) {
		struct resource_ask k = s->asks[i];

		if (k.gpus_n > 0) {
			any = true;
			ask_narrow(a, c, &k);
			if (k.gpus_n == 0) {
				continue;
			}
		} else if (k.instance_type != NULL) {
			tiers_keep(a, c, &k);
		}
		s->asks[n++] = k;
	}
	if (any && n == 0) {
		return tiers_refuse(a, c, "resources.accelerators", err);
	}
	s->asks_n = n;
	return SPOT_OK;
}

enum spot_rc class_apply(struct arena *a, const struct class_policy *c, struct job_spec *s,
    struct spot_err *err)
{
	bool spot_said = false;

	for (size_t i = 0; i < s->asks_n; i++) {
		spot_said |= s->asks[i].use_spot > 0;
	}
	if (!s->interruptible_said && !spot_said) {
		s->interruptible = c->tolerance == CLASS_SPOT;
	}
	if (!s->priority_said) {
		s->priority = c->priority;
	}
	if (s->patience_s < 0) {
		s->patience_s = c->patience_s;
	}
	if (!s->late_said) {
		s->late_cheapest = c->late_cheapest;
	}
	s->not_preemptible = !c->preemptible;
	return c->tiers_n == 0 ? SPOT_OK : tiers_apply(a, c, s, err);
}

/* Returns the GPU of the ask's type if it is known and not allowed, else NULL. */
static const char *type_refused(const struct resource_ask *k, const struct offer *offers, size_t n)
{
	const char *gpu = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct offer *o = &offers[i];

		if (strcmp(o->instance_type, k->instance_type) != 0 ||
		    (k->provider != NULL && strcmp(k->provider, o->provider) != 0)) {
			continue;
		}
		if (offer_tier_allowed(o, k)) {
			return NULL;
		}
		gpu = o->gpu_name;
	}
	return gpu;
}

enum spot_rc class_types_check(struct arena *a, const struct class_policy *c,
    const struct job_spec *s, const struct offer *offers, size_t n, struct spot_err *err)
{
	const char *gpu = NULL, *type = NULL;

	for (size_t i = 0; i < s->asks_n; i++) {
		type = s->asks[i].instance_type;
		gpu = s->asks[i].tiers_n > 0 ? type_refused(&s->asks[i], offers, n) : NULL;
		if (gpu == NULL) {
			return SPOT_OK;
		}
	}
	return gpu == NULL
	    ? SPOT_OK
	    : tiers_refuse(a, c, arena_printf(a, "resources.instance_type: %s has %s", type, gpu),
		  err);
}

static bool only_on_demand(const struct job_spec *s)
{
	for (size_t i = 0; i < s->asks_n; i++) {
		if (s->asks[i].use_spot != 0) {
			return false;
		}
	}
	return s->asks_n > 0;
}

/* Words only the values that differ from the daemon's own. */
static const char *waiting_words(struct arena *a, const struct job_spec *s)
{
	const char *late =
	    s->deadline_us != 0 && s->late_cheapest ? "; once late, what costs least" : "";
	char text[32];

	if (s->patience_s < 0 || !s->interruptible || s->deadline_us != 0) {
		return late;
	}
	return arena_printf(a, "; waits up to %s for spot before on-demand",
	    format_duration(s->patience_s * SPOT_US_PER_S, text));
}

const char *class_words(struct arena *a, const struct class_policy *c, const struct job_spec *s)
{
	const char *market,
	    *tiers = c->tiers_n == 0 ? "" : arena_printf(a, "; tiers %s", tiers_text(a, c));

	if (!s->interruptible) {
		market = arena_printf(a,
		    "must not be interrupted%s, so on-demand or reserved capacity only",
		    s->interruptible_said ? "" : " unless its file says otherwise");
	} else if (only_on_demand(s)) {
		market = "use_spot is false, so no spot capacity";
	} else {
		market = arena_printf(a,
		    "%s, so spot by default; on-demand when spot cannot be had or comes too late%s",
		    c->tolerance == CLASS_SPOT ? "fault-tolerant, may be interrupted"
					       : "its file says that it may be "
						 "interrupted",
		    s->checkpoint.path != NULL
			? ""
			: "; it keeps no checkpoint and starts over each time");
	}
	return arena_printf(a, "%s: %s%s%s; priority %d; %s", c->name, market, waiting_words(a, s),
	    tiers, (int)s->priority,
	    s->not_preemptible || !s->interruptible
		? "is not made to leave for others"
		: "may have to leave for a job of much higher priority, with a checkpoint");
}
