#include "base/base.h"
#include "aws_priv.h"

/*
 * Settings and endpoints. aws_settings_read reads and checks the settings once, at open. A launch
 * looks up subnet.<zone> and security_groups.<region> itself, because open does not know the zones.
 */

#define DLAMI_PARAMETER \
	"/aws/service/deeplearning/ami/{arch}/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/" \
	"ami-id"
#define ADVISOR_URL "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
#define REGIONS_MAX 64

static const struct {
	const char *name, *signing, *env, *host;
} services[AWS_SERVICE_COUNT] = {
	[AWS_EC2] = { "EC2", "ec2", "AWS_ENDPOINT_URL_EC2", "https://ec2.%s.%s" },
	[AWS_PRICING] = { "Price List", "pricing", "AWS_ENDPOINT_URL_PRICING",
	    "https://api.pricing.%s.%s" },
	[AWS_STS] = { "STS", "sts", "AWS_ENDPOINT_URL_STS", "https://sts.%s.%s" },
	[AWS_QUOTAS] = { "Service Quotas", "servicequotas", "AWS_ENDPOINT_URL_SERVICE_QUOTAS",
	    "https://servicequotas.%s.%s" },
	[AWS_SSM] = { "SSM", "ssm", "AWS_ENDPOINT_URL_SSM", "https://ssm.%s.%s" },
	[AWS_S3] = { "S3", "s3", "AWS_ENDPOINT_URL_S3", "https://s3.%s.%s" },
	[AWS_SQS] = { "SQS", "sqs", "AWS_ENDPOINT_URL_SQS", "https://sqs.%s.%s" },
};

const char *aws_setting(const struct aws *self, const char *key)
{
	const char *v = self->conf.setting != NULL ? self->conf.setting(self->conf.ctx, key) : NULL;

	return str_empty(v) ? NULL : v;
}

const char *aws_env(const struct aws *self, const char *name)
{
	const char *v = self->conf.env != NULL ? self->conf.env(self->conf.ctx, name) : NULL;

	return str_empty(v) ? NULL : v;
}

/* ---- endpoints ------------------------------------------------------------------------------- */

const char *aws_service_name(enum aws_service s)
{
	return services[s].signing;
}

/* botocore endpoints.json. */
static const char *partition_suffix(const char *region)
{
	if (str_prefix(region, "cn-")) {
		return "amazonaws.com.cn";
	}
	if (str_prefix(region, "eusc-")) {
		return "amazonaws.eu";
	}
	return "amazonaws.com";
}

