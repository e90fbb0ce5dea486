#include "base/base.h"
#include "drive.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <strings.h>

static const char *pair_find(const char *const *pairs, const char *key)
{
	for (; pairs != NULL && pairs[0] != NULL; pairs += 2) {
		if (strcmp(pairs[0], key) == 0) {
			return pairs[1];
		}
	}
	return NULL;
}

static const char *conf_env(void *ctx, const char *name)
{
	return pair_find(((struct drive_conf *)ctx)->env, name);
}

static const char *conf_setting(void *ctx, const char *key)
{
	return pair_find(((struct drive_conf *)ctx)->settings, key);
}

static enum spot_rc open_with(const struct spot_provider_ops *ops, struct drive_conf *ctx,
    void **ret_self, struct spot_err *err)
{
	const struct spot_provider_conf conf = { .name = ops->kind,
		.env = conf_env,
		.setting = conf_setting,
		.ctx = ctx };

	return ops->open(&conf, ret_self, err);
}

enum spot_rc drive_open(const struct spot_provider_ops *ops, const char *const *env,
    const char *const *settings, struct spot_err *err)
{
	struct drive_conf ctx = { env, settings };
	void *self = NULL;
	enum spot_rc rc;

	memset(err, 0, sizeof(*err));
	rc = open_with(ops, &ctx, &self, err);
	if (rc == SPOT_OK) {
		ops->close(self);
	} else {
		assert_int_equal(rc, err->rc);
	}
	return rc;
}

static void secrets_forget(struct drive *d)
{
	for (size_t i = 0; i < d->secrets_n; i++) {
		redact_remove(d->secrets[i], strlen(d->secrets[i]));
		free(d->secrets[i]);
	}
	d->secrets_n = 0;
}

/* As io/call does: registers the secrets that the provider holds, so that no error repeats them. */
static void secrets_register(struct drive *d)
{
	const char *secrets[DRIVE_SECRETS_MAX] = { 0 };
	size_t n = d->ops->secrets(d->self, secrets, DRIVE_SECRETS_MAX);

	secrets_forget(d);
	assert_true(n <= DRIVE_SECRETS_MAX);
	for (size_t i = 0; i < n; i++) {
		char *copy = strdup(secrets[i]);

		assert_non_null(copy);
		redact_add(copy, strlen(copy));
		d->secrets[d->secrets_n++] = copy;
	}
}

void drive_init(struct drive *d, const struct spot_provider_ops *ops, const char *const *env,
    const char *const *settings)
{
	struct spot_err err = { 0 };

	memset(d, 0, sizeof(*d));
	d->ops = ops;
	d->now_us = DRIVE_NOW_US;
	d->rnd = 0x5eed;
	d->agains_max = 5;
	d->sends_max = 1000;
	d->arena = arena_new(0);
	d->conf = arena_alloc(d->arena, sizeof(*d->conf));
	*d->conf = (struct drive_conf){ env, settings };
	if (open_with(ops, d->conf, &d->self, &err) != SPOT_OK) {
		fail_msg("%s: open refused: %s", ops->kind, err.text);
	}
}

void drive_script(struct drive *d, const struct drive_try *script, size_t n)
{
	d->script = script;
	d->script_n = n;
	d->used = 0;
}

void drive_used(const struct drive *d)
{
	if (!d->lenient && !d->cycle && d->used != d->script_n) {
		fail_msg("only %zu of %zu scripted tries were used", d->used, d->script_n);
	}
}

void failed_with(const struct drive *d, enum spot_step s, enum spot_rc rc, const char *words)
{
	assert_int_equal(s, SPOT_FAIL);
	if (d->call.err.rc != rc) {
		fail_msg("rc is %s, not %s: %s", spot_rc_name(d->call.err.rc), spot_rc_name(rc),
		    d->call.err.text);
	}
	if (words != NULL && strstr(d->call.err.text, words) == NULL) {
		fail_msg("'%s' is not in: %s", words, d->call.err.text);
	}
}

void drive_fini(struct drive *d)
{
	drive_used(d);
	secrets_forget(d);
	d->ops->close(d->self);
	arena_free(d->arena);
	memset(d, 0, sizeof(*d));
}

const char *drive_request_text(struct drive *d)
{
	const struct spot_http_request *r = &d->call.out;
	struct sbuf b AUTO(sbuf);

	sbuf_init(&b, 16 << 20);
	sbuf_printf(&b, "%s %s\n", r->method, r->url);
	for (size_t i = 0; i < r->headers_n; i++) {
		sbuf_printf(&b, "%s: %s\n", r->headers[i].name, r->headers[i].value);
	}
	sbuf_putc(&b, '\n');
	sbuf_add(&b, r->body.p, r->body.n);
	sbuf_putc(&b, '\n');
	return arena_strndup(d->arena, b.p, b.n);
}

