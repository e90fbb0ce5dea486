/* CoreWeave (kind "coreweave": clusters found by its API, machines ordered through NodePools) and
 * any Kubernetes cluster with GPU nodes (kind "kubernetes"): one code base, two tables. */
#ifndef PROVIDERS_COREWEAVE_H
#define PROVIDERS_COREWEAVE_H

#include "spot/provider.h"

extern const struct spot_provider_ops coreweave_ops;
extern const struct spot_provider_ops kubernetes_ops;

#endif
