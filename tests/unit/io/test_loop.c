/* The loop: order of phases, timers on the injected clock, descriptors, signals, children, messages
 * of other threads. */
#include "base/base.h"
#include "unit.h"

#include "io/loop/loop.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct loop *loop;
static struct clock_manual clk;
static struct rng rng;
static char trace[256];

static void trace_note(const char *what)
{
	size_t n = strlen(trace);

	snprintf(trace + n, sizeof(trace) - n, "%s%s", n > 0 ? " " : "", what);
}

static int setup(void **state)
{
	(void)state;
	clock_manual_init(&clk, 1000000);
	rng_seeded_init(&rng, 1);
	loop = loop_new(&clk.clock, &rng);
	trace[0] = '\0';
	return 0;
}

static int setup_real(void **state)
{
	setup(state);
	loop_free(loop);
	loop = loop_new(&clock_real, &rng);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	loop_free(loop);
	return 0;
}

static struct loop_timer timers[300];
static int fired[300], fired_n;

static void timer_fired(struct loop_timer *t)
{
	fired[fired_n++] = (int)(t - timers);
}

static void timers_fire_in_order_of_time_then_of_arming(void **state)
{
	static const int64_t after[] = { 500, 100, 300, 100, 0 };

	(void)state;
	fired_n = 0;
	for (size_t i = 0; i < ARRAY_LEN(after); i++) {
		loop_timer_init(&timers[i], loop, timer_fired);
		loop_timer_set(&timers[i], after[i]);
	}
	loop_turn(loop, 0);
	assert_int_equal(fired_n, 1);
	clock_manual_advance(&clk, 299);
	loop_turn(loop, 0);
	assert_int_equal(fired_n, 3);
	clock_manual_advance(&clk, 201);
	loop_turn(loop, 0);
	const int want[] = { 4, 1, 3, 2, 0 };
	assert_int_equal(fired_n, 5);
	assert_memory_equal(fired, want, sizeof(want));
	assert_false(timers[0].armed);
}

static void stopped_and_rearmed_timers_keep_the_heap_in_order(void **state)
{
	int64_t due[ARRAY_LEN(timers)], last = 0;

	(void)state;
	fired_n = 0;
	for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
		loop_timer_init(&timers[i], loop, timer_fired);
		loop_timer_set(&timers[i], (int64_t)rng_below(&rng, 1000));
	}
	for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
		due[i] = (int64_t)rng_below(&rng, 1000);
		loop_timer_stop(&timers[i]);
		if (i % 3 != 0) {
			loop_timer_set(&timers[i], due[i]);
		}
	}
	clock_manual_advance(&clk, 1000);
	loop_turn(loop, 0);
	assert_int_equal(fired_n, ARRAY_LEN(timers) / 3 * 2);
	for (int i = 0; i < fired_n; i++) {
		assert_true(fired[i] % 3 != 0);
		assert_true(due[fired[i]] >= last);
		last = due[fired[i]];
	}
}

static void timer_rearm(struct loop_timer *t)
{
	fired_n++;
	loop_timer_set(t, 0);
}

static void a_timer_of_zero_fires_once_a_turn(void **state)
{
	(void)state;
	fired_n = 0;
	loop_timer_init(&timers[0], loop, timer_rearm);
	loop_timer_set(&timers[0], -5);
	for (int i = 1; i <= 3; i++) {
		loop_turn(loop, 0);
		assert_int_equal(fired_n, i);
	}
	loop_timer_stop(&timers[0]);
	loop_timer_stop(&timers[0]);
	loop_timer_set(&timers[0], INT64_MAX); /* no overflow: never */
	loop_turn(loop, 0);
	assert_int_equal(fired_n, 3);
	loop_timer_stop(&timers[0]);
}

static void stop_the_other(struct loop_timer *t)
{
	fired_n++;
	loop_timer_stop(t == &timers[0] ? &timers[1] : &timers[0]);
}

static void a_timer_stopped_by_another_of_the_same_turn_does_not_fire(void **state)
{
	(void)state;
	fired_n = 0;
	for (int i = 0; i < 2; i++) {
		loop_timer_init(&timers[i], loop, stop_the_other);
		loop_timer_set(&timers[i], 10);
	}
	clock_manual_advance(&clk, 10);
	loop_turn(loop, 0);
	assert_int_equal(fired_n, 1);
}

static struct loop_task task, second_task, cancelled_task;
static int pipe_fds[2];

