/* The methods of the emulated Google APIs, ended by a row without a method. */
#ifndef EMULATOR_GCP_ROUTES_H
#define EMULATOR_GCP_ROUTES_H

#include "cloudsim/gcp/gcp.h"

extern const struct gcp_route gcp_routes[];

#endif
