/* Values that must never be printed. Values registered here (8 bytes and longer) are replaced by
 * "[redacted]" in every log value; names on the list have their values hidden. */
#ifndef BASE_REDACT_H
#define BASE_REDACT_H

#include "base/base.h"
#include "base/arena.h"

void redact_add(const char *value, size_t n);
void redact_remove(const char *value, size_t n);
/* header, JSON field, query key or variable that is secret */
bool redact_name(const char *name);
/* Replaces registered values in place (text may shrink or be starred out); len is updated. */
void redact_text(char *text, size_t *len);
/* A vendor's words (NULL: none) as they may stand in an error: registered values replaced,
 * control characters as blanks, none at the end, at most bytes_max bytes and no half of a UTF-8
 * character. */
const char *redact_words(struct arena *a, const char *words, size_t bytes_max);
/* Copies url with secret query values replaced. */
void redact_url(const char *url, char *dst, size_t dst_size);

#endif
