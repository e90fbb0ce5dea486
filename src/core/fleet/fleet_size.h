/*
 * Decides how large a fleet is: by its queue, by demand from outside, by the clock and by idle
 * nodes. Pure: the row, the nodes, the queue and the time in; the size with its reason out.
 *
 * With used nodes u, a queue of q and a demand of d the fleet needs
 *
 *     need = max(u + q, d) + headroom, from min to max
 *
 * - q counts once the oldest job of the queue waits for scale.wait, and then counts all of it.
 * - The size rises to need at once, by at most scale.step in each scale.wait.
 * - The size falls only after need stayed below it for scale.cooldown. It falls by nodes that were
 *   not launched yet and by nodes that idle for idle_timeout. They go one after another, a tenth of
 *   all at most in FLEET_SIZE_PACE_US. A working or booting node is never among them.
 * - Outside of the schedule's windows the size is 0, whatever min is. min holds inside of them.
 * - A window opens at target.
 * - After expires the size is 0 and the fleet closes.
 *
 * Bound on launches: between a rise and the next fall lies a cooldown. So the size rises again
 * after a fall at most once in a cooldown. A time T sees at most (1 + T / cooldown) times max units
 * launched, whatever the demand does. The size never exceeds the highest need so far, so the
 * cost never exceeds that of the smallest fixed size that serves all demand.
 */
#ifndef CORE_FLEET_SIZE_H
#define CORE_FLEET_SIZE_H

#include "base/base.h"
#include "base/text/text.h"

struct arena;
struct fleet_spec;
struct yaml;
struct zone;

#define FLEET_SIZE_PACE_US (5 * SPOT_US_PER_S)
#define FLEET_WINDOWS_MAX 32

/* Weekly hours: from `up` on these days until `down`, on the next day where down is not later. */
struct fleet_window {
	uint8_t days; /* bit 0 = Monday; of the opening */
	int32_t up_min, down_min; /* of the local day; down 1 to 1440 */
	const char *tz; /* IANA name */
};
/* A measure of Prometheus that asks for capacity: ceil(value / target) * per units. */
struct fleet_metric {
	const char *url, *query; /* url NULL = none */
	double target;
	int32_t per; /* units */
	int64_t every_us;
	int32_t prewarm; /* units on top while the value grows */
};
/* The part of the fleet file that moves the size. Units are nodes, or GPUs if by_gpus. */
struct fleet_scaling {
	bool by_gpus;
	int32_t min, max, target;
	int64_t idle_us, wait_us, cooldown_us;
	int32_t step; /* units added at once; 0 = no limit */
	int32_t headroom;
	int32_t per; /* units for one replica of a demand */
	int64_t expires_us; /* a time; 0 = see expires_after_us */
	int64_t expires_after_us; /* after the fleet's creation; 0 = never */
	struct fleet_window *windows;
	size_t windows_n;
	struct fleet_metric metric;
};

/* fleet_scaling.c: reads "nodes" or "gpus", "idle_timeout", "headroom", "scale", "expires",
 * "schedule" and "demand" of a fleet file into f->nodes, f->gpus, f->gpus_of and f->scaling. That
 * stays NULL if the size is fixed. Looks up time zones (base/text/zone.h). */
NODISCARD enum spot_rc fleet_scaling_parse(struct arena *a, const struct yaml *doc,
    struct fleet_spec *f, struct spot_err *err);
json_t *fleet_scaling_to_json(const struct fleet_scaling *s);
struct fleet_scaling *fleet_scaling_from_json(struct arena *a, const json_t *j,
    struct spot_err *err);
/* Returns the time at which the fleet expires; 0 = never. */
int64_t fleet_expiry_us(const struct fleet_scaling *s, int64_t created_us);
/* Returns the weight of a node, or of what a job asks for, in thousandths of the fleet's unit. */
int64_t fleet_node_milli(const struct fleet_spec *f, const char *gpu, int64_t gpu_milli);

/* fleet_window.c */
struct fleet_hours {
	bool open;
	int64_t edge_us; /* the next opening or end; 0 = none */
};
/* zones: one for each window. No windows: always open. */
struct fleet_hours fleet_hours_at(const struct fleet_scaling *s, const struct zone *const *zones,
    int64_t now_us);
/* Reads "Mon-Fri 08:00" and "20:00". Returns false if they are no such texts. */
NODISCARD bool fleet_window_read(const char *up, const char *down, struct fleet_window *w);

