/* Two tables over one code base. Kind "coreweave" is CoreWeave: its API finds the clusters, and
 * NodePools order the machines. Kind "kubernetes" is any Kubernetes cluster with GPU nodes. */
#ifndef PROVIDERS_COREWEAVE_H
#define PROVIDERS_COREWEAVE_H

#include "spot/provider.h"

extern const struct spot_provider_ops coreweave_ops;
extern const struct spot_provider_ops kubernetes_ops;

#endif
