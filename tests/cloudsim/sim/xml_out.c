/* Writing XML. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"

void x_raw(struct sbuf *b, const char *text)
{
	for (; text && *text; text++) {
		switch (*text) {
		case '&':
			sbuf_puts(b, "&amp;");
			break;
		case '<':
			sbuf_puts(b, "&lt;");
			break;
		case '>':
			sbuf_puts(b, "&gt;");
			break;
		case '"':
			sbuf_puts(b, "&quot;");
			break;
		case '\r':
			sbuf_puts(b, "&#13;");
			break;
		default:
			sbuf_putc(b, *text);
		}
	}
}

void x_open(struct sbuf *b, const char *tag)
{
	sbuf_printf(b, "<%s>", tag);
}

void x_close(struct sbuf *b, const char *tag)
{
	sbuf_printf(b, "</%s>", tag);
}

void x_text(struct sbuf *b, const char *tag, const char *text)
{
	if (!text) {
		return;
	}
	x_open(b, tag);
	x_raw(b, text);
	x_close(b, tag);
}

void x_int(struct sbuf *b, const char *tag, int64_t v)
{
	sbuf_printf(b, "<%s>%" PRId64 "</%s>", tag, v, tag);
}

void x_bool(struct sbuf *b, const char *tag, bool v)
{
	sbuf_printf(b, "<%s>%s</%s>", tag, v ? "true" : "false", tag);
}
