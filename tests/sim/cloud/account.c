/*
 * The clouds as an operator has them: which ones, with which part of their market, and the daemon's
 * configuration for them. A seed has two or three of them: each costs polls in every simulated
 * hour. Lambda is always there: only it has an A10.
 */
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/cloud/cloud_priv.h"

#include "cloudsim/aws/aws.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

#include <dirent.h>

/* ---- which ----------------------------------------------------------------------------------- */

static unsigned chosen;

static unsigned cloud_bit(enum cloud c)
{
	return 1u << c;
}

bool clouds_choose(const char *list)
{
	unsigned got = 0;

	for (const char *p = list; *p != '\0'; p += *p == ',') {
		size_t n = strcspn(p, ",");
		char name[32];
		enum cloud c;

		snprintf(name, sizeof(name), "%.*s", (int)MIN(n, sizeof(name) - 1), p);
		c = cloud_parse(name);
		if (c == CLOUD_NONE) {
			return false;
		}
		got |= cloud_bit(c);
		p += n;
	}
	chosen = got | cloud_bit(CLOUD_AWS); /* it keeps the checkpoints */
	return true;
}

const char *clouds_of_seed(uint64_t seed)
{
	static const char *const sets[] = { "aws,lambda", "aws,lambda,gcp", "aws,lambda",
		"aws,lambda,azure" };
	uint64_t h = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15); /* the mixes go by the last digit */
	size_t set = (h >> 40) % ARRAY_LEN(sets);

	/* A quarter of those with two clouds has CoreWeave too: of other dice, so that all others
	 * stay as they are. */
	if (set % 2 == 0 && ((h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 49) % 4 == 0) {
		return "aws,lambda,coreweave";
	}
	return sets[set];
}

bool cloud_is_here(const char *name)
{
	return (chosen & cloud_bit(cloud_parse(name))) != 0;
}

/* ---- a small market: each read costs in each of thousands of simulated hours ----------------- */

static const char *const gcp_types[] = { "g2-standard-4", "g2-standard-8",
	"n1-standard-8+nvidia-tesla-t4x1", "a3-highgpu-1g" };

struct shrink {
	const char *file;
	const char *const *need; /* each of these in the line */
	const char *const *any; /* and one of these */
	size_t need_n, any_n;
};
#define SHRINK(name, needs, anys) \
	{ \
		name, needs, anys, ARRAY_LEN(needs), ARRAY_LEN(anys) \
	}

static const char *const all_lines[] = { "" };
static const char *const aws_types[] = { "g4dn.xlarge,", "g5.xlarge,", "g6.xlarge,", "g6.2xlarge,",
	"p5.4xlarge," };
static const char *const aws_zones[] = { "use1-az1,", "use1-az2," };
static const char *const aws_region[] = { ",us-east-1," };
static const char *const lambda[] = { "gpu_1x_a10,", "gpu_1x_h100_pcie,", "gpu_1x_gh200,",
	"us-east-1,", "us-west-1,", "us-west-2," };
static const char *const gcp_region[] = { "us-central1" };
static const char *const gcp_zones[] = { "us-central1-a,", "us-central1-b," };
static const char *const gcp_lines[] = { ",g2-standard-4,", ",g2-standard-8,",
	",n1-standard-8+nvidia-tesla-t4x1,", ",a3-highgpu-1g," };
static const char *const gcp_starts[] = { "g2-standard-4,", "g2-standard-8,",
	"n1-standard-8+nvidia-tesla-t4x1,", "a3-highgpu-1g," };
static const char *const gcp_parts[] = { ",G2 core,", ",G2 ram,", ",N1 Predefined core,",
	",N1 Predefined ram,", ",A3 core,", ",A3 ram,", ",L4 gpu,", ",T4 gpu,", ",H100 gpu,",
	",ssd," };

static const char *const azure_types[] = { "Standard_NC4as_T4_v3,", "Standard_NC40ads_H100_v5,",
	"Standard_NV36ads_A10_v5," };
static const char *const azure_region[] = { "eastus2," };

static const char *const coreweave_zones[] = { ",US-EAST-04A,", ",US-WEST-04A," };

