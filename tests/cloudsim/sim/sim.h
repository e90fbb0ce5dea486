/*
 * cloudsim: the emulated clouds. One struct sim owns everything: the market, the instances, the
 * faults, the record of requests. All in memory, one thread, loopback only. Nothing here is shared
 * with providers/: a misreading of a vendor's document must not agree with itself.
 *
 * This header is the world that all clouds share. cloud.h is the contract of one cloud.
 */
#ifndef CLOUDSIM_SIM_H
#define CLOUDSIM_SIM_H

#include "base/base.h"
#include "base/text/text.h"
#include "io/httpd/httpd.h"
#include "io/loop/loop.h"

enum cloud {
	CLOUD_NONE = 0,
	CLOUD_AWS,
	CLOUD_LAMBDA,
	CLOUD_GCP,
	CLOUD_AZURE,
	CLOUD_COREWEAVE,
	CLOUD_COUNT
};

struct market;
struct books;
struct faults;
struct throttle;
struct imds;
struct s3;
struct creds;
struct waits;
struct aws_state;
struct lambda_state;
struct gcp;
struct azure;
struct coreweave;
struct inst;

struct sim_conf {
	const char *dir, *data_dir;
	int port, control_port, imds_port;
	bool agents; /* instances run their user data */
	bool lambda_tags_hidden; /* tags do not come back in Lambda's listings */
	bool throttle; /* published rate limits are enforced */
	uint64_t seed; /* 0 = real randomness */
	double scale; /* replay speed */
	int64_t lag_us; /* a new instance is invisible in lists for this long */
	int64_t boot_us; /* launch to running */
	int64_t terminate_us; /* shutting-down to terminated */
	int64_t notice_us; /* reclaim by replayed supply: notice given */
	const char *supply; /* "open" or a set of data/aws_supply.csv */
	int64_t supply_unit; /* instances that one unit of a 0/1 supply trace stands for */
	int64_t quota_vcpus; /* default applied quota of every class */
	const char **markets; /* control requests to apply at start */
	size_t markets_n;
};

/* The own port of a cloud (clouds.c); the shared one has no cloud. */
struct front_port {
	struct sim *sim;
	enum cloud cloud;
	struct httpd *http;
	void *own; /* one of several servers of a cloud */
};

struct sim {
	struct sim_conf conf;
	struct loop *loop;
	struct rng rng;
	struct httpd *http, *control_http, *imds_http;
	int64_t start_us; /* wall clock at start */
	int64_t advanced_us; /* added to the replay clock by hand */
	struct market *market;
	struct books *books;
	struct faults *faults;
	struct throttle *throttle;
	struct imds *imds;
	struct s3 *s3;
	struct creds *creds;
	struct waits *waits;
	struct aws_state *aws;
	struct lambda_state *lambda;
	struct gcp *gcp;
	struct azure *azure;
	struct coreweave *coreweave;
	struct front_port shared, ports[CLOUD_COUNT];
	struct inst *insts, *insts_last; /* by seq, ascending */
	/* never were; only the books' launches still point at them */
	struct inst *unmade;
	/* its price feed is frozen at that time; 0 = it is live */
	int64_t frozen_us[CLOUD_COUNT];
	/* the effects of the current request are undone once it is answered */
	bool pretend;
	void *inst_tree; /* tsearch by id */
	uint64_t inst_seq;
	int alive; /* instances not gone */
	bool quitting;
};

