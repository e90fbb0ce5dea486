/*
 * The agent's side of the API: enrolment, polls, reports, checkpoints, logs; and the programs that
 * nodes download. These are read into memory once, so the bytes that are served are the bytes that
 * user data pins. Replacing the files has no effect until the daemon reads them again.
 */
#ifndef API_AGENT_H
#define API_AGENT_H

#include "base/crypto/crypto.h"
#include "base/text/text.h"

struct route_table;
extern const struct route_table agent_routes;

#define HANDOUT_FILES 4
struct handout_file {
	const char *name; /* "spot-agent" */
	struct str bytes; /* empty: there is none */
	char sha256[SHA256_HEX]; /* "" then */
};
struct handout {
	struct arena *arena;
	struct handout_file files[HANDOUT_FILES];
};
/* Reads the programs in dir; one that cannot be read is left out. The caller frees the result. */
struct handout *handout_read(const char *dir);
void handout_free(struct handout *h); /* NULL accepted */
/* NULL: no such program */
const struct handout_file *handout_find(const struct handout *h, const char *name);

#endif
