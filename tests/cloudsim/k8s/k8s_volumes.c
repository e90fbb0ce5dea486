/*
 * Volumes of a Pod as folders below its own: projected service account tokens (signed, renewed),
 * the cluster's CA, downward API files, empty directories, host paths. There is no mount namespace.
 * So a path below a mount point, in a command or an environment value, becomes the path in that
 * folder.
 */
#include "base/base.h"
#include "cloudsim/coreweave/coreweave.h"
#include "base/text/text.h"

#include <ctype.h>
#include <sys/stat.h>

static const char *volume_dir(struct kubelet_pod *k, struct arena *a, const json_t *v)
{
	const char *host = k_str(v, "hostPath.path");

	return host ? arena_printf(a, "%s/host%s", k->home, host)
		    : arena_printf(a, "%s/volumes/%s", k->home, k_str(v, "name"));
}

static void file_put_text(struct arena *a, const char *dir, const char *file, const char *text)
{
	char *path = arena_printf(a, "%s/%s", dir, file), *slash = strrchr(path, '/');

	*slash = '\0';
	dir_make(path, 0755);
	*slash = '/';
	file_put(path, text, strlen(text), 0600);
}

/* ---- sources --------------------------------------------------------------------------------- */

static const char *put_token(struct kubelet_pod *k, struct arena *a, const char *dir,
    const json_t *source, int64_t *ret_renew_us)
{
	struct k8s_cluster *c = k->pod->c;
	const char *name = k_str(k->pod->doc, "spec.serviceAccountName"),
		   *audience = k_str(source, "audience");
	const struct k8s_obj *account = k8s_find(c, K8S_SERVICE_ACCOUNT, k->pod->ns, name);
	int64_t seconds = k_int(source, "expirationSeconds", 3600), renew;
	json_t *audiences;

	if (!account) {
		return arena_printf(a, "serviceaccounts \"%s\" not found", name);
	}
	if (c->token_s_max > 0) {
		seconds = MIN(seconds, c->token_s_max);
	}
	audiences = json_pack("[s]", audience && *audience ? audience : c->issuer);
	file_put_text(a, dir, k_str(source, "path"),
	    token_sign(c, a, account, k->pod, audiences, seconds));
	json_decref(audiences);
	/* The kubelet renews at 80 % of the life (core/v1 ServiceAccountTokenProjection). */
	renew = seconds * SPOT_US_PER_S / 10 * 8;
	*ret_renew_us = *ret_renew_us ? MIN(*ret_renew_us, renew) : renew;
	return NULL;
}

static const char *put_config_map(struct kubelet_pod *k, struct arena *a, const char *dir,
    const json_t *source)
{
	const char *name = k_str(source, "name");
	char path[4096];
	struct str ca;

	/* Each namespace has the cluster's CA; no other map can be made here. */
	if (!str_same(name, "kube-root-ca.crt")) {
		return k_true(source, "optional")
		    ? NULL
		    : arena_printf(a, "configmap \"%s\" not found", name ? name : "");
	}
	snprintf(path, sizeof(path), "%s/kube-ca.pem", k->sim->conf.dir);
	if (file_get(a, path, &ca)) {
		file_put_text(a, dir, "ca.crt", arena_strndup(a, ca.p, ca.n));
	}
	return NULL;
}

static const char *map_text(struct arena *a, const json_t *map)
{
	const char *text = "", *key;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)map, key, v) {
		text = arena_printf(a, "%s%s=\"%s\"\n", text, key, json_string_value(v));
	}
	return text;
}

static void put_downward(struct kubelet_pod *k, struct arena *a, const char *dir,
    const json_t *items)
{
	size_t i;
	json_t *x;

	json_array_foreach (items, i, x) {
		const char *field = k_str(x, "fieldRef.fieldPath");
		const json_t *v = field ? k_at(k->pod->doc, field) : NULL;

		if (k_str(x, "path")) {
			file_put_text(a, dir, k_str(x, "path"),
			    json_is_object(v)       ? map_text(a, v)
				: json_is_string(v) ? json_string_value(v)
						    : "");
		}
	}
}

