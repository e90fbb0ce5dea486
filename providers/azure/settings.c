#include "base/base.h"
#include "azure_priv.h"

/*
 * Settings, read and checked once at open; only subnet.<region> and nsg.<region> are looked up per
 * launch, because regions are not known before. Names of variables are those of the vendor's own
 * libraries (azure-identity).
 */

#include <ctype.h>
#include <strings.h>

#define REGIONS_MAX 100
/* Ubuntu with NVIDIA drivers for the GPU sizes, published by the vendor: README.md. */
#define IMAGE "microsoft-dsvm:ubuntu-hpc:2204:latest"
#define IMAGE_ARM64 "microsoft-dsvm:ubuntu-hpc:2404-arm:latest"

const char *azure_setting(const struct azure *self, const char *key)
{
	const char *v = self->conf.setting != NULL ? self->conf.setting(self->conf.ctx, key) : NULL;

	return str_empty(v) ? NULL : v;
}

const char *azure_env(const struct azure *self, const char *name)
{
	const char *v = self->conf.env != NULL ? self->conf.env(self->conf.ctx, name) : NULL;

	return str_empty(v) ? NULL : v;
}

static const char *setting_or_env(const struct azure *self, const char *key, const char *env)
{
	const char *v = azure_setting(self, key);

	return v != NULL ? v : azure_env(self, env);
}

/* ---- forms ----------------------------------------------------------------------------------- */

bool azure_region_ok(const char *region)
{
	size_t n = region != NULL ? strlen(region) : 0;

	return n >= 3 && n <= 40 && strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789") == n;
}

const char *azure_region(struct arena *a, const char *text)
{
	char *out = arena_strdup(a, text != NULL ? text : ""), *to = out;

	for (const char *p = out; *p != '\0'; p++) {
		if (*p != ' ') {
			*to++ = (char)tolower((unsigned char)*p);
		}
	}
	*to = '\0';
	return out;
}

bool azure_guid_ok(const char *text)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	if (text == NULL || strlen(text) != sizeof(form) - 1) {
		return false;
	}
	for (size_t i = 0; i < sizeof(form) - 1; i++) {
		if (form[i] == 'x' ? !isxdigit((unsigned char)text[i]) : text[i] != '-') {
			return false;
		}
	}
	return true;
}

/* Ids are compared without case everywhere, so the type may be written in any. */
bool azure_id_ok(const char *id, const char *type)
{
	size_t n = id != NULL ? strlen(id) : 0, len = strlen(type);

	if (n < 20 || n > 1000 || strncasecmp(id, "/subscriptions/", 15) != 0 ||
	    strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._()/") !=
		n) {
		return false;
	}
	for (const char *p = id; (p = strchr(p, '/')) != NULL; p++) {
		if (strncasecmp(p + 1, type, len) == 0 && p[1 + len] == '/' && p[2 + len] != '\0') {
			return true;
		}
	}
	return false;
}

/* The tenant and the client id go into addresses and forms: a GUID or the name of a domain. */
static bool name_ok(const char *text)
{
	size_t n = strlen(text);

	return n >= 1 && n <= 128 &&
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") == n;
}

/* scheme://host[:port], and a path only where one is meant. */
static enum spot_rc endpoint_read(struct azure *self, const char *where, const char *url, bool path,
    const char **ret, struct spot_err *err)
{
	const char *host = str_prefix(url, "http://") ? url + 7
	    : str_prefix(url, "https://")             ? url + 8
						      : NULL;
	size_t n = strlen(url);

	while (n > 0 && url[n - 1] == '/') {
		n--;
	}
	if (host == NULL || *host == '\0' || *host == '/' || n > 200 || host >= url + n) {
		return err_set(err, SPOT_CONFIG, "azure: %s: not an http:// or https:// address",
		    where);
	}
	if ((!path && memchr(host, '/', (size_t)(url + n - host))) ||
	    strpbrk(host, "@?#\\ \t\r\n")) {
		return err_set(err, SPOT_CONFIG,
		    "azure: %s: only scheme, host and port may be given", where);
	}
	*ret = arena_strndup(self->arena, url, n);
	return SPOT_OK;
}

/* ---- groups of settings ---------------------------------------------------------------------- */

static enum spot_rc regions_read(struct azure *self, struct spot_err *err)
{
	const char *list = azure_setting(self, "regions");

