/*
 * Opens and closes all clouds on a loop that the caller turns (main.c, or the simulation in
 * tests/sim). The caller sets s->conf, s->loop, s->rng and s->start_us first.
 */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

#include <sys/stat.h>
#include <unistd.h>

struct sim_conf sim_conf_default(void)
{
	return (struct sim_conf){ .data_dir = CLOUDSIM_DATA,
		.throttle = true,
		.scale = 1,
		.boot_us = 300000,
		.terminate_us = 300000,
		.notice_us = 120 * SPOT_US_PER_S,
		.supply = "open",
		.supply_unit = 4,
		.quota_vcpus = 100000 };
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

static bool clouds_open(struct sim *s, struct spot_err *err)
{
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		if (cloud_ops(c)->serve && !cloud_ops(c)->shared_prefix && !port_open(s, c, err)) {
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

static bool open_ports(struct sim *s, struct spot_err *err)
{
	struct httpd_conf c = { .address = "127.0.0.1", .ctx = &s->shared, .url_max = 16384 };

	s->shared.sim = s;
	c.port = s->conf.port;
	c.body_max = front_body_max;
	c.handle = front_handle;
	c.queued_max = (size_t)256 << 20;
	if (httpd_new(s->loop, &c, &s->http, err) != SPOT_OK) {
		return false;
	}
	c.ctx = s;
	c.port = s->conf.control_port;
	c.body_max = NULL;
	c.handle = control_handle;
	if (httpd_new(s->loop, &c, &s->control_http, err) != SPOT_OK) {
		return false;
	}
	c.port = s->conf.imds_port;
	c.handle = imds_handle;
	return httpd_new(s->loop, &c, &s->imds_http, err) == SPOT_OK && clouds_open(s, err);
}

static bool start_announce(struct sim *s)
{
	struct arena *a AUTO(arena) = arena_new(0);
	char path[4096];
	int port = httpd_port(s->http), control = httpd_port(s->control_http);
	json_t *doc = json_pack("{s:i, s:i, s:i, s:i, s:{s:o, s:o, s:o, s:o, s:o}, s:o}", "pid",
	    (int)getpid(), "port", port, "control_port", control, "imds_port",
	    httpd_port(s->imds_http), "urls", "aws", json_sprintf("http://127.0.0.1:%d", port),
	    "lambda", json_sprintf("http://127.0.0.1:%d/api/v1", port), "s3",
	    json_sprintf("http://127.0.0.1:%d", port), "advisor",
	    json_sprintf("http://127.0.0.1:%d/spot-advisor-data.json", port), "control",
	    json_sprintf("http://127.0.0.1:%d", control), "credentials", creds_json(s));
	const char *certificate = imds_certificate(s, a);
	char *text;

	/* For a broker's identity_certs: the certificate that signs the documents of AWS's
	 * instances here. */
	snprintf(path, sizeof(path), "%s/aws-identity.pem", s->conf.dir);
	if (!file_put(path, certificate, strlen(certificate), 0644)) {
		return false;
	}
	json_object_set_new(doc, "files", json_pack("{s:s}", "aws_identity_certs", path));
	clouds_announce(s, json_object_get(doc, "urls"), NULL);
	text = json_text(a, doc);
	json_decref(doc);
	snprintf(path, sizeof(path), "%s/cloudsim.json", s->conf.dir);
	return file_put(path, text, strlen(text), 0600);
}

static bool apply_markets(struct sim *s, struct spot_err *err)
{
	struct arena *a AUTO(arena) = arena_new(0);

	for (size_t k = 0; k < s->conf.markets_n; k++) {
		json_t *doc = NULL;
		struct str text;
		bool ok;

		if (!file_get(a, s->conf.markets[k], &text)) {
			err_set(err, SPOT_CONFIG, "cannot read %s", s->conf.markets[k]);
			return false;
		}
		if (json_parse(text, s->conf.markets[k], &doc, err) != SPOT_OK) {
			return false;
		}
		ok = control_apply(s, doc, err);
		json_decref(doc);
		if (!ok) {
			err_prefix(err, "%s", s->conf.markets[k]);
			return false;
		}
	}
	return true;
}

bool sim_open(struct sim *s, struct spot_err *err)
{
	char path[4096];

	dir_make(s->conf.dir, 0700);
	snprintf(path, sizeof(path), "%s/cloudsim.json", s->conf.dir);
	unlink(path);
	books_new(s);
	waits_new(s);
	faults_new(s);
	throttle_new(s);
	creds_new(s);
	clouds_init(s);
	if (!market_load(s, err) || !clouds_load(s, err) || !apply_markets(s, err) ||
	    !open_ports(s, err)) {
		return false;
	}
	if (start_announce(s)) {
		return true;
	}
	err_set(err, SPOT_CONFIG, "cannot write %s/cloudsim.json", s->conf.dir);
	return false;
}

void sim_close(struct sim *s)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/cloudsim.json", s->conf.dir);
	unlink(path);
	httpd_free(s->http);
	httpd_free(s->control_http);
	httpd_free(s->imds_http);
	clouds_close(s);
	loop_turn(s->loop, 0);
	waits_free(s);
	insts_free(s);
	loop_turn(s->loop, 0);
	clouds_free(s);
	creds_free(s);
	throttle_free(s);
	faults_free(s);
	books_free(s);
	market_free(s->market);
	imds_free(s);
	free(s->conf.markets);
}