int64_t sim_wall(const struct sim *s);
/* Returns the time of the prices in a cloud's feed. */
int64_t sim_feed_us(const struct sim *s, enum cloud cloud);
/* The replay clock: wall time at start, then scale times faster, plus /advance. */
int64_t sim_clock(const struct sim *s);
/* prefix + n random bytes in lower-case hex; malloc'd or in arena (a != NULL). */
char *sim_id(struct sim *s, struct arena *a, const char *prefix, size_t n);
/* Mon, 05 Jan 2026 22:10:00 GMT */
void sim_http_date(int64_t us, char ret[64]);
/* start.c: with conf, loop, rng and start_us set. False: err says why; close it all the same. */
struct sim_conf sim_conf_default(void);
NODISCARD bool sim_open(struct sim *s, struct spot_err *err);
void sim_close(struct sim *s);
void sim_quit(struct sim *s); /* stop.c */
char *dup_text(const char *s); /* NULL stays NULL; aborts when out of memory */
bool glob_match(const char *pattern, const char *text); /* * and ?, \ escapes */
/* Writes text to path.tmp and renames; mode of the file. */
bool file_put(const char *path, const void *p, size_t n, int mode);
bool file_get(struct arena *a, const char *path, struct str *ret);
void dir_make(const char *path, int mode); /* with parents */

/* The ports (front.c with a struct front_port, control/routes.c, imds.c). */
void front_handle(void *ctx, struct httpd_req *r);
size_t front_body_max(void *ctx, const char *method, const char *path);
void control_handle(void *ctx, struct httpd_req *r);
/* Applies the control requests of a market file. */
bool control_apply(struct sim *s, const json_t *doc, struct spot_err *err);
/* Writes CONTROL.md: every control call of every cloud. */
void control_print(FILE *out);
void imds_handle(void *ctx, struct httpd_req *r);

/* ---- the market ------------------------------------------------------------------------------ */

/* Pools, prices and stock of all clouds, from data/ and from the control API. Price changes are
 * kept: the bill and the price histories are read from them. */

enum side { SIDE_SPOT = 0, SIDE_ON_DEMAND, SIDE_COUNT };
#define STOCK_OPEN 1000000

struct region {
	enum cloud cloud;
	char *name, *description;
	bool opt_in, enabled;
};
struct zone {
	struct region *region;
	char *name, *id, *kind; /* kind: "availability-zone", "local-zone" */
};
struct itype {
	enum cloud cloud;
	char *name, *gpu, *maker, *arch, *network, *description;
	int gpus, gpu_mem_mib, vcpus, mem_mib, efa, cards, storage_gib, cents;
	double partition; /* of one GPU; 0 = whole GPUs */
	bool current;
};
struct price_log {
	struct price_at {
		int64_t us, micros;
	} *at;
	size_t n, cap;
	bool sold;
	bool held; /* set by hand: the replay does not move it */
};
struct pool {
	enum cloud cloud;
	struct region *region;
	struct zone *zone; /* NULL for lambda */
	struct itype *type;
	struct price_log price[SIDE_COUNT];
	int64_t stock[SIDE_COUNT]; /* how many may run at once */
	int64_t used[SIDE_COUNT];
	bool recorded; /* has a recorded history */
	bool advertised; /* lambda: listed as having capacity */
	bool advertised_by_hand;
	bool supply_held; /* stock set by hand: the replay does not move it */
};
struct market {
	struct arena *arena;
	struct region *regions;
	size_t regions_n;
	struct zone *zones;
	size_t zones_n;
	struct itype *types;
	size_t types_n;
	struct pool *pools;
	size_t pools_n;
	struct replay *replay;
	size_t replay_n, replay_at;
	size_t replay_cap;
	struct loop_timer timer;
	struct sim *sim;
	char *advisor_json;
};
struct replay {
	int64_t sim_us;
	struct pool *pool;
	int64_t value; /* micro-dollars or instances */
	bool supply;
};

const char *cloud_name(enum cloud c); /* clouds.c */
const char *side_name(enum side s); /* "spot" "on_demand" */
NODISCARD bool market_load(struct sim *s, struct spot_err *err);
void market_free(struct market *m);
struct region *market_region(const struct market *m, enum cloud c, const char *name);
struct zone *market_zone(const struct market *m, const char *region, const char *name_or_id);
struct itype *market_type(const struct market *m, enum cloud c, const char *name);
struct pool *market_pool(const struct market *m, enum cloud c, const char *region,
    const struct zone *z, const char *type);
