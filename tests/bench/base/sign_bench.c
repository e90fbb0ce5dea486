/*
 * SigV4 signatures a second on one core, for bodies of 100 bytes, 1,000, 10,000 and 100,000. They
 * are compared with the hashes alone that a signature needs: one SHA-256 of the body, one of the
 * canonical request, five HMACs. Runs of both alternate.
 *
 *   sign_bench [SIGNATURES A RUN]
 */
#include "bench.h"

#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#define RUNS 20
#define CANONICAL_BYTES 300

static const struct sigv4 keys = { .access_key = "AKIDEXAMPLE",
	.secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
	.session_token = "",
	.region = "us-east-1",
	.service = "ec2",
	.now_us = INT64_C(1767323045000000) };

static int64_t sign_run(struct arena *a, const char *body, size_t n, int64_t times)
{
	int64_t t0 = bench_us();

	for (int64_t i = 0; i < times; i++) {
		struct spot_http_request req = { .method = "POST",
			.url = "https://ec2.us-east-1.amazonaws.com/",
			.headers = { { "content-type",
			    "application/x-www-form-urlencoded; charset=utf-8" } },
			.headers_n = 1,
			.body = { body, n } };

		sigv4_sign(a, &keys, &req);
		if (req.headers_n < 3) {
			abort();
		}
		arena_reset(a);
	}
	return bench_us() - t0;
}

static int64_t hash_run(const char *body, size_t n, int64_t times)
{
	static const char canonical[CANONICAL_BYTES];
	uint8_t out[SHA256_BYTES];
	int64_t t0 = bench_us();

	for (int64_t i = 0; i < times; i++) {
		sha256(body, n, out);
		sha256(canonical, sizeof(canonical), out);
		for (int h = 0; h < 5; h++) {
			hmac_sha256(out, sizeof(out), canonical, h < 4 ? 10 : 140, out);
		}
	}
	return bench_us() - t0;
}

static void size_bench(size_t n, int64_t times)
{
	struct arena *a = arena_new(0);
	char *body = malloc(n);
	int64_t ours[RUNS], theirs[RUNS];
	double ms, limit_ms;

	if (body == NULL) {
		abort();
	}
	memset(body, 'x', n);
	for (size_t i = 0; i < RUNS; i++) {
		ours[i] = sign_run(a, body, n, times);
		theirs[i] = hash_run(body, n, times);
	}
	ms = bench_ms(ours, RUNS, 50);
	limit_ms = bench_ms(theirs, RUNS, 50);
	printf("sign %zu bytes, %d runs of %" PRId64
	       ": %.0f signatures/s; its hashes alone: %.0f/s; "
	       "%.2f times\n",
	    n, RUNS, times, (double)times * 1e3 / ms, (double)times * 1e3 / limit_ms,
	    ms / limit_ms);
	free(body);
	arena_free(a);
}

int main(int argc, char **argv)
{
	int64_t times = 2000;

	if (argc > 2 || (argc == 2 && !parse_i64(argv[1], 1, 1000000, &times))) {
		fprintf(stderr, "usage: sign_bench [SIGNATURES A RUN]\n");
		return 2;
	}
	size_bench(100, times);
	size_bench(1000, times);
	size_bench(10000, times);
	size_bench(100000, MAX(times / 10, 1));
	return 0;
}
