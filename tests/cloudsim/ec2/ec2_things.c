/* Things beside an instance: its root volume, its network interface, tags as a list, key pairs,
 * account attributes. Volumes and interfaces are derived from the instance and end with it. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

struct key_pair {
	struct key_pair *next;
	char *name, *region, *id, *print;
	int64_t made_us;
	bool deleted;
};

const char *ec2_volume_id(struct arena *a, const struct inst *i)
{
	return net_derive(a, "vol-", "vol", i->id, "root");
}

static const char *nic_id(struct arena *a, const struct inst *i)
{
	return net_derive(a, "eni-", "eni", i->id, "0");
}

void ec2_disk_map_xml(struct ec2 *e, struct sbuf *b, const struct inst *i)
{
	x_open(b, "blockDeviceMapping");
	if (i->state != INST_GONE && i->state != INST_SHUTTING) {
		sbuf_puts(b, "<item><deviceName>/dev/sda1</deviceName><ebs>");
		x_text(b, "volumeId", ec2_volume_id(e->rq->arena, i));
		x_text(b, "status", "attached");
		x_text(b, "attachTime", aws_time_ms(e->rq->arena, i->launched_us));
		x_bool(b, "deleteOnTermination", !i->keep_root);
		sbuf_puts(b, "</ebs></item>");
	}
	x_close(b, "blockDeviceMapping");
}

static void attachment_xml(struct ec2 *e, struct sbuf *b, const struct inst *i, bool full)
{
	struct arena *a = e->rq->arena;

	x_open(b, "attachment");
	x_text(b, "attachmentId", net_derive(a, "eni-attach-", "attach", i->id, "0"));
	x_int(b, "deviceIndex", 0);
	x_int(b, "networkCardIndex", 0);
	x_text(b, "status", "attached");
	x_text(b, "attachTime", aws_time_ms(a, i->launched_us));
	x_bool(b, "deleteOnTermination", true);
	if (full) {
		x_text(b, "instanceId", i->id);
		x_text(b, "instanceOwnerId", AWS_ACCOUNT);
	}
	x_close(b, "attachment");
}

void ec2_nic_xml(struct ec2 *e, struct sbuf *b, const struct inst *i, bool full)
{
	x_open(b, "item");
	x_text(b, "networkInterfaceId", nic_id(e->rq->arena, i));
	x_text(b, "subnetId", i->subnet);
	x_text(b, "vpcId", net_vpc(e->rq->arena, i->pool->region->name));
	if (full) {
		x_text(b, "availabilityZone", i->pool->zone->name);
		x_bool(b, "requesterManaged", false);
		ec2_tags_xml(b, i->nic_tags, i->nic_tags_n);
	}
	x_text(b, "description", "");
	x_text(b, "ownerId", AWS_ACCOUNT);
	x_text(b, "status", "in-use");
	x_text(b, "privateIpAddress", i->private_ip);
	x_bool(b, "sourceDestCheck", true);
	x_text(b, "interfaceType", "interface");
	sbuf_puts(b, "<groupSet><item>");
	x_text(b, "groupId", i->security_group);
	x_text(b, "groupName", "default");
	sbuf_puts(b, "</item></groupSet>");
	attachment_xml(e, b, i, full);
	x_open(b, "association");
	x_text(b, "publicIp", i->ip);
	x_text(b, "ipOwnerId", "amazon");
	x_close(b, "association");
	x_close(b, "item");
}

/* ---- lists over instances -------------------------------------------------------------------- */

static bool inst_here(struct ec2 *e, const struct inst *i)
{
	return i->cloud == CLOUD_AWS && inst_visible(i) && i->state != INST_GONE &&
	    str_same(i->pool->region->name, e->rq->region);
}

static const char *thing_field(struct ec2 *e, const struct inst *i, const char *name)
{
	struct arena *a = e->rq->arena;

	if (str_same(name, "attachment.instance-id")) {
		return i->id;
	}
	if (str_same(name, "volume-id")) {
		return ec2_volume_id(a, i);
	}
	if (str_same(name, "network-interface-id")) {
		return nic_id(a, i);
	}
	if (str_same(name, "availability-zone")) {
		return i->pool->zone->name;
	}
	if (str_same(name, "status") || str_same(name, "attachment.status")) {
		return str_same(name, "status") ? "in-use" : "attached";
	}
	if (str_same(name, "subnet-id")) {
		return i->subnet;
	}
	if (str_same(name, "vpc-id")) {
		return net_vpc(a, e->rq->region);
	}
	if (str_same(name, "group-id")) {
		return i->security_group;
	}
	if (str_same(name, "private-ip-address")) {
		return i->private_ip;
	}
	if (str_same(name, "attachment.delete-on-termination")) {
		return i->keep_root ? "false" : "true";
	}
	return NULL;
}

