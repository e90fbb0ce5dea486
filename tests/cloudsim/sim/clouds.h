/*
 * The contract of a cloud: what each one brings beyond the shared market, instances and books.
 * sim/ calls a cloud only through this table. AWS and Lambda share the main port; every other cloud
 * has a port of its own. Every hook may be NULL.
 */
#ifndef EMULATOR_CLOUDS_H
#define EMULATOR_CLOUDS_H

#include "cloudsim/sim/books.h"

/* One call of the control API. CONTROL.md is made from these tables. */
struct control_call {
	const char *method, *path; /* path "/role/..." stands for all below /role/ */
	const char *takes; /* members of the body, or query parameters, as JSON; "" = nothing */
	const char *gives; /* the reply, as JSON */
	const char *about; /* one sentence, or a few */
	/* POST: NULL = refused, err says why. */
	json_t *(*post)(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
	/* The others: NULL = it has answered the request itself, or will. */
	json_t *(*get)(struct sim *s, struct httpd_req *r);
};

struct cloud_ops {
	const char *name; /* as in pools ("gcp/us-central1/...") and in cloudsim.json */
	/* Seconds between notice and end when /reclaim names none. */
	int notice_s;
	/* Path prefix of its requests on the shared port; the longest match wins. NULL: it has a port
	 * of its own, if it serves at all. */
	const char *shared_prefix;
	/* Makes the cloud's state, before the market is loaded. */
	void (*init)(struct sim *s);
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
	/* Requests: classify names service, action, region; serve answers (or
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
	/* It has a feed of prices that can be frozen (sim.frozen_us). */
	bool has_feed;
	void (*feed)(struct sim *s); /* the feed was frozen, or goes on */
	/* A price of one of its pools was set by hand, or follows its record again (held tells). */
	void (*price)(struct sim *s, struct pool *p, enum side side);
	/* Control calls of this cloud alone; the last has no path. */
	const struct control_call *calls;
	/* On the way out: ends programs that are no instance's; busy until the last has gone. */
	void (*stop)(struct sim *s);
	bool (*busy)(const struct sim *s);
	void (*close)(struct sim *s); /* more ports than its own one */
};

extern const struct cloud_ops aws_cloud, lambda_cloud, gcp_cloud, azure_cloud, coreweave_cloud;
extern const struct cloud_ops *const cloud_table[CLOUD_COUNT]; /* clouds.c of the program */

const struct cloud_ops *cloud_ops(enum cloud c); /* never NULL */
enum cloud cloud_parse(const char *name); /* CLOUD_NONE if unknown */
int cloud_port(const struct sim *s, enum cloud c); /* 0 = none of its own */

/* The cloud that answers path on the shared port. */
enum cloud cloud_shared(const char *path);

void clouds_init(struct sim *s);
bool clouds_load(struct sim *s, struct spot_err *err);
void clouds_close(struct sim *s); /* ports */
void clouds_free(struct sim *s); /* states */
void clouds_stop(struct sim *s);
bool clouds_busy(const struct sim *s);
void clouds_announce(const struct sim *s, json_t *urls, json_t *credentials);
void clouds_left(const struct sim *s, json_t *left);
/* The call of a cloud by method and path; NULL = there is none. */
const struct control_call *clouds_call(const char *method, const char *path);

#endif
