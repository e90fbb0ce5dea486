/* Lambda Cloud (cloud.lambda.ai): on-demand GPU instances. The provider's public part is one
 * table. */
#ifndef PROVIDERS_LAMBDA_LAMBDA_H
#define PROVIDERS_LAMBDA_LAMBDA_H

#include "spot/provider.h"

extern const struct spot_provider_ops lambda_ops;

#endif
