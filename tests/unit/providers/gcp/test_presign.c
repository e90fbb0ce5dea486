#include "base/base.h"
#include "gcp_test.h"

/* V4 signed URLs against Google's own vectors (tests/golden/gcp/README.md says where they are
 * from). */

static void keyed_init(struct drive *d, const char *const *settings)
{
	drive_init(d, &gcp_ops,
	    (const char *const[]){ "GOOGLE_APPLICATION_CREDENTIALS", "/c.json", NULL },
	    settings != NULL ? settings : golden_settings);
	assert_int_equal(RUN_SCRIPT(d, DRIVE_AUTH, NULL,
			     { .read = "/c.json",
				 .status = 200,
				 .reply = arena_printf(d->arena,
				     "{\"type\":\"service_account\",\"private_key\":\"%s\","
				     "\"client_email\":\"" GOLDEN_EMAIL "\"}",
				     golden_key(d->arena, true)) },
			     { .status = 200,
				 .reply = "{\"access_token\":\"t\",\"expires_in\":3599}" }),
	    SPOT_DONE);
}

/* Whether we sign such a vector. We do not sign other headers, other hosts' styles, or query
 * parameters given apart. */
static bool is_ours(const json_t *v)
{
	static const char *const other[] = { "urlStyle", "queryParameters", "emulatorHostname",
		"universeDomain", "bucketBoundHostname" };
	const json_t *headers = json_object_get(v, "headers");

	for (size_t i = 0; i < ARRAY_LEN(other); i++) {
		if (json_object_get(v, other[i]) != NULL) {
			return false;
		}
	}
	if (strcmp(json_string_value(json_object_get(v, "method")), "PUT") == 0) {
		return false; /* becomes a POST: tested below */
	}
	return headers == NULL ||
	    (json_object_size(headers) == 1 &&
		json_object_get(headers, "X-Goog-Resumable") != NULL);
}

static const char *endpoint_of(struct arena *a, const json_t *v)
{
	const char *host = json_string_value(json_object_get(v, "hostname"));
	const char *client = json_string_value(json_object_get(v, "clientEndpoint"));

	if (host != NULL) {
		return arena_printf(a, "%s://%s", json_string_value(json_object_get(v, "scheme")),
		    host);
	}
	if (client == NULL) {
		return "";
	}
	return strstr(client, "://") != NULL ? client : arena_printf(a, "https://%s", client);
}

static void the_vendors_vectors_are_met_to_the_byte(void **state)
{
	struct drive d;
	json_t *doc = NULL;
	const json_t *v;
	size_t i, met = 0;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(json_parse(golden_data(d.arena, "storage/v4_signatures.json"), "vectors",
			     &doc, NULL),
	    SPOT_OK);
	json_array_foreach (json_object_get(doc, "signingV4Tests"), i, v) {
		bool post = json_object_get(v, "headers") != NULL;
		struct spot_presign a = { .method = post
			    ? "PUT"
			    : json_string_value(json_object_get(v, "method")),
			.endpoint = endpoint_of(d.arena, v),
			.region = "",
			.bucket = json_string_value(json_object_get(v, "bucket")),
			.key = json_string_value(json_object_get(v, "object")),
			.query = "",
			.expires_s = json_integer_value(json_object_get(v, "expiration")) };
		struct spot_err err = { 0 };

		if (!is_ours(v) || a.key == NULL) {
			continue;
		}
		if (gcp_ops.presign(d.self, d.arena,
			gcp_time(json_string_value(json_object_get(v, "timestamp"))), &a,
			&err) != SPOT_OK) {
			fail_msg("%s: %s", json_string_value(json_object_get(v, "description")),
			    err.text);
		}
		assert_string_equal(a.url, json_string_value(json_object_get(v, "expectedUrl")));
		assert_int_equal(a.upload, post ? SPOT_UPLOAD_RESUMABLE : SPOT_UPLOAD_PUT);
		met++;
	}
	assert_true(met >= 9);
	json_decref(doc);
	drive_fini(&d);
}

static void a_put_becomes_a_signed_start_of_a_resumable_upload(void **state)
{
	struct spot_presign a = { .method = "PUT",
		.endpoint = "",
		.region = "",
		.bucket = "ckpt",
		.key = "a/b c",
		.query = "",
		.expires_s = 600 };
	struct drive d;

	(void)state;
	keyed_init(&d, SETTINGS("endpoint", "http://sim:9000"));
	assert_int_equal(gcp_ops.presign(d.self, d.arena, GOLDEN_NOW_US, &a, NULL), SPOT_OK);
	assert_true(
	    str_prefix(a.url, "http://sim:9000/ckpt/a/b%20c?X-Goog-Algorithm=GOOG4-RSA-SHA256&"));
	assert_non_null(strstr(a.url, "X-Goog-SignedHeaders=host%3Bx-goog-resumable"));
	assert_int_equal(a.upload, SPOT_UPLOAD_RESUMABLE);
	assert_int_equal(a.headers_n, 1);
	assert_string_equal(a.headers[0].name, "x-goog-resumable");
	assert_string_equal(a.headers[0].value, "start");
	drive_fini(&d);
}

static void an_unsignable_request_is_refused_with_words(void **state)
{
	static const struct spot_presign good = { .method = "GET",
		.endpoint = "",
		.region = "",
		.bucket = "ckpt",
		.key = "k",
		.query = "",
		.expires_s = 600 };
	struct spot_presign a = good;
	struct spot_err err = { 0 };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	a.method = "PATCH";
	assert_int_equal(gcp_ops.presign(d.self, d.arena, 0, &a, &err), SPOT_INVALID);
	a = good, a.bucket = "../x";
	assert_int_equal(gcp_ops.presign(d.self, d.arena, 0, &a, &err), SPOT_INVALID);
	a = good, a.key = "";
	assert_int_equal(gcp_ops.presign(d.self, d.arena, 0, &a, &err), SPOT_INVALID);
	a = good, a.expires_s = 604801;
	assert_int_equal(gcp_ops.presign(d.self, d.arena, 0, &a, &err), SPOT_INVALID);
	a = good, a.endpoint = "ftp://x";
	assert_int_equal(gcp_ops.presign(d.self, d.arena, 0, &a, &err), SPOT_INVALID);
	drive_fini(&d);
	/* A token alone signs nothing. */
	ready_init(&d, NULL);
	a = good;
	assert_int_equal(gcp_ops.presign(d.self, d.arena, 0, &a, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "private key"));
	assert_null(a.url);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_vendors_vectors_are_met_to_the_byte),
		cmocka_unit_test(a_put_becomes_a_signed_start_of_a_resumable_upload),
		cmocka_unit_test(an_unsignable_request_is_refused_with_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
