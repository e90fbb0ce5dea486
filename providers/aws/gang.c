#include "base/base.h"
#include "aws_priv.h"

/*
 * Launches several machines of one pool by one RunInstances. EC2 carries it out in one zone. It
 * makes as many as it can up to MaxCount, and none if that would be fewer than MinCount. Every
 * instance carries the client token (API_RunInstances.html, ec2-api-idempotency.html). CreateFleet
 * adds nothing for one type in one zone. An empty answer uses up its token, it needs a launch
 * template to tidy away, and its instances do not carry the token.
 */

#define GANG_MAX 1000

struct ganging {
	struct aws_run run;
	struct spot_instance *items;
	size_t n, cap;
};

/* The reply to a repeat tells what the first request made as it is now: some may have ended
 * meanwhile. They are ours all the same, since they are billed for what they lived: whoever reads
 * this ends what is not whole, row by row. */
static enum spot_step gang_reply(struct aws *self, struct spot_call *c, struct ganging *g,
    struct spot_launch_gang *a)
{
	const struct xml *doc, *set;
	enum spot_step s = aws_reply_xml(self, c, "RunInstances", "RunInstancesResponse", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "instancesSet");
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		g->items = arena_grow(c->arena, g->items, g->n, &g->cap, sizeof(*g->items));
		if (!aws_run_read(self, c, g->run.launch, i, &g->items[g->n++])) {
			return aws_bad_reply(c, "RunInstances", "an instance without instanceId");
		}
	}
	if (g->n == 0) {
		return aws_bad_reply(c, "RunInstances", "no instance in it");
	}
	/* MinCount was not kept, or some ended so long ago that they are not told any more: the
	 * token finds the others. */
	if (g->n < g->run.least || g->n > a->want) {
		return call_fail(c, SPOT_UNKNOWN, NULL,
		    "aws RunInstances: %zu of %zu machines are in the reply", g->n, a->want);
	}
	a->instances = g->items;
	a->instances_n = g->n;
	return SPOT_DONE;
}

enum spot_step aws_launch_gang(void *p, struct spot_call *c, struct spot_launch_gang *a)
{
	struct aws *self = p;
	struct call_state *st = c->state;
	struct ganging *g;
	bool answered = false;
	enum spot_step s;

	if (st == NULL) {
		if (a->want < 1 || a->want > GANG_MAX) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "aws launch: a gang of %zu machines, not 1 to %d", a->want, GANG_MAX);
		}
		s = aws_launch_check(self, c, &a->common);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		st = call_state_get(c, sizeof(*g));
		g = st->own;
		g->run.count = a->want;
		g->run.least = a->least == 0 ? a->want : MIN(a->least, a->want);
		aws_launch_begin(self, st, &g->run, &a->common);
	}
	g = st->own;
	s = aws_launch_prepare(self, c, &g->run, &answered);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	return answered ? gang_reply(self, c, g, a) : aws_run_send(self, c, &g->run);
}
