/* Log lines, redaction, and secrets that must never get out. */
#include "base/base.h"
#include "unit.h"

#include "base/crypto/crypto.h"

#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static int pipe_fds[2];
static struct clock_manual when;

static void start_log(bool json, enum log_level level)
{
	assert_int_equal(pipe(pipe_fds), 0);
	clock_manual_init(&when, INT64_C(1767323045000006));
	log_init(&(struct log_conf){ .fd = pipe_fds[1],
	    .level = level,
	    .json = json,
	    .program = "spotd",
	    .clock = &when.clock });
}

/* Everything logged since start_log. */
static char *end_log(void)
{
	static char text[65536];

	close(pipe_fds[1]);
	size_t n = 0;
	for (ssize_t got; (got = read(pipe_fds[0], text + n, sizeof(text) - 1 - n)) > 0;) {
		n += (size_t)got;
	}
	text[n] = '\0';
	close(pipe_fds[0]);
	return text;
}

static void a_line_is_an_event_with_typed_pairs(void **state)
{
	(void)state;
	start_log(false, LOG_INFO);
	log_info("node.launched", I64("node", 12), STR("pool", "a b"), USD("price", 412300),
	    DUR("took", 41000000), BOOL("spot", true), F64("score", 0.5), STR("none", NULL),
	    STR("e", ""));
	log_warn("bare");
	assert_string_equal(end_log(),
	    "2026-01-02T03:04:05.000006Z info spotd node.launched node=12 pool=\"a b\" "
	    "price=0.412300 "
	    "took=41s spot=true score=0.5 none=- e=\"\"\n"
	    "2026-01-02T03:04:05.000006Z warn spotd bare\n");
}

static void a_json_line_parses_whatever_is_in_the_values(void **state)
{
	(void)state;
	start_log(true, LOG_DEBUG);
	log_debug("x", STR("a", "quote\" back\\ line\n\xff"), STR("n", NULL), F64("f", (double)NAN),
	    DUR("took", 1500000), I64("i", INT64_MIN), BOOL("b", false));
	char *line = end_log();
	assert_int_equal(line[strlen(line) - 1], '\n');
	json_t *doc = json_loads(line, 0, NULL);
	assert_non_null(doc);
	assert_string_equal(json_string_value(json_object_get(doc, "event")), "x");
	assert_string_equal(json_string_value(json_object_get(doc, "level")), "debug");
	assert_string_equal(json_string_value(json_object_get(doc, "program")), "spotd");
	assert_string_equal(json_string_value(json_object_get(doc, "a")),
	    "quote\" back\\ line\n\xef\xbf\xbd");
	assert_true(json_is_null(json_object_get(doc, "n")));
	assert_true(json_is_null(json_object_get(doc, "f")));
	assert_true(json_real_value(json_object_get(doc, "took")) == 1.5);
	assert_true(json_is_false(json_object_get(doc, "b")));
	json_decref(doc);
}

