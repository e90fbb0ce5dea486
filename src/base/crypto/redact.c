/*
 * Registry of values that must never be printed. It copies and counts values, and wipes them on
 * removal. Longer values come first, so that a secret that contains another is replaced whole. It
 * also holds the percent-encoded form of each value, for URLs. A lock guards the list, since every
 * thread logs.
 */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <ctype.h>
#include <pthread.h>

#define VALUE_MIN 8 /* shorter values would blank out ordinary words */
static const char mask[] = "[redacted]";

struct entry {
	char *p;
	size_t n;
	int count;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the three below */
static struct entry *entries;
static size_t entries_n, entries_cap;

static struct entry *entry_find(const char *value, size_t n)
{
	for (size_t i = 0; i < entries_n; i++) {
		if (entries[i].n == n && memcmp(entries[i].p, value, n) == 0) {
			return &entries[i];
		}
	}
	return NULL;
}

static void entry_add(const char *value, size_t n)
{
	struct entry *e = entry_find(value, n);

	if (e != NULL) {
		e->count++;
		return;
	}
	if (entries_n == entries_cap) {
		entries_cap = MAX(entries_cap * 2, (size_t)16);
		entries = reallocarray(entries, entries_cap, sizeof(*entries));
		if (entries == NULL) {
			abort();
		}
	}
	size_t at = 0;
	while (at < entries_n && entries[at].n >= n) {
		at++;
	}
	memmove(&entries[at + 1], &entries[at], (entries_n - at) * sizeof(*entries));
	entries[at] = (struct entry){ .p = malloc(n), .n = n, .count = 1 };
	if (entries[at].p == NULL) {
		abort();
	}
	memcpy(entries[at].p, value, n);
	entries_n++;
}

static void entry_remove(const char *value, size_t n)
{
	struct entry *e = entry_find(value, n);

	if (e == NULL || --e->count > 0) {
		return;
	}
	size_t at = (size_t)(e - entries);
	mem_wipe(e->p, e->n);
	free(e->p);
	entries_n--;
	memmove(e, e + 1, (entries_n - at) * sizeof(*entries));
	if (entries_n == 0) {
		free(entries);
		entries = NULL;
		entries_cap = 0;
	}
}

/* Runs fn on the value, and on its percent-encoded form if that differs. */
static void each_form(const char *value, size_t n, void (*fn)(const char *, size_t))
{
	if (value == NULL || n < VALUE_MIN) {
		return;
	}
	fn(value, n);
	if (memchr(value, '\0', n) != NULL || n > 65536) {
		return;
	}
	struct arena *a = arena_new(0);
	char *plain = arena_strndup(a, value, n);
	char *encoded = url_encode(a, plain, false);
	size_t encoded_n = strlen(encoded);
	if (encoded_n != n) {
		fn(encoded, encoded_n);
	}
	mem_wipe(plain, n);
	mem_wipe(encoded, encoded_n);
	arena_free(a);
}

void redact_add(const char *value, size_t n)
{
	pthread_mutex_lock(&lock);
	each_form(value, n, entry_add);
	pthread_mutex_unlock(&lock);
}

void redact_remove(const char *value, size_t n)
{
	pthread_mutex_lock(&lock);
	each_form(value, n, entry_remove);
	pthread_mutex_unlock(&lock);
}

/* Comparison ignores case, '-' and '_': X-Api-Key, x_api_key and xApiKey are one name. */
static const char *const secret_names[] = {
	"authorization",
	"proxyauthorization",
	"cookie",
	"setcookie",
	"signature",
	"xamzsignature",
	"xamzcredential",
	"sig",
	"dsn",
	"token",
	"session",
	"bearer",
	"userdata",
	"credentials",
};
static const char *const secret_parts[] = {
	"secret",
	"password",
	"passwd",
	"passphrase",
	"apikey",
	"privatekey",
	"accesskey",
};
/* Names that end in "token" but are no secrets: paging, and our idempotency tokens. */
static const char *const open_tokens[] = {
	"nexttoken",
	"clienttoken",
	"launchtoken",
	"idempotencytoken",
	"pagetoken",
	"nextpagetoken",
	"continuationtoken",
};

static bool name_in(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(name, list[i]) == 0) {
			return true;
		}
	}
	return false;
}

