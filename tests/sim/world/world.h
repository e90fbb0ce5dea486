/*
 * The simulated world: one process, one thread, one loop on a virtual clock. The linker replaces
 * the layers that the product talks to. These are the loop's waiter (time.c), HTTP client and
 * server (net*.c), the connections to Postgres (store.c), and the agent's processes and its HTTP
 * client (host*.c). All above that is the product itself.
 *
 * Everything that happens is one line of the trace; the same seed gives the same trace, byte for
 * byte.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/base.h"
#include "base/text/text.h"
#include "io/loop/loop.h"

#define SIM_INSTALL "cafe0001"
#define SIM_T0 (INT64_C(1793491200) * SPOT_US_PER_S) /* 2026-11-01: where every seed begins */

/* Chances, in parts per million of the messages or steps that each is about. */
#define FAULT_LIST(X) \
	X(net_lost) /* a request never arrives; the sender's deadline ends it */ \
	X(net_reset) /* the connection breaks before the request arrived */ \
	X(net_reply_lost) /* it was served, the connection breaks before the reply */ \
	X(net_twice) /* it is served twice */ \
	X(launch_twice) /* the same for a launch at Lambda, which has no launch tokens */ \
	X(net_slow) /* it takes seconds */ \
	X(db_lost_before) /* the connection breaks before the statement ran */ \
	X(db_lost_after) /* it breaks after the statement was committed */ \
	X(db_slow) /* a statement takes seconds */ \
	/* the connection breaks within a COPY: in its rows, before or after its commit */ \
	X(copy_lost) \
	X(crash) /* a daemon dies (asked after each of its turns) */ \
	X(part) /* an instance is cut off from the daemon (asked each minute) */ \
	X(reclaim) /* the cloud takes an instance back with its notice (each minute) */ \
	X(kill) /* an instance ends without a word (each minute) */ \
	X(stock) /* a pool runs dry or has room again (each minute) */ \
	X(price) /* a price jumps (each minute) */ \
	X(zombie) /* a machine that its cloud has ended goes on for minutes */ \
	X(lie) /* the cloud's API misbehaves for a while (each minute) */ \
	X(absent) /* one list lacks an instance (asked for each list) */ \
	X(cut_commit) /* an instance is cut off as it sends the commit of a checkpoint */ \
	X(rival) /* there are two daemons (asked once) */ \
	/* a daemon stops for seconds to minutes and goes on (asked after each of its turns) */ \
	X(pause) \
	X(pause_claim) /* it does so when the claim of a launch has just run */ \
	/* a daemon's wall clock jumps by seconds and back after minutes (asked each minute) */ \
	X(clock) \
	X(clock_far) /* by up to hours */ \
	X(agent_clock) /* the same on a machine (each minute) */ \
	X(reboot) /* a machine starts again (each minute) */ \
	X(drought) /* a cloud has no spot left for minutes (each minute) */ \
	/* a feed of prices answers nothing, or prices that cannot be (each minute) */ \
	X(silent_feed) \
	X(cluster) /* a Kubernetes cluster misbehaves for a while (each minute) */ \
	X(pod) /* something happens to a Pod or its node (each minute) */ \
	X(stream_cut) /* a stream of lines breaks (asked as its lines leave) */ \
	X(act_lost) /* a launch or a terminate is lost, or its reply (small worlds) */ \
	X(lag) /* lists lag behind launches for a while (each minute; small worlds) */ \
	/* the database answers with errors for a while (each minute; small worlds) */ \
	X(db_refuse) \
	X(unheard_end) /* a launch's machine ends as its outcome is written down as unknown */ \
	/* EC2 plans an end or a restart of a machine, or both (each minute; one seed in 64, \
	 * small worlds) */ \
	X(planned) \
	X(flip) /* a bit of an object changes on its way to the store (small worlds) */ \
	/* one list of Lambda lacks an instance that is being ended (asked for each list) */ \
	X(absent_end) \
	X(gang_kill) /* an instance of a gang that runs ends without a word (each minute) */ \
	/* a daemon's wall clock jumps ahead by a quarter of an hour or more while a machine \
	 * boots (each minute) */ \
	X(clock_boot) \
	/* a cloud answers wrongly to a launch or a terminate, or does not (asked as it leaves) */ \
	X(lie_act) \
	/* EC2 recommends to leave a machine, and takes it later (each minute) */ \
	X(recommend) \
	/* somebody stops an instance: it is there, costs, and does nothing (each minute; every \
	 * eighth seed, small worlds) */ \
	X(halt) \
	/* a proxy answers for Google, or a zone of it is out of reach (each minute; every \
	 * sixteenth seed, small worlds) */ \
	X(front) \
	/* a cloud says that it began or ended a machine and has not (asked as the request \
	 * leaves; every sixteenth seed, small worlds) */ \
	X(pretend) \
	/* an agent dies and starts again (asked after each of its turns; every sixteenth seed, \
	 * small worlds) */ \
	X(agent_crash) \
	/* a feed of prices repeats the prices of when it froze, for minutes (each minute; every \
	 * sixteenth seed, small worlds) */ \
	X(frozen_feed) \
	/* daemons cannot reach a cloud, for minutes (each minute; every sixteenth seed, small \
	 * worlds) */ \
	X(far) \
	/* an object store refuses an agent's request (asked for each request; every sixteenth \
	 * seed, small worlds) */ \
	X(store_refuse) \
	/* the price of a gathering gang's pool rises tenfold, and one of its instances ends \
	 * (each minute; one seed in 64) */ \
	X(gang_dear) \
	X(set_lost) /* the reply to the launch of a set is lost (large crews) */ \
	/* spot goes and comes back, and prices rise and fall (each minute; moving fleets) */ \
	X(swing)
