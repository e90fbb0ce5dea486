/*
 * This daemon's programs for nodes: its API hands them out, its engine pins them in user data. A
 * node downloads while it boots, from any daemon that is there by then, perhaps a newer one. So an
 * engine first puts each pinned program into the database (agent_binary), where every daemon finds
 * it.
 */
#ifndef SPOTD_AGENTS_H
#define SPOTD_AGENTS_H

#include "api/agent/agent.h"
#include "io/loop/loop.h"
#include "io/pg/pg.h"

struct agents {
	struct loop *loop;
	struct pg *pg; /* NULL: nothing is pinned here, so nothing is kept */
	struct handout *now; /* handed out and pinned */
	struct handout *next; /* read on a reload: taken once the database has it; NULL: none */
	bool kept; /* the database has what is pinned */
	void (*changed)(void *ctx);
	void *ctx;
	struct pg_req req;
	struct loop_timer again;
	bool there[HANDOUT_FILES];
};
/* Call before the loop runs. Reads and keeps them, or logs the reason and tries again later. Calls
 * changed whenever now or kept changes. */
void agents_init(struct agents *g, struct loop *l, struct pg *pg, const char *dir,
    void (*changed)(void *), void *ctx);
/* Reads them again. One that is not there any more is an error, which is logged: nothing
 * changes. */
void agents_reload(struct agents *g, const char *dir);
void agents_fini(struct agents *g);
/* SHA-256 of what is handed out; "": there is none. Valid until changed. */
const char *agents_sha256(const struct agents *g, const char *name);

#endif
