-- Rules about rows that the tests ask (src/store/gen_rules.py says how one is written). Notices, moves, logs and dates.

-- rule: a machine with a row is no orphan
-- The row of a launch stands for its machine before it knows the ref.
SELECT e.entity_id AS id, e.entity_id || ' is n' || n.id || ': ' || e.why AS words
FROM event e
JOIN node n ON n.ref IS NOT NULL AND e.entity_id = (SELECT p.provider FROM pool p WHERE p.id = n.pool_id)
	|| '/' || n.ref
WHERE e.event = 'ORPHAN' AND (n.ended_us IS NULL OR n.ended_us > e.at_us + :skew)

-- rule: a reclaimed machine is left to its cloud
-- A reclaimed machine may cost nothing, one that we terminate does. Until its deadline it is left
-- alone. Nobody knows who ended one whose notice came with the release.
SELECT n.id, 'n' || n.id || ' ' || (n.drain_deadline_us - e.at_us) / 1000000 || ' s before: ' || e.why AS words
FROM node n
JOIN pool p ON p.id = n.pool_id AND p.market = 'spot'
JOIN event e ON e.node_id = n.id AND e.entity = 'node' AND e.was = 'DRAINING'
	AND e.now = 'TERMINATING' AND e.event = 'RELEASE'
JOIN notice o ON o.node_id = n.id AND o.kind = 'interruption'
	AND o.heard_us < e.at_us - 2000000
WHERE e.at_us < n.drain_deadline_us - :skew

-- rule: a job that moves has saved
-- A planned move asks its program to save; a job that saves nothing is not moved.
SELECT j.id, 'j' || j.id || ' saves nothing: ' || e.why AS words
FROM event e
JOIN job j ON j.id = e.job_id
WHERE e.entity = 'job' AND e.event = 'MOVE' AND e.why ~ '^moves'
	AND j.spec->'checkpoint'->>'path' IS NULL

-- rule: a job that moves has saved / was asked to
SELECT j.id, 'j' || j.id || ' epoch ' || a.epoch || ' was not asked to: ' || e.why AS words
FROM event e
JOIN job j ON j.id = e.job_id AND j.num_nodes = 1 AND j.cancel_us IS NULL
JOIN attempt a ON a.job_id = j.id AND a.epoch = e.epoch AND a.desired = 'kill'
WHERE e.entity = 'job' AND (e.event = 'MOVE' OR (e.event = 'BUDGET' AND e.now = 'DRAINING'))

-- rule: a job that moves has saved / has stored it
-- Where nothing went wrong since, work is stored before it goes on elsewhere.
SELECT j.id, 'j' || j.id || ' epoch ' || a.epoch || ' ' || a.exit_reason || ': ' || e.why AS words
FROM event e
JOIN job j ON j.id = e.job_id AND j.num_nodes = 1 AND j.cancel_us IS NULL
	AND j.spec->'checkpoint'->>'path' IS NOT NULL
JOIN attempt a ON a.job_id = j.id AND a.epoch = e.epoch AND a.settled
	AND a.exit_reason IN ('drained', 'killed') AND a.started_us + 60000000 < e.at_us
WHERE e.entity = 'job' AND (e.event = 'MOVE' OR (e.event = 'BUDGET' AND e.now = 'DRAINING'))
	AND e.at_us > :harm AND NOT EXISTS (SELECT FROM checkpoint c WHERE c.job_id = a.job_id AND c.epoch =
		a.epoch AND c.rank = a.rank AND c.state = 'COMMITTED' AND c.committed_us > e.at_us)

-- rule: a machine is given back after what ran there is settled
-- chaos: yes
SELECT e.node_id AS id, 'n' || e.node_id || ' before ' || s.event || ' of j' || a.job_id AS words
FROM event e
JOIN attempt a ON a.node_id = e.node_id
JOIN event s ON s.entity = 'job' AND s.job_id = a.job_id AND s.epoch = a.epoch
	AND s.id > e.id AND s.event IN ('STOPPED', 'EXITED_OK', 'EXITED_BAD', 'RETRY')
