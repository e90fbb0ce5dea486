/* Names of states and events, and the diagram. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/life/life.h"

static const char *const job_states[JOB_STATE_COUNT] = { "",
#define X(n) #n,
	JOB_STATE_LIST(X)
#undef X
};
static const char *const job_events[JOB_EVENT_COUNT] = { "",
#define X(n) #n,
	JOB_EVENT_LIST(X)
#undef X
};
static const char *const node_states[NODE_STATE_COUNT] = { "",
#define X(n) #n,
	NODE_STATE_LIST(X)
#undef X
};
static const char *const node_events[NODE_EVENT_COUNT] = { "",
#define X(n) #n,
	NODE_EVENT_LIST(X)
#undef X
};

static const char *name_at(const char *const *names, int count, int i)
{
	return i > 0 && i < count ? names[i] : "?";
}

static int name_find(const char *const *names, int count, const char *s)
{
	for (int i = 1; s != NULL && i < count; i++) {
		if (strcmp(names[i], s) == 0) {
			return i;
		}
	}
	return 0;
}

const char *job_state_name(enum job_state s)
{
	return name_at(job_states, JOB_STATE_COUNT, (int)s);
}

const char *job_event_name(enum job_event e)
{
	return name_at(job_events, JOB_EVENT_COUNT, (int)e);
}

const char *node_state_name(enum node_state s)
{
	return name_at(node_states, NODE_STATE_COUNT, (int)s);
}

const char *node_event_name(enum node_event e)
{
	return name_at(node_events, NODE_EVENT_COUNT, (int)e);
}

enum job_state job_state_parse(const char *s)
{
	return (enum job_state)name_find(job_states, JOB_STATE_COUNT, s);
}

enum node_state node_state_parse(const char *s)
{
	return (enum node_state)name_find(node_states, NODE_STATE_COUNT, s);
}

enum node_event node_event_parse(const char *s)
{
	return (enum node_event)name_find(node_events, NODE_EVENT_COUNT, s);
}

void fsm_mermaid(bool node, struct sbuf *out)
{
	int states = node ? (int)NODE_STATE_COUNT : (int)JOB_STATE_COUNT;
	int events = node ? (int)NODE_EVENT_COUNT : (int)JOB_EVENT_COUNT;

	sbuf_puts(out, "stateDiagram-v2\n");
	for (int s = 1; s < states; s++) {
		for (int e = 1; e < events; e++) {
			struct fsm_edge edge = node
			    ? node_edge((enum node_state)s, (enum node_event)e)
			    : job_edge((enum job_state)s, (enum job_event)e);
			const char *const *sn = node ? node_states : job_states;
			const char *const *en = node ? node_events : job_events;

			if (edge.to != 0) {
				sbuf_printf(out, "    %s --> %s: %s\n", sn[s], sn[edge.to], en[e]);
			}
		}
	}
}
