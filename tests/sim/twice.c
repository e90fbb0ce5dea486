/*
 * A statement that moves rows on says what they were, so that one that comes a second time (its reply was lost, another had
 * decided the same) changes nothing. That seldom happens by chance; in some seeds each is tried, right after it had an effect, in a
 * transaction that is rolled back.
 */
#include "base/base.h"
#include "world.h"
#include "base/str.h"
#include "io/pg_priv.h"
#include "store.h"
#include "twice.h"

#define TRIES_EVERY 8 /* seeds */
#define TRIES_MOST  16

static struct {
	const char *name;
	int tried;
} moves[] = {{"engine_node_move", 0}, {"engine_job_move", 0}, {"engine_assign", 0}, {"engine_gang_assign", 0}, {"engine_want_for_job", 0},
    {"engine_want_for_fleet", 0}, {"engine_gang_want", 0}, {"engine_gang_refill", 0}, {"engine_gang_release", 0}, {"engine_launch_claim", 0},
    {"engine_launch_refused", 0}, {"engine_launch_undone", 0}, {"engine_node_exists", 0}, {"engine_attempt_settle", 0},
    {"engine_attempt_shut", 0}, {"engine_gang_settle", 0}, {"engine_bill_write", 0}, {"engine_lost_write", 0}, {"engine_credit_write", 0},
    {"engine_notice_handle", 0}, {"engine_mint_put", 0}, {"engine_fleet_closed", 0}, {"engine_preempt", 0}};

static bool is_due(const struct pg_stmt *s)
{
	for (size_t i = 0; i < ARRAY_LEN(moves); i++) {
		if (str_same(moves[i].name, s->name))
			return moves[i].tried++ < TRIES_MOST;
	}
	return false;
}

static void must(const char *sql)
{
	PGresult *r = PQexec(store_conn(), sql);

	assert(PQresultStatus(r) == PGRES_COMMAND_OK);
	PQclear(r);
}

/* A row that is there already (its token) is no change either. */
static void judge(const struct pg_stmt *s, const PGresult *r)
{
	always(PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) == 0, "what comes a second time changes nothing", "%s", s->name);
}

void twice_try(const struct pg_stmt *s, const struct pg_item *i, const PGresult *first)
{
	PGresult *r;

	if (world.conf.seed % TRIES_EVERY != 1 || PQresultStatus(first) != PGRES_TUPLES_OK || PQntuples(first) == 0 || !is_due(s))
		return;
	must("BEGIN");
	r = PQexecPrepared(store_conn(), s->name, s->params_n, i->values, i->lengths, i->formats, 1);
	judge(s, r);
	PQclear(r);
	must("ROLLBACK");
}

void twice_break(void)
{
	static const struct pg_stmt s = {.name = "engine_preempt"};
	PGresult *r = PQexec(store_conn(), "SELECT 1");

	judge(&s, r);
	PQclear(r);
}