static void a_value_cannot_forge_a_second_line(void **state)
{
	(void)state;
	start_log(false, LOG_INFO);
	log_info("x", STR("a", "v\n2026 error spotd forged"));
	char *text = end_log();
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void lines_below_the_level_are_not_written(void **state)
{
	(void)state;
	start_log(false, LOG_WARN);
	log_debug("a");
	log_info("b");
	log_error("c");
	assert_string_equal(end_log(), "2026-01-02T03:04:05.000006Z error spotd c\n");
}

static void a_huge_line_is_still_one_valid_line(void **state)
{
	static char big[20000];

	(void)state;
	memset(big, 'y', sizeof(big) - 1);
	start_log(true, LOG_INFO);
	log_info("x", STR("a", big), STR("b", big), STR("c", big), STR("d", big), STR("e", big),
	    I64("z", 1));
	json_t *doc = json_loads(end_log(), 0, NULL);
	assert_non_null(doc);
	assert_int_equal(json_string_length(json_object_get(doc, "a")), 4096);
	assert_int_equal(json_integer_value(json_object_get(doc, "z")), 1);
	json_decref(doc);
}

static void a_registered_secret_never_reaches_a_line(void **state)
{
	static const char value[] = "s3cr3t/value+1234";
	static char edge[5000];
	struct secret s;

	(void)state;
	/* Ends behind the cut of long values: its head must not stay. */
	memset(edge, '.', 4090);
	memcpy(edge + 4085, value, sizeof(value));
	secret_init(&s, value, sizeof(value) - 1);
	for (int json = 0; json < 2; json++) {
		start_log(json == 1, LOG_DEBUG);
		log_info("x", STR("plain", value), STR("inside", "before s3cr3t/value+1234 after"),
		    STR("twice", "s3cr3t/value+1234s3cr3t/value+1234"),
		    STR("url", "https://h/?k=s3cr3t%2Fvalue%2B1234&z=1"), STR("edge", edge));
		char *text = end_log();
		assert_null(strstr(text, "s3cr3t"));
		assert_non_null(strstr(text, "before [redacted] after"));
		assert_non_null(strstr(text, "[redacted][redacted]"));
		assert_non_null(strstr(text, "k=[redacted]&z=1"));
	}
	secret_fini(&s);
	start_log(false, LOG_INFO);
	log_info("x", STR("plain", value));
	assert_non_null(strstr(end_log(), value));
}

static void values_of_secret_names_are_hidden(void **state)
{
	(void)state;
	start_log(false, LOG_INFO);
	log_info("x", STR("Authorization", "abc1"), STR("x-amz-security-token", "abc2"),
	    STR("db_password", "abc3"), STR("clientSecret", "abc4"), STR("api-key", "abc5"),
	    STR("token", "abc6"), STR("Set-Cookie", "abc7"), STR("client_token", "kept1"),
	    STR("NextToken", "kept2"), STR("zone", "kept3"));
	char *text = end_log();
	assert_null(strstr(text, "abc"));
	assert_non_null(strstr(text, "client_token=kept1 NextToken=kept2 zone=kept3"));
	assert_false(redact_name(NULL));
}

static void overlapping_and_short_secrets_are_replaced_whole(void **state)
{
	char text[] = "12345678 12345678-long 123456789";
	size_t n = strlen(text);

	(void)state;
	redact_add("12345678", 8);
	redact_add("12345678", 8); /* counted */
	redact_add("12345678-long", 13);
	redact_add("short", 5); /* too short to be replaced safely: ignored */
	redact_text(text, &n);
	assert_string_equal(text, "******** [redacted] ********9");
	assert_int_equal(n, strlen(text));
	redact_remove("12345678", 8);
	char again[] = "12345678 short";
	n = strlen(again);
	redact_text(again, &n);
	assert_string_equal(again, "******** short");
	redact_remove("12345678", 8);
	redact_remove("12345678-long", 13);
	redact_remove("never there", 11);
	char free_now[] = "12345678";
	n = 8;
	redact_text(free_now, &n);
	assert_string_equal(free_now, "12345678");
}

static void words_of_a_vendor_are_one_clean_line(void **state)
{
	struct arena *a = arena_new(0);

	(void)state;
	redact_add("wordsecret1", 11);
	assert_string_equal(redact_words(a, NULL, SIZE_MAX), "");
	assert_string_equal(redact_words(a,
				"a\nb\x7f"
				"c wordsecret1 \t ",
				SIZE_MAX),
	    "a b c [redacted]");
	assert_string_equal(redact_words(a, "\xc3\xa9\xc3\xa9", 3), "\xc3\xa9");
	/* Text is cut after its secrets are replaced. */
	assert_string_equal(redact_words(a, "wordsecret1", 6), "[redac");
	redact_remove("wordsecret1", 11);
	arena_free(a);
}

static void urls_lose_user_and_secret_query_values(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "https://h/p", "https://h/p" },
		{ "https://u:p@h:1/p?a=1", "https://[redacted]@h:1/p?a=1" },
		{ "https://h/?X-Amz-Signature=ab&X-Amz-Date=d&token=t#f",
		    "https://h/?X-Amz-Signature=[redacted]&X-Amz-Date=d&token=[redacted]#f" },
		{ "https://h/a@b?flag&password=", "https://h/a@b?flag&password=[redacted]" },
		{ "postgres://me:pw@/db", "postgres://[redacted]@/db" },
		{ "", "" },
	};
	char buf[200], small[12];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		redact_url(cases[i].in, buf, sizeof(buf));
		assert_string_equal(buf, cases[i].out);
	}
	redact_url(NULL, buf, sizeof(buf));
	assert_string_equal(buf, "");
	redact_url("https://host/path", small, sizeof(small));
	assert_string_equal(small, "https://hos");
	redact_url("x", small, 0);
	assert_string_equal(small, "https://hos");
}

static void secrets_compare_and_wipe(void **state)
{
	struct secret s, none = { 0 };
	char mem[4] = "abc";

	(void)state;
	secret_init(&s, "12345678", 8);
	assert_true(secret_set(&s));
	assert_false(secret_set(&none));
	assert_true(secret_equal(&s, "12345678", 8));
	assert_false(secret_equal(&s, "12345679", 8));
	assert_false(secret_equal(&s, "1234567", 7));
	assert_false(secret_equal(&s, NULL, 0));
	assert_false(secret_equal(&none, "", 0));
	assert_string_equal(secret_reveal(&s), "12345678");
	assert_string_equal(secret_reveal(&none), "");
	secret_fini(&s);
	secret_fini(&s);
	assert_false(secret_set(&s));
	mem_wipe(mem, sizeof(mem));
	assert_memory_equal(mem, "\0\0\0\0", 4);
}

