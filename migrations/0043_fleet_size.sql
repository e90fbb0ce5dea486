-- Fleets whose size follows demand (core/fleet/fleet_size.h). The engine writes the size and its reason; fleets of a
-- fixed size keep NULL. Old daemons read the target in spec.
ALTER TABLE fleet
	ADD COLUMN size int4,                              -- wanted nodes or GPUs
	ADD COLUMN size_rule text NOT NULL DEFAULT '',     -- the rule that decided it
	ADD COLUMN size_why text NOT NULL DEFAULT '',
	ADD COLUMN size_us int8 NOT NULL DEFAULT 0,        -- since when
	ADD COLUMN size_look_us int8 NOT NULL DEFAULT 0,   -- the reason was written then
	ADD COLUMN size_next_us int8 NOT NULL DEFAULT 0,   -- the next decision by the clock; 0 = none
	ADD COLUMN size_open bool NOT NULL DEFAULT false,  -- inside of the schedule
	ADD COLUMN size_slack_us int8 NOT NULL DEFAULT 0,  -- since when it needs less; 0 = it does not
	ADD COLUMN size_seen jsonb,                        -- the figures of that decision
	-- demand from outside: the last PUT
	ADD COLUMN demand int4,
	ADD COLUMN demand_unit text NOT NULL DEFAULT '',   -- replicas, nodes or gpus
	ADD COLUMN demand_us int8 NOT NULL DEFAULT 0,
	ADD COLUMN demand_until_us int8 NOT NULL DEFAULT 0,
	ADD COLUMN demand_by text NOT NULL DEFAULT '',
	ADD COLUMN demand_version int8 NOT NULL DEFAULT 0, -- ETag
	-- demand by a query: the last answer, and the last error since
	ADD COLUMN metric_value float8,
	ADD COLUMN metric_before float8,                   -- the answer before
	ADD COLUMN metric_us int8 NOT NULL DEFAULT 0,
	ADD COLUMN metric_tried_us int8 NOT NULL DEFAULT 0,
	ADD COLUMN metric_error text NOT NULL DEFAULT '';
CREATE INDEX fleet_scaled ON fleet (id) WHERE state = 'ACTIVE' AND spec ? 'scaling';

-- The queue of a fleet.
CREATE INDEX job_fleet_waits ON job (fleet_id, queued_us) WHERE state = 'QUEUED' AND cancel_us IS NULL AND fleet_id IS NOT NULL;
-- A job that takes any fleet of its team has a fleet_id once the engine chose one.
ALTER TABLE job ADD COLUMN fleet_any bool NOT NULL DEFAULT false;
CREATE INDEX job_any_open ON job (team, queued_us) WHERE state = 'QUEUED' AND cancel_us IS NULL AND fleet_any AND fleet_id IS NULL;
CREATE INDEX job_any_placed ON job (fleet_id) WHERE state = 'QUEUED' AND cancel_us IS NULL AND fleet_any AND fleet_id IS NOT NULL;

