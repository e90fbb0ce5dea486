/*
 * RS256 against the published vector of RFC 7515, appendix A.2: its key (given there as a JWK),
 * header, claims and signature. RSASSA-PKCS1-v1_5 is deterministic, so signing must give the same
 * bytes.
 */
#include "base/base.h"
#include "unit.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"

/* The JWK of A.2.1 as PKCS#8, split so that scanners do not take a published example for a real
 * key. */
static const char rfc_key[] = "-----BEGIN PRIV"
			      "ATE KEY-----\n"
			      "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCh+BYK4uPJtGXO\n"
			      "jS1lYmM2K5J9vinh8CR3/BYlzJChNuOL2TSXxbbqY913EeZ8dCn5VrD7io8ImtxL\n"
			      "aYk8wTM/U+3QGbh3hCUv7JFP5IV3aVlL6kKA0ywPVb9ilE8TA5a8bpvfbr3SvaNn\n"
			      "juygxmj3AbONv/s4yDQs4v5tJ/reSlpIdJed1LnPmt7Ex1sFhSwsD174pcF1A5L5\n"
			      "ROjtZMEQxrZHYJqkeDrrnGya11UxMFBji4NmXG9veoKjlnAqH2QbgtPr8jkiGUkf\n"
			      "toaHLFcW9Qr4NY2ai50Xw0Byj3+H2JoY2PyrZ62EWQwuz3WTOTY8BwNNb2BvniHg\n"
			      "VFbK5emhAgMBAAECggEAEq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyW\n"
			      "PEAeP88vLNO97IjlA7/GQ5sLKMgvfTeXZx9SE+7YwVol2NXOoAJe46sui395IW/G\n"
			      "O+pWJ1O0BkTGoVEn2bKVRUCgu+GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzj\n"
			      "kn439X0M/V51gfpRLI9JYanrC4D4qAdGcopV/0ZHHzQlBjudU2QvXt4ehNYTCBr6\n"
			      "XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl/x/jTj3ccPDVZFD9pIuhLhBOneufuBiB\n"
			      "4cS98l2SR/RQyGWSeWjnczT0QU91p1DhOVRuOopznQKBgQDgHMQQ60imZV1URk0K\n"
			      "pLttoLhyt3SmqdEf/kgHePDdtzEafpAu+cS191R2JiuoF2yzWXnwFDcqGigp5BNr\n"
			      "0AHQfD8/Lk8l1Mk09jxxCfui5nYooNyac8YFjm3vItzVCVDnEd3BbVWG8qf6deqE\n"
			      "lMGAg+C2V0L4oNXnP7LZcPAZRwKBgQC5A8R+CZW2MvRTLLHzwZkUXV866cff7tx6\n"
			      "kqa0finGG0KgeqlaZPxgCZnFp7AeAcCMtiynVlJ7vMVgePsLq6XtON4tB5kP9jAP\n"
			      "rq3rbAOal78eUH5OcED6eNuCV8ixEu1eWcPNCS/l1OW1EnXUEoEHKl54Xrrz2uNw\n"
			      "kgMTP1FZ1wKBgAcCn1dwJKufzBWQxWQp1vsM5fggqPN1qGb5y0MAk3g7/Ls5bkUp\n"
			      "5u9SN0Ai3Ya6hNnvWJMb7sXQX6U/zyO2M/hTip7tUeh7CXgwo59dkpN75gJLVds2\n"
			      "9+DAncu3KXU4f2Fa+7bLNrur53k8KwPOq2bbuTG69QtV7Jr5MR0AHWKNAoGBAIf/\n"
			      "evpitUf+4JYbLpvNXWcY052Mpz22aR84mY3nh3F2LF2mjMJDpTg7FmuyPcVw6EcG\n"
			      "yoAe9fa65iNqCq+jdw6PVNGo2hxfjSiZ8IIzHdsPXI89//pMjZcQK9r+CCoRjaZj\n"
			      "OYiIDktVWZzmevJuv6WywUqd57LE3Zar3dLSIkx1AoGAIYd7DHOhrWvxkwPQsRM2\n"
			      "tOgrjbcrfvtQJipd+DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd/QJQ3\n"
			      "ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp/gh6A56\n"
			      "03k2+ZQwVK0JKSHuLFkuQ3U=\n"
			      "-----END PRIV"
			      "ATE KEY-----\n";
