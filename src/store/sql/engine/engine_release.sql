-- Nodes nobody needs, and nodes whose drain is over. The engine leaves a reclaimed spot node to its
-- provider until the deadline. EC2 bills nothing if it ends the node within its first hour, but
-- bills it if we do (User Guide, "Billing for interrupted Spot Instances"). The cause also stays
-- readable. A gang's nodes stay until the gang is given up as a whole (engine_gang.sql).

-- patience_us > 0: the agent was told to stop and has not confirmed. Such rows come at once, since
-- the caller (release.c) counts the time by the beats of the API that agents talk to. Column due:
-- by the clock, the deadline has passed. A deadline already past when its notice came (clock skew)
-- counts like a notice without one.
-- name: engine_release_due
-- params: at_us int8, idle_us int8, grace_us int8, stop_us int8, notice_us int8
-- rows: many id int8, state node_state, event node_event, why text, due bool, patience_us int8,
--   beats int8?
-- writes: no
WITH busy AS (
	SELECT EXISTS (SELECT FROM job WHERE state = 'QUEUED' AND cancel_us IS NULL) AS queue
), c AS MATERIALIZED ( -- no ready machine whose job goes on, and no fleet's that stays
	SELECT id FROM node WHERE state = 'DRAINING'
	UNION ALL SELECT id FROM node WHERE state IN ('WANTED', 'BOOTING') AND fleet_id IS NULL
	UNION SELECT n.id FROM node n WHERE n.state = 'READY' AND n.fleet_id IS NULL
		AND NOT EXISTS (SELECT FROM attempt a
			WHERE a.node_id = n.id AND (a.ended_us IS NULL OR NOT a.settled))
	UNION SELECT n.id FROM job j JOIN node n ON n.job_id = j.id AND n.state = 'READY'
		WHERE j.state IN ('CANCELLING', 'DRAINING')
), u AS MATERIALIZED (
	SELECT v.* FROM c JOIN node_use v ON v.id = c.id
)
SELECT id, state,
	CASE WHEN state = 'WANTED' THEN CASE WHEN EXISTS (SELECT FROM event e WHERE e.node_id = u.id AND e.now = 'UNKNOWN')
		THEN 'AMBIGUOUS' ELSE 'UNWANTED' END WHEN used THEN 'TERMINATE' ELSE 'RELEASE' END,
	CASE WHEN used AND state = 'READY' THEN 'its agent does not stop the ' || CASE WHEN told THEN '' ELSE 'cancelled ' END || 'job'
		WHEN used THEN 'its drain is overdue'
		WHEN state = 'DRAINING' THEN 'drained'
		WHEN gang_state = 'RELEASED' THEN 'gang g' || gang_id || ' is given up: ' || gang_why
		WHEN job_over THEN 'job j' || job_id || ' is over'
		WHEN job_id IS NULL THEN 'idle: no job needs it'
		ELSE 'job j' || job_id || ' is ' || job_state || ' and does not need it' END,
	state <> 'DRAINING' OR NOT used OR drain_deadline_us + $3 <= $1 AS due,
	CASE WHEN NOT used THEN 0 WHEN state = 'DRAINING' THEN least(greatest(drain_deadline_us - state_us, $5) + $3, $4) ELSE $4 END,
	(SELECT beats FROM listener WHERE name = 'api')
FROM u, busy
WHERE CASE
	WHEN state = 'DRAINING' AND used THEN drain_deadline_us IS NOT NULL
	WHEN state = 'DRAINING' AND reclaimed THEN drain_deadline_us + $3 <= $1
	WHEN used AND state = 'READY' THEN job_state = 'CANCELLING' OR (told AND job_state = 'DRAINING')
	WHEN used THEN false
	WHEN state = 'DRAINING' THEN true
	WHEN gang_state IS NOT NULL THEN gang_state = 'RELEASED'
	WHEN state = 'READY' THEN CASE
		WHEN fleet_id IS NOT NULL THEN false
		WHEN job_id IS NULL OR (job_over AND queue) THEN
			greatest(coalesce(idle_since_us, 0), coalesce(ready_us, state_us)) + $2 <= $1
		WHEN job_over THEN true
		WHEN job_state = 'RUNNING' AND replaces_id IS NOT NULL THEN moved
		WHEN job_state IN ('QUEUED', 'DRAINING') AND job_cancel IS NULL THEN false
		ELSE true END
	ELSE CASE                        -- WANTED, BOOTING
		WHEN fleet_id IS NOT NULL THEN false
		WHEN job_id IS NULL OR job_over THEN true
		WHEN job_state = 'RUNNING' AND replaces_id IS NOT NULL THEN moved
		WHEN job_state IN ('QUEUED', 'DRAINING') AND job_cancel IS NULL THEN false
		ELSE true END
	END
ORDER BY due DESC, id LIMIT 500