/* Price in force at a moment; 0 = not sold then. */
int64_t price_at(const struct price_log *l, int64_t us);
void price_set(struct sim *s, struct pool *p, enum side side, int64_t us, int64_t micros);
/* A recorded row, also one that tells the price in force again. */
void price_append(struct price_log *l, int64_t us, int64_t micros);
int64_t pool_free(const struct pool *p, enum side side);
void pool_stock_set(struct sim *s, struct pool *p, enum side side, int64_t count);
/* Applies the changes that the replay clock has reached, and arms the next. */
void market_replay(struct sim *s);

/* Adds a future change; starts to play the added ones (again after each load). */
void market_replay_add(struct market *m, int64_t sim_us, struct pool *p, bool supply,
    int64_t value);
void market_replay_start(struct sim *s);

/* Reading data/ for a cloud's load(): tables with a header row. */
struct table {
	struct csv csv;
	const char *name;
	struct spot_err *err;
};
bool table_open(struct sim *s, struct table *t, const char *name, struct spot_err *err);
bool table_next(struct table *t);
const char *col(const struct table *t, const char *name);
int col_int(const struct table *t, const char *name);
int64_t col_usd(const struct table *t, const char *name); /* micro-dollars, 0 if empty */
/* a copy that lives as long as the market */
char *market_keep(struct market *m, const char *text);
struct region *market_region_add(struct market *m, enum cloud c, const char *name);
struct zone *market_zone_add(struct market *m, struct region *r, const char *name, const char *id);
struct itype *market_type_add(struct market *m, enum cloud c, const char *name);
/* A pool with its first prices (0 = not sold) and open stock. z may be NULL. */
struct pool *market_pool_add(struct sim *s, struct region *r, struct zone *z, struct itype *t,
    int64_t spot_micros, int64_t on_demand_micros);

/* Selector with * and ? in each part; empty = any. zone matches name or id. */
struct selector {
	const char *provider, *region, *zone, *type, *market;
};
bool selector_from_json(const json_t *j, struct arena *a, struct selector *ret,
    struct spot_err *err);
bool selector_pool(const struct selector *s, const struct pool *p);
bool selector_side(const struct selector *s, enum side side);

/* ---- instances ------------------------------------------------------------------------------- */

/* One record for the whole life of an instance, kept for the books after its end. */

enum inst_state {
	INST_NONE = 0,
	INST_PENDING,
	INST_RUNNING,
	INST_STOPPED,
	INST_UNHEALTHY,
	INST_SHUTTING,
	INST_GONE,
};
struct inst_tag {
	char *key, *value;
};
struct inst {
	struct sim *sim;
	struct inst *next;
	uint64_t seq;
	char *id;
	enum cloud cloud;
	struct pool *pool;
	enum side side;
	enum inst_state state;
	/* its state again, once the request that pretends to end it is answered; NONE = no such
	 * request */
	enum inst_state pretended;
	bool unreal; /* made by a request that pretends */
	bool counted; /* holds one of the pool's stock */
	int64_t launched_us, visible_us, running_us, billed_to_us, gone_us, gone_sim_us;
	int64_t stopped_us, stop_done_us; /* by its owner: still stopping until then */
	/* reclaim */
	int64_t rebalance_us, notice_us, action_us; /* 0 = not given */
	int64_t notice_len_us;
	bool reclaimed, by_price;
	bool lent; /* AWS: in an interruptible reservation, whose owner reclaims it */
	/* fields of the launch request */
	char *token, *params_hash, *name, *hostname, *image, *key_name, *user_data, *reservation,
	    *subnet;
	size_t user_data_n;
	char *security_group, *profile, *shutdown_behaviour, *account;
	int64_t max_price; /* 0 = none */
	int launch_index, hop_limit;
	bool tokens_required, metadata_tags, metadata_off;
	/* its own, its root volume's, its interface's */
	struct inst_tag *tags, *volume_tags, *nic_tags;
	size_t tags_n, volume_tags_n, nic_tags_n;
	/* identity */
	char ip[24], private_ip[24];
	int64_t ip_us; /* public ip shown from then */
	/* spot request */
	char *sir, *sir_state, *sir_code, *sir_message;
	int64_t sir_us;
	struct inst_tag *sir_tags;
	size_t sir_tags_n;
	/* end */
	char *maintenance; /* scheduled events, as the metadata service shows them */
	char *status; /* lambda: shown instead of the real status */
	char *reason_code, *reason_message, *reason;
	const char *ended_by; /* "api", "reclaim", "kill", "guest", "quit", "price" */
	/* running program */
	int pid;
	struct loop_child child;
	bool agent_started, agent_ended, rebooting;
	int agent_status;
	char *home;
	struct httpd *imds_http;
	int imds_port;
	struct imds_token *imds_tokens;
	size_t imds_tokens_n;
	struct loop_timer timer, reclaim_timer;
	int reclaim_stage;
	void *own; /* the cloud's (cloud.h) */
	/* Times that it ran before it was stopped and started again; both ends of a current one are
	 * above. */
	struct inst_span {
		int64_t from_us, to_us;
	} *spans;
	size_t spans_n;
	/* AWS: the effect of interrupts, the root volume, DisableApiTermination */
	char *behaviour, *group; /* group: of placement; NULL = none */
	int64_t root_gib;
	bool persistent, keep_root, guarded;
};

