-- Nodes of fleets that move to other pools: a new node replaces one of the same fleet. Until the
-- old one leaves, both count as one node of the fleet (function node_stands_in).

-- Returns the fleets to judge. Column shows: its reasons were stored before shown_us. Column
-- returns: it has ready nodes on demand beyond its floor, or one whose capacity ends by ends_us.
-- Two saves come off that time. A floor in per cent counts as none.
-- name: engine_fleet_moves_due
-- params: shown_us int8, most int8, ends_us int8
-- rows: many id int8, shows bool, returns bool
-- writes: no
SELECT x.id, x.shows, x.returns FROM (
	SELECT f.id, f.moves_us < $1 AS shows, f.moves_us, e.there OR d.n > CASE
			WHEN coalesce((f.spec->>'on_demand_floor_pm')::int8, 0) > 0 THEN 0
			ELSE coalesce((f.spec->>'on_demand_floor')::int8, 0) END AS returns
	FROM fleet f CROSS JOIN LATERAL (SELECT count(*) AS n
		FROM node n JOIN pool p ON p.id = n.pool_id
		WHERE n.fleet_id = f.id AND n.state = 'READY' AND p.market = 'on_demand'
			AND NOT EXISTS (SELECT FROM node r WHERE r.replaces_id = n.id AND r.state IN
				('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY'))) d
	CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM node n
		LEFT JOIN attempt a ON a.node_id = n.id AND a.ended_us IS NULL
		LEFT JOIN job j ON j.id = a.job_id LEFT JOIN checkpoint c ON c.id = j.checkpoint_id
		WHERE n.fleet_id = f.id AND n.state = 'READY' AND n.ends_us > 0
			AND n.ends_us - 2 * coalesce(c.committed_us - c.created_us, 0) <= $3
			AND NOT EXISTS (SELECT FROM node r WHERE r.replaces_id = n.id AND r.state IN
				('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY'))) AS there) e
	WHERE f.state = 'ACTIVE') x
WHERE x.shows OR x.returns ORDER BY x.moves_us, x.id LIMIT $2

-- Returns the active fleets after an id.
-- name: engine_fleet_movers
-- params: after_id int8, most int8
-- rows: many id int8
-- writes: no
SELECT id FROM fleet WHERE state = 'ACTIVE' AND id > $1 ORDER BY id LIMIT $2

-- Column began_hour counts moves begun in the last hour, without refused ones. The columns of
-- probes are about those that failed since a replacement last became ready, within a day. Column
-- refused has one pool for each. Times in the future stem from a clock step and do not count.
-- Columns saved_bytes and save_us: fleet_saves().
-- name: engine_fleet_move_facts
-- params: id int8, at_us int8
-- rows: 0..1 id int8, name text, version int8, spec text, began_hour int4, probes_refused int4,
--   last_probe_us int8, refused text?, size int4?, created_us int8, saved_bytes int8, save_us int8
-- writes: no
WITH m AS MATERIALIZED (
	SELECT n.id, n.pool_id, n.created_us, n.ready_us, n.ready_us IS NULL
			AND n.state IN ('FAILED', 'GONE', 'TERMINATING')
			AND n.end_cause NOT IN ('unwanted', 'released') AS refused
	FROM node n WHERE n.fleet_id = $1 AND n.replaces_id IS NOT NULL
		AND n.created_us BETWEEN $2 - 86400000000 AND $2
	ORDER BY n.id DESC LIMIT 1000
), f AS (
	SELECT count(*) AS n, max(created_us) AS last_us,
		string_agg(pool_id::text, ' ' ORDER BY id DESC) AS pools
	FROM m WHERE refused
		AND id > coalesce((SELECT max(id) FROM m WHERE ready_us IS NOT NULL), 0)
)
SELECT x.id, x.name, x.version, x.spec::text, (SELECT count(*) FROM m
		WHERE NOT refused AND created_us > $2 - 3600000000)::int4,
	f.n::int4, coalesce(f.last_us, 0), f.pools, x.size, x.created_us, s.bytes, s.save_us
FROM fleet x, f, LATERAL fleet_saves(x.id) s WHERE x.id = $1 AND x.state = 'ACTIVE'

-- Returns the live nodes of a fleet with the facts that decide whether they move. stands_in: the
-- node that it replaces still counts. OFFSET 0 keeps PostgreSQL from a join of all with all where
-- it expects few nodes.
-- name: engine_fleet_move_nodes
-- params: id int8
-- rows: many id int8, pool_id int4, state node_state, provider text, region text, zone text,
--   market market, gpu_milli int4, price_micros int8, ready_us int8, used bool, stands_in bool,
--   ends_us int8, replaces_id int8?, replacement_id int8?, replacement_state node_state?,
--   replacement_ready_us int8?, job_id int8?, runs bool, has_path bool, interruptible bool,
--   asks text?, save_us int8, checkpoint_bytes int8, restart_us int8, work_s int8,
--   steps_start int8, steps_done int8, steps_total int8, created_us int8, started_us int8?,
--   deadline_us int8?
-- writes: no
SELECT n.id, n.pool_id, n.state, p.provider, p.region, p.zone, p.market, p.gpu_milli,
	n.price_micros, coalesce(n.ready_us, 0), EXISTS (SELECT FROM attempt u
		WHERE u.node_id = n.id AND (u.ended_us IS NULL OR NOT u.settled)),
	node_stands_in(n), n.ends_us, n.replaces_id, r.id, r.state, r.ready_us, j.id,
	coalesce(a.desired = 'run' AND j.state IN ('STARTING', 'RUNNING')
		AND j.cancel_us IS NULL, false),
	j.spec #>> '{checkpoint,path}' IS NOT NULL,
	coalesce((j.spec->>'interruptible')::bool, true), (j.spec->'asks')::text,
	coalesce(c.committed_us - c.created_us, 0), coalesce(c.bytes, 0),
	coalesce(m.restart_us, 0), coalesce((j.spec->>'work_s')::int8, 0),
	coalesce(a.steps_start, 0), coalesce(a.steps_done, 0), coalesce(j.steps_total, 0),
	coalesce(a.created_us, 0), a.started_us, j.deadline_us
