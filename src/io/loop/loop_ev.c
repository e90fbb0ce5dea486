/*
 * The waiter of the loop: libev for descriptors and signals. It watches children by pidfd, which
 * works in any number of loops. libev's child watcher needs its default loop and SIGCHLD. The
 * mailbox of loop_post() is here too, since its wake-up ends libev's wait.
 */
#include "base/base.h"
#include "io/loop/loop_priv.h"

#include <errno.h>
#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct message {
	void (*fn)(void *ctx);
	void *ctx;
};
struct loop_waiter {
	struct ev_loop *ev;
	ev_timer wait; /* the loop's next timer, or the end of loop_turn's wait */
	ev_async posted;
	pthread_mutex_t lock; /* of the three below */
	struct message *messages;
	size_t messages_n, messages_cap;
};

_Static_assert(sizeof(ev_io) <= sizeof(((struct loop_fd *)0)->priv), "loop_fd");
_Static_assert(sizeof(ev_signal) <= sizeof(((struct loop_signal *)0)->priv), "loop_signal");
_Static_assert(sizeof(ev_io) <= sizeof(((struct loop_child *)0)->priv), "loop_child");

/* Runs after libev's wait: reads the clock first, so that events see the new time. */
static void events_run(struct ev_loop *ev)
{
	loop_clock_update(ev_userdata(ev));
	ev_invoke_pending(ev);
}

static void wait_over(struct ev_loop *ev UNUSED, ev_timer *t UNUSED, int events UNUSED)
{
}

/* ---- messages of other threads --------------------------------------------------------------- */

void loop_post(struct loop *l, void (*fn)(void *ctx), void *ctx)
{
	struct loop_waiter *w = l->waiter;

	pthread_mutex_lock(&w->lock);
	if (w->messages_n == w->messages_cap) {
		w->messages_cap = MAX(w->messages_cap * 2, (size_t)8);
		w->messages = reallocarray(w->messages, w->messages_cap, sizeof(*w->messages));
		if (w->messages == NULL) {
			abort();
		}
	}
	w->messages[w->messages_n++] = (struct message){ .fn = fn, .ctx = ctx };
	pthread_mutex_unlock(&w->lock);
	ev_async_send(w->ev, &w->posted);
}

/* Takes the messages first: a message may post again, which the next turn runs. */
static void messages_run(struct ev_loop *ev UNUSED, ev_async *a, int events UNUSED)
{
	struct loop_waiter *w = container_of(a, struct loop_waiter, posted);
	struct message *now;
	size_t n;

	pthread_mutex_lock(&w->lock);
	now = STEAL(w->messages);
	n = w->messages_n;
	w->messages_n = w->messages_cap = 0;
	pthread_mutex_unlock(&w->lock);
	for (size_t i = 0; i < n; i++) {
		now[i].fn(now[i].ctx);
	}
	free(now);
}

/* ---- life, waiting --------------------------------------------------------------------------- */

struct loop_waiter *loop_waiter_new(struct loop *l)
{
	struct loop_waiter *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		abort();
	}
	/* If a peer has closed, write(2) must fail instead of killing the process. */
	signal(SIGPIPE, SIG_IGN);
	w->ev = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	if (w->ev == NULL) {
		abort();
	}
	ev_set_userdata(w->ev, l);
	ev_set_invoke_pending_cb(w->ev, events_run);
	ev_timer_init(&w->wait, wait_over, 0., 0.);
	pthread_mutex_init(&w->lock, NULL);
	ev_async_init(&w->posted, messages_run);
	ev_async_start(w->ev, &w->posted);
	ev_unref(w->ev); /* alone it is no reason to wait */
	return w;
}

void loop_waiter_free(struct loop_waiter *w)
{
	ev_timer_stop(w->ev, &w->wait);
	ev_ref(w->ev);
	ev_async_stop(w->ev, &w->posted);
	ev_loop_destroy(w->ev);
	pthread_mutex_destroy(&w->lock);
	free(w->messages);
	free(w);
}

void *loop_ev(struct loop *l)
{
	return l->waiter->ev;
}

