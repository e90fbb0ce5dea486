/*
 * Rules about money beyond single lines. The price of a line is in the pool's rows. A reversal
 * reverses that line, once. Work is lost from the last checkpoint on. The cloud does not bill the
 * time that we credit.
 */
#include "sim/world/world.h"
#include "sim/check/check.h"
#include "sim/cloud/cloud.h"
#include "sim/store/sim_store.h"

#include "base/text/text.h"

/* A line names the row of its price. If no clock and no daemon stood still, it was the newest row
 * for its time that had been stored for a minute. */
static void check_prices(void)
{
	check_rule("a price is the pool's");
	if (world.skew_max == 0 && !world.stood) {
		check_rule("a price is the newest");
	}
}

/* Each minute times that have not come yet become now, and no daemon's clock is wrong any more:
 * until then no newer price would count. */
static void check_prices_dated(void)
{
	if (world_now() < world.quiet_us + 150 * SPOT_US_PER_S) {
		return;
	}
	check_rule("no price is of a time to come");
}

static void check_reversals(void)
{
	check_rule("a reversal takes one line back");
	check_rule("lost work is billed as well");
	check_rule("work is lost from the last checkpoint on");
}

/* Soon after an attempt was lost, its time since its last checkpoint is not called work any more,
 * but for credited time. */
static void check_lost(void)
{
	check_rule("lost work is booked as lost");
}

/* A cloud that bills a machine gives nothing back for it. */
static void check_credits(void)
{
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);
	PGresult *r = check_rows("SELECT n.id, n.ref FROM node n WHERE EXISTS (SELECT FROM ledger "
				 "l WHERE l.node_id = n.id AND l.kind = 'credit') ORDER BY 1");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		for (size_t i = 0; i < n; i++) {
			if (strcmp(all[i].ref, PQgetvalue(r, k, 1)) == 0) {
				always(all[i].free && str_same(all[i].ended_by, "reclaim"),
				    "billed time is not credited",
				    "n%s was credited, %s was ended by %s%s", PQgetvalue(r, k, 0),
				    all[i].id, all[i].ended_by,
				    all[i].free ? "" : ", and is billed");
			}
		}
		sometimes("a machine was credited");
	}
	PQclear(r);
	free(all);
}

/* Also lines that were booked anew in between, such as lost work. */
static void check_credited_whole(void)
{
	check_rule("a credit takes back all of it");
}

/* The kind of each line. A job's time on a machine is compute, and no other time is. An idle
 * machine of a fleet is nobody's job. Decisions taken meanwhile may be half a minute late. */
static void check_kinds(void)
{
	if (world.skew_max != 0 || world.stood) {
		return;
	}
	check_rule("a line is of what the machine did");
	check_rule("a line is the team's");
}

/* EC2 ended it within its first hour, whatever else was asked of it then. Soon after it is
 * credited. By a clock that was set back it may have ended before it began: then nothing was
 * billed. */
static void check_uncredited(void)
{
	char sql[500];
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);
	PGresult *r;

	snprintf(sql, sizeof(sql),
	    "SELECT n.id, n.ref FROM node n JOIN pool p ON p.id = n.pool_id WHERE p.provider = "
	    "'aws' AND p.market = 'spot' AND n.state = 'GONE' "
	    "AND n.ended_us - n.launched_us BETWEEN 1 AND 3599999999 AND n.ended_us < %" PRId64
	    " AND NOT EXISTS (SELECT FROM ledger l WHERE l.node_id = n.id AND l.kind = 'credit')",
	    world_now() - 300 * SPOT_US_PER_S - world.skew_max);
	r = PQexec(store_conn(), sql);
	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		for (size_t i = 0; i < n; i++) {
			always(strcmp(all[i].ref, PQgetvalue(r, k, 1)) != 0 ||
				!str_same(all[i].ended_by, "reclaim"),
			    "unbilled time is credited", "n%s is not, %s was ended by %s",
			    PQgetvalue(r, k, 0), all[i].id, all[i].ended_by);
		}
	}
	PQclear(r);
	free(all);
}

/* A life in the rows may be off while nobody looked, nobody answered, or the clock was wrong. The
 * size of the clock's error is no excuse: the engine corrects a life before it bills it. Only a
 * leader that still leads corrects a life that lies too early. */
#define LIFE_OFF_US (2400 * SPOT_US_PER_S)

static void check_lives(void)
{
	struct cloud_instance *all;
	size_t n = cloud_instances(&all);
	int64_t early = check_value("SELECT count(*) FROM led") == 1 ? LIFE_OFF_US : INT64_MAX;
	PGresult *r = check_rows("SELECT id, ref, launched_us, ended_us FROM node WHERE ref IS NOT "
				 "NULL AND launched_us IS NOT NULL AND state = 'GONE' ORDER BY 1");

	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		const char *ref = PQgetvalue(r, k, 1), *tail = strrchr(ref, '/');
		int64_t began = strtoll(PQgetvalue(r, k, 2), NULL, 10),
			ended = strtoll(PQgetvalue(r, k, 3), NULL, 10);

		for (size_t i = 0; i < n; i++) {
			if (!str_same(all[i].ref, tail != NULL ? tail + 1 : ref) ||
			    all[i].over_us == 0) {
				continue;
			}
			always(began - all[i].launched_us <= LIFE_OFF_US &&
				ended - all[i].over_us <= LIFE_OFF_US &&
				all[i].launched_us - began <= early &&
				all[i].over_us - ended <= early,
			    "a life is its machine's, whatever a clock said",
			    "n%s began %" PRId64 " s and ended %" PRId64 " s after %s %s did",
			    PQgetvalue(r, k, 0), (began - all[i].launched_us) / SPOT_US_PER_S,
			    (ended - all[i].over_us) / SPOT_US_PER_S, all[i].cloud, all[i].id);
		}
	}
	PQclear(r);
	free(all);
}

