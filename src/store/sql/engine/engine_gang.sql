-- Gangs: jobs of several nodes. This file acquires gangs, assigns their ranks and judges the state
-- of the ranks. A gang is a row before anything is sent. Its nodes are ordinary node rows.
-- Statements lock several nodes in the order of their ids.

-- Returns pools that are cooling for gangs, and (place) those where a gang is being acquired.
-- name: engine_gang_market
-- params: at_us int8
-- rows: many pool_id int4, want int4, until_us int8, place text
-- writes: no
SELECT pool_id, want, until_us, '' FROM gang_cool WHERE until_us > $1
UNION ALL SELECT pool_id, want, 0::int8, place FROM gang WHERE state = 'ACQUIRING'

-- Creates the gang, its nodes, the decision and the event in one statement. An empty token launches
-- each node by itself. With replaces set it is a planned move of a running job, each rank to its
-- own machine. For need see engine_want_for_job; it covers all nodes.
-- name: engine_gang_want
-- params: job_id int8, was job_state, epoch int4, pool_id int4, place text, token text, node[],
--   price_micros int8, kind text, inputs jsonb, outcome jsonb, why text, at_us int8, fence int8,
--   replaces bool, need_micros int8, end_us int8
-- rows_in: node node_label (token text, name text)
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH ok AS (
	SELECT j.id, j.epoch FROM job j
	WHERE j.id = $1 AND j.state = $2 AND j.epoch = $3 AND j.cancel_us IS NULL AND coalesce(job_budget_left(j, $14, $18) >= $17, true)
		AND NOT EXISTS (SELECT FROM gang g WHERE g.state = 'ACQUIRING' AND (g.job_id = $1 OR g.place = $5))
		AND NOT EXISTS (SELECT FROM gang g WHERE g.state = 'SERVING' AND g.job_id = $1
			AND ($2 = 'QUEUED' OR gang_waits(g)))
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $15 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j
), g AS (
	INSERT INTO gang (job_id, pool_id, place, want, token, state, created_us, why)
	SELECT id, $4, $5, cardinality($7), nullif($6, ''), 'ACQUIRING', $14, $13 FROM ok RETURNING id, job_id
), n AS (
	INSERT INTO node (pool_id, job_id, gang_id, gang_rank, gang_call, state, state_us, token, name, price_micros,
		created_us, why, replaces_id)
	SELECT $4, g.job_id, g.id, (s.i - 1)::int4, $6 <> '', 'WANTED', $14, s.token, s.name, $9, $14, $13, a.node_id
	FROM g JOIN ok ON true CROSS JOIN unnest($7, $8) WITH ORDINALITY s (token, name, i)
	LEFT JOIN attempt a ON $16 AND a.job_id = ok.id AND a.epoch = ok.epoch AND a.rank = s.i - 1 RETURNING id, job_id
), d AS (
	INSERT INTO decision (at_us, kind, job_id, node_id, inputs, outcome, why)
	SELECT $14, $10, g.job_id, (SELECT min(n.id) FROM n), $11, $12, $13 FROM g
), j AS (
	UPDATE job SET why = $13 FROM ok WHERE job.id = ok.id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $14, 'node', 'n' || id, job_id, id, '', 'WANTED', upper($10), $13, 'engine' FROM n
)
SELECT id, pg_notify('spot_api', 'j' || job_id) IS NOT NULL AS told FROM g

