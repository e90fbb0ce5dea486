/* Rules about jobs, their programs and their checkpoints, and about the engine's account of their
 * ends. */
#include "sim/world/world.h"
#include "sim/check/check.h"
#include "sim/cloud/cloud.h"
#include "sim/host/host.h"
#include "sim/world/profiles.h"

/* ---- jobs and programs ----------------------------------------------------------------------- */

/* Two programs of one job may run for a while when one is cut off. Only one of them may act, and
 * one that is not cut off must be stopped. */
void check_programs(void)
{
	const struct host_progress *p;
	size_t n = host_programs(&p);

	for (size_t i = 0; i < n; i++) {
		for (size_t k = i + 1; k < n; k++) {
			if (p[i].alive && p[k].alive && strcmp(p[i].job, p[k].job) == 0) {
				sometimes("two programs of one job ran at once");
			}
			always(strcmp(p[i].job, p[k].job) != 0 || p[i].epoch != p[k].epoch ||
				p[i].rank != p[k].rank || p[i].host == p[k].host,
			    "one epoch runs on one machine", "%s epoch %" PRId64 " on %s and %s",
			    p[i].job, p[i].epoch, p[i].host, p[k].host);
			always(strcmp(p[i].job, p[k].job) != 0 || p[i].epoch != p[k].epoch ||
				p[i].rank != p[k].rank || p[i].host != p[k].host,
			    "an epoch runs once", "%s epoch %" PRId64 " began twice on %s",
			    p[i].job, p[i].epoch, p[i].host);
		}
	}
}

/* A program resumes from the checkpoint that was committed before its attempt was placed. */
static size_t seen; /* programs with a checked begin */

void check_progress_again(void)
{
	seen = 0;
}

void check_progress(void)
{
	const struct host_progress *p;
	size_t n = host_programs(&p);

	for (; seen < n; seen++) {
		char sql[600];
		int64_t steps;

		if (p[seen].begun_us == 0 && p[seen].alive) {
			return;
		}
		always(!p[seen].alien, "a program finds its own checkpoint",
		    "%s epoch %" PRId64 " rank %" PRId64 " found another's", p[seen].job,
		    p[seen].epoch, p[seen].rank);
		snprintf(sql, sizeof(sql),
		    "SELECT coalesce(max(c.steps), 0) FROM checkpoint c, attempt a WHERE c.job_id "
		    "= %s AND "
		    "a.job_id = c.job_id AND a.rank = c.rank AND a.rank = %" PRId64
		    " AND a.epoch = %" PRId64 " AND c.state = 'COMMITTED' "
		    "AND c.epoch < a.epoch AND CASE WHEN c.set_key IS NULL THEN c.committed_us "
		    "ELSE c.set_us END < a.created_us - %" PRId64,
		    p[seen].job + 1, p[seen].rank, p[seen].epoch, world.skew_max);
		steps = check_value_now(sql);
		if (steps > 0) {
			sometimes("a job went on from a checkpoint");
		}
		always(p[seen].begun_at >= steps,
		    "progress never goes back behind a committed checkpoint",
		    "%s epoch %" PRId64 " began at step %" PRId64 ", committed was %" PRId64,
		    p[seen].job, p[seen].epoch, p[seen].begun_at, steps);
	}
}

/* Each minute: the checkpoint that a job would resume from is whole, of a gang on all ranks. At the
 * end (all): every committed checkpoint is, since none is ever given up. */
void check_restorable(bool all)
{
	PGresult *r = all
	    ? check_rows("SELECT DISTINCT k.object_key, c.id, k.sha256 FROM checkpoint_chunk k "
			 "JOIN checkpoint c ON c.id = k.checkpoint_id "
			 "WHERE c.state = 'COMMITTED' ORDER BY 2, 1")
	    : check_rows("SELECT DISTINCT k.object_key, c.id, k.sha256 FROM checkpoint_chunk k "
			 "JOIN checkpoint c ON c.id = k.checkpoint_id "
			 "JOIN job j ON j.id = c.job_id JOIN checkpoint h ON h.id = "
			 "j.checkpoint_id WHERE c.state = 'COMMITTED' "
			 "AND (c.id = h.id OR (c.epoch = h.epoch AND c.set_key = h.set_key)) ORDER "
			 "BY 2, 1");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int i = 0; i < PQntuples(r); i++) {
		always(cloud_object(PQgetvalue(r, i, 0), PQgetvalue(r, i, 2)),
		    "every committed checkpoint can be restored", "c%s lacks %s",
		    PQgetvalue(r, i, 1), PQgetvalue(r, i, 0));
	}
	PQclear(r);
}

/* Nobody's URL may still put something there by then: an hour, in which nothing else happens, is
 * seen in few worlds. By a clock that was ahead it is hours more. */
bool check_disposes(void)
{
	return profile_is(PROFILE_DISPOSED) && world.skew_max < 600 * SPOT_US_PER_S;
}

