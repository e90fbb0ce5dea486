/* A VM's changes over time: by its instance's events, or by the clock where it has no instance. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

static bool policy_delete(const struct az_res *r)
{
	const json_t *p = json_object_get(r->asked, "properties");

	return az_same(json_string_value(json_object_get(p, "evictionPolicy")), "Delete");
}

/* A part with deleteOption Delete goes with its VM. Other parts stay, NICs reserved for a while. */
static void part_gone(struct sim *s, struct az_res *r)
{
	struct azure *az = azure_of(s);
	struct az_res *next;

	r->reserved_us = r->owner && str_same(r->owner->state, "Failed")
	    ? sim_wall(s) + az->nic_reserve_us
	    : sim_wall(s);
	r->owner = NULL;
	if (!r->delete_with) {
		return;
	}
	for (struct az_res *ip = az->res; ip; ip = next) {
		next = ip->next;
		if (ip->kind != AZ_IP || ip->owner != r) {
			continue;
		}
		ip->owner = NULL;
		if (ip->delete_with) {
			az_drop(az, ip);
		}
	}
	az_drop(az, r);
}

void az_vm_gone(struct sim *s, struct az_res *vm)
{
	struct azure *az = azure_of(s);
	bool again = true;

	while (again) {
		again = false;
		for (struct az_res *r = az->res; r; r = r->next) {
			if (r->owner != vm) {
				continue;
			}
			if (vm->fail_code) {
				vm->state = "Failed"; /* its NICs stay reserved */
			}
			part_gone(s, r); /* the list has changed */
			again = true;
			break;
		}
	}
	if (vm->op && vm->op->is_delete) {
		az_op_end(s, vm->op, "Succeeded", NULL, NULL);
	} else {
		az_op_end(s, vm->op, "Failed", "OperationPreempted",
		    "The virtual machine was evicted.");
	}
	az_drop(az, vm);
}

void az_vm_delete(struct sim *s, struct az_res *r)
{
	if (str_same(r->state, "Deleting")) {
		return;
	}
	r->state = "Deleting";
	r->due_us = sim_wall(s) + s->conf.terminate_us;
	if (r->inst) {
		inst_end(r->inst, "api", "Deleted", "Deleted by the user");
	}
}

bool az_vm_tick(struct sim *s, struct az_res *r)
{
	if (r->inst || sim_wall(s) < r->due_us) {
		return false;
	}
	if (str_same(r->state, "Creating")) {
		r->state = "Failed";
		az_op_end(s, r->op, "Failed",
		    r->fail_code ? r->fail_code : "InternalExecutionError",
		    r->fail_message ? r->fail_message : "An internal execution error occurred.");
	} else if (str_same(r->state, "Deleting")) {
		az_vm_gone(s, r);
		return true;
	}
	return false;
}

void az_guest_off(struct inst *i)
{
	struct az_res *r = i->own;

	/* "stopped", which still bills: the vendor ends billing only when it is deallocated. */
	if (r) {
		r->stopped = true;
	}
	books_event(i->sim, "stopped", i, NULL);
}

void az_vm_event(struct inst *i, const char *type)
{
	struct az_res *r = i->own;
	struct sim *s = i->sim;

	if (!r || s->quitting) {
		return;
	}
	if (str_same(type, "running")) {
		if (str_same(r->state, "Creating")) {
			r->state = "Succeeded";
			az_op_end(s, r->op, "Succeeded", NULL, NULL);
		} else if (!str_same(r->state, "Deleting")) {
			az_op_end(s, r->op, "Succeeded", NULL, NULL); /* of a start */
		}
	} else if (str_same(type, "unmade")) {
		i->own = NULL;
		r->inst = NULL;
		az_op_end(s, r->op, "Succeeded", NULL, NULL);
		az_vm_gone(s, r);
	} else if (str_same(type, "notice")) {
		azure_of(s)->incarnation++;
	} else if (str_same(type, "terminated")) {
		i->own = NULL;
		r->inst = NULL;
		if (str_same(r->state, "Deleting")) {
			az_vm_gone(s, r);
		} else if (r->deallocated || (i->side == SIDE_SPOT && !policy_delete(r))) {
			r->deallocated = true;
			r->state = "Succeeded";
			az_op_end(s, r->op, "Succeeded", NULL, NULL);
		} else {
			az_vm_gone(s, r);
		}
	}
}
