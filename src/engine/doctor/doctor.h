/* Examinations for `spotctl doctor`: the providers, the daemon, the object store, the rows. */
#ifndef ENGINE_DOCTOR_H
#define ENGINE_DOCTOR_H

struct recon_kind;
extern const struct recon_kind doctor_kind; /* one examination at a time */

#endif
