/*
 * The programs that nodes download, read into memory once: what is served and what user data pins
 * are the same bytes, whatever becomes of the files. A package that is upgraded changes nothing
 * until the daemon reads them again.
 */
#ifndef API_HANDOUT_H
#define API_HANDOUT_H

#include "base/crypto/sign.h"
#include "base/text/str.h"

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
/* the caller frees it; what cannot be read is not handed out */
struct handout *handout_read(const char *dir);
void handout_free(struct handout *h); /* NULL accepted */
/* NULL: there is none */
const struct handout_file *handout_find(const struct handout *h, const char *name);

#endif
