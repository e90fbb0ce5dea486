/* DescribeImages, DescribeSubnets, DescribeVpcs, DescribeSecurityGroups: the little that a launch
 * needs to look up. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

#define IMAGE_OWNER "898082745236" /* the account of the vendor's deep learning images */

static void image_xml(struct ec2 *e, const struct image *m)
{
	struct sbuf *b = &e->out;

	x_open(b, "item");
	x_text(b, "imageId", image_id(e->rq->arena, e->rq->region, m));
	x_text(b, "imageLocation", m->name);
	x_text(b, "imageState", "available");
	x_text(b, "imageOwnerId", IMAGE_OWNER);
	x_bool(b, "isPublic", true);
	x_text(b, "architecture", m->arch);
	x_text(b, "imageType", "machine");
	x_text(b, "name", m->name);
	x_text(b, "rootDeviceType", "ebs");
	x_text(b, "rootDeviceName", "/dev/sda1");
	x_text(b, "virtualizationType", "hvm");
	x_text(b, "creationDate", "2026-09-01T00:00:00.000Z");
	x_close(b, "item");
}

void ec2_describe_images(struct ec2 *e)
{
	static const char *const known[] = { "name", "architecture", "image-id", "state",
		"virtualization-type", "root-device-type", "owner-alias", "owner-id", NULL };
	const char **ids, **owners;
	size_t ids_n = form_list(&e->form, e->rq->arena, "ImageId", &ids), n;
	size_t owners_n = form_list(&e->form, e->rq->arena, "Owner", &owners);
	struct ec2_filter *f;

	form_accept(&e->form, "Include*");
	form_accept(&e->form, "MaxResults");
	if (!ec2_filters(e, known, &f, &n) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < ids_n; k++) {
		if (!image_find(e->rq->arena, e->rq->region, ids[k])) {
			ec2_fail(e, 400,
			    str_prefix(ids[k], "ami-") ? "InvalidAMIID.NotFound"
						       : "InvalidAMIID.Malformed",
			    "The image id '[%s]' does not exist", ids[k]);
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "imagesSet");
	for (size_t k = 0; k < images_n; k++) {
		const char *id = image_id(e->rq->arena, e->rq->region, &images[k]);
		/* All are the vendor's: nobody else owns one here. */
		bool show = ec2_match_any(ids, ids_n, id) &&
		    (ec2_match_any(owners, owners_n, "amazon") ||
			ec2_match_any(owners, owners_n, IMAGE_OWNER));

		for (size_t i = 0; i < n && show; i++) {
			const char *v = str_same(f[i].name, "name")      ? images[k].name
			    : str_same(f[i].name, "architecture")        ? images[k].arch
			    : str_same(f[i].name, "image-id")            ? id
			    : str_same(f[i].name, "state")               ? "available"
			    : str_same(f[i].name, "virtualization-type") ? "hvm"
			    : str_same(f[i].name, "root-device-type")    ? "ebs"
									 : "amazon";

			show = ec2_filter_hits(&f[i], v);
		}
		if (show) {
			image_xml(e, &images[k]);
		}
	}
	x_close(&e->out, "imagesSet");
}

static const char *subnet_field(struct ec2 *e, const struct zone *z, const char *name)
{
	if (str_same(name, "availability-zone") || str_same(name, "availabilityZone")) {
		return z->name;
	}
	if (str_same(name, "availability-zone-id") || str_same(name, "availabilityZoneId")) {
		return z->id;
	}
	if (str_same(name, "vpc-id")) {
		return net_vpc(e->rq->arena, e->rq->region);
	}
	if (str_same(name, "subnet-id")) {
		return net_subnet(e->rq->arena, z);
	}
	if (str_same(name, "state")) {
		return "available";
	}
	if (str_same(name, "default-for-az") || str_same(name, "defaultForAz")) {
		return "true";
	}
	return NULL; /* tags: the default network has none */
}

void ec2_describe_subnets(struct ec2 *e)
{
	static const char *const known[] = { "availability-zone", "availabilityZone",
		"availability-zone-id", "availabilityZoneId", "vpc-id", "subnet-id", "state",
		"default-for-az", "defaultForAz", "tag:*", "tag-key", NULL };
	const char **ids;
	size_t ids_n = form_list(&e->form, e->rq->arena, "SubnetId", &ids), n, octet = 0;
	struct ec2_page page;
	struct ec2_filter *f;

	if (!ec2_filters(e, known, &f, &n) || !ec2_page(e, 5, 1000, 1000, &page) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < ids_n; k++) {
		if (!net_subnet_zone(e->sim, e->rq->region, ids[k])) {
			ec2_fail(e, 400, "InvalidSubnetID.NotFound",
			    "The subnet ID '%s' does not exist", ids[k]);
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "subnetSet");
	for (size_t k = 0; k < e->sim->market->zones_n; k++) {
		const struct zone *z = &e->sim->market->zones[k];
		bool show = str_same(z->region->name, e->rq->region) &&
		    str_same(z->kind, "availability-zone");

		if (!show) {
			continue;
		}
		octet++;
		show = ec2_match_any(ids, ids_n, net_subnet(e->rq->arena, z));
		for (size_t i = 0; i < n && show; i++) {
			show = ec2_filter_hits(&f[i], subnet_field(e, z, f[i].name));
		}
		if (!show) {
			continue;
		}
		x_open(&e->out, "item");
		x_text(&e->out, "subnetId", net_subnet(e->rq->arena, z));
		x_text(&e->out, "state", "available");
		x_text(&e->out, "vpcId", net_vpc(e->rq->arena, e->rq->region));
		sbuf_printf(&e->out, "<cidrBlock>172.31.%zu.0/20</cidrBlock>", (octet - 1) * 16);
		x_int(&e->out, "availableIpAddressCount", 4091);
		x_text(&e->out, "availabilityZone", z->name);
		x_text(&e->out, "availabilityZoneId", z->id);
		x_bool(&e->out, "defaultForAz", true);
		x_bool(&e->out, "mapPublicIpOnLaunch", true);
		x_text(&e->out, "ownerId", AWS_ACCOUNT);
		x_close(&e->out, "item");
	}
	x_close(&e->out, "subnetSet");
}

/* Returns a field of the one VPC or the one security group; NULL: neither has it. */
static const char *default_field(struct ec2 *e, const char *name)
{
	if (str_same(name, "vpc-id")) {
		return net_vpc(e->rq->arena, e->rq->region);
	}
	if (str_same(name, "group-id")) {
		return net_group(e->rq->arena, e->rq->region);
	}
	if (str_same(name, "group-name")) {
		return "default";
	}
	if (str_same(name, "description")) {
		return "default VPC security group";
	}
	if (str_same(name, "owner-id")) {
		return AWS_ACCOUNT;
	}
	if (str_same(name, "state")) {
		return "available";
	}
	if (str_same(name, "is-default") || str_same(name, "isDefault")) {
		return "true";
	}
	return str_same(name, "cidr") || str_same(name, "cidr-block") ? "172.31.0.0/16" : NULL;
}

/* The ids are the one's own, the filters hit it; false with e->failed or shown = false. */
static bool default_shown(struct ec2 *e, const char *ids_name, const char *own, const char *missing,
    const char *const *known, bool *ret_shown)
{
	const char **ids;
	size_t ids_n = form_list(&e->form, e->rq->arena, ids_name, &ids), n;
	struct ec2_page page;
	struct ec2_filter *f;

	*ret_shown = true;
	if (!ec2_filters(e, known, &f, &n) || !ec2_page(e, 5, 1000, 1000, &page) || !ec2_ready(e)) {
		return false;
	}
	for (size_t k = 0; k < ids_n; k++) {
		if (!str_same(ids[k], own)) {
			ec2_fail(e, 400, missing,
			    str_prefix(missing, "InvalidVpc")
				? "The vpc ID '%s' does not exist"
				: "The security group '%s' does not exist",
			    ids[k]);
		}
	}
	for (size_t k = 0; k < n; k++) {
		*ret_shown = *ret_shown && ec2_filter_hits(&f[k], default_field(e, f[k].name));
	}
	return !e->failed;
}

void ec2_describe_vpcs(struct ec2 *e)
{
	static const char *const known[] = { "vpc-id", "state", "is-default", "isDefault", "cidr",
		"cidr-block", "owner-id", "tag:*", "tag-key", NULL };
	bool shown;

	if (!default_shown(e, "VpcId", net_vpc(e->rq->arena, e->rq->region),
		"InvalidVpcID.NotFound", known, &shown)) {
		return;
	}
	ec2_begin(e);
	x_open(&e->out, "vpcSet");
	if (!shown) {
		x_close(&e->out, "vpcSet");
		return;
	}
	x_open(&e->out, "item");
	x_text(&e->out, "vpcId", net_vpc(e->rq->arena, e->rq->region));
	x_text(&e->out, "state", "available");
	x_text(&e->out, "cidrBlock", "172.31.0.0/16");
	x_bool(&e->out, "isDefault", true);
	x_close(&e->out, "item");
	x_close(&e->out, "vpcSet");
}

void ec2_describe_groups(struct ec2 *e)
{
	static const char *const known[] = { "vpc-id", "group-id", "group-name", "description",
		"owner-id", "tag:*", "tag-key", NULL };
	const char **names;
	size_t n = form_list(&e->form, e->rq->arena, "GroupName", &names);
	bool shown;

	for (size_t k = 0; k < n; k++) {
		if (!str_same(names[k], "default")) {
			ec2_fail(e, 400, "InvalidGroup.NotFound",
			    "The security group '%s' does not exist in default VPC '%s'", names[k],
			    net_vpc(e->rq->arena, e->rq->region));
		}
	}
	if (!default_shown(e, "GroupId", net_group(e->rq->arena, e->rq->region),
		"InvalidGroup.NotFound", known, &shown)) {
		return;
	}
	ec2_begin(e);
	x_open(&e->out, "securityGroupInfo");
	if (!shown) {
		x_close(&e->out, "securityGroupInfo");
		return;
	}
	x_open(&e->out, "item");
	x_text(&e->out, "ownerId", AWS_ACCOUNT);
	x_text(&e->out, "groupId", net_group(e->rq->arena, e->rq->region));
	x_text(&e->out, "groupName", "default");
	x_text(&e->out, "groupDescription", "default VPC security group");
	x_text(&e->out, "vpcId", net_vpc(e->rq->arena, e->rq->region));
	x_close(&e->out, "item");
	x_close(&e->out, "securityGroupInfo");
}
