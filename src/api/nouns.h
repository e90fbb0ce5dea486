/* All routes of the API. */
#ifndef API_NOUNS_H
#define API_NOUNS_H

#include "api/server/server.h"

/* The rows of every noun, in the arena. */
struct routes api_routes(struct arena *a);

#endif
