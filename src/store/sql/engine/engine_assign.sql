-- Places jobs: the waiting jobs, the free nodes, and the two writes. One binds a job to a ready
-- node, the other wants a node for it.

-- Returns the waiting jobs that this pass considers, in the order of the queue. Jobs of equal ask
-- are one group (job.ask). The groups in blocked, which is sorted, are left out without reading
-- their jobs. For the others it returns:
-- - the first jobs (head) of the queue, at most `each` of a group;
-- - as many of the first groups by priority, since a new job has no place in the queue yet;
-- - the same of a slice of the groups after the ask `after`. So every group is considered, whatever
--   is before it;
-- - jobs that capacity is reserved for, beside others;
-- - jobs whose machine is ready (own);
-- - with budgets, jobs whose machine costs a budget on its way;
-- - with spare, some others whose machine is on its way: there are ready machines without a job.
--
-- A job that already has machines on their way is left out of its group.
--
-- Column slice_ask: the ask of a job of the slice; -1 = not in it. Column budget_left assumes
-- machines that take end_us to end. Column spec is set from the job `next` on, wrapping around, for
-- the rows that fit into spec_bytes. The first job and those with reserved capacity always have it.
-- Columns rates and restart_us are the job's measured speeds. Before its first start they are those
-- of the five newest jobs of its name and team.
-- name: engine_assign_jobs
-- params: head int8, slice int8, each int8, after int8, blocked int8[], held int8[], own int8[],
--   spare bool, at_us int8, end_us int8, next int8, spec_bytes int8, budgets bool
-- rows: many id int8, state job_state, state_us int8, name text, spec text?, epoch int4,
--   fleet_id int8?, deadline_us int8?, created_us int8, queued_us int8, steps_done int8,
--   steps_total int8, checkpoint_id int8?, checkpoint_bytes int8, checkpoint_steps int8,
--   save_us int8, inflight bool, ran_us int8, live bool, not_before_us int8, rates text?,
--   restart_us int8?, num_nodes int4, fleet_closed bool, ask int8, slice_ask int8,
--   budget_micros int8?, budget_left int8?, fleet_open bool
-- writes: no
-- lane: long
WITH RECURSIVE w AS MATERIALIZED (
	(SELECT h AS id, -1::int8 AS at FROM job_head($5, $3, $1) h
		WHERE EXISTS (SELECT FROM job_asks_open(-1, $5, 1)))
	UNION ALL
	(SELECT h, -1 FROM job_asks_open(-1, $5, $1) g, job_group(g, $3) h LIMIT $1)
	UNION ALL
	(SELECT h, g FROM job_asks_open($4, $5, $2) g, job_group(g, $3) h LIMIT $2)
	UNION ALL
	(SELECT j.id, -1 FROM job j WHERE j.state = 'DRAINING' AND j.cancel_us IS NULL
		AND j.ask <> ALL ($5) AND NOT job_flying(j.id, j.num_nodes) ORDER BY j.id LIMIT $1)
), own AS (
	SELECT unnest($7::int8[]) AS id
	UNION SELECT jobs_coming($8, $13, $1)
), z AS (
	SELECT id, at FROM w UNION ALL SELECT id, -1 FROM own
	UNION ALL SELECT unnest($6::int8[]), -1 WHERE EXISTS (SELECT FROM w) OR EXISTS (SELECT FROM own)
), x AS MATERIALIZED (
	SELECT y.id, y.at, row_number() OVER (ORDER BY j.state = 'QUEUED' AND coalesce(j.not_before_us, 0) > $9,
		coalesce(q.effective, j.priority) DESC, CASE j.state WHEN 'DRAINING' THEN 0 ELSE q.pos END NULLS LAST, j.id) AS n
	FROM (SELECT id, max(at) AS at FROM z GROUP BY id) y LEFT JOIN job_queue q ON q.job_id = y.id
	JOIN job j ON j.id = y.id AND j.state IN ('QUEUED', 'DRAINING') AND j.cancel_us IS NULL
), o AS MATERIALIZED (
	SELECT array_agg(id ORDER BY coalesce(n < (SELECT n FROM x WHERE id = $11), false), n) AS ids FROM x WHERE id <> ALL ($6)
), t AS (
	SELECT 0 AS i, 0::int8 AS id, '' AS spec, 0::int8 AS bytes
	UNION ALL SELECT t.i + 1, j.id, y.spec, t.bytes + octet_length(y.spec)
	FROM t CROSS JOIN o JOIN job j ON j.id = o.ids[t.i + 1] CROSS JOIN LATERAL (SELECT j.spec::text AS spec OFFSET 0) y WHERE t.bytes < $12
)
SELECT j.id, j.state, j.state_us, j.name, CASE WHEN j.id = ANY ($6) THEN j.spec::text ELSE t.spec END, j.epoch, j.fleet_id, j.deadline_us, j.created_us, j.queued_us,
	j.steps_done, j.steps_total, j.checkpoint_id, coalesce(c.bytes, 0), coalesce(c.steps, 0),
	coalesce(c.committed_us - c.created_us, 0),
	CASE WHEN j.num_nodes = 1 THEN EXISTS (SELECT FROM node n WHERE n.job_id = j.id AND n.state IN ('WANTED', 'LAUNCHING',
			'UNKNOWN', 'BOOTING', 'READY') AND NOT EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND a.job_id = j.id
			AND a.ended_us IS NULL))
		-- A job seeks one gang at a time. A job that stopped for another reason than its
		-- machines may start again on them.
		WHEN EXISTS (SELECT FROM gang g WHERE g.job_id = j.id AND g.state = 'ACQUIRING') THEN true
		WHEN j.state = 'QUEUED' THEN EXISTS (SELECT FROM gang g WHERE g.job_id = j.id AND g.state = 'SERVING')
		ELSE NOT EXISTS (SELECT FROM gang g JOIN node n ON n.gang_id = g.id
			WHERE gang_goes_back(g, j) AND n.state IN ('DRAINING', 'TERMINATING', 'GONE')
			AND EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND a.job_id = j.id AND a.epoch = j.epoch)) END AS inflight,
	coalesce((SELECT sum(greatest(coalesce(a.ended_us, $9) - a.started_us, 0)) FROM attempt a WHERE a.job_id = j.id
		AND a.rank = 0 AND a.started_us IS NOT NULL), 0)::int8 AS ran_us,
	EXISTS (SELECT FROM attempt a WHERE a.job_id = j.id AND (a.ended_us IS NULL OR NOT a.settled)) AS live,
	coalesce(j.not_before_us, 0), m.rates, m.restart_us, j.num_nodes,
	NOT j.fleet_any AND EXISTS (SELECT FROM fleet f WHERE f.id = j.fleet_id AND f.state = 'CLOSED') AS fleet_closed, j.ask, x.at AS slice_ask,
	j.budget_micros, CASE WHEN j.budget_micros IS NOT NULL THEN job_budget_left(j, $9, $10) END AS budget_left,
	j.fleet_any AND j.fleet_id IS NULL AS fleet_open
