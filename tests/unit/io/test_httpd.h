/*
 * Raw-socket client and a scripted handler for the server's tests. Everything runs in one thread:
 * the client's sockets do not block and the loop is turned until a condition holds or a limit
 * passes.
 */
#ifndef TEST_HTTPD_H
#define TEST_HTTPD_H

#include "base/base.h"
#include "base/text/text.h"
#include "io/httpd/httpd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct server {
	struct loop *loop;
	struct rng rng;
	struct httpd *httpd;
	struct httpd_req *parked[2048];
	size_t parked_n;
	size_t gone;
	size_t served;
};

/* The longest wait for an event, on a busy machine too. */
#define WAIT_US (30 * SPOT_US_PER_S)

/* conf may be NULL. The handler knows the paths /hello /echo /park /stream /flood /big /headers. */
void server_start(struct server *s, const struct httpd_conf *conf);
void server_stop(struct server *s);
void server_turns(struct server *s, int n);
/* Turns until that many connections are open. */
void server_until_open(struct server *s, int want);
/* Turns until the pointed-to value is >= want, at most limit_us. */
void server_until(struct server *s, const size_t *value, size_t want, int64_t limit_us);

int client_open(struct server *s);
void client_send(struct server *s, int fd, const char *p, size_t n);
void client_puts(struct server *s, int fd, const char *text);
/* Reads until the text holds `needle` (NULL: until the server closes) or limit_us passes; NUL
 * terminated, the caller frees. *ret_closed tells whether the server closed. */
char *client_read(struct server *s, int fd, const char *needle, int64_t limit_us, bool *ret_closed);
/* Status of the one reply to these raw bytes; 0 = closed without reply, -1 = nothing within
 * WAIT_US. */
int client_probe(struct server *s, const char *raw, size_t n, bool *ret_closed);
int count_of(const char *text, const char *needle);

#endif
