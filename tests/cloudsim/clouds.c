/* The clouds of this program, by number. A new cloud adds its table here. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"

const struct cloud_ops *const cloud_table[CLOUD_COUNT] = {
	[CLOUD_AWS] = &aws_cloud,
	[CLOUD_LAMBDA] = &lambda_cloud,
	[CLOUD_GCP] = &gcp_cloud,
	[CLOUD_AZURE] = &azure_cloud,
	[CLOUD_COREWEAVE] = &coreweave_cloud,
};
