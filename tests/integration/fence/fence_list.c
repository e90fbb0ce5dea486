#include "base/base.h"
#include "base/text/text.h"
#include "fence_probe.h"

/* Statements without a fence: some are true by any writer, others are not the engine's. */
static const struct {
	const char *name, *why;
} waived[] = {
	{ "engine_install_create",
	    "the installation's identity: made once, by whoever comes first" },
	{ "engine_lease_take", "the lease itself" },
	{ "engine_lease_renew", "the lease itself" },
	{ "engine_lease_release", "the lease itself" },
	{ "engine_rate_take", "rates of an account count calls of whoever makes them" },
	{ "engine_node_exists",
	    "a machine exists: its ref must never be lost; the row's state says whether anybody "
	    "needs it" },
	{ "market_habits", "worked out of rows alone; the same whoever does it" },
};

const char *fence_waived(const char *statement)
{
	for (size_t i = 0; i < ARRAY_LEN(waived); i++) {
		if (strcmp(waived[i].name, statement) == 0) {
			return waived[i].why;
		}
	}
	return NULL;
}

bool fence_concerns(const char *statement)
{
	return str_prefix(statement, "engine_") || str_prefix(statement, "market_");
}
