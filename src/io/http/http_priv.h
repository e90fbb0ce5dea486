/* Inside of io/http: the client and an exchange. */
#ifndef IO_HTTP_PRIV_H
#define IO_HTTP_PRIV_H

#include "base/text/text.h"
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
	const char *broken; /* reason why we gave up the reply, or NULL */
	struct loop_task lines; /* stream: hands over whole lines */
	bool lines_due; /* stream: the task is queued */
	bool handed; /* stream: the owner has lines and has not asked for more */
	bool over; /* stream: complete, result in code, while the owner still has lines */
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
	X509_STORE *roots; /* loaded once; curl would load the system's CAs per connection */
	char *user_agent, *no_proxy, *ca_file;
	bool ca_bad, in_curl;
};

/* http_easy.c: sets a request as options of curl. False: a header is not valid. */
bool http_headers_build(struct xfer *x, const struct spot_http_request *out);
void http_easy_set(struct xfer *x, const struct spot_http_request *out, int64_t timeout_us);
/* http.c: curl's callbacks; user is the xfer. */
size_t http_on_body(char *p, size_t size, size_t n, void *user);
size_t http_on_header(char *p, size_t size, size_t n, void *user);

#endif