	self->regions = arena_array(self->arena, REGIONS_MAX, sizeof(*self->regions));
	while (list != NULL && *list != '\0') {
		size_t n = strcspn(list, ",");
		const char *name = azure_region(self->arena, arena_strndup(self->arena, list, n));

		if (!azure_region_ok(name)) {
			return err_set(err, SPOT_CONFIG,
			    "azure: regions: '%.40s' is not a region name", name);
		}
		if (self->regions_n == REGIONS_MAX) {
			return err_set(err, SPOT_CONFIG, "azure: regions: more than %d names",
			    REGIONS_MAX);
		}
		self->regions[self->regions_n++] = name;
		list += n + (list[n] == ',');
	}
	return SPOT_OK;
}

static enum spot_rc endpoints_read(struct azure *self, struct spot_err *err)
{
	const struct {
		const char *key, *env, *dflt;
		bool path;
		const char **to;
	} all[] = {
		{ "endpoint", NULL, "https://management.azure.com", false, &self->endpoint },
		{ "audience", NULL, "https://management.azure.com", false, &self->audience },
		{ "authority", "AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com", false,
		    &self->authority },
		{ "prices_endpoint", NULL, "https://prices.azure.com", false,
		    &self->prices_endpoint },
		{ "metadata_endpoint", "AZURE_POD_IDENTITY_AUTHORITY_HOST",
		    "http://169.254.169.254", false, &self->metadata },
		{ "blob_endpoint", NULL, NULL, true, &self->blob_endpoint },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		const char *where = all[i].key, *v = azure_setting(self, where);
		enum spot_rc rc;

		if (v == NULL && all[i].env != NULL && (v = azure_env(self, all[i].env)) != NULL) {
			where = all[i].env;
		}
		if (v == NULL) {
			v = all[i].dflt;
		}
		if (v == NULL) {
			continue;
		}
		rc = endpoint_read(self, where, v, all[i].path, all[i].to, err);
		if (rc != SPOT_OK) {
			return rc;
		}
	}
	return SPOT_OK;
}

static enum spot_rc account_read(struct azure *self, struct spot_err *err)
{
	self->subscription = setting_or_env(self, "subscription", "AZURE_SUBSCRIPTION_ID");
	if (self->subscription == NULL) {
		return err_set(err, SPOT_CONFIG,
		    "azure: subscription: not set; give the id of the subscription to "
		    "launch in (az account show)");
	}
	if (!azure_guid_ok(self->subscription)) {
		return err_set(err, SPOT_CONFIG,
		    "azure: subscription: '%.40s' is not a subscription id", self->subscription);
	}
	self->subscription = arena_strdup(self->arena, self->subscription);
	self->tenant = setting_or_env(self, "tenant", "AZURE_TENANT_ID");
	self->client_id = setting_or_env(self, "client_id", "AZURE_CLIENT_ID");
	if (self->tenant != NULL && !name_ok(self->tenant)) {
		return err_set(err, SPOT_CONFIG,
		    "azure: tenant: '%.40s' is neither an id nor a domain", self->tenant);
	}
	if (self->client_id != NULL && !name_ok(self->client_id)) {
		return err_set(err, SPOT_CONFIG, "azure: client_id: '%.40s' is not a client id",
		    self->client_id);
	}
	return SPOT_OK;
}

static enum azure_auth_kind auth_guess(const struct azure *self)
{
	if (self->secret_file != NULL || secret_set(&self->env_secret)) {
		return AUTH_SECRET;
	}
	if (self->certificate_file != NULL) {
		return AUTH_CERTIFICATE;
	}
	return self->federated_file != NULL ? AUTH_WORKLOAD : AUTH_MANAGED;
}

/* The order of azure-identity's DefaultAzureCredential: environment (secret, certificate), workload
 * identity, managed identity. */
static enum spot_rc auth_read(struct azure *self, struct spot_err *err)
{
	static const char *const kinds[] = { [AUTH_SECRET] = "client_secret",
		[AUTH_CERTIFICATE] = "certificate",
		[AUTH_WORKLOAD] = "workload_identity",
		[AUTH_MANAGED] = "managed_identity" };
	const char *v = azure_setting(self, "auth"),
		   *secret = azure_env(self, "AZURE_CLIENT_SECRET");

