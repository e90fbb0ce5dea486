#include "base/base.h"
#include "aws_int.h"

/*
 * Several machines of one pool at once: one RunInstances with MinCount = MaxCount, which EC2 carries out
 * in one zone as a whole or not at all, under one client token that every instance carries
 * (API_RunInstances.html, ec2-api-idempotency.html). CreateFleet would add nothing for one type in
 * one zone: its token is used up by an empty answer, it needs a launch template that has to be tidied
 * away, and its instances do not carry the token.
 */

#define GANG_MAX 1000

struct ganging {
	struct aws_run run;
	struct spot_instance *items;
	size_t n, cap;
	size_t lives; /* of them, not ended */
};

static bool lives(const struct spot_instance *i)
{
	return i->state == SPOT_INSTANCE_PENDING || i->state == SPOT_INSTANCE_RUNNING;
}

/* Gives back what runs of a gang that is not whole: the rest of a fleet of which some died before the
 * reply to a repeat, or a vendor that does not keep MinCount. */
static enum spot_step undo_send(struct aws *self, struct spot_call *c, const struct ganging *g)
{
	struct query q;
	size_t n = 0;

	query_begin(&q, c->arena, "TerminateInstances", EC2_VERSION);
	for (size_t i = 0; i < g->n; i++) {
		if (lives(&g->items[i]))
			query_addf(&q, g->items[i].ref, "InstanceId.%zu", ++n);
	}
	return query_send_ec2(&q, self, c, g->run.launch->key.region, "TerminateInstances",
	    AWS_LIMIT_TERMINATE, true);
}

static enum spot_step gang_failed(struct spot_call *c, const struct ganging *g)
{
	return call_fail(c, SPOT_NO_CAPACITY, "InsufficientInstanceCapacity",
	    "aws RunInstances: %zu of %zu machines came, they were given back", g->lives,
	    g->run.count);
}

static enum spot_step undo_reply(struct aws *self, struct spot_call *c, const struct ganging *g)
{
	const struct xml *doc;
	enum spot_step s =
	    aws_reply_xml(self, c, "TerminateInstances", "TerminateInstancesResponse", &doc);

	/* Whether they are gone is not known: the token finds them. */
	if (s == SPOT_FAIL)
		return call_fail(c, SPOT_UNKNOWN, c->err.code,
		    "aws RunInstances: only %zu of %zu machines came and giving them back failed: "
		    "%.200s",
		    g->lives, g->run.count, c->err.text);
	return s != SPOT_STEP_NONE ? s : gang_failed(c, g);
}

static enum spot_step gang_reply(
    struct aws *self, struct spot_call *c, struct ganging *g, struct spot_launch_gang *a)
{
	struct call_state *st = c->state;
	const struct xml *doc, *set;
	enum spot_step s = aws_reply_xml(self, c, "RunInstances", "RunInstancesResponse", &doc);

	if (s != SPOT_STEP_NONE)
		return s;
	set = xml_at(doc, "instancesSet");
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		g->items = arena_grow(c->arena, g->items, g->n, &g->cap, sizeof(*g->items));
		if (!aws_run_read(self, c, g->run.launch, i, &g->items[g->n]))
			return aws_bad_reply(c, "RunInstances", "an instance without instanceId");
		g->lives += lives(&g->items[g->n++]);
	}
	if (g->n == 0)
		return aws_bad_reply(c, "RunInstances", "no instance in it");
	if (g->lives == a->want && g->n == a->want) {
		a->instances = g->items;
		a->instances_n = g->n;
		return SPOT_DONE;
	}
	if (g->lives == 0)
		return gang_failed(c, g);
	st->at = AWS_AT_UNDO;
	return undo_send(self, c, g);
}

enum spot_step aws_launch_gang(void *p, struct spot_call *c, struct spot_launch_gang *a)
{
	struct aws *self = p;
	struct call_state *st = c->state;
	struct ganging *g;
	bool answered = false;
	enum spot_step s;

	if (st == NULL) {
		if (a->want < 1 || a->want > GANG_MAX)
			return call_fail(c, SPOT_INVALID, NULL,
			    "aws launch: a gang of %zu machines, not 1 to %d", a->want, GANG_MAX);
		s = aws_launch_check(self, c, &a->common);
		if (s != SPOT_STEP_NONE)
			return s;
		st = call_state_get(c, sizeof(*g));
		g = st->own;
		g->run.count = a->want;
		aws_launch_begin(self, st, &g->run, &a->common);
	}
	g = st->own;
	s = aws_launch_prepare(self, c, &g->run, &answered);
	if (s != SPOT_STEP_NONE)
		return s;
	if (st->at == AWS_AT_UNDO)
		return answered ? undo_reply(self, c, g) : undo_send(self, c, g);
	return answered ? gang_reply(self, c, g, a) : aws_run_send(self, c, &g->run);
}