-- Creates a node for a rank that was refused or lost while the others are held. The index node_gang
-- allows one live node per rank. A budget must have need left, so the others are not held for a
-- node that it cannot pay.
-- name: engine_gang_refill
-- params: gang_id int8, rank int4, token text, name text, why text, at_us int8, fence int8,
--   need_micros int8, end_us int8
-- rows: 0..1 id int8
-- writes: yes
WITH ok AS (
	SELECT g.id, g.job_id, g.pool_id, (SELECT n.price_micros FROM node n WHERE n.gang_id = g.id ORDER BY n.id LIMIT 1) AS price,
		(SELECT n.replaces_id FROM node n WHERE n.gang_id = g.id AND n.gang_rank = $2 ORDER BY n.id LIMIT 1) AS replaces_id
	FROM gang g WHERE g.id = $1 AND g.state = 'ACQUIRING' AND g.token IS NULL
		AND NOT EXISTS (SELECT FROM node n WHERE n.gang_id = $1 AND n.gang_rank = $2
			AND n.state NOT IN ('GONE', 'FAILED', 'TERMINATING'))
		AND EXISTS (SELECT FROM job j WHERE j.id = g.job_id AND coalesce(job_budget_left(j, $6, $9) >= $8, true))
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE)
	FOR NO KEY UPDATE OF g
), n AS (
	INSERT INTO node (pool_id, job_id, gang_id, gang_rank, state, state_us, token, name, price_micros, created_us, why, replaces_id)
	SELECT pool_id, job_id, id, $2, 'WANTED', $6, $3, $4, price, $6, $5, replaces_id FROM ok RETURNING id, job_id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $6, 'node', 'n' || id, job_id, id, '', 'WANTED', 'REFILL', $5, 'engine' FROM n
)
SELECT id FROM n

