/* Amazon Web Services: EC2 spot and on-demand. The provider's public part is one table. */
#ifndef PROVIDERS_AWS_AWS_H
#define PROVIDERS_AWS_AWS_H

#include "spot/provider.h"

extern const struct spot_provider_ops aws_ops;

#endif