	self->secret_file = azure_setting(self, "client_secret_file");
	self->certificate_file =
	    setting_or_env(self, "client_certificate_file", "AZURE_CLIENT_CERTIFICATE_PATH");
	self->federated_file =
	    setting_or_env(self, "federated_token_file", "AZURE_FEDERATED_TOKEN_FILE");
	if (secret != NULL && self->secret_file == NULL) {
		secret_init(&self->env_secret, secret, strlen(secret));
	}
	self->auth_kind = v == NULL || strcmp(v, "auto") == 0 ? auth_guess(self) : 0;
	for (size_t i = 1; i < ARRAY_LEN(kinds) && v != NULL; i++) {
		if (strcmp(v, kinds[i]) == 0) {
			self->auth_kind = (enum azure_auth_kind)i;
		}
	}
	if (self->auth_kind == 0) {
		return err_set(err, SPOT_CONFIG,
		    "azure: auth: '%.40s' is none of auto, client_secret, certificate, "
		    "workload_identity, "
		    "managed_identity",
		    v);
	}
	if (self->auth_kind != AUTH_MANAGED && (self->tenant == NULL || self->client_id == NULL)) {
		return err_set(err, SPOT_CONFIG, "azure: %s: needed with auth = %s",
		    self->tenant == NULL ? "tenant" : "client_id", kinds[self->auth_kind]);
	}
	if ((self->auth_kind == AUTH_SECRET && self->secret_file == NULL &&
		!secret_set(&self->env_secret)) ||
	    (self->auth_kind == AUTH_CERTIFICATE && self->certificate_file == NULL) ||
	    (self->auth_kind == AUTH_WORKLOAD && self->federated_file == NULL)) {
		return err_set(err, SPOT_CONFIG, "azure: auth = %s needs %s",
		    kinds[self->auth_kind],
		    self->auth_kind == AUTH_SECRET ? "client_secret_file or AZURE_CLIENT_SECRET"
			: self->auth_kind == AUTH_CERTIFICATE
			? "client_certificate_file"
			: "federated_token_file or AZURE_FEDERATED_TOKEN_FILE");
	}
	return SPOT_OK;
}

static enum spot_rc image_check(const char *key, const char *image, struct spot_err *err)
{
	size_t colons = 0;

	for (const char *p = image; *p != '\0'; p++) {
		colons += *p == ':';
	}
	if (azure_id_ok(image, "images") ||
	    (colons == 3 && strlen(image) < 300 && strpbrk(image, " \t/\"") == NULL)) {
		return SPOT_OK;
	}
	return err_set(err, SPOT_CONFIG,
	    "azure: %s: '%.60s' is neither publisher:offer:sku:version nor the id of an image", key,
	    image);
}

static enum spot_rc machine_read(struct azure *self, struct spot_err *err)
{
	const char *gib = azure_setting(self, "os_disk_gib");
	enum spot_rc rc;

	self->image = azure_setting(self, "image");
	self->image_arm64 = azure_setting(self, "image_arm64");
	self->image = self->image != NULL ? self->image : IMAGE;
	self->image_arm64 = self->image_arm64 != NULL ? self->image_arm64 : IMAGE_ARM64;
	rc = image_check("image", self->image, err);
	if (rc == SPOT_OK) {
		rc = image_check("image_arm64", self->image_arm64, err);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	self->disk_type = azure_setting(self, "os_disk_type");
	if (self->disk_type == NULL) {
		self->disk_type = "Premium_LRS";
	}
	if (gib != NULL && !parse_i64(gib, 30, 4095, &self->disk_gib)) {
		return err_set(err, SPOT_CONFIG,
		    "azure: os_disk_gib: '%.40s' is not a number from 30 to 4095", gib);
	}
	self->admin_user = azure_setting(self, "admin_user");
	if (self->admin_user == NULL) {
		self->admin_user = "spot";
	}
	if (strlen(self->admin_user) > 32 ||
	    strspn(self->admin_user, "abcdefghijklmnopqrstuvwxyz0123456789_-") !=
		strlen(self->admin_user)) {
		return err_set(err, SPOT_CONFIG, "azure: admin_user: '%.40s' is not a user name",
		    self->admin_user);
	}
	self->ssh_public_key = azure_setting(self, "ssh_public_key");
	if (self->ssh_public_key != NULL &&
	    ((!str_prefix(self->ssh_public_key, "ssh-rsa ") &&
		 !str_prefix(self->ssh_public_key, "ssh-ed25519 ")) ||
		strlen(self->ssh_public_key) > 4000)) {
		return err_set(err, SPOT_CONFIG,
		    "azure: ssh_public_key: must be the text of a public key "
		    "(ssh-ed25519 AAAA... or ssh-rsa AAAA...)");
	}
	self->identity = azure_setting(self, "identity");
	if (self->identity != NULL && !azure_id_ok(self->identity, "userAssignedIdentities")) {
		return err_set(err, SPOT_CONFIG,
		    "azure: identity: '%.60s' is not the id of a user-assigned identity",
		    self->identity);
	}
	return SPOT_OK;
}

static enum spot_rc onoff_read(struct azure *self, const char *key, const char *dflt, bool *ret,
    struct spot_err *err)
{
	const char *v = azure_setting(self, key);

