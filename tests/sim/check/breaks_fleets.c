/* How each rule about fleets, bursts and recoveries is broken (breaks.c). */
#include "sim/check/check.h"

const struct rule_break breaks_fleets[] = {
	{ "a fleet is not larger than it was asked to be",
	    "UPDATE node SET state = 'READY', gang_id = NULL, fleet_id = (SELECT min(id) FROM "
	    "fleet), replaces_id = NULL",
	    NULL },
	{ "a node of a fleet has one replacement",
	    "UPDATE node SET state = 'READY', job_id = NULL, gang_id = NULL, "
	    "fleet_id = (SELECT min(id) FROM fleet), replaces_id = (SELECT min(id) FROM node)",
	    NULL },
	{ "a node of a fleet leaves for one that is ready",
	    "UPDATE node SET fleet_id = (SELECT min(id) FROM fleet), replaces_id = NULL; UPDATE "
	    "event SET event = 'DRAIN_ASKED', actor = 'engine' WHERE node_id IS NOT NULL",
	    NULL },
	{ "a fleet gives nothing back while its size stays",
	    "UPDATE fleet SET updated_us = created_us; UPDATE node SET fleet_id = (SELECT min(id) "
	    "FROM fleet); UPDATE event SET event = 'RELEASE', why = 'more than the fleet wants' "
	    "WHERE node_id IS NOT NULL",
	    NULL },
	{ "a fleet moves no more nodes at once than its file allows",
	    "UPDATE fleet SET spec = jsonb_set(spec, '{rebalance,at_once}', '0')", NULL },
	{ "a fleet begins no more moves in an hour than its file allows",
	    "UPDATE fleet SET spec = jsonb_set(spec, '{rebalance,per_hour}', '0')", NULL },
	{ "a move of a fleet pays",
	    "UPDATE decision SET inputs = jsonb_set(inputs, '{move,saving_micros}', '0') WHERE "
	    "inputs ? 'fleet' AND inputs ? 'move'",
	    NULL },
	{ "a node of a fleet is not moved again at once",
	    "UPDATE node SET ready_us = 9000000000000000", NULL },
	{ "the size of a fleet is from min to max",
	    "UPDATE decision SET outcome = jsonb_set(outcome, '{size}', '99') WHERE kind = "
	    "'fleet_size'",
	    NULL },
	{ "the size of a fleet falls with the nodes that leave",
	    "UPDATE decision SET outcome = outcome || '{\"size\": -9, \"was\": 9}' WHERE kind = "
	    "'fleet_size'",
	    NULL },
	{ "a demand counts until its time is over",
	    "UPDATE fleet SET size_seen = jsonb_set(size_seen, '{need}', '99'), size_rule = "
	    "'demand', demand = 0, demand_us = 0 WHERE size_seen IS NOT NULL",
	    NULL },
	{ "a fleet gives back what was idle for its time",
	    "UPDATE node SET idle_since_us = 9000000000000000", NULL },
	{ "a fleet ends when it expires",
	    "UPDATE fleet SET state = 'ACTIVE', spec = jsonb_set(spec, '{scaling}', "
	    "'{\"expires_us\": 1, \"expires_after_us\": 0}')",
	    NULL },
	{ "a save that a burst asks for is worth its time",
	    "UPDATE decision SET outcome = jsonb_set(outcome, '{loss_micros}', '0') WHERE kind = "
	    "'burst_save'",
	    NULL },
	{ "the phases of a recovery are in order",
	    "UPDATE recovery SET committed_us = notice_us - 1", NULL },
	{ "each notice and each loss of an attempt has its recovery", "DELETE FROM recovery",
	    NULL },
	{ "a recovery has a cause",
	    "UPDATE recovery SET cause = 'loss'; UPDATE attempt SET exit_reason = 'drained'",
	    NULL },
	{ "the sums of recoveries equal their rows", "UPDATE recovery_sum SET n = n + 1", NULL },
};
const size_t breaks_fleets_n = sizeof(breaks_fleets) / sizeof(breaks_fleets[0]);
