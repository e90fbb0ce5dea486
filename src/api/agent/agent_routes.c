/* The routes of the agent; include/spot/agent.h is the protocol. */
#include "base/base.h"
#include "api/agent/agent.h"
#include "api/agent/agent_priv.h"

#include "spot/agent.h"

/* Room for paths of 1024 bytes, so that a list of too many files still gets a proper reply. */
#define BODY_CHUNKS (SPOT_AGENT_FILES_MAX * 1200)

static const struct route rows[] = {
	ROUTE("GET", "/v1/agent/download/{file}", PUBLIC, get_download, 0, "", 200, NULL, NULL,
	    "Returns one of the agent's programs. X-Sha256 in the request selects one version."),
	ROUTE("POST", "/v1/agent/enrol", PUBLIC, post_enrol, ROUTE_BODY_SMALL, "", 200,
	    "AgentEnrol", "AgentSession", "Exchanges a node's one-time token for a session."),
	{ .method = "POST",
	    .path = "/v1/agent/poll",
	    .scope = SCOPE_NODE,
	    .run = post_poll,
	    .own_session = true,
	    .body_max = ROUTE_BODY_SMALL,
	    .query = "",
	    .status = 200,
	    .in = "AgentPoll",
	    .out = "AgentWant",
	    .doc =
		"Returns the wanted state of the node. Holds the reply until it differs from the "
		"node's state." },
	ROUTE("POST", "/v1/agent/notice", NODE, post_notice, ROUTE_BODY_SMALL, "", 200,
	    "AgentNotice", "Empty", "Reports an eviction notice of the provider."),
	ROUTE("POST", "/v1/agent/report", NODE, post_report, ROUTE_BODY_SMALL, "", 200,
	    "AgentReport", "Empty", "Reports the phase of an attempt."),
	ROUTE("POST", "/v1/agent/checkpoint", NODE, post_checkpoint, BODY_CHUNKS, "", 200,
	    "AgentCheckpoint", "AgentUploads",
	    "Opens a checkpoint and returns presigned URLs for its new chunks."),
	ROUTE("POST", "/v1/agent/commit", NODE, post_commit, ROUTE_BODY_SMALL, "", 200,
	    "AgentCommit", "Empty", "Commits a checkpoint after its upload."),
	ROUTE("POST", "/v1/agent/log", NODE, post_log, SPOT_AGENT_LOG_BYTES, "job epoch offset",
	    200, NULL, "AgentLogNext", "Appends bytes to the log of an attempt."),
	ROUTE("POST", "/v1/agent/sample", NODE, post_sample, ROUTE_BODY_SMALL, "", 200,
	    "AgentSample", "Empty", "Reports the utilisation of the node."),
};

const struct route_table agent_routes = { rows, ARRAY_LEN(rows) };
