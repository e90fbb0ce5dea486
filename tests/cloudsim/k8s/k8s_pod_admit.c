/* Admission of a Pod: its service account exists, and it fits the namespace's quota. */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

/* A pod's request of a quota's resource, in thousandths. */
static int64_t quota_ask(const json_t *pod, const char *resource)
{
	const char *name = str_prefix(resource, "requests.") ? resource + 9
	    : str_prefix(resource, "limits.")                ? resource + 7
							     : resource;
	const char *part =
	    str_prefix(resource, "limits.") ? "resources.limits" : "resources.requests";
	int64_t sum = 0, v;
	size_t k;
	json_t *c;

	if (str_same(resource, "pods") || str_same(resource, "count/pods")) {
		return 1000;
	}
	json_array_foreach (k_at(pod, "spec.containers"), k, c) {
		if (k_quantity(json_object_get(k_at(c, part), name), &v)) {
			sum += v;
		}
	}
	return sum;
}

static bool quota_fits(struct k8s_call *q, const struct k8s_obj *quota, const json_t *pod)
{
	const char *resource;
	json_t *hard;

	json_object_foreach (k_at(quota->doc, "spec.hard"), resource, hard) {
		int64_t most, used = 0, ask = quota_ask(pod, resource);

		for (const struct k8s_obj *o = q->c->objs[K8S_POD]; o; o = o->next) {
			const char *phase = k_str(o->doc, "status.phase");

			if (str_same(o->ns, q->ns) && !str_same(phase, "Succeeded") &&
			    !str_same(phase, "Failed")) {
				used += quota_ask(o->doc, resource);
			}
		}
		if (!k_quantity(hard, &most) || ask == 0 || used + ask <= most) {
			continue;
		}
		k8s_fail(q, 403, "Forbidden",
		    "pods \"%s\" is forbidden: exceeded quota: %s, requested: %s=%" PRId64
		    ", used: %s=%" PRId64 ", limited: %s=%" PRId64,
		    q->name, quota->name, resource, ask / 1000, resource, used / 1000, resource,
		    most / 1000);
		return false;
	}
	return true;
}

bool pod_admit(struct k8s_call *q, json_t *doc)
{
	const char *account = k_str(doc, "spec.serviceAccountName");

	if (!k8s_find(q->c, K8S_SERVICE_ACCOUNT, q->ns, account)) {
		k8s_fail(q, 403, "Forbidden",
		    "pods \"%s\" is forbidden: error looking up service account %s/%s: "
		    "serviceaccount \"%s\" not found",
		    q->name, q->ns, account, account);
		return false;
	}
	for (const struct k8s_obj *o = q->c->objs[K8S_QUOTA]; o; o = o->next) {
		if (str_same(o->ns, q->ns) && !quota_fits(q, o, doc)) {
			return false;
		}
	}
	return true;
}
