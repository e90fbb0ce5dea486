/*
 * The loop's turns. The timers are our own heap on the injected clock, with microseconds, so that a
 * test can move time. The waiter is loop_ev.c. Running out of memory aborts; nothing else here
 * fails.
 */
#include "base/base.h"
#include "io/loop/loop_priv.h"

struct timer_priv {
	int64_t due; /* mono */
	uint64_t seq; /* order of arming, which breaks ties */
	size_t at; /* index in the heap */
};
_Static_assert(sizeof(struct timer_priv) <= sizeof(((struct loop_timer *)0)->priv), "loop_timer");

void loop_clock_update(struct loop *l)
{
	l->wall = l->clock->wall_us(l->clock);
	l->mono = MAX(l->mono, l->clock->mono_us(l->clock));
}

struct loop *loop_new(const struct clock *clock, struct rng *rng)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		abort();
	}
	l->clock = clock != NULL ? clock : &clock_real;
	l->rng = rng;
	l->hooks_end = &l->hooks;
	l->tasks.next = l->tasks.prev = &l->tasks;
	l->waiter = loop_waiter_new(l);
	loop_clock_update(l);
	return l;
}

/* Frees the buried objects, and those that they bury meanwhile. */
static void graves_free(struct loop *l)
{
	for (size_t i = 0; i < l->graves_n; i++) {
		struct grave g = l->graves[i];

		g.free_fn(g.p);
	}
	l->graves_n = 0;
}

void loop_free(struct loop *l)
{
	if (l == NULL) {
		return;
	}
	graves_free(l);
	loop_waiter_free(l->waiter);
	free(l->graves);
	free(l->heap);
	free(l);
}

int64_t loop_wall_us(const struct loop *l)
{
	return l->wall;
}

int64_t loop_mono_us(const struct loop *l)
{
	return l->mono;
}

struct rng *loop_rng(struct loop *l)
{
	return l->rng;
}

void loop_quit(struct loop *l)
{
	l->quit = true;
	l->wake = true;
}

void loop_wake(struct loop *l)
{
	l->wake = true;
}

/* ---- timers ---------------------------------------------------------------------------------- */

static struct timer_priv *timer_priv(struct loop_timer *t)
{
	return (struct timer_priv *)(void *)t->priv;
}

static bool timer_before(struct loop_timer *a, struct loop_timer *b)
{
	const struct timer_priv *x = timer_priv(a), *y = timer_priv(b);

	return x->due != y->due ? x->due < y->due : x->seq < y->seq;
}

static void heap_put(struct loop *l, size_t at, struct loop_timer *t)
{
	l->heap[at] = t;
	timer_priv(t)->at = at;
}

static void heap_up(struct loop *l, size_t at, struct loop_timer *t)
{
	while (at > 0 && timer_before(t, l->heap[(at - 1) / 2])) {
		heap_put(l, at, l->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_put(l, at, t);
}

static void heap_down(struct loop *l, size_t at, struct loop_timer *t)
{
	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= l->heap_n) {
			break;
		}
		if (child + 1 < l->heap_n && timer_before(l->heap[child + 1], l->heap[child])) {
			child++;
		}
		if (!timer_before(l->heap[child], t)) {
			break;
		}
		heap_put(l, at, l->heap[child]);
		at = child;
	}
	heap_put(l, at, t);
}

void loop_timer_init(struct loop_timer *t, struct loop *l, void (*fire)(struct loop_timer *))
{
	memset(t, 0, sizeof(*t));
	t->loop = l;
	t->fire = fire;
}

void loop_timer_stop(struct loop_timer *t)
{
	struct loop *l = t->loop;

	if (!t->armed) {
		return;
	}
	t->armed = false;
	size_t at = timer_priv(t)->at;
	struct loop_timer *last = l->heap[--l->heap_n];
	if (last == t) {
		return;
	}
	if (at > 0 && timer_before(last, l->heap[(at - 1) / 2])) {
		heap_up(l, at, last);
	} else {
		heap_down(l, at, last);
	}
}

void loop_timer_set(struct loop_timer *t, int64_t after_us)
{
	struct loop *l = t->loop;

	loop_timer_stop(t);
	if (l->heap_n == l->heap_cap) {
		l->heap_cap = MAX(l->heap_cap * 2, (size_t)64);
		l->heap = reallocarray(l->heap, l->heap_cap, sizeof(struct loop_timer *));
		if (l->heap == NULL) {
			abort();
		}
	}
	struct timer_priv *p = timer_priv(t);
	if (__builtin_add_overflow(l->mono, MAX(after_us, INT64_C(0)), &p->due)) {
		p->due = INT64_MAX;
	}
	p->seq = l->timer_seq++;
	t->armed = true;
	l->heap_n++;
	heap_up(l, l->heap_n - 1, t);
}

