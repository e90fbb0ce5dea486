/*
 * Pods: the server's defaults and refusals. The words are those of the API server's validation.
 */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

/* ---- metadata of any kind -------------------------------------------------------------------- */

#define SUBDOMAIN_WORDS \
	"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' " \
	"or '.', and must start and end with an alphanumeric character"
#define LABEL_WORDS \
	"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', " \
	"and must start and end with an alphanumeric character"

static void labels_check(const json_t *labels, const char *field, json_t *causes)
{
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)labels, key, v) {
		const char *text = json_string_value(v);

		if (!k_label_name(key)) {
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: \"%s\": name part must consist of alphanumeric "
			    "characters, '-', '_' or '.', and must start and end with an "
			    "alphanumeric character",
			    key);
		}
		if (text && strlen(text) > 63) {
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: \"%s\": must be no more than 63 bytes", text);
		} else if (text && !k_label_value(text)) {
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: \"%s\": a valid label must be an empty string or "
			    "consist "
			    "of alphanumeric characters, '-', '_' or '.', and must start and end "
			    "with an alphanumeric character",
			    text);
		}
	}
}

void meta_check(const struct k8s_kind *kind, const json_t *doc, json_t *causes)
{
	const char *name = k_str(doc, "metadata.name"), *key;
	bool label = kind->id == K8S_NAMESPACE;
	size_t n = 0;
	json_t *v;

	if (!name || !*name) {
		cause_add(causes, "FieldValueRequired", "metadata.name",
		    "Required value: name or generateName is required");
	} else if (label ? !k_dns_label(name) : !k_dns_subdomain(name)) {
		cause_add(causes, "FieldValueInvalid", "metadata.name", "Invalid value: \"%s\": %s",
		    name, label ? LABEL_WORDS : SUBDOMAIN_WORDS);
	}
	labels_check(k_at(doc, "metadata.labels"), "metadata.labels", causes);
	json_object_foreach (k_at(doc, "metadata.annotations"), key, v) {
		if (!k_label_name(key)) {
			cause_add(causes, "FieldValueInvalid", "metadata.annotations",
			    "Invalid value: \"%s\": name part must consist of alphanumeric "
			    "characters, '-', '_' or '.', and must start and end with an "
			    "alphanumeric character",
			    key);
		}
		n += strlen(key) + json_string_length(v);
	}
	if (n > 262144) {
		cause_add(causes, "FieldValueTooLong", "metadata.annotations",
		    "Too long: may not be more than 262144 bytes");
	}
}

/* ---- defaults -------------------------------------------------------------------------------- */

static void container_defaults(json_t *c)
{
	const char *image = k_str(c, "image"), *key, *tag = image ? strrchr(image, ':') : NULL;
	json_t *limits = k_at(c, "resources.limits"), *requests, *v;
	bool latest =
	    image && !strchr(image, '@') && (!tag || strchr(tag, '/') || str_same(tag, ":latest"));

	k_default(c, "terminationMessagePath", json_string("/dev/termination-log"));
	k_default(c, "terminationMessagePolicy", json_string("File"));
	k_default(c, "imagePullPolicy", json_string(latest ? "Always" : "IfNotPresent"));
	k_obj(c, "resources");
	if (!limits) {
		return;
	}
	requests = k_obj(k_obj(c, "resources"), "requests");
	json_object_foreach (limits, key, v) {
		if (!json_object_get(requests, key)) {
			json_object_set(requests, key, v);
		}
	}
}

static void toleration_add(json_t *spec, const char *key)
{
	json_t *all = k_arr(spec, "tolerations"), *t;
	size_t k;

	json_array_foreach (all, k, t) {
		const char *had = k_str(t, "key"), *effect = k_str(t, "effect");

		if ((!had || !*had || str_same(had, key)) &&
		    (!effect || !*effect || str_same(effect, "NoExecute"))) {
			return;
		}
	}
	json_array_append_new(all,
	    json_pack("{s:s, s:s, s:s, s:i}", "key", key, "operator", "Exists", "effect",
		"NoExecute", "tolerationSeconds", 300));
}