struct str drive_file(struct arena *a, const char *path)
{
	FILE *f = fopen(path, "rb");
	struct sbuf b AUTO(sbuf);
	char chunk[4096];
	size_t n;

	sbuf_init(&b, 64 << 20);
	if (f == NULL) {
		fail_msg("cannot open %s", path);
	}
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0) {
		sbuf_add(&b, chunk, n);
	}
	fclose(f);
	return arena_bytes(a, b.p, b.n);
}

/* ---- the step itself ------------------------------------------------------------------------- */

static enum spot_step step_once(struct drive *d, enum drive_verb verb, void *args)
{
	const struct spot_provider_ops *o = d->ops;
	struct spot_call *c = &d->call;

	switch (verb) {
	case DRIVE_AUTH:
		return o->auth(d->self, c);
	case DRIVE_REGIONS:
		return o->regions(d->self, c, args);
	case DRIVE_POOLS:
		return o->pools(d->self, c, args);
	case DRIVE_PRICES:
		return o->prices(d->self, c, args);
	case DRIVE_LAUNCH:
		return o->launch(d->self, c, args);
	case DRIVE_FIND:
		return o->find(d->self, c, args);
	case DRIVE_LIST:
		return o->list(d->self, c, args);
	case DRIVE_DESCRIBE:
		return o->describe(d->self, c, args);
	case DRIVE_TERMINATE:
		return o->terminate(d->self, c, args);
	case DRIVE_WHOAMI:
		return o->whoami(d->self, c, args);
	case DRIVE_SIGNALS:
		return o->signals(d->self, c, args);
	case DRIVE_QUOTAS:
		return o->quotas(d->self, c, args);
	case DRIVE_NOTICES:
		return o->notices(d->self, c, args);
	case DRIVE_LAUNCH_GANG:
		return o->launch_gang(d->self, c, args);
	case DRIVE_VERIFY:
		return o->verify(d->self, c, args);
	case DRIVE_WATCH:
		return o->watch(d->self, c, args);
	case DRIVE_CHECK:
		return o->check(d->self, c, args);
	}
	fail_msg("no such verb: %d", (int)verb);
	return SPOT_FAIL;
}

static void check_no_secret(struct drive *d)
{
	const char *secrets[DRIVE_SECRETS_MAX] = { 0 };
	size_t n = d->ops->secrets(d->self, secrets, DRIVE_SECRETS_MAX);

	assert_true(n <= DRIVE_SECRETS_MAX);
	for (size_t i = 0; i < n; i++) {
		assert_non_null(secrets[i]);
		if (strlen(secrets[i]) >= 8 &&
		    (strstr(d->call.err.text, secrets[i]) ||
			strstr(d->call.err.code, secrets[i]))) {
			fail_msg("a secret of the provider is in c->err");
		}
	}
}

/* Checks the rules for any request of any provider. */
static void check_request(struct drive *d)
{
	const struct spot_http_request *r = &d->call.out;

	assert_non_null(r->method);
	assert_non_null(r->url);
	if (strncmp(r->url, "http://", 7) != 0 && strncmp(r->url, "https://", 8) != 0) {
		fail_msg("url is not absolute: %s", r->url);
	}
	assert_true(r->headers_n <= SPOT_HTTP_HEADERS_MAX);
	for (size_t i = 0; i < r->headers_n; i++) {
		assert_non_null(r->headers[i].name);
		assert_non_null(r->headers[i].value);
		if (strpbrk(r->headers[i].name, "\r\n:") || strpbrk(r->headers[i].value, "\r\n")) {
			fail_msg("header %zu has a line break: %s", i, r->headers[i].name);
		}
	}
	if (strpbrk(r->url, " \r\n")) {
		fail_msg("url has a blank or line break: %s", r->url);
	}
	assert_true(r->body.n == 0 || r->body.p != NULL);
	if (d->ops->limits_n > 0) {
		assert_in_range(d->call.limit, 0, d->ops->limits_n - 1);
	}
	assert_true(d->call.limit_cost >= 0);
}

static const char *request_header(const struct spot_http_request *r, const char *name,
    size_t name_n)
{
	for (size_t i = 0; i < r->headers_n; i++) {
		if (strlen(r->headers[i].name) == name_n &&
		    strncasecmp(r->headers[i].name, name, name_n) == 0) {
			return r->headers[i].value;
		}
	}
	return NULL;
}

static bool body_has(const struct spot_http_request *r, const char *word)
{
	return r->body.n > 0 && memmem(r->body.p, r->body.n, word, strlen(word)) != NULL;
}

