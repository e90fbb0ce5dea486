/* Calls to the daemon: the URL, JSON, and the parts of a reply that all calls share. */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

static struct http_call *daemon_send(struct agent *a, const char *path, const char *type,
    struct str body, int64_t timeout_us, void (*done)(void *agent, const struct http_reply *r))
{
	char url[2048];
	struct http_want w = { .far = HTTP_DAEMON,
		.method = "POST",
		.url = url,
		.type = type,
		.body = body,
		.timeout_us = timeout_us,
		.done = done,
		.ctx = a };
	int n = snprintf(url, sizeof(url), "%s/v1/agent/%s", a->boot.url, path);

	assert(n > 0 && n < (int)sizeof(url));
	return http_start(a->http, &w);
}

struct http_call *daemon_post(struct agent *a, const char *path, json_t *body, int64_t timeout_us,
    void (*done)(void *agent, const struct http_reply *r))
{
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	struct http_call *c;

	assert(text != NULL); /* our texts are UTF-8, and we check those from files */
	c = daemon_send(a, path, "application/json", str_from(text), timeout_us, done);
	mem_wipe(text, strlen(text));
	free(text);
	json_decref(body);
	return c;
}

struct http_call *daemon_post_bytes(struct agent *a, const char *path, struct str bytes,
    int64_t timeout_us, void (*done)(void *agent, const struct http_reply *r))
{
	return daemon_send(a, path, "application/octet-stream", bytes, timeout_us, done);
}

/* Reports whether the daemon sent the reply: its replies are JSON, and its errors have a code. An
 * ingress without a backend may answer with a 404 of its own. */
static bool reply_is_daemons(const struct daemon_reply *r)
{
	return r->status < 400 ? r->status != 200 || r->body != NULL : r->code[0] != '\0';
}

void daemon_read(struct agent *a, const struct http_reply *r, struct daemon_reply *ret)
{
	*ret = (struct daemon_reply){ .status = r->status,
		.code = "",
		.error = r->error,
		.retry_after_us = r->retry_after_us };
	if (r->status == 0) {
		a->lost = true;
		return;
	}
	if (r->body.n > 0 && json_parse(r->body, "reply", &ret->body, NULL) == SPOT_OK &&
	    json_is_object(ret->body)) {
		ret->code = json_str(ret->body, "code", "", NULL);
		if (r->status >= 300) {
			ret->error = json_str(ret->body, "detail",
			    json_str(ret->body, "title", "", NULL), NULL);
		}
	}
	ret->stale = r->status == 409 && strcmp(ret->code, "stale_epoch") == 0;
	if (r->status < 500 && !reply_is_daemons(ret)) {
		log_warn("daemon.another_answered", I64("status", r->status));
		ret->status = 0;
		ret->error = "the reply is not the daemon's";
		return;
	}
	if (r->status < 500) {
		a->contact_us = a->now_us;
		a->came_back = a->came_back || a->lost;
		a->lost = false;
	}
	if (r->status == 401 && a->enrol.at == ENROL_DONE) {
		a->enrol.at = ENROL_POST;
		a->enrol.refused = true;
	}
}
