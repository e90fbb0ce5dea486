/* The way out: every instance ends, then the loop. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"

void sim_quit(struct sim *s)
{
	if (s->quitting) {
		return;
	}
	s->quitting = true;
	inst_quit_all(s);
	clouds_stop(s);
	loop_wake(s->loop);
}
