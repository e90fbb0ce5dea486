/*
 * CoreWeave: instance types and list prices, the control plane's REST API, two CKS clusters, and
 * its object store, which knows only virtual hosts.
 */
#ifndef CLOUDSIM_COREWEAVE_H
#define CLOUDSIM_COREWEAVE_H

#include "cloudsim/k8s/k8s.h"

struct cw_type {
	const struct itype *type;
	char *class, *model;
	int64_t mem_ki;
	int rdma;
	bool arm, rack, superchip;
};
struct coreweave {
	struct k8s_cluster *clusters; /* CKS clusters first, the plain one last */
	struct cw_type *types;
	size_t types_n;
	char *api_token;
	bool token_expired;
	struct front_port object_port;
	int orphans; /* programs of pods that are gone */
};
const struct cw_type *cw_type_of(const struct sim *s, const struct itype *t);
struct k8s_cluster *cw_cluster_of(const struct inst *i);
bool cw_load(struct sim *s, struct spot_err *err);
bool cw_port(struct sim *s, struct httpd_conf *conf, struct spot_err *err);
bool cw_ready(struct sim *s, struct spot_err *err);
void cw_announce(const struct sim *s, json_t *urls, json_t *credentials);
void cw_stop(struct sim *s); /* all programs get KILL */
bool cw_busy(const struct sim *s);
void cw_close(struct sim *s);
void cw_free(struct sim *s);
void cw_classify(struct sim_req *rq);
void cw_serve(struct sim_req *rq, struct sim_reply *rep);
void cw_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message);
void cw_left(const struct sim *s, json_t *left);
/* coreweave_control.c */
extern const struct control_call cw_calls[];

#endif