/* The volume with which a container reaches the API server, unless it is switched off. */
static void api_access(struct k8s_cluster *c, json_t *spec, const char *account)
{
	const struct k8s_obj *o = NULL;
	json_t *mounts, *x;
	char hex[9], name[32];
	size_t k;

	for (o = c->objs[K8S_SERVICE_ACCOUNT]; o && !str_same(o->name, account); o = o->next)
		;
	if (json_is_false(k_at(spec, "automountServiceAccountToken")) ||
	    (!k_at(spec, "automountServiceAccountToken") && o &&
		json_is_false(k_at(o->doc, "automountServiceAccountToken")))) {
		return;
	}
	rng_hex(&c->sim->rng, hex, 4);
	snprintf(name, sizeof(name), "kube-api-access-%.5s", hex);
	json_array_append_new(k_arr(spec, "volumes"),
	    json_pack("{s:s, s:{s:[{s:{s:i, s:s}}, {s:{s:s, s:[{s:s, s:s}]}}, "
		      "{s:{s:[{s:s, s:{s:s, s:s}}]}}], s:i}}",
		"name", name, "projected", "sources", "serviceAccountToken", "expirationSeconds",
		3607, "path", "token", "configMap", "name", "kube-root-ca.crt", "items", "key",
		"ca.crt", "path", "ca.crt", "downwardAPI", "items", "path", "namespace", "fieldRef",
		"apiVersion", "v1", "fieldPath", "metadata.namespace", "defaultMode", 420));
	json_array_foreach (k_at(spec, "containers"), k, x) {
		mounts = k_arr(x, "volumeMounts");
		json_array_append_new(mounts,
		    json_pack("{s:s, s:b, s:s}", "name", name, "readOnly", 1, "mountPath",
			"/var/run/secrets/kubernetes.io/serviceaccount"));
	}
}

static const char *qos_of(const json_t *spec)
{
	bool any = false, all = true;
	size_t k;
	json_t *c;

	json_array_foreach (k_at(spec, "containers"), k, c) {
		const json_t *l = k_at(c, "resources.limits"), *r = k_at(c, "resources.requests");

		any = any || k_at(l, "cpu") || k_at(l, "memory") || k_at(r, "cpu") ||
		    k_at(r, "memory");
		all = all && k_at(l, "cpu") && k_at(l, "memory") &&
		    json_equal(k_at(l, "cpu"), k_at(r, "cpu")) &&
		    json_equal(k_at(l, "memory"), k_at(r, "memory"));
	}
	return !any ? "BestEffort" : all ? "Guaranteed" : "Burstable";
}

static void volume_defaults(json_t *spec)
{
	json_t *v, *s;
	size_t k, i;

	json_array_foreach (k_at(spec, "volumes"), k, v) {
		json_t *p = k_at(v, "projected");

		if (!p) {
			continue;
		}
		k_default(p, "defaultMode", json_integer(420));
		json_array_foreach (k_at(p, "sources"), i, s) {
			if (k_at(s, "serviceAccountToken")) {
				k_default(k_at(s, "serviceAccountToken"), "expirationSeconds",
				    json_integer(3600));
			}
		}
	}
}

/* Of the admission, at every change too (plugin DefaultTolerationSeconds). */
void pod_tolerates(json_t *doc)
{
	json_t *spec = k_obj(doc, "spec");

	toleration_add(spec, "node.kubernetes.io/not-ready");
	toleration_add(spec, "node.kubernetes.io/unreachable");
}

