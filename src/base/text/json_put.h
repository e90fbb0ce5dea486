/*
 * JSON written into a buffer, value by value. The forms are those of json_text(): a reader cannot
 * tell which of the two wrote a document. The caller writes brackets, and commas between items.
 */
#ifndef BASE_JSON_PUT_H
#define BASE_JSON_PUT_H

#include "base/base.h"
#include "base/text/sbuf.h"

/* Takes UTF-8 without NUL; adds quotes and escapes. */
void json_put_str(struct sbuf *b, const char *p, size_t n);
void json_put_i64(struct sbuf *b, int64_t v);
void json_put_f64(struct sbuf *b, double v); /* 15 significant digits; null if not finite */
/* v / 10^places, exactly. A whole number gets ".0" if `point` is set: it then reads as a real. */
void json_put_fixed(struct sbuf *b, int64_t v, int places, bool point);
void json_put_usd(struct sbuf *b, int64_t micros); /* dollars */
void json_put_time(struct sbuf *b, int64_t us); /* RFC 3339 in quotes; null for 0 */
void json_put_bool(struct sbuf *b, bool v);
void json_put_null(struct sbuf *b);

/* Members of an object. Each writes its comma, unless it comes right after the opening brace. Names
 * need no escapes. */
void json_add_name(struct sbuf *b, const char *name);
void json_add_i64(struct sbuf *b, const char *name, int64_t v);
void json_add_f64(struct sbuf *b, const char *name, double v);
void json_add_bool(struct sbuf *b, const char *name, bool v);
void json_add_null(struct sbuf *b, const char *name);
void json_add_text(struct sbuf *b, const char *name, const char *text); /* NULL: null */
/* "p44": the letter and the number. */
void json_add_id(struct sbuf *b, const char *name, char letter, int64_t id);
/* The two members of a mark `NAME$` (json_marks.h). */
void json_add_money(struct sbuf *b, const char *name, int64_t micros);

#endif
