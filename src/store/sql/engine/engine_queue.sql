-- The queue: waiting jobs with their order and reason, the teams' spending of their shares, and
-- preemption.

-- name: engine_queue_jobs
-- params: most int8
-- rows: many id int8, team text, priority int4, queued_us int8, deadline_us int8?, work_s int8,
--   steps_done int8, steps_total int8, cost_micros int8?, pos int4?, effective int4?,
--   ratio float8?, why text?
-- writes: no
-- lane: long
SELECT j.id, j.team, j.priority, j.queued_us, j.deadline_us, coalesce((j.spec->>'work_s')::int8, 0), j.steps_done,
	j.steps_total, coalesce((j.baseline #>> '{cheapest,total_micros}')::int8, (j.baseline #>> '{on_demand,total_micros}')::int8)
		* j.num_nodes, q.pos, q.effective, q.ratio, q.why
FROM job j LEFT JOIN job_queue q ON q.job_id = j.id
WHERE j.state = 'QUEUED' AND j.cancel_us IS NULL ORDER BY j.priority DESC, j.id LIMIT $1

-- name: engine_shares
-- rows: many team text, weight_pm int8, spent_micros int8, file_pm int8?
-- writes: no
SELECT team, weight_pm, spent_micros, file_pm FROM team_share_now ORDER BY team

-- Stores all shares of the configuration file. A team missing from it loses its share.
-- name: engine_shares_file
-- params: share[], at_us int8, fence int8
-- rows_in: share (team text, weight_pm int8)
-- rows: many team text
-- writes: yes
WITH ok AS (
	SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE
), gone AS (
	UPDATE team_share SET file_pm = NULL FROM ok WHERE file_pm IS NOT NULL AND team <> ALL ($1) RETURNING team
), here AS (
	INSERT INTO team_share AS s (team, file_pm, spent_us) SELECT f.team, f.weight, $3 FROM ok, unnest($1, $2) f (team, weight)
	ON CONFLICT (team) DO UPDATE SET file_pm = excluded.file_pm WHERE s.file_pm IS DISTINCT FROM excluded.file_pm
	RETURNING team, file_pm
), changed AS (
	SELECT team, 'share of team ' || team || ' is ' || round(file_pm / 1000.0, 3) || ' in the configuration file' AS why FROM here
	UNION ALL SELECT team, 'share of team ' || team || ' is in the configuration file no longer' FROM gone
)
INSERT INTO event (at_us, entity, entity_id, event, why, actor)
SELECT $3, 'team', team, 'SHARE_FILE', why, 'engine' FROM changed RETURNING entity_id

-- Stores changed places, and ends those of jobs that no longer wait.
-- name: engine_queue_write
-- params: place[], at_us int8, fence int8
-- rows_in: place (job_id int8, pos int4, effective int4, ratio float8, why text)
-- rows: many job_id int8
-- writes: yes
-- lane: long
WITH ok AS (
	SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE
), gone AS (
	DELETE FROM job_queue q USING ok WHERE NOT EXISTS (SELECT FROM job j WHERE j.id = q.job_id AND j.state = 'QUEUED'
		AND j.cancel_us IS NULL)
)
INSERT INTO job_queue AS q (job_id, pos, effective, ratio, why, at_us)
SELECT s.id, s.pos, s.effective, s.ratio, s.why, $6 FROM ok, unnest($1, $2, $3, $4, $5) s (id, pos, effective, ratio, why)
WHERE EXISTS (SELECT FROM job j WHERE j.id = s.id AND j.state = 'QUEUED')
ON CONFLICT (job_id) DO UPDATE SET pos = excluded.pos, effective = excluded.effective, ratio = excluded.ratio,
	why = excluded.why, at_us = excluded.at_us
RETURNING job_id

-- Fades the teams' dollars and adds the ledger lines since the last time, each faded by its age.
-- name: engine_shares_spend
-- params: at_us int8, half_us int8, fence int8
-- rows: many team text
-- writes: yes
WITH m AS (
	SELECT coalesce(max(ledger_id), 0) AS id FROM team_share
), top AS (
	SELECT greatest(m.id, coalesce((SELECT max(id) FROM ledger), 0)) AS id FROM m
), fresh AS (
	SELECT l.team, sum(l.amount_micros * power(0.5, least(greatest($1 - l.to_us, 0)::float8 / $2, 300))) AS micros
	FROM ledger l, m, top WHERE l.id > m.id AND l.id <= top.id GROUP BY l.team
), x AS (
	SELECT coalesce(f.team, t.team) AS team, coalesce(f.micros, 0) AS micros FROM fresh f FULL JOIN team_share t ON t.team = f.team
)
INSERT INTO team_share AS s (team, spent_micros, spent_us, ledger_id)
SELECT x.team, round(x.micros)::int8, $1, top.id FROM x, top
WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $3 FOR KEY SHARE)
ON CONFLICT (team) DO UPDATE SET spent_us = excluded.spent_us, ledger_id = excluded.ledger_id,
	spent_micros = round(s.spent_micros * power(0.5, least(greatest(excluded.spent_us - s.spent_us, 0)::float8 / $2, 300)))::int8
		+ excluded.spent_micros
RETURNING team

-- Returns running jobs with their expected end and their cost of preemption. Ranks of gangs count
-- for the capacity they hold, and draining nodes until they are released. A preemption in the
-- future stems from a clock step.
-- name: engine_running
-- params: most int8, at_us int8
-- rows: many job_id int8, epoch int4, priority int4, state job_state, num_nodes int4, node_id int8,
--   pool_id int4, fleet_id int8?, price_micros int8, created_us int8, started_us int8?,
--   moving bool, interruptible bool, preemptible bool, has_path bool, saved_us int8?, save_us int8,
--   last_us int8?, work_s int8, budget_s int8, steps_start int8, steps_done int8, steps_total int8,
--   deadline_us int8?
-- writes: no
SELECT j.id, j.epoch, j.priority, j.state, j.num_nodes, n.id, n.pool_id, n.fleet_id, n.price_micros, a.created_us, a.started_us,
	a.desired <> 'run' OR j.cancel_us IS NOT NULL OR n.state <> 'READY' OR EXISTS (SELECT FROM notice o
		WHERE o.node_id = n.id AND o.kind <> 'rebalance') OR EXISTS (SELECT FROM node r WHERE r.replaces_id = n.id
		AND r.state NOT IN ('FAILED', 'GONE', 'TERMINATING')),
	coalesce((j.spec->>'interruptible')::bool, true), NOT coalesce((j.spec->>'not_preemptible')::bool, false),
	j.spec #>> '{checkpoint,path}' IS NOT NULL, CASE WHEN c.epoch = a.epoch THEN c.created_us END,
	coalesce(c.committed_us - c.created_us, 0),
	(SELECT max(d.at_us) FROM decision d WHERE d.job_id = j.id AND d.kind = 'preempted' AND d.at_us <= $2),
	coalesce((j.spec->>'work_s')::int8, 0), coalesce((j.spec #>> '{checkpoint,budget_s}')::int8, 60),
	a.steps_start, a.steps_done, j.steps_total, j.deadline_us
FROM (SELECT x.* FROM attempt x WHERE x.ended_us IS NULL
	UNION ALL SELECT x.* FROM node d JOIN attempt x ON x.job_id = d.job_id AND x.node_id = d.id AND x.ended_us IS NOT NULL
		AND x.epoch = (SELECT max(m.epoch) FROM attempt m WHERE m.job_id = d.job_id AND m.node_id = d.id)
	WHERE d.state = 'DRAINING') a
JOIN job j ON j.id = a.job_id JOIN node n ON n.id = a.node_id LEFT JOIN checkpoint c ON c.id = j.checkpoint_id
WHERE n.state IN ('READY', 'DRAINING') ORDER BY j.id, n.id LIMIT $1

-- Preempts a job for another: it must save and stop. hand: the other job gets the node when it has
-- stopped. Else the node, or all nodes of a gang, are drained and released for their quota. Stores
-- both decisions.
-- name: engine_preempt
-- params: victim int8, epoch int4, node_id int8, for_job int8, for_epoch int4, now job_state,
--   event job_event, hand bool, why text, for_why text, inputs jsonb, outcome jsonb,
--   deadline_us int8, at_us int8, fence int8
-- rows: 0..1 node_id int8, told bool, told_job bool
-- writes: yes
WITH ok AS (
	SELECT j.id, a.epoch, a.node_id FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch
	JOIN node n ON n.id = a.node_id JOIN job b ON b.id = $4
	WHERE j.id = $1 AND j.state = 'RUNNING' AND j.epoch = $2 AND j.cancel_us IS NULL AND (NOT $8 OR j.num_nodes = 1)
		AND a.node_id = $3 AND a.ended_us IS NULL AND a.desired = 'run' AND n.state = 'READY'
		AND b.state = 'QUEUED' AND b.epoch = $5 AND b.cancel_us IS NULL
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $15 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j, a, n, b
), a AS (
	UPDATE attempt SET desired = 'drain', version = version + 1, drain_why = $9, drain_deadline_us = NULL
	FROM ok WHERE attempt.job_id = ok.id AND attempt.epoch = ok.epoch AND $8
), j AS (
	UPDATE job SET state = $6, state_us = $14, why = $9 FROM ok WHERE job.id = ok.id AND $8
), n AS (
	UPDATE node SET job_id = $4 FROM ok WHERE node.id = ok.node_id AND $8
), o AS (
	INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us)
	SELECT x.node_id, 'maintenance', $13, 'preemption', $9, $14 FROM ok JOIN attempt x ON x.job_id = ok.id AND x.epoch = ok.epoch
	WHERE NOT $8 AND x.ended_us IS NULL ON CONFLICT (node_id, kind) DO NOTHING
), b AS (
	UPDATE job SET why = $10 FROM ok WHERE job.id = $4
), d AS (
	INSERT INTO decision (at_us, kind, job_id, node_id, inputs, outcome, why)
	SELECT $14, 'preempt', $4, ok.node_id, $11, $12, $10 FROM ok
	UNION ALL SELECT $14, 'preempted', ok.id, ok.node_id, '{}'::jsonb, $12, $9 FROM ok
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, epoch, was, now, event, why, actor)
	SELECT $14, 'job', 'j' || id, id, node_id, epoch, 'RUNNING', CASE WHEN $8 THEN $6 ELSE 'RUNNING' END,
		CASE WHEN $8 THEN $7 ELSE 'PREEMPTED' END, $9, 'engine' FROM ok
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AS told,
	pg_notify('spot_api', 'j' || id) IS NOT NULL AS told_job FROM ok