-- Returns active gangs with their job and the newest node of every rank. A launch in the future
-- stems from a clock step. It is at least as old as its state (engine_clock_settle).
--
-- Column moves: the gang serves a planned move of a running job. Column better: another gang for
-- such a move is complete. Column budget_left: only for a gang with gaps to fill, at the price of
-- its first machine. Column other: the job acquires another gang. Columns wait_us and until_us: its
-- machines wait for one more. Column restart_us: measured, of a gang that may wait; 0 = unknown.
-- name: engine_gangs
-- params: at_us int8, end_us int8
-- rows: many id int8, job_id int8, state gang_state, want int4, one_call bool, job_state job_state,
--   job_epoch int4, cancel bool, mounts bool, save_s int8, checkpoint_id int8?,
--   checkpoint_steps int8, live bool, last_lost_us int8, rank int4, node_id int8?,
--   node_state node_state?, launched_us int8, noticed bool, moves bool, better bool,
--   price_micros int8, budget_micros int8, budget_left int8?, pool_id int4, at_place text,
--   elastic bool, other bool, timed bool, wait_us int8, until_us int8, wait_over bool,
--   wait_why text, restart_us int8
-- writes: no
SELECT g.id, g.job_id, g.state, g.want, g.token IS NOT NULL, j.state, j.epoch, j.cancel_us IS NOT NULL,
	coalesce(jsonb_array_length(j.spec->'mounts'), 0) > 0, coalesce((j.spec #>> '{checkpoint,budget_s}')::int8, 60), j.checkpoint_id,
	coalesce(c.steps, 0),
	EXISTS (SELECT FROM attempt a WHERE a.job_id = j.id AND (a.ended_us IS NULL OR NOT a.settled)),
	coalesce((SELECT max(n.state_us) FROM node n WHERE n.gang_id = g.id
		AND n.state IN ('FAILED', 'TERMINATING', 'GONE')), 0)::int8,
	r.rank, m.id, m.state, coalesce(m.launched_us, 0), coalesce(m.noticed, false),
	EXISTS (SELECT FROM node n WHERE n.gang_id = g.id AND n.replaces_id IS NOT NULL),
	g.state = 'SERVING' AND EXISTS (SELECT FROM gang o WHERE o.job_id = g.job_id AND o.state = 'ACQUIRING' AND o.want = (SELECT count(*)
		FROM node n WHERE n.gang_id = o.id AND n.state = 'READY' AND n.replaces_id IS NOT NULL)),
	coalesce((SELECT n.price_micros FROM node n WHERE n.gang_id = g.id ORDER BY n.id LIMIT 1), 0),
	coalesce(j.budget_micros, 0), b.budget_left,
	g.pool_id, CASE WHEN p.zone <> '' THEN p.zone ELSE p.region END, job_elastic(j),
	EXISTS (SELECT FROM gang o WHERE o.job_id = g.job_id AND o.state = 'ACQUIRING'
		AND o.id <> g.id), j.deadline_us IS NOT NULL, coalesce(g.wait_us, 0),
	coalesce(g.wait_until_us, 0), g.wait_over, g.wait_why,
	CASE WHEN job_elastic(j) AND g.state = 'SERVING' AND j.state IN ('DRAINING', 'QUEUED')
		THEN coalesce((SELECT t.restart_us FROM job_measured(ARRAY[j.id]) t), 0) ELSE 0 END
FROM gang g JOIN job j ON j.id = g.job_id JOIN pool p ON p.id = g.pool_id
LEFT JOIN checkpoint c ON c.id = j.checkpoint_id
CROSS JOIN LATERAL (SELECT CASE WHEN (g.state = 'ACQUIRING' OR job_elastic(j))
	AND j.budget_micros IS NOT NULL AND (SELECT count(*) FROM node n WHERE n.gang_id = g.id
	AND n.state NOT IN ('GONE', 'FAILED', 'TERMINATING', 'DRAINING')) < g.want THEN job_budget_left(j, $1, $2) END AS budget_left OFFSET 0) b
CROSS JOIN LATERAL generate_series(0, g.want - 1) r (rank)
LEFT JOIN LATERAL (SELECT n.id, n.state, CASE WHEN n.launched_us > n.state_us THEN n.state_us ELSE n.launched_us END AS launched_us, n.drain_deadline_us IS NOT NULL OR EXISTS (SELECT FROM notice o
		WHERE o.node_id = n.id AND o.kind = 'interruption') AS noticed
	FROM node n WHERE n.gang_id = g.id AND n.gang_rank = r.rank ORDER BY n.id DESC LIMIT 1) m ON true
WHERE g.state <> 'RELEASED'
ORDER BY j.priority DESC, j.id, g.id, r.rank LIMIT 20000

-- The machines of a serving gang wait for another one of the rank that lost its own. Writes the
-- wait, the node and the decision at once. The node is launched by a call of its own, whichever way
-- the gang came. For need see engine_gang_refill.
-- name: engine_gang_wait
-- params: gang_id int8, job_id int8, was job_state, rank int4, token text, name text,
--   price_micros int8, until_us int8, inputs jsonb, outcome jsonb, why text, at_us int8, fence int8,
--   need_micros int8, end_us int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH ok AS (
	SELECT g.id, g.job_id, g.pool_id FROM gang g JOIN job j ON j.id = g.job_id
	WHERE g.id = $1 AND g.state = 'SERVING' AND g.wait_us IS NULL AND NOT g.wait_over
		AND j.id = $2 AND j.state = $3 AND j.cancel_us IS NULL
		AND coalesce(job_budget_left(j, $12, $15) >= $14, true)
		AND NOT EXISTS (SELECT FROM gang o WHERE o.job_id = $2 AND o.state = 'ACQUIRING')
		AND NOT EXISTS (SELECT FROM node n WHERE n.gang_id = $1 AND n.gang_rank = $4
			AND n.state NOT IN ('GONE', 'FAILED', 'TERMINATING', 'DRAINING'))
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $13 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j, g
), n AS (
	INSERT INTO node (pool_id, job_id, gang_id, gang_rank, state, state_us, token, name,
		price_micros, created_us, why)
	SELECT pool_id, job_id, id, $4, 'WANTED', $12, $5, $6, $7, $12, $11 FROM ok RETURNING id, job_id
), g AS (
	UPDATE gang SET wait_us = $12, wait_until_us = $8, wait_rank = $4, wait_why = $11
	FROM ok WHERE gang.id = ok.id
), j AS (
	UPDATE job SET why = $11 FROM ok WHERE job.id = ok.job_id
), d AS (
	INSERT INTO decision (at_us, kind, job_id, node_id, inputs, outcome, why)
	SELECT $12, 'gang_wait', job_id, id, $9, $10, $11 FROM n
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $12, 'node', 'n' || id, job_id, id, '', 'WANTED', 'GANG_WAIT', $11, 'engine' FROM n
)
SELECT id, pg_notify('spot_api', 'j' || job_id) IS NOT NULL AS told FROM n

-- The machines of a serving gang do not wait, or no longer. The gang goes back once its ranks have
-- stopped, and another is sought from now on.
-- name: engine_gang_wait_over
-- params: gang_id int8, inputs jsonb, outcome jsonb, why text, at_us int8, fence int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH g AS (
	UPDATE gang SET wait_over = true, wait_why = $4,
		waits_lost = waits_lost + CASE WHEN wait_us IS NOT NULL THEN 1 ELSE 0 END
	WHERE id = $1 AND state = 'SERVING' AND NOT wait_over
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $6 FOR KEY SHARE)
	RETURNING id, job_id
), d AS (
	INSERT INTO decision (at_us, kind, job_id, inputs, outcome, why)
	SELECT $5, 'gang_wait', job_id, $2, $3, $4 FROM g
), j AS (
	UPDATE job SET why = $4 FROM g WHERE job.id = g.job_id AND job.state IN ('DRAINING', 'QUEUED')
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, was, now, event, why, actor)
	SELECT $5, 'gang', 'g' || id, job_id, 'SERVING', 'SERVING', 'GANG_WAIT_OVER', $4, 'engine'
	FROM g
)
SELECT id, pg_notify('spot_api', 'j' || job_id) IS NOT NULL AS told FROM g

