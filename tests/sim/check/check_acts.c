/* Rules about acts: of a launch when it leaves, of an attempt once it is over. */
#include "sim/world/world.h"
#include "sim/check/check.h"
#include "sim/cloud/cloud.h"
#include "sim/net/net.h"
#include "sim/store/sim_store.h"

#include "base/text/text.h"

/* ---- launches -------------------------------------------------------------------------------- */

/* A cloud without launch tokens makes another machine for each launch that it hears: the engine
 * must not repeat one. */
static void check_untokened(const char *url, struct str body)
{
	struct cloud_instance *all;
	size_t n;

	if (strstr(url, "/instance-operations/launch") == NULL) {
		return;
	}
	n = cloud_instances(&all);
	for (size_t i = 0; i < n; i++) {
		if (str_same(all[i].cloud, "lambda") && all[i].token != NULL) {
			always(memmem(body.p, body.n, all[i].token, strlen(all[i].token)) == NULL,
			    "a launch without a token is not sent again", "%s was made by it",
			    all[i].id);
		}
	}
	free(all);
}

#define LAMBDA_LAUNCH_US (12 * SPOT_US_PER_S)
/* A launch waits for its turn among launches, then among all requests (one a second). The second
 * wait brings it that much nearer to the next launch. */
#define LAMBDA_TURN_US (2 * SPOT_US_PER_S)

/* A launch leaves at its turn, without waiting. A slow database brings it nearer to the next
 * launch, but not to the same moment. */
static bool goes_at_once(void)
{
	const struct faults_mix *m = &world.conf.mix;

	return m->db_slow + m->db_lost_before + m->db_lost_after + m->copy_lost + m->pause +
	    m->pause_claim + m->crash ==
	    0;
}

/* Lambda takes one launch in twelve seconds. Each daemon keeps to it by itself, however the shared
 * count is; one that has just started knows of none. */
static void check_hurry(const char *from, const char *url)
{
	static struct {
		const char *from;
		int64_t at_us, restarts;
	} last[8];
	size_t k = 0;

	if (strstr(url, "/instance-operations/launch") == NULL || world.stood) {
		return;
	}
	while (k < ARRAY_LEN(last) - 1 && last[k].from != NULL && !str_same(last[k].from, from)) {
		k++;
	}
	always(last[k].from == NULL || last[k].restarts != world.restarts ||
		world_now() >= last[k].at_us +
			(goes_at_once() ? LAMBDA_LAUNCH_US - LAMBDA_TURN_US : SPOT_US_PER_S / 2),
	    "a cloud is not asked more often than it allows",
	    "%s launches at Lambda %" PRId64 " ms after it did so", from,
	    (world_now() - last[k].at_us) / 1000);
	last[k].from = from;
	last[k].at_us = world_now();
	last[k].restarts = world.restarts;
}

/* The intent comes before the act: a message with a row's token or name leaves after that row was
 * claimed. */
void check_sent(const char *from, const char *url, struct str body)
{
	const char *text;
	char *copy;
	PGresult *r;

	if (!act_is_launch(url, body)) {
		return;
	}
	check_hurry(from, url);
	check_untokened(url, body);
	text = copy = strndup(body.p, body.n);
	assert(copy != NULL);
	r = PQexecParams(store_conn(),
	    "SELECT id, state, launch_sent_us IS NOT NULL AND state <> 'WANTED' FROM node "
	    "WHERE position(token IN $1) > 0 OR position(name IN $1) > 0 ORDER BY id",
	    1, NULL, &text, NULL, NULL, 0);
	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	always(PQntuples(r) > 0, "a launch leaves after its row was claimed",
	    "no row has the token of a launch");
	for (int i = 0; i < PQntuples(r); i++) {
		always(PQgetvalue(r, i, 2)[0] == 't', "a launch leaves after its row was claimed",
		    "n%s is %s", PQgetvalue(r, i, 0), PQgetvalue(r, i, 1));
	}
	PQclear(r);
	free(copy);
}

/* ---- epochs that are over -------------------------------------------------------------------- */