FROM x JOIN job j ON j.id = x.id LEFT JOIN t ON t.id = x.id LEFT JOIN checkpoint c ON c.id = j.checkpoint_id
LEFT JOIN LATERAL job_measured(CASE WHEN j.epoch > 0 THEN ARRAY[j.id]
	ELSE ARRAY(SELECT e.id FROM job e WHERE e.name = j.name AND e.team = j.team AND e.epoch > 0 ORDER BY e.id DESC LIMIT 5) END) m ON true
ORDER BY x.n

-- kept: a replacement in a fleet, for the job on the node that it replaces (job_id). A node whose
-- replacement is ready gets no job.
-- name: engine_free_nodes
-- params: most int8, at_us int8
-- rows: many id int8, pool_id int4, job_id int8?, fleet_id int8?, replaces_id int8?,
--   job_state job_state?, price_micros int8, ready_us int8, kept bool
-- writes: no
SELECT n.id, n.pool_id, j.id, n.fleet_id, n.replaces_id, j.state, n.price_micros,
	coalesce(n.ready_us, 0), k.id IS NOT NULL
FROM node n CROSS JOIN LATERAL (SELECT CASE WHEN n.fleet_id IS NOT NULL AND n.replaces_id IS NOT NULL
	THEN node_kept_for(n, $2) END AS id) k
LEFT JOIN job j ON j.id = coalesce(k.id, n.job_id)
WHERE n.state = 'READY' AND n.drain_deadline_us IS NULL AND n.gang_id IS NULL
	AND NOT EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND a.ended_us IS NULL)
	AND NOT EXISTS (SELECT FROM notice o WHERE o.node_id = n.id AND o.kind = 'interruption')
	AND NOT EXISTS (SELECT FROM node r
		WHERE r.replaces_id = n.id AND r.fleet_id = n.fleet_id AND r.state = 'READY')
ORDER BY n.id LIMIT $1

-- name: engine_assign
-- params: job_id int8, was job_state, epoch int4, node_id int8, now job_state, event job_event,
--   why text, files jsonb, urls_until_us int8, restore_id int8?, steps_start int8, at_us int8,
--   fence int8, end_us int8
-- rows: 0..1 epoch int4, told bool, told_job bool
-- writes: yes
WITH ok AS (
	SELECT j.id, n.id AS node_id, n.pool_id, p.market, j.epoch + 1 AS epoch
	FROM job j, node n JOIN pool p ON p.id = n.pool_id
	WHERE j.id = $1 AND j.state = $2 AND j.epoch = $3 AND j.cancel_us IS NULL AND j.num_nodes = 1
		AND j.checkpoint_id IS NOT DISTINCT FROM $10 AND coalesce(job_budget_left(j, $12, $14) > 0, true)
		AND n.id = $4 AND n.state = 'READY'
		AND NOT EXISTS (SELECT FROM attempt a WHERE a.ended_us IS NULL AND (a.node_id = $4 OR a.job_id = $1))
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $13 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j, n
), n AS (
	UPDATE node SET job_id = ok.id, idle_since_us = NULL,
		replaces_id = CASE WHEN fleet_id IS NOT NULL THEN replaces_id END FROM ok WHERE node.id = ok.node_id
), j AS (
	UPDATE job SET state = $5, state_us = $12, epoch = ok.epoch, why = $7, reason = '' FROM ok WHERE job.id = ok.id
), a AS (
	INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, phase, files, urls_until_us,
		restore_id, steps_start, steps_done, created_us)
	SELECT id, epoch, node_id, pool_id, market, 'run', 'ASSIGNED', $8, $9, $10, $11, $11, $12 FROM ok
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, epoch, was, now, event, why, actor)
	SELECT $12, 'job', 'j' || id, id, node_id, epoch, $2, $5, $6, $7, 'engine' FROM ok
)
SELECT epoch, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AS told,
	pg_notify('spot_api', 'j' || id) IS NOT NULL AS told_job FROM ok

