/* Machines that are wanted: launches, fleets at their size, enrolment, event streams. */
#ifndef ENGINE_LAUNCH_H
#define ENGINE_LAUNCH_H

struct recon_kind;
extern const struct recon_kind launcher_kind; /* launches WANTED nodes, a gang by one call */
extern const struct recon_kind lookup_kind; /* finds out about launches whose reply was lost */
extern const struct recon_kind enrol_kind; /* asks the cloud whether a caller is our machine */
extern const struct recon_kind fleet_kind; /* keeps fleets at their size */
extern const struct recon_kind fleet_any_kind; /* gives jobs of any fleet one that has room */
extern const struct recon_kind fleet_metric_kind; /* asks Prometheus for the demand of fleets */
extern const struct recon_kind fleet_size_kind; /* decides the size of fleets that follow demand */
extern const struct recon_kind stream_kind; /* one long poll per place for provider events */

#endif