static bool name_is_secret(const char *name, size_t len)
{
	char flat[64];
	size_t n = 0;

	for (size_t i = 0; i < len && n < sizeof(flat) - 1; i++) {
		if (name[i] != '-' && name[i] != '_') {
			flat[n++] = (char)tolower((unsigned char)name[i]);
		}
	}
	flat[n] = '\0';
	if (name_in(flat, secret_names, ARRAY_LEN(secret_names))) {
		return true;
	}
	for (size_t i = 0; i < ARRAY_LEN(secret_parts); i++) {
		if (strstr(flat, secret_parts[i]) != NULL) {
			return true;
		}
	}
	return str_suffix(flat, "token") && !name_in(flat, open_tokens, ARRAY_LEN(open_tokens));
}

bool redact_name(const char *name)
{
	return name != NULL && name_is_secret(name, strlen(name));
}

static void replace_all(char *text, size_t *len, const struct entry *e)
{
	char *from = text;

	for (;;) {
		char *hit = memmem(from, *len - (size_t)(from - text), e->p, e->n);

		if (hit == NULL) {
			return;
		}
		if (e->n < sizeof(mask) - 1) {
			memset(hit, '*', e->n);
			from = hit + e->n;
			continue;
		}
		size_t cut = e->n - (sizeof(mask) - 1);
		size_t tail = *len - (size_t)(hit - text) - e->n;
		memcpy(hit, mask, sizeof(mask) - 1);
		from = hit + sizeof(mask) - 1;
		memmove(from, from + cut, tail);
		*len -= cut;
	}
}

void redact_text(char *text, size_t *len)
{
	size_t was = *len;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < entries_n; i++) {
		replace_all(text, len, &entries[i]);
	}
	pthread_mutex_unlock(&lock);
	if (*len < was) {
		text[*len] = '\0';
	}
}

const char *redact_words(struct arena *a, const char *words, size_t bytes_max)
{
	char *text = arena_strdup(a, words != NULL ? words : "");
	size_t n = strlen(text);

	redact_text(text, &n);
	text[n] = '\0';
	if (n > bytes_max) {
		n = bytes_max;
		while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) {
			n--;
		}
	}
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) {
			text[i] = ' ';
		}
	}
	while (n > 0 && text[n - 1] == ' ') {
		n--;
	}
	text[n] = '\0';
	return text;
}

/* Appends up to n bytes to dst, as many as fit. */
static void bytes_put(char *dst, size_t dst_size, size_t *at, const char *p, size_t n)
{
	for (size_t i = 0; i < n && *at + 1 < dst_size; i++) {
		dst[(*at)++] = p[i];
	}
	dst[*at] = '\0';
}

static void put_query(char *dst, size_t dst_size, size_t *at, const char *query)
{
	while (*query != '\0') {
		size_t n = strcspn(query, "&#");
		const char *eq = memchr(query, '=', n);
		size_t name_n = eq != NULL ? (size_t)(eq - query) : n;

		if (eq != NULL && name_is_secret(query, name_n)) {
			bytes_put(dst, dst_size, at, query, name_n + 1);
			bytes_put(dst, dst_size, at, mask, sizeof(mask) - 1);
		} else {
			bytes_put(dst, dst_size, at, query, n);
		}
		query += n;
		if (*query != '\0') {
			bytes_put(dst, dst_size, at, query++, 1);
		}
	}
}

void redact_url(const char *url, char *dst, size_t dst_size)
{
	if (dst_size == 0) {
		return;
	}
	char *copy = strdup(url != NULL ? url : "");
	if (copy == NULL) {
		abort();
	}
	/* Replace registered values before cutting, which could leave the head of one. */
	size_t len = strlen(copy), at = 0;
	redact_text(copy, &len);
	dst[0] = '\0';
	size_t head = strcspn(copy, "?#");
	char *scheme = strstr(copy, "://");
	char *host = scheme != NULL && scheme < copy + head ? scheme + 3 : copy;
	size_t authority = strcspn(host, "/?#");
	char *user_end = memrchr(host, '@', authority);
	if (user_end != NULL) {
		bytes_put(dst, dst_size, &at, copy, (size_t)(host - copy));
		bytes_put(dst, dst_size, &at, mask, sizeof(mask) - 1);
		bytes_put(dst, dst_size, &at, user_end, (size_t)(copy + head - user_end));
	} else {
		bytes_put(dst, dst_size, &at, copy, head);
	}
	if (copy[head] != '\0') {
		bytes_put(dst, dst_size, &at, copy + head, 1);
		put_query(dst, dst_size, &at, copy + head + 1);
	}
	mem_wipe(copy, strlen(copy));
	free(copy);
}
