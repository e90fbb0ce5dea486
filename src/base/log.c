/*
 * Structured log. One write(2) writes a whole line, so that lines of several processes on one
 * descriptor do not mix. Redaction comes before cutting to size. A line that cannot be written is
 * lost, since there is no other place to report it.
 */
#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <errno.h>
#include <math.h>
#include <unistd.h>

#define LINE_MAX_BYTES 16384
#define VALUE_MAX_BYTES 4096

/* Threads log while one of them calls log_init(), so each member is read and written atomically. */
static struct log_conf shared = {
	.fd = STDERR_FILENO,
	.level = LOG_INFO,
	.json = false,
	.program = "",
	.clock = &clock_real,
};

void log_init(const struct log_conf *c)
{
	const struct clock *clock = c->clock != NULL ? c->clock : &clock_real;

	__atomic_store_n(&shared.fd, c->fd, __ATOMIC_RELAXED);
	__atomic_store_n(&shared.level, c->level != 0 ? c->level : LOG_INFO, __ATOMIC_RELAXED);
	__atomic_store_n(&shared.json, c->json, __ATOMIC_RELAXED);
	__atomic_store_n(&shared.program, c->program != NULL ? c->program : "", __ATOMIC_RELEASE);
	__atomic_store_n(&shared.clock, clock, __ATOMIC_RELEASE);
}

/* The configuration of one line. */
static struct log_conf log_conf_now(void)
{
	return (struct log_conf){
		.fd = __atomic_load_n(&shared.fd, __ATOMIC_RELAXED),
		.level = __atomic_load_n(&shared.level, __ATOMIC_RELAXED),
		.json = __atomic_load_n(&shared.json, __ATOMIC_RELAXED),
		.program = __atomic_load_n(&shared.program, __ATOMIC_ACQUIRE),
		.clock = __atomic_load_n(&shared.clock, __ATOMIC_ACQUIRE),
	};
}

static const char *level_name(enum log_level level)
{
	switch (level) {
	case LOG_DEBUG:
		return "debug";
	case LOG_INFO:
		return "info";
	case LOG_WARN:
		return "warn";
	case LOG_ERROR:
		return "error";
	}
	return "error";
}

/* key=value form: bare if that is unambiguous, else quoted like JSON. */
static void put_text(struct sbuf *b, const char *s, bool json)
{
	bool plain = !json && *s != '\0';

	for (const char *c = s; plain && *c != '\0'; c++) {
		plain = *c > ' ' && *c < 0x7f && *c != '"' && *c != '=' && *c != '\\';
	}
	if (plain) {
		sbuf_puts(b, s);
	} else {
		sbuf_json_str(b, s);
	}
}

static void put_str(struct sbuf *b, const struct log_pair *p, bool json)
{
	if (p->s == NULL) {
		sbuf_puts(b, json ? "null" : "-");
		return;
	}
	if (redact_name(p->key) && p->s[0] != '\0') {
		put_text(b, "[redacted]", json);
		return;
	}
	char *copy = strdup(p->s);
	if (copy == NULL) {
		abort();
	}
	size_t n = strlen(copy);
	redact_text(copy, &n);
	if (n > VALUE_MAX_BYTES) {
		memcpy(copy + VALUE_MAX_BYTES - 3, "...", 4);
	}
	put_text(b, copy, json);
	free(copy);
}

static void put_value(struct sbuf *b, const struct log_pair *p, bool json)
{
	char text[MAX(USD_TEXT_MAX, 32)];

	switch (p->type) {
	case LOG_T_STR:
		put_str(b, p, json);
		break;
	case LOG_T_I64:
		sbuf_printf(b, "%" PRId64, p->i);
		break;
	case LOG_T_F64:
		if (isfinite(p->f)) {
			sbuf_printf(b, "%.15g", p->f);
		} else {
			sbuf_puts(b, json ? "null" : "nan");
		}
		break;
	case LOG_T_BOOL:
		sbuf_puts(b, p->i ? "true" : "false");
		break;
	case LOG_T_USD:
		sbuf_puts(b, format_usd(p->i, text));
		break;
	case LOG_T_DUR:
		/* JSON is for programs: seconds. The other form is for people. */
		if (json) {
			sbuf_puts(b, format_usd(p->i, text));
		} else {
			sbuf_puts(b, format_duration(p->i, text));
		}
		break;
	case LOG_T_END:
		break;
	}
}

static void put_head(struct sbuf *b, const struct log_conf *conf, enum log_level level,
    const char *event)
{
	char when[TIME_TEXT_MAX];

	format_time(conf->clock->wall_us(conf->clock), when);
	if (conf->json) {
		sbuf_printf(b, "{\"ts\":\"%s\",\"level\":\"%s\",\"program\":", when,
		    level_name(level));
		sbuf_json_str(b, conf->program);
		sbuf_puts(b, ",\"event\":");
		sbuf_json_str(b, event);
	} else {
		sbuf_printf(b, "%s %s %s%s%s", when, level_name(level), conf->program,
		    conf->program[0] != '\0' ? " " : "", event);
	}
}

static void write_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t put = write(fd, p, n);

		if (put < 0 && errno == EINTR) {
			continue;
		}
		if (put <= 0) {
			return;
		}
		p += put;
		n -= (size_t)put;
	}
}

void log_event(enum log_level level, const char *event, const struct log_pair *pairs)
{
	struct log_conf conf;
	struct sbuf b, pair;

	if (level < __atomic_load_n(&shared.level, __ATOMIC_RELAXED)) {
		return;
	}
	int saved = errno;
	conf = log_conf_now();
	sbuf_init(&b, LINE_MAX_BYTES);
	sbuf_init(&pair, 0);
	put_head(&b, &conf, level, event);
	for (; pairs->type != LOG_T_END; pairs++) {
		sbuf_reset(&pair);
		sbuf_puts(&pair, conf.json ? "," : " ");
		if (conf.json) {
			sbuf_json_str(&pair, pairs->key);
		} else {
			sbuf_puts(&pair, pairs->key);
		}
		sbuf_putc(&pair, conf.json ? ':' : '=');
		put_value(&pair, pairs, conf.json);
		/* Add a pair whole or not at all, so that a long line stays valid JSON. */
		if (b.n + pair.n + 2 <= LINE_MAX_BYTES) {
			sbuf_add(&b, pair.p, pair.n);
		}
	}
	sbuf_puts(&b, conf.json ? "}\n" : "\n");
	write_all(conf.fd, b.p, b.n);
	sbuf_fini(&pair);
	sbuf_fini(&b);
	errno = saved;
}