#define ENDS_MAX 512
static struct end {
	char key[64], how[160];
	int64_t at_us, seen_us; /* by the row; when it was seen first */
} ends[ENDS_MAX];
static size_t ends_n;

static struct end *end_of(const char *key)
{
	for (size_t i = 0; i < ends_n; i++) {
		if (strcmp(ends[i].key, key) == 0) {
			return &ends[i];
		}
	}
	return NULL;
}

/* An end that a clock dated which was wrong is put right: it comes nearer to the minute in which it
 * was seen. */
static bool put_right(struct end *e, int64_t at_us)
{
	if (llabs(at_us - e->seen_us) >= llabs(e->at_us - e->seen_us) || world.skew_max == 0) {
		return false;
	}
	sometimes("an end that a wrong clock dated was put right");
	e->at_us = at_us;
	return true;
}

/* The job resumed from the settled result, so nothing that is heard later changes it. */
void check_ended(void)
{
	PGresult *r = check_rows(
	    "SELECT job_id || '/' || epoch || '/' || rank, concat_ws(' ', exit_reason, exit_code, "
	    "exit_signal, steps_done), ended_us IS NULL AND epoch < (SELECT epoch FROM job WHERE "
	    "id = job_id), settled, coalesce(ended_us, 0) "
	    "FROM attempt ORDER BY job_id, epoch, rank");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int i = 0; i < PQntuples(r); i++) {
		const char *key = PQgetvalue(r, i, 0), *how = PQgetvalue(r, i, 1);
		int64_t at = strtoll(PQgetvalue(r, i, 4), NULL, 10);
		struct end *e = end_of(key);

		always(PQgetvalue(r, i, 2)[0] != 't', "only the newest epoch of a job is live",
		    "j%s has no end", key);
		if (e == NULL && PQgetvalue(r, i, 3)[0] == 't' && ends_n < ENDS_MAX) {
			e = &ends[ends_n++];
			snprintf(e->key, sizeof(e->key), "%s", key);
			snprintf(e->how, sizeof(e->how), "%s", how);
			e->at_us = at;
			e->seen_us = world_now();
		}
		always(e == NULL ||
			(strcmp(e->how, how) == 0 && (e->at_us == at || put_right(e, at))),
		    "the end of an epoch stays", "j%s was '%s', is '%s', %" PRId64 " s later", key,
		    e != NULL ? e->how : "", how, e != NULL ? (at - e->at_us) / SPOT_US_PER_S : 0);
	}
	PQclear(r);
}

/* ---- time to boot ---------------------------------------------------------------------------- */

/* No clock makes it shorter, and no cloud's is shorter than the setting of broker.c. It is looked
 * at once a minute. */
#define BOOT_US (600 * SPOT_US_PER_S)

static int64_t launched_us_of(const struct cloud_instance *all, size_t n, const char *ref)
{
	const char *tail = strrchr(ref, '/');

	for (size_t i = 0; i < n; i++) {
		if (str_same(all[i].ref, tail != NULL ? tail + 1 : ref) && !all[i].server) {
			return all[i].launched_us;
		}
	}
	return 0;
}

void check_boots(void)
{
	PGresult *r = check_rows("SELECT n.id, n.ref FROM event e JOIN node n ON n.id = e.node_id "
				 "WHERE e.event = 'BOOT_TIMEOUT' AND n.ref IS NOT NULL "
				 "AND n.state = 'TERMINATING' ORDER BY e.id");
	struct cloud_instance *all;
	size_t n;

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	if (PQntuples(r) > 0) {
		n = cloud_instances(&all);
		for (int i = 0; i < PQntuples(r); i++) {
			int64_t since = launched_us_of(all, n, PQgetvalue(r, i, 1));

			always(since == 0 || world_now() - since >= BOOT_US,
			    "a machine has its time to boot",
			    "n%s was given up after %" PRId64 " s", PQgetvalue(r, i, 0),
			    (world_now() - since) / SPOT_US_PER_S);
		}
		free(all);
	}
	PQclear(r);
}
