/* Flex-start VMs: an insert is an order, which waits with status PENDING until there is capacity or
 * its wait ends (compute/docs/instances/about-flex-start-vms, create-flex-start-vm,
 * instance-lifecycle). Its operation runs as long. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#define WAIT_LEAST_S 90
#define WAIT_MOST_S 7200
#define RUN_LEAST_S 600
#define RUN_MOST_S (7 * 86400)

#define VM struct gcp_vm

static VM *vm_of(const struct inst *i)
{
	return i->own;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool flex_fail(struct gcp_call *c, const char *field, const char *value, const char *words)
{
	gcp_fail(c, 400, "invalid", "Invalid value for field 'resource.%s': '%s'. %s", field, value,
	    words);
	return false;
}

static int64_t wait_s(const struct gcp_want *w)
{
	const json_t *params = json_object_get(w->props, "params");

	return gcp_i64(json_object_get(params, "requestValidForDuration"), "seconds", 0);
}

static bool flex_times(struct gcp_call *c, const struct gcp_want *w, const json_t *s)
{
	int64_t run = gcp_i64(json_object_get(s, "maxRunDuration"), "seconds", 0), wait = wait_s(w);

	if (run < RUN_LEAST_S || run > RUN_MOST_S) {
		return flex_fail(c, "scheduling.maxRunDuration",
		    arena_printf(c->a, "%" PRId64, run),
		    "Flex-start VMs run between 10 minutes and 7 days.");
	}
	if (wait != 0 && (wait < WAIT_LEAST_S || wait > WAIT_MOST_S)) {
		return flex_fail(c, "params.requestValidForDuration",
		    arena_printf(c->a, "%" PRId64, wait),
		    "Must be 0, or between 90 seconds and 2 hours.");
	}
	return true;
}

bool gcp_flex_check(struct gcp_call *c, struct gcp_want *w)
{
	const json_t *s = json_object_get(w->props, "scheduling");
	const json_t *affinity = json_object_get(w->props, "reservationAffinity");
	const char *model = gcp_text(s, "provisioningModel");

	w->flex = str_same(model, "FLEX_START");
	if (!w->flex) {
		return !json_object_get(json_object_get(w->props, "params"),
			   "requestValidForDuration") ||
		    flex_fail(c, "params.requestValidForDuration", "",
			"Only Flex-start VMs wait for capacity.");
	}
	if (w->bulk) {
		return flex_fail(c, "scheduling.provisioningModel", model,
		    "cloudsim takes it with instances.insert only.");
	}
	if (str_prefix(w->machine, "n1-") || str_prefix(w->machine, "a4x-")) {
		return flex_fail(c, "scheduling.provisioningModel", model,
		    "The machine type does not support Flex-start.");
	}
	if (!gcp_text(s, "instanceTerminationAction")) {
		return flex_fail(c, "scheduling.instanceTerminationAction", "",
		    "Flex-start VMs need a termination action.");
	}
	if (!str_same(gcp_text(affinity, "consumeReservationType"), "NO_RESERVATION")) {
		return flex_fail(c, "reservationAffinity.consumeReservationType", "",
		    "Flex-start VMs cannot consume reservations.");
	}
	return flex_times(c, w, s);
}

/* ---- the queue ------------------------------------------------------------------------------- */

static int64_t run_us(const struct inst *i)
{
	const struct gcp_vm *v = vm_of(i);

	return i->sim->gcp->flex_run_us > 0 ? i->sim->gcp->flex_run_us : v->max_run_us;
}

const char *gcp_flex_ends(const struct inst *i, struct arena *a)
{
	return vm_of(i)->flex && i->running_us ? gcp_time(a, i->running_us + run_us(i)) : NULL;
}

static bool quota_there(const struct inst *i)
{
	const struct gcp_want w = { .type = gcp_type_of(i->sim->gcp, i->pool->type),
		.pool = i->pool,
		.side = SIDE_SPOT,
		.spot = true };
	const char *region;
	int64_t limit;

	return gcp_quota_passed(i->sim, &w, &limit, &region) == NULL;
}

static void order_given(struct inst *i)
{
	struct gcp_vm *v = vm_of(i);

	v->queued = false;
	loop_timer_stop(&v->queue);
	loop_timer_set(&v->expiry, i->sim->conf.boot_us + run_us(i));
	if (v->insert_op) {
		gcp_op_done(v->insert_op);
	}
	inst_start(i);
}

static void order_over(struct inst *i, const char *words)
{
	struct gcp_vm *v = vm_of(i);

	loop_timer_stop(&v->queue);
	v->stop_at_end &= !v->queued;
	v->queued = false;
	if (v->insert_op && !v->insert_op->done) {
		gcp_op_error(v->insert_op, 503, "SERVICE UNAVAILABLE",
		    json_pack("{s:s, s:s}", "code", "ZONE_RESOURCE_POOL_EXHAUSTED", "message",
			words));
		gcp_op_done(v->insert_op);
	}
}

/* Capacity, if any comes, or the end of the wait: the earlier of the two is next. */
static void queue_set(struct inst *i)
{
	const struct gcp *g = i->sim->gcp;
	struct gcp_vm *v = vm_of(i);
	int64_t wait = g->flex_expire_us > 0 ? g->flex_expire_us : v->wait_us;
	int64_t at = g->flex_queue_us >= 0 && quota_there(i) ? MIN(g->flex_queue_us, wait) : wait;

	loop_timer_set(&v->queue, MAX(i->launched_us + at - sim_wall(i->sim), 1));
}

static void queue_turn(struct loop_timer *t)
{
	struct gcp_vm *v = container_of(t, VM, queue);
	struct inst *i = v->inst;
	const struct gcp *g = i->sim->gcp;
	int64_t age = sim_wall(i->sim) - i->launched_us;

	if (g->flex_queue_us >= 0 && age >= g->flex_queue_us && quota_there(i)) {
		order_given(i);
	} else if (age >= (g->flex_expire_us > 0 ? g->flex_expire_us : v->wait_us)) {
		order_over(i, "The wait for capacity has ended.");
		inst_end(i, "queue", "requestValidForDuration", "No capacity came in time.");
	} else {
		queue_set(i);
	}
}

void gcp_flex_order(struct gcp_call *c, const struct gcp_want *w, struct inst *i)
{
	struct gcp_vm *v = vm_of(i);

	/* Capacity of its own: none of the pool's stock. */
	i->counted = false;
	i->pool->used[i->side]--;
	loop_timer_stop(&v->expiry);
	v->flex = v->queued = true;
	v->wait_us = wait_s(w) * SPOT_US_PER_S;
	loop_timer_init(&v->queue, c->sim->loop, queue_turn);
	if (!i->unreal) {
		queue_set(i);
	}
}

void gcp_flex_ended(struct inst *i)
{
	if (vm_of(i)->flex) {
		order_over(i, "The instance was deleted.");
	}
}

/* After a change of the settings. */
void gcp_flex_changed(struct sim *s)
{
	for (struct inst *i = s->insts; i; i = i->next) {
		if (i->cloud != CLOUD_GCP || !i->own || !vm_of(i)->flex || i->unreal) {
			continue;
		}
		if (vm_of(i)->queued) {
			queue_set(i);
		} else if (i->state == INST_RUNNING) {
			loop_timer_set(&vm_of(i)->expiry,
			    MAX(i->running_us + run_us(i) - sim_wall(s), 1));
		}
	}
}
