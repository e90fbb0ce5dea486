/* Keeps secrets out of logs and errors. "[redacted]" replaces registered values of 8 bytes and
 * more, and the values of names that redact_name() lists. */
#ifndef BASE_REDACT_H
#define BASE_REDACT_H

#include "base/base.h"
#include "base/arena.h"

void redact_add(const char *value, size_t n); /* copies; counts each registration */
void redact_remove(const char *value, size_t n); /* undoes one redact_add */
/* Reports whether the value of this header, JSON field, query key or variable is secret. */
bool redact_name(const char *name);
/* Replaces registered values in place and updates *len. Never grows the text: stars cover a value
 * that is shorter than "[redacted]". */
void redact_text(char *text, size_t *len);
/* Makes a vendor's words (NULL: none) safe for an error, in a. Replaces registered values, turns
 * control characters into blanks and drops blanks at the end. Cuts at bytes_max bytes, between
 * UTF-8 characters. */
const char *redact_words(struct arena *a, const char *words, size_t bytes_max);
/* Copies url, with user name, password, secret query values and registered values replaced. */
void redact_url(const char *url, char *dst, size_t dst_size);

#endif
