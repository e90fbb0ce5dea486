-- The size of fleets that follows demand.

-- The queue counts no more jobs than the fleet can have units. A job that begins later waits from
-- then on.
-- name: engine_fleet_sizes
-- params: after_id int8, most int8, at_us int8
-- rows: many id int8, name text, team text, version int8, created_us int8, scaling text,
--   gpus_of text, gpu text, size int4?, size_us int8, size_rule text, size_why text,
--   size_look_us int8, size_next_us int8, size_open bool, size_slack_us int8, demand int4?,
--   demand_unit text, demand_until_us int8, demand_by text, demand_version int8,
--   metric_value float8?, metric_before float8?, metric_us int8, metric_tried_us int8,
--   metric_error text, queue_jobs int8, queue_milli int8, queue_oldest_us int8
-- writes: no
SELECT f.id, f.name, f.team, f.version, f.created_us, (f.spec->'scaling')::text,
	coalesce(f.spec->>'gpus_of', ''), coalesce(f.spec #>> '{asks,0,gpus,0,gpu}', ''), f.size,
	f.size_us, f.size_rule, f.size_why, f.size_look_us, f.size_next_us, f.size_open,
	f.size_slack_us, f.demand, f.demand_unit, f.demand_until_us, f.demand_by, f.demand_version,
	f.metric_value, f.metric_before, f.metric_us, f.metric_tried_us, f.metric_error, q.jobs,
	q.milli, q.oldest
FROM (SELECT * FROM fleet WHERE state = 'ACTIVE' AND spec ? 'scaling' AND id > $1
	ORDER BY id LIMIT $2) f
CROSS JOIN LATERAL (SELECT count(*) AS jobs, coalesce(sum(CASE f.spec->'scaling'->>'unit'
		WHEN 'gpus' THEN x.milli ELSE 1000 END), 0)::int8 AS milli,
		coalesce(min(x.since), 0) AS oldest
	FROM (SELECT greatest(j.queued_us, j.not_before_us) AS since,
			coalesce((j.spec #>> '{asks,0,gpus,0,milli}')::int8, 1000) AS milli
		FROM job j WHERE j.fleet_id = f.id AND j.state = 'QUEUED' AND j.cancel_us IS NULL
			AND coalesce(j.not_before_us, 0) <= $3
		ORDER BY j.queued_us LIMIT (f.spec->'scaling'->>'max')::int8) x) q
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
