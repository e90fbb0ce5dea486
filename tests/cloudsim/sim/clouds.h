/*
 * The table of clouds: what each one brings beyond the shared market, instances and books. A cloud
 * of this table has a port of its own, so that its requests need no telling apart from others'; AWS
 * and Lambda came first, share the main port, and are told apart in front.c. Every hook may be
 * NULL.
 */
#ifndef EMULATOR_CLOUDS_H
#define EMULATOR_CLOUDS_H

#include "cloudsim/sim/books.h"

struct cloud_ops {
	const char *name; /* as in pools ("gcp/us-central1/...") and in cloudsim.json */
	/* Seconds between notice and end when /reclaim names none. */
	int notice_s;
	/* Adds regions, zones, types and pools to the market (market.h) and makes the cloud's
	 * state. */
	bool (*load)(struct sim *s, struct spot_err *err);
	/* Completes the configuration of its port (TLS, larger bodies); handle and ctx are set. */
	bool (*port)(struct sim *s, struct httpd_conf *conf, struct spot_err *err);
	/* After all ports are open: keys whose text names the port, and the like. */
	bool (*ready)(struct sim *s, struct spot_err *err);
	/* Members of cloudsim.json and of GET /credentials. urls NULL: credentials alone. */
	void (*announce)(const struct sim *s, json_t *urls, json_t *credentials);
	void (*free)(struct sim *s);
	/* Requests on its port: classify names service, action, region; serve answers (or
	 * parks). */
	void (*classify)(struct sim_req *rq);
	void (*serve)(struct sim_req *rq, struct sim_reply *rep);
	/* The vendor's error body; also used by faults of kind status. service tells which API. */
	void (*error)(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
	    const char *message);
	/* Metadata service of one instance; path is what follows the host. */
	void (*imds)(struct inst *i, struct httpd_req *r, const char *path);
	/* Environment of an instance's program ("NAME=value" in the arena, at most max); the count.
	 * imds_port is open when imds is set. */
	size_t (*env)(const struct inst *i, struct arena *a, const char **env, size_t max);
	/* Every event of the books about one of its instances, after it was recorded. */
	void (*event)(struct inst *i, const char *type);
	/* The program powered its guest off; NULL: as at AWS (stopped or terminated). */
	void (*guest_off)(struct inst *i);
	/* What is freed with an instance (inst.own). */
	void (*inst_free)(struct inst *i);
	/* Billing starts with the launch answer, not with running. */
	bool bills_from_launch;
	/* Things besides instances that still cost money (disks, uploads): texts into /books
	 * "left". */
	void (*left)(const struct sim *s, json_t *left);
	/* A price of one of its pools was set by hand, or follows its record again (held tells). */
	void (*price)(struct sim *s, struct pool *p, enum side side);
	/* POST /<name>/<what>, and /quota with "provider": <name> (what = "quota"). NULL:
	 * refused. */
	json_t *(*post)(struct sim *s, const char *what, const json_t *doc, struct arena *a,
	    struct spot_err *err);
	/* GET /<name>/<what>; NULL = no such call. */
	json_t *(*get)(struct sim *s, const char *what, struct httpd_req *r);
	/* On the way out: ends programs that are no instance's; busy until the last has gone. */
	void (*stop)(struct sim *s);
	bool (*busy)(const struct sim *s);
	void (*close)(struct sim *s); /* more ports than its own one */
};

extern const struct cloud_ops gcp_cloud;
extern const struct cloud_ops coreweave_cloud;

const struct cloud_ops *cloud_ops(enum cloud c); /* never NULL */
enum cloud cloud_parse(const char *name); /* CLOUD_NONE if unknown */
int cloud_port(const struct sim *s, enum cloud c); /* 0 = none of its own */

bool clouds_load(struct sim *s, struct spot_err *err);
bool clouds_open(struct sim *s, struct spot_err *err);
void clouds_close(struct sim *s); /* ports */
void clouds_free(struct sim *s); /* states */
void clouds_stop(struct sim *s);
bool clouds_busy(const struct sim *s);
void clouds_announce(const struct sim *s, json_t *urls, json_t *credentials);
void clouds_left(const struct sim *s, json_t *left);
/* "/gcp/config" to the cloud's post or get; NULL with err set when there is none. */
json_t *clouds_post(struct sim *s, const char *path, const json_t *doc, struct arena *a,
    struct spot_err *err);
json_t *clouds_get(struct sim *s, const char *path, struct httpd_req *r);

#endif
