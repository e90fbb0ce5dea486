/* The variables of NCCL by cloud, on machines with and without a fabric. */
#include "base/base.h"
#include "unit.h"

#include "agent/agent.h"
#include "agent_dir.h"
#include "base/text/text.h"

#include <unistd.h>

/* Makes a device as sysfs shows it: its driver is a link. */
static void device_make(const char *name, const char *layer, const char *driver)
{
	char device[AGENT_PATH_MAX], path[AGENT_PATH_MAX];

	assert_true(path_join(device, dir, name));
	assert_true(path_join(path, device, "ports/1/link_layer"));
	assert_int_equal(dir_make_above(path, NULL), SPOT_OK);
	assert_int_equal(file_write(path, str_from(layer), 0644, false, NULL), SPOT_OK);
	assert_true(path_join(path, device, "device/driver"));
	assert_int_equal(dir_make_above(path, NULL), SPOT_OK);
	assert_int_equal(symlink(driver, path), 0);
}

static void env_check(const char *provider, const char *interface, const char *wanted)
{
	AUTO(json) json_t *env = json_object();
	char *text;

	nccl_env_set(provider, interface, dir, env);
	text = json_dumps(env, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(text, wanted);
	free(text);
}

#define SOCKETS "\"GLOO_SOCKET_IFNAME\":\"ens5\""
#define NCCL_SOCKETS "\"NCCL_SOCKET_IFNAME\":\"=ens5\""

static void a_machine_without_a_fabric_gets_its_interface(void **state)
{
	static const char *const clouds[] = { "aws", "gcp", "azure", "coreweave", "kubernetes",
		"lambda" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(clouds); i++) {
		env_check(clouds[i], "ens5", "{" SOCKETS "," NCCL_SOCKETS "}");
		env_check(clouds[i], "", "{}");
	}
}

static void efa_is_used_on_aws(void **state)
{
	(void)state;
	device_make("rdmap16s27", "Unspecified\n", "../../../../bus/pci/drivers/efa");
	env_check("aws", "ens5",
	    "{\"FI_EFA_USE_HUGE_PAGE\":\"0\",\"FI_PROVIDER\":\"efa\"," SOCKETS "," NCCL_SOCKETS
	    "}");
	env_check("gcp", "ens5", "{" SOCKETS "," NCCL_SOCKETS "}");
}

static void azure_uses_infiniband_and_not_the_ethernet_device(void **state)
{
	(void)state;
	device_make("mlx5_an0", "Ethernet\n", "../../drivers/mlx5_core");
	env_check("azure", "eth0",
	    "{\"GLOO_SOCKET_IFNAME\":\"eth0\",\"NCCL_IB_DISABLE\":\"1\","
	    "\"NCCL_SOCKET_IFNAME\":\"=eth0\"}");
	device_make("mlx5_ib0", "InfiniBand\n", "../../drivers/mlx5_core");
	env_check("azure", "eth0",
	    "{\"GLOO_SOCKET_IFNAME\":\"eth0\",\"NCCL_IB_HCA\":\"=mlx5_ib0\","
	    "\"NCCL_IB_PCI_RELAXED_ORDERING\":\"1\",\"NCCL_SOCKET_IFNAME\":\"=eth0\"}");
}

static void coreweave_uses_infiniband(void **state)
{
	(void)state;
	device_make("ibp0", "InfiniBand\n", "../../drivers/mlx5_core");
	device_make("ibp1", "InfiniBand\n", "../../drivers/mlx5_core");
	env_check("coreweave", "eth0",
	    "{\"GLOO_SOCKET_IFNAME\":\"eth0\",\"NCCL_IB_HCA\":\"ibp\","
	    "\"NCCL_SOCKET_IFNAME\":\"=eth0\",\"UCX_NET_DEVICES\":\"eth0\",\"UCX_TLS\":\"tcp\"}");
}

static void several_infiniband_devices_are_all_named(void **state)
{
	AUTO(json) json_t *env = json_object();
	const char *devices;

	(void)state;
	device_make("mlx5_ib0", "InfiniBand\n", "../../drivers/mlx5_core");
	device_make("mlx5_ib1", "InfiniBand\n", "../../drivers/mlx5_core");
	nccl_env_set("azure", "eth0", dir, env);
	devices = json_string_value(json_object_get(env, "NCCL_IB_HCA"));
	assert_true(
	    str_same(devices, "=mlx5_ib0,mlx5_ib1") || str_same(devices, "=mlx5_ib1,mlx5_ib0"));
}

static void the_variables_of_the_job_win(void **state)
{
	AUTO(json)
	json_t *env = json_pack("{s:s, s:s}", "NCCL_SOCKET_IFNAME", "eth9", "FI_PROVIDER", "");

	(void)state;
	device_make("efa_0", "Unspecified\n", "../../drivers/efa");
	nccl_env_set("aws", "ens5", dir, env);
	assert_string_equal(json_string_value(json_object_get(env, "NCCL_SOCKET_IFNAME")), "eth9");
	assert_string_equal(json_string_value(json_object_get(env, "FI_PROVIDER")), "");
	assert_string_equal(json_string_value(json_object_get(env, "GLOO_SOCKET_IFNAME")), "ens5");
}

static void an_address_has_an_interface(void **state)
{
	char name[IFNAMSIZ];

	(void)state;
	interface_of("127.0.0.1", name);
	assert_string_equal(name, "lo");
	interface_of("192.0.2.77", name);
	assert_string_equal(name, "");
	interface_of("not an address", name);
	assert_string_equal(name, "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, dir_new, dir_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_machine_without_a_fabric_gets_its_interface),
		TEST(efa_is_used_on_aws),
		TEST(azure_uses_infiniband_and_not_the_ethernet_device),
		TEST(coreweave_uses_infiniband),
		TEST(several_infiniband_devices_are_all_named),
		TEST(the_variables_of_the_job_win),
		TEST(an_address_has_an_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