const char *aws_endpoint(const struct aws *self, struct arena *a, enum aws_service s,
    const char *region)
{
	if (self->endpoints[s] != NULL) {
		return self->endpoints[s];
	}
	if (!aws_region_ok(region)) {
		return NULL;
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	return arena_printf(a, services[s].host, region, partition_suffix(region));
#pragma GCC diagnostic pop
}

/* Region names go into host names and signatures: refuse what cannot be one. */
bool aws_region_ok(const char *region)
{
	size_t n = region != NULL ? strlen(region) : 0;

	return n >= 4 && n <= 32 && strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") == n &&
	    region[0] != '-' && region[n - 1] != '-' && strchr(region, '-') != NULL;
}

bool aws_id_ok(const char *id, const char *prefix)
{
	size_t n = id != NULL ? strlen(id) : 0, skip = strlen(prefix);

	return n > skip && n <= 64 && str_prefix(id, prefix) &&
	    strspn(id + skip, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") ==
	    n - skip;
}

/* scheme://host[:port], nothing else: a path would change what is signed, a password would be
 * logged. */
static enum spot_rc endpoint_check(struct aws *self, const char *where, const char *url,
    const char **ret, struct spot_err *err)
{
	const char *host = str_prefix(url, "http://") ? url + 7
	    : str_prefix(url, "https://")             ? url + 8
						      : NULL;
	size_t n = strlen(url);

	if (n > 0 && url[n - 1] == '/') {
		n--;
	}
	if (host == NULL || *host == '\0' || *host == '/' || n > 200) {
		return err_set(err, SPOT_CONFIG, "aws: %s: not an http:// or https:// address",
		    where);
	}
	if (memchr(host, '/', (size_t)(url + n - host)) || strpbrk(host, "@?# \t\r\n")) {
		return err_set(err, SPOT_CONFIG, "aws: %s: only scheme, host and port may be given",
		    where);
	}
	*ret = arena_strndup(self->arena, url, n);
	return SPOT_OK;
}

/* Setting, then the vendor's variables:
 * docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html */
static enum spot_rc endpoints_read(struct aws *self, struct spot_err *err)
{
	const char *setting = aws_setting(self, "endpoint"),
		   *ignore = aws_env(self, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");

	for (size_t s = AWS_EC2; s < AWS_SERVICE_COUNT; s++) {
		const char *where = "endpoint", *url = setting;
		enum spot_rc rc;

		if (url == NULL && ignore != NULL && strcmp(ignore, "true") == 0) {
			continue;
		}
		if (url == NULL) {
			url = aws_env(self, where = services[s].env);
		}
		if (url == NULL) {
			url = aws_env(self, where = "AWS_ENDPOINT_URL");
		}
		if (url == NULL) {
			continue;
		}
		rc = endpoint_check(self, where, url, &self->endpoints[s], err);
		if (rc != SPOT_OK) {
			return rc;
		}
	}
	return SPOT_OK;
}

const char *aws_queue(const struct aws *self, const char *region)
{
	char key[80];

	snprintf(key, sizeof(key), "interruption_queue.%s", region);
	return aws_setting(self, key);
}

/* https://host/account/name, as CreateQueue gives it. */
bool aws_queue_ok(const char *url)
{
	const char *host = str_prefix(url, "https://") ? url + 8
	    : str_prefix(url, "http://")               ? url + 7
						       : NULL;

	return host != NULL && strlen(url) <= 400 && strpbrk(host, "@?# \t\r\n") == NULL &&
	    strchr(host, '/') != NULL && !str_suffix(url, "/");
}

/* ---- settings -------------------------------------------------------------------------------- */

static enum spot_rc regions_read(struct aws *self, struct spot_err *err)
{
	const char *list = aws_setting(self, "regions");

	self->regions = arena_array(self->arena, REGIONS_MAX, sizeof(*self->regions));
	while (list != NULL && *list != '\0') {
		size_t n = strcspn(list, ",");
		size_t from = strspn(list, " \t");
		size_t len = n > from ? n - from : 0;
		const char *name;

		while (len > 0 && (list[from + len - 1] == ' ' || list[from + len - 1] == '\t')) {
			len--;
		}
		name = arena_strndup(self->arena, list + from, len);
		if (!aws_region_ok(name)) {
			return err_set(err, SPOT_CONFIG,
			    "aws: regions: '%.40s' is not a region name", name);
		}
		if (self->regions_n == REGIONS_MAX) {
			return err_set(err, SPOT_CONFIG, "aws: regions: more than %d names",
			    REGIONS_MAX);
		}
		self->regions[self->regions_n++] = name;
		list += n + (list[n] == ',');
	}
	self->home = aws_env(self, "AWS_REGION");
	if (self->home == NULL) {
		self->home = aws_env(self, "AWS_DEFAULT_REGION");
	}
	if (self->home == NULL) {
		self->home = self->regions_n > 0 ? self->regions[0] : NULL;
	}
	self->home_guessed = self->home == NULL;
	if (self->home_guessed) {
		self->home = "us-east-1";
	}
	if (!aws_region_ok(self->home)) {
		return err_set(err, SPOT_CONFIG, "aws: AWS_REGION: '%.40s' is not a region name",
		    self->home);
	}
	return SPOT_OK;
}

static enum spot_rc onoff_read(struct aws *self, const char *key, const char *dflt, bool *ret,
    struct spot_err *err)
{
	const char *v = aws_setting(self, key);

	if (v == NULL) {
		v = dflt;
	}
	*ret = strcmp(v, "on") == 0;
	if (!*ret && strcmp(v, "off") != 0) {
		return err_set(err, SPOT_CONFIG, "aws: %s: '%.40s' is neither on nor off", key, v);
	}
	return SPOT_OK;
}

/* all: interruptible ones, too. A word of its own: the daemon of an older release, which does not
 * know their market, refuses it. */
static enum spot_rc reservations_read(struct aws *self, struct spot_err *err)
{
	const char *v = aws_setting(self, "reservations");

	self->lent = str_same(v, "all");
	if (self->lent) {
		self->reservations = true;
		return SPOT_OK;
	}
	if (v != NULL && strcmp(v, "on") != 0 && strcmp(v, "off") != 0) {
		return err_set(err, SPOT_CONFIG, "aws: reservations: '%.40s' is not on, all or off",
		    v);
	}
	return onoff_read(self, "reservations", "off", &self->reservations, err);
}

static enum spot_rc image_read(struct aws *self, struct spot_err *err)
{
	const char *gib = aws_setting(self, "root_gib");

	self->ami = aws_setting(self, "ami");
	self->ami_arm64 = aws_setting(self, "ami_arm64");
	self->ami_parameter = aws_setting(self, "ami_parameter");
	self->root_device = aws_setting(self, "root_device");
	if (self->ami != NULL && !aws_id_ok(self->ami, "ami-")) {
		return err_set(err, SPOT_CONFIG, "aws: ami: '%.40s' is not an image id (ami-...)",
		    self->ami);
	}
	if (self->ami_arm64 != NULL && !aws_id_ok(self->ami_arm64, "ami-")) {
		return err_set(err, SPOT_CONFIG,
		    "aws: ami_arm64: '%.40s' is not an image id (ami-...)", self->ami_arm64);
	}
	if (self->ami != NULL && self->ami_parameter != NULL) {
		return err_set(err, SPOT_CONFIG, "aws: ami and ami_parameter exclude each other");
	}
	if (self->ami_parameter == NULL) {
		self->ami_parameter = DLAMI_PARAMETER;
	}
	if (self->ami_parameter[0] != '/' || strlen(self->ami_parameter) > 1000) {
		return err_set(err, SPOT_CONFIG,
		    "aws: ami_parameter: must be the path of an SSM parameter "
		    "(/aws/service/...)");
	}
	/* The vendor's Ubuntu images; Amazon Linux has /dev/xvda. */
	if (self->root_device == NULL) {
		self->root_device = "/dev/sda1";
	}
	if (!str_prefix(self->root_device, "/dev/") || strlen(self->root_device) > 32) {
		return err_set(err, SPOT_CONFIG,
		    "aws: root_device: '%.40s' is not a device (/dev/...)", self->root_device);
	}
	if (gib != NULL && !parse_i64(gib, 8, 16384, &self->root_gib)) {
		return err_set(err, SPOT_CONFIG,
		    "aws: root_gib: '%.40s' is not a number from 8 to 16384", gib);
	}
	return SPOT_OK;
}

static enum spot_rc network_read(struct aws *self, struct spot_err *err)
{
	const char *ip = aws_setting(self, "public_ip");

	self->identity_certs = aws_setting(self, "identity_certs");
	if (self->identity_certs != NULL && self->identity_certs[0] != '/') {
		return err_set(err, SPOT_CONFIG,
		    "aws: identity_certs: '%.80s' is not an absolute path", self->identity_certs);
	}
	if (onoff_read(self, "efa", "off", &self->efa, err) != SPOT_OK) {
		return SPOT_CONFIG;
	}
	self->instance_profile = aws_setting(self, "instance_profile");
	if (self->instance_profile != NULL && strlen(self->instance_profile) > 512) {
		return err_set(err, SPOT_CONFIG,
		    "aws: instance_profile: longer than 512 characters");
	}
	if (ip == NULL || strcmp(ip, "default") == 0) {
		return SPOT_OK;
	}
	if (strcmp(ip, "on") != 0 && strcmp(ip, "off") != 0) {
		return err_set(err, SPOT_CONFIG,
		    "aws: public_ip: '%.40s' is not on, off or default", ip);
	}
	self->public_ip = strcmp(ip, "on") == 0 ? "true" : "false";
	return SPOT_OK;
}

static enum spot_rc advisor_read(struct aws *self, struct spot_err *err)
{
	const char *url = aws_setting(self, "advisor_url");

	self->advisor_url = url != NULL ? url : ADVISOR_URL;
	if (strcmp(self->advisor_url, "off") == 0) {
		self->advisor_url = "";
		return SPOT_OK;
	}
	if ((!str_prefix(self->advisor_url, "http://") &&
		!str_prefix(self->advisor_url, "https://")) ||
	    strpbrk(self->advisor_url, "@ \t\r\n") || strlen(self->advisor_url) > 500) {
		return err_set(err, SPOT_CONFIG,
		    "aws: advisor_url: not an http:// or https:// address (or off)");
	}
	return SPOT_OK;
}

static enum spot_rc manager_read(struct aws *self, struct spot_err *err)
{
	const char *v = aws_setting(self, "capacity_manager");

	self->manager = v == NULL || strcmp(v, "off") != 0;
	if (v == NULL || strcmp(v, "on") == 0 || strcmp(v, "off") == 0) {
		return SPOT_OK;
	}
	if (!aws_region_ok(v)) {
		return err_set(err, SPOT_CONFIG,
		    "aws: capacity_manager: '%.40s' is not on, off or a region", v);
	}
	self->manager_region = v;
	return SPOT_OK;
}

/* Checks the settings that need no zones: subnet.<region> and security_groups.<region> of the
 * configured regions. */
static enum spot_rc per_region_check(struct aws *self, struct spot_err *err)
{
	for (size_t i = 0; i < self->regions_n; i++) {
		char key[80];
		const char *v;

		snprintf(key, sizeof(key), "subnet.%s", self->regions[i]);
		v = aws_setting(self, key);
		if (v != NULL && !aws_id_ok(v, "subnet-")) {
			return err_set(err, SPOT_CONFIG,
			    "aws: %s: '%.40s' is not a subnet id (subnet-...)", key, v);
		}
		snprintf(key, sizeof(key), "interruption_queue.%s", self->regions[i]);
		v = aws_setting(self, key);
		if (v != NULL && !aws_queue_ok(v)) {
			return err_set(err, SPOT_CONFIG,
			    "aws: %s: '%.80s' is not the address of a queue "
			    "(https://sqs.REGION.amazonaws.com/ACCOUNT/NAME)",
			    key, v);
		}
		snprintf(key, sizeof(key), "security_groups.%s", self->regions[i]);
		v = aws_setting(self, key);
		if (v != NULL && !str_prefix(v + strspn(v, " "), "sg-")) {
			return err_set(err, SPOT_CONFIG,
			    "aws: %s: '%.40s' is not a list of security group "
			    "ids (sg-...)",
			    key, v);
		}
	}
	return SPOT_OK;
}

enum spot_rc aws_settings_read(struct aws *self, struct spot_err *err)
{
	enum spot_rc (*const readers[])(struct aws *, struct spot_err *) = { regions_read,
		endpoints_read, image_read, network_read, advisor_read, manager_read,
		per_region_check };

	self->profile = aws_setting(self, "profile");
	for (size_t i = 0; i < ARRAY_LEN(readers); i++) {
		enum spot_rc rc = readers[i](self, err);

		if (rc != SPOT_OK) {
			return rc;
		}
	}
	if (onoff_read(self, "placement_scores", "on", &self->placement_scores, err) != SPOT_OK) {
		return err->rc;
	}
	return reservations_read(self, err);
}