static const char *put_projected(struct kubelet_pod *k, struct arena *a, const char *dir,
    const json_t *sources, int64_t *ret_renew_us)
{
	const char *why = NULL;
	size_t i;
	json_t *s;

	json_array_foreach (sources, i, s) {
		if (k_at(s, "serviceAccountToken")) {
			why = put_token(k, a, dir, k_at(s, "serviceAccountToken"), ret_renew_us);
		} else if (k_at(s, "configMap")) {
			why = put_config_map(k, a, dir, k_at(s, "configMap"));
		} else if (k_at(s, "downwardAPI")) {
			put_downward(k, a, dir, k_at(s, "downwardAPI.items"));
		} else if (k_at(s, "secret") && !k_true(s, "secret.optional")) {
			why = arena_printf(a, "secret \"%s\" not found", k_str(s, "secret.name"));
		}
		if (why) {
			return why;
		}
	}
	return NULL;
}

const char *volumes_fill(struct kubelet_pod *k, struct arena *a, int64_t *ret_renew_us)
{
	const char *why = NULL;
	size_t i;
	json_t *v;

	*ret_renew_us = 0;
	json_array_foreach (k_at(k->pod->doc, "spec.volumes"), i, v) {
		const char *dir = volume_dir(k, a, v);

		dir_make(dir, 0755);
		if (k_at(v, "projected")) {
			why = put_projected(k, a, dir, k_at(v, "projected.sources"), ret_renew_us);
		} else if (k_at(v, "configMap")) {
			why = put_config_map(k, a, dir, k_at(v, "configMap"));
		} else if (k_at(v, "downwardAPI")) {
			put_downward(k, a, dir, k_at(v, "downwardAPI.items"));
		} else if (k_at(v, "secret") && !k_true(v, "secret.optional")) {
			why = arena_printf(a, "secret \"%s\" not found",
			    k_str(v, "secret.secretName"));
		} else if (k_at(v, "persistentVolumeClaim")) {
			why = "persistentvolumeclaim not found";
		}
		if (why) {
			return arena_printf(a, "MountVolume.SetUp failed for volume \"%s\" : %s",
			    k_str(v, "name"), why);
		}
	}
	return NULL;
}

/* ---- paths ----------------------------------------------------------------------------------- */

static const char *mounted_at(struct kubelet_pod *k, struct arena *a, const json_t *mount)
{
	const char *sub = k_str(mount, "subPath");
	size_t i;
	json_t *v;

	json_array_foreach (k_at(k->pod->doc, "spec.volumes"), i, v) {
		if (str_same(k_str(v, "name"), k_str(mount, "name"))) {
			return sub ? arena_printf(a, "%s/%s", volume_dir(k, a, v), sub)
				   : volume_dir(k, a, v);
		}
	}
	return k->home;
}

/* The longest mount point that text begins with, as a whole path. */
static const json_t *mount_of(struct kubelet_pod *k, const char *text, size_t *ret_n)
{
	const json_t *c = json_array_get(k_at(k->pod->doc, "spec.containers"), 0);
	const json_t *best = NULL;
	size_t i;
	json_t *m;

	*ret_n = 0;
	json_array_foreach (k_at(c, "volumeMounts"), i, m) {
		const char *path = k_str(m, "mountPath");
		size_t n = path ? strlen(path) : 0;

		while (n > 1 && path[n - 1] == '/') {
			n--;
		}
		if (n > *ret_n && n > 1 && strncmp(text, path, n) == 0 &&
		    !(isalnum((unsigned char)text[n]) || (text[n] && strchr("_-.", text[n])))) {
			best = m;
			*ret_n = n;
		}
	}
	return best;
}

char *volumes_map(struct kubelet_pod *k, struct arena *a, const char *text)
{
	struct sbuf b AUTO(sbuf) = { 0 };

	sbuf_init(&b, 4 << 20);
	for (const char *p = text; *p;) {
		/* A path begins where nothing that belongs to a path stands before it. */
		bool begins = *p == '/' &&
		    (p == text || !(isalnum((unsigned char)p[-1]) || strchr("_-./}", p[-1])));
		size_t n = 0;
		const json_t *m = begins ? mount_of(k, p, &n) : NULL;

		if (m) {
			sbuf_puts(&b, mounted_at(k, a, m));
			p += n;
		} else {
			sbuf_putc(&b, *p++);
		}
	}
	return arena_strndup(a, b.p ? b.p : "", b.n);
}
