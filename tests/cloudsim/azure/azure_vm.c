/*
 * Microsoft.Compute/virtualMachines: PUT, GET, DELETE, lists and the actions. A shortage shows at
 * once or in the operation; a create that failed leaves the VM with its NIC, address and disk.
 */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

/* ---- refused at once ------------------------------------------------------------------------- */

static void sku_not_available(struct az_call *c, const struct az_want *w)
{
	az_fail(c, 409, "SkuNotAvailable",
	    "The requested VM size for resource 'Following SKUs have failed for Capacity "
	    "Restrictions: %s' is "
	    "currently not available in location '%s'. Please try another size or deploy to a "
	    "different "
	    "location or different zone. See https://aka.ms/azureskunotavailable for details.",
	    w->size, w->location);
}

static void quota_exceeded(struct az_call *c, const char *name, const char *location, int64_t limit,
    int64_t used, int64_t more)
{
	az_fail(c, 409, "OperationNotAllowed",
	    "Operation could not be completed as it results in exceeding approved %s quota. "
	    "Additional details "
	    "- Deployment Model: Resource Manager, Location: %s, Current Limit: %lld, Current "
	    "Usage: %lld, "
	    "Additional Required: %lld, (Minimum) New Limit Required: %lld. Setup Alerts when "
	    "Quota reaches "
	    "threshold. Learn more at https://aka.ms/quotamonitoringalerting . Submit a request "
	    "for Quota "
	    "increase at https://aka.ms/ProdportalCRP/?#blade/ by specifying parameters listed in "
	    "the 'Details' "
	    "section for deployment to succeed. Please read more about quota limits at "
	    "https://docs.microsoft.com/en-us/azure/azure-supportability/%s",
	    name, location, (long long)limit, (long long)used, (long long)more,
	    (long long)(used + more),
	    str_same(name, "LowPriorityCores") ? "spot-quota" : "per-vm-quota-requests");
}

bool az_quota_check(struct az_call *c, const struct az_want *w)
{
	const char *const spot[] = { "lowPriorityCores", NULL },
			  *const regular[] = { "cores", az_family(w->type), NULL };
	const char *const *codes = w->side == SIDE_SPOT ? spot : regular;

	for (size_t k = 0; codes[k]; k++) {
		int64_t limit = az_quota(c->rq->sim, w->location, codes[k]),
			used = az_used(c->rq->sim, w->location, codes[k]);

		if (used + w->type->vcpus <= limit) {
			continue;
		}
		quota_exceeded(c,
		    w->side == SIDE_SPOT ? "LowPriorityCores"
			: k == 0         ? "Total Regional Cores"
					 : arena_printf(c->rq->arena, "%s Cores", codes[k]),
		    w->location, limit, used, w->type->vcpus);
		return false;
	}
	return true;
}

static bool price_good(struct az_call *c, const struct az_want *w)
{
	int64_t now = price_at(&w->pool->price[SIDE_SPOT], sim_wall(c->rq->sim));
	char max[USD_TEXT_MAX], price[USD_TEXT_MAX];

	if (w->side != SIDE_SPOT || w->max_price < 0 || w->max_price >= now) {
		return true;
	}
	az_fail(c, 409, "SpotPriceGreaterThanProvidedMaxPrice",
	    "Unable to perform operation 'Create VM' since the provided max price '%s USD' is "
	    "lower than the "
	    "current spot price '%s USD' for Azure Spot VM size '%s'.",
	    format_usd(w->max_price, max), format_usd(now, price), w->size);
	return false;
}

/* ---- capacity -------------------------------------------------------------------------------- */

/* How a shortage is told when not at once. */
static const char *async_code(const struct az_want *w)
{
	if (w->ephemeral) {
		return w->zone ? "OverconstrainedZonalAllocationRequest"
			       : "OverconstrainedAllocationRequest";
	}
	return w->zone ? "ZonalAllocationFailed" : "AllocationFailed";
}

