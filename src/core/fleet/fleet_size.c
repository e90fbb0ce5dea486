/* The size of a fleet: see fleet_size.h for the rules. */
#include "base/base.h"
#include "core/fleet/fleet_plan.h"
#include "core/fleet/fleet_size.h"

#define MILLI 1000
#define IN_SHARE 10 /* a tenth of the nodes goes back at once */

static int32_t clamp(int64_t v, int32_t least, int32_t most)
{
	return (int32_t)MIN(MAX(v, least), most);
}

static int64_t units_up(int64_t milli)
{
	return (milli + MILLI - 1) / MILLI;
}

static const char *unit_name(const struct fleet_scaling *s, int64_t n)
{
	return s->by_gpus ? n == 1 ? "GPU" : "GPUs" : n == 1 ? "node" : "nodes";
}

static void next_take(struct fleet_size *f, int64_t now_us, int64_t at_us)
{
	if (at_us > now_us && (f->next_us == 0 || at_us < f->next_us)) {
		f->next_us = at_us;
	}
}

int64_t fleet_expiry_us(const struct fleet_scaling *s, int64_t created_us)
{
	return s->expires_us != 0      ? s->expires_us
	    : s->expires_after_us != 0 ? created_us + s->expires_after_us
				       : 0;
}

static void nodes_count(const struct fleet_size_in *in, struct fleet_size *f)
{
	for (size_t i = 0; i < in->nodes_n; i++) {
		const struct fleet_size_node *n = &in->nodes[i];

		*(n->used          ? &f->used_milli
			: n->ready ? &f->idle_milli
				   : &f->coming_milli) += n->milli;
	}
}

/* ---- the need -------------------------------------------------------------------------------- */

/* Terms of the need in words, and the one that decides. */
struct need {
	int64_t queue_milli; /* 0 until the oldest job waits for long enough */
	const struct fleet_demand *demand; /* the largest */
	int64_t units; /* before min and max */
	const char *rule;
};

static void queue_need(const struct fleet_size_in *in, struct fleet_size *f, struct need *n)
{
	int64_t due = in->queue_oldest_us + in->scaling->wait_us;

	if (in->queue_jobs == 0) {
		return;
	}
	if (in->now_us >= due) {
		n->queue_milli = in->queue_milli;
	} else {
		next_take(f, in->now_us, due);
	}
}

static void need_find(const struct fleet_size_in *in, struct fleet_size *f, struct need *n)
{
	const struct fleet_scaling *s = in->scaling;
	int64_t work, asked = 0;

	*n = (struct need){ 0 };
	queue_need(in, f, n);
	for (size_t i = 0; i < in->demands_n; i++) {
		const struct fleet_demand *d = &in->demands[i];

		if (d->there && (d->until_us == 0 || d->until_us > in->now_us)) {
			next_take(f, in->now_us, d->until_us);
			if (n->demand == NULL || d->units > n->demand->units) {
				n->demand = d;
			}
		}
	}
	asked = n->demand != NULL ? n->demand->units : 0;
	work = units_up(f->used_milli + n->queue_milli);
	n->units = MAX(work, asked) + s->headroom;
	f->need = clamp(n->units, s->min, s->max);
	n->rule = n->units < s->min ? "min"
	    : asked > work          ? "demand"
	    : n->queue_milli > 0    ? "queue"
	    : s->headroom > 0       ? "headroom"
				    : "steady";
}