-- cool: cooldown of the pool for gangs of this size or more, doubled per refusal in a row.
-- name: engine_gang_release
-- params: id int8, was gang_state, cool bool, why text, cool_min_us int8, cool_max_us int8,
--   at_us int8, fence int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH g AS (
	UPDATE gang SET state = 'RELEASED', ended_us = $7, why = $4 WHERE id = $1 AND state = $2
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $8 FOR KEY SHARE)
	RETURNING id, job_id, pool_id, want
), c AS (
	INSERT INTO gang_cool AS c (pool_id, want, until_us, refusals, why) SELECT pool_id, want, $7 + $5, 1, $4 FROM g WHERE $3
	ON CONFLICT (pool_id) DO UPDATE SET want = CASE WHEN c.until_us > $7 THEN least(c.want, excluded.want) ELSE excluded.want END,
		until_us = greatest(c.until_us, cool_until($7, $5, $6, c.refusals)), refusals = c.refusals + 1,
		why = excluded.why
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, was, now, event, why, actor)
	SELECT $7, 'gang', 'g' || id, job_id, $2, 'RELEASED', 'GANG_RELEASED', $4, 'engine' FROM g
)
SELECT id, pg_notify('spot_api', 'j' || job_id) IS NOT NULL AS told FROM g

-- Returns the checkpoint of each rank in the set of this one.
-- name: engine_gang_parts
-- params: checkpoint_id int8
-- rows: many rank int4, checkpoint_id int8
-- writes: no
SELECT DISTINCT ON (s.rank) s.rank, s.id FROM checkpoint h JOIN checkpoint s ON s.job_id = h.job_id AND s.epoch = h.epoch
	AND s.set_key = h.set_key AND s.state = 'COMMITTED' AND s.set_us IS NOT NULL
WHERE h.id = $1 ORDER BY s.rank, s.id = h.id DESC, s.id DESC

