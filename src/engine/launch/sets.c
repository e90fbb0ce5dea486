/*
 * Sets: nodes of one pool and price cap that were never sent, and that one call launches. This file
 * decides their size: at most what the provider takes by one call, and the tokens that are in its
 * bucket. A larger one would wait for tokens longer than its call may last.
 *
 * All machines of a set have one token. Only the provider's proof says which of them enrols, so a
 * provider that vouches for nothing takes no sets.
 */
#include "base/base.h"
#include "engine/launch/launch_priv.h"

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

/* Machines of launches to a place that still wait for tokens. */
static int64_t set_waiting(const struct engine *e, const char *provider, const char *region)
{
	const struct act *a;
	int64_t n = 0;

	TAILQ_FOREACH (a, &e->acts, link) {
		const struct launching *l = a->ctx;

		if (a->called == launch_called && !a->call.left &&
		    strcmp(l->args.common.key.provider, provider) == 0 &&
		    strcmp(l->args.common.key.region, region) == 0) {
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
	struct set_room *s;

	for (s = *list; s != NULL; s = s->next) {
		if (strcmp(s->provider, provider) == 0 && strcmp(s->region, region) == 0) {
			return s;
		}
	}
	s = arena_alloc(r->arena, sizeof(*s));
	*s = (struct set_room){ .provider = provider,
		.region = region,
		.left = CALL_ROOM_FREE,
		.next = *list };
	if (ops->set_limit > 0) {
		s->waiting = set_waiting(r->e, provider, region);
		s->left =
		    call_provider_room(p, (size_t)ops->set_limit - 1, region) - (double)s->waiting;
	}
	*list = s;
	return s;
}

int64_t set_size(struct set_room *room, struct call_provider *p, int64_t n)
{
	int64_t size = MIN(n, call_provider_ops(p)->set_most);

	if (room->left < (double)size) {
		size = room->left < 1 ? 0 : (int64_t)room->left;
	}
	if (size == 0 && room->waiting == 0) {
		size = 1; /* it waits for its token, and the others for it */
	}
	room->left -= (double)size;
	room->waiting += size;
	return size;
}