static bool request_has(const struct spot_http_request *r, const char *word)
{
	if (body_has(r, word) || strstr(r->url, word)) {
		return true;
	}
	for (size_t i = 0; i < r->headers_n; i++) {
		if (strstr(r->headers[i].value, word)) {
			return true;
		}
	}
	return false;
}

#define MISS(d, ...) \
	do { \
		print_error("try %zu: ", (d)->used); \
		print_error(__VA_ARGS__); \
		fail_msg("\n--- request\n%s---", drive_request_text(d)); \
	} while (0)

static void check_headers(struct drive *d, const struct drive_try *t)
{
	const struct spot_http_request *r = &d->call.out;

	for (size_t i = 0; i < DRIVE_WORDS && t->headers[i] != NULL; i++) {
		const char *want = t->headers[i], *colon = strchr(want, ':'), *value;

		if (want[0] == '!') {
			if (request_header(r, want + 1, strlen(want + 1)) != NULL) {
				MISS(d, "header %s must be absent", want + 1);
			}
			continue;
		}
		assert_non_null(colon);
		value = request_header(r, want, (size_t)(colon - want));
		if (value == NULL || strstr(value, colon + 1 + strspn(colon + 1, " ")) == NULL) {
			MISS(d, "header wanted: %s", want);
		}
	}
}

static bool url_matches(const char *want, const char *url)
{
	size_t n = strlen(want);

	if (n > 0 && want[n - 1] == '*') {
		return strncmp(want, url, n - 1) == 0;
	}
	return strcmp(want, url) == 0;
}

static void check_try(struct drive *d, const struct drive_try *t)
{
	const struct spot_http_request *r = &d->call.out;

	if (t->read != NULL) {
		MISS(d, "a read of %s was expected", t->read);
	}
	if (t->method != NULL && strcmp(t->method, r->method) != 0) {
		MISS(d, "method %s wanted", t->method);
	}
	if (t->url != NULL && !url_matches(t->url, r->url)) {
		MISS(d, "url %s wanted", t->url);
	}
	if (t->body != NULL &&
	    (r->body.n != strlen(t->body) || memcmp(t->body, r->body.p, r->body.n) != 0)) {
		MISS(d, "body wanted: %s", t->body);
	}
	for (size_t i = 0; i < DRIVE_WORDS && t->has[i] != NULL; i++) {
		if (!body_has(r, t->has[i])) {
			MISS(d, "body lacks: %s", t->has[i]);
		}
	}
	for (size_t i = 0; i < DRIVE_WORDS && t->hasnt[i] != NULL; i++) {
		if (request_has(r, t->hasnt[i])) {
			MISS(d, "must not be in the request: %s", t->hasnt[i]);
		}
	}
	check_headers(d, t);
	if (t->limit != NULL && strcmp(t->limit, d->ops->limits[d->call.limit].name) != 0) {
		MISS(d, "limit %s wanted, not %s", t->limit, d->ops->limits[d->call.limit].name);
	}
	if (t->limit_scope != NULL &&
	    (d->call.limit_scope == NULL || strcmp(t->limit_scope, d->call.limit_scope) != 0)) {
		MISS(d, "limit scope %s wanted", t->limit_scope);
	}
	if ((t->mutating > 0 && !d->call.mutating) || (t->mutating < 0 && d->call.mutating)) {
		MISS(d, "mutating is %d", d->call.mutating);
	}
	if (t->fresh && !r->fresh_connection) {
		MISS(d, "a connection of its own was not asked for");
	}
}

static const struct drive_try *next_try(struct drive *d)
{
	if (d->used == d->script_n && d->cycle) {
		d->used = 0;
	}
	if (d->used < d->script_n) {
		return &d->script[d->used];
	}
	if (!d->lenient) {
		MISS(d, "the script has no more tries");
	}
	return NULL;
}

static struct spot_http_response *reply_make(struct drive *d, const struct drive_try *t)
{
	struct spot_http_response *in = arena_alloc(d->arena, sizeof(*in));
	struct spot_header *h = arena_array(d->arena, DRIVE_WORDS, sizeof(*h));

	in->status = t->status;
	in->headers = h;
	for (size_t i = 0; i < DRIVE_WORDS && t->reply_headers[i] != NULL; i++) {
		const char *colon = strchr(t->reply_headers[i], ':');

		assert_non_null(colon);
		h[i].name = arena_strndup(d->arena, t->reply_headers[i],
		    (size_t)(colon - t->reply_headers[i]));
		h[i].value = arena_strdup(d->arena, colon + 1 + strspn(colon + 1, " "));
		in->headers_n = i + 1;
	}
	if (d->call.out.stream && t->lines[0] != NULL) {
		d->streaming = t;
		in->partial = true;
		in->body = arena_bytes(d->arena, t->lines[0], strlen(t->lines[0]));
		d->line = 1;
		return in;
	}
	if (t->reply != NULL) {
		in->body =
		    arena_bytes(d->arena, t->reply, t->reply_n ? t->reply_n : strlen(t->reply));
	} else {
		in->body = arena_bytes(d->arena, "", 0);
	}
	return in;
}

