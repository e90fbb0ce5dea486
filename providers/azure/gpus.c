#include "base/base.h"
#include "azure_priv.h"

/*
 * The GPUs of each size. The vendor's catalogue names neither the model nor its memory, counts a
 * sixth of an A10 as one and lacks the count of some sizes. So this table decides
 * (learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/, one page per series).
 */

#include <ctype.h>
#include <fnmatch.h>
#include <strings.h>

/* Patterns of the whole name, without case; the first that fits wins. milli: thousandths of a card,
 * 0 = the catalogue's count. An empty name is a size that we do not run on. */
static const struct {
	const char *pattern;
	struct azure_gpu gpu;
} sizes[] = {
	{ "standard_nc*as_t4_v3", { "T4", 0, 16 << 10 } },
	/* Parts of a card: memory is told per whole card. */
	{ "standard_nv6ads_a10_v5", { "A10", 167, 24 << 10 } },
	{ "standard_nv12ads_a10_v5", { "A10", 333, 24 << 10 } },
	{ "standard_nv18ads_a10_v5", { "A10", 500, 24 << 10 } },
	{ "standard_nv36ad*s_a10_v5", { "A10", 1000, 24 << 10 } },
	{ "standard_nv72ads_a10_v5", { "A10", 2000, 24 << 10 } },
	{ "standard_nc8ads_a10_v4", { "A10", 1000, 24 << 10 } },
	{ "standard_nc16ads_a10_v4", { "A10", 1000, 24 << 10 } },
	{ "standard_nc32ads_a10_v4", { "A10", 2000, 24 << 10 } },
	{ "standard_nc*ads_a100_v4", { "A100-80GB", 0, 80 << 10 } },
	{ "standard_nd96asr_v4", { "A100-40GB", 8000, 40 << 10 } },
	{ "standard_nd96ams*_a100_v4", { "A100-80GB", 8000, 80 << 10 } },
	/* Confidential machines need a security profile and images of their own. */
	{ "standard_ncc*", { "", 0, 0 } },
	{ "standard_nc40ads_h100_v5", { "H100-94GB-NVL", 1000, 94 << 10 } },
	{ "standard_nc80adis_h100_v5", { "H100-94GB-NVL", 2000, 94 << 10 } },
	{ "standard_nd96is*_h100_v5", { "H100-80GB-SXM", 8000, 80 << 10 } },
	{ "standard_nd96is*_h200_v5", { "H200", 8000, 141 << 10 } },
	/* No CUDA. */
	{ "standard_nd*mi300x*", { "", 0, 0 } },
	{ "standard_nv*_v620_*", { "", 0, 0 } },
	{ "standard_nv*as_v4", { "", 0, 0 } },
	{ "standard_nd128is*_gb200_v6", { "GB200", 4000, 186 << 10 } },
	{ "standard_nd128is*_gb300_v6", { "GB300", 4000, 288 << 10 } },
	{ "standard_nd40rs_v2", { "V100-32GB", 8000, 32 << 10 } },
	{ "standard_nc*s_v3", { "V100-16GB", 0, 16 << 10 } },
	{ "standard_nv*s_v3", { "M60", 0, 8 << 10 } },
	{ "standard_nc*rtxpro6000*", { "RTXPRO6000-96GB", 0, 96 << 10 } },
};

bool azure_gpu_find(const char *size, int64_t gpus, struct azure_gpu *ret)
{
	char name[AZURE_NAME_MAX + 1];

	if (!str_copy(name, sizeof(name), size)) {
		return false;
	}
	for (char *p = name; *p != '\0'; p++) {
		*p = (char)tolower((unsigned char)*p);
	}
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		if (fnmatch(sizes[i].pattern, name, 0) != 0) {
			continue;
		}
		*ret = sizes[i].gpu;
		if (ret->milli == 0) {
			ret->milli = (int32_t)(MIN(MAX(gpus, 0), 64) * 1000);
		}
		return *ret->name != '\0' && ret->milli > 0;
	}
	return false;
}
