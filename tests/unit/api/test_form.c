/* The compressed form of a reply, and the memory that it leaves. The tests of
 * tests/integration/api read real ones. */
#include "base/base.h"
#include "api/server/server_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#define ZLIB_CONST
#include <zlib.h>

#define LONG_REPLY (PACKED_KEPT + ((size_t)1 << 20))

static struct api api;

static int tear_down(void **state UNUSED)
{
	gzip_free(api.gzip);
	api.gzip = NULL;
	return 0;
}

/* Random bytes do not shrink. */
static char *body_make(size_t n)
{
	char *body = malloc(n);
	struct rng rng;

	assert_non_null(body);
	rng_seeded_init(&rng, 3);
	for (size_t i = 0; i < n; i++) {
		body[i] = (char)rng_u64(&rng);
	}
	return body;
}

static void assert_unpacks(struct str packed, const char *body, size_t n)
{
	z_stream z = { .next_in = (const Bytef *)packed.p, .avail_in = (uInt)packed.n };
	char *out = malloc(n + 1);

	assert_non_null(out);
	z.next_out = (Bytef *)out;
	z.avail_out = (uInt)n + 1;
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.total_out, n);
	assert_memory_equal(out, body, n);
	inflateEnd(&z);
	free(out);
}

static void a_long_reply_leaves_no_large_buffer(void **state UNUSED)
{
	char *body = body_make(LONG_REPLY);

	assert_unpacks(gzip_pack(&api, body, LONG_REPLY), body, LONG_REPLY);
	assert_true(gzip_held(api.gzip) > PACKED_KEPT);
	assert_unpacks(gzip_pack(&api, body, 2000), body, 2000);
	assert_true(gzip_held(api.gzip) <= PACKED_KEPT);
	free(body);
}

static void short_replies_share_a_buffer(void **state UNUSED)
{
	char *body = body_make(60000);
	size_t held;

	gzip_pack(&api, body, 60000);
	held = gzip_held(api.gzip);
	assert_unpacks(gzip_pack(&api, body, 2000), body, 2000);
	assert_int_equal(gzip_held(api.gzip), held);
	free(body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_long_reply_leaves_no_large_buffer, tear_down),
		cmocka_unit_test_teardown(short_replies_share_a_buffer, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
