#include "base/base.h"
#include "azure_test.h"

/*
 * Shared access signatures, against those of the vendor's own library: made with
 * azure-storage-blob 12.19.1 (generate_blob_sas, version 2023-11-03) from the same inputs. The
 * account and key are the storage emulator's published ones
 * (learn.microsoft.com/azure/storage/common/storage-use-azurite).
 */

#define BASE "subscription", GOLDEN_SUB, "tenant", "contoso.example", "client_id", "me"
static const char *const with_key[] = { "AZURE_CLIENT_SECRET", "secret-0123456789",
	"AZURE_STORAGE_KEY",
	"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"
	"K1SZFPTOtr/KBHBeksoGMGw==",
	NULL };
static const char *const emulator[] = { BASE, "storage_account", "devstoreaccount1", NULL };
static const char *const delegated[] = { BASE, "storage_account", "contosockpt", NULL };

static struct spot_presign presign_args(const char *method, const char *key)
{
	return (struct spot_presign){ .method = method,
		.endpoint = "",
		.region = "",
		.bucket = "ckpt",
		.key = key,
		.query = "",
		.expires_s = 3600 };
}

static void assert_has(const char *url, const char *part)
{
	if (strstr(url, part) == NULL) {
		fail_msg("'%s' is not in %s", part, url);
	}
}

static enum spot_rc url_sign(struct drive *d, struct spot_presign *a, struct spot_err *err)
{
	memset(err, 0, sizeof(*err));
	return d->ops->presign(d->self, d->arena, GOLDEN_NOW_US, a, err);
}

static void the_accounts_key_signs_like_the_vendors_library(void **state)
{
	struct spot_presign a = presign_args("PUT", "jobs/j1/a b+c.bin");
	struct spot_err err;
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, with_key, emulator);
	assert_int_equal(url_sign(&d, &a, &err), SPOT_OK);
	assert_has(a.url,
	    "https://devstoreaccount1.blob.core.windows.net/ckpt/jobs/j1/"
	    "a%20b%2Bc.bin?sv=2023-11-03&");
	assert_has(a.url,
	    "&spr=https&se=2026-01-02T04%3A04%3A05Z&sr=b&sp=cw&sig="
	    "fTDOJgJYWvienSZMYh4oA5IbUh3P9m%2BE58uuifA5d0E%3D");
	assert_int_equal(a.upload, SPOT_UPLOAD_BLOCKS);
	assert_int_equal(a.headers_n, 1);
	assert_string_equal(a.headers[0].name, "x-ms-blob-type");
	assert_string_equal(a.headers[0].value, "BlockBlob");
	a = presign_args("GET", "jobs/j1/a b+c.bin");
	a.endpoint = "http://127.0.0.1:10000/devstoreaccount1/";
	assert_int_equal(url_sign(&d, &a, &err), SPOT_OK);
	assert_has(a.url, "http://127.0.0.1:10000/devstoreaccount1/ckpt/jobs/j1/a%20b%2Bc.bin?");
	assert_has(a.url, "&spr=https%2Chttp&");
	assert_has(a.url, "&sp=r&sig=8h8a8hx4gnVNa3Q1YQ%2BlvSZ79wqDun%2FKuCgH%2F5%2Bbq14%3D");
	assert_int_equal(a.upload, SPOT_UPLOAD_PUT);
	assert_int_equal(a.headers_n, 0);
	drive_fini(&d);
}

