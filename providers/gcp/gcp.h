/* Google Cloud: Compute Engine spot and on-demand GPU machines. See README.md. */
#ifndef PROVIDERS_GCP_H
#define PROVIDERS_GCP_H

#include "spot/provider.h"

extern const struct spot_provider_ops gcp_ops;

#endif
