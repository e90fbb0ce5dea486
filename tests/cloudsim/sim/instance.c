/* Life of an instance: boot, reclaim, end, and its view in the control API. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

#include <search.h>

/* Terminated instances stay in lists for about an hour (DescribeInstances, EC2 API reference). */
#define LISTED_US SPOT_US_PER_HOUR

enum { RECLAIM_NONE = 0, RECLAIM_NOTICE_NEXT, RECLAIM_END_NEXT };

static int by_id(const void *a, const void *b)
{
	const struct inst *x = a, *y = b;

	return strcmp(x->id, y->id);
}

struct inst *inst_find(const struct sim *s, const char *id)
{
	struct inst key;
	void *const *found;
	char *copy = dup_text(id);

	key.id = copy;
	found = tfind(&key, (void *const *)&s->inst_tree, by_id);
	free(copy);
	return found ? *found : NULL;
}

static void boot_or_end(struct loop_timer *t);
static void reclaim_step(struct loop_timer *t);

struct inst *inst_new(struct sim *s, struct pool *p, enum side side, const char *id)
{
	struct inst *i = calloc(1, sizeof(*i));

	if (!i) {
		abort();
	}
	i->sim = s;
	i->seq = ++s->inst_seq;
	i->id = dup_text(id);
	i->cloud = p->cloud;
	i->pool = p;
	i->side = side;
	i->state = INST_PENDING;
	i->unreal = s->pretend;
	i->hop_limit = 1;
	i->launched_us = sim_wall(s);
	i->visible_us = i->launched_us + s->conf.lag_us;
	i->counted = true;
	p->used[side]++;
	s->alive++;
	snprintf(i->private_ip, sizeof(i->private_ip), "10.%d.%d.%d", (int)(i->seq >> 16 & 255),
	    (int)(i->seq >> 8 & 255), (int)(i->seq & 255));
	snprintf(i->ip, sizeof(i->ip), "198.18.%d.%d", (int)(i->seq >> 8 & 255),
	    (int)(i->seq & 255));
	loop_timer_init(&i->timer, s->loop, boot_or_end);
	loop_timer_init(&i->reclaim_timer, s->loop, reclaim_step);
	if (s->insts_last) {
		s->insts_last->next = i;
	} else {
		s->insts = i;
	}
	s->insts_last = i;
	if (!tsearch(i, &s->inst_tree, by_id)) {
		abort();
	}
	return i;
}

void inst_start(struct inst *i)
{
	if (i->unreal) {
		return;
	}
	books_event(i->sim, "launched", i, NULL);
	loop_timer_set(&i->timer, MAX(i->sim->conf.boot_us, 1));
}

/* ---- tags ------------------------------------------------------------------------------------ */

void inst_tag_set(struct inst_tag **tags, size_t *n, const char *key, const char *value)
{
	for (size_t k = 0; k < *n; k++) {
		if (str_same((*tags)[k].key, key)) {
			free((*tags)[k].value);
			(*tags)[k].value = dup_text(value);
			return;
		}
	}
	*tags = realloc(*tags, (*n + 1) * sizeof(**tags));
	if (!*tags) {
		abort();
	}
	(*tags)[(*n)++] = (struct inst_tag){ dup_text(key), dup_text(value) };
}

void inst_tag_unset(struct inst_tag **tags, size_t *n, const char *key, const char *value)
{
	for (size_t k = 0; k < *n; k++) {
		if (!str_same((*tags)[k].key, key) ||
		    (value && !str_same((*tags)[k].value, value))) {
			continue;
		}
		free((*tags)[k].key);
		free((*tags)[k].value);
		(*tags)[k] = (*tags)[--*n];
		return;
	}
}

const char *inst_tag(const struct inst *i, const char *key)
{
	for (size_t k = 0; k < i->tags_n; k++) {
		if (str_same(i->tags[k].key, key)) {
			return i->tags[k].value;
		}
	}
	return NULL;
}

/* ---- states ---------------------------------------------------------------------------------- */

