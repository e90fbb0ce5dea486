/* How often an API says that it is there to be spoken to (table listener): so often that minutes of
 * silence have many beats. */
#ifndef SPOT_STORE_LISTEN_H
#define SPOT_STORE_LISTEN_H

#include "base/base.h"

#define LISTEN_BEAT_US (5 * SPOT_US_PER_S)

#endif
