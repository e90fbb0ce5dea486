-- Bursts: reclaims of a family in a region that follow each other closely, and the saves that they
-- ask for.

-- Lets the reclaims since then go on a burst, or begin one.
-- name: engine_burst_note
-- params: since_us int8, gap_us int8, fence int8
-- rows: none
-- writes: yes
WITH s AS MATERIALIZED (
	SELECT p.provider, p.region, pool_family(p.gpu_name, p.instance_type) AS family,
		max(r.at_us) AS last_us
	FROM pool_reclaim r JOIN pool p ON p.id = r.pool_id AND p.market = 'spot' WHERE r.at_us > $1
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $3 FOR KEY SHARE)
	GROUP BY 1, 2, 3
), u AS (
	UPDATE burst b SET last_us = s.last_us FROM s
	WHERE (b.provider, b.region, b.family) = (s.provider, s.region, s.family)
		AND b.last_us < s.last_us AND b.last_us >= s.last_us - $2
)
INSERT INTO burst (provider, region, family, began_us, last_us)
SELECT s.provider, s.region, s.family, s.last_us, s.last_us FROM s
WHERE NOT EXISTS (SELECT FROM burst b
	WHERE (b.provider, b.region, b.family) = (s.provider, s.region, s.family)
	AND b.last_us >= s.last_us - $2);

-- Returns the running jobs on siblings that a burst has not asked yet. A save that is under way is
-- as good as one that is asked for. Column unsaved_from_us is the begin of the newest save. A gang
-- has one row, with the price of all its nodes; it is not judged before all ranks run.
-- name: engine_burst_due
-- params: since_us int8
-- rows: many burst_id int8, struck_us int8, job_id int8, epoch int4, node_id int8, pool_id int4,
--   price_micros int8, unsaved_from_us int8, save_us int8, interval_s int8, interval_off bool,
--   nodes int4
-- writes: no
SELECT b.id, b.last_us, a.job_id, a.epoch, a.node_id, n.pool_id,
	(SELECT sum(x.price_micros) FROM attempt r JOIN node x ON x.id = r.node_id
		WHERE r.job_id = a.job_id AND r.epoch = a.epoch)::int8,
	greatest(a.started_us, CASE WHEN c.epoch = a.epoch THEN c.created_us END),
	coalesce(c.committed_us - c.created_us, 0),
	coalesce((j.spec->'checkpoint'->>'interval_s')::int8, 0),
	coalesce((j.spec->'checkpoint'->>'interval_off')::bool, false), j.num_nodes
FROM burst b
JOIN pool p ON p.provider = b.provider AND p.region = b.region AND p.market = 'spot'
	AND pool_family(p.gpu_name, p.instance_type) = b.family
JOIN node n ON n.pool_id = p.id AND n.state = 'READY'
JOIN attempt a ON a.node_id = n.id AND a.ended_us IS NULL AND a.desired = 'run'
	AND a.phase = 'RUNNING' AND a.rank = 0
JOIN job j ON j.id = a.job_id AND j.epoch = a.epoch AND j.state = 'RUNNING'
LEFT JOIN checkpoint c ON c.id = j.checkpoint_id
WHERE b.last_us > $1 AND a.started_us IS NOT NULL AND j.cancel_us IS NULL
	AND j.spec->'checkpoint'->>'path' IS NOT NULL
	AND NOT EXISTS (SELECT FROM burst_save s
		WHERE (s.burst_id, s.job_id, s.epoch) = (b.id, a.job_id, a.epoch))
	AND NOT EXISTS (SELECT FROM attempt r WHERE r.job_id = a.job_id AND r.epoch = a.epoch
		AND (r.phase <> 'RUNNING' OR r.ended_us IS NOT NULL OR r.desired <> 'run'))
	AND NOT EXISTS (SELECT FROM checkpoint o
		WHERE o.job_id = a.job_id AND o.epoch = a.epoch AND o.state = 'OPEN')
ORDER BY a.job_id LIMIT 500;

-- Asks an attempt to save and go on, once in a burst. All ranks of a gang are asked at once, so
-- that their saves are a set.
-- name: engine_burst_save
-- params: burst_id int8, job_id int8, epoch int4, struck_us int8, inputs jsonb, outcome jsonb,
--   why text, at_us int8, fence int8
-- rows: many node_id int8, told bool
-- writes: yes
WITH ok AS (
	SELECT a.job_id, a.epoch, a.node_id
	FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch
	WHERE j.id = $2 AND j.epoch = $3 AND j.state = 'RUNNING' AND a.rank = 0
		AND a.ended_us IS NULL AND a.desired = 'run'
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $9 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j, a
), s AS (
	INSERT INTO burst_save (burst_id, job_id, epoch, node_id, struck_us, at_us)
	SELECT $1, job_id, epoch, node_id, $4, $8 FROM ok ON CONFLICT DO NOTHING
	RETURNING job_id, epoch, node_id
), a AS (
	UPDATE attempt SET save_asked_us = $8, version = version + 1 FROM s
	WHERE attempt.job_id = s.job_id AND attempt.epoch = s.epoch AND attempt.ended_us IS NULL
	RETURNING attempt.node_id
), d AS (
	INSERT INTO decision (at_us, kind, job_id, node_id, inputs, outcome, why)
	SELECT $8, 'burst_save', job_id, node_id, $5, $6, $7 FROM s
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, epoch, event, why, actor)
	SELECT $8, 'job', 'j' || job_id, job_id, node_id, epoch, 'SAVE_ASKED', $7, 'engine' FROM s
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AS told FROM a;
