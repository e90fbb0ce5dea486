/*
 * Baselines for a fleet, after SkyPilot's strategies (brain_base.c). Each node is sought for
 * itself, as that many managed jobs of one node are. Or all are one cluster, as a job of several
 * nodes is. Then one pool must take all of them. After the loss of one the others end, and all are
 * sought anew.
 */
#include "base/base.h"

#include "fleets/held_brains.h"

struct unit { /* nodes that are sought together */
	struct held *h;
	struct fs_task seeks; /* its job, last pool and starts */
	struct base_round round;
	int64_t *nodes;
	int32_t n;
};

struct held_seekers {
	const struct held_base_conf *conf;
	struct unit *units;
	size_t n;
};

static void *seekers_init(struct fs_sim *s, const void *arg)
{
	struct held *h = held_of(s);
	struct held_seekers *b = arena_alloc(s->arena, sizeof(*b));
	int32_t most = held_most(h->spec), size;

	b->conf = arg;
	size = b->conf->whole ? most : 1;
	b->n = (size_t)(most / size);
	b->units = arena_array(s->arena, b->n + 1, sizeof(*b->units));
	for (size_t i = 0; i < b->n; i++) {
		struct unit *u = &b->units[i];

		*u = (struct unit){ .h = h, .n = size };
		u->seeks.job = h->unit;
		u->seeks.last_pool = -1;
		u->nodes = arena_array(s->arena, (size_t)size, sizeof(*u->nodes));
		for (int32_t k = 0; k < size; k++) {
			u->nodes[k] = -1;
		}
	}
	return b;
}

static bool unit_launch(void *ctx, int32_t pool)
{
	struct unit *u = ctx;
	struct held *h = u->h;
	struct fs_sim *s = &h->s;

	if (fs_room(&s->w->pools[pool], s->t) - s->live[pool] < u->n) {
		h->refused++;
		return false;
	}
	for (int32_t k = 0; k < u->n; k++) {
		u->nodes[k] = (int64_t)s->nodes_n;
		if (!held_launch(h, pool, -1)) {
			return false;
		}
	}
	u->seeks.last_pool = pool;
	u->seeks.starts++;
	return true;
}

static void unit_step(struct fs_sim *s, const struct held_base_conf *conf, struct unit *u)
{
	int32_t there = 0;

	for (int32_t k = 0; k < u->n; k++) {
		there += held_there(u->h, u->nodes[k]);
	}
	if (there == u->n) {
		return;
	}
	for (int32_t k = 0; k < u->n; k++) {
		if (held_there(u->h, u->nodes[k])) {
			held_drop(u->h, u->nodes[k]);
		}
	}
	base_seek(s, &conf->base, &u->seeks, &u->round, unit_launch, u);
}

static void seekers_step(struct fs_sim *s, void *self, int64_t t)
{
	struct held_seekers *b = self;

	(void)t;
	for (size_t i = 0; i < b->n; i++) {
		unit_step(s, b->conf, &b->units[i]);
	}
}

void held_base(const char *name, const struct held_base_conf *conf, struct fs_brain *ret)
{
	*ret = (struct fs_brain){
		.name = name,
		.interval_us = conf->base.kind == BASE_ON_DEMAND ? 0 : BASE_INTERVAL_US,
		.init = seekers_init,
		.step = seekers_step,
		.arg = conf,
	};
}
