/*
 * Documents of the database, as clients see them. Keys carry marks, which become one or two
 * members:
 *
 * - "created@" is a time in microseconds: created_at in RFC 3339; a bare "@" becomes at
 * - "observed@age" is a time: observed_at, and age_s in whole seconds, at least 0
 * - "price$" is money: price_micros and price_usd
 *
 * Values of marks are integers or null. A time that is neither becomes null.
 */
#ifndef BASE_JSON_MARKS_H
#define BASE_JSON_MARKS_H

#include "base/base.h"
#include "base/text/sbuf.h"

/* Writes a valid JSON text without blanks, and with its marks resolved at every depth. Reals keep
 * 15 significant digits. Text that is not JSON gives text that is not JSON. */
void json_marks_put(struct sbuf *b, const char *text, size_t n, int64_t now_us);

#endif