static void on_second(struct loop_task *t)
{
	(void)t;
	trace_note("task2");
}

static void on_task(struct loop_task *t)
{
	(void)t;
	trace_note("task");
	loop_defer(loop, &second_task, on_second);
}

static void on_grave(void *p)
{
	(void)p;
	trace_note("freed");
}

static void on_ready(struct loop_fd *f, int events)
{
	char c;

	assert_int_equal(events, LOOP_READ);
	assert_int_equal(read(f->fd, &c, 1), 1);
	trace_note("event");
	loop_bury(loop, f, on_grave);
	loop_defer(loop, &task, on_task);
	loop_defer(loop, &task, on_task); /* queued once */
	loop_defer(loop, &cancelled_task, on_task);
	loop_defer_cancel(loop, &cancelled_task);
	loop_defer_cancel(loop, &cancelled_task);
}

static void on_timer_note(struct loop_timer *t)
{
	(void)t;
	trace_note("timer");
}

static void on_decide(struct loop_hook *h)
{
	(void)h;
	trace_note("decide");
}

static void a_turn_has_its_phases_in_order(void **state)
{
	struct loop_fd f;
	struct loop_hook hook = { .decide = on_decide };

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	loop_fd_init(&f, loop, on_ready);
	loop_fd_set(&f, pipe_fds[0], LOOP_READ);
	loop_timer_init(&timers[0], loop, on_timer_note);
	loop_timer_set(&timers[0], 0);
	loop_hook_add(loop, &hook);
	assert_int_equal(write(pipe_fds[1], "x", 1), 1);
	loop_turn(loop, 0);
	assert_string_equal(trace, "event timer decide task freed");
	trace[0] = '\0';
	loop_turn(loop, -1); /* the deferred callback: next turn, without waiting */
	assert_string_equal(trace, "decide task2");
	loop_fd_stop(&f);
	assert_int_equal(write(pipe_fds[1], "x", 1), 1);
	trace[0] = '\0';
	loop_turn(loop, 0);
	assert_string_equal(trace, "decide");
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static void bury_again(void *p)
{
	trace_note("first");
	loop_bury(loop, p, on_grave);
}

static void freeing_may_bury_more(void **state)
{
	(void)state;
	loop_bury(loop, NULL, bury_again);
	loop_turn(loop, 0);
	assert_string_equal(trace, "first freed");
	loop_bury(loop, NULL, on_grave); /* and the end of the loop frees the rest */
}

static void a_write_end_is_ready_and_events_can_change(void **state)
{
	struct loop_fd f;

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	loop_fd_init(&f, loop, on_ready);
	loop_fd_set(&f, pipe_fds[0], LOOP_READ);
	loop_fd_set(&f, pipe_fds[0], LOOP_READ);
	loop_fd_set(&f, pipe_fds[0], 0);
	assert_false(f.armed);
	loop_turn(loop, 0);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	assert_string_equal(trace, "");
}

static void a_real_timer_waits_about_as_long_as_asked_and_without_spinning(void **state)
{
	int turns = 0;

	(void)state;
	fired_n = 0;
	loop_timer_init(&timers[0], loop, timer_fired);
	int64_t begun = clock_real.mono_us(&clock_real);
	loop_timer_set(&timers[0], 300000);
	for (; fired_n == 0; turns++) {
		loop_turn(loop, -1);
	}
	int64_t took = clock_real.mono_us(&clock_real) - begun;
	assert_true(took >= 290000 && took < 5000000);
	assert_in_range(turns, 1, 4);
	turns = 0;
	begun = clock_real.mono_us(&clock_real);
	loop_turn(loop, 50000); /* a bounded wait with nothing to do ends by itself */
	assert_true(clock_real.mono_us(&clock_real) - begun >= 45000);
}

static void quit_it(struct loop_timer *t)
{
	(void)t;
	loop_quit(loop);
}

static void run_ends_on_quit_and_can_start_again(void **state)
{
	(void)state;
	loop_timer_init(&timers[0], loop, quit_it);
	loop_timer_set(&timers[0], 1000);
	loop_run(loop);
	loop_timer_set(&timers[0], 1000);
	loop_run(loop);
	assert_false(loop_turn(loop, 0));
	loop_wake(loop);
	loop_turn(loop, -1); /* does not block */
	assert_ptr_equal(loop_rng(loop), &rng);
	assert_non_null(loop_ev(loop));
	assert_true(loop_wall_us(loop) > 0 && loop_mono_us(loop) > 0);
}

static int signals_got;

static void on_signal(struct loop_signal *s)
{
	assert_int_equal(s->signo, SIGUSR1);
	signals_got++;
}

static void signals_arrive_in_the_loop(void **state)
{
	struct loop_signal s;

	(void)state;
	signals_got = 0;
	loop_signal_start(&s, loop, SIGUSR1, on_signal);
	assert_int_equal(kill(getpid(), SIGUSR1), 0);
	while (signals_got == 0) {
		loop_turn(loop, -1);
	}
	assert_int_equal(signals_got, 1);
	loop_signal_stop(&s);
	loop_signal_stop(&s);
}

static int child_status, children_ended;

static void on_child(struct loop_child *c, int status)
{
	(void)c;
	child_status = status;
	children_ended++;
}

static void children_are_reaped_with_their_status(void **state)
{
	struct loop_child c, forgotten;

	(void)state;
	children_ended = 0;
	pid_t pid = fork();
	if (pid == 0) {
		_exit(7);
	}
	loop_child_start(&c, loop, pid, on_child);
	while (children_ended == 0) {
		loop_turn(loop, -1);
	}
	assert_true(WIFEXITED(child_status));
	assert_int_equal(WEXITSTATUS(child_status), 7);
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	loop_child_start(&forgotten, loop, pid, on_child);
	loop_child_stop(&forgotten);
	loop_child_stop(&forgotten);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	loop_turn(loop, 0);
	assert_int_equal(children_ended, 1);
}

#define POSTERS 4
#define POSTS 1000

struct poster {
	pthread_t thread;
	int no;
	int got; /* messages; the loop's thread counts */
};
struct post {
	struct poster *from;
	int no;
};
static struct post posts[POSTERS][POSTS];
static int posts_got;

static void post_got(void *ctx)
{
	struct post *m = ctx;

	assert_int_equal(m->no, m->from->got); /* in the order of its sender */
	m->from->got++;
	posts_got++;
}

static void *poster_run(void *ctx)
{
	struct poster *p = ctx;

	for (int i = 0; i < POSTS; i++) {
		posts[p->no][i] = (struct post){ .from = p, .no = i };
		loop_post(loop, post_got, &posts[p->no][i]);
	}
	return NULL;
}

static void messages_of_other_threads_wake_the_loop_and_keep_their_order(void **state)
{
	struct poster posters[POSTERS] = { 0 };

	(void)state;
	posts_got = 0;
	for (int i = 0; i < POSTERS; i++) {
		posters[i].no = i;
		assert_int_equal(pthread_create(&posters[i].thread, NULL, poster_run, &posters[i]),
		    0);
	}
	/* No timer is armed: only the messages end these waits. */
	while (posts_got < POSTERS * POSTS) {
		loop_turn(loop, -1);
	}
	for (int i = 0; i < POSTERS; i++) {
		assert_int_equal(pthread_join(posters[i].thread, NULL), 0);
		assert_int_equal(posters[i].got, POSTS);
	}
	assert_int_equal(posts_got, POSTERS * POSTS);
}

static void post_again(void *ctx)
{
	(void)ctx;
	trace_note("message");
	loop_post(loop, post_again, NULL);
}

static void a_message_of_a_message_waits_for_the_next_turn(void **state)
{
	(void)state;
	loop_post(loop, post_again, NULL);
	loop_turn(loop, -1);
	assert_string_equal(trace, "message");
	loop_turn(loop, -1);
	assert_string_equal(trace, "message message"); /* loop_free() drops the third */
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define R(name) cmocka_unit_test_setup_teardown(name, setup_real, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(timers_fire_in_order_of_time_then_of_arming),
		T(stopped_and_rearmed_timers_keep_the_heap_in_order),
		T(a_timer_of_zero_fires_once_a_turn),
		T(a_timer_stopped_by_another_of_the_same_turn_does_not_fire),
		T(a_turn_has_its_phases_in_order),
		T(freeing_may_bury_more),
		T(a_write_end_is_ready_and_events_can_change),
		R(a_real_timer_waits_about_as_long_as_asked_and_without_spinning),
		R(run_ends_on_quit_and_can_start_again),
		R(signals_arrive_in_the_loop),
		R(children_are_reaped_with_their_status),
		R(messages_of_other_threads_wake_the_loop_and_keep_their_order),
		R(a_message_of_a_message_waits_for_the_next_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
