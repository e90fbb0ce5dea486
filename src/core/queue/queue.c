/* Orders the waiting jobs, and words the reason of each place. */
#include "base/base.h"
#include "core/queue/queue.h"

#define URGENT_NEVER 3

void schedule_policy_default(struct schedule_policy *p)
{
	*p = (struct schedule_policy){ .age_every_us = 12 * SPOT_US_PER_HOUR,
		.age_points = 25,
		.age_max = 100,
		.preempt_gap = 100,
		.preempt_hold_us = SPOT_US_PER_HOUR,
		.share_half_life_us = SPOT_US_PER_HOUR * 24 * 7 };
}

int32_t schedule_effective(const struct schedule_policy *p, int32_t priority, int64_t queued_us,
    int64_t now_us)
{
	int64_t steps = p->age_every_us > 0 ? MAX(now_us - queued_us, 0) / p->age_every_us : 0;
	int64_t most = p->age_points > 0 ? p->age_max / p->age_points + 1 : 0;

	return priority + (int32_t)MIN(MIN(steps, most) * p->age_points, p->age_max);
}

static int32_t job_urgency(const struct schedule_job *j, int64_t now_us)
{
	static const int64_t bounds_us[] = { SPOT_US_PER_HOUR, 6 * SPOT_US_PER_HOUR,
		24 * SPOT_US_PER_HOUR };
	int64_t slack = j->deadline_us - now_us - j->left_us;

	for (int32_t i = 0; j->deadline_us != 0 && i < (int32_t)ARRAY_LEN(bounds_us); i++) {
		if (slack < bounds_us[i]) {
			return i;
		}
	}
	return URGENT_NEVER;
}

static const char *urgency_words(int32_t u)
{
	static const char *const words[] = { "less than 1h", "less than 6h", "less than a day",
		"a day or more" };

	return words[u];
}

double schedule_ratio(const struct schedule_team *teams, size_t n, size_t i)
{
	double spent = 0, weight = 0;

	for (size_t k = 0; k < n; k++) {
		spent += (double)MAX(teams[k].spent_micros, 0);
		weight += (double)MAX(teams[k].weight_pm, 1);
	}
	return spent <= 0 ? 0
			  : ((double)MAX(teams[i].spent_micros, 0) / spent) /
		((double)MAX(teams[i].weight_pm, 1) / weight);
}

/* ---- sorting --------------------------------------------------------------------------------- */

struct entry {
	const struct schedule_job *job;
	int32_t effective, urgency;
	size_t team;
	bool placed;
};
struct ordering {
	struct arena *arena;
	int64_t now_us;
	struct schedule_team *teams; /* a copy: its dollars include the jobs ahead */
	size_t teams_n;
	struct entry *list; /* sorted, except by team */
	size_t n;
};

/* Compares by the criteria before the teams' shares. */
static int rank_by(const struct entry *a, const struct entry *b)
{
	if (a->effective != b->effective) {
		return a->effective > b->effective ? -1 : 1;
	}
	return a->urgency != b->urgency ? (a->urgency < b->urgency ? -1 : 1) : 0;
}

static int entry_by(const void *x, const void *y)
{
	const struct entry *a = x, *b = y;
	int r = rank_by(a, b);

	if (r != 0) {
		return r;
	}
	if (a->job->queued_us != b->job->queued_us) {
		return a->job->queued_us < b->job->queued_us ? -1 : 1;
	}
	return a->job->id < b->job->id ? -1 : a->job->id > b->job->id;
}

static size_t team_of(struct ordering *o, const char *team)
{
	size_t i = 0;

	while (i < o->teams_n && strcmp(o->teams[i].team, team) != 0) {
		i++;
	}
	if (i == o->teams_n) {
		o->teams[o->teams_n++] = (struct schedule_team){ .team = team, .weight_pm = 1000 };
	}
	return i;
}

/* Returns whether a has used less of its share: spent / weight, compared without a division so that
 * equals stay equal. */
static bool team_is_poorer(const struct schedule_team *a, const struct schedule_team *b)
{
	return (double)a->spent_micros * (double)MAX(b->weight_pm, 1) <
	    (double)b->spent_micros * (double)MAX(a->weight_pm, 1);
}

/* Returns the oldest entry of the team that is owed most, among the equals in [from, to). */
static size_t next_of(const struct ordering *o, size_t from, size_t to)
{
	size_t best = SIZE_MAX;

	for (size_t i = from; i < to; i++) {
		const struct entry *e = &o->list[i];

		if (!e->placed &&
		    (best == SIZE_MAX ||
			team_is_poorer(&o->teams[e->team], &o->teams[o->list[best].team]))) {
			best = i;
		}
	}
	return best;
}