/* Fires the due timers. Those armed meanwhile wait for the next turn, so that a timer of 0 does not
 * hold the loop. */
static void timers_fire(struct loop *l)
{
	uint64_t limit = l->timer_seq;

	while (l->heap_n > 0) {
		struct loop_timer *t = l->heap[0];

		if (timer_priv(t)->due > l->mono || timer_priv(t)->seq >= limit) {
			return;
		}
		loop_timer_stop(t);
		t->fire(t);
	}
}

/* ---- hooks, tasks, graves -------------------------------------------------------------------- */

void loop_hook_add(struct loop *l, struct loop_hook *h)
{
	h->next = NULL;
	*l->hooks_end = h;
	l->hooks_end = &h->next;
}

void loop_hook_remove(struct loop *l, struct loop_hook *h)
{
	for (struct loop_hook **p = &l->hooks; *p != NULL; p = &(*p)->next) {
		if (*p == h) {
			*p = h->next;
			if (l->hooks_end == &h->next) {
				l->hooks_end = p;
			}
			return;
		}
	}
}

static void task_link(struct loop_task *ring, struct loop_task *t)
{
	t->prev = ring->prev;
	t->next = ring;
	ring->prev->next = t;
	ring->prev = t;
}

static void task_unlink(struct loop_task *t)
{
	t->prev->next = t->next;
	t->next->prev = t->prev;
	t->next = t->prev = NULL;
	t->queued = false;
}

void loop_defer(struct loop *l, struct loop_task *t, void (*run)(struct loop_task *))
{
	t->run = run;
	if (t->queued) {
		return;
	}
	t->queued = true;
	task_link(&l->tasks, t);
}

void loop_defer_cancel(struct loop *l UNUSED, struct loop_task *t)
{
	if (t->queued) {
		task_unlink(t);
	}
}

/* Runs the queued tasks. A task that a task defers runs in the next turn, so that a chain of ready
 * results does not starve events. */
static void tasks_deliver(struct loop *l)
{
	struct loop_task now = { .next = &now, .prev = &now };

	if (l->tasks.next == &l->tasks) {
		return;
	}
	now = l->tasks;
	now.next->prev = &now;
	now.prev->next = &now;
	l->tasks.next = l->tasks.prev = &l->tasks;
	while (now.next != &now) {
		struct loop_task *t = now.next;

		task_unlink(t);
		t->run(t);
	}
}

void loop_bury(struct loop *l, void *p, void (*free_fn)(void *))
{
	if (l->graves_n == l->graves_cap) {
		l->graves_cap = MAX(l->graves_cap * 2, (size_t)32);
		l->graves = reallocarray(l->graves, l->graves_cap, sizeof(*l->graves));
		if (l->graves == NULL) {
			abort();
		}
	}
	l->graves[l->graves_n++] = (struct grave){ p, free_fn };
}

/* ---- the turn -------------------------------------------------------------------------------- */

int64_t loop_due_in(struct loop *l)
{
	loop_clock_update(l);
	if (l->wake || l->tasks.next != &l->tasks) {
		return 0;
	}
	return l->heap_n == 0 ? -1 : MAX(timer_priv(l->heap[0])->due - l->mono, INT64_C(0));
}

static void wait_for_events(struct loop *l, int64_t wait_us_max)
{
	int64_t wait_us = loop_due_in(l);

	if (wait_us < 0 || (wait_us_max >= 0 && wait_us_max < wait_us)) {
		wait_us = wait_us_max;
	}
	if (wait_us == 0) {
		l->wake = false;
	}
	loop_waiter_wait(l, wait_us);
	loop_clock_update(l);
}

bool loop_turn(struct loop *l, int64_t wait_us_max)
{
	wait_for_events(l, wait_us_max);
	timers_fire(l);
	for (struct loop_hook *h = l->hooks; h != NULL; h = h->next) {
		h->decide(h);
	}
	tasks_deliver(l);
	graves_free(l);
	return !l->quit;
}

void loop_run(struct loop *l)
{
	l->quit = false;
	while (loop_turn(l, -1)) {
		continue;
	}
}