	if (v == NULL) {
		v = dflt;
	}
	*ret = strcmp(v, "on") == 0;
	if (!*ret && strcmp(v, "off") != 0) {
		return err_set(err, SPOT_CONFIG, "azure: %s: '%.40s' is neither on nor off", key,
		    v);
	}
	return SPOT_OK;
}

static enum spot_rc rest_read(struct azure *self, struct spot_err *err)
{
	const char *p = azure_setting(self, "resource_group_prefix");
	enum spot_rc rc = onoff_read(self, "public_ip", "on", &self->public_ip, err);

	if (rc == SPOT_OK) {
		rc = onoff_read(self, "placement_scores", "on", &self->placement_scores, err);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	if (p == NULL) {
		p = "spotbroker";
	}
	/* It becomes part of a machine's name, too:
	 * learn.microsoft.com/azure/azure-resource-manager/management/ resource-name-rules. */
	if (strlen(p) > 20 || strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(p) ||
	    p[0] == '-') {
		return err_set(err, SPOT_CONFIG,
		    "azure: resource_group_prefix: '%.40s': 1 to 20 of a-z, 0-9 and -, "
		    "a letter or digit first",
		    p);
	}
	self->group_prefix = arena_strdup(self->arena, p);
	self->attested_ca_file = azure_setting(self, "attested_ca_file");
	self->attested_name = azure_setting(self, "attested_name");
	if (self->attested_name == NULL) {
		self->attested_name = "metadata.azure.com";
	}
	return SPOT_OK;
}

static enum spot_rc storage_read(struct azure *self, struct spot_err *err)
{
	const char *account = azure_setting(self, "storage_account"),
		   *key = azure_env(self, "AZURE_STORAGE_KEY");
	size_t n = account != NULL ? strlen(account) : 0;

	self->storage_key_file = azure_setting(self, "storage_key_file");
	if (account == NULL && (self->storage_key_file != NULL || self->blob_endpoint != NULL)) {
		return err_set(err, SPOT_CONFIG, "azure: storage_account: needed with %s",
		    self->blob_endpoint != NULL ? "blob_endpoint" : "storage_key_file");
	}
	if (account == NULL) {
		return SPOT_OK;
	}
	if (n < 3 || n > 24 || strspn(account, "abcdefghijklmnopqrstuvwxyz0123456789") != n) {
		return err_set(err, SPOT_CONFIG,
		    "azure: storage_account: '%.40s' is not the name of one", account);
	}
	self->storage_account = arena_strdup(self->arena, account);
	if (self->blob_endpoint == NULL) {
		self->blob_endpoint =
		    arena_printf(self->arena, "https://%s.blob.core.windows.net", account);
	}
	if (key != NULL && self->storage_key_file == NULL) {
		secret_init(&self->storage_key, key, strlen(key));
	}
	return SPOT_OK;
}

/* Checks the settings that need no list of regions: those of the configured regions. */
static enum spot_rc per_region_check(struct azure *self, struct spot_err *err)
{
	static const struct {
		const char *key, *type, *words;
	} all[] = { { "subnet", "subnets", "a subnet" },
		{ "nsg", "networkSecurityGroups", "a network security group" } };

	for (size_t i = 0; i < self->regions_n * ARRAY_LEN(all); i++) {
		const size_t k = i % ARRAY_LEN(all);
		char key[80];
		const char *v;

		snprintf(key, sizeof(key), "%s.%s", all[k].key, self->regions[i / ARRAY_LEN(all)]);
		v = azure_setting(self, key);
		if (v != NULL && !azure_id_ok(v, all[k].type)) {
			return err_set(err, SPOT_CONFIG,
			    "azure: %s: '%.60s' is not the id of %s (/subscriptions/...)", key, v,
			    all[k].words);
		}
	}
	return SPOT_OK;
}

enum spot_rc azure_settings_read(struct azure *self, struct spot_err *err)
{
	enum spot_rc (*const readers[])(struct azure *, struct spot_err *) = { regions_read,
		endpoints_read, account_read, auth_read, machine_read, rest_read, storage_read,
		per_region_check };

	for (size_t i = 0; i < ARRAY_LEN(readers); i++) {
		enum spot_rc rc = readers[i](self, err);

		if (rc != SPOT_OK) {
			return rc;
		}
	}
	return SPOT_OK;
}
