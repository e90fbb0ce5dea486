/*
 * Machines in the same accounts that are not ours: of another broker with an id of its own, and of people who know of no broker.
 * They run when the seed begins and must run when it ends; nothing of the world's draws or checks takes them for ours.
 */
#include "world.h"
#include "cloud.h"
#include "cloud_priv.h"

#include "base/str.h"

/* What is older than the first leader nobody here ends anyway: they say that they are younger. */
#define BORN_US (600 * SPOT_US_PER_S)

static const struct {
	enum cloud cloud;
	const char *type, *id, *name, *install; /* install: a tag of AWS, part of the name at Lambda */
} known[] = {
    {CLOUD_AWS, "g5.xlarge", "i-00000000000000001", "sb-cafe0002-n1", "cafe0002"},
    {CLOUD_AWS, "g5.xlarge", "i-00000000000000002", "notebook", NULL},
    {CLOUD_LAMBDA, "gpu_1x_a10", "00000000000000000000000000000001", "brk.cafe0002.n1.1793491800", "cafe0002"},
    {CLOUD_LAMBDA, "gpu_1x_a10", "00000000000000000000000000000002", "notebook", NULL},
};
static struct inst *others[ARRAY_LEN(known)];

static struct pool *pool_of(enum cloud c, const char *type)
{
	for (size_t k = 0; k < sim.market->pools_n; k++) {
		struct pool *p = &sim.market->pools[k];

		if (p->cloud == c && str_same(p->type->name, type))
			return p;
	}
	return NULL;
}

void others_come(void)
{
	for (size_t k = 0; k < ARRAY_LEN(known); k++) {
		struct pool *p = pool_of(known[k].cloud, known[k].type);
		struct inst *i;

		assert(p != NULL);
		i = others[k] = inst_new(&sim, p, SIDE_ON_DEMAND, known[k].id);
		i->name = dup_text(known[k].name);
		if (known[k].cloud == CLOUD_AWS && known[k].install != NULL)
			inst_tag_set(&i->tags, &i->tags_n, "spotbroker:install", known[k].install);
		if (known[k].cloud == CLOUD_LAMBDA) {
			i->key_name = dup_text("spotbroker");
			i->own = json_pack("{s:[]}", "files");
		}
		i->state = INST_RUNNING;
		i->running_us = i->launched_us += BORN_US;
	}
}

bool other_is(const struct inst *i)
{
	for (size_t k = 0; k < ARRAY_LEN(others); k++) {
		if (others[k] == i)
			return true;
	}
	return false;
}

void cloud_check_others(void)
{
	for (size_t k = 0; k < ARRAY_LEN(others); k++)
		always(others[k]->state == INST_RUNNING, "what is not ours is left alone", "%s %s is %s", cloud_name(others[k]->cloud),
		    others[k]->id, inst_state_name(others[k]));
}

void cloud_end_other(bool end)
{
	others[0]->state = end ? INST_GONE : INST_RUNNING;
}
