/* The ledger. */
#ifndef ENGINE_MONEY_H
#define ENGINE_MONEY_H

struct recon_kind;
extern const struct recon_kind biller_kind; /* ledger lines for the lifetime of every machine */

#endif
