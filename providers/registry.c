/* The one place that names the built-in providers. A new cloud: its
 * #include and a line here, and a line in meson.build. */
#include "base/base.h"

#include "aws/aws.h"
#include "azure/azure.h"
#include "coreweave/coreweave.h"
#include "gcp/gcp.h"
#include "lambda/lambda.h"
#include "registry.h"

static const struct spot_provider_ops *const registry[] = {
	&aws_ops,
	&azure_ops,
	&coreweave_ops,
	&kubernetes_ops,
	&gcp_ops,
	&lambda_ops,
};

const struct spot_provider_ops *const *provider_registry(size_t *n)
{
	*n = ARRAY_LEN(registry);
	return registry;
}

const struct spot_provider_ops *provider_by_kind(const char *kind)
{
	for (size_t i = 0; i < ARRAY_LEN(registry); i++) {
		if (strcmp(registry[i]->kind, kind) == 0) {
			return registry[i];
		}
	}
	return NULL;
}