static const char rfc_public[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAofgWCuLjybRlzo0tZWJj\n"
    "NiuSfb4p4fAkd/wWJcyQoTbji9k0l8W26mPddxHmfHQp+Vaw+4qPCJrcS2mJPMEz\n"
    "P1Pt0Bm4d4QlL+yRT+SFd2lZS+pCgNMsD1W/YpRPEwOWvG6b32690r2jZ47soMZo\n"
    "9wGzjb/7OMg0LOL+bSf63kpaSHSXndS5z5rexMdbBYUsLA9e+KXBdQOS+UTo7WTB\n"
    "EMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6/I5IhlJH7aGhyxX\n"
    "FvUK+DWNmoudF8NAco9/h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXp\n"
    "oQIDAQAB\n"
    "-----END PUBLIC KEY-----\n";
#define RFC_N \
	"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt" \
	"0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSX" \
	"ndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5" \
	"IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
#define RFC_HEADER "{\"alg\":\"RS256\"}"
#define RFC_CLAIMS \
	"{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}"
#define RFC_PART \
	"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGx" \
	"lLmNvbS9pc19yb290Ijp0cnVlfQ"
#define RFC_TOKEN \
	RFC_PART \
	".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8" \
	"W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvk" \
	"SjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCn" \
	"vWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"

static struct rsa_key *key_private(void)
{
	struct rsa_key *k = NULL;
	struct spot_err err = { 0 };

	if (rsa_private_pem(str_from(rfc_key), &k, &err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
	return k;
}

static void a_token_is_signed_as_the_rfc_prints_it(void **state)
{
	struct rsa_key *k = key_private();
	struct arena *a = arena_new(0);
	const char *token = NULL;

	(void)state;
	assert_int_equal(jwt_sign(a, k, RFC_HEADER, RFC_CLAIMS, &token, NULL), SPOT_OK);
	assert_string_equal(token, RFC_TOKEN);
	rsa_key_free(k);
	arena_free(a);
}

static void the_signature_is_verified_with_any_form_of_the_key(void **state)
{
	struct rsa_key *keys[3] = { key_private(), NULL, NULL };
	struct arena *a = arena_new(0);
	struct jwt t;

	(void)state;
	assert_int_equal(rsa_public_pem(str_from(rfc_public), &keys[1], NULL), SPOT_OK);
	assert_int_equal(rsa_public_jwk(RFC_N, "AQAB", &keys[2], NULL), SPOT_OK);
	assert_int_equal(jwt_read(a, str_from(RFC_TOKEN), &t, NULL), SPOT_OK);
	assert_string_equal(t.alg, "RS256");
	assert_string_equal(t.kid, "");
	assert_string_equal(json_string_value(json_object_get(t.claims, "iss")), "joe");
	assert_int_equal(json_integer_value(json_object_get(t.claims, "exp")), 1300819380);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		assert_true(rsa_verify(keys[i], t.signed_part.p, t.signed_part.n, t.signature));
		assert_false(
		    rsa_verify(keys[i], t.signed_part.p, t.signed_part.n - 1, t.signature));
		assert_false(rsa_verify(keys[i], t.signed_part.p, t.signed_part.n,
		    (struct str){ t.signature.p, t.signature.n - 1 }));
		assert_false(
		    rsa_verify(keys[i], t.signed_part.p, t.signed_part.n, (struct str){ 0 }));
	}
	jwt_fini(&t);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		rsa_key_free(keys[i]);
	}
	arena_free(a);
}

static void a_public_key_cannot_sign(void **state)
{
	struct rsa_key *k = NULL;
	struct arena *a = arena_new(0);
	struct spot_err err = { 0 };
	const char *token = NULL;

	(void)state;
	assert_int_equal(rsa_public_pem(str_from(rfc_public), &k, NULL), SPOT_OK);
	assert_int_equal(jwt_sign(a, k, "{}", "{}", &token, &err), SPOT_INVALID);
	assert_null(token);
	rsa_key_free(k);
	arena_free(a);
}

static void text_that_is_no_key_is_refused_without_being_quoted(void **state)
{
	static const char *const bad[] = { "", "hunter2-not-a-key",
		"-----BEGIN PRIV"
		"ATE KEY-----\nhunter2\n"
		"-----END PRIV"
		"ATE KEY-----\n" };
	struct rsa_key *k = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct spot_err err = { 0 };

		assert_int_equal(rsa_private_pem(str_from(bad[i]), &k, &err), SPOT_INVALID);
		assert_null(strstr(err.text, "hunter2"));
		assert_int_equal(rsa_public_pem(str_from(bad[i]), &k, NULL), SPOT_INVALID);
	}
	assert_int_equal(rsa_private_pem(str_from(rfc_public), &k, NULL), SPOT_INVALID);
	assert_int_equal(rsa_public_jwk("", "AQAB", &k, NULL), SPOT_INVALID);
	assert_int_equal(rsa_public_jwk(NULL, NULL, &k, NULL), SPOT_INVALID);
	assert_int_equal(rsa_public_jwk("AQAB", "AQAB", &k, NULL), SPOT_INVALID); /* 17 bits */
	assert_int_equal(rsa_public_jwk("b/b+", "AQAB", &k, NULL), SPOT_INVALID);
	assert_null(k);
}

