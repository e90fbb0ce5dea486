/* CoreWeave's row in the table of clouds. */
#include "base/base.h"
#include "cloudsim/coreweave/coreweave.h"

const struct cloud_ops coreweave_cloud = {
	.name = "coreweave",
	.notice_s = 420, /* at most seven minutes (docs.coreweave.com, spot node pools) */
	.load = cw_load,
	.ready = cw_ready,
	.announce = cw_announce,
	.free = cw_free,
	.classify = cw_classify,
	.serve = cw_serve,
	.error = cw_error,
	.event = node_event,
	.left = cw_left,
	.calls = cw_calls,
	.stop = cw_stop,
	.busy = cw_busy,
	.close = cw_close,
};
