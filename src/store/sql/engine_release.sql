-- Nodes nobody needs, and nodes whose drain is over.

-- name: engine_release_due
-- params: at_us int8, idle_us int8
-- rows: many id int8, state text, event text, why text
-- writes: no
WITH busy AS (SELECT EXISTS (SELECT FROM job WHERE state = 'QUEUED' AND cancel_us IS NULL) AS queue),
live AS (
	SELECT n.*, j.state AS job_state, j.cancel_us AS job_cancel,
		j.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'CANCELLING') AS job_over,
		EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND (a.ended_us IS NULL OR NOT a.settled)) AS used
	FROM node n LEFT JOIN job j ON j.id = n.job_id
	WHERE n.state IN ('WANTED', 'BOOTING', 'READY', 'DRAINING')
)
SELECT id, state,
	CASE state WHEN 'WANTED' THEN 'UNWANTED' ELSE 'RELEASE' END,
	CASE WHEN state = 'DRAINING' THEN 'drained'
		WHEN job_over THEN 'job j' || job_id || ' is over'
		WHEN job_id IS NULL THEN 'idle: no job needs it'
		ELSE 'job j' || job_id || ' is ' || job_state || ' and does not need it' END
FROM live, busy
WHERE NOT used AND CASE state
	WHEN 'DRAINING' THEN true
	WHEN 'READY' THEN CASE
		WHEN fleet_id IS NOT NULL THEN false
		WHEN job_id IS NULL OR (job_over AND queue) THEN
			greatest(coalesce(idle_since_us, 0), coalesce(ready_us, state_us)) + $2 <= $1
		WHEN job_over THEN true
		WHEN job_state = 'RUNNING' AND replaces_id IS NOT NULL THEN false
		WHEN job_state IN ('QUEUED', 'DRAINING') AND job_cancel IS NULL THEN false
		ELSE true END
	ELSE CASE                        -- WANTED, BOOTING
		WHEN fleet_id IS NOT NULL THEN false
		WHEN job_id IS NULL OR job_over THEN true
		WHEN job_state = 'RUNNING' AND replaces_id IS NOT NULL THEN
			NOT EXISTS (SELECT FROM node o WHERE o.id = replaces_id AND o.state = 'READY')
		WHEN job_state IN ('QUEUED', 'DRAINING') AND job_cancel IS NULL THEN false
		ELSE true END
	END
ORDER BY id LIMIT 500