-- Starts all ranks at once: rank i is the i-th of the array. A job whose time may be over does not
-- begin. It waits until that is certain, and fails.
-- name: engine_gang_assign
-- params: job_id int8, was job_state, epoch int4, gang_id int8, gang_was gang_state, rank[],
--   now job_state, event job_event, why text, checkpoint_id int8?, steps_start int8,
--   urls_until_us int8, at_us int8, fence int8, end_us int8
-- rows_in: rank (node_id int8, files text, restore_id int8?)
-- rows: many node_id int8, told bool
-- writes: yes
WITH ok AS (
	SELECT j.id, j.epoch + 1 AS epoch, g.id AS gang_id, g.want, g.pool_id, p.market
	FROM job j JOIN gang g ON g.job_id = j.id JOIN pool p ON p.id = g.pool_id
	WHERE j.id = $1 AND j.state = $2 AND j.epoch = $3 AND j.cancel_us IS NULL
		AND j.checkpoint_id IS NOT DISTINCT FROM $12 AND coalesce(job_budget_left(j, $15, $17) > 0, true)
		AND (coalesce((j.spec->>'max_duration_s')::int8, 0) = 0 OR (j.spec->>'max_duration_s')::int8 * 1000000 > coalesce((
			SELECT sum(greatest(a.ended_us - a.started_us, 0)) FROM attempt a WHERE a.job_id = $1 AND a.rank = 0 AND a.started_us IS NOT NULL), 0))
		AND g.id = $4 AND g.state = $5 AND g.want = cardinality($6)
		AND ($5 = 'SERVING' OR NOT EXISTS (SELECT FROM gang o WHERE o.job_id = $1 AND o.state = 'SERVING'))
		AND NOT EXISTS (SELECT FROM attempt a WHERE a.job_id = $1 AND (a.ended_us IS NULL OR NOT a.settled))
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $16 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j, g
), m AS MATERIALIZED (
	SELECT n.id, n.gang_rank FROM node n JOIN ok ON n.gang_id = ok.gang_id
	WHERE n.id = ANY ($6) AND n.state = 'READY' AND n.drain_deadline_us IS NULL
		AND NOT EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND a.ended_us IS NULL)
	ORDER BY n.id FOR NO KEY UPDATE OF n
), all_in AS (
	SELECT ok.* FROM ok WHERE (SELECT count(*) FROM m) = ok.want
), n AS (
	UPDATE node SET idle_since_us = NULL FROM all_in WHERE node.id = ANY ($6)
), g AS (
	UPDATE gang SET state = 'SERVING', served_us = coalesce(served_us, $15), wait_us = NULL,
		wait_until_us = NULL, wait_rank = NULL, wait_why = '', wait_over = false,
		waits_won = waits_won + CASE WHEN gang_waits(gang) THEN 1 ELSE 0 END
	FROM all_in WHERE gang.id = all_in.gang_id
), c AS (
	DELETE FROM gang_cool USING all_in WHERE gang_cool.pool_id = all_in.pool_id
), j AS (
	UPDATE job SET state = $9, state_us = $15, epoch = all_in.epoch, why = $11, reason = '' FROM all_in WHERE job.id = all_in.id
), a AS (
	INSERT INTO attempt (job_id, epoch, rank, node_id, pool_id, market, desired, phase, files, urls_until_us, restore_id,
		steps_start, steps_done, created_us)
	SELECT all_in.id, all_in.epoch, (s.i - 1)::int4, s.node_id, all_in.pool_id, all_in.market, 'run', 'ASSIGNED', s.files::jsonb, $14,
		s.restore_id, $13, $13, $15
	FROM all_in, unnest($6, $7, $8) WITH ORDINALITY s (node_id, files, restore_id, i) RETURNING node_id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, epoch, was, now, event, why, actor)
	SELECT $15, 'job', 'j' || id, id, epoch, $2, $9, $10, $11, 'engine' FROM all_in
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AND pg_notify('spot_api', 'j' || $1::int8) IS NOT NULL
	AS told FROM a

-- ---- running ----------------------------------------------------------------------------------

