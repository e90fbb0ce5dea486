/*
 * Fills struct spot_err. It redacts registered secrets before it cuts the text to size, so that
 * neither a secret nor the head of one gets into an error.
 */
#include "base/base.h"
#include "base/err.h"
#include "base/crypto/crypto.h"

#include <stdarg.h>

/* Copies text into err->text, never ending inside a UTF-8 sequence (JSON writers refuse those). */
static void text_copy(struct spot_err *err, const char *text, size_t n)
{
	if (n >= sizeof(err->text)) {
		n = sizeof(err->text) - 1;
		while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) {
			n--;
		}
	}
	memcpy(err->text, text, n);
	err->text[n] = '\0';
}

static void text_format(struct spot_err *err, const char *fmt, va_list ap) PRINTF(2, 0);
static void text_format(struct spot_err *err, const char *fmt, va_list ap)
{
	char *text = NULL;
	int n = vasprintf(&text, fmt, ap);

	if (n < 0) {
		abort();
	}
	size_t len = (size_t)n;
	redact_text(text, &len);
	text_copy(err, text, len);
	free(text);
}

enum spot_rc err_set(struct spot_err *err, enum spot_rc rc, const char *fmt, ...)
{
	va_list ap;

	if (err == NULL) {
		return rc;
	}
	va_start(ap, fmt);
	text_format(err, fmt, ap);
	va_end(ap);
	err->rc = rc;
	err->retry_after_us = 0;
	err->code[0] = '\0';
	err->scope = SPOT_SCOPE_NONE;
	return rc;
}

enum spot_rc err_prefix(struct spot_err *err, const char *fmt, ...)
{
	va_list ap;
	char *old;

	if (err == NULL) {
		return SPOT_INTERNAL;
	}
	old = strdup(err->text);
	if (old == NULL) {
		abort();
	}
	va_start(ap, fmt);
	text_format(err, fmt, ap);
	va_end(ap);
	size_t n = strlen(err->text);
	size_t len = n + 2 + strlen(old);
	char *both = malloc(len + 1);
	if (both == NULL) {
		abort();
	}
	/* The last piece brings the NUL. NOLINTBEGIN(bugprone-not-null-terminated-result) */
	memcpy(both, err->text, n);
	memcpy(both + n, ": ", 2);
	memcpy(both + n + 2, old, len - n - 1);
	/* NOLINTEND(bugprone-not-null-terminated-result) */
	text_copy(err, both, len);
	free(both);
	free(old);
	return err->rc;
}
