#include "base/base.h"
#include "gcp_priv.h"

/*
 * Settings and addresses. Settings are read and checked once, at open; only subnetwork.<region> is
 * looked up per launch, because regions are not known before.
 */

#define REGIONS_MAX 128
/* The vendor's bounds of requestValidForDuration; 0, without a wait, is not used. */
#define FLEX_WAIT_LEAST_US (90 * SPOT_US_PER_S)
#define FLEX_WAIT_MOST_US (2 * SPOT_US_PER_HOUR)
#define DEFAULT_IMAGE \
	"projects/ubuntu-os-accelerator-images/global/images/family/" \
	"ubuntu-accelerator-2404-{arch}-with-nvidia-570"

const char *gcp_setting(const struct gcp *self, const char *key)
{
	const char *v = self->conf.setting != NULL ? self->conf.setting(self->conf.ctx, key) : NULL;

	return str_empty(v) ? NULL : v;
}

const char *gcp_env(const struct gcp *self, const char *name)
{
	const char *v = self->conf.env != NULL ? self->conf.env(self->conf.ctx, name) : NULL;

	return str_empty(v) ? NULL : v;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The service's own paths tell them apart when one address stands for all. */
static const char *const hosts[GCP_SERVICE_COUNT] = {
	[GCP_COMPUTE] = "https://compute.googleapis.com",
	[GCP_BILLING] = "https://cloudbilling.googleapis.com",
	[GCP_OAUTH] = "https://oauth2.googleapis.com",
	[GCP_STS] = "https://sts.googleapis.com",
	[GCP_IAM] = "https://iamcredentials.googleapis.com",
	[GCP_QUOTAS] = "https://cloudquotas.googleapis.com",
	[GCP_STORAGE] = "https://storage.googleapis.com",
	[GCP_PROJECTS] = "https://cloudresourcemanager.googleapis.com",
	[GCP_CERTS] = "https://www.googleapis.com",
};

const char *gcp_base(const struct gcp *self, enum gcp_service s)
{
	return self->endpoint != NULL ? self->endpoint : hosts[s];
}

bool gcp_url_ok(const char *url)
{
	const char *host = str_empty(url) ? NULL
	    : str_prefix(url, "http://")  ? url + 7
	    : str_prefix(url, "https://") ? url + 8
					  : NULL;
	size_t n = host != NULL ? strcspn(host, "/?#") : 0;

	if (n == 0 || strlen(url) > 500 || memchr(host, '@', n) != NULL) {
		return false;
	}
	for (const char *p = url; *p != '\0'; p++) {
		if ((unsigned char)*p <= ' ' || *p == 0x7f) {
			return false;
		}
	}
	return true;
}

const char *gcp_rebase(const struct gcp *self, struct arena *a, const char *url)
{
	const char *host = strstr(url, "://") + 3;
	size_t n = strcspn(host, "/?#");

	if (self->endpoint == NULL || !str_suffix(arena_strndup(a, host, n), ".googleapis.com")) {
		return url;
	}
	return arena_printf(a, "%s%s", self->endpoint, host + n);
}

/* scheme://host[:port], nothing else. */
static enum spot_rc endpoint_read(struct gcp *self, struct spot_err *err)
{
	const char *url = gcp_setting(self, "endpoint"), *host;
	size_t n;

	if (url == NULL) {
		return SPOT_OK;
	}
	n = strlen(url);
	if (url[n - 1] == '/') {
		n--;
	}
	if (!gcp_url_ok(url)) {
		return err_set(err, SPOT_CONFIG,
		    "gcp: endpoint: not an http:// or https:// address");
	}
	host = strstr(url, "://") + 3;
	if (strcspn(host, "/?#") < (size_t)(url + n - host)) {
		return err_set(err, SPOT_CONFIG,
		    "gcp: endpoint: only scheme, host and port may be given");
	}
	self->endpoint = arena_strndup(self->arena, url, n);
	return SPOT_OK;
}

/* ---- settings -------------------------------------------------------------------------------- */

static enum spot_rc regions_read(struct gcp *self, struct spot_err *err)
{
	const char *list = gcp_setting(self, "regions");

	self->regions = arena_array(self->arena, REGIONS_MAX, sizeof(*self->regions));
	while (list != NULL && *list != '\0') {
		size_t skip = strspn(list, " \t,"), n = strcspn(list + skip, " \t,");
		const char *name;

		if (n == 0) {
			break;
		}
		name = arena_strndup(self->arena, list + skip, n);
		if (!gcp_zone_ok(name)) {
			return err_set(err, SPOT_CONFIG,
			    "gcp: regions: '%.40s' is not a region name", name);
		}
		if (self->regions_n == REGIONS_MAX) {
			return err_set(err, SPOT_CONFIG, "gcp: regions: more than %d names",
			    REGIONS_MAX);
		}
		self->regions[self->regions_n++] = name;
		list += skip + n;
	}
	return SPOT_OK;
}

bool gcp_region_wanted(const struct gcp *self, const char *region)
{
	for (size_t i = 0; i < self->regions_n; i++) {
		if (strcmp(self->regions[i], region) == 0) {
			return true;
		}
	}
	return self->regions_n == 0;
}

static bool project_ok(const char *p)
{
	size_t n = strlen(p);

	/* "example.com:project" is the old domain-scoped form. */
	return n >= 4 && n <= 100 && strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789-.:") == n;
}

static enum spot_rc project_read(struct gcp *self, struct spot_err *err)
{
	self->project = gcp_setting(self, "project");
	if (self->project == NULL) {
		self->project = gcp_env(self, "GOOGLE_CLOUD_PROJECT");
	}
	if (self->project == NULL) {
		return err_set(err, SPOT_CONFIG,
		    "gcp: project: not set; name the project in which machines are to run");
	}
	if (!project_ok(self->project)) {
		return err_set(err, SPOT_CONFIG, "gcp: project: '%.60s' is not a project id",
		    self->project);
	}
	return SPOT_OK;
}

static enum spot_rc onoff_read(struct gcp *self, const char *key, const char *dflt, bool *ret,
    struct spot_err *err)
{
	const char *v = gcp_setting(self, key);

	if (v == NULL) {
		v = dflt;
	}
	*ret = strcmp(v, "on") == 0;
	if (!*ret && strcmp(v, "off") != 0) {
		return err_set(err, SPOT_CONFIG, "gcp: %s: '%.40s' is neither on nor off", key, v);
	}
	return SPOT_OK;
}

static enum spot_rc number_read(struct gcp *self, const char *key, int64_t min, int64_t max,
    int64_t dflt, int64_t *ret, struct spot_err *err)
{
	const char *v = gcp_setting(self, key);

	*ret = dflt;
	if (v != NULL && !parse_i64(v, min, max, ret)) {
		return err_set(err, SPOT_CONFIG,
		    "gcp: %s: '%.40s' is not a number from %" PRId64 " to %" PRId64, key, v, min,
		    max);
	}
	return SPOT_OK;
}

/* Names and partial links: what may stand in the JSON of an instance. */
static bool link_ok(const char *v)
{
	size_t n = strlen(v);

	return n <= 400 &&
	    strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/") == n;
}

static enum spot_rc machine_read(struct gcp *self, struct spot_err *err)
{
	const char *arch;

	self->network = gcp_setting(self, "network");
	if (self->network == NULL) {
		self->network = "default";
	}
	if (!link_ok(self->network)) {
		return err_set(err, SPOT_CONFIG,
		    "gcp: network: '%.60s' is not the name or path of a network", self->network);
	}
	self->image = gcp_setting(self, "image");
	if (self->image == NULL) {
		self->image = DEFAULT_IMAGE;
	}
	arch = strstr(self->image, "{arch}");
	if (strchr(self->image, '/') == NULL ||
	    !link_ok(arch == NULL ? self->image
				  : arena_printf(self->arena, "%.*s%s", (int)(arch - self->image),
					self->image, arch + 6))) {
		return err_set(err, SPOT_CONFIG,
		    "gcp: image: '%.80s' is not the path of an image "
		    "(projects/P/global/images/family/F)",
		    self->image);
	}
	self->service_account = gcp_setting(self, "service_account");
	if (self->service_account == NULL) {
		self->service_account = "default";
	}
	if (strcmp(self->service_account, "none") != 0 &&
	    strcmp(self->service_account, "default") != 0 &&
	    strchr(self->service_account, '@') == NULL) {
		return err_set(err, SPOT_CONFIG,
		    "gcp: service_account: '%.80s' is not an address "
		    "(name@project.iam.gserviceaccount.com), "
		    "default or none",
		    self->service_account);
	}
	self->disk_type = gcp_setting(self, "disk_type");
	if (self->disk_type != NULL && !gcp_name_ok(self->disk_type)) {
		return err_set(err, SPOT_CONFIG,
		    "gcp: disk_type: '%.40s' is not a disk type (pd-balanced, ...)",
		    self->disk_type);
	}
	return SPOT_OK;
}

static enum spot_rc advice_read(struct gcp *self, struct spot_err *err)
{
	const char *v = gcp_setting(self, "advice_version");

	self->advice_version = v == NULL ? "v1" : strcmp(v, "off") == 0 ? "" : v;
	if (v != NULL && strcmp(v, "off") != 0 && strcmp(v, "v1") != 0 && strcmp(v, "beta") != 0) {
		return err_set(err, SPOT_CONFIG,
		    "gcp: advice_version: '%.40s' is not v1, beta or off", v);
	}
	return number_read(self, "advice_calls", 0, 2000, 100, &self->advice_calls, err);
}

static enum spot_rc flex_wait_read(struct gcp *self, struct spot_err *err)
{
	const char *v = gcp_setting(self, "flex_start_wait");
	int64_t us = 15 * 60 * SPOT_US_PER_S;

	if (v != NULL &&
	    (!parse_duration_us(v, &us) || us < FLEX_WAIT_LEAST_US || us > FLEX_WAIT_MOST_US)) {
		return err_set(err, SPOT_CONFIG,
		    "gcp: flex_start_wait: '%.40s' is not a duration from 90s to 2h", v);
	}
	self->flex_wait_s = us / SPOT_US_PER_S;
	return SPOT_OK;
}

static enum spot_rc numbers_read(struct gcp *self, struct spot_err *err)
{
	enum spot_rc rc = number_read(self, "disk_gib", 10, 65536, 100, &self->disk_gib, err);

	/* The vendor takes 30 seconds to 120 days. */
	if (rc == SPOT_OK) {
		rc = number_read(self, "max_run_hours", 0, 2880, 720, &self->run_hours, err);
	}
	if (rc == SPOT_OK) {
		rc = onoff_read(self, "public_ip", "on", &self->public_ip, err);
	}
	if (rc == SPOT_OK) {
		rc = onoff_read(self, "preemption_notice", "on", &self->notice, err);
	}
	if (rc == SPOT_OK) {
		rc = onoff_read(self, "reservations", "off", &self->reservations, err);
	}
	if (rc == SPOT_OK) {
		rc = onoff_read(self, "flex_start", "off", &self->flex_start, err);
	}
	return rc == SPOT_OK ? flex_wait_read(self, err) : rc;
}

enum spot_rc gcp_settings_read(struct gcp *self, struct spot_err *err)
{
	enum spot_rc (*const readers[])(struct gcp *, struct spot_err *) = { project_read,
		regions_read, endpoint_read, machine_read, advice_read, numbers_read };

	self->credentials = gcp_setting(self, "credentials");
	self->bucket = gcp_setting(self, "bucket");
	for (size_t i = 0; i < ARRAY_LEN(readers); i++) {
		enum spot_rc rc = readers[i](self, err);

		if (rc != SPOT_OK) {
			return rc;
		}
	}
	for (size_t i = 0; i < self->regions_n; i++) {
		char key[100];
		const char *v;

		snprintf(key, sizeof(key), "subnetwork.%s", self->regions[i]);
		v = gcp_setting(self, key);
		if (v != NULL && !link_ok(v)) {
			return err_set(err, SPOT_CONFIG,
			    "gcp: %s: '%.60s' is not the name or path of a subnetwork", key, v);
		}
	}
	return SPOT_OK;
}