void pod_defaults(struct k8s_cluster *c, json_t *doc)
{
	json_t *spec = k_obj(doc, "spec"), *x, *status;
	const char *account;
	size_t k;

	k_default(spec, "restartPolicy", json_string("Always"));
	k_default(spec, "dnsPolicy", json_string("ClusterFirst"));
	k_default(spec, "terminationGracePeriodSeconds", json_integer(30));
	k_default(spec, "schedulerName", json_string("default-scheduler"));
	k_default(spec, "enableServiceLinks", json_true());
	k_default(spec, "preemptionPolicy", json_string("PreemptLowerPriority"));
	k_default(spec, "priority", json_integer(0));
	k_default(spec, "serviceAccountName",
	    json_string(k_str(spec, "serviceAccount") ? k_str(spec, "serviceAccount") : "default"));
	account = k_str(spec, "serviceAccountName");
	k_set(spec, "serviceAccount", account);
	k_obj(spec, "securityContext");
	json_array_foreach (k_at(spec, "containers"), k, x) {
		container_defaults(x);
	}
	json_array_foreach (k_at(spec, "initContainers"), k, x) {
		container_defaults(x);
	}
	volume_defaults(spec);
	pod_tolerates(doc);
	api_access(c, spec, account);
	status = k_obj(doc, "status");
	k_set(status, "phase", "Pending");
	k_set(status, "qosClass", qos_of(spec));
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool one_of(const char *v, const char *words)
{
	char text[300], find[80];

	snprintf(text, sizeof(text), " %s ", words);
	snprintf(find, sizeof(find), " %s ", v);
	return strstr(text, find) != NULL;
}

static void enum_check(const json_t *o, const char *key, const char *field, const char *words,
    json_t *causes)
{
	const char *v = k_str(o, key);
	char quoted[400];
	size_t n = 0;

	if (!v || one_of(v, words)) {
		return;
	}
	quoted[0] = '\0';
	for (const char *p = words; *p;) {
		size_t w = strcspn(p, " ");

		n += (size_t)snprintf(quoted + n, sizeof(quoted) - n, "%s\"%.*s\"", n ? ", " : "",
		    (int)w, p);
		p += w + (p[w] != '\0');
	}
	cause_add(causes, "FieldValueNotSupported", field,
	    "Unsupported value: \"%s\": supported values: %s", v, quoted);
}

static void resources_check(const json_t *c, size_t at, json_t *causes)
{
	const json_t *limits = k_at(c, "resources.limits"),
		     *requests = k_at(c, "resources.requests");
	char field[200];
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)requests, key, v) {
		const json_t *l = json_object_get(limits, key);
		int64_t want = 0, most = 0;
		bool extended = strchr(key, '/') != NULL;

		snprintf(field, sizeof(field), "spec.containers[%zu].resources.%s", at,
		    l ? "requests" : "limits");
		if (!k_quantity(v, &want)) {
			continue; /* the schema has said so */
		}
		if (extended && want % 1000) {
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: \"%s\": must be an integer", json_string_value(v));
		}
		if (extended && !l) {
			cause_add(causes, "FieldValueRequired", field,
			    "Required value: Limit must be set for non overcommitable resources");
		}
		if (!l || !k_quantity(l, &most)) {
			continue;
		}
		if (extended && want != most) {
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: \"%" PRId64 "\": must be equal to %s limit of %" PRId64,
			    want / 1000, key, most / 1000);
		} else if (want > most) {
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: \"%s\": must be less than or equal to %s limit of %s",
			    json_string_value(v), key, json_string_value(l));
		}
	}
}

static bool has_volume(const json_t *spec, const char *name)
{
	size_t k;
	json_t *v;

	json_array_foreach (k_at(spec, "volumes"), k, v) {
		if (str_same(k_str(v, "name"), name)) {
			return true;
		}
	}
	return false;
}

static void mounts_check(const json_t *spec, const json_t *c, size_t at, json_t *causes)
{
	char field[200];
	size_t k, i;
	json_t *m, *n;

	json_array_foreach (k_at(c, "volumeMounts"), k, m) {
		const char *name = k_str(m, "name") ? k_str(m, "name") : "";

		if (!has_volume(spec, name)) {
			snprintf(field, sizeof(field),
			    "spec.containers[%zu].volumeMounts[%zu].name", at, k);
			cause_add(causes, "FieldValueNotFound", field, "Not found: \"%s\"", name);
		}
		json_array_foreach (k_at(c, "volumeMounts"), i, n) {
			if (i >= k ||
			    !json_equal(json_object_get(m, "mountPath"),
				json_object_get(n, "mountPath"))) {
				continue;
			}
			snprintf(field, sizeof(field),
			    "spec.containers[%zu].volumeMounts[%zu].mountPath", at, k);
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: \"%s\": must be unique", k_str(m, "mountPath"));
		}
	}
}