static bool tags_hit(const struct ec2_filter *f, const struct inst_tag *tags, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		if (str_same(f->name, "tag-key")
			? ec2_filter_hits(f, tags[k].key)
			: str_same(f->name + 4, tags[k].key) && ec2_filter_hits(f, tags[k].value)) {
			return true;
		}
	}
	return false;
}

static bool thing_shown(struct ec2 *e, const struct inst *i, const struct ec2_filter *f, size_t n,
    bool volumes)
{
	for (size_t k = 0; k < n; k++) {
		bool hit = str_prefix(f[k].name, "tag")
		    ? tags_hit(&f[k], volumes ? i->volume_tags : i->nic_tags,
			  volumes ? i->volume_tags_n : i->nic_tags_n)
		    : ec2_filter_hits(&f[k], thing_field(e, i, f[k].name));

		if (!hit) {
			return false;
		}
	}
	return inst_here(e, i);
}

static void volume_xml(struct ec2 *e, const struct inst *i)
{
	struct sbuf *b = &e->out;
	struct arena *a = e->rq->arena;

	x_open(b, "item");
	x_text(b, "volumeId", ec2_volume_id(a, i));
	x_int(b, "size", i->root_gib);
	x_text(b, "snapshotId", net_derive(a, "snap-", "snap", i->image, ""));
	x_text(b, "availabilityZone", i->pool->zone->name);
	x_text(b, "status", "in-use");
	x_text(b, "createTime", aws_time_ms(a, i->launched_us));
	x_text(b, "volumeType", "gp3");
	x_int(b, "iops", 3000);
	x_int(b, "throughput", 125);
	x_bool(b, "encrypted", false);
	x_bool(b, "multiAttachEnabled", false);
	sbuf_puts(b, "<attachmentSet><item>");
	x_text(b, "volumeId", ec2_volume_id(a, i));
	x_text(b, "instanceId", i->id);
	x_text(b, "device", "/dev/sda1");
	x_text(b, "status", "attached");
	x_text(b, "attachTime", aws_time_ms(a, i->launched_us));
	x_bool(b, "deleteOnTermination", !i->keep_root);
	sbuf_puts(b, "</item></attachmentSet>");
	ec2_tags_xml(b, i->volume_tags, i->volume_tags_n);
	x_close(b, "item");
}

/* One of the lists: an element per instance. Named ones must be there. */
static void list_things(struct ec2 *e, const char *const *known, const char *ids_name,
    const char *set, const char *missing, bool volumes)
{
	const char **ids;
	size_t ids_n = form_list(&e->form, e->rq->arena, ids_name, &ids), n;
	struct ec2_filter *f;
	struct ec2_page page;
	int64_t shown = 0;
	uint64_t last = 0;
	const char *field = volumes ? "volume-id" : "network-interface-id";

	if (!ec2_filters(e, known, &f, &n) || !ec2_page(e, 5, 1000, 1000, &page) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < ids_n; k++) {
		struct ec2_filter one = { .name = field, .values = &ids[k], .n = 1 };
		const struct inst *i = e->sim->insts;

		while (i && !thing_shown(e, i, &one, 1, volumes)) {
			i = i->next;
		}
		if (!i) {
			ec2_fail(e, 400, missing,
			    volumes ? "The volume '%s' does not exist."
				    : "The networkInterface ID '%s' does not exist",
			    ids[k]);
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, set);
	for (const struct inst *i = e->sim->insts; i && shown <= page.size; i = i->next) {
		if ((int64_t)i->seq <= page.at || !thing_shown(e, i, f, n, volumes) ||
		    !ec2_match_any(ids, ids_n, thing_field(e, i, field))) {
			continue;
		}
		if (shown++ == page.size) {
			break;
		}
		last = i->seq;
		if (volumes) {
			volume_xml(e, i);
		} else {
			ec2_nic_xml(e, &e->out, i, true);
		}
	}
	x_close(&e->out, set);
	if (shown > page.size) {
		x_text(&e->out, "nextToken", ec2_next_token(e, (int64_t)last));
	}
}

void ec2_describe_volumes(struct ec2 *e)
{
	static const char *const known[] = { "attachment.instance-id", "volume-id",
		"availability-zone", "status", "attachment.status",
		"attachment.delete-on-termination", "tag:*", "tag-key", NULL };

	list_things(e, known, "VolumeId", "volumeSet", "InvalidVolume.NotFound", true);
}

void ec2_describe_nics(struct ec2 *e)
{
	static const char *const known[] = { "attachment.instance-id", "network-interface-id",
		"availability-zone", "status", "attachment.status", "subnet-id", "vpc-id",
		"group-id", "private-ip-address", "tag:*", "tag-key", NULL };

	list_things(e, known, "NetworkInterfaceId", "networkInterfaceSet",
	    "InvalidNetworkInterfaceID.NotFound", false);
}

struct inst_tag **ec2_thing_tags(struct ec2 *e, const char *id, size_t **ret_n)
{
	for (struct inst *i = e->sim->insts; i; i = i->next) {
		if (!inst_here(e, i)) {
			continue;
		}
		if (str_same(ec2_volume_id(e->rq->arena, i), id)) {
			*ret_n = &i->volume_tags_n;
			return &i->volume_tags;
		}
		if (str_same(nic_id(e->rq->arena, i), id)) {
			*ret_n = &i->nic_tags_n;
			return &i->nic_tags;
		}
	}
	return NULL;
}

/* ---- tags as a list -------------------------------------------------------------------------- */

static void tag_xml(struct ec2 *e, const char *id, const char *kind, const struct inst_tag *t,
    const struct ec2_filter *f, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		const char *v = str_same(f[k].name, "resource-id") ? id
		    : str_same(f[k].name, "resource-type")         ? kind
		    : str_same(f[k].name, "key")                   ? t->key
		    : str_same(f[k].name, "value")                 ? t->value
		    : str_same(f[k].name + 4, t->key)              ? t->value
								   : NULL;

		if (!ec2_filter_hits(&f[k], v)) {
			return;
		}
	}
	x_open(&e->out, "item");
	x_text(&e->out, "resourceId", id);
	x_text(&e->out, "resourceType", kind);
	x_text(&e->out, "key", t->key);
	x_text(&e->out, "value", t->value);
	x_close(&e->out, "item");
}