WHERE e.entity = 'node' AND e.event = 'RELEASE' AND e.now = 'TERMINATING'

-- rule: a rank is sought again while the others are held
-- Half of the hold is more than a new launch takes.
SELECT g.id, 'g' || g.id || ' rank ' || m.gang_rank AS words
FROM gang g
JOIN node m ON m.gang_id = g.id
WHERE g.token IS NULL AND g.state = 'RELEASED' AND g.why LIKE '%came within the hold%'
	AND m.ended_us < g.ended_us - 510000000 - :skew AND NOT EXISTS (SELECT FROM node l WHERE l.gang_id =
		g.id AND l.gang_rank = m.gang_rank AND l.id > m.id)
	AND NOT EXISTS (SELECT FROM node o WHERE o.gang_id = g.id AND o.gang_rank <> m.gang_rank AND (o.launched_us
		IS NULL OR o.launched_us > g.ended_us - 510000000 OR o.ended_us < g.ended_us))

-- rule: a log is what its program wrote
-- Each program of the simulation writes one line as it begins.
SELECT job_id AS id, 'j' || job_id || ' epoch ' || epoch || ' rank ' || rank || ' at ' || at_offset AS words
FROM job_log
WHERE at_offset <> 0 OR convert_from(bytes, 'UTF8') <> 'hello' || chr(10)

-- rule: a log is what its program wrote / has one
-- The program ran for five minutes, and its end was heard.
SELECT a.job_id AS id, 'j' || a.job_id || ' epoch ' || a.epoch || ' rank ' || a.rank AS words
FROM attempt a
WHERE a.exit_reason = 'ok' AND a.ended_us - a.started_us > 300000000 + :skew::int8
	AND NOT EXISTS (SELECT FROM job_log l WHERE (l.job_id, l.epoch, l.rank) = (a.job_id, a.epoch, a.rank))

-- rule: an event that did not happen has no time
-- A time in a row is of something that was written down when it happened.
SELECT x.what AS id, x.what AS words
FROM (
	SELECT 'n' || n.id || ' was ready' AS what FROM node n
	WHERE n.ready_us IS NOT NULL AND NOT EXISTS (SELECT FROM event e WHERE e.node_id = n.id AND e.now = 'READY')
	UNION ALL SELECT 'n' || e.node_id || ' was under suspicion' FROM event e
	WHERE e.event IN ('SUSPECTED', 'HEALTHY') GROUP BY e.node_id
	HAVING count(*) FILTER (WHERE e.event = 'HEALTHY') > count(*) FILTER (WHERE e.event = 'SUSPECTED')
	UNION ALL SELECT ref || ' was asked to end' FROM orphan o
	WHERE o.terminate_us IS NOT NULL AND NOT EXISTS (SELECT FROM event e
		WHERE e.event IN ('ORPHAN_ENDED', 'LEFTOVER') AND e.entity_id = o.provider || '/' || o.ref)
	UNION ALL SELECT 'gang ' || g.id || ' served' FROM gang g
	WHERE g.served_us IS NOT NULL
		AND NOT EXISTS (SELECT FROM attempt a JOIN node n ON n.id = a.node_id WHERE n.gang_id = g.id)
) x

-- rule: a machine recommended for rebalance stays
-- A rebalance recommendation says that a machine may be taken some day.
SELECT n.id, 'n' || n.id AS words
FROM event e
JOIN node n ON n.id = e.node_id
WHERE e.event = 'NOTICE' AND e.now = 'DRAINING' AND NOT EXISTS (SELECT FROM notice o WHERE o.node_id =
	n.id AND o.kind <> 'rebalance')

-- rule: an attempt begins once
-- The first report that a program runs dates its start. Asked where no clock was behind.
SELECT a.job_id AS id, 'j' || a.job_id || '/' || a.epoch || '/' || a.rank AS words
FROM attempt a
WHERE a.started_us > (SELECT e.at_us FROM event e WHERE e.entity = 'attempt' AND e.job_id = a.job_id AND
	e.epoch = a.epoch AND e.node_id = a.node_id AND e.now = 'RUNNING' ORDER BY e.id LIMIT 1)
