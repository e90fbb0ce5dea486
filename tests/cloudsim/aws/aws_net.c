/* The account's default VPC, subnets and security group, and the public images: made from names, so
 * that they are the same in every run. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#define DLAMI "/aws/service/deeplearning/ami/"

/* SSM public parameters of the DLAMI guide ("find-dlami-id") and the usual base images. */
const struct image images[] = {
	{ DLAMI "x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
	    "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04)", "x86_64" },
	{ DLAMI "x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id",
	    "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04)", "x86_64" },
	{ DLAMI "x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id",
	    "Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023)", "x86_64" },
	{ DLAMI "arm64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
	    "Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04)", "arm64" },
	{ DLAMI "arm64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id",
	    "Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04)", "arm64" },
	{ "/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id",
	    "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server", "x86_64" },
	{ "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64",
	    "al2023-ami-kernel-default", "x86_64" },
};
const size_t images_n = ARRAY_LEN(images);

const char *net_derive(struct arena *a, const char *prefix, const char *kind, const char *x,
    const char *y)
{
	char hex[SHA256_HEX];
	const char *text = arena_printf(a, "%s|%s|%s", kind, x, y);

	sha256_hex(text, strlen(text), hex);
	return arena_printf(a, "%s0%.16s", prefix, hex);
}

const char *net_subnet(struct arena *a, const struct zone *z)
{
	return net_derive(a, "subnet-", "subnet", z->region->name, z->id);
}

const char *net_vpc(struct arena *a, const char *region)
{
	return net_derive(a, "vpc-", "vpc", region, "");
}

const char *net_group(struct arena *a, const char *region)
{
	return net_derive(a, "sg-", "sg", region, "default");
}

const struct zone *net_subnet_zone(struct sim *s, const char *region, const char *subnet)
{
	struct arena *a AUTO(arena) = arena_new(0);

	for (size_t k = 0; k < s->market->zones_n; k++) {
		const struct zone *z = &s->market->zones[k];

		if (str_same(z->region->name, region) && str_same(net_subnet(a, z), subnet)) {
			return z;
		}
	}
	return NULL;
}

const char *image_id(struct arena *a, const char *region, const struct image *m)
{
	return net_derive(a, "ami-", "ami", region, m->parameter);
}

/* The example ids of the vendor's documentation: made-up ids that people type. */
static bool image_example(const char *id)
{
	static const char *const ids[] = { "ami-12345678", "ami-0abcdef1234567890",
		"ami-1234567890abcdef0", "ami-0123456789abcdef0", "ami-abcd1234" };

	for (size_t k = 0; k < ARRAY_LEN(ids); k++) {
		if (str_same(ids[k], id)) {
			return true;
		}
	}
	return false;
}

const struct image *image_find(struct arena *a, const char *region, const char *id)
{
	if (image_example(id)) {
		return &images[0];
	}
	for (size_t k = 0; k < images_n; k++) {
		if (str_same(image_id(a, region, &images[k]), id)) {
			return &images[k];
		}
	}
	return NULL;
}
