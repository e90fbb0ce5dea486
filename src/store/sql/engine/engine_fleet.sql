-- Fleets: their nodes, missing nodes and surplus.

-- Column spec is set for the first rows that fit into spec_bytes, and always for the very first.
-- Column refused_us: the time of the first spot node that was refused since a node last became
-- ready; 0 = none within a day. Columns saved_bytes and save_us: fleet_saves().
-- name: engine_fleets
-- params: after_id int8, most int8, spec_bytes int8, at_us int8
-- rows: many id int8, name text, spec text?, state fleet_state, version int8, team text,
--   project text, size int4?, refused_us int8, saved_bytes int8, save_us int8
-- writes: no
WITH RECURSIVE x AS MATERIALIZED (
	SELECT id, name, state, version, team, project, size FROM fleet
	WHERE state IN ('ACTIVE', 'CLOSING') AND id > $1 ORDER BY id LIMIT $2
), o AS MATERIALIZED (
	SELECT array_agg(id ORDER BY id) AS ids FROM x
), t AS (
	SELECT 0 AS i, 0::int8 AS id, '' AS spec, 0::int8 AS bytes
	UNION ALL SELECT t.i + 1, f.id, y.spec, t.bytes + octet_length(y.spec)
	FROM t CROSS JOIN o JOIN fleet f ON f.id = o.ids[t.i + 1] CROSS JOIN LATERAL (SELECT f.spec::text AS spec OFFSET 0) y WHERE t.bytes < $3
)
SELECT x.id, x.name, t.spec, x.state, x.version, x.team, x.project, x.size,
	coalesce((SELECT min(n.created_us) FROM node n JOIN pool p ON p.id = n.pool_id
		WHERE n.fleet_id = x.id AND n.state = 'FAILED' AND p.market IN ('spot', 'interruptible')
			AND n.replaces_id IS NULL AND n.created_us BETWEEN $4 - 86400000000 AND $4
			AND n.end_cause NOT IN ('unwanted', 'released')
			AND n.id > coalesce((SELECT max(r.id) FROM node r
				WHERE r.fleet_id = x.id AND r.ready_us IS NOT NULL), 0)), 0),
	s.bytes, s.save_us
FROM x LEFT JOIN t ON t.id = x.id CROSS JOIN LATERAL fleet_saves(x.id) s ORDER BY x.id

-- In the order of the fleets. Column stands_in: the node that it replaces still counts. PostgreSQL
-- hashes the set of IN once for all nodes.
-- name: engine_fleet_nodes
-- params: fleets int8[]
-- rows: many fleet_id int8, id int8, pool_id int4, state node_state, provider text, region text,
--   zone text, market market, gpu_milli int4, price_micros int8, used bool, unsure bool,
--   gpu_name text, idle_since_us int8, replaces_id int8?, stands_in bool
-- writes: no
SELECT n.fleet_id, n.id, n.pool_id, n.state, p.provider, p.region, p.zone, p.market, p.gpu_milli, n.price_micros,
	n.id IN (SELECT a.node_id FROM attempt a WHERE a.ended_us IS NULL OR NOT a.settled),
	n.state = 'WANTED' AND n.launch_sent_us IS NOT NULL AND EXISTS (SELECT FROM event e WHERE e.node_id = n.id AND e.now = 'UNKNOWN'),
	p.gpu_name, greatest(coalesce(n.idle_since_us, 0), coalesce(n.ready_us, n.state_us)),
	n.replaces_id, node_stands_in(n)
FROM node n JOIN pool p ON p.id = n.pool_id JOIN fleet f ON f.id = n.fleet_id
WHERE n.state NOT IN ('GONE', 'FAILED') AND n.fleet_id = ANY ($1) AND f.state IN ('ACTIVE', 'CLOSING') ORDER BY n.fleet_id, n.id

-- name: engine_want_for_fleet
-- params: fleet_id int8, version int8, have int8, pool_id int4, node[], price_micros int8,
--   inputs jsonb, outcome jsonb, why text, at_us int8, fence int8, size int4?
-- rows_in: node node_label (token text, name text)
-- rows: many id int8
-- writes: yes
WITH ok AS (
	SELECT f.id FROM fleet f WHERE f.id = $1 AND f.version = $2 AND f.state = 'ACTIVE' AND f.size IS NOT DISTINCT FROM $13
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $12 FOR KEY SHARE)
		AND (SELECT count(*) FROM node n WHERE n.fleet_id = $1 AND n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN',
			'BOOTING', 'READY') AND NOT node_stands_in(n)) <= $3
	FOR NO KEY UPDATE OF f
), n AS (
	INSERT INTO node (pool_id, fleet_id, state, state_us, token, name, price_micros, created_us, why)
	SELECT $4, ok.id, 'WANTED', $11, s.token, s.name, $7, $11, $10 FROM ok, unnest($5, $6) s (token, name)
	RETURNING id, fleet_id
), d AS (
	INSERT INTO decision (at_us, kind, node_id, inputs, outcome, why)
	SELECT $11, 'place', min(id), $8, $9, $10 FROM n HAVING count(*) > 0
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, node_id, was, now, event, why, actor)
	SELECT $11, 'node', 'n' || id, id, '', 'WANTED', 'PLACE', $10, 'engine' FROM n
)
SELECT id FROM n

-- name: engine_fleet_closed
-- params: id int8, at_us int8, fence int8
-- rows: 0..1 id int8
-- writes: yes
WITH f AS (
	UPDATE fleet SET state = 'CLOSED', updated_us = $2, version = version + 1
	WHERE id = $1 AND state = 'CLOSING'
		AND NOT EXISTS (SELECT FROM node n WHERE n.fleet_id = $1 AND n.state NOT IN ('GONE', 'FAILED'))
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $3 FOR KEY SHARE)
	RETURNING id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, was, now, event, why, actor)
	SELECT $2, 'fleet', 'f' || id, 'CLOSING', 'CLOSED', 'CLOSED', 'all its nodes are gone', 'engine' FROM f
)
SELECT id FROM f

-- The figures follow the prices. They are stored on a change, and once a minute.
-- name: engine_fleet_why
-- params: id int8, why text, plan jsonb, at_us int8, fence int8
-- rows: none
-- writes: yes
UPDATE fleet SET why = $2, plan = $3, plan_us = $4
WHERE id = $1 AND (why <> $2 OR plan IS NULL OR plan->'missing' <> $3->'missing' OR plan->'have' <> $3->'have'
	OR plan_us < $4 - 60000000)
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE)
