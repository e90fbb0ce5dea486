/*
 * A small HTTP server in threads, with blocking sockets. It uses nothing of src/io on purpose, so
 * that the client is not tested against its own notions. The path of the request selects its
 * behaviour:
 *
 * - /ok: 200 with headers and "hello", keep-alive
 * - /echo: 200, body = the request as it came
 * - /hang: reads the request and never answers
 * - /close: reads it and closes
 * - /cut: promises 100 bytes, sends 5, closes
 * - /trickle: sends one byte every 20 ms, for ever
 * - /big: 1 MiB of body
 * - /headers: 300 headers
 * - /interim: 103, then 200
 * - /redirect: 302 to /ok
 * - /once: 200 the first time; then closes a reused connection without an answer
 */
#ifndef UNIT_IO_TEST_SERVER_H
#define UNIT_IO_TEST_SERVER_H

#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

#define TEST_SERVER_THREADS 64

struct test_server {
	int fd, port, stop_fd[2];
	pthread_t acceptor, threads[TEST_SERVER_THREADS];
	int threads_n;
	atomic_int connections, requests;
	void *tls; /* SSL_CTX *, NULL = plain */
	char ca_path[64]; /* its certificate, when tls */
};
void test_server_start(struct test_server *s, bool tls);
void test_server_stop(struct test_server *s);

#endif