-- Marks complete sets: their steps count, and rank 0's part of the newest is the job's checkpoint.
-- Some ranks may have an empty part, but not all. The statement reads only sets with an undecided
-- part, by an index. An epoch may have thousands of complete sets.
-- name: engine_gang_sets
-- params: at_us int8, fence int8
-- rows: many job_id int8, told bool
-- writes: yes
WITH w AS (
	SELECT j.id AS job_id, j.epoch, o.set_key, c.head
	FROM job j CROSS JOIN LATERAL (SELECT DISTINCT c.set_key FROM checkpoint c
		WHERE c.job_id = j.id AND c.epoch = j.epoch AND c.state = 'COMMITTED' AND c.set_key IS NOT NULL AND c.set_us IS NULL) o
	CROSS JOIN LATERAL (SELECT max(c.id) FILTER (WHERE c.rank = 0) AS head, count(DISTINCT c.rank) AS ranks, max(c.bytes) AS bytes
		FROM checkpoint c WHERE c.job_id = j.id AND c.epoch = j.epoch AND c.set_key = o.set_key AND c.state = 'COMMITTED') c
	WHERE j.num_nodes > 1 AND j.state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $2 FOR KEY SHARE)
		AND c.ranks = j.num_nodes AND c.bytes > 0
), u AS (
	UPDATE checkpoint c SET set_us = $1 FROM w
	WHERE c.job_id = w.job_id AND c.epoch = w.epoch AND c.set_key = w.set_key AND c.state = 'COMMITTED' AND c.set_us IS NULL
), h AS (
	SELECT DISTINCT ON (w.job_id) w.job_id, w.epoch, w.head, w.set_key FROM w ORDER BY w.job_id, w.head DESC
), j AS (
	UPDATE job SET checkpoint_id = h.head FROM h
	WHERE job.id = h.job_id AND job.epoch = h.epoch AND coalesce(job.checkpoint_id, 0) < h.head RETURNING job.id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, epoch, was, now, event, why, actor)
	SELECT $1, 'checkpoint', 'c' || h.head, h.job_id, h.epoch, 'COMMITTED', 'COMMITTED', 'COMPLETE',
		'all ranks have ' || CASE WHEN h.set_key > 0 THEN 'step ' || h.set_key ELSE 'save ' || -h.set_key END, 'engine'
	FROM h JOIN j ON j.id = h.job_id
)
SELECT h.job_id, pg_notify('spot_api', 'j' || h.job_id) IS NOT NULL AS told FROM h

-- Budgets as in engine_attempts_odd, once per gang.
-- name: engine_gang_ranks
-- params: at_us int8, look bool, end_us int8
-- rows: many job_id int8, epoch int4, rank int4, job_state job_state, job_epoch int4, node_id int8,
--   node_state node_state, node_deadline_us int8?, noticed bool, node_why text, desired text,
--   phase attempt_phase, ended bool, exit_reason text, exit_code int4?, exit_signal int4?,
--   deadline_us int8?, restarts int4, max_restarts int8, cancel bool, ran_us int8, most_us int8,
--   said text, over_budget bool, budget_micros int8, spent_micros int8
-- writes: no
SELECT a.job_id, a.epoch, a.rank, j.state, j.epoch, a.node_id, n.state, n.drain_deadline_us,
	EXISTS (SELECT FROM notice o WHERE o.node_id = n.id AND o.kind <> 'rebalance'), n.why, a.desired, a.phase,
	a.phase = 'EXITED' OR a.ended_us IS NOT NULL, a.exit_reason, a.exit_code, a.exit_signal, a.drain_deadline_us, j.restarts,
	coalesce((j.spec->>'max_restarts')::int8, 0), j.cancel_us IS NOT NULL,
	CASE WHEN (j.spec->>'max_duration_s')::int8 > 0 THEN coalesce((SELECT sum(greatest(coalesce(b.ended_us, $1) - b.started_us, 0))::int8 FROM attempt b
		WHERE b.job_id = j.id AND b.rank = 0 AND b.started_us IS NOT NULL), 0) ELSE 0 END, coalesce((j.spec->>'max_duration_s')::int8, 0) * 1000000,
	CASE WHEN a.exit_code IS NULL AND a.exit_signal IS NULL THEN coalesce((SELECT e.why FROM event e WHERE e.job_id = a.job_id AND e.epoch = a.epoch
		AND e.node_id = a.node_id AND e.event = 'PHASE' AND e.now = 'EXITED' ORDER BY e.id DESC LIMIT 1), '') ELSE '' END,
	coalesce(u.left <= 0, false), coalesce(j.budget_micros, 0), CASE WHEN u.left <= 0 THEN job_spent(j.id, $1) ELSE 0 END