static void container_check(const json_t *spec, const json_t *c, size_t at, json_t *causes)
{
	const char *name = k_str(c, "name") ? k_str(c, "name") : "";
	char field[200];
	size_t k;
	json_t *x;

	snprintf(field, sizeof(field), "spec.containers[%zu].name", at);
	if (!k_dns_label(name)) {
		cause_add(causes, "FieldValueInvalid", field, "Invalid value: \"%s\": %s", name,
		    LABEL_WORDS);
	}
	for (k = 0; k < at; k++) {
		if (str_same(k_str(json_array_get(k_at(spec, "containers"), k), "name"), name)) {
			cause_add(causes, "FieldValueDuplicate", field, "Duplicate value: \"%s\"",
			    name);
		}
	}
	snprintf(field, sizeof(field), "spec.containers[%zu].image", at);
	if (!k_str(c, "image") || !*k_str(c, "image")) {
		cause_add(causes, "FieldValueRequired", field, "Required value");
	}
	snprintf(field, sizeof(field), "spec.containers[%zu].imagePullPolicy", at);
	enum_check(c, "imagePullPolicy", field, "Always IfNotPresent Never", causes);
	json_array_foreach (k_at(c, "env"), k, x) {
		snprintf(field, sizeof(field), "spec.containers[%zu].env[%zu]", at, k);
		if (!k_str(x, "name") || !*k_str(x, "name") || strchr(k_str(x, "name"), '=')) {
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: a valid environment variable name must consist only of "
			    "printable ASCII characters other than '='");
		}
		if (k_at(x, "value") && *k_str(x, "value") && k_at(x, "valueFrom")) {
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: \"\": may not be specified when `value` is not empty");
		}
	}
	resources_check(c, at, causes);
	mounts_check(spec, c, at, causes);
}

static void volume_check(const json_t *spec, const json_t *v, size_t at, json_t *causes)
{
	const char *name = k_str(v, "name") ? k_str(v, "name") : "";
	char field[200];
	size_t k;
	json_t *s;

	snprintf(field, sizeof(field), "spec.volumes[%zu].name", at);
	if (!k_dns_label(name)) {
		cause_add(causes, "FieldValueInvalid", field, "Invalid value: \"%s\": %s", name,
		    LABEL_WORDS);
	}
	for (k = 0; k < at; k++) {
		if (str_same(k_str(json_array_get(k_at(spec, "volumes"), k), "name"), name)) {
			cause_add(causes, "FieldValueDuplicate", field, "Duplicate value: \"%s\"",
			    name);
		}
	}
	if (json_object_size(v) > 2) {
		cause_add(causes, "FieldValueForbidden", field,
		    "Forbidden: may not specify more than 1 volume type");
	}
	json_array_foreach (k_at(v, "projected.sources"), k, s) {
		int64_t life = k_int(s, "serviceAccountToken.expirationSeconds", 3600);

		snprintf(field, sizeof(field),
		    "spec.volumes[%zu].projected.sources[%zu].serviceAccountToken."
		    "expirationSeconds",
		    at, k);
		if (life < 600) {
			cause_add(causes, "FieldValueInvalid", field,
			    "Invalid value: %" PRId64 ": may not specify a duration less than 10 "
			    "minutes",
			    life);
		}
	}
}

static void toleration_check(const json_t *t, size_t at, json_t *causes)
{
	const char *op = k_str(t, "operator"), *effect = k_str(t, "effect");
	char field[200];

	snprintf(field, sizeof(field), "spec.tolerations[%zu].operator", at);
	enum_check(t, "operator", field, "Equal Exists", causes);
	if (str_same(op, "Exists") && k_str(t, "value") && *k_str(t, "value")) {
		cause_add(causes, "FieldValueInvalid", field,
		    "Invalid value: \"%s\": value must be empty when `operator` is 'Exists'",
		    k_str(t, "value"));
	}
	if ((!k_str(t, "key") || !*k_str(t, "key")) && !str_same(op, "Exists")) {
		cause_add(causes, "FieldValueInvalid", field,
		    "Invalid value: \"%s\": operator must be Exists when `key` is empty, which "
		    "means "
		    "\"match all values and all keys\"",
		    op ? op : "");
	}
	snprintf(field, sizeof(field), "spec.tolerations[%zu].effect", at);
	enum_check(t, "effect", field, "NoSchedule PreferNoSchedule NoExecute", causes);
	if (k_at(t, "tolerationSeconds") && !str_same(effect, "NoExecute")) {
		cause_add(causes, "FieldValueInvalid", field,
		    "Invalid value: \"%s\": effect must be 'NoExecute' when `tolerationSeconds` is "
		    "set",
		    effect ? effect : "");
	}
}

