/* What must hold of gangs, fleets and deadlines. */
#include "world.h"
#include "check.h"

/* ---- gangs ------------------------------------------------------------------------------------- */

void check_gangs(void)
{
	check_none("a gang begins whole", "SELECT string_agg('j' || g.job_id || ' epoch ' || g.epoch || ' has ' || g.n || ' of ' || j.num_nodes, '; ') "
	    "FROM (SELECT job_id, epoch, count(*) n FROM attempt GROUP BY job_id, epoch) g JOIN job j ON j.id = g.job_id WHERE g.n <> j.num_nodes");
	check_none("the ranks of a gang are in one place", "SELECT string_agg('j' || job_id || ' epoch ' || epoch, '; ') FROM "
	    "(SELECT a.job_id, a.epoch FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = n.pool_id "
	    "GROUP BY a.job_id, a.epoch HAVING count(DISTINCT (p.provider, p.region, p.zone, p.instance_type, p.market)) > 1) x");
	check_none("a machine has one rank of one job", "SELECT string_agg('n' || node_id, '; ') FROM "
	    "(SELECT node_id FROM attempt WHERE ended_us IS NULL GROUP BY node_id HAVING count(*) > 1) x");
}

/* ---- at the end -------------------------------------------------------------------------------- */

static void check_fleets(void)
{
	check_none("a fleet that was closed ends at zero", "SELECT string_agg('f' || f.id || ' ' || f.state, '; ') FROM fleet f WHERE f.state <> 'CLOSED' "
	    "OR EXISTS (SELECT 1 FROM node n WHERE n.fleet_id = f.id AND n.state NOT IN ('GONE', 'FAILED'))");
}

/* It was accepted as one that can be met, and nothing went wrong. */
static void check_deadlines(void)
{
	if (!check_no_faults())
		return;
	check_none("a deadline that can be met is met", "SELECT string_agg('j' || id || ' ' || state || ' ' || (ended_us - deadline_us) / 1000000 || ' s late', '; ') "
	    "FROM job WHERE deadline_us IS NOT NULL AND ended_us > deadline_us AND state IN ('SUCCEEDED', 'FAILED') AND fleet_id IS NULL");
}

static void seen(const char *name, const char *sql)
{
	if (check_value(sql) > 0)
		sometimes(name);
}

void check_work_seen(void)
{
	seen("a gang succeeded", "SELECT count(*) FROM job WHERE num_nodes > 1 AND state = 'SUCCEEDED'");
	seen("a gang began again elsewhere", "SELECT count(*) FROM job WHERE num_nodes > 1 AND epoch > 1");
	seen("a gang went on from a whole checkpoint", "SELECT count(*) FROM attempt a JOIN job j ON j.id = a.job_id "
	    "WHERE j.num_nodes > 1 AND a.steps_start > 0");
	seen("a job with a deadline succeeded", "SELECT count(*) FROM job WHERE deadline_us IS NOT NULL AND state = 'SUCCEEDED'");
	seen("a job was late", "SELECT count(*) FROM job WHERE deadline_us < ended_us");
	seen("a job left for one of higher priority", "SELECT count(*) FROM decision WHERE kind = 'preempted'");
	seen("a fleet was closed", "SELECT count(*) FROM fleet WHERE state = 'CLOSED'");
	seen("a job ran on a fleet", "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id WHERE n.fleet_id IS NOT NULL");
	seen("a job went to on-demand since there was no spot", "SELECT count(*) FROM decision WHERE kind = 'failover'");
	seen("a job ran at Google Cloud", "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = n.pool_id "
	    "WHERE p.provider = 'gcp' AND a.started_us IS NOT NULL");
	seen("a job ran at Azure", "SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = n.pool_id "
	    "WHERE p.provider = 'azure' AND a.started_us IS NOT NULL");
	seen("a gang of Google Cloud came by one call", "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id "
	    "WHERE p.provider = 'gcp' AND n.gang_call AND n.launched_us IS NOT NULL");
	seen("a job came back to spot", "SELECT count(*) FROM decision WHERE kind = 'return'");
	seen("a job was moved since it paid", "SELECT count(*) FROM decision WHERE kind = 'rebalance' AND job_id IS NOT NULL");
}

void check_work_end(void)
{
	check_fleets();
	check_deadlines();
}