static const char *async_message(struct arena *a, const struct az_want *w)
{
	if (w->ephemeral) {
		return arena_printf(a,
		    "Allocation failed. VM(s) with the following constraints cannot be allocated, "
		    "because the "
		    "condition is too restrictive. Please remove some constraints and try again. "
		    "Constraints "
		    "applied are:\n  - %s\n  - Ephemeral Disk\n  - VM Size\n",
		    w->side == SIDE_SPOT ? "Low Priority VMs"
					 : "Networking Constraints (such as Accelerated "
					   "Networking or IPv6)");
	}
	if (w->zone) {
		return arena_printf(a,
		    "Allocation failed. We do not have sufficient capacity for the requested VM "
		    "size in this "
		    "zone. Read more about improving likelihood of allocation success at "
		    "http://aka.ms/allocation-guidance");
	}
	return arena_printf(a,
	    "Allocation failed. We do not have sufficient capacity for the requested VM size in "
	    "this region. "
	    "Read more about improving likelihood of allocation success at "
	    "http://aka.ms/allocation-guidance");
}

/* Spot without a zone is refused at once, all else in the operation, unless told otherwise. */
static bool told_at_once(const struct az_call *c, const struct az_want *w)
{
	if (str_same(c->az->capacity, "mixed")) {
		return w->side == SIDE_SPOT && !w->zone;
	}
	return str_same(c->az->capacity, "sync");
}

/* Decides how the creation will end: code is the error, NULL = it will run. Returns false if it is
 * refused at once. */
static bool launch_decide(struct az_call *c, const struct az_want *w, const char **code,
    const char **message)
{
	*code = *message = NULL;
	if (c->az->fail_code && c->az->fail_count != 0) {
		if (c->az->fail_count > 0) {
			c->az->fail_count--;
		}
		*code = c->az->fail_code;
		*message = c->az->fail_message ? c->az->fail_message : "The operation failed.";
		return true;
	}
	if (w->reserved || pool_free(w->pool, w->side) > 0) {
		return true;
	}
	if (told_at_once(c, w)) {
		sku_not_available(c, w);
		return false;
	}
	*code = async_code(w);
	*message = async_message(c->rq->arena, w);
	return true;
}

/* ---- creating -------------------------------------------------------------------------------- */

static void inst_make(struct az_call *c, struct az_res *r, const struct az_want *w)
{
	/* A VM that is started again is another instance to us; its vmId stays. */
	const char *id = inst_find(c->rq->sim, r->vm_id)
	    ? arena_printf(c->rq->arena, "%s-%" PRIu64, r->vm_id, (uint64_t)c->rq->sim->inst_seq)
	    : r->vm_id;
	struct inst *i = inst_new(c->rq->sim, w->pool, w->side, id);
	const char *key;
	json_t *v;

	i->own = r;
	r->inst = i;
	if (w->reserved) { /* reserved capacity is none of the pool's */
		i->counted = false;
		i->pool->used[i->side]--;
	}
	i->name = dup_text(r->name);
	i->account = dup_text(AZ_SUBSCRIPTION);
	i->reservation = dup_text(r->id); /* outlives the resource */
	i->hostname = dup_text(r->name);
	i->max_price = w->max_price > 0 ? w->max_price : 0;
	if (w->user_data_n > 0) {
		i->user_data = malloc(w->user_data_n + 1);
		if (!i->user_data) {
			abort();
		}
		memcpy(i->user_data, w->user_data, w->user_data_n);
		i->user_data[w->user_data_n] = '\0';
		i->user_data_n = w->user_data_n;
	}
	json_object_foreach (json_object_get(r->asked, "tags"), key, v) {
		inst_tag_set(&i->tags, &i->tags_n, key, json_string_value(v));
	}
	inst_start(i);
}

static json_t *member_get(json_t *o, const char *a, const char *b)
{
	return json_object_get(json_object_get(json_object_get(o, "properties"), a), b);
}

static void parts_make(struct az_call *c, struct az_res *r)
{
	size_t k;
	json_t *item;

	json_array_foreach (member_get(r->asked, "networkProfile",
				"networkInterfaceConfigurations"),
	    k, item) {
		az_nic_make(c, r, item);
	}
	json_array_foreach (member_get(r->asked, "networkProfile", "networkInterfaces"), k, item) {
		struct az_res *nic =
		    az_by_id(c->az, json_string_value(json_object_get(item, "id")));
		const json_t *p = json_object_get(item, "properties");

		nic->owner = r;
		nic->delete_with =
		    az_same(json_string_value(json_object_get(p, "deleteOption")), "Delete");
	}
	az_disk_make(c, r, member_get(r->asked, "storageProfile", "osDisk"), true, 0);
	json_array_foreach (member_get(r->asked, "storageProfile", "dataDisks"), k, item) {
		az_disk_make(c, r, item, false,
		    (int)json_integer_value(json_object_get(item, "lun")));
	}
}

