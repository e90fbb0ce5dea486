/*
 * Instances of all clouds: one record for the whole life, kept for the books after the end.
 */
#ifndef EMULATOR_INSTANCE_H
#define EMULATOR_INSTANCE_H

#include "cloudsim/sim/market.h"

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
	/* what it is again when the request that pretends to end it is answered; NONE = no such
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
	/* what was asked */
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
	void *own; /* the cloud's (clouds.h) */
	/* Times that it ran before it was stopped and started again; both ends of a current one are
	 * above. */
	struct inst_span {
		int64_t from_us, to_us;
	} *spans;
	size_t spans_n;
	/* AWS: what interrupts do, the root volume, DisableApiTermination */
	char *behaviour;
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
/* Two stages: rebalance recommendation now and notice after rebalance_before_us (0 = notice at
 * once), then the end notice_us after the notice; 0 = at once and without any notice. */
void inst_reclaim(struct inst *i, int64_t notice_us, int64_t rebalance_before_us, bool by_price);
/* Its system has switched itself off: what that is depends on the cloud. No-op unless it runs. */
void inst_guest_off(struct inst *i);
/* Stopped by its owner: its program ends, the bill halts, its place in the pool is free. */
void inst_stop(struct inst *i);
/* Boots again; the caller has seen to it that the pool has room. Its user data does not run
 * again. */
void inst_restart(struct inst *i);
/* One that is gone but still known by its name counts as stopped since. */
void inst_revive(struct inst *i);
/* What an interruption does to it: "terminate", "stop", "hibernate". */
const char *inst_interruption(const struct inst *i);
void inst_sir_set(struct inst *i, const char *state, const char *code, const char *message);
const char *inst_state_name(const struct inst *i); /* control API's word */
/* Still shown in lists: not yet forgotten (an hour of replay time after the end). */
bool inst_listed(const struct inst *i);
bool inst_visible(const struct inst *i); /* listed, and old enough for the lists to show it */
json_t *inst_json(const struct inst *i);
/* The request that pretends is answered: what it made never was (event "unmade" to its cloud, in no
 * book), what it ended goes on. */
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
