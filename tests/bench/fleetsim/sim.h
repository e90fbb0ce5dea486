/*
 * A fleet of jobs run through the world by one policy (a "brain"). The simulator owns the physics.
 * It accepts launches while the pool has capacity. Nodes boot; jobs restore, work, save and lose
 * their unsaved work; pools that shrink reclaim nodes. Every node is paid from the accepted launch
 * to its end at the price of the minute. The brain owns every choice. Time goes in steps of a
 * minute; ends of jobs are exact. A job tries one launch a step under every brain: an answer takes
 * that long.
 */
#ifndef FLEETSIM_SIM_H
#define FLEETSIM_SIM_H

#include "world.h"

struct arena;
struct fs_sim;

#define FS_NO_TASK SIZE_MAX

struct fs_piece { /* a job at work on a node, without a break */
	size_t task;
	int64_t node, from_us, to_us, kept_us, lost_us;
};

/* running from the accepted launch on */
enum fs_state { FS_ABSENT = 0, FS_QUEUED, FS_RUNNING, FS_DONE };

struct fs_node {
	size_t task; /* FS_NO_TASK: a fleet's node without work */
	int32_t pool; /* index into the world's pools */
	int64_t launched_us, ready_us, ended_us; /* ended_us 0: alive */
	bool reclaimed;
};

struct fs_task {
	const struct fs_job *job;
	enum fs_state state;
	int64_t durable_us; /* work that no reclaim can take */
	int64_t run_from_us; /* work began or begins here */
	int64_t interval_us; /* of saves; 0 = never */
	/* indexes; -1 none. next: the replacement that was launched before leaving */
	int64_t node, next;
	int64_t queued_us, tried_us, finish_us, last_move_us, probed_us;
	int32_t probes_refused, last_pool; /* last_pool: of the node it had; -1 none yet */
	bool has_checkpoint;
	/* its history */
	int32_t reclaims, moves, refused, starts;
	int64_t lost_us, wait_us, egress_micros, saves;
};

struct fs_brain {
	const char *name;
	bool hears_notice;
	int64_t interval_us; /* of saves where interval() is NULL; 0 = never */
	void *(*init)(struct fs_sim *s, const void *arg);
	void (*end)(void *self); /* NULL: nothing to give back */
	void (*step)(struct fs_sim *s, void *self, int64_t t);
	int64_t (*interval)(struct fs_sim *s, void *self, const struct fs_task *k, int32_t pool);
	/* NULL: not interested */
	void (*reclaimed)(struct fs_sim *s, void *self, const struct fs_node *n, int64_t t);
	const void *arg;
};

struct fs_sim {
	const struct fs_world *w;
	const struct fs_brain *brain;
	void *self;
	struct arena *arena;
	struct fs_task *tasks;
	struct fs_node *nodes;
	struct fs_piece *pieces;
	size_t nodes_n, nodes_cap, pieces_n, pieces_cap, done_n, first_alive;
	int32_t live[FS_POOLS_MAX];
	int64_t t;
};

struct fs_result {
	int64_t dollars_micros, node_micros, egress_micros, spot_micros;
	double work_h, lost_h, wait_h, node_h;
	double short_h; /* of a fleet: node-hours below its wanted size */
	int64_t reclaims, moves, refused, starts, deadlines, misses, late_us, unfinished;
	/* time from submission to the end, as a multiple of the work */
	double slow_p50, slow_p95;
	double turn_p50_h, turn_p95_h;
};

/* Runs until every job is done, or the horizon. Arena: everything of the run. */
void fs_run(struct arena *a, const struct fs_world *w, const struct fs_brain *b, int64_t horizon_us,
    struct fs_sim *ret);
void fs_result(struct arena *a, const struct fs_sim *s, struct fs_result *ret);
int64_t fs_node_cost(const struct fs_world *w, const struct fs_node *n, int64_t until_us);

/* Launches a node, in a brain's step. replaces: the job stays on its node until it moves. False:
 * refused. */
bool fs_launch(struct fs_sim *s, size_t task, int32_t pool, bool replaces);
/* To the ready replacement. */
void fs_move(struct fs_sim *s, size_t task);
/* Saves, gives its node back and waits. */
void fs_park(struct fs_sim *s, size_t task);
int64_t fs_done_us(const struct fs_task *k, int64_t t); /* progress at t, saved or not */
int64_t fs_saved_us(const struct fs_task *k, int64_t t);

/* ---- steps of the physics, which fleets/held.c shares ---- */

/* Adds a node that was accepted now. Returns its index. */
int64_t fs_node_add(struct fs_sim *s, size_t task, int32_t pool);
void fs_node_end(struct fs_sim *s, int64_t node, int64_t at_us, bool reclaimed);
/* Begins the task on a node that is ready or will be. */
void fs_start(struct fs_sim *s, struct fs_task *k, int64_t node, int64_t t);
/* Books the piece of work that ends at t. saved: its last state was written, whatever the
 * interval. */
void fs_settle(struct fs_sim *s, struct fs_task *k, int64_t t, bool saved);
int64_t fs_finish_at(const struct fs_task *k);
/* Returns whether a notice at a reclaim now saves the task's work. */
bool fs_notice_saves(const struct fs_sim *s, const struct fs_task *k, const struct fs_pool *p,
    int64_t t);

#endif
