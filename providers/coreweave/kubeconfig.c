/*
 * A kubeconfig file (client-go tools/clientcmd/api/v1 types.go), as far as it leads to an address
 * and a credential. A file that would need a program (exec, auth-provider) or would weaken TLS is
 * refused, with the remedy.
 */
#include "base/base.h"
#include "coreweave_priv.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"

static const char *field_text(const struct yaml *map, const char *key)
{
	const struct yaml *y = yaml_get(map, key);

	return y != NULL && y->kind == YAML_SCALAR && !yaml_is_null(y) ? y->text : "";
}

/* [{"name": NAME, KEY: {...}}] -> {...} */
static const struct yaml *list_find(const struct yaml *root, const char *list, const char *name,
    const char *key)
{
	const struct yaml *items = yaml_get(root, list);

	if (items == NULL || items->kind != YAML_SEQ) {
		return NULL;
	}
	for (const struct yaml *i = items->child; i != NULL; i = i->next) {
		if (strcmp(field_text(i, "name"), name) == 0) {
			return yaml_get(i, key);
		}
	}
	return NULL;
}

static enum spot_rc field_refused(const struct yaml *map, const char *path, struct spot_err *err)
{
	static const struct {
		const char *key, *instead;
	} no[] = {
		{ "exec",
		    "it would run a program: put a service account token into 'token' or "
		    "'tokenFile' (kubectl create token), or set service_account" },
		{ "auth-provider",
		    "auth providers are gone from Kubernetes 1.26: use 'token' or 'tokenFile'" },
		{ "username",
		    "basic authentication is gone from Kubernetes 1.19: use 'token' or "
		    "'tokenFile'" },
		{ "as", "impersonation: give a credential of the account itself" },
		{ "as-uid", "impersonation: give a credential of the account itself" },
		{ "proxy-url", "set HTTPS_PROXY for the daemon instead" },
		{ "tls-server-name", "use the name of the certificate in 'server'" },
	};

	for (size_t i = 0; i < ARRAY_LEN(no); i++) {
		const struct yaml *y = yaml_get(map, no[i].key);

		if (y != NULL && !yaml_is_null(y)) {
			return err_set(err, SPOT_CONFIG, "%s, line %d: '%s' is not supported: %s",
			    path, y->key_line, no[i].key, no[i].instead);
		}
	}
	if (strcmp(field_text(map, "insecure-skip-tls-verify"), "true") == 0) {
		return err_set(err, SPOT_CONFIG,
		    "%s: insecure-skip-tls-verify is not supported: anybody could read the token; "
		    "give the cluster's "
		    "certificate-authority-data",
		    path);
	}
	return SPOT_OK;
}

static enum spot_rc field_pem(struct arena *a, const struct yaml *map, const char *key,
    const char *path, const char **ret, struct spot_err *err)
{
	const char *b64 = field_text(map, key);
	struct str out;

	*ret = NULL;
	if (b64[0] == '\0') {
		return SPOT_OK;
	}
	if (!base64_decode(a, b64, strlen(b64), &out) ||
	    memmem(out.p, out.n, "-----BEGIN", 10) == NULL) {
		return err_set(err, SPOT_CONFIG, "%s: %s is not the base64 of a PEM text", path,
		    key);
	}
	*ret = out.p;
	return SPOT_OK;
}

/* Relative to the kubeconfig's own folder. */
static const char *field_path(struct arena *a, const struct yaml *map, const char *key,
    const char *path)
{
	const char *f = field_text(map, key), *slash = strrchr(path, '/');

	if (f[0] == '\0' || f[0] == '/' || slash == NULL) {
		return arena_strdup(a, f);
	}
	return arena_printf(a, "%.*s/%s", (int)(slash - path), path, f);
}

static enum spot_rc user_read(struct arena *a, const struct yaml *user, const char *path,
    struct cw_kubeconfig *k, struct spot_err *err)
{
	enum spot_rc rc = field_refused(user, path, err);