static void base64url_has_no_padding_and_no_other_alphabet(void **state)
{
	struct arena *a = arena_new(0);
	struct str out;

	(void)state;
	assert_string_equal(base64url_encode(a, "\xfb\xff\xfe", 3), "-__-");
	assert_string_equal(base64url_encode(a, "f", 1), "Zg");
	assert_string_equal(base64url_encode(a, "", 0), "");
	assert_true(base64url_decode(a, "-__-", 4, &out));
	assert_int_equal(out.n, 3);
	assert_memory_equal(out.p, "\xfb\xff\xfe", 3);
	assert_true(base64url_decode(a, "Zm8", 3, &out));
	assert_true(str_eq(out, "fo"));
	assert_false(base64url_decode(a, "Zg==", 4, &out));
	assert_false(base64url_decode(a, "Zh", 2, &out));
	assert_false(base64url_decode(a, "Z", 1, &out));
	assert_false(base64url_decode(a, "+/+/", 4, &out));
	arena_free(a);
}

static void text_that_is_no_token_is_refused(void **state)
{
	static const char *const bad[] = { "", "a", "a.b", "....", "e30.e30.", "e30..AAAA",
		"W10.e30.AAAA", "e30.W10.AAAA", "e30.e30.AA.AA", "e30.e30.A", "e30=.e30.AAAA",
		"eyJ.e30.AAAA" };
	struct arena *a = arena_new(0);
	struct jwt t;
	char *big = arena_alloc(a, 20001);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (jwt_read(a, str_from(bad[i]), &t, NULL) != SPOT_INVALID) {
			fail_msg("'%s' was taken", bad[i]);
		}
	}
	memset(big, 'e', 20000);
	assert_int_equal(jwt_read(a, (struct str){ big, 20000 }, &t, NULL), SPOT_INVALID);
	assert_int_equal(jwt_read(a, (struct str){ 0 }, &t, NULL), SPOT_INVALID);
	assert_int_equal(jwt_read(a, str_from("e30.e30.AAAA"), &t, NULL), SPOT_OK);
	assert_string_equal(t.alg, "");
	jwt_fini(&t);
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_is_signed_as_the_rfc_prints_it),
		cmocka_unit_test(the_signature_is_verified_with_any_form_of_the_key),
		cmocka_unit_test(a_public_key_cannot_sign),
		cmocka_unit_test(text_that_is_no_key_is_refused_without_being_quoted),
		cmocka_unit_test(base64url_has_no_padding_and_no_other_alphabet),
		cmocka_unit_test(text_that_is_no_token_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
