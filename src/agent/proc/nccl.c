/*
 * The environment of NCCL in a job of several nodes: one table of facts by cloud and fabric. The
 * job's own variables win. The table lacks the variables that the libraries find out for
 * themselves. NCCL knows how many sockets Google's gVNIC needs (NCCL_SOCKET_NTHREADS, env.html).
 * Azure's images name their topology file in /etc/nccl.conf (github.com/Azure/azhpc-images).
 */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

#include <unistd.h>

#define LINK_LAYER_MAX 64
#define DEVICES_MAX 1024

enum fabric {
	FABRIC_ANY, /* with or without devices */
	FABRIC_EFA, /* AWS's Elastic Fabric Adapter */
	FABRIC_INFINIBAND,
	/* RDMA devices, and all of them speak Ethernet */
	FABRIC_ETHERNET,
};

/* The device whose name replaces "%s" in a value. */
enum value_of { VALUE_PLAIN, VALUE_INTERFACE, VALUE_DEVICES };

struct nccl_fact {
	const char *provider; /* boot.json's; NULL = all */
	enum fabric fabric;
	const char *name, *format;
	enum value_of of;
	const char *source;
};

#define NVIDIA "docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
#define PYTORCH "docs.pytorch.org/docs/stable/distributed.html"
#define AWS_EFA "docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html"
#define AWS_SHEET \
	"github.com/aws-samples/awsome-distributed-training/blob/main/1.architectures/" \
	"efa-cheatsheet.md"
#define AZURE_DGX "docs.nvidia.com/dgx-cloud/slurm/latest/environment-variables.html"
#define AZURE_ETHERNET "github.com/skypilot-org/skypilot/issues/4448"
#define COREWEAVE \
	"docs.coreweave.com/products/networking/hpc-interconnect/nccl-configuration-reference"

static const struct nccl_fact facts[] = {
	/* NCCL may choose a bridge of containers, which reaches no other machine. */
	{ NULL, FABRIC_ANY, "NCCL_SOCKET_IFNAME", "=%s", VALUE_INTERFACE, NVIDIA },
	{ NULL, FABRIC_ANY, "GLOO_SOCKET_IFNAME", "%s", VALUE_INTERFACE, PYTORCH },
	/* FI_EFA_USE_DEVICE_RDMA is not here: libfabric 1.18 finds it out, and fails if it is set
	 * on a machine without. */
	{ "aws", FABRIC_EFA, "FI_PROVIDER", "efa", VALUE_PLAIN, AWS_EFA },
	/* Data loaders fork, and each fork needs the huge pages once more. */
	{ "aws", FABRIC_EFA, "FI_EFA_USE_HUGE_PAGE", "0", VALUE_PLAIN, AWS_SHEET },
	/* NCCL would take the device of accelerated networking, too, and hang. */
	{ "azure", FABRIC_INFINIBAND, "NCCL_IB_HCA", "=%s", VALUE_DEVICES, NVIDIA },
	{ "azure", FABRIC_INFINIBAND, "NCCL_IB_PCI_RELAXED_ORDERING", "1", VALUE_PLAIN, AZURE_DGX },
	{ "azure", FABRIC_ETHERNET, "NCCL_IB_DISABLE", "1", VALUE_PLAIN, AZURE_ETHERNET },
	{ "coreweave", FABRIC_INFINIBAND, "NCCL_IB_HCA", "ibp", VALUE_PLAIN, COREWEAVE },
	{ "coreweave", FABRIC_INFINIBAND, "UCX_TLS", "tcp", VALUE_PLAIN, COREWEAVE },
	{ "coreweave", FABRIC_INFINIBAND, "UCX_NET_DEVICES", "%s", VALUE_INTERFACE, COREWEAVE },
};

/* ---- the machine's fabric -------------------------------------------------------------------- */

struct fabrics {
	const char *dir;
	bool efa, ethernet;
	struct sbuf infiniband; /* names, separated by commas */
};

static bool device_is_efa(const char *device)
{
	char path[AGENT_PATH_MAX], driver[AGENT_PATH_MAX];
	ssize_t n = path_join(path, device, "device/driver")
	    ? readlink(path, driver, sizeof(driver) - 1)
	    : -1;
	const char *name;

	if (n <= 0) {
		return false;
	}
	driver[n] = '\0';
	name = strrchr(driver, '/');
	return strcmp(name != NULL ? name + 1 : driver, "efa") == 0;
}

static void device_add(void *ctx, const char *name)
{
	struct fabrics *f = ctx;
	char device[AGENT_PATH_MAX], path[AGENT_PATH_MAX];
	struct str layer = { 0 };

	if (!path_join(device, f->dir, name) || !path_join(path, device, "ports/1/link_layer")) {
		return;
	}
	if (device_is_efa(device)) {
		f->efa = true;
		return;
	}
	if (file_read(path, LINK_LAYER_MAX, &layer, NULL) != SPOT_OK) {
		return;
	}
	if (str_prefix(layer.p, "InfiniBand")) {
		sbuf_printf(&f->infiniband, "%s%s", f->infiniband.n > 0 ? "," : "", name);
	} else if (str_prefix(layer.p, "Ethernet")) {
		f->ethernet = true;
	}
	free((char *)(uintptr_t)layer.p);
}

static bool fabric_is(const struct fabrics *f, enum fabric wanted)
{
	switch (wanted) {
	case FABRIC_EFA:
		return f->efa;
	case FABRIC_INFINIBAND:
		return f->infiniband.n > 0;
	case FABRIC_ETHERNET:
		return f->ethernet && f->infiniband.n == 0 && !f->efa;
	case FABRIC_ANY:
		break;
	}
	return true;
}

/* ---- the environment ------------------------------------------------------------------------- */

/* Sets one variable unless the job has it, or the machine lacks the device that it names. */
static void fact_set(const struct nccl_fact *t, const char *interface, const char *devices,
    json_t *env)
{
	const char *of = t->of == VALUE_INTERFACE ? interface : devices;
	struct sbuf value;

	if (json_object_get(env, t->name) != NULL || (t->of != VALUE_PLAIN && of[0] == '\0')) {
		return;
	}
	sbuf_init(&value, DEVICES_MAX + 8);
	for (const char *p = t->format; *p != '\0'; p++) {
		if (str_prefix(p, "%s")) {
			sbuf_puts(&value, of);
			p++;
		} else {
			sbuf_putc(&value, *p);
		}
	}
	log_info("job.network", STR("name", t->name), STR("value", value.p), STR("see", t->source));
	(void)json_object_set_new(env, t->name, json_string(value.p));
	sbuf_fini(&value);
}

void nccl_env_set(const char *provider, const char *interface, const char *devices_dir, json_t *env)
{
	struct fabrics f = { .dir = devices_dir };

	sbuf_init(&f.infiniband, DEVICES_MAX);
	dir_each(devices_dir, device_add, &f);
	for (size_t i = 0; i < ARRAY_LEN(facts); i++) {
		const struct nccl_fact *t = &facts[i];

		if ((t->provider == NULL || strcmp(t->provider, provider) == 0) &&
		    fabric_is(&f, t->fabric)) {
			fact_set(t, interface, f.infiniband.p, env);
		}
	}
	sbuf_fini(&f.infiniband);
}