/* Our charge for the cloud's interval, which lies within ours, at the cloud's prices. It equals the
 * cloud's bill but for a micro-dollar a line and prices that were heard late. Other rules judge
 * wrong clocks. */
static const char ours[] =
    "SELECT coalesce(sum(l.price_micros::numeric * (least(l.to_us, $3) - greatest(l.from_us, $2)) "
    "/ 3600000000), 0)::int8, count(*) FROM ledger l "
    "WHERE l.node_id = $1 AND l.from_us < $3 AND l.to_us > $2 AND l.reverses IS NULL AND NOT "
    "EXISTS (SELECT FROM ledger x WHERE x.reverses = l.id AND x.kind <> 'credit')";

static void check_bill(const char *node, int64_t began, int64_t ended,
    const struct cloud_instance *i)
{
	static const char rule[] = "a machine costs what its cloud bills";
	char from[24], to[24];
	const char *params[] = { node, from, to };
	int64_t us = i->bill_to_us - i->bill_from_us, have, lines;
	PGresult *r;

	always(began <= i->bill_from_us && ended >= i->bill_to_us, rule,
	    "n%s lived %" PRId64 " to %" PRId64 " s, %s is billed %" PRId64 " to %" PRId64 " s",
	    node, (began - SIM_T0) / SPOT_US_PER_S, (ended - SIM_T0) / SPOT_US_PER_S, i->id,
	    (i->bill_from_us - SIM_T0) / SPOT_US_PER_S, (i->bill_to_us - SIM_T0) / SPOT_US_PER_S);
	snprintf(from, sizeof(from), "%" PRId64, i->bill_from_us);
	snprintf(to, sizeof(to), "%" PRId64, i->bill_to_us);
	r = PQexecParams(store_conn(), ours, 3, NULL, params, NULL, NULL, 0);
	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	have = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
	lines = strtoll(PQgetvalue(r, 0, 1), NULL, 10) + 1;
	always(have >= (int64_t)((__int128)us * i->least_micros / SPOT_US_PER_HOUR) - lines &&
		have <= (int64_t)((__int128)us * i->most_micros / SPOT_US_PER_HOUR) + lines,
	    rule, "n%s: %" PRId64 " micro-dollars, %s is billed %" PRId64, node, have, i->id,
	    i->cost_micros);
	if (i->least_micros == i->most_micros) {
		always(llabs(have - i->cost_micros) <= lines, rule,
		    "n%s: %" PRId64 " micro-dollars, %s is billed %" PRId64, node, have, i->id,
		    i->cost_micros);
	}
	PQclear(r);
}

static void check_bills(void)
{
	struct cloud_instance *all;
	size_t n;
	PGresult *r;

	if (world.skew_max != 0) {
		return;
	}
	n = cloud_instances(&all);
	r = check_rows("SELECT n.id, n.ref, n.launched_us, n.ended_us FROM node n JOIN pool p ON "
		       "p.id = n.pool_id WHERE n.ref IS NOT NULL AND n.launched_us IS NOT NULL "
		       "AND n.state = 'GONE' AND p.provider <> 'coreweave' ORDER BY 1");
	assert(PQresultStatus(r) == PGRES_TUPLES_OK);
	for (int k = 0; k < PQntuples(r); k++) {
		const char *ref = PQgetvalue(r, k, 1), *tail = strrchr(ref, '/');

		for (size_t i = 0; i < n; i++) {
			if (str_same(all[i].ref, tail != NULL ? tail + 1 : ref) &&
			    all[i].bill_to_us > all[i].bill_from_us) {
				check_bill(PQgetvalue(r, k, 0),
				    strtoll(PQgetvalue(r, k, 2), NULL, 10),
				    strtoll(PQgetvalue(r, k, 3), NULL, 10), &all[i]);
			}
		}
	}
	PQclear(r);
	free(all);
}

/* Clouds that serve a launch twice, and messages that come twice or are sent again, are faults. */
static void check_doubles(void)
{
	const struct faults_mix *m = &world.conf.mix;

	if (m->lie + m->lie_act + m->launch_twice + m->act_lost + m->net_lost + m->net_reset +
		m->net_reply_lost + m->net_twice + m->net_slow ==
	    0) {
		always(cloud_double_launches() == 0, "a launch makes its machines once",
		    "%zu were made twice", cloud_double_launches());
	}
}

void check_money_end(void)
{
	check_doctor();
	check_lives();
	check_bills();
	check_doubles();
	check_kinds();
	check_uncredited();
	check_prices();
	check_prices_dated();
	check_reversals();
	check_lost();
	check_credits();
	check_credited_whole();
}

/* ---- sums ------------------------------------------------------------------------------------ */

void check_ledger(void)
{
	check_rule("no interval is billed twice");
	check_rule("an amount is its interval times its price");
	check_rule("bills lie within the machine's life");
}

void check_ledger_end(void)
{
	check_rule("every machine's life is billed whole");
}