struct inst *inst_new(struct sim *s, struct pool *p, enum side side, const char *id);
/* After the fields are filled: starts the boot. */
void inst_start(struct inst *i);
struct inst *inst_find(const struct sim *s, const char *id);
void inst_tag_set(struct inst_tag **tags, size_t *n, const char *key, const char *value);
void inst_tag_unset(struct inst_tag **tags, size_t *n, const char *key, const char *value);
const char *inst_tag(const struct inst *i, const char *key);
/* Ends it: shutting down, then gone. No-op when already ending. */
void inst_end(struct inst *i, const char *ended_by, const char *code, const char *message);
/* Reclaims in two stages. The rebalance recommendation comes now, the notice after
 * rebalance_before_us (0 = at once). The end comes notice_us after the notice; 0 = at once and
 * without any notice. */
void inst_reclaim(struct inst *i, int64_t notice_us, int64_t rebalance_before_us, bool by_price);
/* Its system has switched itself off: the effect depends on the cloud. No-op unless it runs. */
void inst_guest_off(struct inst *i);
/* Stopped by its owner: its program ends, the bill halts, its place in the pool is free. */
void inst_stop(struct inst *i);
/* Boots again; the caller has seen to it that the pool has room. Its user data does not run
 * again. */
void inst_restart(struct inst *i);
/* One that is gone but still known by its name counts as stopped since. */
void inst_revive(struct inst *i);
/* Returns the effect of an interruption: "terminate", "stop", "hibernate". */
const char *inst_interruption(const struct inst *i);
void inst_sir_set(struct inst *i, const char *state, const char *code, const char *message);
const char *inst_state_name(const struct inst *i); /* control API's word */
/* Still shown in lists: not yet forgotten (an hour of replay time after the end). */
bool inst_listed(const struct inst *i);
bool inst_visible(const struct inst *i); /* listed, and old enough for the lists to show it */
json_t *inst_json(const struct inst *i);
/* The request that pretends is answered: its new instances vanish (event "unmade" to its cloud, in
 * no book), its ended ones go on. */
void insts_pretended(struct sim *s);
void inst_quit_all(struct sim *s); /* on the way out: end everything that runs */
void insts_free(struct sim *s);

/* agent_proc.c */
void agent_start(struct inst *i);
void agent_kill(struct inst *i); /* whole process tree; the child watcher tells the end */
/* power off and on: the tree dies, then the user data runs again */
void agent_reboot(struct inst *i);
int agent_init_main(int argc, char **argv); /* the tree's ancestor: cloudsim instance-init ... */
void agent_kill_tree(void); /* in such an ancestor: all that is below it */
int pod_init_main(int argc, char **argv); /* k8s_init.c: cloudsim pod-init ... */

/* imds.c */
void imds_open(struct inst *i); /* own port for an instance with a program */
void imds_close(struct inst *i);

#endif
