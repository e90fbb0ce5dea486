-- Notices, attempts that must stop, and attempts that ended.

-- name: engine_notices_due
-- rows: many node_id int8, kind text, deadline_us int8, source text, state node_state,
--   pool_id int4, market market, heard_us int8
-- writes: no
SELECT o.node_id, o.kind, o.deadline_us, o.source, n.state, n.pool_id, p.market, o.heard_us
FROM notice o JOIN node n ON n.id = o.node_id JOIN pool p ON p.id = n.pool_id
WHERE o.handled_us IS NULL ORDER BY o.heard_us, o.node_id LIMIT 200

-- Without `now` the node keeps its state, and only the notice is marked. cool_until 0 starts no
-- cooldown of the pool.
-- name: engine_notice_handle
-- params: node_id int8, kind text, was node_state, now node_state?, event node_event, why text,
--   deadline_us int8, cool_until_us int8, at_us int8, day int4, fence int8
-- rows: 0..1 node_id int8, told bool
-- writes: yes
WITH o AS (
	UPDATE notice SET handled_us = $9 WHERE node_id = $1 AND kind = $2 AND handled_us IS NULL
		AND EXISTS (SELECT FROM node WHERE id = $1 AND state = $3)
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $11 FOR KEY SHARE)
	RETURNING node_id, heard_us, notice_is_ours(source) AS ours
), n AS (
	UPDATE node SET state = $4, state_us = $9, why = $6,
		drain_deadline_us = least(coalesce(drain_deadline_us, $7), $7)
	FROM o WHERE id = o.node_id AND state = $3 AND $4 IS NOT NULL RETURNING id, job_id, pool_id
), c AS (
	INSERT INTO pool_cool AS c (pool_id, until_us, refusals, rc, why, at_us)
	SELECT pool_id, $8, 1, 'reclaimed', $6, $9 FROM n WHERE $8 > 0
	ON CONFLICT (pool_id) DO UPDATE SET until_us = greatest(c.until_us, excluded.until_us), rc = 'reclaimed',
		why = excluded.why, at_us = excluded.at_us
), d AS (
	INSERT INTO pool_day AS d (pool_id, day, reclaims) SELECT pool_id, $10, 1 FROM n WHERE $8 > 0
	ON CONFLICT (pool_id, day) DO UPDATE SET reclaims = d.reclaims + 1
), h AS (
	INSERT INTO pool_hour AS h (pool_id, at_hour, reclaims) SELECT pool_id, $9 / 3600000000, 1 FROM n WHERE $8 > 0
	ON CONFLICT (pool_id, at_hour) DO UPDATE SET reclaims = h.reclaims + 1
), k AS (
	INSERT INTO pool_reclaim AS k (pool_id, at_us) SELECT pool_id, $9 FROM n WHERE $8 > 0
	ON CONFLICT (pool_id) DO UPDATE SET at_us = excluded.at_us
), v AS (
	INSERT INTO verdict (at_us, node_id, job_id, epoch, rank, kind, why, seen, step)
	SELECT $9, x.id, s.job_id, s.epoch, s.rank, 'notice', $6, node_seen(x, (SELECT from_us FROM led WHERE epoch = $11)), coalesce(s.step, 0)
	FROM o JOIN node x ON x.id = o.node_id LEFT JOIN LATERAL node_serves(x) s ON true
), r AS (
	INSERT INTO recovery AS r (job_id, epoch, rank, node_id, provider, cause, saves, notice_us,
		deadline_us)
	SELECT a.job_id, a.epoch, a.rank, a.node_id, p.provider, 'notice', job_saves(j),
		o.heard_us, $7
	FROM o JOIN attempt a ON a.node_id = o.node_id
		AND coalesce(a.ended_us, o.heard_us) >= o.heard_us
	JOIN job j ON j.id = a.job_id JOIN pool p ON p.id = a.pool_id
	WHERE $2 <> 'rebalance' AND NOT o.ours
	ON CONFLICT (job_id, epoch, rank) DO UPDATE SET deadline_us = $7
		WHERE r.outcome = 'open' AND r.cause = 'notice' AND r.deadline_us > $7
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $9, 'node', 'n' || o.node_id, n.job_id, o.node_id, $3, coalesce($4, $3), $5, $6,
		'engine'
	FROM o LEFT JOIN n ON true
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AS told FROM o

-- Returns live attempts whose node or job differs from the attempt's last order. An attempt that a
-- clock step made end before it began counts as no time. Column ran_us is the sum of the job's
-- attempts, most_us its limit; 0 = no limit. If look is set, the budget left at at_us is computed
-- for machines that take end_us to end. Only attempts of c are looked at: the cost is that of odd
-- ones. Machines that ended longer ago than ten minutes come with look.
-- name: engine_attempts_odd
-- params: at_us int8, look bool, end_us int8
-- rows: many job_id int8, epoch int4, job_state job_state, job_epoch int4, desired text,
--   phase attempt_phase, node_id int8, node_state node_state, node_deadline_us int8?, noticed bool,
--   cancel bool, ran_us int8, most_us int8, node_why text, node_cause text, over_budget bool,
--   budget_micros int8, spent_micros int8
-- writes: no
WITH l AS NOT MATERIALIZED (
	SELECT * FROM job WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')
), c AS MATERIALIZED (
	SELECT id FROM l WHERE cancel_us IS NOT NULL
	UNION SELECT id FROM l WHERE state = 'STARTING'
	UNION SELECT id FROM l WHERE (spec->>'max_duration_s')::int8 > 0
	UNION SELECT id FROM l WHERE $2 AND budget_micros IS NOT NULL
	UNION SELECT a.job_id FROM node n JOIN attempt a ON a.node_id = n.id AND a.ended_us IS NULL
		WHERE n.state IN ('DRAINING', 'TERMINATING')
	UNION SELECT a.job_id FROM node n JOIN attempt a ON a.node_id = n.id AND a.ended_us IS NULL
		WHERE n.state IN ('GONE', 'FAILED') AND n.state_us > $1 - 600000000
	UNION SELECT a.job_id FROM attempt a JOIN node n ON n.id = a.node_id
		WHERE $2 AND a.ended_us IS NULL AND n.state IN ('GONE', 'FAILED')
)
SELECT x.* FROM c CROSS JOIN LATERAL (
SELECT a.job_id, a.epoch, j.state, j.epoch, a.desired, a.phase, a.node_id, n.state, n.drain_deadline_us,
	EXISTS (SELECT FROM notice o WHERE o.node_id = n.id AND o.kind <> 'rebalance'),
	j.cancel_us IS NOT NULL,
	t.ran_us, t.most_us, n.why, n.end_cause, coalesce(b.left <= 0, false), coalesce(j.budget_micros, 0),
	CASE WHEN b.left <= 0 THEN job_spent(j.id, $1) ELSE 0 END
FROM attempt a JOIN job j ON j.id = a.job_id JOIN node n ON n.id = a.node_id
CROSS JOIN LATERAL (SELECT coalesce((j.spec->>'max_duration_s')::int8, 0) * 1000000 AS most_us, CASE WHEN (j.spec->>'max_duration_s')::int8 > 0 THEN
	coalesce((SELECT sum(greatest(coalesce(b.ended_us, $1) - b.started_us, 0))::int8 FROM attempt b WHERE b.job_id = j.id AND b.started_us IS NOT NULL), 0)
	ELSE 0 END AS ran_us) t
CROSS JOIN LATERAL (SELECT CASE WHEN $2 AND a.desired = 'run' AND j.budget_micros IS NOT NULL
	THEN job_budget_left(j, $1, $3) END AS left) b
WHERE a.job_id = c.id AND a.ended_us IS NULL AND a.phase <> 'EXITED' AND j.num_nodes = 1 AND (
	b.left <= 0 OR
	n.state IN ('TERMINATING', 'GONE', 'FAILED')
	OR (n.state = 'DRAINING' AND (a.desired = 'run' OR (a.desired = 'drain'
		AND a.drain_deadline_us IS DISTINCT FROM n.drain_deadline_us)))
	OR (j.cancel_us IS NOT NULL AND a.desired <> 'kill')
	OR (j.state = 'STARTING' AND a.phase IN ('RUNNING', 'SAVING'))
	OR (a.desired = 'run' AND t.most_us > 0 AND t.ran_us >= t.most_us)) OFFSET 0) x
ORDER BY 1 LIMIT 500

-- name: engine_attempt_tell
-- params: job_id int8, epoch int4, was job_state, now job_state, event job_event, desired text,
--   why text, deadline_us int8?, at_us int8, fence int8
-- rows: 0..1 node_id int8, told bool, told_job bool
-- writes: yes
WITH ok AS (
	SELECT j.id, a.epoch, a.node_id FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch
	WHERE j.id = $1 AND j.state = $3 AND j.epoch = $2 AND a.ended_us IS NULL AND a.desired <> 'kill'
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $10 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j, a
), a AS (
	UPDATE attempt SET desired = $6, version = version + 1, drain_why = $7, drain_deadline_us = $8
	FROM ok WHERE attempt.job_id = ok.id AND attempt.epoch = ok.epoch
), j AS (
	UPDATE job SET state = $4, state_us = $9, why = $7 FROM ok WHERE job.id = ok.id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, epoch, was, now, event, why, actor)
	SELECT $9, 'job', 'j' || id, id, node_id, epoch, $3, $4, $5, $7, 'engine' FROM ok
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AS told,
	pg_notify('spot_api', 'j' || id) IS NOT NULL AS told_job FROM ok

-- said: the agent's report of an end without code and signal, such as a killed supervisor.
-- name: engine_attempts_ended
-- rows: many job_id int8, epoch int4, job_state job_state, job_epoch int4, desired text,
--   exit_code int4?, exit_signal int4?, exit_reason text, drain_why text, restarts int4,
--   max_restarts int8, cancel bool, steps_done int8, said text
-- writes: no
SELECT a.job_id, a.epoch, j.state, j.epoch, a.desired, a.exit_code, a.exit_signal, a.exit_reason, a.drain_why,
	j.restarts, coalesce((j.spec->>'max_restarts')::int8, 0), j.cancel_us IS NOT NULL, a.steps_done,
	CASE WHEN a.exit_code IS NULL AND a.exit_signal IS NULL THEN coalesce((SELECT e.why FROM event e WHERE e.job_id = a.job_id AND e.epoch = a.epoch
		AND e.node_id = a.node_id AND e.event = 'PHASE' AND e.now = 'EXITED' ORDER BY e.id DESC LIMIT 1), '') ELSE '' END
FROM attempt a JOIN job j ON j.id = a.job_id
WHERE a.phase = 'EXITED' AND NOT a.settled AND j.num_nodes = 1 ORDER BY a.job_id LIMIT 200

-- Ends an attempt and applies the effect to its job. lost: the node is gone and the agent reported
-- nothing. Then this statement ends the attempt, and its epoch rejects later messages.
-- name: engine_attempt_settle
-- params: job_id int8, epoch int4, was job_state, now job_state, event job_event, why text,
--   reason text, retry bool, lost bool, at_us int8, fence int8
-- rows: 0..1 node_id int8, told bool, told_job bool
-- writes: yes
WITH ok AS (
	SELECT j.id, a.epoch, a.node_id, a.pool_id, a.steps_done, job_saves(j) AS saves,
		n.ended_us AS node_ended_us, n.end_cause = 'released' AS released
	FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch
	JOIN node n ON n.id = a.node_id
	WHERE j.id = $1 AND j.state = $3 AND j.epoch = $2 AND NOT a.settled
		AND CASE WHEN $9 THEN a.ended_us IS NULL AND a.phase <> 'EXITED' ELSE a.phase = 'EXITED' END
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $11 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j, a
), a AS (
	UPDATE attempt SET settled = true, phase = 'EXITED', ended_us = coalesce(ended_us, least($10, ok.node_ended_us)),
		exit_reason = CASE WHEN $9 THEN 'lost' ELSE exit_reason END, files = '[]', urls_until_us = 0
	FROM ok WHERE attempt.job_id = ok.id AND attempt.epoch = ok.epoch
), j AS (
	UPDATE job SET state = $4, state_us = $10, why = $6, reason = $7,
		restarts = restarts + CASE WHEN $8 THEN 1 ELSE 0 END,
		queued_us = CASE WHEN $4 = 'QUEUED' THEN $10 ELSE queued_us END,
		ended_us = CASE WHEN $4 IN ('SUCCEEDED', 'FAILED', 'CANCELLED') THEN $10 ELSE NULL END
	FROM ok WHERE job.id = ok.id
), n AS (
	UPDATE node SET idle_since_us = $10 FROM ok WHERE node.id = ok.node_id AND state = 'READY'
), c AS (
	UPDATE checkpoint SET state = 'ABANDONED' FROM ok
	WHERE job_id = ok.id AND checkpoint.epoch = ok.epoch AND state = 'OPEN' RETURNING checkpoint.id
), blank AS (
	UPDATE checkpoint_chunk k SET upload_url = NULL, upload_headers = NULL FROM c
	WHERE k.checkpoint_id = c.id AND k.upload_url IS NOT NULL
), v AS (
	INSERT INTO verdict (at_us, node_id, job_id, epoch, rank, kind, why, seen, step)
	SELECT $10, x.id, ok.id, ok.epoch, 0, 'job_lost', $6, node_seen(x, (SELECT from_us FROM led WHERE epoch = $11)), ok.steps_done
	FROM ok JOIN node x ON x.id = ok.node_id WHERE $5 = 'NODE_LOST'
), r AS (
	INSERT INTO recovery (job_id, epoch, rank, node_id, provider, cause, saves, notice_us)
	SELECT ok.id, ok.epoch, 0, ok.node_id, p.provider, 'loss', ok.saves, $10
	FROM ok JOIN pool p ON p.id = ok.pool_id
	WHERE $5 = 'NODE_LOST' AND NOT ok.released ON CONFLICT DO NOTHING
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, epoch, was, now, event, why, actor)
	SELECT $10, 'job', 'j' || id, id, node_id, epoch, $3, $4, $5, $6, 'engine' FROM ok
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AS told,
	pg_notify('spot_api', 'j' || id) IS NOT NULL AS told_job FROM ok

-- Ends an attempt without effect on the job (an old epoch, or the job has ended).
-- name: engine_attempt_shut
-- params: job_id int8, epoch int4, lost bool, at_us int8, fence int8
-- rows: 0..1 node_id int8, told bool
-- writes: yes
WITH a AS (
	UPDATE attempt SET settled = true, phase = 'EXITED', ended_us = coalesce(ended_us, $4),
		exit_reason = CASE WHEN $3 AND phase <> 'EXITED' THEN 'lost' ELSE exit_reason END,
		files = '[]', urls_until_us = 0
	WHERE job_id = $1 AND epoch = $2 AND NOT settled
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE) RETURNING node_id
), c AS (
	UPDATE checkpoint SET state = 'ABANDONED'
	WHERE job_id = $1 AND checkpoint.epoch = $2 AND state = 'OPEN' AND EXISTS (SELECT FROM a) RETURNING checkpoint.id
), blank AS (
	UPDATE checkpoint_chunk k SET upload_url = NULL, upload_headers = NULL FROM c
	WHERE k.checkpoint_id = c.id AND k.upload_url IS NOT NULL
), n AS (
	UPDATE node SET idle_since_us = $4 FROM a WHERE node.id = a.node_id AND state = 'READY'
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AS told FROM a

-- Returns jobs without a live attempt that need an act: cancelled ones, and those whose budget
-- covers a start again.
-- name: engine_jobs_idle
-- params: look bool, now_us int8, end_us int8
-- rows: many id int8, state job_state, epoch int4, cancel bool, left_micros int8?
-- writes: no
-- lane: long
SELECT t.id, t.state, t.epoch, t.cancel, t.left FROM (
	SELECT j.id, j.state, j.epoch, true AS cancel, NULL::int8 AS left FROM job j
	WHERE (j.cancel_us IS NOT NULL OR j.state = 'PARKED') AND j.cancel_us IS NOT NULL
		AND j.state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')
	UNION ALL
	SELECT j.id, j.state, j.epoch, false, b.left FROM job j CROSS JOIN LATERAL (SELECT job_budget_left(j, $2, $3) AS left) b
	WHERE $1 AND (j.cancel_us IS NOT NULL OR j.state = 'PARKED')
		AND j.state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED') AND j.state = 'PARKED' AND j.cancel_us IS NULL AND coalesce(b.left >= j.park_need_micros, true)) t
WHERE NOT EXISTS (SELECT FROM attempt a WHERE a.job_id = t.id AND (a.ended_us IS NULL OR NOT a.settled))
ORDER BY t.id LIMIT 200

-- name: engine_job_park
-- params: id int8, epoch int4, now job_state, event job_event, need_micros int8, why text,
--   at_us int8, fence int8, inputs jsonb
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH j AS (
	UPDATE job SET state = $3, state_us = $7, why = $6, reason = 'budget', park_need_micros = $5
	WHERE id = $1 AND state = 'QUEUED' AND epoch = $2 AND cancel_us IS NULL AND budget_micros IS NOT NULL
		AND NOT EXISTS (SELECT FROM attempt a WHERE a.job_id = $1 AND (a.ended_us IS NULL OR NOT a.settled))
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $8 FOR KEY SHARE)
	RETURNING id, epoch
), d AS (
	INSERT INTO decision (at_us, kind, job_id, inputs, outcome, why)
	SELECT $7, 'park', id, $9, jsonb_build_object('choice', 'park', 'need_micros', $5), $6 FROM j
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, epoch, was, now, event, why, actor)
	SELECT $7, 'job', 'j' || id, id, epoch, 'QUEUED', $3, $4, $6, 'engine' FROM j
)
SELECT id, pg_notify('spot_api', 'j' || id) IS NOT NULL AS told FROM j
