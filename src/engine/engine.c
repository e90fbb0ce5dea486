/* The list of reconcilers. A pass runs them in this order. */
#include "base/base.h"
#include "engine/doctor/doctor.h"
#include "engine/engine.h"
#include "engine/job/job.h"
#include "engine/kernel/kernel.h"
#include "engine/launch/launch.h"
#include "engine/market/market.h"
#include "engine/money/money.h"
#include "engine/place/place.h"
#include "engine/watch/watch.h"

static const struct recon_kind *const kinds[] = { &clock_kind, &drain_kind, &fleet_any_kind,
	&fleet_metric_kind, &fleet_size_kind, &fleet_kind, &tighten_kind, &queue_kind, &assign_kind,
	&launcher_kind, &lookup_kind, &watch_kind, &verdict_kind, &upload_urls_kind, &files_kind,
	&move_back_kind, &fleet_move_kind, &release_kind, &reaper_kind, &sweep_kind, &biller_kind,
	&rebalance_kind, &enrol_kind, &stream_kind, &dispose_kind, &doctor_kind, &gang_kind,
	&gang_ranks_kind, &recovery_kind, &burst_kind,
	/* without a pass */
	&deadline_kind };

struct engine *engine_new(const struct engine_deps *d)
{
	return kernel_start(d, kinds, ARRAY_LEN(kinds));
}
