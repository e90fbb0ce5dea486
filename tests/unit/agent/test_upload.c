/* Uploads in pieces: the next bytes to read, hash and send; the texts of the two stores. */
#include "base/base.h"
#include "unit.h"

#include "agent/ckpt/upload.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <sys/mman.h>
#include <unistd.h>

#define SIZE (2 * UPLOAD_PIECE_BYTES + 1000)

struct world {
	struct upload u;
	struct scan_file file;
	char sha[1][65];
	char *bytes;
	int fd;
};

static int world_open(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->bytes = malloc((size_t)SIZE);
	for (int64_t i = 0; i < SIZE; i++) {
		w->bytes[i] = (char)(i * 7 + i / 4099);
	}
	sha256_hex(w->bytes, (size_t)SIZE, w->sha[0]);
	w->fd = memfd_create("chunk", MFD_CLOEXEC);
	assert_int_equal(write(w->fd, w->bytes, (size_t)SIZE), SIZE);
	w->file = (struct scan_file){ .bytes = SIZE, .chunks_n = 1, .sha256 = w->sha };
	w->u = (struct upload){ .file = &w->file, .bytes = SIZE, .fd = -1 };
	*state = w;
	return 0;
}

static int world_close(void **state)
{
	struct world *w = *state;

	upload_piece_reset(&w->u);
	close(w->fd);
	free(w->bytes);
	free(w);
	return 0;
}

static void piece_is(struct world *w, int64_t offset, int64_t bytes)
{
	struct spot_err err = { 0 };
	struct str s;

	assert_int_equal(upload_read(&w->u, w->fd, offset, &err), SPOT_OK);
	s = upload_piece_from(&w->u, offset);
	assert_int_equal(s.n, bytes);
	assert_memory_equal(s.p, w->bytes + offset, (size_t)bytes);
}

static void pieces_follow_each_other_to_the_end(void **state)
{
	struct world *w = *state;

	piece_is(w, 0, UPLOAD_PIECE_BYTES);
	piece_is(w, UPLOAD_PIECE_BYTES, UPLOAD_PIECE_BYTES);
	piece_is(w, 2 * UPLOAD_PIECE_BYTES, 1000);
}

static void bytes_that_the_store_did_not_keep_come_from_memory(void **state)
{
	struct world *w = *state;

	piece_is(w, 0, UPLOAD_PIECE_BYTES);
	/* the same bytes, whatever happened to the file */
	assert_int_equal(ftruncate(w->fd, 0), 0);
	piece_is(w, 262144, UPLOAD_PIECE_BYTES - 262144);
	piece_is(w, 0, UPLOAD_PIECE_BYTES);
}

static void an_offset_outside_of_what_was_sent_cannot_be_continued(void **state)
{
	struct world *w = *state;
	struct spot_err err = { 0 };

	piece_is(w, 0, UPLOAD_PIECE_BYTES);
	piece_is(w, UPLOAD_PIECE_BYTES, UPLOAD_PIECE_BYTES);
	assert_int_equal(upload_read(&w->u, w->fd, 262144, &err), SPOT_INVALID);
	assert_int_equal(upload_read(&w->u, w->fd, SIZE - 1, &err), SPOT_INVALID);
	assert_int_equal(upload_read(&w->u, w->fd, SIZE, &err), SPOT_INVALID);
	upload_piece_reset(&w->u);
	piece_is(w, 0, UPLOAD_PIECE_BYTES);
}

static void the_end_is_not_given_out_if_the_hash_is_wrong(void **state)
{
	struct world *w = *state;
	struct spot_err err = { 0 };

	piece_is(w, 0, UPLOAD_PIECE_BYTES);
	assert_int_equal(pwrite(w->fd, "other", 5, UPLOAD_PIECE_BYTES + 9), 5);
	assert_int_equal(upload_read(&w->u, w->fd, UPLOAD_PIECE_BYTES, &err), SPOT_OK);
	assert_int_equal(upload_read(&w->u, w->fd, 2 * UPLOAD_PIECE_BYTES, &err), SPOT_CONFLICT);
	assert_non_null(strstr(err.text, "sha256"));
}

