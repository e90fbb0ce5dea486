/* Inside of io/http: the client and an exchange. */
#ifndef IO_HTTP_PRIV_H
#define IO_HTTP_PRIV_H

#include "base/text/sbuf.h"
#include "io/http/http.h"

#include <curl/curl.h>
#include <openssl/ossl_typ.h>

struct sock {
	struct loop_fd fd;
	struct http_client *client;
	struct sock *next, **at; /* client's list */
};
struct xfer {
	struct http_client *client;
	struct http_req *req;
	CURL *easy;
	struct curl_slist *headers_out;
	struct sbuf body;
	struct spot_header *headers;
	size_t headers_n, header_bytes, reply_max;
	const char *broken; /* why we gave the reply up, NULL if we did not */
	struct loop_task lines; /* of a stream: hands whole lines over */
	bool lines_due, handed; /* the task waits; its owner has lines and did not ask for more */
	bool over; /* of a stream: complete (code), but handed */
	CURLcode code;
	int64_t begun_us;
	char words[CURL_ERROR_SIZE];
	struct xfer *next, **at;
};
struct http_client {
	struct loop *loop;
	CURLM *multi;
	struct loop_timer timer;
	struct sock *socks;
	struct xfer *xfers;
	/* loaded once: curl would read the system's bundle for each connection */
	X509_STORE *roots;
	char *user_agent, *no_proxy, *ca_file;
	bool ca_bad, in_curl;
};

/* http_easy.c: a request as options of curl. False: a header cannot be sent. */
bool http_headers_build(struct xfer *x, const struct spot_http_request *out);
void http_easy_set(struct xfer *x, const struct spot_http_request *out, int64_t timeout_us);
/* http.c: curl's callbacks, data is the xfer. */
size_t http_on_body(char *p, size_t size, size_t n, void *user);
size_t http_on_header(char *p, size_t size, size_t n, void *user);

#endif