-- The size of a fleet as the API shows it.
CREATE FUNCTION fleet_size_doc(f fleet) RETURNS json LANGUAGE sql STABLE AS $$
	SELECT json_build_object('unit', CASE WHEN g THEN 'gpus' ELSE 'nodes' END,
		'have', n.have,
		'wanted', coalesce(f.size, CASE WHEN g THEN (f.spec->>'gpus')::int4 ELSE (f.spec->>'nodes')::int4 END),
		'min', (f.spec->'scaling'->>'min')::int4, 'max', (f.spec->'scaling'->>'max')::int4,
		'target', (f.spec->'scaling'->>'target')::int4,
		'rule', CASE WHEN f.spec ? 'scaling' THEN f.size_rule ELSE 'fixed' END,
		'why', CASE WHEN f.spec ? 'scaling' THEN f.size_why ELSE 'the size is fixed' END,
		'since@', nullif(f.size_us, 0), 'next@', nullif(f.size_next_us, 0),
		'need', (f.size_seen->>'need')::int4, 'used', n.used, 'idle', n.idle, 'coming', n.coming,
		'queue_jobs', (f.size_seen->>'queue_jobs')::int8, 'hourly$', n.micros)
	FROM (SELECT CASE WHEN f.spec ? 'scaling' THEN f.spec->'scaling'->>'unit' = 'gpus'
			ELSE coalesce((f.spec->>'nodes')::int4, 0) = 0 AND coalesce((f.spec->>'gpus')::int4, 0) > 0 END AS g) u,
		LATERAL (SELECT coalesce(sum(w), 0)::float8 AS have, coalesce(sum(w) FILTER (WHERE used), 0)::float8 AS used,
			coalesce(sum(w) FILTER (WHERE NOT used AND state = 'READY'), 0)::float8 AS idle,
			coalesce(sum(w) FILTER (WHERE NOT used AND state <> 'READY'), 0)::float8 AS coming,
			coalesce(sum(price_micros), 0)::int8 AS micros
		FROM (SELECT m.state, m.price_micros, CASE WHEN g THEN p.gpu_milli / 1000.0 ELSE 1 END AS w,
				EXISTS (SELECT FROM attempt a WHERE a.node_id = m.id AND (a.ended_us IS NULL OR NOT a.settled)) AS used
			FROM node m JOIN pool p ON p.id = m.pool_id
			WHERE m.fleet_id = f.id AND m.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')) x) n
$$;
-- Its demand from outside, and the last answer of its query.
CREATE FUNCTION fleet_demand_doc(f fleet) RETURNS json LANGUAGE sql STABLE AS $$
	SELECT json_build_object('value', f.demand, 'unit', nullif(f.demand_unit, ''), 'by', nullif(f.demand_by, ''),
		'set@', nullif(f.demand_us, 0), 'until@', nullif(f.demand_until_us, 0), 'version', f.demand_version,
		'metric', CASE WHEN f.spec->'scaling' ? 'metric' THEN json_build_object('url', f.spec->'scaling'->'metric'->>'url',
			'query', f.spec->'scaling'->'metric'->>'query', 'target', (f.spec->'scaling'->'metric'->>'target')::float8,
			'per', (f.spec->'scaling'->'metric'->>'per')::int4, 'value', f.metric_value, 'answered@', nullif(f.metric_us, 0),
			'tried@', nullif(f.metric_tried_us, 0), 'error', nullif(f.metric_error, '')) END)
$$;
-- The price of its live nodes an hour on demand in their regions. Those that are not sold there count at their own price.
CREATE FUNCTION fleet_on_demand_micros(f fleet) RETURNS int8 LANGUAGE sql STABLE AS $$
	SELECT coalesce(sum(coalesce((SELECT min(l.price_micros) FROM pool o JOIN pool_latest l ON l.pool_id = o.id
		WHERE o.provider = p.provider AND o.region = p.region AND o.instance_type = p.instance_type AND o.market = 'on_demand'),
		m.price_micros)), 0)::int8
	FROM node m JOIN pool p ON p.id = m.pool_id
	WHERE m.fleet_id = f.id AND m.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')
$$;
-- Lines of /metrics about the size of the newest active fleets. A second label follows chr(31).
CREATE VIEW api_metrics_fleets AS
WITH f AS MATERIALIZED (
	SELECT x.id, x.name, x.spec, x.size, x.demand, x.demand_until_us FROM fleet x WHERE x.state = 'ACTIVE' ORDER BY x.id DESC LIMIT 500
)
SELECT 'spot_fleet_nodes' AS metric, f.name || chr(31) || s.state AS label, count(n.id)::float8 AS value
FROM f CROSS JOIN (VALUES ('coming'), ('idle'), ('used')) s (state)
LEFT JOIN node n ON n.fleet_id = f.id AND n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')
	AND s.state = CASE WHEN EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND (a.ended_us IS NULL OR NOT a.settled)) THEN 'used'
		WHEN n.state = 'READY' THEN 'idle' ELSE 'coming' END
GROUP BY f.id, f.name, s.state
UNION ALL SELECT 'spot_fleet_wanted', name,
	coalesce(size, greatest((spec->>'nodes')::int4, (spec->>'gpus')::int4), 0)::float8 FROM f
UNION ALL SELECT 'spot_fleet_demand', name, demand::float8 FROM f
	WHERE demand IS NOT NULL AND demand_until_us > extract(epoch FROM clock_timestamp()) * 1000000;
