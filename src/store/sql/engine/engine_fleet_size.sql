-- The size of fleets that follows demand.

-- The queue counts no more jobs than the fleet can have units, and none whose GPU is not the
-- fleet's. A job that begins later waits from then on. If the unit is the work of a GPU, more jobs
-- count: those on slow GPUs are less than a unit each. Column queue: [GPU, thousandths of GPUs] of
-- its jobs by GPU. Column nodes: [state, used, idle since, GPU, thousandths of GPUs] of each node.
-- One statement reads queue and nodes, so that a job that gets a node counts once.
-- name: engine_fleet_sizes
-- params: after_id int8, most int8, at_us int8
-- rows: many id int8, name text, team text, version int8, created_us int8, scaling text,
--   gpus_of text, gpu text, size int4?, size_us int8, size_rule text, size_why text,
--   size_look_us int8, size_next_us int8, size_open bool, size_slack_us int8, demand int4?,
--   demand_unit text, demand_until_us int8, demand_by text, demand_version int8,
--   metric_value float8?, metric_before float8?, metric_us int8, metric_tried_us int8,
--   metric_error text, queue_jobs int8, queue text, queue_oldest_us int8, nodes text
-- writes: no
SELECT f.id, f.name, f.team, f.version, f.created_us, (f.spec->'scaling')::text,
	coalesce(f.spec->>'gpus_of', ''), coalesce(f.spec #>> '{asks,0,gpus,0,gpu}', ''), f.size,
	f.size_us, f.size_rule, f.size_why, f.size_look_us, f.size_next_us, f.size_open,
	f.size_slack_us, f.demand, f.demand_unit, f.demand_until_us, f.demand_by, f.demand_version,
	f.metric_value, f.metric_before, f.metric_us, f.metric_tried_us, f.metric_error, q.jobs,
	q.list::text, q.oldest, n.list::text
FROM (SELECT * FROM fleet WHERE state = 'ACTIVE' AND spec ? 'scaling' AND id > $1
	ORDER BY id LIMIT $2) f
CROSS JOIN LATERAL (SELECT coalesce(sum(y.jobs), 0)::int8 AS jobs,
		coalesce(min(y.since), 0) AS oldest,
		coalesce(json_agg(json_build_array(y.gpu, y.milli)), '[]') AS list
	FROM (SELECT x.gpu, count(*) AS jobs, sum(x.milli)::int8 AS milli, min(x.since) AS since
	FROM (SELECT greatest(j.queued_us, j.not_before_us) AS since,
			coalesce(j.spec #>> '{asks,0,gpus,0,gpu}', '') AS gpu,
			coalesce((j.spec #>> '{asks,0,gpus,0,milli}')::int8, 1000) AS milli
		FROM job j WHERE j.fleet_id = f.id AND j.state = 'QUEUED' AND j.cancel_us IS NULL
			AND coalesce(j.not_before_us, 0) <= $3 AND fleet_suits(f.spec, j.spec)
		ORDER BY j.queued_us LIMIT (f.spec->'scaling'->>'max')::int8
			* CASE WHEN coalesce(f.spec->>'gpus_of', '') = '' THEN 1 ELSE 20 END) x
		GROUP BY x.gpu) y) q
CROSS JOIN LATERAL (SELECT coalesce(json_agg(json_build_array(n.state,
		EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id
			AND (a.ended_us IS NULL OR NOT a.settled)),
		greatest(coalesce(n.idle_since_us, 0), coalesce(n.ready_us, n.state_us)),
		p.gpu_name, p.gpu_milli)), '[]') AS list
	FROM node n JOIN pool p ON p.id = n.pool_id
	WHERE n.fleet_id = f.id AND NOT node_stands_in(n)
		AND n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')) n
ORDER BY f.id

-- Sets the size, at the version, size and demand that it was decided from. closing: the fleet has
-- expired.
-- name: engine_fleet_size
-- params: id int8, version int8, was int4?, demand_version int8, size int4, rule text, why text,
--   seen jsonb, open bool, slack_us int8, next_us int8, closing bool, at_us int8, fence int8
-- rows: 0..1 id int8
-- writes: yes
WITH f AS (
	UPDATE fleet SET size = $5, size_rule = $6, size_why = $7, size_seen = $8, size_open = $9,
		size_slack_us = $10, size_next_us = $11, size_us = $13, size_look_us = $13,
		state = CASE WHEN $12 THEN 'CLOSING' ELSE state END,
		version = version + CASE WHEN $12 THEN 1 ELSE 0 END,
		updated_us = CASE WHEN $12 THEN $13 ELSE updated_us END
	WHERE id = $1 AND version = $2 AND size IS NOT DISTINCT FROM $3 AND demand_version = $4
		AND state = 'ACTIVE'
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $14 FOR KEY SHARE)
	RETURNING id, name
), d AS (
	INSERT INTO decision (at_us, kind, inputs, outcome, why)
	SELECT $13, 'fleet_size', jsonb_build_object('fleet', name) || $8,
		jsonb_build_object('was', $3, 'size', $5, 'rule', $6), $7 FROM f
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, was, now, event, why, actor)
	SELECT $13, 'fleet', 'f' || id,
		CASE WHEN $12 THEN 'ACTIVE' ELSE coalesce($3::text, '') END,
		CASE WHEN $12 THEN 'CLOSING' ELSE $5::text END,
		CASE WHEN $12 THEN 'EXPIRED' ELSE 'SIZE' END, $7, 'engine' FROM f
)
SELECT id FROM f

-- Writes down the reason and the clock of a size that stays. Nobody acts on them.
-- name: engine_fleet_size_note
-- params: id int8, version int8, was int4?, demand_version int8, rule text, why text, seen jsonb,
--   open bool, slack_us int8, next_us int8, at_us int8, fence int8
-- rows: 0..1 id int8
-- writes: yes
-- wakes: none
UPDATE fleet SET size_rule = $5, size_why = $6, size_seen = $7, size_open = $8, size_slack_us = $9,
	size_next_us = $10, size_look_us = $11
WHERE id = $1 AND version = $2 AND size IS NOT DISTINCT FROM $3 AND demand_version = $4
	AND state = 'ACTIVE'
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $12 FOR KEY SHARE)
RETURNING id

-- Jobs that take any fleet of their team, each with the active fleets of that team that suit it and
-- have room. Column free: ready nodes without work. Column grow: what the fleet may still add, in
-- thousandths of its unit. Column weight: what the job adds. The needs of jobs that named the fleet
-- are taken off. If the unit is the work of gpus_of, the caller weighs. Column nodes has [GPU,
-- thousandths of GPUs, those without work] by GPU, column queue the first two of the jobs.
-- name: engine_fleet_any
-- params: most int8
-- rows: many fleet_id int8, job_id int8, free int8, grow int8, weight int8, gpus_of text,
--   most int8, nodes text, queue text, gpu text
-- writes: no
WITH f AS MATERIALIZED (
	SELECT f.id, f.team, f.spec, coalesce((f.spec->'scaling'->>'max')::int8,
			greatest((f.spec->>'nodes')::int8, (f.spec->>'gpus')::int8)) AS most,
		coalesce(f.spec->'scaling'->>'unit' = 'gpus', (f.spec->>'gpus')::int8 > 0, false)
			AS by_gpus, CASE WHEN coalesce((f.spec->>'nodes')::int8, 0) = 0
			THEN coalesce(f.spec->>'gpus_of', '') ELSE '' END AS gpus_of
	FROM fleet f WHERE f.state = 'ACTIVE' AND EXISTS (SELECT FROM job j WHERE j.team = f.team
		AND j.state = 'QUEUED' AND j.cancel_us IS NULL AND j.fleet_any
		AND j.fleet_id IS NULL)
), g AS MATERIALIZED (
	SELECT f.*, n.idle - q.jobs AS free, n.list::text AS nodes, q.list::text AS queue,
		1000 * f.most - n.live - greatest(q.milli - n.idle_milli, 0) AS grow
	FROM f, LATERAL (SELECT coalesce(sum(y.milli), 0)::int8 AS live,
			coalesce(sum(y.idle), 0)::int8 AS idle,
			coalesce(sum(y.idle_milli), 0)::int8 AS idle_milli,
			coalesce(json_agg(json_build_array(y.gpu, y.milli, y.idle_milli)),
				'[]') AS list
		FROM (SELECT x.gpu, sum(x.milli)::int8 AS milli,
			count(*) FILTER (WHERE x.idle) AS idle,
			coalesce(sum(x.milli) FILTER (WHERE x.idle), 0)::int8 AS idle_milli
		FROM (SELECT p.gpu_name AS gpu,
				CASE WHEN f.by_gpus THEN p.gpu_milli ELSE 1000 END AS milli,
				n.state = 'READY' AND NOT EXISTS (SELECT FROM attempt a
				WHERE a.node_id = n.id AND (a.ended_us IS NULL OR NOT a.settled))
				AS idle
			FROM node n JOIN pool p ON p.id = n.pool_id WHERE n.fleet_id = f.id AND
			n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')) x
		GROUP BY x.gpu) y) n,
		LATERAL (SELECT coalesce(sum(y.jobs), 0)::int8 AS jobs,
			coalesce(sum(y.milli), 0)::int8 AS milli,
			coalesce(json_agg(json_build_array(y.gpu, y.milli)), '[]') AS list
		FROM (SELECT x.gpu, count(*) AS jobs, sum(x.milli)::int8 AS milli
		FROM (SELECT coalesce(j.spec #>> '{asks,0,gpus,0,gpu}', '') AS gpu,
				CASE WHEN f.by_gpus THEN coalesce((j.spec #>>
				'{asks,0,gpus,0,milli}')::int8, 1000) ELSE 1000 END AS milli
			FROM job j WHERE j.fleet_id = f.id AND j.state = 'QUEUED'
				AND j.cancel_us IS NULL LIMIT f.most * CASE f.gpus_of
				WHEN '' THEN 1 ELSE 20 END) x GROUP BY x.gpu) y) q
)
SELECT g.id, j.id, g.free, g.grow, CASE WHEN g.by_gpus THEN j.milli ELSE 1000 END, g.gpus_of,
	g.most, g.nodes, g.queue, j.gpu
FROM g, LATERAL (SELECT j.id, j.queued_us, coalesce(j.spec #>> '{asks,0,gpus,0,gpu}', '') AS gpu,
		coalesce((j.spec #>> '{asks,0,gpus,0,milli}')::int8, 1000) AS milli
	FROM job j WHERE j.team = g.team AND j.state = 'QUEUED' AND j.cancel_us IS NULL
		AND j.fleet_any AND j.fleet_id IS NULL AND fleet_suits(g.spec, j.spec)
	ORDER BY j.queued_us
	LIMIT CASE g.gpus_of WHEN '' THEN least(greatest(g.free, 0)
		+ (greatest(g.grow, 0) + 999) / 1000, $1) ELSE $1 END) j
ORDER BY j.queued_us, j.id, g.id LIMIT $1 * 10

-- Gives jobs the fleets that were chosen for them.
-- name: engine_fleet_any_set
-- params: pick[], at_us int8, fence int8
-- rows_in: pick (job_id int8, fleet_id int8)
-- rows: many id int8
-- writes: yes
WITH j AS (
	UPDATE job SET fleet_id = x.fleet_id FROM unnest($1, $2) x (job_id, fleet_id), fleet f
	WHERE job.id = x.job_id AND f.id = x.fleet_id AND f.state = 'ACTIVE'
		AND job.state = 'QUEUED' AND job.cancel_us IS NULL AND job.fleet_any
		AND job.fleet_id IS NULL
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE)
	RETURNING job.id, f.id AS fleet_id, f.name
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, event, why, actor)
	SELECT $3, 'job', 'j' || id, id, 'FLEET',
		'any fleet of its team: f' || fleet_id || ' ' || name || ' has room', 'engine'
	FROM j
)
SELECT id FROM j

-- A fleet that closes leaves its jobs of this kind to another one.
-- name: engine_fleet_any_free
-- params: fence int8
-- rows: many id int8
-- writes: yes
UPDATE job SET fleet_id = NULL
WHERE state = 'QUEUED' AND cancel_us IS NULL AND fleet_any AND fleet_id IS NOT NULL
	AND NOT EXISTS (SELECT FROM fleet f WHERE f.id = job.fleet_id AND f.state = 'ACTIVE')
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $1 FOR KEY SHARE)
RETURNING id

-- Claims the queries that are due, the longest waiting first.
-- name: engine_fleet_metrics
-- params: most int8, at_us int8, fence int8
-- rows: many id int8, url text, query text
-- writes: yes
-- wakes: none
UPDATE fleet SET metric_tried_us = $2
WHERE id IN (SELECT id FROM fleet WHERE state = 'ACTIVE' AND spec ? 'scaling'
		AND spec->'scaling' ? 'metric'
		AND (metric_tried_us + (spec->'scaling'->'metric'->>'every_us')::int8 <= $2
			OR metric_tried_us > $2)
		ORDER BY metric_tried_us LIMIT $1)
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $3 FOR KEY SHARE)
RETURNING id, spec->'scaling'->'metric'->>'url', spec->'scaling'->'metric'->>'query'

-- name: engine_fleet_metric_set
-- params: id int8, answered bool, value float8, error text, at_us int8, fence int8
-- rows: none
-- writes: yes
UPDATE fleet SET metric_before = CASE WHEN $2 THEN metric_value ELSE metric_before END,
	metric_value = CASE WHEN $2 THEN $3 ELSE metric_value END,
	metric_us = CASE WHEN $2 THEN $5 ELSE metric_us END, metric_error = $4
WHERE id = $1 AND state = 'ACTIVE'
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $6 FOR KEY SHARE)