const char *inst_state_name(const struct inst *i)
{
	switch (i->state) {
	case INST_PENDING:
		return "pending";
	case INST_RUNNING:
		return "running";
	case INST_STOPPED:
		return "stopped";
	case INST_UNHEALTHY:
		return "unhealthy";
	case INST_SHUTTING:
		return "shutting_down";
	case INST_GONE:
		return "gone";
	case INST_NONE:
		break;
	}
	return "?";
}

bool inst_listed(const struct inst *i)
{
	return i->state != INST_GONE || sim_clock(i->sim) - i->gone_sim_us < LISTED_US;
}

bool inst_visible(const struct inst *i)
{
	return inst_listed(i) && sim_wall(i->sim) >= i->visible_us;
}

static void inst_uncount(struct inst *i)
{
	if (!i->counted) {
		return;
	}
	i->counted = false;
	i->pool->used[i->side]--;
}

static void inst_gone(struct inst *i)
{
	if (i->state == INST_GONE) {
		return;
	}
	i->state = INST_GONE;
	i->gone_us = sim_wall(i->sim);
	i->gone_sim_us = sim_clock(i->sim);
	i->sim->alive--;
	books_event(i->sim, "terminated", i, NULL);
}

static void boot_or_end(struct loop_timer *t)
{
	struct inst *i = container_of(t, struct inst, timer);

	if (i->state == INST_PENDING) {
		i->state = INST_RUNNING;
		i->running_us = sim_wall(i->sim);
		books_event(i->sim, "running", i, NULL);
		if (i->sim->conf.agents && !i->agent_started && i->user_data_n > 2 &&
		    memcmp(i->user_data, "#!", 2) == 0) {
			agent_start(i);
		}
	} else if (i->state == INST_SHUTTING) {
		/* Gone means that nothing of it runs any more. */
		if (i->pid) {
			loop_timer_set(&i->timer, 20000);
		} else {
			inst_gone(i);
		}
	}
}

void inst_guest_off(struct inst *i)
{
	if (i->state != INST_RUNNING) {
		return;
	}
	if (cloud_ops(i->cloud)->guest_off) {
		cloud_ops(i->cloud)->guest_off(i);
	} else if (str_same(i->shutdown_behaviour, "terminate")) {
		inst_end(i, "guest", "Client.InstanceInitiatedShutdown",
		    "Client.InstanceInitiatedShutdown: Instance initiated shutdown");
	} else {
		i->state = INST_STOPPED;
		i->stopped_us = sim_wall(i->sim);
		books_event(i->sim, "stopped", i, NULL);
	}
}

void inst_stop(struct inst *i)
{
	if (i->state != INST_RUNNING && i->state != INST_PENDING && i->state != INST_UNHEALTHY) {
		return;
	}
	loop_timer_stop(&i->timer);
	loop_timer_stop(&i->reclaim_timer);
	i->reclaim_stage = RECLAIM_NONE;
	i->state = INST_STOPPED;
	i->stopped_us = sim_wall(i->sim);
	i->stop_done_us = i->stopped_us + i->sim->conf.terminate_us;
	inst_uncount(i);
	books_event(i->sim, "stopped", i, NULL);
	agent_kill(i);
	imds_close(i);
}

void inst_restart(struct inst *i)
{
	if (i->state != INST_STOPPED) {
		return;
	}
	i->spans = realloc(i->spans, (i->spans_n + 1) * sizeof(*i->spans));
	if (!i->spans) {
		abort();
	}
	i->spans[i->spans_n++] =
	    (struct inst_span){ i->running_us ? i->running_us : i->stopped_us, i->stopped_us };
	i->stopped_us = i->stop_done_us = i->running_us = 0;
	i->rebalance_us = i->notice_us = i->action_us = 0;
	i->reclaimed = false;
	i->state = INST_PENDING;
	if (!i->counted) {
		i->counted = true;
		i->pool->used[i->side]++;
	}
	books_event(i->sim, "launched", i, NULL);
	loop_timer_set(&i->timer, MAX(i->sim->conf.boot_us, 1));
}

