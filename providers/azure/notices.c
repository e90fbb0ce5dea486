#include "base/base.h"
#include "azure_priv.h"

/*
 * Polls the platform about evictions: resource annotations in Resource Graph
 * (learn.microsoft.com/azure/service-health/resource-health-vm-annotation). They are short-lived
 * and late: the node itself hears of it first (scheduled events).
 */

#include <strings.h>

struct noticed {
	struct spot_notice *items;
	size_t n, cap;
};

static const struct spot_instance *instance_of(const struct spot_notices *a, const char *ref)
{
	for (size_t i = 0; i < a->instances_n; i++) {
		if (strcmp(a->instances[i].ref, ref) == 0) {
			return &a->instances[i];
		}
	}
	return NULL;
}

static void row_read(struct spot_call *c, const struct spot_notices *a, const json_t *row,
    struct noticed *x)
{
	const char *target = azure_text(row, "target"), *when = azure_text(row, "occurred");
	const struct spot_instance *i;
	int64_t at = azure_time(when);

	/* The annotation's own id begins with the machine's. */
	if (*target == '\0') {
		target = azure_text(row, "id");
	}
	i = instance_of(a, azure_id_part(c->arena, target, "virtualMachines"));
	/* A machine of the same name that was there before is not meant. */
	if (i == NULL || (at != 0 && i->created_us != 0 && at < i->created_us)) {
		return;
	}
	x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
	x->items[x->n++] = (struct spot_notice){ .ref = i->ref,
		.kind = SPOT_NOTICE_INTERRUPTION,
		.deadline_us = at,
		.source = "resource-annotation",
		.raw = arena_printf(c->arena, "VirtualMachinePreempted at %s: %s",
		    redact_words(c->arena, when, SIZE_MAX),
		    redact_words(c->arena, azure_text(row, "summary"), SIZE_MAX)) };
}

enum spot_step azure_notices(void *p, struct spot_call *c, struct spot_notices *a)
{
	struct azure *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct noticed));
	struct noticed *x = st->own;
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s;

	if (c->in != NULL) {
		s = azure_graph_reply(c, &doc, &rows);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		for (size_t i = 0; i < json_array_size(rows); i++) {
			row_read(c, a, json_array_get(rows, i), x);
		}
	}
	if (a->instances_n == 0 || (c->in != NULL && st->next == NULL)) {
		a->notices = x->items;
		a->n = x->n;
		return SPOT_DONE;
	}
	return azure_graph_send(self, c,
	    arena_printf(c->arena,
		"healthresources | where type =~ 'microsoft.resourcehealth/resourceannotations' "
		"| where properties.annotationName =~ 'VirtualMachinePreempted' and id contains %s "
		"| project id, target=tostring(properties.targetResourceId), "
		"occurred=tostring(properties.occurredTime), "
		"summary=tostring(properties.summary) | order by id asc",
		azure_graph_quote(c->arena, arena_printf(c->arena, "/%s-", self->group_prefix))));
}
