/* The scan of a checkpoint directory: its files, files read again, and the report. */
#include "base/base.h"
#include "unit.h"

#include "agent/sys/sys.h"
#include "agent/ckpt/ckpt.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "spot/agent.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static int dir_new(void **state)
{
	(void)state;
	memcpy(dir, "/tmp/spot scan XXXXXX", sizeof("/tmp/spot scan XXXXXX"));
	return mkdtemp(dir) == NULL;
}

static int dir_end(void **state)
{
	(void)state;
	dir_remove(dir);
	return 0;
}

static void file_put(const char *name, const char *text, int mode)
{
	char path[AGENT_PATH_MAX];

	assert_true(path_join(path, dir, name));
	assert_int_equal(dir_make_above(path, NULL), SPOT_OK);
	assert_int_equal(file_write(path, str_from(text), mode, false, NULL), SPOT_OK);
}

static void regular_files_are_listed_by_path_with_mode_and_hash(void **state)
{
	struct scan_list l = { 0 };
	char hex[SHA256_HEX], path[AGENT_PATH_MAX];

	(void)state;
	file_put("b/deep er/file", "abc", 0640);
	file_put("a", "", 0755);
	assert_true(path_join(path, dir, "link"));
	assert_int_equal(symlink("a", path), 0);
	assert_true(path_join(path, dir, "fifo"));
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(scan_dir(dir, NULL, &l, NULL), SPOT_OK);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.files[0].path, "a");
	assert_int_equal(l.files[0].mode, 0755);
	assert_int_equal(l.files[0].bytes, 0);
	assert_int_equal(l.files[0].chunks_n, 1);
	sha256_hex("", 0, hex);
	assert_string_equal(l.files[0].sha256[0], hex);
	assert_string_equal(l.files[1].path, "b/deep er/file");
	sha256_hex("abc", 3, hex);
	assert_string_equal(l.files[1].sha256[0], hex);
	assert_non_null(scan_list_find(&l, "a"));
	assert_null(scan_list_find(&l, "link"));
	scan_list_fini(&l);
}

static void a_directory_that_is_not_there_is_empty(void **state)
{
	struct scan_list l = { 0 };

	(void)state;
	assert_int_equal(scan_dir("/nonexistent/dir", NULL, &l, NULL), SPOT_OK);
	assert_int_equal(l.n, 0);
}

static void large_files_have_one_hash_per_chunk(void **state)
{
	struct scan_list l = { 0 };
	char path[AGENT_PATH_MAX];
	FILE *f;

	(void)state;
	assert_true(path_join(path, dir, "large"));
	f = fopen(path, "we");
	assert_non_null(f);
	assert_int_equal(fseeko(f, (off_t)SPOT_AGENT_CHUNK_BYTES, SEEK_SET), 0);
	assert_int_equal(fputs("tail", f) >= 0, 1);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(scan_dir(dir, NULL, &l, NULL), SPOT_OK);
	assert_int_equal(l.files[0].chunks_n, 2);
	char hex[SHA256_HEX];
	sha256_hex("tail", 4, hex);
	assert_string_equal(l.files[0].sha256[1], hex);
	scan_list_fini(&l);
}

static void an_unchanged_file_is_not_read_again_and_a_changed_one_is(void **state)
{
	struct scan_list first = { 0 }, second = { 0 };

	(void)state;
	file_put("same", "one", 0644);
	file_put("other", "two", 0644);
	assert_int_equal(scan_dir(dir, NULL, &first, NULL), SPOT_OK);
	/* A mark where the hash of an unread file comes from. */
	memset(first.files[0].sha256[0], 'f', 64);
	memset(first.files[1].sha256[0], 'f', 64);
	file_put("other", "2wo", 0644); /* same size, another inode */
	assert_int_equal(scan_dir(dir, &first, &second, NULL), SPOT_OK);
	assert_string_equal(second.files[0].path, "other");
	assert_int_not_equal(second.files[0].sha256[0][0] == 'f' &&
		second.files[0].sha256[0][1] == 'f' && second.files[0].sha256[0][2] == 'f',
	    1);
	assert_memory_equal(second.files[1].sha256[0], "ffffffff", 8);
	assert_false(scan_list_same(&first, &second));
	scan_list_fini(&first);
	scan_list_fini(&second);
}

