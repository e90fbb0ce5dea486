#include "base/base.h"
#include "gcp_priv.h"

/* The facts about accelerators that the API lacks: memory and our name
 * (docs.cloud.google.com/compute/docs/gpus), and the names of the quotas
 * (.../compute/resource-usage#gpu_quota). */

#define GIB 1024

const struct gcp_gpu gcp_gpus[] = {
	{ "nvidia-l4", "L4", 24 * GIB, "L4", "NVIDIA_L4" },
	{ "nvidia-tesla-t4", "T4", 16 * GIB, "T4", "NVIDIA_T4" },
	{ "nvidia-tesla-p4", "P4", 8 * GIB, "P4", "NVIDIA_P4" },
	{ "nvidia-tesla-v100", "V100-16GB", 16 * GIB, "V100", "NVIDIA_V100" },
	{ "nvidia-tesla-p100", "P100", 16 * GIB, "P100", "NVIDIA_P100" },
	{ "nvidia-tesla-a100", "A100-40GB", 40 * GIB, "A100", "NVIDIA_A100" },
	{ "nvidia-a100-80gb", "A100-80GB", 80 * GIB, "A100_80GB", "NVIDIA_A100_80GB" },
	{ "nvidia-h100-80gb", "H100-80GB-SXM", 80 * GIB, "H100", "NVIDIA_H100" },
	{ "nvidia-h100-mega-80gb", "H100-80GB-SXM", 80 * GIB, "H100_MEGA", "NVIDIA_H100_MEGA" },
	{ "nvidia-h200-141gb", "H200", 141 * GIB, "H200", "NVIDIA_H200" },
	{ "nvidia-b200", "B200", 180 * GIB, "B200", "NVIDIA_B200" },
	{ "nvidia-gb200", "GB200", 186 * GIB, "GB200", "NVIDIA_GB200" },
	{ "nvidia-gb300", "GB300", 279 * GIB, "GB300", "NVIDIA_GB300" },
	{ "nvidia-rtx-pro-6000", "RTXPRO6000-96GB", 96 * GIB, "RTX_PRO_6000",
	    "NVIDIA_RTX_PRO_6000" },
};
const size_t gcp_gpus_n = ARRAY_LEN(gcp_gpus);

const struct gcp_gpu *gcp_gpu_find(const char *accelerator)
{
	for (size_t i = 0; i < gcp_gpus_n; i++) {
		if (strcmp(gcp_gpus[i].accelerator, accelerator) == 0) {
			return &gcp_gpus[i];
		}
	}
	return NULL;
}