static char file_path[] = "spot-secret-XXXXXX";

static void file_write(const char *text, size_t n, mode_t mode)
{
	FILE *f = fopen(file_path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, n, f), n);
	fclose(f);
	assert_int_equal(chmod(file_path, mode), 0);
}

static void a_secret_file_must_be_private_small_and_not_empty(void **state)
{
	static char big[65537 + 1];
	struct secret s = { 0 };
	struct spot_err err;

	(void)state;
	int fd = mkstemp(file_path);
	assert_true(fd >= 0);
	close(fd);
	file_write("sesame-open\r\n", 13, 0600);
	assert_int_equal(secret_read_file(&s, file_path, &err), SPOT_OK);
	assert_string_equal(secret_reveal(&s), "sesame-open");
	secret_fini(&s);
	file_write("sesame-open\n\n", 13, 0400);
	assert_int_equal(secret_read_file(&s, file_path, &err), SPOT_OK);
	assert_string_equal(secret_reveal(&s), "sesame-open\n");
	secret_fini(&s);
	chmod(file_path, 0640);
	assert_int_equal(secret_read_file(&s, file_path, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "mode is 0640"));
	chmod(file_path, 0600);
	file_write("\n", 1, 0600);
	assert_int_equal(secret_read_file(&s, file_path, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "empty"));
	file_write(big, 65537, 0600);
	assert_int_equal(secret_read_file(&s, file_path, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "64 KiB"));
	unlink(file_path);
	assert_int_equal(secret_read_file(&s, file_path, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "No such file"));
	assert_int_equal(secret_read_file(&s, ".", &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "not a regular file"));
	assert_false(secret_set(&s));
}

static void a_credential_of_systemd_may_have_the_mode_of_its_acl(void **state)
{
	char dir[] = "/tmp/spot_credentials_XXXXXX", path[64], other[64];
	struct secret s = { 0 };
	struct spot_err err;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/token", dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite("sesame-open\n", 1, 12, f), 12);
	fclose(f);
	assert_int_equal(chmod(path, 0440), 0);
	assert_int_equal(secret_read_file(&s, path, &err), SPOT_CONFIG);
	setenv("CREDENTIALS_DIRECTORY", "/tmp", 1); /* the file is not directly there */
	assert_int_equal(secret_read_file(&s, path, &err), SPOT_CONFIG);
	setenv("CREDENTIALS_DIRECTORY", "", 1);
	assert_int_equal(secret_read_file(&s, path, &err), SPOT_CONFIG);
	/* Another folder with a name as long, and the beginning of the file's own name. */
	snprintf(other, sizeof(other), "%s", dir);
	other[1] = 'T';
	setenv("CREDENTIALS_DIRECTORY", other, 1);
	assert_int_equal(secret_read_file(&s, path, &err), SPOT_CONFIG);
	snprintf(other, sizeof(other), "%s/tok", dir);
	setenv("CREDENTIALS_DIRECTORY", other, 1);
	assert_int_equal(secret_read_file(&s, path, &err), SPOT_CONFIG);
	setenv("CREDENTIALS_DIRECTORY", dir, 1);
	assert_int_equal(secret_read_file(&s, path, &err), SPOT_OK);
	assert_string_equal(secret_reveal(&s), "sesame-open");
	secret_fini(&s);
	assert_int_equal(chmod(path, 0444), 0);
	assert_int_equal(secret_read_file(&s, path, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "mode is 0444"));
	unsetenv("CREDENTIALS_DIRECTORY");
	unlink(path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_an_event_with_typed_pairs),
		cmocka_unit_test(a_json_line_parses_whatever_is_in_the_values),
		cmocka_unit_test(a_value_cannot_forge_a_second_line),
		cmocka_unit_test(lines_below_the_level_are_not_written),
		cmocka_unit_test(a_huge_line_is_still_one_valid_line),
		cmocka_unit_test(a_registered_secret_never_reaches_a_line),
		cmocka_unit_test(values_of_secret_names_are_hidden),
		cmocka_unit_test(overlapping_and_short_secrets_are_replaced_whole),
		cmocka_unit_test(words_of_a_vendor_are_one_clean_line),
		cmocka_unit_test(urls_lose_user_and_secret_query_values),
		cmocka_unit_test(secrets_compare_and_wipe),
		cmocka_unit_test(a_secret_file_must_be_private_small_and_not_empty),
		cmocka_unit_test(a_credential_of_systemd_may_have_the_mode_of_its_acl),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
