/* Records the machines of a launch: from its call's reply, or from a look-up. */
#include "base/base.h"
#include "engine/launch/launch_priv.h"

static int refs_compare(const void *a, const void *b)
{
	const struct spot_instance *x = a, *y = b;

	return strcmp(x->ref, y->ref);
}

void launch_exists(struct act *a, const char *token, struct spot_instance *list, size_t n,
    const enum node_state *was, size_t was_n, enum node_event ev, enum node_event rest,
    const char *how)
{
	struct q_engine_node_exists_machine *rows = arena_array(a->arena, n + 1, sizeof(*rows));

	qsort(list, n, sizeof(*list), refs_compare);
	for (size_t i = 0; i < n; i++) {
		rows[i] = (struct q_engine_node_exists_machine){
			.ref = list[i].ref,
			.spot_request = list[i].spot_request == NULL ? "" : list[i].spot_request,
			.ip = list[i].ip == NULL ? "" : list[i].ip,
			.queued = list[i].state == SPOT_INSTANCE_QUEUED,
		};
	}
	ACT_WRITE(a, engine_node_exists,
	    (&(struct q_engine_node_exists){ .id = a->id,
		.was = was,
		.was_n = was_n,
		.now = node_next(a->id, NODE_UNKNOWN, ev),
		.event = ev,
		.how = how,
		.machine = rows,
		.machine_n = n,
		.at_us = engine_now(a->e),
		.day = engine_day(a->e),
		.void_event = rest,
		.void_now = node_next(a->id, NODE_UNKNOWN, rest),
		.token = token }));
}
