/* The table of clouds and what is done for each of its rows. */
#include "base/base.h"
#include "cloudsim/sim/clouds.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/azure/azure.h"
#include "cloudsim/lambda/lambda.h"
#include "cloudsim/s3/s3.h"
#include "base/err.h"
#include "base/text/str.h"

static const struct cloud_ops none = { .name = "?", .notice_s = 120 };
static const struct cloud_ops aws_cloud = { .name = "aws",
	.notice_s = 120,
	.imds = aws_imds,
	.env = aws_env,
	.event = aws_event,
	.inst_free = aws_inst_free,
	.left = s3_left,
	.post = aws_post };
static const struct cloud_ops lambda_cloud = { .name = "lambda",
	.notice_s = 120,
	.bills_from_launch = true,
	.event = lambda_event,
	.inst_free = lambda_inst_free };

static const struct cloud_ops *const clouds[CLOUD_COUNT] = {
	[CLOUD_NONE] = &none,
	[CLOUD_AWS] = &aws_cloud,
	[CLOUD_LAMBDA] = &lambda_cloud,
	[CLOUD_GCP] = &gcp_cloud,
	[CLOUD_COREWEAVE] = &coreweave_cloud,
	[CLOUD_AZURE] = &azure_cloud,
};

const struct cloud_ops *cloud_ops(enum cloud c)
{
	return c > CLOUD_NONE && c < CLOUD_COUNT && clouds[c] ? clouds[c] : &none;
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

static bool port_open(struct sim *s, enum cloud c, struct spot_err *err)
{
	struct httpd_conf conf = { .address = "127.0.0.1",
		.ctx = &s->ports[c],
		.url_max = 16384,
		.handle = front_handle,
		.body_max = front_body_max,
		.queued_max = (size_t)256 << 20 };

	s->ports[c].sim = s;
	s->ports[c].cloud = c;
	if (cloud_ops(c)->port && !cloud_ops(c)->port(s, &conf, err)) {
		return false;
	}
	return httpd_new(s->loop, &conf, &s->ports[c].http, err) == SPOT_OK;
}

bool clouds_open(struct sim *s, struct spot_err *err)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		if (cloud_ops(c)->serve && !port_open(s, c, err)) {
			return false;
		}
	}
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		if (cloud_ops(c)->ready && !cloud_ops(c)->ready(s, err)) {
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

/* ---- what is told ---------------------------------------------------------------------------- */

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

/* The cloud of "/gcp/config"; *ret_what is "config". */
static const struct cloud_ops *addressed(const char *path, const char **ret_what)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		const struct cloud_ops *o = cloud_ops(c);
		size_t n = strlen(o->name);

		if (path[0] == '/' && str_prefix(path + 1, o->name) && path[1 + n] == '/') {
			*ret_what = path + 2 + n;
			return o;
		}
	}
	return NULL;
}

json_t *clouds_post(struct sim *s, const char *path, const json_t *doc, struct arena *a,
    struct spot_err *err)
{
	const char *what = NULL;
	const struct cloud_ops *o = addressed(path, &what);
	json_t *out;

	if (!o || !o->post) {
		err_set(err, SPOT_NOT_FOUND, "no such control call: POST %s", path);
		return NULL;
	}
	out = o->post(s, what, doc, a, err);
	if (!out && err->rc == SPOT_OK) {
		err_set(err, SPOT_NOT_FOUND, "no such control call: POST %s", path);
	}
	return out;
}

json_t *clouds_get(struct sim *s, const char *path, struct httpd_req *r)
{
	const char *what = NULL;
	const struct cloud_ops *o = addressed(path, &what);

	return o && o->get ? o->get(s, what, r) : NULL;
}
