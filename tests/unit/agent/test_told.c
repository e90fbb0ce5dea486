/* Object stores' hashes of an object's bytes, and answers that are no such hash. */
#include "base/base.h"
#include "unit.h"

#include "agent/net/net.h"

/* Of "hello": 5d41402abc4b2a76b9719d911017c592, XUFAKrxLKna5cZ2REBfFkg== */
#define HEX "\"5d41402abc4b2a76b9719d911017c592\""
#define TEXT "XUFAKrxLKna5cZ2REBfFkg=="
#define NONE \
	{ \
		"", "", "", "", "", "", "" \
	}

static enum told headers_check(struct told_headers h)
{
	uint8_t md5[MD5_BYTES];
	struct md5_stream *s = md5_stream_new();

	assert_non_null(s);
	md5_stream_add(s, "hel", 3);
	md5_stream_add(s, "lo", 2);
	md5_stream_end(s, md5);
	return told_check(&h, md5);
}

static void an_etag_is_an_md5_where_it_looks_like_one(void **state)
{
	(void)state;
	assert_int_equal(headers_check((struct told_headers){ "", "", "", HEX, "", "", "" }),
	    TOLD_SAME);
	assert_int_equal(headers_check(
			     (struct told_headers){ "", "", "", HEX, "AES256", "", "STANDARD" }),
	    TOLD_SAME);
	assert_int_equal(headers_check((struct told_headers){ "", "", "",
			     "\"5d41402abc4b2a76b9719d911017c593\"", "", "", "" }),
	    TOLD_OTHER);
	assert_int_equal(headers_check((struct told_headers){ "", "", "",
			     "\"5d41402abc4b2a76b9719d911017c593-2\"", "", "", "" }),
	    TOLD_NOTHING);
	assert_int_equal(headers_check((struct told_headers){ "", "", "", "\"0x8D0000000000001\"",
			     "", "", "" }),
	    TOLD_NOTHING);
	assert_int_equal(headers_check((struct told_headers){ "", "", "",
			     "W/\"41402abc4b2a76b9719d911017c593ab\"", "", "", "" }),
	    TOLD_NOTHING);
	assert_int_equal(headers_check((struct told_headers)NONE), TOLD_NOTHING);
}

static void an_etag_of_what_is_encrypted_or_in_a_directory_bucket_is_not(void **state)
{
	static const char other[] = "\"5d41402abc4b2a76b9719d911017c593\"";

	(void)state;
	assert_int_equal(headers_check(
			     (struct told_headers){ "", "", "", other, "aws:kms", "", "" }),
	    TOLD_NOTHING);
	assert_int_equal(headers_check(
			     (struct told_headers){ "", "", "", other, "aws:kms:dsse", "", "" }),
	    TOLD_NOTHING);
	assert_int_equal(headers_check(
			     (struct told_headers){ "", "", "", other, "", "AES256", "" }),
	    TOLD_NOTHING);
	assert_int_equal(headers_check(
			     (struct told_headers){ "", "", "", other, "", "", "EXPRESS_ONEZONE" }),
	    TOLD_NOTHING);
}

static void google_tells_by_a_header_of_its_own(void **state)
{
	static const char other[] = "\"5d41402abc4b2a76b9719d911017c593\"";

	(void)state;
	assert_int_equal(headers_check((struct told_headers){ "crc32c=mnG7TA==,md5=" TEXT,
			     "identity", "", other, "", "", "" }),
	    TOLD_SAME);
	assert_int_equal(headers_check((struct told_headers){ "md5=" TEXT ", crc32c=mnG7TA==", "",
			     "", other, "", "", "" }),
	    TOLD_SAME);
	assert_int_equal(headers_check((struct told_headers){
			     "crc32c=mnG7TA==, md5=AAAAKrxLKna5cZ2REBfFkg==", "identity", "", HEX,
			     "", "", "" }),
	    TOLD_OTHER);
	/* Composite: no MD5. Compressed where it is stored: the hash is not of these bytes. */
	assert_int_equal(headers_check((struct told_headers){ "crc32c=mnG7TA==", "identity", "",
			     other, "", "", "" }),
	    TOLD_NOTHING);
	assert_int_equal(headers_check((struct told_headers){
			     "crc32c=mnG7TA==,md5=AAAAKrxLKna5cZ2REBfFkg==", "gzip", "", other, "",
			     "", "" }),
	    TOLD_NOTHING);
}

static void azure_tells_what_was_put_there(void **state)
{
	(void)state;
	assert_int_equal(headers_check(
			     (struct told_headers){ "", "", TEXT, "\"0x8D0\"", "", "", "" }),
	    TOLD_SAME);
	assert_int_equal(headers_check((struct told_headers){ "", "",
			     "AAAAKrxLKna5cZ2REBfFkg==", "\"0x8D0\"", "", "", "" }),
	    TOLD_OTHER);
	assert_int_equal(headers_check(
			     (struct told_headers){ "", "", "XUFA", "\"0x8D0\"", "", "", "" }),
	    TOLD_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_etag_is_an_md5_where_it_looks_like_one),
		cmocka_unit_test(an_etag_of_what_is_encrypted_or_in_a_directory_bucket_is_not),
		cmocka_unit_test(google_tells_by_a_header_of_its_own),
		cmocka_unit_test(azure_tells_what_was_put_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
