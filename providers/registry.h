/*
 * The providers that this program was built with. An out-of-tree one comes through
 * call_plugin_load() (src/io/call/call.h) instead and needs no entry here. Nothing allocates;
 * nothing fails.
 */
#ifndef PROVIDERS_REGISTRY_H
#define PROVIDERS_REGISTRY_H

#include "spot/provider.h"

/* All tables, in the order of their names; *n is their count. */
const struct spot_provider_ops *const *provider_registry(size_t *n);
/* NULL: no provider of that kind was built in. */
const struct spot_provider_ops *provider_by_kind(const char *kind);

#endif