static const struct shrink shrinks[] = {
	SHRINK("aws_advisor.csv", all_lines, aws_types),
	SHRINK("aws_history.csv", aws_region, aws_types),
	SHRINK("aws_pools.csv", all_lines, aws_types), /* and aws_zones */
	SHRINK("aws_types.csv", all_lines, aws_types),
	SHRINK("lambda_regions.csv", all_lines, lambda),
	SHRINK("lambda_types.csv", all_lines, lambda),
	SHRINK("gcp_types.csv", all_lines, gcp_starts),
	SHRINK("gcp_zones.csv", gcp_region, gcp_zones),
	SHRINK("gcp_skus.csv", gcp_region, gcp_parts),
	SHRINK("gcp_history.csv", gcp_region, gcp_lines),
	SHRINK("azure_regions.csv", azure_region, all_lines),
	SHRINK("azure_types.csv", all_lines, azure_types),
	SHRINK("azure_pools.csv", azure_region, azure_types),
	SHRINK("azure_history.csv", azure_region, azure_types),
	SHRINK("coreweave_pools.csv", all_lines, coreweave_zones),
};

static bool has_any(const char *line, const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strstr(line, texts[i]) != NULL) {
			return true;
		}
	}
	return false;
}

static bool is_kept(const char *file, const char *line)
{
	for (size_t i = 0; i < ARRAY_LEN(shrinks); i++) {
		const struct shrink *k = &shrinks[i];

		if (!str_same(k->file, file)) {
			continue;
		}
		if (str_same(file, "aws_pools.csv") &&
		    !has_any(line, aws_zones, ARRAY_LEN(aws_zones))) {
			return false;
		}
		for (size_t j = 0; j < k->need_n; j++) {
			if (strstr(line, k->need[j]) == NULL) {
				return false;
			}
		}
		return has_any(line, k->any, k->any_n);
	}
	return true;
}

/* A zone of Google names its types, and only known ones. */
static void line_put(struct sbuf *b, const char *file, const char *line)
{
	if (!str_same(file, "gcp_zones.csv")) {
		sbuf_printf(b, "%s\n", line);
		return;
	}
	sbuf_printf(b, "%.*s", (int)(strrchr(line, ',') + 1 - line), line);
	for (size_t i = 0; i < ARRAY_LEN(gcp_types); i++) {
		sbuf_printf(b, "%s%s", i > 0 ? " " : "", gcp_types[i]);
	}
	sbuf_printf(b, "\n");
}

static void data_copy(const char *from, const char *to, const char *name)
{
	struct arena *a AUTO(arena) = arena_new(0);
	struct sbuf b AUTO(sbuf);
	struct str text;
	char path[1024];
	size_t lines = 0;

	snprintf(path, sizeof(path), "%s/%s", from, name);
	sbuf_init(&b, 0);
	if (!file_get(a, path, &text)) {
		return;
	}
	for (const char *p = text.p, *end; p < text.p + text.n; p = end + 1) {
		char *line;

		end = strchrnul(p, '\n');
		line = arena_strndup(a, p, (size_t)(end - p));
		if (lines++ == 0) {
			sbuf_printf(&b, "%s\n", line);
		} else if (is_kept(name, line)) {
			line_put(&b, name, line);
		}
	}
	snprintf(path, sizeof(path), "%s/%s", to, name);
	if (!file_put(path, b.p, b.n, 0600)) {
		abort();
	}
}

const char *market_small(const char *dir)
{
	static char to[512];
	const char *from = sim_conf_default().data_dir;
	DIR *d = opendir(from);

	snprintf(to, sizeof(to), "%s/data", dir);
	dir_make(to, 0700);
	for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
		if (e->d_name[0] != '.') {
			data_copy(from, to, e->d_name);
		}
	}
	if (d != NULL) {
		closedir(d);
	}
	return to;
}

/* ---- the daemon's view ----------------------------------------------------------------------- */

static const char *cred_text(const json_t *all, const char *cloud_name_, const char *key)
{
	return json_string_value(json_object_get(json_object_get(all, cloud_name_), key));
}

static void aws_conf(struct sbuf *b, const char *dir, const json_t *creds)
{
	char keys[600];

	snprintf(keys, sizeof(keys),
	    "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n",
	    cred_text(creds, "aws", "access_key_id"), cred_text(creds, "aws", "secret_access_key"));
	setenv("AWS_SHARED_CREDENTIALS_FILE", private_file(dir, "aws-credentials", keys), 1);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	setenv("HOME", dir, 1);
	sbuf_printf(b,
	    "[provider aws]\nkind = aws\nendpoint = http://127.0.0.1:9000\n"
	    "advisor_url = http://127.0.0.1:9000/spot-advisor-data.json\nregions = us-east-1\n"
	    "identity_certs = %s/aws-identity.pem\n",
	    sim.conf.dir);
}

