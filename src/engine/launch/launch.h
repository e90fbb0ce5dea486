/* Machines that are wanted: launches, fleets at their size, enrolment, event streams. */
#ifndef ENGINE_LAUNCH_LAUNCH_H
#define ENGINE_LAUNCH_LAUNCH_H

#include "core/fleet/fleet.h"
#include "core/place/place.h"
#include "engine/kernel/kernel.h"

struct recon_kind;
extern const struct recon_kind launcher_kind; /* launches WANTED nodes, a gang by one call */
extern const struct recon_kind lookup_kind; /* finds out about launches whose reply was lost */
extern const struct recon_kind enrol_kind; /* asks the cloud whether a caller is our machine */
extern const struct recon_kind fleet_kind; /* keeps fleets at their size */
extern const struct recon_kind fleet_any_kind; /* gives jobs of any fleet one that has room */
extern const struct recon_kind fleet_metric_kind; /* asks Prometheus for the demand of fleets */
extern const struct recon_kind fleet_size_kind; /* decides the size of fleets that follow demand */
extern const struct recon_kind stream_kind; /* one long poll per place for provider events */

/* A fleet against the market, for its plan and for its moves. */

/* Returns false when the stored spec does not parse (logged). */
bool fleet_spec_read(struct recon *r, int64_t id, const char *text, struct fleet_spec **ret);
/* The job that a fleet's offers are scored for, and the saves of its real jobs. */
struct fleet_use {
	struct job_spec job;
	struct fleet_saves saves;
};
/* Scores these offers for the fleet. */
void fleet_rank(struct recon *r, const struct offer *offers, size_t n, const struct fleet_use *use,
    struct score **ret, size_t *ret_n);
/* Scores the pools that the fleet is in, whether or not they have more capacity now. */
void fleet_have_score(struct recon *r, const struct fleet_use *use, struct fleet_have *have,
    size_t n);

#endif
