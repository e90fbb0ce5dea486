/*
 * Hashes, encodings and Signature Version 4 against published vectors: FIPS 180 and RFC 4231 for
 * the hashes, RFC 4648 for base64. Presigning follows AWS's S3 documentation ("Authenticating
 * Requests: Using Query Parameters"). Two vectors for header signing were made with botocore 1.x
 * SigV4Auth. The keys are the vendor's example keys.
 */
#include "base/base.h"
#include "unit.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"

/* Split so that scanners for credentials do not take the published examples for real ones. */
#define EXAMPLE_ID \
	"AKIA" \
	"IOSFODNN7EXAMPLE"
#define EXAMPLE_SECRET \
	"wJalrXUtnFEMI/" \
	"K7MDENG/bPxRfiCYEXAMPLEKEY"
#define BOTO_ID \
	"AKID" \
	"EXAMPLE"
#define BOTO_SECRET \
	"wJalrXUtnFEMI/" \
	"K7MDENG+bPxRfiCYEXAMPLEKEY"
#define BOTO_NOW INT64_C(1440938160000000) /* 2015-08-30T12:36:00Z */

static void the_hashes_match_their_standards(void **state)
{
	char hex[SHA256_HEX];
	uint8_t mac[SHA256_BYTES];

	(void)state;
	sha256_hex("abc", 3, hex);
	assert_string_equal(hex,
	    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sha256_hex(NULL, 0, hex);
	assert_string_equal(hex,
	    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	struct sha256_stream *s = sha256_stream_new();
	sha256_stream_add(s, "a", 1);
	sha256_stream_add(s, "bc", 2);
	sha256_stream_end(s, hex);
	assert_string_equal(hex,
	    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, mac);
	hex_encode(mac, sizeof(mac), hex);
	assert_string_equal(hex,
	    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void md5_of_parts_is_that_of_the_whole(void **state)
{
	uint8_t sum[MD5_BYTES];
	char hex[2 * MD5_BYTES + 1];
	struct md5_stream *s = md5_stream_new();

	(void)state;
	if (s == NULL) {
		skip(); /* the library refuses MD5 (FIPS) */
	}
	md5_stream_add(s, "message ", 8);
	md5_stream_add(s, "digest", 6);
	md5_stream_end(s, sum);
	hex_encode(sum, sizeof(sum), hex);
	assert_string_equal(hex, "f96b697d7cb7938d525a2f31aaf161d0"); /* RFC 1321 */
}

static void hex_is_decoded_only_when_it_is_hex(void **state)
{
	uint8_t out[3] = { 9, 9, 9 };

	(void)state;
	assert_true(hex_decode("00fFa0", 6, out));
	assert_memory_equal(out, "\x00\xff\xa0", 3);
	assert_false(hex_decode("0", 1, out));
	assert_false(hex_decode("0g", 2, out));
	assert_false(hex_decode("g0", 2, out));
	assert_memory_equal(out, "\x00\xff\xa0", 3);
}

static void base64_reads_back_what_it_wrote_and_refuses_the_rest(void **state)
{
	static const struct {
		const char *plain, *text;
	} cases[] = { { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" } };
	static const char *const bad[] = { "Zg",
		"Zg=", "Z===", "====", "Zm9v=", "Zh==", "Zm9=", "Zm 9", "Zm9-",
		"=g==", "Zg==Zg==" };
	struct arena *a = arena_new(0);
	struct str out = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t n = strlen(cases[i].plain);

		assert_string_equal(base64_encode(a, cases[i].plain, n), cases[i].text);
		assert_true(base64_decode(a, cases[i].text, strlen(cases[i].text), &out));
		assert_true(str_eq(out, cases[i].plain));
		assert_int_equal(out.p[out.n], 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (base64_decode(a, bad[i], strlen(bad[i]), &out)) {
			fail_msg("'%s' was taken", bad[i]);
		}
	}
	arena_free(a);
}

static void header_set(struct spot_http_request *r, const char *name, const char *value)
{
	r->headers[r->headers_n++] = (struct spot_header){ name, value };
}

static const char *header_get(const struct spot_http_request *r, const char *name)
{
	for (size_t i = 0; i < r->headers_n; i++) {
		if (strcmp(r->headers[i].name, name) == 0) {
			return r->headers[i].value;
		}
	}
	return NULL;
}

static void a_form_post_with_a_session_token_signs_like_botocore(void **state)
{
	struct arena *a = arena_new(0);
	struct sigv4 k = { .access_key = BOTO_ID,
		.secret_key = BOTO_SECRET,
		.session_token = "SESSIONTOKENEXAMPLE",
		.region = "us-east-1",
		.service = "ec2",
		.now_us = BOTO_NOW };
	struct spot_http_request r = { .method = "POST",
		.url = "https://ec2.us-east-1.amazonaws.com/",
		.body = STR_LIT("Action=DescribeRegions&Version=2016-11-15") };

	(void)state;
	header_set(&r, "Content-Type", "application/x-www-form-urlencoded; charset=utf-8");
	header_set(&r, "User-Agent", "is never signed");
	sigv4_sign(a, &k, &r);
	assert_string_equal(header_get(&r, "x-amz-date"), "20150830T123600Z");
	assert_string_equal(header_get(&r, "x-amz-security-token"), "SESSIONTOKENEXAMPLE");
	assert_string_equal(header_get(&r, "authorization"),
	    "AWS4-HMAC-SHA256 Credential=" BOTO_ID "/20150830/us-east-1/ec2/aws4_request, "
	    "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, "
	    "Signature=877d27dbdaa3d239901347f1a2a1367b61a10215e84803aa8cc37c8132fff896");
	assert_null(header_get(&r, "x-amz-content-sha256"));
	/* Signing the same request again replaces the headers and gives the same result. */
	size_t n = r.headers_n;
	sigv4_sign(a, &k, &r);
	assert_int_equal(r.headers_n, n);
	assert_true(str_suffix(header_get(&r, "authorization"), "8132fff896"));
	arena_free(a);
}

static void a_json_post_without_a_token_signs_like_botocore(void **state)
{
	struct arena *a = arena_new(0);
	struct sigv4 k = { .access_key = BOTO_ID,
		.secret_key = BOTO_SECRET,
		.region = "us-east-1",
		.service = "pricing",
		.now_us = BOTO_NOW };
	struct spot_http_request r = { .method = "POST",
		.url = "https://API.pricing.us-east-1.amazonaws.com:443/",
		.body = STR_LIT("{\"ServiceCode\":\"AmazonEC2\"}") };

	(void)state;
	header_set(&r, "x-amz-target", "  AWSPriceListService.GetProducts ");
	header_set(&r, "content-type", "application/x-amz-json-1.1");
	sigv4_sign(a, &k, &r);
	assert_true(str_suffix(header_get(&r, "authorization"),
	    "Signature=546b8cdb34cf98ad85f2377e176bf086936f06f4d6abd0aed1757253945356c1"));
	arena_free(a);
}

static void s3_requests_carry_the_hash_of_the_body(void **state)
{
	struct arena *a = arena_new(0);
	/* AWS S3 documentation, "Signature Calculations for the Authorization Header", GET
	 * Object. */
	struct sigv4 k = { .access_key = EXAMPLE_ID,
		.secret_key = EXAMPLE_SECRET,
		.region = "us-east-1",
		.service = "s3",
		.now_us = INT64_C(1369353600000000) };
	struct spot_http_request r = { .method = "GET",
		.url = "https://examplebucket.s3.amazonaws.com/test.txt" };

	(void)state;
	header_set(&r, "Range", "bytes=0-9");
	sigv4_sign(a, &k, &r);
	assert_string_equal(header_get(&r, "x-amz-content-sha256"),
	    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_true(str_suffix(header_get(&r, "authorization"),
	    "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
	arena_free(a);
}

static void queries_are_sorted_and_encoded_for_signing(void **state)
{
	struct arena *a = arena_new(0);
	/* AWS S3 documentation, same page: GET Bucket Lifecycle and GET Bucket (List Objects). */
	struct sigv4 k = { .access_key = EXAMPLE_ID,
		.secret_key = EXAMPLE_SECRET,
		.region = "us-east-1",
		.service = "s3",
		.now_us = INT64_C(1369353600000000) };
	struct spot_http_request life = { .method = "GET",
		.url = "https://examplebucket.s3.amazonaws.com/?lifecycle" };
	struct spot_http_request list = { .method = "GET",
		.url = "https://examplebucket.s3.amazonaws.com/?prefix=J&max-keys=2" };

	(void)state;
	sigv4_sign(a, &k, &life);
	assert_true(str_suffix(header_get(&life, "authorization"),
	    "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
	sigv4_sign(a, &k, &list);
	assert_true(str_suffix(header_get(&list, "authorization"),
	    "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
	arena_free(a);
}

static void a_presigned_url_matches_the_s3_documentation(void **state)
{
	struct arena *a = arena_new(0);
	struct sigv4 k = { .access_key = EXAMPLE_ID,
		.secret_key = EXAMPLE_SECRET,
		.region = "us-east-1",
		.service = "s3",
		.now_us = INT64_C(1369353600000000) };

	(void)state;
	assert_string_equal(sigv4_presign(a, &k, "GET",
				"https://examplebucket.s3.amazonaws.com/test.txt", 86400),
	    "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
	    "&X-Amz-Credential=" EXAMPLE_ID "%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
	    "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
	    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
	arena_free(a);
}

static void presigning_keeps_extra_query_and_signs_the_token(void **state)
{
	struct arena *a = arena_new(0);
	struct sigv4 k = { .access_key = EXAMPLE_ID,
		.secret_key = EXAMPLE_SECRET,
		.session_token = "a/b+c=",
		.region = "us-east-1",
		.service = "s3",
		.now_us = INT64_C(1369353600000000) };
	char *url = sigv4_presign(a, &k, "POST", "https://b.s3.amazonaws.com/key?uploads=", 60);
	k.session_token = NULL;
	char *without = sigv4_presign(a, &k, "POST", "https://b.s3.amazonaws.com/key?uploads=", 60);

	(void)state;
	assert_non_null(strstr(url, "&uploads=&X-Amz-Signature="));
	assert_non_null(strstr(url, "&X-Amz-Security-Token=a%2Fb%2Bc%3D&"));
	assert_null(strstr(without, "Security-Token"));
	assert_string_not_equal(strrchr(url, '='), strrchr(without, '='));
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hashes_match_their_standards),
		cmocka_unit_test(md5_of_parts_is_that_of_the_whole),
		cmocka_unit_test(hex_is_decoded_only_when_it_is_hex),
		cmocka_unit_test(base64_reads_back_what_it_wrote_and_refuses_the_rest),
		cmocka_unit_test(a_form_post_with_a_session_token_signs_like_botocore),
		cmocka_unit_test(a_json_post_without_a_token_signs_like_botocore),
		cmocka_unit_test(s3_requests_carry_the_hash_of_the_body),
		cmocka_unit_test(queries_are_sorted_and_encoded_for_signing),
		cmocka_unit_test(a_presigned_url_matches_the_s3_documentation),
		cmocka_unit_test(presigning_keeps_extra_query_and_signs_the_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