void inst_revive(struct inst *i)
{
	if (i->state != INST_GONE) {
		return;
	}
	i->state = INST_STOPPED;
	i->stopped_us = i->billed_to_us;
	i->billed_to_us = i->gone_us = i->gone_sim_us = 0;
	i->ended_by = NULL;
	i->sim->alive++;
}

void inst_sir_set(struct inst *i, const char *state, const char *code, const char *message)
{
	if (!i->sir) {
		return;
	}
	free(i->sir_state);
	free(i->sir_code);
	free(i->sir_message);
	i->sir_state = dup_text(state);
	i->sir_code = dup_text(code);
	i->sir_message = dup_text(message);
	i->sir_us = sim_wall(i->sim);
}

void inst_end(struct inst *i, const char *ended_by, const char *code, const char *message)
{
	if (i->state == INST_SHUTTING || i->state == INST_GONE) {
		return;
	}
	if (i->sim->pretend) {
		i->pretended = i->state;
		i->state = INST_SHUTTING;
		return;
	}
	loop_timer_stop(&i->reclaim_timer);
	i->reclaim_stage = RECLAIM_NONE;
	i->ended_by = ended_by;
	free(i->reason_code);
	free(i->reason_message);
	i->reason_code = dup_text(code);
	i->reason_message = dup_text(message);
	if (i->sir && !str_prefix(i->sir_code ? i->sir_code : "", "instance-terminated-")) {
		inst_sir_set(i, "closed", "instance-terminated-by-user",
		    "Spot Instance terminated due to user-initiated termination.");
	}
	i->state = INST_SHUTTING;
	i->billed_to_us = i->stopped_us ? i->stopped_us : sim_wall(i->sim);
	inst_uncount(i);
	books_event(i->sim, "shutting_down", i, NULL);
	agent_kill(i);
	imds_close(i);
	loop_timer_set(&i->timer, MAX(i->sim->conf.terminate_us, 1));
}

static void inst_unmake(struct inst *i)
{
	struct sim *s = i->sim;

	if (cloud_ops(i->cloud)->event) {
		cloud_ops(i->cloud)->event(i, "unmade");
	}
	inst_uncount(i);
	s->alive--;
	(void)tdelete(i, &s->inst_tree, by_id);
	i->next = s->unmade;
	s->unmade = i;
}

void insts_pretended(struct sim *s)
{
	struct inst **at = &s->insts, *i;

	s->pretend = false;
	s->insts_last = NULL;
	while ((i = *at) != NULL) {
		if (i->unreal) {
			*at = i->next;
			inst_unmake(i);
			continue;
		}
		if (i->pretended != INST_NONE) {
			i->state = i->pretended;
		}
		i->pretended = INST_NONE;
		s->insts_last = i;
		at = &i->next;
	}
}

/* ---- reclaim --------------------------------------------------------------------------------- */

const char *inst_interruption(const struct inst *i)
{
	return i->persistent && i->behaviour ? i->behaviour : "terminate";
}

/* Its disk waits for the capacity to return; here for its owner's start. */
static void reclaim_stop(struct inst *i)
{
	inst_stop(i);
	inst_sir_set(i, "open",
	    i->by_price ? "instance-stopped-by-price" : "instance-stopped-no-capacity",
	    "Spot Instance stopped by the service.");
	free(i->reason_code);
	free(i->reason_message);
	i->reason_code = dup_text("Server.SpotInstanceShutdown");
	i->reason_message = dup_text("Server.SpotInstanceShutdown: Spot instance shutdown");
}

static void reclaim_end(struct inst *i)
{
	if (!str_same(inst_interruption(i), "terminate")) {
		reclaim_stop(i);
		return;
	}
	if (i->lent) {
		inst_end(i, "reclaim", NULL, NULL); /* no page names a state reason */
		return;
	}
	inst_sir_set(i, "closed",
	    i->by_price ? "instance-terminated-by-price" : "instance-terminated-no-capacity",
	    "Spot Instance terminated by the service.");
	inst_end(i, i->by_price ? "price" : "reclaim", "Server.SpotInstanceTermination",
	    "Server.SpotInstanceTermination: Spot instance termination");
}

