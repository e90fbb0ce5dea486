/* Lambda Cloud: routes, SSH keys, audit record. */
#ifndef CLOUDSIM_LAMBDA_H
#define CLOUDSIM_LAMBDA_H

#include "cloudsim/sim/cloud.h"

struct lambda_ssh_key {
	char *id, *name, *public_key;
};
struct lambda_audit {
	char *id, *action, *instance, *region, *type;
	bool ours; /* done with the API key; else by nobody of the account */
	int64_t at_us;
};
struct lambda_state {
	struct lambda_ssh_key *keys;
	size_t keys_n;
	struct lambda_audit *audit;
	size_t audit_n;
	json_t *place; /* file systems, firewall rulesets (lambda_place.c) */
};
void lambda_audit_add(struct sim *s, const char *action, const struct inst *i, bool ours);
const struct lambda_ssh_key *lambda_ssh_key(const struct sim *s, const char *name);

/* lambda_launch.c, lambda_view.c */
void lambda_launch(struct sim_req *rq, struct sim_reply *rep, const json_t *doc);
void lambda_terminate(struct sim_req *rq, struct sim_reply *rep, const json_t *doc);
void lambda_restart(struct sim_req *rq, struct sim_reply *rep, const json_t *doc);
void lambda_types(struct sim_req *rq, struct sim_reply *rep);
void lambda_regions(struct sim_req *rq, struct sim_reply *rep);
void lambda_images(struct sim_req *rq, struct sim_reply *rep);
void lambda_instances(struct sim_req *rq, struct sim_reply *rep);
void lambda_instance(struct sim_req *rq, struct sim_reply *rep, const char *id);
void lambda_rename(struct sim_req *rq, struct sim_reply *rep, const char *id, const json_t *doc);
void lambda_keys(struct sim_req *rq, struct sim_reply *rep);
void lambda_key_add(struct sim_req *rq, struct sim_reply *rep, const json_t *doc);
void lambda_key_drop(struct sim_req *rq, struct sim_reply *rep, const char *id);
void lambda_audit(struct sim_req *rq, struct sim_reply *rep);
json_t *lambda_instance_json(const struct inst *i);
bool lambda_image_known(const struct sim *s, const char *family, const char *id, const char *region,
    const char *arch);
json_t *lambda_region_json(const struct region *r);

/* lambda_place.c */
json_t *lambda_place_new(void);
/* False: the path is none of its own. */
bool lambda_place_serve(struct sim_req *rq, struct sim_reply *rep, const char *path,
    const json_t *doc);
/* Returns the attachments of a launch, checked: {"files": [names], "mounts": [...], "rulesets":
 * [...]}; NULL = refused. */
json_t *lambda_place_attach(struct sim_req *rq, struct sim_reply *rep, const json_t *doc,
    const char *region);

void lambda_data(struct sim_req *rq, struct sim_reply *rep, json_t *data); /* steals */

#endif
