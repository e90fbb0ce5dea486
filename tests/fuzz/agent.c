/* The agent's boot file, as user data wrote it, and answers of metadata services and object
 * stores. */
#include "base/base.h"
#include "fuzz.h"
#include "agent/agent.h"
#include "agent/notice/notice_priv.h"
#include "agent/ckpt/upload.h"
#include "base/text/text.h"

#include <fcntl.h>
#include <unistd.h>

static const char *folder_path(void)
{
	static char dir[] = "/tmp/fuzz-agent-XXXXXX";
	static bool made;

	if (!made) {
		FUZZ_CHECK(mkdtemp(dir) != NULL);
		made = true;
	}
	return dir;
}

__attribute__((destructor)) static void remove_folder(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/boot.json", folder_path());
	(void)unlink(path);
	(void)rmdir(folder_path());
}

/* NUL terminated, as replies are. */
static void replies_parse(const char *text, size_t n)
{
	struct str body = { text, n };
	struct azure_event events[AZURE_EVENTS_MAX];
	struct gcp_key key = { 0 };
	char *lines[UPLOAD_HEADERS_MAX + 1];
	json_t *o = NULL;
	int64_t next = 0, at = 0;
	size_t count;

	if (notice_azure_events(body, "vm", 0, events, &count)) {
		FUZZ_CHECK(count <= AZURE_EVENTS_MAX);
		for (size_t i = 0; i < count; i++) {
			FUZZ_CHECK(events[i].id[0] != '\0' && events[i].kind <= NOTICE_MAINTENANCE);
		}
	}
	(void)!notice_aws_action(body, 0, &at);
	(void)!notice_aws_maintenance(body, &at);
	notice_gcp_answer(&key, 1, text, body);
	FUZZ_CHECK(strpbrk(key.etag, "&#?/ \r\n") == NULL && key.next_us >= 1);
	if (upload_range(text, &next)) {
		FUZZ_CHECK(next >= 0);
	}
	(void)!upload_block_is_listed(text, "id");
	if (json_parse(body, "headers", &o, NULL) == SPOT_OK) {
		(void)!http_headers_read(o, lines, UPLOAD_HEADERS_MAX);
		for (size_t i = 0; lines[i] != NULL; i++) {
			FUZZ_CHECK(strpbrk(lines[i], "\r\n") == NULL);
			free(lines[i]);
		}
	}
	json_decref(o);
}

int fuzz_one(const uint8_t *p, size_t n)
{
	struct boot b = { 0 };
	struct spot_err err = { 0 };
	enum spot_rc rc;
	char path[64];
	char *text;
	int fd;

	text = malloc(n + 1);
	FUZZ_CHECK(text != NULL);
	memcpy(text, p, n);
	text[n] = '\0';
	replies_parse(text, n);
	free(text);
	snprintf(path, sizeof(path), "%s/boot.json", folder_path());
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
	close(fd);
	rc = boot_read(folder_path(), &b, &err);
	fuzz_check_err(rc, &err);
	if (rc == SPOT_OK) {
		FUZZ_CHECK(str_prefix(b.url, "http") && b.url[strlen(b.url) - 1] != '/' &&
		    b.orphan_us > 0);
		FUZZ_CHECK(b.provider != NULL && b.install != NULL && b.node != NULL);
		boot_fini(&b);
	}
	return 0;
}
