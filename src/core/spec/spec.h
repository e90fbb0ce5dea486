/* Job files: their parsed form, the policies of workload classes, store URIs, and the parsers of
 * scalars that fleet files use too. */
#ifndef CORE_SPEC_SPEC_H
#define CORE_SPEC_SPEC_H

#include "base/base.h"
#include "base/text/text.h"

/*
 * The job file: YAML, of which JSON is a subset. A SkyPilot task file is accepted as far as we
 * support it. Our own keys are under config.spotctl. Strict: an unknown key is refused with line
 * and column, and a known but unsupported one says so. Pure: text in, struct out, in the caller's
 * arena.
 */

struct arena;
struct gpu_ask { /* one acceptable accelerator */
	/* normalised name as typed, "A100"; matched by core/rank/offer.h gpu_matches */
	const char *gpu;
	int32_t milli; /* count x 1000 */
};
struct job_env {
	const char *name, *value;
};
/* file_mounts: s3://bucket/key copied to dst; the place is not stored */
struct job_mount {
	const char *dst, *uri;
	int line, column;
};
struct resource_ask { /* one alternative; any_of makes several */
	const char *provider, *region, *zone; /* from infra; NULL = any */
	const char *instance_type; /* NULL = any */
	struct gpu_ask *gpus;
	size_t gpus_n; /* any of these; 0 = no GPU needed */
	/* allowed GPUs, if the machine has any; 0 = not limited (class_apply) */
	const char **tiers;
	size_t tiers_n;
	/* 1 spot, 0 on-demand only, -1 not given (the class decides) */
	int use_spot;
	int64_t vcpus_min, mem_mib_min; /* 0 = any */
	int64_t max_hourly_micros; /* 0 = none */
};
struct checkpoint_spec {
	const char *path; /* NULL: the job keeps no checkpoint */
	const char *signal; /* "USR1" */
	const char *command; /* NULL = signal only */
	int64_t interval_s; /* 0 = auto (Young/Daly from hazard and save time) */
	bool interval_off; /* `interval: never` */
	int64_t budget_s; /* how long a save may take, default 60 */
	int64_t size_bytes; /* expected, for egress; 0 = unknown until measured */
};
struct job_spec {
	const char *name;
	const char *setup, *run;
	struct job_env *envs;
	size_t envs_n;
	struct job_env *secrets;
	size_t secrets_n;
	struct job_mount *mounts;
	size_t mounts_n;
	struct resource_ask *asks;
	size_t asks_n; /* at least one */
	int32_t num_nodes; /* 1 */
	int32_t priority;
	int32_t max_restarts; /* after errors; default 0 */
	/* config.spotctl */
	const char *team, *project, *class; /* "" if not given; class default "training" */
	/* absolute; 0 = none. The file may say a duration from now */
	int64_t deadline_us;
	int64_t max_duration_s; /* 0 = none */
	/* most that the job may cost, 0 = no limit; stored in job.budget_micros, since it
	 * changes */
	int64_t budget_micros;
	/* expected work on the reference GPU ask; 0 = unknown */
	int64_t work_s;
	const char *fleet; /* run on this fleet; NULL = own capacity */
	bool interruptible; /* default true */
	/* of several nodes: if one machine is lost, the others wait for another there */
	bool elastic;
	/* of several nodes: their machines are placed close together (network_tier: best) */
	bool together;
	struct checkpoint_spec checkpoint;
	/* absolute; 0 = at once. The file may say a duration from now */
	int64_t start_after_us;
	/* wait for spot this long before on-demand; -1 = not given (class, then daemon) */
	int64_t patience_s;
	/* after the deadline: true as if there were none, false as soon as possible */
	bool late_cheapest;
	bool late_said; /* the file gives it; not stored */
	/* may wait for cheaper hours: 1 yes, 0 no, -1 not given (only if the deadline has slack) */
	int off_peak;
	/* data that the job reads at each start, for the price of moving it */
	const char *data_uri, *data_provider; /* NULL = none named; provider by the scheme */
	const char *data_region; /* NULL = not given */
	int64_t data_bytes;
	/* set by the class if not in the file (class_policy.c) */
	bool interruptible_said, priority_said; /* of the file; not stored */
	/* a job of higher priority does not preempt it */
	bool not_preemptible;
};
/* Parses a job file. now_us resolves relative deadlines. warnings lists keys that are accepted but
 * have no effect. */
NODISCARD enum spot_rc jobspec_parse(struct arena *a, struct str text, int64_t now_us,
    struct job_spec **ret, const char ***ret_warnings, size_t *ret_warnings_n,
    struct spot_err *err);
/* Returns the normalised form stored in job.spec, with the names of secrets but not their values.
 * jobspec_from_json() reads it back. */
json_t *jobspec_to_json(const struct job_spec *s);
NODISCARD enum spot_rc jobspec_from_json(struct arena *a, const json_t *j, struct job_spec **ret,
    struct spot_err *err);
json_t *jobspec_secrets(const struct job_spec *s); /* {"NAME":"value"} */
json_t *resource_ask_to_json(const struct resource_ask *r);
void resource_ask_from_json(struct arena *a, const json_t *o, struct resource_ask *r,
    struct spot_err *err);
/* Refuses mounts that no provider can sign for. store: [checkpoint] store of the daemon, "" =
 * none. */
NODISCARD enum spot_rc jobspec_store_check(const struct job_spec *s, const char *store,
    struct spot_err *err);
/* Returns the file without its secrets, for job.source. */
char *jobspec_source(struct arena *a, struct str text, const struct job_spec *s);

/*
 * Workload classes. Pure. A class sets the defaults of its jobs: market, priority, allowed GPUs and
 * patience for spot. It says whether a higher job may preempt them, and the goal once they are
 * late. The table has built-in defaults; the configuration changes them ([class NAME]).
 */

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

/*
 * Object addresses (s3://bucket/key, gs://bucket/key, az://container/key), and the providers that
 * can sign for them. Pure: a job file is checked by the same rule with which the engine later
 * signs.
 */

struct store_uri {
	const char *scheme; /* "s3://" */
	const char *bucket, *key;
};
/* Returns NULL, or the error in words. Refuses addresses that no vendor of the scheme accepts. */
NODISCARD const char *store_uri_read(struct arena *a, const char *uri, struct store_uri *ret);
/* Returns whether a provider of that kind signs for the uri's scheme: gs:// gcp, az:// azure, s3://
 * all others. False for other uris. */
bool store_uri_signed_by(const char *uri, const char *kind);
/* Returns whether both have the same scheme, so that one provider signs for both. */
bool store_uri_alike(const char *a, const char *b);
/* Returns "a provider of kind gcp", for use in a sentence. */
const char *store_uri_signers(const char *uri);

/* Private to the jobspec sources. */

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
/* The key network_tier of resources. */
NODISCARD enum spot_rc spec_network_tier(const struct yaml *y, struct job_spec *s,
    struct spot_err *err);
/* The key elastic. */
NODISCARD enum spot_rc spec_elastic(const struct yaml *y, struct job_spec *s, struct spot_err *err);
/* Refuses settings that a job of several nodes cannot have. */
NODISCARD enum spot_rc spec_gang_check(const struct yaml *doc, const struct job_spec *s,
    struct spot_err *err);

#endif
