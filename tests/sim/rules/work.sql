-- Rules about rows that the tests ask (src/store/gen_rules.py says how one is written). Gangs, fleets, times, places, restarts and requests.

-- rule: a gang begins whole
-- chaos: yes
SELECT g.job_id AS id, 'j' || g.job_id || ' epoch ' || g.epoch || ' has ' || g.n || ' of ' || j.num_nodes AS words
FROM (SELECT job_id, epoch, count(*) n FROM attempt GROUP BY job_id, epoch) g
JOIN job j ON j.id = g.job_id
WHERE g.n <> j.num_nodes

-- rule: the ranks of a gang are in one place
-- chaos: yes
SELECT job_id AS id, 'j' || job_id || ' epoch ' || epoch AS words
FROM (SELECT a.job_id, a.epoch FROM attempt a JOIN node n ON n.id = a.node_id JOIN pool p ON p.id = n.pool_id
	GROUP BY a.job_id, a.epoch HAVING count(DISTINCT (p.provider, p.region, p.zone, p.instance_type, p.market))
	> 1) x

-- rule: a machine has one rank of one job
-- chaos: yes
SELECT node_id AS id, 'n' || node_id AS words
FROM (SELECT node_id FROM attempt WHERE ended_us IS NULL GROUP BY node_id HAVING count(*) > 1) x

-- rule: a job is sought one machine at a time
SELECT job_id AS id, 'j' || job_id || ' has ' || n || ' on their way' AS words
FROM (SELECT job_id, count(*) n FROM node WHERE state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING')
	AND gang_id IS NULL AND job_id IS NOT NULL AND end_cause <> 'unwanted' GROUP BY job_id HAVING count(*)
	> 1) x

-- rule: a fleet is not larger than it was asked to be
SELECT f.id, 'f' || f.id || ' has ' || x.n AS words
FROM fleet f, LATERAL (SELECT count(*) n FROM node n WHERE n.fleet_id = f.id AND n.state IN ('WANTED',
	'LAUNCHING', 'BOOTING', 'READY') AND NOT node_stands_in(n)) x
WHERE x.n > coalesce((f.spec->'scaling'->>'max')::int, (f.spec->>'nodes')::int)

-- rule: a fleet gives back no machine with work
SELECT e.node_id AS id, 'n' || e.node_id || ' with an attempt of j' || a.job_id AS words
FROM event e JOIN attempt a ON a.node_id = e.node_id
WHERE e.entity = 'node' AND e.event = 'RELEASE' AND e.why = 'idle, and more than the fleet wants'
	AND a.created_us < e.at_us AND coalesce(a.ended_us > e.at_us, true)

-- rule: a node of a fleet has one replacement
SELECT replaces_id AS id, 'n' || replaces_id || ' has ' || n AS words
FROM (SELECT replaces_id, count(*) n FROM node
	WHERE fleet_id IS NOT NULL AND replaces_id IS NOT NULL
		AND state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')
	GROUP BY replaces_id HAVING count(*) > 1) x

-- rule: a node of a fleet leaves for one that is ready
SELECT e.id, 'n' || e.node_id || ': ' || e.why AS words
FROM event e
JOIN node o ON o.id = e.node_id AND o.fleet_id IS NOT NULL
WHERE ((e.event = 'DRAIN_ASKED' AND e.actor = 'engine')
		OR (e.event = 'RELEASE' AND e.why LIKE 'n% replaces it'))
	AND NOT EXISTS (SELECT FROM node n
		WHERE n.replaces_id = o.id AND n.fleet_id = o.fleet_id
			AND n.ready_us <= e.at_us + :skew)

-- rule: a fleet gives nothing back while its size stays
SELECT f.id, 'f' || f.id || ' gave n' || n.id || ' back' AS words
FROM fleet f
JOIN node n ON n.fleet_id = f.id
JOIN event e ON e.node_id = n.id AND e.event IN ('RELEASE', 'UNWANTED')
	AND e.why = 'more than the fleet wants'
WHERE f.updated_us = f.created_us AND f.spec->'scaling' IS NULL
	AND coalesce((f.spec->>'on_demand_floor')::int, 0) = 0

-- rule: a machine without work is given back
-- Within the hour.
SELECT n.id, 'n' || n.id || ' ' || n.state || ' of j' || j.id AS words
FROM node n
JOIN job j ON j.id = n.job_id
WHERE n.state IN ('WANTED', 'BOOTING', 'READY') AND n.fleet_id IS NULL
	AND greatest(j.ended_us, n.state_us) + 3600000000 + :skew < :now

