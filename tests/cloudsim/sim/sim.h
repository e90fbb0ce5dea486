/*
 * cloudsim: the emulated clouds. One struct sim owns everything: the market, the instances, the
 * faults, the record of what was asked of us. All in memory, one thread, loopback only. Nothing
 * here is shared with providers/: a misreading of a vendor's document must not agree with itself.
 */
#ifndef EMULATOR_SIM_H
#define EMULATOR_SIM_H

#include "base/base.h"
#include "base/arena.h"
#include "base/text/json.h"
#include "base/rng.h"
#include "io/httpd/httpd.h"
#include "io/loop/loop.h"

enum cloud {
	CLOUD_NONE = 0,
	CLOUD_AWS,
	CLOUD_LAMBDA,
	CLOUD_GCP,
	CLOUD_AZURE,
	CLOUD_COREWEAVE,
	CLOUD_COUNT
};

struct market;
struct books;
struct faults;
struct throttle;
struct imds;
struct s3;
struct creds;
struct waits;
struct aws_state;
struct lambda_state;
struct gcp;
struct azure;
struct coreweave;
struct inst;

struct sim_conf {
	const char *dir, *data_dir;
	int port, control_port, imds_port;
	bool agents; /* instances run their user data */
	bool lambda_tags_hidden; /* tags do not come back in Lambda's listings */
	bool throttle; /* published rate limits are enforced */
	uint64_t seed; /* 0 = real randomness */
	double scale; /* replay speed */
	int64_t lag_us; /* a new instance is invisible in lists for this long */
	int64_t boot_us; /* launch to running */
	int64_t terminate_us; /* shutting-down to terminated */
	int64_t notice_us; /* reclaim by replayed supply: notice given */
	const char *supply; /* "open" or a set of data/aws_supply.csv */
	int64_t supply_unit; /* instances that one unit of a 0/1 supply trace stands for */
	int64_t quota_vcpus; /* default applied quota of every class */
	const char **markets; /* control requests to apply at start */
	size_t markets_n;
};

/* The own port of a cloud (clouds.c); the shared one has no cloud. */
struct front_port {
	struct sim *sim;
	enum cloud cloud;
	struct httpd *http;
	void *own; /* one of several servers of a cloud */
};

struct sim {
	struct sim_conf conf;
	struct loop *loop;
	struct rng rng;
	struct httpd *http, *control_http, *imds_http;
	int64_t start_us; /* wall clock at start */
	int64_t advanced_us; /* added to the replay clock by hand */
	struct market *market;
	struct books *books;
	struct faults *faults;
	struct throttle *throttle;
	struct imds *imds;
	struct s3 *s3;
	struct creds *creds;
	struct waits *waits;
	struct aws_state *aws;
	struct lambda_state *lambda;
	struct gcp *gcp;
	struct azure *azure;
	struct coreweave *coreweave;
	struct front_port shared, ports[CLOUD_COUNT];
	struct inst *insts, *insts_last; /* by seq, ascending */
	/* never were; only the books' launches still point at them */
	struct inst *unmade;
	/* its feed of prices tells what was so then; 0 = what is so */
	int64_t frozen_us[CLOUD_COUNT];
	/* what the request at hand makes or ends is as it was, once it is answered */
	bool pretend;
	void *inst_tree; /* tsearch by id */
	uint64_t inst_seq;
	int alive; /* instances not gone */
	bool quitting;
};

int64_t sim_wall(const struct sim *s);
/* The time whose prices a cloud's feed tells. */
int64_t sim_feed_us(const struct sim *s, enum cloud cloud);
/* The replay clock: wall time at start, then scale times faster, plus /advance. */
int64_t sim_clock(const struct sim *s);
/* prefix + n random bytes in lower-case hex; malloc'd or in arena (a != NULL). */
char *sim_id(struct sim *s, struct arena *a, const char *prefix, size_t n);
/* start.c: with conf, loop, rng and start_us set. False: err says why; close it all the same. */
struct sim_conf sim_conf_default(void);
NODISCARD bool sim_open(struct sim *s, struct spot_err *err);
void sim_close(struct sim *s);
void sim_quit(struct sim *s);
char *dup_text(const char *s); /* NULL stays NULL; aborts when out of memory */
bool glob_match(const char *pattern, const char *text); /* * and ?, \ escapes */
/* Writes text to path.tmp and renames; mode of the file. */
bool file_put(const char *path, const void *p, size_t n, int mode);
bool file_get(struct arena *a, const char *path, struct str *ret);
void dir_make(const char *path, int mode); /* with parents */

/* The ports (front.c with a struct front_port, control.c, imds.c). */
void front_handle(void *ctx, struct httpd_req *r);
size_t front_body_max(void *ctx, const char *method, const char *path);
void control_handle(void *ctx, struct httpd_req *r);
/* Applies one control request without a socket: market files. */
bool control_apply(struct sim *s, const json_t *doc, struct spot_err *err);
void imds_handle(void *ctx, struct httpd_req *r);

#endif
