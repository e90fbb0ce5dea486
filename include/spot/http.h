/*
 * HTTP request and response as values. No library types: providers and tests use
 * them. Strings live in the arena of the call.
 */
#ifndef SPOT_HTTP_H
#define SPOT_HTTP_H

#include "spot/types.h"

#define SPOT_HTTP_HEADERS_MAX 24

struct spot_header {
	const char *name;
	const char *value;
};

struct spot_http_request {
	const char *method; /* "GET", "POST", ... */
	const char *url; /* absolute */
	struct spot_header headers[SPOT_HTTP_HEADERS_MAX];
	size_t headers_n;
	struct str body;
	int64_t timeout_us; /* 0 = the caller's default */
	size_t reply_bytes_max; /* 0 = default (8 MiB) */
	/* never on a reused connection: the request must not be re-sent */
	bool fresh_connection;
	/* hand the reply over line by line as it arrives (provider.h, SPOT_MORE); reply_bytes_max
	 * then bounds the bytes not yet handed over */
	bool stream;
	/* PEM texts, NULL = the client's own: trusted roots; our certificate and key */
	const char *tls_ca_pem, *tls_cert_pem, *tls_key_pem;
};

struct spot_http_response {
	int status; /* 0 = no reply: see rc in the op that carried it */
	const struct spot_header *headers;
	size_t headers_n;
	struct str body; /* NUL terminated behind n */
	bool partial; /* of a stream: new whole lines; more may follow */
};

/* Case-insensitive; NULL if absent. */
const char *spot_header_value(const struct spot_header *list, size_t n, const char *name);
const char *spot_http_header(const struct spot_http_response *r, const char *name);

#endif
