/* What must never be printed. Values registered here (8 bytes and longer) are replaced by
 * "[redacted]" in every log value; names on the list have their values hidden. */
#ifndef BASE_REDACT_H
#define BASE_REDACT_H

#include "base/base.h"

void redact_add(const char *value, size_t n);
void redact_remove(const char *value, size_t n);
bool redact_name(const char *name);      /* header, JSON field, query key or variable that is secret */
/* Replaces registered values in place (text may shrink or be starred out); len is updated. */
void redact_text(char *text, size_t *len);
/* Copies url with secret query values replaced. */
void redact_url(const char *url, char *dst, size_t dst_size);

#endif