static const char *need_words(struct arena *a, const struct fleet_size_in *in,
    const struct fleet_size *f, const struct need *n)
{
	const struct fleet_scaling *s = in->scaling;
	int64_t used = units_up(f->used_milli);
	const char *w = arena_printf(a, "%" PRId64 " %s with work", used, unit_name(s, used));

	if (n->queue_milli > 0) {
		w = arena_printf(a,
		    "%s, %" PRId64 " %s in the queue since %" PRId64 " s want %" PRId64, w,
		    in->queue_jobs, in->queue_jobs == 1 ? "job" : "jobs",
		    (in->now_us - in->queue_oldest_us) / SPOT_US_PER_S, units_up(in->queue_milli));
	}
	for (size_t i = 0; i < in->demands_n; i++) {
		const struct fleet_demand *d = &in->demands[i];

		if (d->words != NULL && (d == n->demand || !d->there)) {
			w = arena_printf(a, "%s, %s", w, d->words);
		}
	}
	if (s->headroom > 0) {
		w = arena_printf(a, "%s, headroom %d", w, (int)s->headroom);
	}
	if (n->units < s->min) {
		w = arena_printf(a, "%s, at least min %d", w, (int)s->min);
	}
	if (n->units > s->max) {
		w = arena_printf(a, "%s: %" PRId64 " wanted, at most max %d", w, n->units,
		    (int)s->max);
	}
	return w;
}

/* ---- up and down ----------------------------------------------------------------------------- */

static int32_t size_out(const struct fleet_size_in *in, struct fleet_size *f, int32_t was)
{
	const struct fleet_scaling *s = in->scaling;
	int64_t again = in->size_us + s->wait_us;

	if (s->step == 0 || f->need - was <= s->step) {
		return f->need;
	}
	if (in->sized && in->open && in->now_us < again) {
		next_take(f, in->now_us, again);
		return was;
	}
	next_take(f, in->now_us, in->now_us + MAX(s->wait_us, SPOT_US_PER_S));
	return was + s->step;
}

struct leaver {
	size_t at;
	int rank; /* not launched, idle, on its way */
	int64_t since_us;
};

static int leaver_compare(const void *pa, const void *pb)
{
	const struct leaver *a = pa, *b = pb;

	if (a->rank != b->rank) {
		return a->rank - b->rank;
	}
	if (a->since_us != b->since_us) {
		return a->since_us < b->since_us ? -1 : 1;
	}
	return a->at < b->at ? -1 : 1;
}

size_t fleet_give_order(struct arena *a, const struct fleet_size_node *nodes, size_t n,
    size_t **ret)
{
	struct leaver *list = arena_array(a, n + 1, sizeof(*list));
	size_t *order = arena_array(a, n + 1, sizeof(*order)), k = 0;

	for (size_t i = 0; i < n; i++) {
		const struct fleet_size_node *x = &nodes[i];

		if (!x->used) {
			list[k++] = (struct leaver){ .at = i,
				.rank = x->unsent ? 0
				    : x->ready    ? 1
						  : 2,
				.since_us = x->ready ? x->idle_since_us : 0 };
		}
	}
	qsort(list, k, sizeof(*list), leaver_compare);
	for (size_t i = 0; i < k; i++) {
		order[i] = list[i].at;
	}
	*ret = order;
	return k;
}

size_t fleet_give_idle(struct arena *a, const struct fleet_size_node *nodes, size_t n, int32_t size,
    int64_t floor_spare, size_t **ret)
{
	size_t *order, all = fleet_give_order(a, nodes, n, &order), k = 0;
	int64_t left = -(int64_t)size * MILLI;

	for (size_t i = 0; i < n; i++) {
		left += nodes[i].milli;
	}
	for (size_t i = 0; i < all; i++) {
		const struct fleet_size_node *x = &nodes[order[i]];

		if (x->milli <= left && x->floor <= floor_spare) {
			left -= x->milli;
			floor_spare -= x->floor;
			order[k++] = order[i];
		}
	}
	*ret = order;
	return k;
}

/* Thousandths that may go back now. */
static int64_t leaving_find(struct arena *a, const struct fleet_size_in *in, struct fleet_size *f)
{
	size_t *order, n = fleet_give_order(a, in->nodes, in->nodes_n, &order);
	size_t most = MAX(in->nodes_n / IN_SHARE, (size_t)1), taken = 0;
	int64_t milli = 0;

	for (size_t i = 0; i < n; i++) {
		const struct fleet_size_node *x = &in->nodes[order[i]];
		int64_t due = x->idle_since_us + in->scaling->idle_us;

		if (!x->unsent && !x->ready) {
			break;
		}
		if (!x->unsent && in->now_us < due) {
			next_take(f, in->now_us, due);
			break;
		}
		if (!x->unsent && taken++ == most) {
			next_take(f, in->now_us, in->now_us + FLEET_SIZE_PACE_US);
			break;
		}
		milli += x->milli;
	}
	return milli;
}