#define FAULTS_MAX 64
struct faults_mix {
#define X(name) int64_t name;
	FAULT_LIST(X)
#undef X
};

struct world_conf {
	uint64_t seed;
	int64_t minutes; /* in which things go wrong; then it is calm until all has settled */
	bool small; /* a world of its own kind (mix.h), with so many jobs */
	int64_t jobs;
	struct faults_mix mix;
	bool trace; /* print each line as it happens */
	bool prove, gates_off;
	const char *trap; /* --trap: this seed's call at its calm */
	const char *dsn, *dir;
};

struct world {
	struct world_conf conf;
	struct clock_manual clock;
	struct loop *loop;
	struct rng rng; /* of the product: tokens, jitter */
	struct rng dice; /* of the world: latencies, faults, workload */
	bool quiet; /* no new faults: things may settle */
	int64_t quiet_us; /* since then */
	int64_t skew_ahead, skew_behind; /* so far a daemon's clock was off in this seed */
	int64_t skew_max; /* so far apart two times may be that daemons wrote in one moment */
	bool stood; /* a daemon stood still for a while */
	/* the last fault may be felt until then; nothing of the market counts */
	int64_t harm_until;
	/* a machine was taken or cut off, or a cloud lies: it may not be known before */
	int64_t taken_until;
	int64_t lines;
	uint64_t hash; /* of the trace */
	int64_t turns, statements, asked, messages, restarts;
	char *failed; /* first broken invariant; NULL = none */
	bool pause_asked; /* the daemon in its turn pauses after it */
	const char *proving; /* breaks.c: the rule that is to be seen broken */
	bool proven;
};
extern struct world world;

/* time.c. world.loop is everybody's but the daemons'; each of these has one of its own, and a clock
 * that may be wrong. */
void world_loop_open(void);
/* One turn of the loop that is due next: time jumps there, never beyond until (then NULL: none had
 * a turn). */
struct loop *world_turn(int64_t until_us);
struct skewed_clock {
	struct clock clock;
	int64_t skew_us; /* of its wall */
};
void skewed_clock_init(struct skewed_clock *c, int64_t skew_us);
struct loop *world_loop_new(const struct clock *clock);
void world_loop_free(struct loop *l);
/* Has no turns until it goes on (SIGSTOP, a sleeping laptop); its messages wait. */
void world_loop_pause(struct loop *l, bool paused);
bool world_loop_paused(const struct loop *l);
/* Seconds, minutes or hours, forward or back. */
int64_t clock_jump_draw(void);
int64_t world_now(void);
double world_s(void); /* seconds since the start */

/* trace.c */
void trace(const char *fmt, ...) PRINTF(1, 2);
void trace_last(int fd); /* its last lines; from a signal's handler, too */
/* Does it happen to this one? Each fault has dice of its own, so that leaving one out leaves the
 * others as they fall. Never while quiet. */
#define DICE(name) dice(offsetof(struct faults_mix, name) / sizeof(int64_t), world.conf.mix.name)
bool dice(size_t fault, int64_t ppm);
void dice_seed(uint64_t seed);
int64_t dice_us(int64_t from, int64_t to);
void fault_seen(const char *name); /* counts; printed at the end */
/* States that a batch must reach: reached in this seed. */
void sometimes(const char *name);
void proven(const char *name); /* a rule was seen to fail */
void always(bool ok, const char *name, const char *fmt, ...) PRINTF(3, 4);
/* "sometimes" and faults of this seed, for the batch */
void seen_write(int fd);

#endif