static void vm_create(struct az_call *c, struct az_res *r, const struct az_want *w,
    const char *code, const char *message)
{
	struct sim *s = c->rq->sim;
	bool again = r != NULL;

	if (!again) {
		r = az_new(s, AZ_VM, az_find(c->az, AZ_GROUP, NULL, c->group)->name, c->name,
		    w->location, json_object());
		r->asked = json_deep_copy(c->doc);
		az_guid(s, r->vm_id);
	}
	r->state = "Creating";
	free(r->fail_code);
	free(r->fail_message);
	r->fail_code = dup_text(code);
	r->fail_message = dup_text(message);
	r->due_us = sim_wall(s) + s->conf.boot_us;
	az_op_new(c, r, false);
	if (!code) {
		inst_make(c, r, w);
	}
	if (!again) {
		parts_make(c, r);
	}
	books_launch(s, CLOUD_AZURE, r->name, r->group, NULL, w->pool, w->side, code, &r->inst,
	    r->inst ? 1 : 0, false);
	az_op_headers(c, r->op);
	az_send(c, again ? 200 : 201, az_vm_view(s, r, false));
}

static void put_repeated(struct az_call *c, struct az_res *r)
{
	const char *what = az_changed(r->asked, c->doc, c->rq->arena);

	if (str_same(r->state, "Deleting")) {
		az_fail(c, 409, "OperationNotAllowed",
		    "The VM '%s' is being deleted: an operation on it is in progress.", r->name);
		return;
	}
	if (what) {
		az_fail(c, 409, "PropertyChangeNotAllowed",
		    "Changing property '%s' is not allowed.",
		    str_prefix(what, "properties.") ? what + strlen("properties.") : what);
		return;
	}
	if (json_object_get(c->doc, "tags")) {
		json_object_set(r->asked, "tags", json_object_get(c->doc, "tags"));
	}
	if (str_same(r->state, "Creating")) {
		az_op_headers(c, r->op);
	}
	az_send(c, 200, az_vm_view(c->rq->sim, r, false));
}

