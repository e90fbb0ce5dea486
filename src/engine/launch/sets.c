/*
 * Sets: nodes of one pool and price cap that were never sent, and that one call launches. This file
 * decides their size: at most what the provider takes by one call, and the tokens that are in its
 * bucket. A larger one would wait for tokens longer than its call may last. A few nodes do not wait
 * for the bucket of sets, if there is one: they come sooner one by one.
 *
 * All machines of a set have one token. Only the provider's proof says which of them enrols, so a
 * provider that vouches for nothing takes no sets.
 */
#include "base/base.h"
#include "engine/launch/launch_priv.h"

#define SET_FEW 16 /* nodes that do not wait for the bucket of sets */

static bool set_takes(const struct engine *e, struct call_provider *p)
{
	const struct spot_provider_ops *ops = call_provider_ops(p);

	return ops->set_most > 1 && ops->launch_gang != NULL && (ops->caps & SPOT_CAP_TOKEN) != 0 &&
	    provider_vouches(e, p);
}

size_t set_providers(struct recon *r, struct q_engine_launch_due_sets **ret)
{
	struct engine *e = r->e;
	struct q_engine_launch_due_sets *list =
	    arena_array(r->arena, e->providers_n + 1, sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; i < e->providers_n; i++) {
		struct call_provider *p = e->providers[i];

		if (set_takes(e, p)) {
			list[n++] =
			    (struct q_engine_launch_due_sets){ .provider = call_provider_name(p),
				    .most_set = call_provider_ops(p)->set_most };
		}
	}
	*ret = list;
	return n;
}

/* Machines of launches to a place that still wait for tokens, and the sets of the provider. */
static int64_t set_waiting(const struct engine *e, const char *provider, const char *region,
    int64_t *ret_sets)
{
	const struct act *a;
	int64_t n = 0;

	*ret_sets = 0;
	TAILQ_FOREACH (a, &e->acts, link) {
		const struct launching *l = a->ctx;

		if (a->called != launch_called || a->call.left ||
		    strcmp(l->args.common.key.provider, provider) != 0) {
			continue;
		}
		*ret_sets += l->args.want > 1;
		if (strcmp(l->args.common.key.region, region) == 0) {
			n += (int64_t)l->args.want;
		}
	}
	return n;
}

struct set_room *set_room(struct recon *r, struct set_room **list, struct call_provider *p,
    const char *region)
{
	const struct spot_provider_ops *ops = call_provider_ops(p);
	const char *provider = call_provider_name(p);
	double *calls = NULL;
	struct set_room *s;
	int64_t sets;

	for (s = *list; s != NULL; s = s->next) {
		if (strcmp(s->provider, provider) != 0) {
			continue;
		}
		calls = s->calls;
		if (strcmp(s->region, region) == 0) {
			return s;
		}
	}
	s = arena_alloc(r->arena, sizeof(*s));
	*s = (struct set_room){ .provider = provider,
		.region = region,
		.left = CALL_ROOM_FREE,
		.calls = calls,
		.waiting = set_waiting(r->e, provider, region, &sets),
		.next = *list };
	if (ops->set_limit > 0) {
		s->left =
		    call_provider_room(p, (size_t)ops->set_limit - 1, region) - (double)s->waiting;
	} else {
		s->waiting = 0;
	}
	if (s->calls == NULL) {
		s->calls = arena_alloc(r->arena, sizeof(*s->calls));
		*s->calls = ops->set_calls > 0
		    ? call_provider_room(p, (size_t)ops->set_calls - 1, "") - (double)sets
		    : CALL_ROOM_FREE;
	}
	*list = s;
	return s;
}

int64_t set_size(struct set_room *room, struct call_provider *p, int64_t n)
{
	int64_t size = MIN(n, call_provider_ops(p)->set_most);

	if (n < SET_FEW && *room->calls < 1) {
		size = 1;
	}
	if (room->left < (double)size) {
		size = room->left < 1 ? 0 : (int64_t)room->left;
	}
	if (size == 0 && room->waiting == 0) {
		size = 1; /* it waits for its token, and the others for it */
	}
	*room->calls -= size > 1;
	room->left -= (double)size;
	room->waiting += size;
	return size;
}
