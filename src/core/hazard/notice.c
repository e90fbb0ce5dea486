/*
 * The notice period of a provider before a reclaim. AWS: two minutes (EC2 user guide, "Spot
 * Instance interruption notices"). Google Cloud: 30 seconds (Compute Engine, "Spot VMs", preemption
 * process). Azure: at least 30 seconds (Virtual Machines, "Scheduled Events", Preempt). Other
 * providers are assumed to give the shortest of these.
 */
#include "base/base.h"
#include "core/rank/rank.h"

#define SHORTEST_S 30.0

double notice_s(const char *provider)
{
	return strcmp(provider, "aws") == 0 ? 120.0 : SHORTEST_S;
}
