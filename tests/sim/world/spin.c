/*
 * A product that spins would hold a batch for ever. A timer is armed for now again and again, a
 * pass always finds a change, or a loop never returns. The turns of a simulated minute show the
 * first two; the processor time of the process shows the third. Waiting for an event that never
 * comes uses no time: the batch ends a seed that takes SPIN_REAL_S.
 *
 * The server's side has a limit of its own (universe.c): a statement without end is over after two
 * minutes.
 */
#include "sim/world/world.h"
#include "sim/world/spin.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

/* The busiest minute of seeds 1 to 21 and 100,001 to 100,027 had 7,023. */
#define TURNS_MAX 100000
/* A seed uses a third of a second. */
#define CPU_S 120

static struct {
	int64_t minute, turns;
	bool raised, alone;
	int out;
} spin;

void spin_turn(void)
{
	int64_t minute = world_now() / (60 * SPOT_US_PER_S);

	if (minute != spin.minute) {
		spin.turns = 0;
	}
	spin.minute = minute;
	spin.turns++;
}

bool spin_seen(void)
{
	return spin.turns >= TURNS_MAX || spin.raised;
}

void spin_check(void)
{
	always(!spin_seen(), SPIN_RULE,
	    "it spins: %" PRId64 " turns of loops in one simulated minute, at %.6f s", spin.turns,
	    world_s());
}

void spin_raise(bool on)
{
	spin.raised = on;
}

/* Within whatever spins: nothing but write and _exit is sure to work. */
static void used_up(int signo UNUSED)
{
	static const char words[] =
	    "\nFAILED " SPIN_RULE
	    ": it spins: a turn does not end, the seed's processor time is used up\n";

	(void)!write(spin.out, words, sizeof(words) - 1);
	if (spin.alone) {
		trace_last(STDOUT_FILENO);
	}
	_exit(1);
}

void spin_limit(int out, bool alone)
{
	const char *given = getenv("SPOT_SIM_CPU_S"); /* test_sim.py waits less */
	rlim_t s = given != NULL ? strtoul(given, NULL, 10) : CPU_S;
	/* a process that ignores the signal is killed */
	struct rlimit cpu = { .rlim_cur = s, .rlim_max = s + 5 };

	spin.out = out;
	spin.alone = alone;
	(void)signal(SIGXCPU, used_up);
	(void)setrlimit(RLIMIT_CPU, &cpu);
}
