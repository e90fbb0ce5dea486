/* Microsoft Azure: spot and on-demand GPU machines. See README.md. */
#ifndef PROVIDERS_AZURE_H
#define PROVIDERS_AZURE_H

#include "spot/provider.h"

extern const struct spot_provider_ops azure_ops;

#endif
