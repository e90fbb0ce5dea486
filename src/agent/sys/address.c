#include "base/base.h"
#include "agent/sys/sys.h"

#include "base/text/text.h"

#include <arpa/inet.h>
#include <ifaddrs.h>

void own_address(char ret[INET_ADDRSTRLEN])
{
	struct ifaddrs *all = NULL;

	memcpy(ret, "127.0.0.1", sizeof("127.0.0.1"));
	if (getifaddrs(&all) != 0) {
		return;
	}
	for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
		if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET ||
		    (i->ifa_flags & IFF_LOOPBACK) != 0 || (i->ifa_flags & IFF_UP) == 0) {
			continue;
		}
		(void)inet_ntop(AF_INET,
		    &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr, ret,
		    INET_ADDRSTRLEN);
		break;
	}
	freeifaddrs(all);
}

void interface_of(const char *address, char ret[IFNAMSIZ])
{
	struct ifaddrs *all = NULL;
	struct in_addr wanted;

	ret[0] = '\0';
	if (inet_pton(AF_INET, address, &wanted) != 1 || getifaddrs(&all) != 0) {
		return;
	}
	for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
		if (i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET &&
		    ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr.s_addr ==
			wanted.s_addr &&
		    str_copy(ret, IFNAMSIZ, i->ifa_name)) {
			break;
		}
	}
	freeifaddrs(all);
}

const char *fabric_devices(void)
{
	return "/sys/class/infiniband";
}
