/* Calls the hooks of every cloud in cloud_table. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

static const struct cloud_ops none = { .name = "?", .notice_s = 120 };

const struct cloud_ops *cloud_ops(enum cloud c)
{
	return c > CLOUD_NONE && c < CLOUD_COUNT && cloud_table[c] ? cloud_table[c] : &none;
}

enum cloud cloud_parse(const char *name)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		if (str_same(cloud_ops(c)->name, name)) {
			return c;
		}
	}
	return CLOUD_NONE;
}

const char *cloud_name(enum cloud c)
{
	return cloud_ops(c)->name;
}

int cloud_port(const struct sim *s, enum cloud c)
{
	return s->ports[c].http ? httpd_port(s->ports[c].http) : 0;
}

/* ---- start and end --------------------------------------------------------------------------- */

void clouds_init(struct sim *s)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		if (cloud_ops(c)->init) {
			cloud_ops(c)->init(s);
		}
	}
}

bool clouds_load(struct sim *s, struct spot_err *err)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		const struct cloud_ops *o = cloud_ops(c);

		if (o->load && !o->load(s, err)) {
			err_prefix(err, "%s", o->name);
			return false;
		}
	}
	return true;
}

void clouds_close(struct sim *s)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		httpd_free(s->ports[c].http);
		s->ports[c].http = NULL;
		if (cloud_ops(c)->close) {
			cloud_ops(c)->close(s);
		}
	}
}

void clouds_stop(struct sim *s)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		if (cloud_ops(c)->stop) {
			cloud_ops(c)->stop(s);
		}
	}
}

bool clouds_busy(const struct sim *s)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		if (cloud_ops(c)->busy && cloud_ops(c)->busy(s)) {
			return true;
		}
	}
	return false;
}

void clouds_free(struct sim *s)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		if (cloud_ops(c)->free) {
			cloud_ops(c)->free(s);
		}
	}
}

/* ---- announcements --------------------------------------------------------------------------- */

void clouds_announce(const struct sim *s, json_t *urls, json_t *credentials)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		if (cloud_ops(c)->announce) {
			cloud_ops(c)->announce(s, urls, credentials);
		}
	}
}

void clouds_left(const struct sim *s, json_t *left)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		if (cloud_ops(c)->left) {
			cloud_ops(c)->left(s, left);
		}
	}
}

enum cloud cloud_shared(const char *path)
{
	enum cloud best = CLOUD_NONE;

	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		const char *prefix = cloud_ops(c)->shared_prefix;

		if (prefix && str_prefix(path, prefix) &&
		    (best == CLOUD_NONE ||
			strlen(prefix) > strlen(cloud_ops(best)->shared_prefix))) {
			best = c;
		}
	}
	return best;
}

const struct control_call *clouds_call(const char *method, const char *path)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		const struct control_call *call = cloud_ops(c)->calls;

		for (; call && call->path; call++) {
			if (str_same(call->method, method) && str_same(call->path, path)) {
				return call;
			}
		}
	}
	return NULL;
}
