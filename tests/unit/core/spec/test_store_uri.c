/* The names of objects, and the provider that signs for each. */
#include "base/base.h"
#include "core/spec/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void an_object_is_a_bucket_and_a_key(void **state)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct store_uri u;

	(void)state;
	assert_null(store_uri_read(a, "s3://my.bucket-1/dir/a b#c", &u));
	assert_string_equal(u.scheme, "s3://");
	assert_string_equal(u.bucket, "my.bucket-1");
	assert_string_equal(u.key, "dir/a b#c");
	assert_null(store_uri_read(a, "s3://bucket//key", &u));
	assert_string_equal(u.key, "/key");
	assert_null(store_uri_read(a, "gs://my_bucket/k", &u));
	assert_null(store_uri_read(a, "az://container/k", &u));
	assert_string_equal(u.bucket, "container");
}

static void a_name_that_no_vendor_takes_is_refused_with_words(void **state)
{
	static const struct {
		const char *uri, *says;
	} cases[] = {
		{ "", "s3://bucket/key" },
		{ "http://b/k", "s3://bucket/key" },
		{ "S3://bucket/k", "s3://bucket/key" },
		{ "s3:/bucket/k", "s3://bucket/key" },
		{ "s3://", "bucket's name" },
		{ "s3:///x", "bucket's name" },
		{ "s3://ab/x", "bucket's name" },
		{ "s3://Bucket/x", "bucket's name" },
		{ "s3://my_bucket/x", "bucket's name" },
		{ "s3://-bucket/x", "bucket's name" },
		{ "s3://bucket./x", "bucket's name" },
		{ "s3://bucket", "key is missing" },
		{ "s3://bucket/", "key is missing" },
		{ "gs:///x", "bucket's name" },
		{ "gs://bucket", "key is missing" },
		{ "az://con.tainer/x", "container's name" },
		{ "az://container//x", "begin with '/'" },
	};
	AUTO(arena) struct arena *a = arena_new(0);
	char key[1100] = "s3://bucket/";
	struct store_uri u;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *wrong = store_uri_read(a, cases[i].uri, &u);

		if (wrong == NULL || strstr(wrong, cases[i].says) == NULL) {
			fail_msg("%s: '%s' does not say '%s'", cases[i].uri, wrong, cases[i].says);
		}
	}
	memset(key + 12, 'k', 1024);
	assert_null(store_uri_read(a, key, &u));
	key[12 + 1024] = 'k';
	assert_non_null(store_uri_read(a, key, &u));
}

static void a_provider_signs_for_its_own_cloud(void **state)
{
	static const struct {
		const char *uri, *kind;
		bool signs;
	} cases[] = {
		{ "s3://bucket/k", "aws", true },
		{ "s3://bucket/k", "coreweave", true },
		{ "s3://bucket/k", "gcp", false },
		{ "s3://bucket/k", "azure", false },
		{ "gs://bucket/k", "gcp", true },
		{ "gs://bucket/k", "aws", false },
		{ "az://bucket/k", "azure", true },
		{ "az://bucket/k", "gcp", false },
		{ "http://x/y", "aws", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(store_uri_signed_by(cases[i].uri, cases[i].kind), cases[i].signs);
	}
	assert_true(store_uri_alike("gs://a", "gs://bucket/k"));
	assert_false(store_uri_alike("gs://a", "s3://bucket/k"));
	assert_false(store_uri_alike("", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_is_a_bucket_and_a_key),
		cmocka_unit_test(a_name_that_no_vendor_takes_is_refused_with_words),
		cmocka_unit_test(a_provider_signs_for_its_own_cloud),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
