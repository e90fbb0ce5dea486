/* The interval at which an API reports that agents can reach it (table listener). Minutes of
 * silence have many beats. */
#ifndef SPOT_STORE_LISTEN_H
#define SPOT_STORE_LISTEN_H

#include "base/base.h"

#define LISTEN_BEAT_US (5 * SPOT_US_PER_S)

#endif
