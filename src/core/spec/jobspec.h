/*
 * The job file: YAML, of which JSON is a subset. A SkyPilot task file is accepted as far as we
 * support it. Our own keys are under config.spotctl. Strict: an unknown key is refused with line
 * and column, and a known but unsupported one says so. Pure: text in, struct out, in the caller's
 * arena.
 */
#ifndef CORE_JOBSPEC_H
#define CORE_JOBSPEC_H

#include "base/base.h"
#include "base/text/json.h"

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
	/* set by the class if not in the file (core/spec/class_policy.h) */
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

#endif