-- rule: a cancellation is heard
-- Within 150 s, where nothing went wrong meanwhile.
SELECT id, 'j' || id || ' is ' || state || ' ' || (:now - cancel_us) / 1000000 || ' s after it was cancelled' AS words
FROM job
WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED') AND cancel_us + 150000000 < :now

-- rule: a cancellation is told
-- soon: yes
SELECT id, state AS words
FROM job
WHERE cancel_us IS NOT NULL AND state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'CANCELLING')

-- rule: a gang stops with the rank that it has lost
-- soon: yes
SELECT id, state AS words
FROM job j
WHERE num_nodes > 1 AND EXISTS (SELECT FROM attempt a WHERE a.job_id = j.id AND a.epoch = j.epoch AND
	a.ended_us IS NULL AND a.desired = 'run')
	AND EXISTS (SELECT FROM attempt o WHERE o.job_id = j.id AND o.epoch = j.epoch AND o.ended_us IS NOT NULL
		AND o.exit_reason <> 'ok')

-- rule: an elastic gang keeps no machine waiting beyond its bound
-- soon: yes
SELECT j.id, 'g' || g.id || ' waits ' || (:now - g.wait_until_us) / 1000000 || ' s longer' AS words
FROM gang g
JOIN job j ON j.id = g.job_id
WHERE gang_waits(g) AND g.wait_until_us + :skew < :now AND g.want > (SELECT count(*) FROM node n
	WHERE n.gang_id = g.id AND n.state = 'READY')

-- rule: a gang waits for one machine at a time
SELECT g.id, 'g' || g.id || ' has another gang besides' AS words
FROM gang g
WHERE gang_waits(g) AND EXISTS (SELECT FROM gang o
	WHERE o.job_id = g.job_id AND o.state = 'ACQUIRING')

-- rule: a job whose time is over does not begin
SELECT a.job_id AS id, 'j' || a.job_id || ' epoch ' || a.epoch AS words
FROM attempt a
JOIN job j ON j.id = a.job_id
WHERE a.rank = 0 AND (j.spec->>'max_duration_s')::int8 > 0 AND (SELECT sum(b.ended_us - b.started_us)
	FROM attempt b WHERE b.job_id = a.job_id AND b.rank = 0 AND b.epoch < a.epoch AND b.ended_us > b.started_us)
	>= (j.spec->>'max_duration_s')::int8 * 1000000 + :skew

-- rule: a job that is over runs nowhere
-- chaos: yes
SELECT j.id, 'j' || j.id || ' is ' || j.state || ', epoch ' || a.epoch || ' rank ' || a.rank || ' lives' AS words
FROM job j
JOIN attempt a ON a.job_id = j.id AND a.ended_us IS NULL
WHERE j.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED')

-- rule: every accepted request is over in the end
SELECT x.what AS id, x.what AS words
FROM (
	SELECT 'd' || id || ', a ' || kind || ', is pending' AS what FROM decision WHERE outcome->>'state' = 'pending'
	UNION ALL SELECT 'doctor run ' || id || ' is ' || state FROM doctor_run WHERE state <> 'done'
	UNION ALL SELECT 'the end of ' || ref || ' is asked for' FROM orphan WHERE word = 'end' AND gone_us IS NULL
	UNION ALL SELECT 'f' || id || ' is ' || state FROM fleet WHERE state = 'CLOSING'
	UNION ALL SELECT 'j' || id || ' is cancelled and ' || state FROM job
	WHERE cancel_us IS NOT NULL AND state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')
	UNION ALL SELECT 'a ' || o.kind || ' notice of n' || o.node_id || ' is not handled' FROM notice o
	WHERE o.handled_us IS NULL
	UNION ALL SELECT 'j' || job_id || ' epoch ' || epoch || ' is not settled' FROM attempt WHERE NOT settled
	UNION ALL SELECT 'gang ' || id || ' is ' || state FROM gang WHERE state <> 'RELEASED'
) x

-- rule: a fleet that was closed ends at zero
SELECT f.id, 'f' || f.id || ' ' || f.state AS words
FROM fleet f
WHERE f.state <> 'CLOSED' OR EXISTS (SELECT 1 FROM node n WHERE n.fleet_id = f.id AND n.state NOT IN ('GONE',
	'FAILED'))

