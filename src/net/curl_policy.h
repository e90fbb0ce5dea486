/*
 * The one policy by which this product uses libcurl. The daemon (io/http), the agent (agent/net)
 * and the command line (spotctl/conn.c) call curl_policy_set for each exchange. Then each sets only
 * what differs: method, headers, body, callbacks.
 *
 * Protocols: http and https, nothing else, since a URL may come from a reply or a job file.
 * Redirects are never followed: a token or a signature is for the host that was asked.
 * TLS 1.2 at least. Certificate and host name are verified, also of a proxy.
 * A .netrc is not read.
 * Every exchange has a limit of time: a total, or a least speed if the total is open.
 *
 * CURLOPT_NOSIGNAL is the caller's. A daemon sets it and ignores SIGPIPE itself. A command line
 * wants SIGPIPE for its output, so there libcurl ignores it during an exchange.
 */
#ifndef NET_CURL_POLICY_H
#define NET_CURL_POLICY_H

#include "base/base.h"

#include <curl/curl.h>

#define CURL_CONNECT_MS 10000 /* the default */

struct curl_policy {
	int64_t total_ms; /* of the whole exchange; 0 = open, then stall_s must be set */
	int64_t connect_ms; /* of lookup, connect and handshake; 0 = CURL_CONNECT_MS, or total_ms */
	int64_t
	    stall_s; /* ends if slower than stall_bytes a second for so long; 0 = no such limit */
	int64_t stall_bytes;
	/* Authorities to trust besides, or instead of, curl's default: the first that is not
	 * NULL counts. */
	const char *ca_pem; /* certificates; must stay until the exchange is over */
	const char *ca_file;
	const char
	    *no_proxy; /* hosts reached directly, comma separated; "*" = all; NULL = no_proxy */
	const char *user_agent; /* NULL = none is sent */
};

/* Aborts if this libcurl cannot keep the policy. */
void curl_policy_set(CURL *easy, const struct curl_policy *p);

#endif