void ec2_describe_tags(struct ec2 *e)
{
	static const char *const known[] = { "resource-id", "resource-type", "key", "value",
		"tag:*", NULL };
	struct ec2_filter *f;
	struct ec2_page page;
	size_t n;

	if (!ec2_filters(e, known, &f, &n) || !ec2_page(e, 5, 1000, 1000, &page) || !ec2_ready(e)) {
		return;
	}
	ec2_begin(e);
	x_open(&e->out, "tagSet");
	for (const struct inst *i = e->sim->insts; i; i = i->next) {
		if (!inst_here(e, i)) {
			continue;
		}
		for (size_t k = 0; k < i->tags_n; k++) {
			tag_xml(e, i->id, "instance", &i->tags[k], f, n);
		}
		for (size_t k = 0; k < i->volume_tags_n; k++) {
			tag_xml(e, ec2_volume_id(e->rq->arena, i), "volume", &i->volume_tags[k], f,
			    n);
		}
		for (size_t k = 0; k < i->nic_tags_n; k++) {
			tag_xml(e, nic_id(e->rq->arena, i), "network-interface", &i->nic_tags[k], f,
			    n);
		}
		for (size_t k = 0; k < i->sir_tags_n; k++) {
			tag_xml(e, i->sir, "spot-instances-request", &i->sir_tags[k], f, n);
		}
	}
	x_close(&e->out, "tagSet");
}

/* ---- key pairs ------------------------------------------------------------------------------- */

static struct key_pair *key_find(struct ec2 *e, const char *name)
{
	for (struct key_pair *k = aws_controls(e->sim)->keys; k; k = k->next) {
		if (!k->deleted && str_same(k->region, e->rq->region) &&
		    (str_same(k->name, name) || str_same(k->id, name))) {
			return k;
		}
	}
	return NULL;
}

bool key_known(struct ec2 *e, const char *name)
{
	return key_find(e, name) != NULL;
}

void keys_free(struct aws_controls *c)
{
	struct key_pair *next;

	for (struct key_pair *k = c->keys; k; k = next) {
		next = k->next;
		free(k->name);
		free(k->region);
		free(k->id);
		free(k->print);
		free(k);
	}
	c->keys = NULL;
}

/* CreateKeyPair and ImportKeyPair; the private half of a created one is a text of that form, no
 * key. */
void ec2_create_key(struct ec2 *e)
{
	bool import = str_same(e->rq->action, "ImportKeyPair");
	const char *name = form_get(&e->form, "KeyName");
	const char *material = form_get(&e->form, "PublicKeyMaterial");
	struct key_pair *k;

	form_get(&e->form, "KeyType");
	form_get(&e->form, "KeyFormat");
	form_accept(&e->form, "TagSpecification.*");
	if (!name || !*name || (import && !material)) {
		ec2_fail(e, 400, "MissingParameter", "The request must contain the parameter %s",
		    name && *name ? "PublicKeyMaterial" : "KeyName");
	} else if (key_find(e, name)) {
		ec2_fail(e, 400, "InvalidKeyPair.Duplicate", "The keypair '%s' already exists.",
		    name);
	}
	if (!ec2_ready(e)) {
		return;
	}
	k = calloc(1, sizeof(*k));
	if (!k) {
		abort();
	}
	k->next = aws_controls(e->sim)->keys;
	aws_controls(e->sim)->keys = k;
	k->name = dup_text(name);
	k->region = dup_text(e->rq->region);
	k->id = sim_id(e->sim, NULL, "key-0", 8);
	k->print = sim_id(e->sim, NULL, "", 20);
	k->made_us = sim_wall(e->sim);
	ec2_begin(e);
	x_text(&e->out, "keyName", k->name);
	x_text(&e->out, "keyFingerprint", k->print);
	x_text(&e->out, "keyPairId", k->id);
	if (!import) {
		x_text(&e->out, "keyMaterial",
		    "-----BEGIN RSA "
		    "PRIVATE KEY-----\nbm90IGEga2V5\n-----END RSA "
		    "PRIVATE KEY-----");
	}
}

