/* Inside of the control API. */
#ifndef EMULATOR_CONTROL_H
#define EMULATOR_CONTROL_H

#include "cloudsim/sim/sim.h"

/* One change; NULL = refused, err says why. */
json_t *control_post(struct sim *s, const char *path, const json_t *doc, struct arena *a,
    struct spot_err *err);
/* A new temporary credential, as the container and instance endpoints of the vendor give it. */
json_t *control_session(struct sim *s, int64_t seconds);

#endif
