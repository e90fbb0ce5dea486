/*
 * A signal asks the agent to stop. On a virtual machine the agent ends at once, and the next start
 * adopts the job. If the machine is being reclaimed, the signal comes from its shutdown, and the
 * agent saves the job first.
 *
 * In a Pod there is no next start. SIGTERM is the interruption, and the grace period is the notice:
 * kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle, "Termination of Pods".
 */
#include "base/base.h"
#include "agent/agent.h"
#include "agent/notice/notice_priv.h"

#include "base/text/text.h"

#define GRACE_DEFAULT_S 30 /* Kubernetes' default of terminationGracePeriodSeconds */
#define MARGIN_US (2 * SPOT_US_PER_S)
#define POST_US (5 * SPOT_US_PER_S)
#define SOURCE_US SPOT_US_PER_S
#define PAST_DEADLINE_US (30 * SPOT_US_PER_S)

static bool in_pod(const struct agent *a)
{
	return strcmp(a->boot.provider, "coreweave") == 0 ||
	    strcmp(a->boot.provider, "kubernetes") == 0;
}

static int64_t grace_us(void)
{
	const char *text = getenv("SPOT_TERMINATION_GRACE_S");
	int64_t s;

	if (text == NULL || !parse_i64(text, 1, 86400, &s)) {
		s = GRACE_DEFAULT_S;
	}
	return s * SPOT_US_PER_S;
}

void notice_stop(struct agent *a, int signo)
{
	struct notice *n = &a->notice;

	log_info("agent.stopped", I64("signal", signo));
	if (n->stop_signal != 0) {
		return; /* the stop is under way */
	}
	n->stop_signal = signo;
	n->stop_us = a->now_us;
	n->stop_final = in_pod(a);
	/* After the daemon's shutdown order the signal is only its effect, no interruption. */
	if (n->stop_final && !a->leaving) {
		notice_seen_for(a, NOTICE_INTERRUPTION, grace_us(), "sigterm", STR_LIT("SIGTERM"));
	} else if (strcmp(a->boot.provider, "gcp") == 0 && !n->interrupted) {
		/* By default Google begins the shutdown together with the notice. */
		notice_gcp_ask(a);
	}
}

/* Reports whether a notice may still come: waits SOURCE_US for the answer of Google's server. */
static bool source_is_open(struct agent *a)
{
	int64_t until = a->notice.stop_us + SOURCE_US;

	if (strcmp(a->boot.provider, "gcp") != 0 || a->notice.preempted.etag[0] != '\0' ||
	    a->now_us >= until) {
		return false;
	}
	agent_wake(a, until);
	return true;
}

static bool work_is_left(struct agent *a)
{
	struct notice *n = &a->notice;

	if ((a->job.phase != JOB_NONE && a->job.phase != JOB_REPORTED) || a->ckpt.at != CKPT_IDLE) {
		return true;
	}
	if (!n->post[NOTICE_INTERRUPTION].wanted || a->enrol.at != ENROL_DONE ||
	    a->now_us >= n->stop_us + POST_US) {
		return false;
	}
	agent_wake(a, n->stop_us + POST_US);
	return true;
}

void notice_stop_step(struct agent *a)
{
	struct notice *n = &a->notice;
	int64_t last;

	if (n->stop_signal == 0 || (!n->interrupted && source_is_open(a))) {
		return;
	}
	last = n->stop_final ? n->stop_us + grace_us() - MIN(MARGIN_US, grace_us() / 2)
			     : n->deadline_us + PAST_DEADLINE_US;
	if (n->interrupted && a->now_us < last && work_is_left(a)) {
		agent_wake(a, last);
		return;
	}
	a->quit = true;
	a->exit_code = n->stop_final ? 0 : 128 + n->stop_signal;
}
