/* What cloud.c shares with account.c: the emulator's state, and how its market is made small. */
#ifndef SIM_CLOUD_PRIV_H
#define SIM_CLOUD_PRIV_H

#include "../emulator/clouds.h"

extern struct sim sim;

/* account.c: a folder of data with few pools, below dir. */
const char *market_small(const char *dir);
void azure_network(void);

#define SSH_KEY "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemoDemoDemoDemoDemoDemoDemoDemoDemoDemoDemo spotbroker"

#endif
