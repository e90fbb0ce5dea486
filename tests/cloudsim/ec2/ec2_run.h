/* A launch between its parameters (ec2_run.c) and its instances (ec2_launch.c): RunInstances,
 * launch templates, spot requests and fleets all make one. The texts live in the request's
 * arena. */
#ifndef EMULATOR_EC2_RUN_H
#define EMULATOR_EC2_RUN_H

#include "cloudsim/aws/aws.h"
#include "base/crypto/sign.h"

struct run {
	const char *image, *type_name, *subnet, *zone_name, *zone_id, *token, *user_data, *market,
	    *key_name;
	const char *profile, *shutdown, *group;
	int64_t min, max, max_price, hop_limit;
	bool tokens_required, metadata_tags, metadata_off;
	struct str user_data_raw;
	struct inst_tag *tags, *sir_tags, *volume_tags, *nic_tags;
	size_t tags_n, sir_tags_n, volume_tags_n, nic_tags_n;
	const struct itype *type;
	const struct zone *zone; /* asked for; NULL = any of the region */
	struct pool *pool;
	enum side side;
	struct reserved_ask reserved;
	const char *reservation; /* that is used up; NULL = none */
	char hash[SHA256_HEX];
	const char *scope;
	/* Spot request: its id when it was there first, whether it lasts, what an interruption
	 * does. */
	const char *sir, *behaviour;
	const char *template_id; /* launched by; NULL = none */
	bool persistent;
	int64_t root_gib;
	bool keep_root, guarded;
};

/* Reads the form; e->failed tells. What is in r is freed by run_fini in any case. */
void run_read(struct ec2 *e, struct run *r);
void run_fini(struct run *r);
/* Everything that makes two requests the same one. */
const char *form_hash(struct ec2 *e);
/* Finds image, zone and pool of what was read. */
void run_resolve(struct ec2 *e, struct run *r);
/* Every check of a launch that the vendor makes at once, then count instances (min to max),
 * malloc'd; 0 = e->failed. Tokens are the caller's business. */
size_t run_launch(struct ec2 *e, struct run *r, struct inst ***ret);
/* Price, capacity: why it cannot be had at this moment, NULL = it can. ret_words may be NULL. */
const char *run_refused(struct ec2 *e, const struct run *r, const char **ret_words);
char *ec2_sir_id(struct sim *s); /* malloc'd */
void run_check_quota(struct ec2 *e, const struct run *r);

/* ec2_template.c: puts what a named launch template says under what the request says itself. */
void template_apply(struct ec2 *e);
/* The same for one named by id or name (the other NULL) and version, into f; its id, NULL:
 * e->failed. */
const char *template_under(struct ec2 *e, const char *id, const char *name, const char *version,
    struct form *f);
void templates_free(struct aws_controls *c);

/* ec2_request.c: open spot requests are looked at again. */
void requests_wake(struct ec2 *e);
void requests_free(struct aws_controls *c);
/* Requests without an instance: those of the list, one by id, the end of one (its state). */
void requests_xml(struct ec2 *e, const char *const *ids, size_t ids_n, const struct ec2_filter *f,
    size_t n);
const char *request_cancel(struct ec2 *e, struct spot_ask *q);
struct inst_tag **request_tags(struct spot_ask *q, size_t **ret_n);
struct spot_ask *request_find(struct ec2 *e, const char *id);

/* Tags of a root volume or network interface by its id; NULL: there is none. */
struct inst_tag **ec2_thing_tags(struct ec2 *e, const char *id, size_t **ret_n);
bool key_known(struct ec2 *e, const char *name);
void keys_free(struct aws_controls *c); /* ec2_things.c */

#endif