static void a_file_that_became_shorter_is_another_file(void **state)
{
	struct world *w = *state;
	struct spot_err err = { 0 };

	assert_int_equal(ftruncate(w->fd, 1000), 0);
	assert_int_equal(upload_read(&w->u, w->fd, 0, &err), SPOT_CONFLICT);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void a_range_tells_the_next_byte(void **state)
{
	static const char *const bad[] = { "bytes=1-5", "bytes=0-", "bytes=0--1", "0-5",
		"bytes=0-5/10", "bytes=0-x", "bytes=0-9223372036854775807" };
	int64_t next = -1;

	(void)state;
	assert_true(upload_range("bytes=0-262143", &next));
	assert_int_equal(next, 262144);
	assert_true(upload_range("", &next)); /* 308 without a Range: nothing is stored */
	assert_int_equal(next, 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_false(upload_range(bad[i], &next));
	}
}

static void block_ids_are_equally_long_plain_and_of_the_bytes(void **state)
{
	static const char plain[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	char a[UPLOAD_BLOCK_ID_MAX], b[UPLOAD_BLOCK_ID_MAX];

	(void)state;
	for (size_t i = 0; i < 3000; i++) {
		char text[32];

		(void)snprintf(text, sizeof(text), "bytes %zu", i);
		upload_block_id(i, str_from(text), a);
		assert_int_equal(strlen(a), 64);
		assert_int_equal(strspn(a, plain), 64);
	}
	upload_block_id(1, STR_LIT("x"), a);
	upload_block_id(1, STR_LIT("x"), b);
	assert_string_equal(a, b);
	upload_block_id(2, STR_LIT("x"), b);
	assert_string_not_equal(a, b);
	upload_block_id(1, STR_LIT("y"), b);
	assert_string_not_equal(a, b);
	/* base64 of "0000001-2d711642b726b04401627ca9fbac32f5c8530fb1" */
	assert_string_equal(a, "MDAwMDAwMS0yZDcxMTY0MmI3MjZiMDQ0MDE2MjdjYTlmYmFjMzJmNWM4NTMwZmIx");
}

static void a_block_is_listed_by_its_whole_name(void **state)
{
	const char *list =
	    "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList><UncommittedBlocks>"
	    "<Block><Name>QUJD</Name><Size>3</Size></Block></UncommittedBlocks></BlockList>";

	(void)state;
	assert_true(upload_block_is_listed(list, "QUJD"));
	assert_false(upload_block_is_listed(list, "QUJ"));
	assert_false(upload_block_is_listed(list, "UJD"));
	assert_false(upload_block_is_listed("", "QUJD"));
}

static void a_query_is_added_to_a_url(void **state)
{
	char *url = upload_url("https://a.blob/c/b?sig=x", "comp=block");

	(void)state;
	assert_string_equal(url, "https://a.blob/c/b?sig=x&comp=block");
	free(url);
	url = upload_url("https://a.blob/c/b", "comp=block");
	assert_string_equal(url, "https://a.blob/c/b?comp=block");
	free(url);
}

static bool headers_read(const char *text, char **ret)
{
	json_t *o = json_loads(text, JSON_DECODE_ANY, NULL);
	bool ok;

	assert_non_null(o);
	ok = http_headers_read(o, ret, 2);
	json_decref(o);
	return ok;
}

static void headers_become_lines_and_odd_ones_are_refused(void **state)
{
	static const char *const bad[] = { "[]", "7", "{\"a\":7}", "{\"\":\"x\"}",
		"{\"a b\":\"x\"}", "{\"a:\":\"x\"}", "{\"a\":\"x\\r\\nHost: y\"}",
		"{\"a\\n\":\"x\"}", "{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\"}" };
	char *lines[3];

	(void)state;
	assert_true(headers_read("{\"x-goog-resumable\":\"start\",\"empty\":\"\"}", lines));
	assert_string_equal(lines[0], "x-goog-resumable: start");
	assert_string_equal(lines[1], "empty;");
	assert_null(lines[2]);
	free(lines[0]);
	free(lines[1]);
	assert_true(headers_read("null", lines));
	assert_null(lines[0]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_false(headers_read(bad[i], lines));
		for (size_t k = 0; lines[k] != NULL; k++) {
			free(lines[k]);
		}
	}
	assert_true(http_headers_read(NULL, lines, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pieces_follow_each_other_to_the_end, world_open,
		    world_close),
		cmocka_unit_test_setup_teardown(bytes_that_the_store_did_not_keep_come_from_memory,
		    world_open, world_close),
		cmocka_unit_test_setup_teardown(
		    an_offset_outside_of_what_was_sent_cannot_be_continued, world_open,
		    world_close),
		cmocka_unit_test_setup_teardown(the_end_is_not_given_out_if_the_hash_is_wrong,
		    world_open, world_close),
		cmocka_unit_test_setup_teardown(a_file_that_became_shorter_is_another_file,
		    world_open, world_close),
		cmocka_unit_test(a_range_tells_the_next_byte),
		cmocka_unit_test(block_ids_are_equally_long_plain_and_of_the_bytes),
		cmocka_unit_test(a_block_is_listed_by_its_whole_name),
		cmocka_unit_test(a_query_is_added_to_a_url),
		cmocka_unit_test(headers_become_lines_and_odd_ones_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