/* ---- playing the core ------------------------------------------------------------------------ */

/* The next part of a streamed reply; at its end the rest of it. */
static void stream_next(struct drive *d)
{
	const struct drive_try *t = d->streaming;
	struct spot_http_response *in = arena_alloc(d->arena, sizeof(*in));
	const char *text;

	assert_non_null(t);
	assert_true(d->call.in->partial);
	*in = *d->call.in;
	in->partial = d->line < DRIVE_WORDS && t->lines[d->line] != NULL;
	text = in->partial ? t->lines[d->line++] : t->reply != NULL ? t->reply : "";
	in->body = arena_bytes(d->arena, text, strlen(text));
	d->call.in = in;
}

/* Answers a SEND or READ; false: the script is used up. */
static bool try_answer(struct drive *d, enum spot_step verdict)
{
	struct spot_call *c = &d->call;
	const struct drive_try *t;

	if (verdict == SPOT_SEND) {
		check_request(d);
		if (d->dump != NULL) {
			fprintf(d->dump, "### %zu\n%s", d->used + 1, drive_request_text(d));
		}
	} else {
		assert_non_null(c->path);
		c->out.method = "READ";
		c->out.url = c->path;
	}
	t = next_try(d);
	if (t == NULL) {
		return false;
	}
	if (!d->lenient && verdict == SPOT_SEND) {
		check_try(d, t);
	}
	if (!d->lenient && verdict == SPOT_READ &&
	    (t->read == NULL || strcmp(t->read, c->path) != 0)) {
		MISS(d, "a read of %s was not expected", c->path);
	}
	d->used++;
	d->now_us += t->later_us;
	c->in = reply_make(d, t);
	return true;
}

static enum spot_step run_loop(struct drive *d, enum drive_verb verb, void *args);

static bool auth_again(struct drive *d)
{
	struct spot_call keep = d->call;
	enum spot_step s;

	d->reauths++;
	memset(&d->call, 0, sizeof(d->call));
	s = run_loop(d, DRIVE_AUTH, NULL);
	/* NONE: the script ended here (lenient), the refusal stays the error. */
	if (s == SPOT_FAIL) {
		keep.err = d->call.err;
	}
	d->call = keep;
	return s == SPOT_DONE;
}

static enum spot_step verdict_check(struct drive *d, enum spot_step s)
{
	if (s == SPOT_FAIL) {
		assert_int_not_equal(d->call.err.rc, SPOT_OK);
		assert_true(d->call.err.rc < SPOT_RC_COUNT);
		assert_string_not_equal(d->call.err.text, "");
	}
	check_no_secret(d);
	return s;
}

static enum spot_step run_loop(struct drive *d, enum drive_verb verb, void *args)
{
	struct spot_call *c = &d->call;
	int at_before = 0;
	size_t sends = 0;

	memset(c, 0, sizeof(*c));
	c->arena = d->arena;
	secrets_register(d);
	for (;;) {
		int at = c->at;
		enum spot_step s;

		c->now_us = d->now_us;
		c->rnd = d->rnd = d->rnd * UINT64_C(6364136223846793005) + 1442695040888963407u;
		s = step_once(d, verb, args);
		switch (s) {
		case SPOT_SEND:
		case SPOT_READ:
			at_before = at;
			if (sends++ >= d->sends_max) {
				fail_msg("more than %zu requests in one call", d->sends_max);
			}
			if (!try_answer(d, s)) {
				return SPOT_STEP_NONE;
			}
			continue;
		case SPOT_AGAIN:
			assert_int_not_equal(c->err.rc, SPOT_OK);
			d->waited_us += c->err.retry_after_us;
			if (d->agains++ >= d->agains_max) {
				return verdict_check(d, SPOT_FAIL);
			}
			check_no_secret(d);
			break;
		case SPOT_REAUTH:
			if (verb == DRIVE_AUTH || d->reauths > 0 || !auth_again(d)) {
				return verdict_check(d, SPOT_FAIL);
			}
			break;
		case SPOT_MORE:
			stream_next(d);
			continue;
		case SPOT_DONE:
		case SPOT_FAIL:
			return verdict_check(d, s);
		case SPOT_STEP_NONE:
			fail_msg("the step returned no verdict");
		}
		c->at = at_before;
		c->in = NULL;
	}
}

enum spot_step drive_run(struct drive *d, enum drive_verb verb, void *args)
{
	d->agains = d->reauths = 0;
	d->waited_us = 0;
	return run_loop(d, verb, args);
}