void pod_check(const json_t *doc, json_t *causes)
{
	const json_t *spec = k_at(doc, "spec"), *all = k_at(spec, "containers");
	size_t k;
	json_t *x;

	if (json_array_size(all) == 0) {
		cause_add(causes, "FieldValueRequired", "spec.containers", "Required value");
	}
	json_array_foreach (all, k, x) {
		container_check(spec, x, k, causes);
	}
	json_array_foreach (k_at(spec, "volumes"), k, x) {
		volume_check(spec, x, k, causes);
	}
	json_array_foreach (k_at(spec, "tolerations"), k, x) {
		toleration_check(x, k, causes);
	}
	labels_check(k_at(spec, "nodeSelector"), "spec.nodeSelector", causes);
	enum_check(spec, "restartPolicy", "spec.restartPolicy", "Always OnFailure Never", causes);
	enum_check(spec, "dnsPolicy", "spec.dnsPolicy",
	    "ClusterFirst ClusterFirstWithHostNet Default None", causes);
	if (k_int(spec, "terminationGracePeriodSeconds", 0) < 0) {
		cause_add(causes, "FieldValueInvalid", "spec.terminationGracePeriodSeconds",
		    "Invalid value: must be greater than or equal to 0");
	}
	if (k_str(spec, "hostname") && !k_dns_label(k_str(spec, "hostname"))) {
		cause_add(causes, "FieldValueInvalid", "spec.hostname", "Invalid value: \"%s\": %s",
		    k_str(spec, "hostname"), LABEL_WORDS);
	}
	if (k_at(spec, "activeDeadlineSeconds") && k_int(spec, "activeDeadlineSeconds", 0) < 1) {
		cause_add(causes, "FieldValueInvalid", "spec.activeDeadlineSeconds",
		    "Invalid value: must be between 1 and 2147483647, inclusive");
	}
}

/* Of a Pod's spec only images, a deadline, tolerations (more of them) and gates may change. */
void pod_check_change(const json_t *was, const json_t *now, json_t *causes)
{
	json_t *a = json_deep_copy(k_at(was, "spec")), *b = json_deep_copy(k_at(now, "spec")), *c;
	json_t *pair[] = { a, b };
	size_t k, i;
	json_t *x;

	json_array_foreach (k_at(was, "spec.tolerations"), k, c) {
		bool kept = false;

		json_array_foreach (k_at(now, "spec.tolerations"), i, x) {
			kept = kept || json_equal(c, x) ||
			    (str_same(k_str(c, "key"), k_str(x, "key")) &&
				str_same(k_str(c, "effect"), k_str(x, "effect")) &&
				k_at(c, "tolerationSeconds") && k_at(x, "tolerationSeconds"));
		}
		if (!kept) {
			cause_add(causes, "FieldValueForbidden", "spec.tolerations",
			    "Forbidden: existing toleration can not be modified except its "
			    "tolerationSeconds");
		}
	}
	for (i = 0; i < ARRAY_LEN(pair); i++) {
		json_array_foreach (k_at(pair[i], "containers"), k, c) {
			json_object_del(c, "image");
		}
		json_object_del(pair[i], "activeDeadlineSeconds");
		json_object_del(pair[i], "tolerations");
		json_object_del(pair[i], "terminationGracePeriodSeconds");
	}
	if (!json_equal(a, b)) {
		cause_add(causes, "FieldValueForbidden", "spec",
		    "Forbidden: pod updates may not change fields other than "
		    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec."
		    "activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
		    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if "
		    "it was previously negative)");
	}
	json_decref(a);
	json_decref(b);
}