/* The spot request's status flips at once, two minutes before the instance goes (EC2 User Guide,
 * "Spot request status"). */
static void reclaim_notice(struct inst *i)
{
	int64_t now = sim_wall(i->sim);

	i->notice_us = now;
	i->action_us = now + i->notice_len_us;
	if (!i->lent && str_same(inst_interruption(i), "terminate")) {
		inst_sir_set(i, "closed",
		    i->by_price ? "instance-terminated-by-price"
				: "instance-terminated-no-capacity",
		    "Spot Instance is marked for termination.");
	} else if (!i->lent) {
		inst_sir_set(i, "active", "marked-for-stop",
		    "Spot Instance is marked for stopping.");
	}
	books_event(i->sim, "notice", i, NULL);
	i->reclaim_stage = RECLAIM_END_NEXT;
	loop_timer_set(&i->reclaim_timer, i->notice_len_us);
}

static void reclaim_step(struct loop_timer *t)
{
	struct inst *i = container_of(t, struct inst, reclaim_timer);

	if (i->reclaim_stage == RECLAIM_NOTICE_NEXT) {
		reclaim_notice(i);
	} else if (i->reclaim_stage == RECLAIM_END_NEXT) {
		reclaim_end(i);
	}
}

void inst_reclaim(struct inst *i, int64_t notice_us, int64_t rebalance_before_us, bool by_price)
{
	if (i->reclaimed || i->state == INST_SHUTTING || i->state == INST_GONE) {
		return;
	}
	i->reclaimed = true;
	i->by_price = by_price;
	i->notice_len_us = notice_us;
	if (rebalance_before_us > 0) {
		i->rebalance_us = sim_wall(i->sim);
		i->reclaim_stage = RECLAIM_NOTICE_NEXT;
		books_event(i->sim, "rebalance", i, NULL);
		loop_timer_set(&i->reclaim_timer, rebalance_before_us);
	} else if (notice_us > 0) {
		reclaim_notice(i);
	} else {
		reclaim_end(i);
	}
}

void inst_quit_all(struct sim *s)
{
	for (struct inst *i = s->insts; i; i = i->next) {
		inst_end(i, "quit", "Server.InternalError", "The emulator ended.");
	}
}

/* ---- the end of the program ------------------------------------------------------------------ */

static void tags_free(struct inst_tag *tags, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		free(tags[k].key);
		free(tags[k].value);
	}
	free(tags);
}

static void inst_free(void *p)
{
	struct inst *i = p;
	char *texts[] = { i->id, i->maintenance, i->status, i->token, i->params_hash, i->name,
		i->hostname, i->image, i->key_name, i->user_data, i->reservation, i->subnet,
		i->security_group, i->profile, i->shutdown_behaviour, i->account, i->sir,
		i->sir_state, i->sir_code, i->sir_message, i->reason_code, i->reason_message,
		i->reason, i->home, i->behaviour, i->group };

	loop_timer_stop(&i->timer);
	loop_timer_stop(&i->reclaim_timer);
	imds_close(i);
	if (cloud_ops(i->cloud)->inst_free) {
		cloud_ops(i->cloud)->inst_free(i);
	}
	for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
		free(texts[k]);
	}
	tags_free(i->tags, i->tags_n);
	tags_free(i->volume_tags, i->volume_tags_n);
	tags_free(i->nic_tags, i->nic_tags_n);
	tags_free(i->sir_tags, i->sir_tags_n);
	free(i->spans);
	free(i);
}

void insts_free(struct sim *s)
{
	struct inst *next;

	tdestroy(s->inst_tree, inst_free);
	for (struct inst *i = s->unmade; i; i = next) {
		next = i->next;
		inst_free(i);
	}
	s->inst_tree = NULL;
	s->unmade = NULL;
	s->insts = s->insts_last = NULL;
}
