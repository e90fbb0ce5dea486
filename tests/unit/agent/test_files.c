/* Paths that may leave their root, whole-file writes, boot.json and its errors. */
#include "base/base.h"
#include "unit.h"

#include "agent/agent.h"
#include "agent_dir.h"
#include "agent/sys/sys.h"
#include "base/text/text.h"

#include <pwd.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void paths_stay_inside(void **state)
{
	static const char *const good[] = { "a", "a/b", "a..b", "..a", ".hidden", "a/...",
		"a b/c" };
	static const char *const bad[] = { "", "/a", "..", "../a", "a/..", "a/../b", "a\nb" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_true(path_is_inside(good[i]));
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_false(path_is_inside(bad[i]));
	}
	assert_false(path_is_inside(NULL));
}

static void a_write_replaces_the_whole_and_keeps_its_mode(void **state)
{
	char path[AGENT_PATH_MAX];
	struct str text = { NULL, 0 };
	struct stat st;

	(void)state;
	assert_true(path_join(path, dir, "file"));
	assert_int_equal(file_write(path, STR_LIT("a longer text"), 0644, false, NULL), SPOT_OK);
	assert_int_equal(file_write(path, STR_LIT("short"), 0600, true, NULL), SPOT_OK);
	assert_int_equal(file_read(path, 5, &text, NULL), SPOT_OK);
	assert_string_equal(text.p, "short");
	free((char *)(uintptr_t)text.p);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void a_file_over_its_limit_is_refused(void **state)
{
	char path[AGENT_PATH_MAX];
	struct str text = { NULL, 0 };
	struct spot_err err = { 0 };

	(void)state;
	assert_true(path_join(path, dir, "big"));
	assert_int_equal(file_write(path, STR_LIT("123456"), 0644, false, NULL), SPOT_OK);
	assert_int_equal(file_read(path, 5, &text, &err), SPOT_INTERNAL);
	assert_null(text.p);
	assert_int_equal(file_read("/nonexistent/file", 5, &text, &err), SPOT_NOT_FOUND);
}

static void removing_a_directory_does_not_follow_links(void **state)
{
	char keep[AGENT_PATH_MAX], tree[AGENT_PATH_MAX], link[AGENT_PATH_MAX];

	(void)state;
	assert_true(path_join(keep, dir, "keep/file") && path_join(tree, dir, "tree") &&
	    path_join(link, dir, "tree/link"));
	assert_int_equal(dir_make_above(keep, NULL), SPOT_OK);
	assert_int_equal(file_write(keep, STR_LIT("x"), 0644, false, NULL), SPOT_OK);
	assert_int_equal(dir_make(tree, NULL), SPOT_OK);
	assert_int_equal(symlink("../keep", link), 0);
	dir_remove(tree);
	assert_false(file_exists(tree));
	assert_true(file_exists(keep));
}

static void boot_put(const char *text)
{
	char path[AGENT_PATH_MAX];

	assert_true(path_join(path, dir, "boot.json"));
	assert_int_equal(file_write(path, str_from(text), 0600, false, NULL), SPOT_OK);
}

static void boot_json_is_read(void **state)
{
	struct boot b = { 0 };

	(void)state;
	boot_put("{\"url\":\"https://host:1/"
		 "\",\"token\":\"t0ken\",\"provider\":\"aws\",\"install\":\"i\","
		 "\"node\":\"n7\",\"ca_pem\":null,\"unknown\":1}");
	assert_int_equal(boot_read(dir, &b, NULL), SPOT_OK);
	assert_string_equal(b.url, "https://host:1");
	assert_string_equal(b.node, "n7");
	assert_null(b.ca_pem);
	assert_true(secret_equal(&b.token, "t0ken", 5));
	assert_int_equal(b.orphan_us, 900 * SPOT_US_PER_S);
	boot_fini(&b);
}

static void a_bad_boot_json_says_what_is_wrong(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = { { "{\"token\":\"t\"}", "url" }, { "{\"url\":\"http://h\"}", "token" },
		{ "{\"url\":\"ftp://h\",\"token\":\"t\"}", "http://" },
		{ "{\"url\":7,\"token\":\"t\"}", "url" },
		{ "{\"url\":\"http://h\",\"token\":\"t\",\"orphan_timeout_s\":0}",
		    "orphan_timeout_s" },
		{ "{\"url\":\"http://h\",\"token\":\"t\",\"ca_pem\":3}", "ca_pem" },
		{ "[]", "object" }, { "{", "JSON" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct boot b = { 0 };
		struct spot_err err = { 0 };

		boot_put(cases[i].text);
		assert_int_not_equal(boot_read(dir, &b, &err), SPOT_OK);
		assert_non_null(strstr(err.text, cases[i].says));
		assert_null(b.url);
	}
}

static void on_signal(int signo)
{
	(void)signo;
}

static void processes_are_known_by_start_time_and_handlers(void **state)
{
	(void)state;
	assert_int_not_equal(proc_start_time(getpid()), 0);
	assert_int_equal(proc_start_time(getpid()), proc_start_time(getpid()));
	assert_int_equal(proc_start_time(0x3fffffff), 0);
	assert_false(proc_catches(getpid(), SIGUSR2));
	assert_ptr_equal(signal(SIGUSR2, on_signal), SIG_DFL);
	assert_true(proc_catches(getpid(), SIGUSR2));
	assert_int_equal(signal_parse("USR1"), SIGUSR1);
	assert_int_equal(signal_parse("SIGTERM"), SIGTERM);
	assert_int_equal(signal_parse("usr1"), 0);
	assert_int_equal(signal_parse(""), 0);
}

static void an_unreadable_file_is_not_gone(void **state)
{
	struct rlimit had, none = { 0, 0 };
	uint64_t start = proc_start_time(getpid()), blind;
	bool gone;

	(void)state;
	assert_false(proc_is_gone(getpid(), 0));
	assert_false(proc_is_gone(getpid(), start));
	assert_true(proc_is_gone(getpid(), start + 1));
	assert_true(proc_is_gone(0x3fffffff, 0));
	assert_true(proc_is_gone(0, 0));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
	none.rlim_max = had.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	blind = proc_start_time(getpid());
	gone = proc_is_gone(getpid(), start);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
	assert_int_equal(blind, 0);
	assert_false(gone);
}

static void a_home_that_the_environment_lacks_is_the_users(void **state)
{
	const struct passwd *pw = getpwuid(getuid());
	const char *had = getenv("HOME"), *users = pw != NULL ? pw->pw_dir : "/";
	char keep[AGENT_PATH_MAX];

	(void)state;
	assert_true(str_copy(keep, sizeof(keep), had != NULL ? had : ""));
	assert_int_equal(setenv("HOME", "/some/where", 1), 0);
	assert_string_equal(home_dir(), "/some/where");
	assert_int_equal(setenv("HOME", "", 1), 0);
	assert_string_equal(home_dir(), users);
	assert_int_equal(unsetenv("HOME"), 0);
	assert_string_equal(home_dir(), users);
	assert_int_equal(had != NULL ? setenv("HOME", keep, 1) : 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_stay_inside),
		cmocka_unit_test(an_unreadable_file_is_not_gone),
		cmocka_unit_test_setup_teardown(a_write_replaces_the_whole_and_keeps_its_mode,
		    dir_new, dir_end),
		cmocka_unit_test_setup_teardown(a_file_over_its_limit_is_refused, dir_new, dir_end),
		cmocka_unit_test_setup_teardown(removing_a_directory_does_not_follow_links, dir_new,
		    dir_end),
		cmocka_unit_test_setup_teardown(boot_json_is_read, dir_new, dir_end),
		cmocka_unit_test_setup_teardown(a_bad_boot_json_says_what_is_wrong, dir_new,
		    dir_end),
		cmocka_unit_test(a_home_that_the_environment_lacks_is_the_users),
		cmocka_unit_test(processes_are_known_by_start_time_and_handlers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