static int32_t size_in(struct arena *a, const struct fleet_size_in *in, struct fleet_size *f,
    int32_t was)
{
	int64_t live = f->used_milli + f->idle_milli + f->coming_milli, due, leaves;

	if (f->slack_us == 0) {
		f->slack_us = in->now_us;
	}
	due = f->slack_us + in->scaling->cooldown_us;
	if (in->now_us < due) {
		next_take(f, in->now_us, due);
		return was;
	}
	/* Nodes beyond the size are given back already: they count once. A node may be no whole
	 * number of units, and it goes only once the size is below all others. */
	leaves = leaving_find(a, in, f);
	return (int32_t)MAX(f->need, MIN(was, (live - leaves) / MILLI));
}

/* ---- the decision ---------------------------------------------------------------------------- */

/* The size before this decision, inside of a window. */
static int32_t size_before(const struct fleet_size_in *in, struct fleet_size *f)
{
	const struct fleet_scaling *s = in->scaling;
	int32_t was = clamp(in->size, s->min, s->max);

	if (in->sized && in->open) {
		return was;
	}
	f->rule = in->sized ? "schedule" : "first";
	return in->sized ? MAX(was, s->target) : s->target;
}

static void size_closed(struct arena *a, const struct fleet_size_in *in, struct fleet_size *f,
    const char *rule, const char *words)
{
	int64_t used = units_up(f->used_milli);

	f->rule = rule;
	f->why = used == 0 ? words
			   : arena_printf(a, "%s; %" PRId64 " %s with work until the jobs end",
				 words, used, unit_name(in->scaling, used));
}

static void size_decide(struct arena *a, const struct fleet_size_in *in, struct fleet_size *f)
{
	const struct fleet_scaling *s = in->scaling;
	struct need n;
	int32_t was;

	need_find(in, f, &n);
	was = size_before(in, f);
	if (f->need >= was) {
		f->slack_us = 0;
		f->size = f->need > was ? size_out(in, f, was) : was;
	} else {
		f->slack_us = in->slack_us;
		f->size = size_in(a, in, f, was);
	}
	f->rule = f->size > was || f->rule == NULL ? n.rule : f->rule;
	f->why = need_words(a, in, f, &n);
	if (f->size < was) {
		f->rule = "idle";
		f->why =
		    arena_printf(a, "%s: %d of %d go back, idle or not needed for %" PRId64 " s",
			f->why, (int)(was - f->size), (int)was,
			MIN(s->cooldown_us, s->idle_us) / SPOT_US_PER_S);
	} else if (f->size > f->need) {
		f->rule = strcmp(f->rule, "first") == 0 || strcmp(f->rule, "schedule") == 0
		    ? f->rule
		    : "idle";
		f->why = arena_printf(a, "%s: %d needed, %d kept until idle for %" PRId64 " s",
		    f->why, (int)f->need, (int)f->size, s->idle_us / SPOT_US_PER_S);
	}
}

void fleet_size_decide(struct arena *a, const struct fleet_size_in *in, struct fleet_size *ret)
{
	const struct fleet_scaling *s = in->scaling;
	struct fleet_hours hours = fleet_hours_at(s, in->zones, in->now_us);
	int64_t expires = fleet_expiry_us(in->scaling, in->created_us);

	*ret = (struct fleet_size){ .open = hours.open };
	nodes_count(in, ret);
	if (expires != 0 && in->now_us >= expires) {
		ret->close = true;
		size_closed(a, in, ret, "expired", "the fleet has expired");
		return;
	}
	next_take(ret, in->now_us, expires);
	next_take(ret, in->now_us, hours.edge_us);
	if (!hours.open) {
		size_closed(a, in, ret, "schedule", "0 outside of the schedule");
		return;
	}
	size_decide(a, in, ret);
}
