/* Inside of the control API: its calls. routes.c has the table that names each of them. */
#ifndef CLOUDSIM_CONTROL_H
#define CLOUDSIM_CONTROL_H

#include "cloudsim/sim/cloud.h"

extern const struct control_call control_calls[]; /* of no cloud alone; the last has no path */

/* A new temporary credential, as the container and instance endpoints of the vendor give it. */
json_t *control_session(struct sim *s, int64_t seconds);
void control_send(struct httpd_req *r, int status, json_t *doc); /* steals doc */
void control_send_error(struct httpd_req *r, const struct spot_err *err);

/* change.c. NULL = refused, err says why. */
json_t *control_price(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *control_stock(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *control_reclaim(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *control_kill(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *control_unhealthy(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *control_status(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *control_maintenance(struct sim *s, const json_t *doc, struct arena *a,
    struct spot_err *err);
json_t *control_quota(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *control_fault(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *control_credentials(struct sim *s, const json_t *doc, struct arena *a,
    struct spot_err *err);
json_t *control_advance(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *control_config(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *control_feed(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);
json_t *control_quit(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err);

/* view.c. NULL = it has answered the request itself, or will. */
json_t *control_state(struct sim *s, struct httpd_req *r);
json_t *control_books(struct sim *s, struct httpd_req *r);
json_t *control_pools(struct sim *s, struct httpd_req *r);
json_t *control_events(struct sim *s, struct httpd_req *r);
json_t *control_wait(struct sim *s, struct httpd_req *r);
json_t *control_faults(struct sim *s, struct httpd_req *r);
json_t *control_fault_drop(struct sim *s, struct httpd_req *r);
json_t *control_keys(struct sim *s, struct httpd_req *r);
json_t *control_container(struct sim *s, struct httpd_req *r);
json_t *control_certificate(struct sim *s, struct httpd_req *r);
json_t *control_health(struct sim *s, struct httpd_req *r);
json_t *control_role(struct sim *s, struct httpd_req *r);

#endif
