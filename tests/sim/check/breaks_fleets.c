/* How each rule about moves of fleets is broken (breaks.c). */
#include "sim/check/check.h"

const struct rule_break breaks_fleets[] = {
	{ "a fleet is not larger than it was asked to be",
	    "UPDATE node SET state = 'READY', gang_id = NULL, fleet_id = (SELECT min(id) FROM "
	    "fleet), replaces_id = NULL",
	    NULL },
	{ "a node of a fleet has one replacement",
	    "DROP INDEX node_fleet_replacement; UPDATE node SET state = 'READY', job_id = NULL, "
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
};
const size_t breaks_fleets_n = sizeof(breaks_fleets) / sizeof(breaks_fleets[0]);
