/* Verbs by which the cloud of engine_world.h reports, signs and vouches: engine_cloud_tells.c. */
#ifndef ENGINE_CLOUD_H
#define ENGINE_CLOUD_H

#include "engine_world.h"
#include "base/base.h"

enum spot_step cloud_notices(void *self, struct spot_call *c, struct spot_notices *a);
enum spot_step cloud_verify(void *self, struct spot_call *c, struct spot_verify *a);
enum spot_step cloud_watch(void *self, struct spot_call *c, struct spot_watch *a);
/* The machine as a provider describes it. */
struct spot_instance cloud_instance(struct arena *a, const struct machine *m);
enum spot_rc cloud_presign(void *self, struct arena *arena, int64_t now_us, struct spot_presign *a,
    struct spot_err *err);

#endif
