/*
 * The ports of the metadata services: one per instance that runs a program, and one shared port
 * with all of them below /<instance-id>/. The instance's cloud answers.
 */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

void imds_text(struct httpd_req *r, int status, const char *type, const char *body)
{
	httpd_set(r, "Server", "EC2ws");
	httpd_reply(r, status, type, body, body ? strlen(body) : 0);
}

void imds_not_found(struct httpd_req *r)
{
	imds_text(r, 404, "text/html",
	    "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n<html><head><title>404 - Not Found"
	    "</title></head><body><h1>404 - Not Found</h1></body></html>\n");
}

static void own_handle(void *ctx, struct httpd_req *r)
{
	struct inst *i = ctx;

	books_request(i->sim, "imds", r->method, NULL, 0);
	cloud_ops(i->cloud)->imds(i, r, r->path);
}

void imds_handle(void *ctx, struct httpd_req *r)
{
	struct sim *s = ctx;
	const char *p = r->path + 1, *end = strchrnul(p, '/');
	struct inst *i = inst_find(s, arena_strndup(r->arena, p, (size_t)(end - p)));

	books_request(s, "imds", r->method, NULL, 0);
	if (i && cloud_ops(i->cloud)->imds) {
		cloud_ops(i->cloud)->imds(i, r, end);
	} else {
		imds_not_found(r);
	}
}

void imds_open(struct inst *i)
{
	struct httpd_conf conf = { .address = "127.0.0.1",
		.handle = own_handle,
		.ctx = i,
		.connections_max = 64 };
	struct spot_err err = { 0 };

	if (httpd_new(i->sim->loop, &conf, &i->imds_http, &err) != SPOT_OK) {
		log_error("imds.port_failed", STR("instance", i->id), STR("error", err.text));
		return;
	}
	i->imds_port = httpd_port(i->imds_http);
}

void imds_close(struct inst *i)
{
	free(i->imds_tokens);
	i->imds_tokens = NULL;
	i->imds_tokens_n = 0;
	if (i->imds_http) {
		httpd_free(i->imds_http);
	}
	i->imds_http = NULL;
}