static void vm_put(struct az_call *c, struct az_res *r)
{
	const char *none = req_header(c->rq, "if-none-match"),
		   *match = req_header(c->rq, "if-match"), *code, *message;
	struct az_want w = { 0 };

	if (!az_group_for_write(c) || !az_need_doc(c) || !az_schema_check(c)) {
		return;
	}
	if (r && str_same(none, "*")) {
		az_fail(c, 412, "PreconditionFailed",
		    "The resource '%s' exists and the request has the header If-None-Match: *.",
		    r->id);
		return;
	}
	if (match && !(r && (str_same(match, "*") || str_same(match, AZ_ETAG)))) {
		az_fail(c, 412, "PreconditionFailed",
		    "The etag of the request's If-Match is not the resource's.");
		return;
	}
	if (!az_vm_check(c, &w)) {
		return;
	}
	if (r && (!str_same(r->state, "Failed") || az_changed(r->asked, c->doc, c->rq->arena))) {
		put_repeated(c, r);
		return;
	}
	w.pool = market_pool(c->rq->sim->market, CLOUD_AZURE, w.location,
	    w.zone ? market_zone(c->rq->sim->market, w.location, w.zone) : NULL, w.type->name);
	if (!w.pool || az_restricted(c->rq->sim, w.location, w.type->name, w.zone) ||
	    !w.pool->price[w.side].sold) {
		sku_not_available(c, &w);
		return;
	}
	if (!az_reserved_take(c, &w)) {
		return;
	}
	if (!az_quota_check(c, &w) || !price_good(c, &w) ||
	    !launch_decide(c, &w, &code, &message)) {
		books_launch(c->rq->sim, CLOUD_AZURE, c->name, c->group, NULL, w.pool, w.side,
		    c->rep->code, NULL, 0, false);
		return;
	}
	vm_create(c, r, &w, code, message);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void not_found(struct az_call *c)
{
	if (!az_find(c->az, AZ_GROUP, NULL, c->group)) {
		az_fail(c, 404, "ResourceGroupNotFound", "Resource group '%s' could not be found.",
		    c->group);
	} else {
		az_fail(c, 404, "ResourceNotFound",
		    "The Resource 'Microsoft.Compute/virtualMachines/%s' under resource group '%s' "
		    "was not found. "
		    "For more details please go to https://aka.ms/ARMResourceNotFoundFix",
		    c->name, c->group);
	}
}

static void vm_drop(struct az_call *c, struct az_res *r)
{
	struct az_op *before;

	if (!r) {
		reply_set(c->rep, 204, NULL, NULL, 0);
		return;
	}
	before = r->op;
	if (c->rq->sim->pretend) {
		az_op_end(c->rq->sim, az_op_new(c, r, true), "Succeeded", NULL, NULL);
	} else if (!str_same(r->state, "Deleting")) {
		az_op_end(c->rq->sim, before, "Canceled", "OperationPreempted",
		    "The operation has been preempted by a more recent operation.");
		az_op_new(c, r, true);
		az_vm_delete(c->rq->sim, r);
	}
	reply_set(c->rep, 202, NULL, NULL, 0);
	if (r->op) {
		az_op_headers(c, r->op);
	}
	if (c->rq->sim->pretend) {
		r->op = before;
	}
}

/* From deallocated it is allocated anew, like a create. */
static void vm_start(struct az_call *c, struct az_res *r)
{
	struct az_want w = { 0 };
	const char *code = NULL, *message = NULL;

	if (!r->inst) {
		c->doc = json_deep_copy(r->asked);
		if (!az_vm_check(c, &w)) {
			return;
		}
		w.pool = market_pool(c->rq->sim->market, CLOUD_AZURE, w.location,
		    w.zone ? market_zone(c->rq->sim->market, w.location, w.zone) : NULL,
		    w.type->name);
		if (!az_quota_check(c, &w) || !price_good(c, &w) ||
		    !launch_decide(c, &w, &code, &message)) {
			return;
		}
	}
	az_op_new(c, r, false);
	az_op_headers(c, r->op);
	reply_set(c->rep, 202, NULL, NULL, 0);
	if (code) {
		az_op_end(c->rq->sim, r->op, "Failed", code, message);
		return;
	}
	r->stopped = r->deallocated = false;
	if (!r->inst) {
		inst_make(c, r, &w);
	} else {
		az_op_end(c->rq->sim, r->op, "Succeeded", NULL, NULL);
	}
}

static void vm_act(struct az_call *c, struct az_res *r)
{
	struct sim *s = c->rq->sim;

	if (az_same(c->child, "simulateEviction")) {
		if (!r->inst || r->inst->side != SIDE_SPOT) {
			az_fail(c, 409, "OperationNotAllowed",
			    "Simulate eviction is supported only for Azure Spot Virtual Machines "
			    "that run.");
			return;
		}
		inst_reclaim(r->inst, 30 * SPOT_US_PER_S, 0, false);
		reply_set(c->rep, 204, NULL, NULL, 0);
	} else if (az_same(c->child, "deallocate")) {
		az_op_new(c, r, true);
		az_op_headers(c, r->op);
		r->deallocated = true;
		/* The operation is over when the machine is off its host. */
		if (r->inst) {
			inst_end(r->inst, "api", "Deallocate", "Deallocated by the user");
		} else {
			az_op_end(s, r->op, "Succeeded", NULL, NULL);
		}
		reply_set(c->rep, 202, NULL, NULL, 0);
	} else if (az_same(c->child, "start") || az_same(c->child, "restart")) {
		if (r->inst ? r->deallocated
			    : az_same(c->child, "restart") || !str_same(r->state, "Succeeded")) {
			az_fail(c, 409, "OperationNotAllowed",
			    "The VM '%s' is not in a state for that.", r->name);
		} else {
			vm_start(c, r);
		}
	} else if (az_same(c->child, "powerOff")) {
		/* Still allocated, and billed. */
		r->stopped = r->inst != NULL;
		az_op_new(c, r, false);
		az_op_headers(c, r->op);
		az_op_end(s, r->op, "Succeeded", NULL, NULL);
		reply_set(c->rep, 202, NULL, NULL, 0);
	} else if (!az_vm_action(c, r)) {
		az_fail(c, 404, "NotFound", "The action '%s' does not exist.", c->child);
	}
}

/* The tags; the size and the cap of a deallocated VM. */
static void vm_patch(struct az_call *c, struct az_res *r)
{
	static const char *const can[] = { "hardwareProfile", "billingProfile" };
	const json_t *p = json_object_get(c->doc, "properties");
	json_t *to = json_object_get(r->asked, "properties");

	for (size_t k = 0; k < ARRAY_LEN(can); k++) {
		json_t *v = json_object_get(p, can[k]);

		if (!v || json_equal(v, json_object_get(to, can[k]))) {
			continue;
		}
		if (!r->deallocated) {
			az_fail(c, 409,
			    k == 0 ? "OperationNotAllowed"
				   : "MaxPriceChangeNotAllowedForAllocatedVMs",
			    "The %s of VM '%s' cannot be changed while it is allocated.", can[k],
			    r->name);
			return;
		}
		json_object_set_new(to, can[k], json_deep_copy(v));
	}
	if (json_object_get(p, "priority") &&
	    !json_equal(json_object_get(p, "priority"), json_object_get(to, "priority"))) {
		az_fail(c, 409, "PropertyChangeNotAllowed",
		    "Changing property 'priority' is not allowed.");
		return;
	}
	if (az_tags_patch(c, r->asked)) {
		az_send(c, 200, az_vm_view(c->rq->sim, r, false));
	}
}

void az_vm(struct az_call *c)
{
	struct az_res *r = az_find(c->az, AZ_VM, c->group, c->name);
	const char *m = c->rq->http->method, *expand = az_query(c, "$expand");

	if (r) {
		c->rq->region = r->location;
	}
	if (str_same(m, "PUT") && !c->child) {
		vm_put(c, r);
	} else if (str_same(m, "DELETE") && !c->child) {
		vm_drop(c, r);
	} else if (!r || !az_visible(c->rq->sim, r)) {
		not_found(c);
	} else if (str_same(m, "POST") && c->child) {
		vm_act(c, r);
	} else if (str_same(m, "PATCH") && !c->child) {
		if (az_group_for_write(c) && az_need_doc(c)) {
			vm_patch(c, r);
		}
	} else if (!str_same(m, "GET")) {
		az_fail(c, 405, "MethodNotAllowed", "The method is not allowed here.");
	} else if (az_same(c->child, "vmSizes")) {
		az_sizes_of(c, r->location);
	} else if (az_same(c->child, "instanceView")) {
		az_send(c, 200, az_instance_view(c->rq->sim, r));
	} else if (expand && !az_same(expand, "instanceView") && !az_same(expand, "userData")) {
		az_fail(c, 400, "InvalidParameter", "The value '%s' of $expand is not allowed.",
		    expand);
	} else {
		json_t *doc = az_vm_view(c->rq->sim, r, az_same(expand, "instanceView"));
		json_t *data = json_object_get(json_object_get(r->asked, "properties"), "userData");

		if (az_same(expand, "userData") && data) {
			json_object_set(json_object_get(doc, "properties"), "userData", data);
		}
		az_send(c, 200, doc);
	}
}

void az_vm_list(struct az_call *c)
{
	const char *expand = az_query(c, "$expand");
	bool view = az_same(az_query(c, "statusOnly"), "true") || az_same(expand, "instanceView");
	json_t *list;

	if (c->group && !az_find(c->az, AZ_GROUP, NULL, c->group)) {
		not_found(c);
		return;
	}
	list = json_array();
	for (const struct az_res *r = c->az->res; r; r = r->next) {
		if (r->kind == AZ_VM && az_visible(c->rq->sim, r) &&
		    (!c->group || az_same(c->group, r->group))) {
			json_array_append_new(list, az_vm_view(c->rq->sim, r, view));
		}
	}
	az_list(c, list);
}