void check_disposed(void)
{
	PGresult *r;

	if (!check_disposes()) {
		return;
	}
	check_rule("an abandoned checkpoint is deleted");
	r = check_rows(
	    "SELECT DISTINCT k.object_key, k.sha256, c.id FROM checkpoint_chunk k JOIN checkpoint "
	    "c ON c.id = k.checkpoint_id AND c.state = 'ABANDONED' "
	    "WHERE k.fresh AND c.urls_us IS NOT NULL AND NOT EXISTS (SELECT FROM checkpoint_chunk "
	    "o JOIN checkpoint oc ON oc.id = o.checkpoint_id "
	    "AND oc.state <> 'ABANDONED' WHERE o.object_key = k.object_key) ORDER BY 3, 1");
	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int i = 0; i < PQntuples(r); i++) {
		always(!cloud_object(PQgetvalue(r, i, 0), PQgetvalue(r, i, 1)),
		    "an abandoned checkpoint is deleted", "c%s has %s", PQgetvalue(r, i, 2),
		    PQgetvalue(r, i, 0));
	}
	PQclear(r);
	if (check_value("SELECT count(*) FROM checkpoint_chunk WHERE deleted_us IS NOT NULL") > 0) {
		sometimes("an abandoned checkpoint was deleted");
	}
	if (check_value(
		"SELECT count(*) FROM checkpoint_chunk k JOIN checkpoint c ON c.id = "
		"k.checkpoint_id AND c.state = 'ABANDONED' AND k.fresh AND c.urls_us IS NOT NULL "
		"WHERE EXISTS (SELECT FROM checkpoint_chunk o JOIN checkpoint oc ON oc.id = "
		"o.checkpoint_id AND oc.state <> 'ABANDONED' "
		"WHERE o.object_key = k.object_key)") > 0) {
		sometimes("of what was given up another had some");
	}
}

void check_checkpoints(void)
{
	check_rule("an epoch that is over commits nothing");
	check_rule("each rank goes on from its own checkpoint");
	check_rule("a checkpoint has all that its program saved");
	check_restorable(false);
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* Returns the machine that the attempt's program ran on. It may differ from the row's machine: a
 * launch can make a second machine, which enrols first although the cloud ended it. */
static const char *lost_on(const char *job, const char *epoch, const char *rank, const char *ref)
{
	const struct host_progress *p;
	const char *tail = strrchr(ref, '/');

	for (size_t n = host_programs(&p); n > 0; n--) {
		const struct host_progress *x = &p[n - 1];

		if (strcmp(x->job + 1, job) == 0 && x->epoch == strtoll(epoch, NULL, 10) &&
		    x->rank == strtoll(rank, NULL, 10)) {
			return x->host;
		}
	}
	return tail != NULL ? tail + 1 : ref;
}

/* The engine believes a loss on evidence: the instance is gone, or nobody hears of a machine that
 * is cut off. A cancelled attempt whose agent cannot be told is given up with its machine. */
void check_losses(void)
{
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);
	PGresult *r = check_rows("SELECT a.job_id, a.epoch, a.ended_us, n.ref, n.why, a.rank FROM "
				 "attempt a JOIN node n ON n.id = a.node_id "
				 "WHERE a.exit_reason = 'lost' AND n.ref IS NOT NULL AND NOT "
				 "EXISTS (SELECT 1 FROM job j WHERE j.id = a.job_id "
				 "AND j.cancel_us <= a.ended_us) ORDER BY 1, 2");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		const char *ref = lost_on(PQgetvalue(r, k, 0), PQgetvalue(r, k, 1),
		    PQgetvalue(r, k, 5), PQgetvalue(r, k, 3));
		int64_t ended = strtoll(PQgetvalue(r, k, 2), NULL, 10);

		for (size_t i = 0; i < n; i++) {
			if (strcmp(all[i].ref, ref) == 0 || strcmp(all[i].id, ref) == 0) {
				always((all[i].gone_us != 0 &&
					   all[i].gone_us <= ended + world.skew_max) ||
					host_was_cut(all[i].id),
				    "no healthy machine is given up",
				    "j%s epoch %s was called lost while %s ran: %s",
				    PQgetvalue(r, k, 0), PQgetvalue(r, k, 1), all[i].id,
				    PQgetvalue(r, k, 4));
			}
		}
	}
	PQclear(r);
	free(all);
}

/* Without faults nothing is ever lost, and no attempt is begun twice. */
void check_healthy(void)
{
	static const struct faults_mix none_of_them;

	if (memcmp(&world.conf.mix, &none_of_them, sizeof(none_of_them)) != 0) {
		return;
	}
	check_rule("a healthy job is never recovered");
}

/* Its programs were over in time, and it could not be told so: the machine was cut off. */
static bool ended_unheard(const char *job, int64_t by_us)
{
	const struct host_progress *p;
	size_t n = host_programs(&p), ran = 0;
	bool cut = false;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(p[i].job + 1, job) == 0) {
			if (p[i].alive || p[i].ended_us > by_us) {
				return false;
			}
			ran++;
			cut = cut || host_was_cut(p[i].host);
		}
	}
	return ran > 0 && cut;
}

/* A cancelled job does not go on. It may have reached its own end before the engine heard of the
 * cancel. */
void check_cancels(void)
{
	PGresult *r =
	    check_rows("SELECT id, state, cancel_us, ended_us FROM job WHERE cancel_us IS NOT NULL "
		       "AND state <> 'CANCELLED' AND ended_us IS NOT NULL ORDER BY id");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		int64_t cancel = strtoll(PQgetvalue(r, k, 2), NULL, 10),
			ended = strtoll(PQgetvalue(r, k, 3), NULL, 10);
		int64_t by = cancel + 600 * SPOT_US_PER_S + world.skew_max;

		always(ended <= by || ended_unheard(PQgetvalue(r, k, 0), by),
		    "a cancelled job does not go on", "j%s %s %" PRId64 " s after it was cancelled",
		    PQgetvalue(r, k, 0), PQgetvalue(r, k, 1), (ended - cancel) / SPOT_US_PER_S);
	}
	PQclear(r);
}

/* A job that succeeded did all its steps, and its checkpoint directory is stored: that is its
 * result. */
void check_results(void)
{
	check_rule("a job that succeeded did all its steps");
	check_rule("a job that succeeded ended well on all ranks");
	check_rule("a succeeded job's result is stored");
}
