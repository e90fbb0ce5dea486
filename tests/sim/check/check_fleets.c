/* Rules about fleets that move and change their size, about bursts and recoveries. */
#include "sim/check/check.h"
#include "sim/users/work.h"
#include "sim/world/world.h"

#include "base/base.h"

/* History stays in the rows, so it is looked at seldom. */
#define HISTORY_MINUTES 15

static void check_moves_history(void)
{
	check_rule("a fleet moves no more nodes at once than its file allows");
	check_rule("a fleet begins no more moves in an hour than its file allows");
	check_rule("a move of a fleet pays");
	check_rule("a node of a fleet is not moved again at once");
	check_rule("the size of a fleet is from min to max");
	check_rule("the size of a fleet falls with the nodes that leave");
	check_rule("a fleet gives back what was idle for its time");
}

static void check_history(void)
{
	if (work_fleets() > 0) {
		check_moves_history();
	}
	check_rule("a save that a burst asks for is worth its time");
	check_rule("the phases of a recovery are in order");
	check_rule("each notice and each loss of an attempt has its recovery");
	check_rule("a recovery has a cause");
	check_rule("the sums of recoveries equal their rows");
}

void check_fleets(void)
{
	static int64_t minutes;

	if (work_fleets() > 0) {
		check_rule("a demand counts until its time is over");
		check_rule("a fleet ends when it expires");
	}
	if (++minutes % HISTORY_MINUTES == 0) {
		check_history();
	}
}

void check_fleets_end(void)
{
	check_history();
}

static void state_note(const char *name, const char *sql)
{
	if (check_value(sql) > 0) {
		sometimes(name);
	}
}

void check_fleets_seen(void)
{
	if (work_fleets() == 0) {
		return;
	}
	state_note("a node of a fleet moved back to spot",
	    "SELECT count(*) FROM decision d JOIN node n ON n.id = d.node_id WHERE d.kind = "
	    "'return' AND d.inputs ? 'fleet' AND n.ready_us IS NOT NULL");
	state_note("a node of a fleet left a dear pool",
	    "SELECT count(*) FROM decision d JOIN node n ON n.id = d.node_id WHERE d.kind = "
	    "'rebalance' AND d.inputs ? 'fleet' AND n.ready_us IS NOT NULL");
	state_note("a job went on after its node of a fleet moved",
	    "SELECT count(*) FROM attempt a JOIN node o ON o.id = a.node_id JOIN node n ON "
	    "n.replaces_id = o.id AND n.fleet_id = o.fleet_id JOIN attempt b ON b.node_id = n.id "
	    "AND b.job_id = a.job_id AND b.epoch > a.epoch WHERE b.started_us IS NOT NULL");
	state_note("a fleet went to zero and came back",
	    "SELECT count(*) FROM event a JOIN event b ON b.entity_id = a.entity_id AND b.id > "
	    "a.id "
	    "WHERE a.entity = 'fleet' AND b.entity = 'fleet' AND a.event = 'SIZE' AND b.event = "
	    "'SIZE' AND a.now = '0' AND b.now <> '0'");
	state_note("a demand made a fleet larger",
	    "SELECT count(*) FROM decision WHERE kind = 'fleet_size' AND outcome->>'rule' = "
	    "'demand'");
	state_note("a fleet expired",
	    "SELECT count(*) FROM event WHERE entity = 'fleet' AND event = 'EXPIRED'");
}
