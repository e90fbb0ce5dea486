/*
 * How long before it takes a spot machine back a provider says so. AWS: two minutes (EC2 user
 * guide, "Spot Instance interruption notices"). Google Cloud: 30 seconds (Compute Engine, "Spot
 * VMs", preemption process). Azure: 30 seconds at least (Virtual Machines, "Scheduled Events",
 * Preempt). Of any other the shortest of these is assumed.
 */
#include "base/base.h"
#include "core/rank/rank.h"

#define SHORTEST_S 30.0

double notice_s(const char *provider)
{
	return strcmp(provider, "aws") == 0 ? 120.0 : SHORTEST_S;
}