static const char *aged_words(const struct ordering *o, const struct entry *e)
{
	if (e->effective == e->job->priority) {
		return "";
	}
	/* Whole hours, so the words do not change on every pass. */
	return arena_printf(o->arena, " (%d, and %d for waiting %dh)", (int)e->job->priority,
	    (int)(e->effective - e->job->priority),
	    (int)((o->now_us - e->job->queued_us) / SPOT_US_PER_HOUR));
}

static const char *team_name(const struct ordering *o, const struct entry *e)
{
	return o->teams[e->team].team[0] != '\0' ? o->teams[e->team].team : "(none)";
}

/* ahead_ratio is that of the team ahead at the time of its choice. */
static const char *place_reason(const struct ordering *o, const struct entry *ahead,
    double ahead_ratio, const struct entry *e, double ratio)
{
	const struct schedule_job *b = ahead->job;

	if (ahead->effective != e->effective) {
		return arena_printf(o->arena,
		    "behind j%" PRId64 ": its priority is %d%s, this one's %d%s", b->id,
		    (int)ahead->effective, aged_words(o, ahead), (int)e->effective,
		    aged_words(o, e));
	}
	if (ahead->urgency != e->urgency) {
		return arena_printf(o->arena,
		    "behind j%" PRId64 ": its deadline leaves %s, this one's %s", b->id,
		    urgency_words(ahead->urgency),
		    e->job->deadline_us == 0 ? "is not given" : urgency_words(e->urgency));
	}
	if (ahead->team != e->team && ratio > ahead_ratio) {
		return arena_printf(o->arena,
		    "behind j%" PRId64 ": team %s used %.1f times its share, team %s %.1f times",
		    b->id, team_name(o, e), ratio, team_name(o, ahead), ahead_ratio);
	}
	return arena_printf(o->arena, "behind j%" PRId64 ": %s", b->id,
	    b->queued_us < e->job->queued_us ? "it waits for longer" : "it was submitted first");
}

static void group_place(struct ordering *o, size_t from, size_t to, const struct schedule_job *jobs,
    struct schedule_place *ret)
{
	for (size_t at = from; at < to; at++) {
		struct entry *e = &o->list[next_of(o, from, to)];
		double ratio = schedule_ratio(o->teams, o->teams_n, e->team);

		e->placed = true;
		ret[at] = (struct schedule_place){ .job = (size_t)(e->job - jobs),
			.effective = e->effective,
			.urgency = e->urgency,
			.ratio = ratio };
		o->teams[e->team].spent_micros += MAX(e->job->cost_micros, 0);
	}
}

/* Adds the reasons in order. Each compares with the job ahead, by the teams' dollars at the time of
 * that choice. */
static void words_add(struct ordering *o, const struct schedule_team *teams, size_t teams_n,
    const struct schedule_job *jobs, struct schedule_place *ret)
{
	const struct entry *ahead = NULL;
	struct entry *by_job = arena_array(o->arena, o->n + 1, sizeof(*by_job));

	for (size_t i = 0; i < o->n; i++) {
		by_job[o->list[i].job - jobs] = o->list[i];
	}
	for (size_t i = 0; i < o->teams_n; i++) {
		o->teams[i].spent_micros = i < teams_n ? teams[i].spent_micros : 0;
	}
	for (size_t i = 0; i < o->n; i++) {
		const struct entry *e = &by_job[ret[i].job];

		if (ahead == NULL) {
			ret[i].why =
			    arena_printf(o->arena, "first in the queue%s", aged_words(o, e));
		} else {
			ret[i].why = place_reason(o, ahead,
			    schedule_ratio(o->teams, o->teams_n, ahead->team), e,
			    schedule_ratio(o->teams, o->teams_n, e->team));
			o->teams[ahead->team].spent_micros += MAX(ahead->job->cost_micros, 0);
		}
		ahead = e;
	}
}

void schedule_order(struct arena *a, const struct schedule_policy *p, int64_t now_us,
    const struct schedule_team *teams, size_t teams_n, const struct schedule_job *jobs, size_t n,
    struct schedule_place *ret)
{
	struct ordering o = { .arena = a,
		.now_us = now_us,
		.teams = arena_array(a, teams_n + n + 1, sizeof(*o.teams)),
		.teams_n = teams_n,
		.list = arena_array(a, n + 1, sizeof(*o.list)),
		.n = n };

	if (teams_n > 0) {
		memcpy(o.teams, teams, teams_n * sizeof(*teams));
	}
	for (size_t i = 0; i < n; i++) {
		o.list[i] = (struct entry){ .job = &jobs[i],
			.effective =
			    schedule_effective(p, jobs[i].priority, jobs[i].queued_us, now_us),
			.urgency = job_urgency(&jobs[i], now_us),
			.team = team_of(&o, jobs[i].team) };
	}
	qsort(o.list, n, sizeof(*o.list), entry_by);
	for (size_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && rank_by(&o.list[from], &o.list[to]) == 0; to++) {
		}
		group_place(&o, from, to, jobs, ret);
	}
	words_add(&o, teams, teams_n, jobs, ret);
}