static void lambda_conf(struct sbuf *b, const char *dir, const json_t *creds)
{
	char key[600];

	snprintf(key, sizeof(key), "%s\n", cred_text(creds, "lambda", "api_key"));
	sbuf_printf(b,
	    "[provider lambda]\nkind = lambda\nendpoint = http://127.0.0.1:9000\napi_key_file = "
	    "%s\n"
	    "ssh_key_name = spotbroker\n",
	    private_file(dir, "lambda.key", key));
}

static void gcp_conf(struct sbuf *b, const json_t *creds)
{
	sbuf_printf(b,
	    "[provider gcp]\nkind = gcp\nendpoint = http://127.0.0.1:%d\nproject = %s\ncredentials "
	    "= %s\nregions = us-central1\n",
	    cloud_port(&sim, CLOUD_GCP), cred_text(creds, "gcp", "project"),
	    cred_text(creds, "gcp", "key_file"));
}

#define SUBSCRIPTION "/subscriptions/" AZ_SUBSCRIPTION
#define NET SUBSCRIPTION "/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/eastus2"

/* Makes the network that an operator makes there by hand. */
void azure_network(void)
{
	(void)az_new(&sim, AZ_GROUP, "net", "net", "eastus2",
	    json_pack("{s:s, s:s, s:s, s:s, s:{}}", "id", SUBSCRIPTION "/resourceGroups/net",
		"name", "net", "type", "Microsoft.Resources/resourceGroups", "location", "eastus2",
		"properties"));
	(void)az_new(&sim, AZ_VNET, "net", "eastus2", "eastus2",
	    json_pack("{s:s, s:s, s:s, s:s, s:{s:[{s:s, s:s, s:{s:s}}]}}", "id", NET, "name",
		"eastus2", "type", "Microsoft.Network/virtualNetworks", "location", "eastus2",
		"properties", "subnets", "id", NET "/subnets/nodes", "name", "nodes", "properties",
		"addressPrefix", "10.0.1.0/24"));
}

static void azure_conf(struct sbuf *b, const char *dir, const json_t *creds)
{
	int port = cloud_port(&sim, CLOUD_AZURE);
	char key[600];

	snprintf(key, sizeof(key), "%s\n", cred_text(creds, "azure", "client_secret"));
	sbuf_printf(b,
	    "[provider azure]\nkind = azure\nendpoint = http://127.0.0.1:%d\nauthority = "
	    "http://127.0.0.1:%d\n"
	    "prices_endpoint = http://127.0.0.1:%d\nblob_endpoint = http://127.0.0.1:%d/" AZ_ACCOUNT
	    "\nstorage_account = " AZ_ACCOUNT "\n"
	    "subscription = " AZ_SUBSCRIPTION "\ntenant = " AZ_TENANT "\nclient_id = " AZ_CLIENT
	    "\nclient_secret_file = %s\n"
	    "attested_ca_file = %s/azure-ca.pem\nregions = eastus2\nssh_public_key = " SSH_KEY
	    "\nsubnet.eastus2 = " NET "/subnets/nodes\n",
	    port, port, port, port, private_file(dir, "azure.secret", key), sim.conf.dir);
}

/* Beside another cloud AWS is short of the machines that both have, or its prices would win each
 * time. */
static void aws_short(void)
{
	static const char *const pools[] = { "aws/*/*/g4dn*/*", "aws/*/*/g6*/*", "aws/*/*/p5*/*" };

	for (size_t i = 0; i < ARRAY_LEN(pools); i++) {
		cloud_post("/stock", json_pack("{s:s, s:i}", "pool", pools[i], "count", 0));
	}
}

const char *cloud_conf(const char *dir)
{
	static char text[4096];
	struct sbuf b AUTO(sbuf);
	json_t *creds AUTO(json) = creds_json(&sim);

	sbuf_init(&b, sizeof(text));
	aws_conf(&b, dir, creds);
	if (cloud_is_here("lambda")) {
		lambda_conf(&b, dir, creds);
	}
	if (cloud_is_here("gcp")) {
		gcp_conf(&b, creds);
	}
	if (cloud_is_here("azure")) {
		azure_conf(&b, dir, creds);
	}
	if (cloud_is_here("coreweave")) {
		coreweave_conf(&b, dir, creds);
	}
	if (cloud_is_here("gcp") || cloud_is_here("azure")) {
		aws_short();
	}
	snprintf(text, sizeof(text), "%.*s", (int)b.n, b.p);
	return text;
}
