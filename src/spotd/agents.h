/*
 * The programs for nodes of this daemon: what its API hands out, what its engine pins in user data.
 * A node downloads while it boots, from whichever daemon is there by then, perhaps a newer one: so
 * whatever an engine pins it puts into the database first (agent_binary), where every daemon finds
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
/* Before the loop runs: reads them and keeps them, or logs why not and tries again later. changed
 * is called when now or kept is another from then on. */
void agents_init(struct agents *g, struct loop *l, struct pg *pg, const char *dir,
    void (*changed)(void *), void *ctx);
/* Reads them again. One that is not there any more is an error, which is logged: nothing
 * changes. */
void agents_reload(struct agents *g, const char *dir);
void agents_fini(struct agents *g);
/* SHA-256 of what is handed out; "": there is none. Valid until changed. */
const char *agents_sha256(const struct agents *g, const char *name);

#endif
