#include "base/base.h"
#include "gcp_priv.h"

/*
 * Flex-start machines (docs.cloud.google.com/compute/docs/instances/about-flex-start-vms,
 * .../create-flex-start-vm, .../instance-lifecycle). Market flex_start, only with flex_start = on.
 *
 * - An insert is an order. It waits for capacity up to params.requestValidForDuration, 90 seconds
 *   to two hours. The instance exists meanwhile with status PENDING and costs nothing; here it is
 *   QUEUED. Then Google starts the machine, or deletes the instance, which is a refusal.
 * - The machine runs at most maxRunDuration, seven days at the most, and is not preempted. Google
 *   then deletes it. So its end is known as soon as it begins (notices), and a job leaves before.
 * - It uses the preemptible quota, takes no reservation, and costs the price of the catalog's DWS
 *   Defined Duration.
 */

#define RUN_HOURS_MOST 168
/* Google deletes an order whose wait is over. One that is still there then is given up. */
#define OVERDUE_US (INT64_C(10) * 60 * SPOT_US_PER_S)

int64_t gcp_flex_run_s(const struct gcp *self)
{
	return 3600 * (self->run_hours > 0 ? MIN(self->run_hours, RUN_HOURS_MOST) : RUN_HOURS_MOST);
}

void gcp_flex_body(const struct gcp *self, struct arena *a, json_t *doc)
{
	json_object_set_new(doc, "params",
	    json_pack("{s:{s:s}}", "requestValidForDuration", "seconds",
		arena_printf(a, "%" PRId64, self->flex_wait_s)));
}

void gcp_flex_overdue(const struct gcp *self, struct spot_call *c, struct spot_instance *i)
{
	if (i->state == SPOT_INSTANCE_QUEUED && i->created_us > 0 &&
	    c->now_us - i->created_us > self->flex_wait_s * SPOT_US_PER_S + OVERDUE_US) {
		i->state = SPOT_INSTANCE_FAILED;
		i->raw_reason = "NO_CAPACITY: it waits for longer than it was to wait";
	}
}

int64_t gcp_flex_ends_us(struct spot_call *c, const json_t *instance)
{
	bool bad = false;
	const json_t *s = json_object_get(instance, "scheduling");
	const json_t *now =
	    json_object_get(json_object_get(instance, "resourceStatus"), "scheduling");
	const char *model = gcp_str(c->arena, s, "provisioningModel", &bad);
	int64_t told = gcp_time(gcp_str(c->arena, now, "terminationTimestamp", &bad));
	int64_t began = gcp_time(gcp_str(c->arena, instance, "lastStartTimestamp", &bad));
	int64_t run_s = gcp_int(json_object_get(s, "maxRunDuration"), "seconds", 0, &bad);

	if (strcmp(model, "FLEX_START") != 0 || bad) {
		return 0;
	}
	return told > 0 ? told : began > 0 && run_s > 0 ? began + run_s * SPOT_US_PER_S : 0;
}