FROM (SELECT v.*, CASE WHEN $2 THEN job_budget_left(y, $1, $3) END AS left
	FROM (SELECT DISTINCT x.job_id, x.epoch FROM attempt x WHERE NOT x.settled AND x.rank > 0) v -- all ranks settle at once
	JOIN job y ON y.id = v.job_id OFFSET 0) u
JOIN attempt a ON a.job_id = u.job_id AND a.epoch = u.epoch JOIN job j ON j.id = a.job_id JOIN node n ON n.id = a.node_id
ORDER BY a.job_id, a.epoch, a.rank LIMIT 20000

-- Ends a rank whose node has ended and whose agent reported nothing. The epoch rejects later
-- messages.
-- name: engine_gang_lost
-- params: job_id int8, epoch int4, ranks int4[], at_us int8, fence int8
-- rows: many rank int4
-- writes: yes
WITH a AS (
	UPDATE attempt a SET phase = 'EXITED', exit_reason = 'lost', ended_us = least($4, n.ended_us), files = '[]', urls_until_us = 0
	FROM node n
	WHERE a.job_id = $1 AND a.epoch = $2 AND a.rank = ANY ($3) AND a.ended_us IS NULL AND a.phase <> 'EXITED'
		AND n.id = a.node_id AND n.state IN ('TERMINATING', 'GONE', 'FAILED')
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE)
	RETURNING a.rank, a.node_id, a.pool_id, a.steps_done, n.why
), r AS (
	INSERT INTO recovery (job_id, epoch, rank, node_id, provider, cause, saves, notice_us)
	SELECT $1, $2, a.rank, a.node_id, p.provider, 'loss', job_saves(j), $4
	FROM a JOIN pool p ON p.id = a.pool_id JOIN job j ON j.id = $1 ON CONFLICT DO NOTHING
), v AS (
	INSERT INTO verdict (at_us, node_id, job_id, epoch, rank, kind, why, seen, step)
	SELECT $4, x.id, $1, $2, a.rank, 'job_lost', 'n' || x.id || ' is lost: ' || a.why,
		node_seen(x, (SELECT from_us FROM led WHERE epoch = $5)), a.steps_done
	FROM a JOIN node x ON x.id = a.node_id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, epoch, was, now, event, why, actor)
	SELECT $4, 'attempt', 'j' || $1::int8 || '/' || $2::int4 || '/' || rank, $1, node_id, $2, '', 'EXITED', 'LOST', why, 'engine' FROM a
)
SELECT rank FROM a

-- Ranks told to stop earlier, as for a lost rank, get a cancellation too.
-- name: engine_gang_tell
-- params: job_id int8, epoch int4, was job_state, now job_state, event job_event, desired text,
--   why text, deadline_us int8?, at_us int8, fence int8
-- rows: many node_id int8, told bool
-- writes: yes
WITH ok AS (
	SELECT j.id FROM job j WHERE j.id = $1 AND j.state = $3 AND j.epoch = $2
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $10 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j
), a AS (
	UPDATE attempt SET desired = $6, version = version + 1, drain_why = CASE WHEN desired = 'kill' THEN drain_why ELSE $7 END, drain_deadline_us = $8
	FROM ok WHERE attempt.job_id = ok.id AND attempt.epoch = $2 AND attempt.ended_us IS NULL AND (attempt.desired <> 'kill' OR $4 = 'CANCELLING')
	RETURNING attempt.node_id
), j AS (
	UPDATE job SET state = $4, state_us = $9, why = $7 FROM ok WHERE job.id = ok.id AND EXISTS (SELECT FROM a)
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, epoch, was, now, event, why, actor)
	SELECT $9, 'job', 'j' || id, id, $2, $3, $4, $5, $7, 'engine' FROM ok WHERE EXISTS (SELECT FROM a)
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AND pg_notify('spot_api', 'j' || $1::int8) IS NOT NULL
	AS told FROM a

