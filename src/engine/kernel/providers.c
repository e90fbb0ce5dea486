/* The providers that are configured. */
#include "base/base.h"
#include "engine/kernel/kernel.h"

size_t engine_providers(const struct engine *e)
{
	return e->providers_n;
}

struct call_provider *engine_provider_at(const struct engine *e, size_t i)
{
	assert(i < e->providers_n);
	return e->providers[i];
}

struct call_provider *engine_provider(const struct engine *e, const char *name)
{
	for (size_t i = 0; i < e->providers_n; i++) {
		if (strcmp(call_provider_name(e->providers[i]), name) == 0) {
			return e->providers[i];
		}
	}
	return NULL;
}

size_t engine_provider_names(struct recon *r,
    bool (*of)(const struct engine *, struct call_provider *), const char ***ret)
{
	struct engine *e = r->e;
	size_t n = 0;

	*ret = arena_array(r->arena, e->providers_n + 1, sizeof(**ret));
	for (size_t i = 0; i < e->providers_n; i++) {
		if (of == NULL || of(e, e->providers[i])) {
			(*ret)[n++] = call_provider_name(e->providers[i]);
		}
	}
	return n;
}