	rc = rc != SPOT_OK ? rc
			   : field_pem(a, user, "client-certificate-data", path, &k->cert_pem, err);
	rc = rc != SPOT_OK ? rc : field_pem(a, user, "client-key-data", path, &k->key_pem, err);
	k->token = arena_strdup(a, field_text(user, "token"));
	k->token_file = field_path(a, user, "tokenFile", path);
	k->cert_file = k->cert_pem == NULL ? field_path(a, user, "client-certificate", path) : "";
	k->key_file = k->key_pem == NULL ? field_path(a, user, "client-key", path) : "";
	if (rc == SPOT_OK &&
	    (k->cert_pem != NULL || k->cert_file[0] != '\0') !=
		(k->key_pem != NULL || k->key_file[0] != '\0')) {
		rc = err_set(err, SPOT_CONFIG,
		    "%s: client-certificate and client-key go together: one of them is missing",
		    path);
	}
	if (rc == SPOT_OK && k->token[0] == '\0' && k->token_file[0] == '\0' &&
	    k->cert_pem == NULL && k->cert_file[0] == '\0') {
		rc = err_set(err, SPOT_CONFIG,
		    "%s: the context's user has no token, tokenFile or client certificate", path);
	}
	return rc;
}

static enum spot_rc cluster_read(struct arena *a, const struct yaml *cluster, const char *path,
    struct cw_kubeconfig *k, struct spot_err *err)
{
	const char *url = field_text(cluster, "server");
	size_t n = strlen(url);
	enum spot_rc rc = field_refused(cluster, path, err);

	rc = rc != SPOT_OK
	    ? rc
	    : field_pem(a, cluster, "certificate-authority-data", path, &k->ca_pem, err);
	k->ca_file = k->ca_pem == NULL ? field_path(a, cluster, "certificate-authority", path) : "";
	while (n > 0 && url[n - 1] == '/') {
		n--;
	}
	k->server = arena_strndup(a, url, n);
	if (rc == SPOT_OK && !cw_server_ok(k->server)) {
		rc = err_set(err, SPOT_CONFIG, "%s: server '%.100s' is not an https:// address",
		    path, url);
	}
	return rc;
}

enum spot_rc cw_kubeconfig_read(struct arena *a, struct str body, const char *path,
    const char *context, struct cw_kubeconfig *ret, struct spot_err *err)
{
	struct yaml **docs = NULL;
	size_t n = 0;
	const struct yaml *ctx, *cluster, *user;
	struct spot_err e = { 0 };
	enum spot_rc rc = yaml_parse(a, body, &docs, &n, &e);

	if (rc != SPOT_OK || n != 1) {
		/* The parser's words may quote the line, and that may be a token. */
		return err_set(err, SPOT_CONFIG, "%s: not a kubeconfig: %s", path,
		    rc != SPOT_OK ? "not valid YAML (or with anchors or tags)"
				  : "not exactly one document");
	}
	if (context == NULL) {
		context = field_text(docs[0], "current-context");
	}
	if (context[0] == '\0') {
		return err_set(err, SPOT_CONFIG, "%s: no current-context: set context", path);
	}
	ctx = list_find(docs[0], "contexts", context, "context");
	if (ctx == NULL) {
		return err_set(err, SPOT_CONFIG, "%s: there is no context '%.100s'", path, context);
	}
	cluster = list_find(docs[0], "clusters", field_text(ctx, "cluster"), "cluster");
	user = list_find(docs[0], "users", field_text(ctx, "user"), "user");
	if (cluster == NULL || user == NULL) {
		return err_set(err, SPOT_CONFIG,
		    "%s: context '%.100s' names a cluster or a user that is not there", path,
		    context);
	}
	*ret = (struct cw_kubeconfig){ .token = "",
		.token_file = "",
		.ca_file = "",
		.cert_file = "",
		.key_file = "" };
	rc = cluster_read(a, cluster, path, ret, err);
	return rc != SPOT_OK ? rc : user_read(a, user, path, ret, err);
}
