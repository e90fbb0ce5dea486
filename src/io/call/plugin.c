/*
 * Loads an out-of-tree provider: a shared object that exports one const struct spot_provider_ops
 * under SPOT_PROVIDER_SYMBOL. The loader refuses another ABI or size before it calls anything. A
 * loaded object stays loaded, since callers keep its functions until the process ends.
 */
#include "base/base.h"

#include <dlfcn.h>

#include "base/text/text.h"
#include "io/call/call.h"

static const char *plugin_missing(const struct spot_provider_ops *ops)
{
	const struct {
		const char *name;
		bool there;
	} need[] = {
		{ "kind", !str_empty(ops->kind) },
		{ "open", ops->open != NULL },
		{ "close", ops->close != NULL },
		{ "auth_fresh", ops->auth_fresh != NULL },
		{ "auth", ops->auth != NULL },
		{ "secrets", ops->secrets != NULL },
		{ "regions", ops->regions != NULL },
		{ "pools", ops->pools != NULL },
		{ "prices", ops->prices != NULL },
		{ "launch", ops->launch != NULL },
		{ "find", ops->find != NULL },
		{ "list", ops->list != NULL },
		{ "describe", ops->describe != NULL },
		{ "terminate", ops->terminate != NULL },
		{ "limits", ops->limits_n == 0 || ops->limits != NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(need); i++) {
		if (!need[i].there) {
			return need[i].name;
		}
	}
	return NULL;
}

static enum spot_rc plugin_check(const char *path, const struct spot_provider_ops *ops,
    struct spot_err *err)
{
	const char *missing;

	if (ops->abi != SPOT_PROVIDER_ABI) {
		return err_set(err, SPOT_CONFIG,
		    "provider plugin %s: built for provider ABI %" PRIu32
		    ", this program speaks %d: rebuild it",
		    path, ops->abi, SPOT_PROVIDER_ABI);
	}
	if (ops->size != sizeof(*ops)) {
		return err_set(err, SPOT_CONFIG,
		    "provider plugin %s: its table has %" PRIu32
		    " bytes, this program's has %zu: rebuild it",
		    path, ops->size, sizeof(*ops));
	}
	missing = plugin_missing(ops);
	if (missing != NULL) {
		return err_set(err, SPOT_CONFIG,
		    "provider plugin %s: its table lacks '%s', which is required", path, missing);
	}
	return SPOT_OK;
}

enum spot_rc call_plugin_load(const char *path, const struct spot_provider_ops **ret,
    struct spot_err *err)
{
	const struct spot_provider_ops *ops;
	enum spot_rc rc;
	void *so;

	/* Without a slash dlopen() would search the library path; path names a file. */
	if (path == NULL || strchr(path, '/') == NULL) {
		return err_set(err, SPOT_CONFIG,
		    "provider plugin '%s': give its path, with a slash", path == NULL ? "" : path);
	}
	so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (so == NULL) {
		return err_set(err, SPOT_CONFIG, "provider plugin: %s", dlerror());
	}
	ops = dlsym(so, SPOT_PROVIDER_SYMBOL);
	if (ops == NULL) {
		dlclose(so);
		return err_set(err, SPOT_CONFIG, "provider plugin %s: it exports no '%s'", path,
		    SPOT_PROVIDER_SYMBOL);
	}
	rc = plugin_check(path, ops, err);
	if (rc != SPOT_OK) {
		dlclose(so);
		return rc;
	}
	*ret = ops;
	return SPOT_OK;
}
