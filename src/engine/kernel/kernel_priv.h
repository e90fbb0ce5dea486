/* Private to src/engine/kernel: how its files work together. */
#ifndef ENGINE_KERNEL_PRIV_H
#define ENGINE_KERNEL_PRIV_H

#include "engine/kernel/kernel.h"

/* recon.c */
void recon_add(struct engine *e, const struct recon_kind *kind);
void recon_run(struct recon *r); /* one pass */
bool recon_due(const struct recon *r, int64_t now);
void recon_lease_lost(struct engine *e); /* tells every reconciler */
/* When the engine stops: forgets all statements under way; then frees the reconcilers. */
void recon_drop_steps(struct engine *e);
void recon_drop(struct engine *e);

/* wake.c: rows of these kinds changed by r's own pass, which knows it. */
void engine_touch_others(struct recon *r, unsigned touched);

/* act.c: forgets all acts. */
void act_drop_all(struct engine *e);

/* wake.c */
void wake_start(struct engine *e);
void wake_stop(struct engine *e);
void wake_next(struct engine *e); /* after the passes: sets the timer for the next that is due */

/* lease.c */
struct lease *lease_new(struct engine *e);
void lease_free(struct lease *l);
void lease_tick(struct engine *e); /* in every turn of the loop: takes, renews or watches */
void lease_drop(struct engine *e); /* waits for no answer any more */
void lease_given_back(struct engine *e); /* another daemon gave it back: ask at once */

/* clock.c: we took the lease of a holder whose clock was behind ours by behind_us when it was last
 * compared (mono). That counts as a clock step. */
void clock_taken_over(struct engine *e, int64_t behind_us, int64_t behind_at_us);

/* offers.c: the kept market begins, follows a reload, and ends. */
void offers_start(struct engine *e);
void offers_reload(struct engine *e);
void offers_stop(struct engine *e); /* before the passes end, whose wants it has */
void offers_drop(struct engine *e);

#endif
