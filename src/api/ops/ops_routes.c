/* The routes of operations. */
#include "base/base.h"
#include "api/ops/ops_priv.h"

static const struct route rows[] = {
	ROUTE("GET", "/healthz", PUBLIC, get_healthz, 0, "", 200, NULL, NULL,
	    "Succeeds while the process is alive."),
	ROUTE("GET", "/readyz", PUBLIC, get_readyz, 0, "", 200, NULL, "Ready",
	    "Succeeds if the database answers and its schema is current. Says whether an engine "
	    "leads."),
	ROUTE("GET", "/metrics", METRICS, get_metrics, 0, "", 200, NULL, NULL,
	    "Returns metrics in Prometheus text format."),
	ROUTE("GET", "/v1/openapi.json", PUBLIC, get_openapi, 0, "", 200, NULL, NULL,
	    "Returns this document."),
	ROUTE("GET", "/v1/version", PUBLIC, get_version, 0, "", 200, NULL, "Version",
	    "Shows the program's version and the installation."),
	ROUTE("GET", "/v1/whoami", VIEWER, get_whoami, 0, "", 200, NULL, "Whoami",
	    "Shows the owner, role and team of the token."),
	ROUTE_READ("/v1/leaks", get_leaks, "provider state", "LeakList",
	    "Lists machines and resources that carry the broker's tag and belong to no node, with "
	    "their cost. `state=gone` lists the ended ones."),
	ROUTE("POST", "/v1/leaks", ADMIN, post_leak, ROUTE_BODY_SMALL, "", 200, "LeakAsk",
	    "LeakList",
	    "Decides about a leak: the next sweep terminates it (`end`) or leaves it (`keep`)."),
	ROUTE_CREATE("/v1/doctor", ENGINEER, post_doctor, show_doctor, ROUTE_BODY_SMALL, 202,
	    "DoctorAsk", "Doctor",
	    "Requests an examination of providers and of the daemon. Creates nothing at the "
	    "providers."),
	ROUTE("GET", "/v1/doctor/{run}", VIEWER, get_doctor, 0, "timeout_s", 200, NULL, "Doctor",
	    "Shows the findings of an examination and their fixes. `timeout_s` holds the reply "
	    "until it is done."),
	ROUTE_READ("/v1/events", get_events, "after job node limit", "EventList",
	    "Lists events. With Accept: text/event-stream it streams them; Last-Event-ID resumes "
	    "a stream."),
	ROUTE("GET", "/v1/tokens", ADMIN, get_tokens, 0, ROUTE_PAGE, 200, NULL, "TokenList",
	    "Lists tokens without their values."),
	ROUTE("POST", "/v1/tokens", ADMIN, post_token, ROUTE_BODY_SMALL, "", 201, "TokenAsk",
	    "Token", "Creates a token. Only this reply holds its value."),
	ROUTE("DELETE", "/v1/tokens/{token}", ADMIN, delete_token, 0, "", 200, NULL, "Empty",
	    "Revokes a token."),
};

const struct route_table ops_routes = { rows, ARRAY_LEN(rows) };