FROM node n CROSS JOIN LATERAL (SELECT * FROM pool p WHERE p.id = n.pool_id OFFSET 0) p
LEFT JOIN LATERAL (SELECT * FROM node r WHERE r.replaces_id = n.id
	AND r.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY') OFFSET 0) r
	ON r.fleet_id = n.fleet_id
LEFT JOIN attempt a ON a.node_id = n.id AND a.ended_us IS NULL
LEFT JOIN job j ON j.id = a.job_id LEFT JOIN checkpoint c ON c.id = j.checkpoint_id
LEFT JOIN LATERAL job_measured(ARRAY[j.id]) m ON j.id IS NOT NULL
WHERE n.fleet_id = $1 AND n.state NOT IN ('GONE', 'FAILED') ORDER BY n.id

-- Wants the replacement of a node: the intent row, the decision with its inputs and the event, in
-- one statement. The fleet must be as it was read, the old node ready and without a replacement.
-- Fewer than at_once other nodes of the fleet may be moving.
-- name: engine_fleet_move_want
-- params: fleet_id int8, version int8, node_id int8, at_once int8, pool_id int4, token text,
--   name text, price_micros int8, kind text, inputs jsonb, outcome jsonb, why text, at_us int8,
--   fence int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH ok AS (
	SELECT f.id FROM fleet f
	JOIN node o ON o.id = $3 AND o.fleet_id = f.id AND o.state = 'READY'
	WHERE f.id = $1 AND f.version = $2 AND f.state = 'ACTIVE'
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $14 FOR KEY SHARE)
		AND NOT EXISTS (SELECT FROM node r WHERE r.replaces_id = $3 AND r.fleet_id = $1
			AND r.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY'))
		AND (SELECT count(*) FROM node r WHERE r.fleet_id = $1 AND r.replaces_id IS NOT NULL
			AND r.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')
			AND node_stands_in(r)) < $4
	FOR NO KEY UPDATE OF f, o
), n AS (
	INSERT INTO node (pool_id, fleet_id, replaces_id, state, state_us, token, name,
		price_micros, created_us, why)
	SELECT $5, id, $3, 'WANTED', $13, $6, $7, $8, $13, $12 FROM ok RETURNING id
), d AS (
	INSERT INTO decision (at_us, kind, node_id, inputs, outcome, why)
	SELECT $13, $9, id, $10, $11, $12 FROM n
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, node_id, was, now, event, why, actor)
	SELECT $13, 'node', 'n' || id, id, '', 'WANTED', upper($9), $12, 'engine' FROM n
)
SELECT id, pg_notify('spot_api', 'n' || id) IS NOT NULL AS told FROM n

-- Returns the replacements that are ready while the node that they replace still counts.
-- name: engine_fleet_pairs
-- params: most int8
-- rows: many id int8, ready_us int8, old_id int8, old_state node_state, used bool, fleet text,
--   leaves bool
-- writes: no
SELECT n.id, coalesce(n.ready_us, n.state_us), o.id, o.state,
	EXISTS (SELECT FROM attempt u
		WHERE u.node_id = o.id AND (u.ended_us IS NULL OR NOT u.settled)), f.name,
	EXISTS (SELECT FROM notice x WHERE x.node_id = o.id AND x.kind = 'maintenance')
FROM node n JOIN fleet f ON f.id = n.fleet_id
JOIN node o ON o.id = n.replaces_id AND o.fleet_id = n.fleet_id
WHERE n.state = 'READY' AND n.replaces_id IS NOT NULL AND n.drain_deadline_us IS NULL
	AND o.state IN ('BOOTING', 'READY') ORDER BY n.id LIMIT $1

-- Asks for the drain of a node whose replacement is ready, as a person would (api_node_drain).
-- name: engine_fleet_drain
-- params: node_id int8, replacement_id int8, why text, deadline_us int8, at_us int8, fence int8
-- rows: 0..1 id int8
-- writes: yes
WITH ok AS (
	SELECT o.id FROM node o
	JOIN node n ON n.id = $2 AND n.replaces_id = o.id AND n.state = 'READY'
	WHERE o.id = $1 AND o.state = 'READY'
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $6 FOR KEY SHARE)
	FOR NO KEY UPDATE OF o, n
), o AS (
	INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us)
	SELECT id, 'maintenance', $4, 'fleet', $3, $5 FROM ok
	ON CONFLICT (node_id, kind) DO NOTHING RETURNING node_id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, node_id, event, why, actor)
	SELECT $5, 'node', 'n' || node_id, node_id, 'DRAIN_ASKED', $3, 'engine' FROM o
)
SELECT node_id FROM o

-- name: engine_fleet_moves_shown
-- params: id int8, version int8, moves jsonb, at_us int8, fence int8
-- rows: none
-- writes: yes
-- wakes: none
UPDATE fleet SET moves = $3, moves_us = $4 WHERE id = $1 AND version = $2
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE)
