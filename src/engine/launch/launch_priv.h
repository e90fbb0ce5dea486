/* Private to src/engine/launch. */
#ifndef ENGINE_LAUNCH_PRIV_H
#define ENGINE_LAUNCH_PRIV_H

#include "engine/kernel/kernel.h"
#include "engine/launch/launch.h"

/* Prefixes of last_error after a refused repeat of a launch. LAUNCH_SPENT: the token is bound to
 * other parameters, or to an instance that is over. A repeat can never succeed, and the look-up
 * finds what there was. LAUNCH_TOKEN_UNREAD: the outcome was unknown, and the provider refused the
 * repeat before it read the token. */
#define LAUNCH_SPENT "its token is spent: "
#define LAUNCH_TOKEN_UNREAD "its repeat was refused: "

/* exists.c: records the machines that the launch of node a->id with that token gave, at most as
 * many as it has rows. how: "launched". Rows without a machine get the event rest: VOID, or RESEND
 * if the provider made fewer for sure. Sorts the list. Ends a. */
void launch_exists(struct act *a, const char *token, struct spot_instance *list, size_t n,
    const enum node_state *was, size_t was_n, enum node_event ev, enum node_event rest,
    const char *how);

/* A launch under way: the context of its act. */
struct launching {
	struct spot_launch_gang args; /* want 1: only its common part is sent */
	struct spot_tag tags[4];
	char me[32];
	int64_t gang_id; /* of several machines */
	int64_t job_id; /* 0 = none */
	int32_t tries;
	bool set; /* several machines that do not need one another */
	bool token; /* a repeat is harmless */
	bool unsure; /* an earlier call, or an earlier try of this one, may have taken effect */
};

/* launcher.c: the act's call is over. */
void launch_called(struct act *a);

/* claim.c: launches of one machine whose rows the pass claims together. */
struct launch_claims {
	struct q_engine_launch_claim_each_launch *rows;
	struct act **acts;
	size_t n, rows_cap, acts_cap;
};
/* Claims the rows of a launch of want machines, then sends its call. One machine: with all. */
void launch_claim(struct recon *r, struct launch_claims *all,
    const struct q_engine_launch_due_row *w, int32_t want, struct call_provider *p);
/* Claims the launches that were added. all lives as long as the pass. */
void launch_claims_end(struct recon *r, struct launch_claims *all);
/* Claims a set of at most `most` nodes that are equal to w, then sends its call. */
void set_claim(struct recon *r, const struct q_engine_launch_due_row *w, int64_t most,
    struct call_provider *p);

/* sets.c: how many machines a place takes now. */
struct set_room {
	const char *provider, *region;
	double left; /* tokens of ops->set_limit */
	double *calls; /* tokens of ops->set_calls, the same of all places of the provider */
	int64_t waiting; /* machines of launches that have not left us */
	struct set_room *next;
};
/* The room of a place: of a list that lives as long as a pass. */
struct set_room *set_room(struct recon *r, struct set_room **list, struct call_provider *p,
    const char *region);
/* How many of n equal nodes the next launch there takes; 0: none before another has left. Takes
 * them off the room. */
int64_t set_size(struct set_room *room, struct call_provider *p, int64_t n);
/* The providers that take sets, and how large, in r->arena. */
size_t set_providers(struct recon *r, struct q_engine_launch_due_sets **ret);

/* enrol.c: true when the provider verifies its machines, and the operator lets it. */
bool provider_vouches(const struct engine *e, struct call_provider *p);

struct fleet_spec;
/* fleet_size.c: sets *ret to the nodes that a fleet gives back to have the size of spec, in this
 * order. Returns their number. floor_want: so much stays on demand, in the unit of the floor. */
size_t fleet_idle_find(struct arena *a, const struct q_engine_fleet_nodes_row *nodes, size_t n,
    const struct fleet_spec *spec, int64_t floor_want, size_t **ret);

/* userdata.c: the script that a node boots with. */
struct str userdata_make(struct engine *e, struct arena *a, int64_t node_id, const char *token,
    const char *provider_kind);

#endif