-- rule: a deadline that can be met is met
-- It was accepted as one that can be met. Asked where no fault was injected.
SELECT id, 'j' || id || ' ' || state || ' ' || (ended_us - deadline_us) / 1000000 || ' s late' AS words
FROM job
WHERE deadline_us IS NOT NULL AND ended_us > deadline_us AND state IN ('SUCCEEDED', 'FAILED') AND fleet_id IS NULL

-- rule: a deadline that can be met is met / where nobody has an L4
-- It was accepted as one that can be met. Asked where no fault was injected, at clouds without an L4.
SELECT id, 'j' || id || ' ' || state || ' ' || (ended_us - deadline_us) / 1000000 || ' s late' AS words
FROM job
WHERE deadline_us IS NOT NULL AND ended_us > deadline_us AND state IN ('SUCCEEDED', 'FAILED') AND fleet_id IS NULL AND spec::text NOT LIKE '%L4%'

-- rule: a job runs where it may
-- chaos: yes
SELECT j.id, 'j' || j.id || ' epoch ' || a.epoch || ' on n' || n.id || ' ' || p.market || ' ' || p.gpu_name AS words
FROM attempt a
JOIN job j ON j.id = a.job_id
JOIN node n ON n.id = a.node_id
JOIN pool p ON p.id = n.pool_id
WHERE (p.market = 'spot' AND j.spec->>'interruptible' = 'false')
	OR j.fleet_id IS DISTINCT FROM n.fleet_id OR NOT EXISTS (SELECT FROM jsonb_array_elements(j.spec->'asks')
		k, jsonb_array_elements(k->'gpus') g WHERE (p.market <> 'spot' OR (k->>'use_spot')::int <> 0) AND position(lower(g->>'gpu')
		IN lower(p.gpu_name)) > 0)

-- rule: no job begins on a machine that is being taken
-- A minute is for a notice that arrived meanwhile.
SELECT a.job_id AS id, 'j' || a.job_id || ' epoch ' || a.epoch || ' on n' || a.node_id AS words
FROM attempt a
JOIN notice o ON o.node_id = a.node_id AND o.kind = 'interruption'
WHERE a.created_us > o.heard_us + 60000000 + :skew

-- rule: a job begins on machines that are ready
SELECT a.job_id AS id, 'j' || a.job_id || ' epoch ' || a.epoch || ' rank ' || a.rank || ' on n' || n.id AS words
FROM attempt a
JOIN node n ON n.id = a.node_id
WHERE n.ready_us IS NULL OR n.ready_us > a.created_us + :skew
	OR n.terminate_us + 20000000 + :skew < a.created_us

-- rule: a preempted job is less urgent
-- chaos: yes
SELECT v.id, 'j' || v.id || ' for j' || f.id AS words
FROM decision d
JOIN job v ON v.id = d.job_id
JOIN job f ON f.id = (d.outcome->>'for_job')::int8
WHERE d.kind = 'preempted' AND (v.priority + 100 > f.priority OR v.spec->>'interruptible' = 'false')

-- rule: a job that is over does not begin
-- The clocks of API and engine may differ: 20 s.
SELECT j.id, 'j' || j.id || ' epoch ' || a.epoch AS words
FROM attempt a
JOIN job j ON j.id = a.job_id
WHERE a.created_us > least(j.cancel_us, j.ended_us) + 20000000 + :skew

-- rule: no machine is wanted for a job that is over
SELECT n.id, 'n' || n.id || ' for j' || j.id AS words
FROM node n
JOIN job j ON j.id = n.job_id
WHERE n.created_us > least(j.cancel_us, j.ended_us) + 20000000 + :skew

-- rule: a job that finished does not run again
-- chaos: yes
SELECT x.job_id AS id, 'j' || x.job_id || ' epoch ' || x.epoch AS words
FROM (SELECT a.job_id, a.epoch FROM attempt a GROUP BY 1, 2 HAVING bool_and(a.exit_reason = 'ok')) x
JOIN job j ON j.id = x.job_id
WHERE j.epoch > x.epoch

-- rule: a job is restarted as often as it may be
-- chaos: yes
SELECT id, 'j' || id || ' ' || restarts || ' times' AS words
FROM job
WHERE restarts > coalesce((spec->>'max_restarts')::int8, 0)

-- rule: each restart is counted
-- chaos: yes
SELECT id, 'j' || id || ' ' || restarts || ' times' AS words
FROM job j
WHERE restarts <> (SELECT count(*) FROM event e WHERE e.job_id = j.id AND e.entity = 'job' AND e.event = 'RETRY')