-- Wants a node for a job: writes the intent row, the decision with its inputs and the event, in one
-- statement. The job must be as it was read (was, epoch). A job that moved meanwhile gets nothing,
-- nor does one with less budget left than need.
-- name: engine_want_for_job
-- params: job_id int8, was job_state, epoch int4, pool_id int4, replaces_id int8?, token text,
--   name text, price_micros int8, cap_micros int8, kind text, inputs jsonb, outcome jsonb,
--   why text, at_us int8, fence int8, need_micros int8, end_us int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH ok AS (
	SELECT j.id FROM job j
	WHERE j.id = $1 AND j.state = $2 AND j.epoch = $3 AND j.cancel_us IS NULL AND j.num_nodes = 1
		AND coalesce(job_budget_left(j, $14, $17) >= $16, true)
		AND NOT EXISTS (SELECT FROM node n WHERE n.job_id = $1 AND n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN',
			'BOOTING', 'READY') AND NOT EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND a.job_id = $1
			AND a.ended_us IS NULL))
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $15 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j
), n AS (
	INSERT INTO node (pool_id, job_id, replaces_id, state, state_us, token, name, price_micros, price_cap_micros,
		created_us, why)
	SELECT $4, id, $5, 'WANTED', $14, $6, $7, $8, $9, $14, $13 FROM ok RETURNING id, job_id
), d AS (
	INSERT INTO decision (at_us, kind, job_id, node_id, inputs, outcome, why)
	SELECT $14, $10, job_id, id, $11, $12, $13 FROM n
), j AS (
	UPDATE job SET why = $13 FROM ok WHERE job.id = ok.id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $14, 'node', 'n' || id, job_id, id, '', 'WANTED', upper($10), $13, 'engine' FROM n
)
SELECT id, pg_notify('spot_api', 'n' || id) IS NOT NULL AS told FROM n

-- Tells the waiting jobs that say nothing yet why their ask is blocked, the first `most` of them.
-- name: engine_wait_alike
-- params: blocked[], most int8, fence int8
-- rows_in: blocked (ask int8, why text)
-- rows: many id int8
-- writes: yes
-- wakes: none
UPDATE job SET why = x.why
FROM (SELECT j.id, b.why FROM unnest($1, $2) b (ask, why) CROSS JOIN LATERAL (SELECT j.id FROM job j
	WHERE j.state = 'QUEUED' AND j.cancel_us IS NULL AND j.why = '' AND j.ask = b.ask ORDER BY j.id LIMIT $3) j LIMIT $3) x
WHERE job.id = x.id AND job.state = 'QUEUED' AND job.why = ''
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE)
RETURNING job.id

-- Numbers the asks of waiting jobs that a daemon of before 0039 left without, the first `most`.
-- name: engine_ask_number
-- params: most int8, fence int8
-- rows: many id int8
-- writes: yes
-- wakes: none
UPDATE job SET ask = job_ask(job)
WHERE id IN (SELECT id FROM job
		WHERE state IN ('QUEUED', 'DRAINING') AND ask = 0 ORDER BY id LIMIT $1)
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $2 FOR KEY SHARE)
RETURNING id

-- Records waiting as a decision, once per queueing. Later only job.why changes.
-- name: engine_wait_for_job
-- params: job_id int8, was job_state, epoch int4, inputs jsonb, outcome jsonb, why text,
--   at_us int8, fence int8
-- rows: 0..1 id int8
-- writes: yes
-- wakes: none
WITH j AS (
	UPDATE job SET why = $6 WHERE id = $1 AND state = $2 AND epoch = $3
		AND (why <> $6 OR NOT EXISTS (SELECT FROM decision d WHERE d.job_id = $1 AND d.at_us >= queued_us))
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $8 FOR KEY SHARE)
	RETURNING id, queued_us
), d AS (
	INSERT INTO decision (at_us, kind, job_id, inputs, outcome, why)
	SELECT $7, 'wait', id, $4, $5, $6 FROM j
	WHERE NOT EXISTS (SELECT FROM decision d WHERE d.job_id = $1 AND d.at_us >= j.queued_us
		AND d.id = (SELECT max(id) FROM decision m WHERE m.job_id = $1) AND d.kind = 'wait')
)
SELECT id FROM j