-- Ends all ranks of an epoch. Waits while a complete set of it is not yet marked.
-- name: engine_gang_settle
-- params: job_id int8, epoch int4, was job_state, now job_state, event job_event, why text,
--   reason text, retry bool, at_us int8, fence int8
-- rows: many node_id int8, told bool
-- writes: yes
WITH ok AS (
	SELECT j.id FROM job j WHERE j.id = $1 AND j.state = $3 AND j.epoch = $2
		AND NOT EXISTS (SELECT FROM attempt a WHERE a.job_id = $1 AND a.epoch = $2 AND (a.ended_us IS NULL OR a.settled))
		AND NOT EXISTS (SELECT FROM checkpoint c WHERE c.job_id = $1 AND c.epoch = $2 AND c.state = 'COMMITTED' AND c.set_key IS NOT NULL
			GROUP BY c.set_key HAVING count(DISTINCT c.rank) = j.num_nodes AND count(*) FILTER (WHERE c.set_us IS NULL) > 0
				AND max(c.bytes) > 0)
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $10 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j
), a AS (
	UPDATE attempt SET settled = true, files = '[]', urls_until_us = 0 FROM ok
	WHERE attempt.job_id = ok.id AND attempt.epoch = $2 RETURNING attempt.node_id
), j AS (
	UPDATE job SET state = $4, state_us = $9, reason = $7,
		why = coalesce(CASE WHEN $4 = 'QUEUED' THEN job_wait_why($1) END, $6),
		restarts = restarts + CASE WHEN $8 THEN 1 ELSE 0 END,
		queued_us = CASE WHEN $4 = 'QUEUED' THEN $9 ELSE queued_us END,
		ended_us = CASE WHEN $4 IN ('SUCCEEDED', 'FAILED', 'CANCELLED') THEN $9 ELSE NULL END
	FROM ok WHERE job.id = ok.id
), m AS MATERIALIZED (
	SELECT id FROM node WHERE id IN (SELECT node_id FROM a) AND state = 'READY' ORDER BY id FOR NO KEY UPDATE
), n AS (
	UPDATE node SET idle_since_us = $9 FROM m WHERE node.id = m.id
), c AS (
	UPDATE checkpoint SET state = 'ABANDONED' FROM ok
	WHERE job_id = ok.id AND checkpoint.epoch = $2 AND (state = 'OPEN' OR (state = 'COMMITTED' AND set_us IS NULL))
	RETURNING checkpoint.id
), blank AS (
	UPDATE checkpoint_chunk k SET upload_url = NULL, upload_headers = NULL FROM c
	WHERE k.checkpoint_id = c.id AND k.upload_url IS NOT NULL
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, epoch, was, now, event, why, actor)
	SELECT $9, 'job', 'j' || id, id, $2, $3, $4, $5, $6, 'engine' FROM ok
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AND pg_notify('spot_api', 'j' || $1::int8) IS NOT NULL
	AS told FROM a

-- Ends all ranks of an epoch without effect on the job.
-- name: engine_gang_shut
-- params: job_id int8, epoch int4, at_us int8, fence int8
-- rows: many node_id int8, told bool
-- writes: yes
WITH a AS (
	UPDATE attempt SET settled = true, phase = 'EXITED', ended_us = coalesce(ended_us, $3), files = '[]', urls_until_us = 0
	WHERE job_id = $1 AND epoch = $2 AND NOT settled
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE) RETURNING node_id
), c AS (
	UPDATE checkpoint SET state = 'ABANDONED' WHERE job_id = $1 AND checkpoint.epoch = $2
		AND (state = 'OPEN' OR (state = 'COMMITTED' AND set_us IS NULL)) AND EXISTS (SELECT FROM a) RETURNING checkpoint.id
), blank AS (
	UPDATE checkpoint_chunk k SET upload_url = NULL, upload_headers = NULL FROM c
	WHERE k.checkpoint_id = c.id AND k.upload_url IS NOT NULL
), n AS (
	UPDATE node SET idle_since_us = $3 FROM a WHERE node.id = a.node_id AND state = 'READY'
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AS told FROM a