void ec2_delete_key(struct ec2 *e)
{
	const char *name = form_get(&e->form, "KeyName"), *id = form_get(&e->form, "KeyPairId");
	struct key_pair *k;

	if (!name && !id) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter KeyName");
	}
	if (!ec2_ready(e)) {
		return;
	}
	k = key_find(e, name ? name : id);
	if (k) {
		k->deleted = true;
	}
	ec2_begin(e);
	x_bool(&e->out, "return", true); /* also when there was none */
	x_text(&e->out, "keyPairId", k ? k->id : NULL);
}

void ec2_describe_keys(struct ec2 *e)
{
	static const char *const known[] = { "key-name", "key-pair-id", "fingerprint", NULL };
	const char **names, **ids;
	size_t names_n = form_list(&e->form, e->rq->arena, "KeyName", &names), n;
	size_t ids_n = form_list(&e->form, e->rq->arena, "KeyPairId", &ids);
	struct ec2_filter *f;

	form_get(&e->form, "IncludePublicKey");
	if (!ec2_filters(e, known, &f, &n) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < names_n + ids_n; k++) {
		const char *name = k < names_n ? names[k] : ids[k - names_n];

		if (!key_find(e, name)) {
			ec2_fail(e, 400,
			    k < names_n ? "InvalidKeyPair.NotFound" : "InvalidKeyPairID.NotFound",
			    "The key pair '%s' does not exist", name);
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "keySet");
	for (const struct key_pair *k = aws_controls(e->sim)->keys; k; k = k->next) {
		bool show = !k->deleted && str_same(k->region, e->rq->region) &&
		    ec2_match_any(names, names_n, k->name) && ec2_match_any(ids, ids_n, k->id);

		for (size_t i = 0; i < n && show; i++) {
			show = ec2_filter_hits(&f[i],
			    str_same(f[i].name, "key-name")          ? k->name
				: str_same(f[i].name, "key-pair-id") ? k->id
								     : k->print);
		}
		if (!show) {
			continue;
		}
		x_open(&e->out, "item");
		x_text(&e->out, "keyPairId", k->id);
		x_text(&e->out, "keyName", k->name);
		x_text(&e->out, "keyFingerprint", k->print);
		x_text(&e->out, "keyType", "rsa");
		x_text(&e->out, "createTime", aws_time_ms(e->rq->arena, k->made_us));
		x_close(&e->out, "item");
	}
	x_close(&e->out, "keySet");
}

/* ---- the account ----------------------------------------------------------------------------- */

void ec2_account_attributes(struct ec2 *e)
{
	const char *const list[][2] = { { "supported-platforms", "VPC" },
		{ "default-vpc", net_vpc(e->rq->arena, e->rq->region) }, { "max-instances", "20" },
		{ "vpc-max-security-groups-per-interface", "5" }, { "max-elastic-ips", "5" },
		{ "vpc-max-elastic-ips", "5" } };
	const char **names;
	size_t n = form_list(&e->form, e->rq->arena, "AttributeName", &names);

	for (size_t k = 0; k < n; k++) {
		size_t i = 0;

		while (i < ARRAY_LEN(list) && !str_same(list[i][0], names[k])) {
			i++;
		}
		if (i == ARRAY_LEN(list)) {
			ec2_fail(e, 400, "InvalidParameterValue",
			    "Value (%s) for parameter attributeName is invalid.", names[k]);
		}
	}
	if (!ec2_ready(e)) {
		return;
	}
	ec2_begin(e);
	x_open(&e->out, "accountAttributeSet");
	for (size_t k = 0; k < ARRAY_LEN(list); k++) {
		if (!ec2_match_any(names, n, list[k][0])) {
			continue;
		}
		x_open(&e->out, "item");
		x_text(&e->out, "attributeName", list[k][0]);
		sbuf_puts(&e->out, "<attributeValueSet><item>");
		x_text(&e->out, "attributeValue", list[k][1]);
		sbuf_puts(&e->out, "</item></attributeValueSet>");
		x_close(&e->out, "item");
	}
	x_close(&e->out, "accountAttributeSet");
}