void loop_waiter_wait(struct loop *l, int64_t wait_us)
{
	struct loop_waiter *w = l->waiter;

	if (wait_us == 0) {
		ev_run(w->ev, EVRUN_NOWAIT);
		return;
	}
	if (wait_us > 0) {
		/* Keep the fraction: rounding to whole seconds would spin below one second. */
		ev_now_update(w->ev);
		ev_timer_set(&w->wait, (double)wait_us / 1e6, 0.);
		ev_timer_start(w->ev, &w->wait);
	} else {
		ev_ref(w->ev); /* makes ev_run wait even without watchers */
	}
	ev_run(w->ev, EVRUN_ONCE);
	if (wait_us > 0) {
		ev_timer_stop(w->ev, &w->wait);
	} else {
		ev_unref(w->ev);
	}
}

/* ---- descriptors, signals, children ---------------------------------------------------------- */

static void fd_event(struct ev_loop *ev UNUSED, ev_io *w, int events)
{
	struct loop_fd *f = w->data;
	int got = 0;

	if ((events & EV_READ) != 0) {
		got |= LOOP_READ;
	}
	if ((events & EV_WRITE) != 0) {
		got |= LOOP_WRITE;
	}
	/* EV_ERROR: libev dropped a descriptor that is not open. Its owner gets the error from its
	 * next use. */
	if (got == 0) {
		got = f->events;
	}
	f->ready(f, got);
}

static ev_io *fd_watcher(struct loop_fd *f)
{
	return (ev_io *)(void *)f->priv;
}

void loop_fd_init(struct loop_fd *f, struct loop *l, void (*ready)(struct loop_fd *, int))
{
	memset(f, 0, sizeof(*f));
	f->loop = l;
	f->ready = ready;
	f->fd = -1;
	ev_init(fd_watcher(f), fd_event);
	fd_watcher(f)->data = f;
}

void loop_fd_set(struct loop_fd *f, int fd, int events)
{
	ev_io *w = fd_watcher(f);

	if (events == 0) {
		loop_fd_stop(f);
		return;
	}
	if (f->armed && f->fd == fd && f->events == events) {
		return;
	}
	loop_fd_stop(f);
	f->fd = fd;
	f->events = events;
	f->armed = true;
	ev_io_set(w, fd,
	    ((events & LOOP_READ) != 0 ? EV_READ : 0) |
		((events & LOOP_WRITE) != 0 ? EV_WRITE : 0));
	ev_io_start(f->loop->waiter->ev, w);
}

void loop_fd_stop(struct loop_fd *f)
{
	if (!f->armed) {
		return;
	}
	ev_io_stop(f->loop->waiter->ev, fd_watcher(f));
	f->armed = false;
	f->events = 0;
}

static void signal_event(struct ev_loop *ev UNUSED, ev_signal *w, int events UNUSED)
{
	struct loop_signal *s = w->data;

	s->got(s);
}

void loop_signal_start(struct loop_signal *s, struct loop *l, int signo,
    void (*got)(struct loop_signal *))
{
	memset(s, 0, sizeof(*s));
	s->loop = l;
	s->got = got;
	s->signo = signo;
	ev_signal *w = (ev_signal *)(void *)s->priv;
	ev_signal_init(w, signal_event, signo);
	w->data = s;
	ev_signal_start(l->waiter->ev, w);
}

void loop_signal_stop(struct loop_signal *s)
{
	if (s->loop == NULL) {
		return;
	}
	ev_signal_stop(s->loop->waiter->ev, (ev_signal *)(void *)s->priv);
	s->loop = NULL;
}

static void child_event(struct ev_loop *ev UNUSED, ev_io *w, int events UNUSED)
{
	struct loop_child *c = w->data;
	int pid = c->pid, status = 0, got;

	do {
		got = waitpid(pid, &status, WNOHANG);
	} while (got < 0 && errno == EINTR);
	if (got == 0) {
		return;
	}
	loop_child_stop(c);
	c->ended(c, status);
}

void loop_child_start(struct loop_child *c, struct loop *l, int pid,
    void (*ended)(struct loop_child *, int))
{
	memset(c, 0, sizeof(*c));
	c->loop = l;
	c->ended = ended;
	c->pid = pid;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0) {
		fprintf(stderr, "loop: pidfd_open(%d): %m (needs Linux 5.3)\n", pid);
		abort();
	}
	ev_io *w = (ev_io *)(void *)c->priv;
	ev_io_init(w, child_event, fd, EV_READ);
	w->data = c;
	ev_io_start(l->waiter->ev, w);
}

void loop_child_stop(struct loop_child *c)
{
	if (c->loop == NULL) {
		return;
	}
	ev_io *w = (ev_io *)(void *)c->priv;
	int fd = w->fd;
	ev_io_stop(c->loop->waiter->ev, w);
	close(fd);
	c->loop = NULL;
}
