/* Jobs that run: their attempts, gangs, upload URLs, and objects that nobody needs any more. */
#ifndef ENGINE_JOB_H
#define ENGINE_JOB_H

struct recon_kind;
extern const struct recon_kind drain_kind; /* notices, cancellations, ends and losses of attempts */
extern const struct recon_kind burst_kind; /* saves after reclaims of siblings */
extern const struct recon_kind gang_kind; /* gangs: acquired, held, assigned whole or given up */
extern const struct recon_kind gang_ranks_kind; /* ranks of running gangs, judged together */
extern const struct recon_kind upload_urls_kind; /* presigned URLs for announced checkpoints */
extern const struct recon_kind recovery_kind; /* the phases of recoveries, and their histograms */
extern const struct recon_kind dispose_kind; /* deletes objects of abandoned checkpoints */

#endif