static void a_file_that_was_written_over_in_place_is_read_again(void **state)
{
	struct scan_list first = { 0 }, second = { 0 };
	struct timespec times[2];
	struct stat was, is;
	char path[AGENT_PATH_MAX], hex[SHA256_HEX];
	int fd;

	(void)state;
	file_put("same size and inode", "one", 0644);
	assert_true(path_join(path, dir, "same size and inode"));
	assert_int_equal(stat(path, &was), 0);
	assert_int_equal(scan_dir(dir, NULL, &first, NULL), SPOT_OK);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, "two", 3), 3);
	times[0] = times[1] =
	    (struct timespec){ .tv_sec = was.st_mtim.tv_sec + 1, .tv_nsec = was.st_mtim.tv_nsec };
	/* the clock of files may stand still for so short a time */
	assert_int_equal(futimens(fd, times), 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(stat(path, &is), 0);
	assert_true(is.st_ino == was.st_ino && is.st_size == was.st_size);
	assert_int_equal(scan_dir(dir, &first, &second, NULL), SPOT_OK);
	sha256_hex("two", 3, hex);
	assert_string_equal(second.files[0].sha256[0], hex);
	scan_list_fini(&first);
	scan_list_fini(&second);
}

static void lists_compare_by_content_and_mode(void **state)
{
	struct scan_list a = { 0 }, b = { 0 };
	char path[AGENT_PATH_MAX];

	(void)state;
	file_put("f", "x", 0644);
	assert_int_equal(scan_dir(dir, NULL, &a, NULL), SPOT_OK);
	scan_list_copy(&b, &a);
	assert_true(scan_list_same(&a, &b));
	assert_true(scan_list_newest(&a) > 0);
	assert_true(path_join(path, dir, "f"));
	assert_int_equal(chmod(path, 0600), 0);
	scan_list_fini(&b);
	assert_int_equal(scan_dir(dir, NULL, &b, NULL), SPOT_OK);
	assert_false(scan_list_same(&a, &b));
	scan_list_fini(&a);
	scan_list_fini(&b);
}

static void lines_of_the_child_are_checked(void **state)
{
	static const char *const bad[] = { "", "{}",
		"{\"path\":\"a\",\"mode\":1,\"bytes\":1,\"mtime_ns\":1,"
		"\"inode\":1,\"chunks\":[]}",
		"{\"path\":\"a\",\"mode\":1,\"bytes\":1,\"mtime_ns\":1,\"inode\":1,"
		"\"chunks\":[7]}",
		"{\"error\":\"disk\",\"rc\":3}" };
	struct scan_list l = { 0 };
	bool done = false;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_not_equal(scan_line(&l, str_from(bad[i]), &done, NULL), SPOT_OK);
	}
	assert_int_equal(l.n, 0);
	assert_false(done);
	assert_int_equal(scan_line(&l, STR_LIT("{\"done\":true}"), &done, NULL), SPOT_OK);
	assert_true(done);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(regular_files_are_listed_by_path_with_mode_and_hash,
		    dir_new, dir_end),
		cmocka_unit_test(a_directory_that_is_not_there_is_empty),
		cmocka_unit_test_setup_teardown(large_files_have_one_hash_per_chunk, dir_new,
		    dir_end),
		cmocka_unit_test_setup_teardown(
		    an_unchanged_file_is_not_read_again_and_a_changed_one_is, dir_new, dir_end),
		cmocka_unit_test_setup_teardown(a_file_that_was_written_over_in_place_is_read_again,
		    dir_new, dir_end),
		cmocka_unit_test_setup_teardown(lists_compare_by_content_and_mode, dir_new,
		    dir_end),
		cmocka_unit_test(lines_of_the_child_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