static void a_delegation_key_signs_like_the_vendors_library(void **state)
{
	struct spot_presign a = presign_args("PUT", "jobs/j1/chunk-0");
	struct spot_err err;
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, golden_env, delegated);
	d.now_us = GOLDEN_NOW_US;
	assert_int_equal(url_sign(&d, &a, &err), SPOT_UNAUTHENTICATED);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL, { .status = 200, .reply = TOKEN_OK("arm") },
		{ .status = 200, .reply = TOKEN_OK("blob") },
		{ .has = { "<Start>2026-01-02T02:59:05Z</Start><Expiry>2026-01-08T03:04:05Z</"
			   "Expiry>" },
		    .status = 200,
		    .reply =
			"<?xml version=\"1.0\" encoding=\"utf-8\"?><UserDelegationKey>"
			"<SignedOid>11111111-aaaa-bbbb-cccc-222222222222</SignedOid>"
			"<SignedTid>33333333-aaaa-bbbb-cccc-444444444444</SignedTid>"
			"<SignedStart>2026-01-02T02:59:05Z</"
			"SignedStart><SignedExpiry>2026-01-08T03:04:05Z</SignedExpiry>"
			"<SignedService>b</SignedService><SignedVersion>2023-11-03</SignedVersion>"
			"<Value>SkRmdHlVbWFkZXVwa2V5Zm9ydGVzdHNvbmx5MTIzNDU2Nzg5MA==</Value></"
			"UserDelegationKey>" }),
	    SPOT_DONE);
	assert_int_equal(url_sign(&d, &a, &err), SPOT_OK);
	assert_has(a.url, "https://contosockpt.blob.core.windows.net/ckpt/jobs/j1/chunk-0?");
	assert_has(a.url,
	    "&skoid=11111111-aaaa-bbbb-cccc-222222222222&sktid=33333333-aaaa-bbbb-cccc-444444444444"
	    "&skt=2026-01-02T02%3A59%3A05Z&ske=2026-01-08T03%3A04%3A05Z&sks=b&skv=2023-11-03&"
	    "sig=xiZeygzrML0Y2tQ96izKI3NzqT7k%2B8qAVWANmKCP0rc%3D");
	assert_null(strstr(a.url, "SkRmdHlV"));
	/* never longer than the key itself */
	a.expires_s = 7 * 24 * 3600;
	assert_int_equal(url_sign(&d, &a, &err), SPOT_INVALID);
	drive_fini(&d);
}

static void more_of_the_query_goes_along_unsigned(void **state)
{
	struct spot_presign a = presign_args("PUT", "k");
	struct spot_err err;
	struct drive d;

	(void)state;
	a.query = "comp=blocklist";
	drive_init(&d, &azure_ops, with_key, emulator);
	assert_int_equal(url_sign(&d, &a, &err), SPOT_OK);
	assert_has(a.url, "/ckpt/k?comp=blocklist&sv=");
	drive_fini(&d);
}

static void an_impossible_request_is_refused(void **state)
{
	static const struct {
		const char *method, *bucket, *key;
		int64_t expires_s;
	} cases[] = { { "POST", "ckpt", "k", 60 }, { NULL, "ckpt", "k", 60 },
		{ "GET", "Ck", "k", 60 }, { "GET", "ckpt/x", "k", 60 }, { "GET", NULL, "k", 60 },
		{ "GET", "ckpt", "", 60 }, { "GET", "ckpt", "/k", 60 }, { "GET", "ckpt", "k", 0 },
		{ "GET", "ckpt", "k", 8 * 24 * 3600 } };
	struct spot_presign a;
	struct spot_err err;
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, with_key, emulator);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		a = presign_args(cases[i].method, cases[i].key);
		a.bucket = cases[i].bucket;
		a.expires_s = cases[i].expires_s;
		assert_int_equal(url_sign(&d, &a, &err), SPOT_INVALID);
		assert_null(a.url);
	}
	drive_fini(&d);
	drive_init(&d, &azure_ops, golden_env, golden_settings);
	a = presign_args("GET", "k");
	assert_int_equal(url_sign(&d, &a, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "storage_account"));
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_accounts_key_signs_like_the_vendors_library),
		cmocka_unit_test(a_delegation_key_signs_like_the_vendors_library),
		cmocka_unit_test(more_of_the_query_goes_along_unsigned),
		cmocka_unit_test(an_impossible_request_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