-- rule: a job fails when it may be restarted no more
SELECT id, 'j' || id || ' after ' || restarts AS words
FROM job
WHERE state = 'FAILED' AND reason IN ('error', 'setup_failed')
	AND restarts < coalesce((spec->>'max_restarts')::int8, 0)

-- rule: a job moves to machines that are ready
-- Launch before leave: of a gang all machines are ready.
SELECT e.job_id AS id, 'j' || e.job_id || ' ' || e.why AS words
FROM event e
JOIN job j ON j.id = e.job_id
JOIN node t ON t.id = substring(e.why FROM ' to n([0-9]+)')::int8
WHERE e.entity = 'job' AND e.event = 'MOVE' AND e.why ~ '^moves (from|with)'
	AND (SELECT count(DISTINCT coalesce(n.gang_rank, 0)) FROM node n WHERE (n.id = t.id OR n.gang_id = t.gang_id)
		AND n.ready_us <= e.at_us + :skew) < j.num_nodes

-- rule: a pool that refused rests
-- A cooldown lasts a minute at least. For another job's launch 30 s are for a pass that read the market just before. A
-- launch that succeeded ends the cooldown.
SELECT b.id, 'n' || b.id || ' after n' || a.id || ': ' || a.why AS words
FROM node a
JOIN node b ON b.pool_id = a.pool_id AND b.id > a.id AND b.created_us
	BETWEEN a.ended_us + CASE WHEN b.job_id = a.job_id THEN 0 ELSE 30000000 END AND a.ended_us + 50000000
WHERE a.state = 'FAILED' AND a.end_cause = 'refused' AND a.gang_id IS NULL AND b.gang_id IS NULL
	AND NOT EXISTS (SELECT FROM event e JOIN node c ON c.id = e.node_id AND c.pool_id = a.pool_id
		WHERE e.now = 'BOOTING' AND e.at_us BETWEEN a.ended_us AND b.created_us)

-- rule: no pool rests longer than the longest rest
-- [engine] cool_max, and a statement under way.
SELECT pool_id AS id, 'p' || pool_id || ' for ' || (until_us - at_us) / 1000000 || ' s' AS words
FROM pool_cool
WHERE until_us - at_us > 920000000

-- rule: a job fails for a reason of its own
-- Only jobs with fail_at=1 fail. A max_duration may end one, and so may a closed fleet.
SELECT id, 'j' || id || ' ' || reason || ': ' || why AS words
FROM job
WHERE state = 'FAILED' AND position('fail_at=1' IN spec->>'run') = 0
	AND fleet_id IS NULL AND coalesce((spec->>'max_duration_s')::int8, 0) = 0

-- rule: an orphan is ended after its grace
-- [engine] orphan_grace is 120 s here.
SELECT ref AS id, ref || ' after ' || (terminate_us - first_us) / 1000000 || ' s' AS words
FROM orphan
WHERE kind = 'instance' AND word = '' AND terminate_us < first_us + 120000000 - :skew

-- rule: a burst asks for saves on siblings
-- chaos: yes
-- They are spot machines of its family and region. The reclaim that a row names is the burst's.
SELECT s.job_id AS id,
	'j' || s.job_id || ' epoch ' || s.epoch || ' by burst ' || s.burst_id AS words,
	p.market <> 'spot' OR (p.provider, p.region, pool_family(p.gpu_name, p.instance_type))
		<> (b.provider, b.region, b.family) OR s.struck_us > b.last_us + :skew
		OR s.struck_us + :skew < b.began_us AS bad
FROM burst_save s
JOIN burst b ON b.id = s.burst_id
JOIN node n ON n.id = s.node_id
JOIN pool p ON p.id = n.pool_id

-- rule: a burst asks a job once
-- chaos: yes
-- Reclaims within ten minutes are one burst, and each request has its row.
SELECT b.id,
	'bursts ' || b.id || ' and ' || c.id || ' of ' || b.family || ' in ' || b.region AS words
FROM burst b
JOIN burst c ON c.id > b.id AND (c.provider, c.region, c.family) = (b.provider, b.region, b.family)
WHERE c.began_us + :skew < b.last_us + 600000000
UNION ALL
SELECT e.job_id, 'j' || e.job_id || ' epoch ' || e.epoch || ' asked ' || count(*) || ' times'
FROM event e
WHERE e.event = 'SAVE_ASKED'
GROUP BY e.job_id, e.epoch
HAVING count(*) <> (SELECT count(*) FROM burst_save s
	WHERE s.job_id = e.job_id AND s.epoch = e.epoch)