/* A job that takes any fleet of its team, and one of these fleets that suits it. */
struct fleet_any {
	int64_t job_id, fleet_id;
	int64_t free; /* nodes that are ready without work */
	int64_t grow, weight; /* room to grow, and the job's need; thousandths of its unit */
};
/* Thousandths of GPUs of one kind. */
struct fleet_gpus {
	const char *gpu;
	int64_t milli, idle; /* all; those of ready nodes without work */
};
/* Returns thousandths of gpus_of, as much work as these GPUs do. */
int64_t fleet_gpus_work(const char *gpus_of, const char *gpu, int64_t milli);
/* Returns the room to grow of a fleet whose unit is the work of gpus_of. That is `most` units, less
 * its nodes, less the need of its queue beyond the idle ones. */
int64_t fleet_gpus_grow(const char *gpus_of, int64_t most, const struct fleet_gpus *nodes,
    size_t nodes_n, const struct fleet_gpus *queue, size_t queue_n);
/* Chooses a fleet for each job, the first job first. The list is in the order of the jobs. A fleet
 * with a free node goes first, then the one that may grow most. Moves the choices to the front of
 * the list and returns their number. */
size_t fleet_any_choose(struct arena *a, struct fleet_any *list, size_t n);

struct fleet_size_node {
	bool used; /* has work */
	bool ready; /* else it is on its way */
	bool unsent; /* not launched yet */
	int64_t idle_since_us; /* of one that is ready and not used */
	int64_t milli; /* fleet_node_milli */
	int64_t floor; /* towards the on-demand floor, in its unit */
};
/* Demand from outside; there is false if none holds. */
struct fleet_demand {
	bool there;
	int32_t units;
	int64_t until_us; /* 0 = no end */
	const char *words; /* its source: "demand of 16 GPUs"; also of one that does not hold */
};
/* The answers of a query, as the row has them. */
struct fleet_answer {
	bool there, before_there;
	double value, before; /* the last answer and the one before */
	int64_t at_us; /* of the last one */
	const char *error; /* of the last request; "" = it was answered */
};
/* fleet_metric.c: the demand that a query asks for. A query that fails keeps its last answer for
 * FLEET_METRIC_HOLD intervals. After that nothing is asked for, and the words say so. */
#define FLEET_METRIC_HOLD 10
void fleet_metric_demand(struct arena *a, const struct fleet_metric *m,
    const struct fleet_answer *last, int64_t now_us, struct fleet_demand *ret);
/* Reads the answer of GET /api/v1/query: the value of a scalar, or the sum of a vector's. */
NODISCARD enum spot_rc fleet_metric_read(struct str body, double *ret, struct spot_err *err);
/* Returns whether hosts, "HOST[:PORT]" separated by blanks or commas, name the server of url. */
bool fleet_metric_allowed(const char *hosts, const char *url);

struct fleet_size_in {
	const struct fleet_scaling *scaling;
	const struct zone *const *zones;
	int64_t now_us, created_us;
	/* The fleet's row. sized false: no size was decided yet. slack_us: since when the need is
	 * below the size; 0 = it is not. */
	bool sized, open;
	int32_t size;
	int64_t size_us, slack_us;
	const struct fleet_size_node *nodes;
	size_t nodes_n;
	int64_t queue_milli, queue_jobs, queue_oldest_us;
	const struct fleet_demand *demands;
	size_t demands_n;
};
struct fleet_size {
	int32_t size; /* wanted units */
	int32_t need;
	bool open, close; /* close: the fleet has expired */
	int64_t slack_us;
	int64_t next_us; /* decide again by then; 0 = when something changes */
	const char *rule; /* first, schedule, queue, demand, headroom, min, idle, steady, expired */
	const char *why; /* in words, with numbers */
	/* thousandths */
	int64_t used_milli, coming_milli, idle_milli;
};
void fleet_size_decide(struct arena *a, const struct fleet_size_in *in, struct fleet_size *ret);
/* Sets *ret to the indices of nodes without work, the first to give back first. Those not launched
 * yet come first, then those idle for the longest, then those on their way. Returns the number. */
size_t fleet_give_order(struct arena *a, const struct fleet_size_node *nodes, size_t n,
    size_t **ret);
/* The same for a fleet that has to shrink to size units. It leaves out those without which it would
 * be smaller. floor_spare: what may go of the nodes that count towards the on-demand floor. */
size_t fleet_give_idle(struct arena *a, const struct fleet_size_node *nodes, size_t n, int32_t size,
    int64_t floor_spare, size_t **ret);

#endif
