/* A fleet against the market, for its plan and for its moves. */
#ifndef ENGINE_FLEET_MARKET_H
#define ENGINE_FLEET_MARKET_H

#include "core/fleet/fleet.h"
#include "engine/kernel/kernel.h"

/* Returns false when the stored spec does not parse (logged). */
bool fleet_spec_read(struct recon *r, int64_t id, const char *text, struct fleet_spec **ret);
/* Scores these offers for the fleet's job. */
void fleet_rank(struct recon *r, const struct offer *offers, size_t n, const struct job_spec *job,
    struct score **ret, size_t *ret_n);
/* Scores the pools that the fleet is in, whether or not they have more capacity now. */
void fleet_have_score(struct recon *r, const struct job_spec *job, struct fleet_have *have,
    size_t n);

#endif
