-- Fleets, nodes, rebalancing, events. Creates settle their key in their own statement.

-- name: api_fleet_create
-- params: name text, owner text, team text, project text, spec jsonb, at_us int8, token_id int8, idem_key text
-- rows: 1 id int8, woken bool
-- writes: yes
WITH k AS MATERIALIZED (
	SELECT status FROM idempotency WHERE token_id = $7 AND key = $8 FOR NO KEY UPDATE
), f AS (
	INSERT INTO fleet (name, owner, team, project, spec, state, created_us, updated_us)
	SELECT $1, $2, $3, $4, $5, 'ACTIVE', $6, $6 WHERE $8 = '' OR EXISTS (SELECT FROM k WHERE status IS NULL) RETURNING id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, was, now, event, why, actor)
	SELECT $6, 'fleet', 'f' || id, '', 'ACTIVE', 'CREATED', 'created by ' || $2, $2 FROM f
), i AS (
	UPDATE idempotency SET status = 201, response = 'ref:f' || f.id FROM f WHERE token_id = $7 AND key = $8
)
SELECT id, pg_notify('spot_engine', '') IS NOT NULL AS woken FROM f
UNION ALL SELECT 0, false WHERE $8 <> '' AND NOT EXISTS (SELECT FROM k WHERE status IS NULL)

-- name: api_fleets
-- params: state fleet_state?, team text?, before_id int8, most int4
-- rows: many id int8, name text, owner text, team text, project text, state text, version int8,
--   spec jsonb, why text, nodes_live int8, nodes_ready int8, pools int8, cost_micros int8,
--   created_us int8, updated_us int8, size text, demand text, on_demand_micros int8
-- json: id#f, name, owner, team, project, state, version, spec, why, nodes_live, nodes_ready,
--   pools, cost$, created@, updated@, size*, demand*, on_demand$
-- writes: no
SELECT f.id, f.name, f.owner, f.team, f.project, f.state, f.version, f.spec, f.why, n.live,
	n.ready, n.pools, (SELECT coalesce(sum(l.amount_micros), 0)::int8
		FROM ledger l JOIN node m ON m.id = l.node_id WHERE m.fleet_id = f.id),
	f.created_us, f.updated_us, fleet_size_doc(f)::text, fleet_demand_doc(f)::text,
	fleet_on_demand_micros(f)
FROM (SELECT * FROM fleet
	WHERE ($1 IS NULL OR state = $1) AND ($2 IS NULL OR team = $2) AND id < $3
	ORDER BY id DESC LIMIT $4) x JOIN fleet f ON f.id = x.id,
	LATERAL (SELECT count(*) AS live, count(*) FILTER (WHERE state = 'READY') AS ready,
		count(DISTINCT pool_id) AS pools FROM node
		WHERE fleet_id = f.id AND state NOT IN ('GONE', 'FAILED')) n
ORDER BY f.id DESC

-- Column prices: of each node, beside the price of its type on demand in the region.
-- name: api_fleet
-- params: id int8
-- rows: 0..1 version int8, team text, state fleet_state, spec text, doc text, nodes text,
--   plan text?, plan_us int8, size text, demand text, on_demand_micros int8, moves text?,
--   moves_us int8, prices text
-- writes: no
SELECT f.version, f.team, f.state, f.spec::text, d.doc::text,
	coalesce((SELECT json_agg(n.doc ORDER BY n.id) FROM (SELECT d.id,
			d.doc::jsonb || jsonb_build_object('ends@', nullif(m.ends_us, 0)) AS doc
		FROM node m JOIN api_node d ON d.id = m.id
		WHERE m.fleet_id = f.id AND m.state NOT IN ('GONE', 'FAILED') ORDER BY m.id LIMIT 1000) n), '[]')::text AS nodes,
	f.plan::text, f.plan_us, fleet_size_doc(f)::text, fleet_demand_doc(f)::text,
	fleet_on_demand_micros(f), f.moves::text, f.moves_us,
	coalesce((SELECT json_agg(json_build_object('node', 'n' || m.id, 'price$', m.price_micros,
			'on_demand$', (SELECT min(l.price_micros) FROM pool o
				JOIN pool_latest l ON l.pool_id = o.id
				WHERE o.provider = p.provider AND o.region = p.region
					AND o.instance_type = p.instance_type
					AND o.market = 'on_demand')) ORDER BY m.id)
		FROM (SELECT id, pool_id, price_micros FROM node WHERE fleet_id = f.id
			AND state NOT IN ('GONE', 'FAILED') ORDER BY id LIMIT 1000) m
		JOIN pool p ON p.id = m.pool_id), '[]')::text
FROM fleet f JOIN api_fleet d ON d.id = f.id WHERE f.id = $1

-- The fleet of that name: the one that is not closed, else the newest.
-- name: api_fleet_named
-- params: name text
-- rows: 0..1 id int8
-- writes: no
SELECT id FROM ((SELECT id FROM fleet WHERE name = $1 AND state <> 'CLOSED')
	UNION ALL (SELECT id FROM fleet WHERE name = $1 ORDER BY id DESC LIMIT 1)) x LIMIT 1

-- Sets the demand from outside. version 0 matches any version. Only a change is an event.
-- name: api_fleet_demand
-- params: id int8, version int8, demand int4, unit text, until_us int8, actor text, at_us int8
-- rows: 0..1 version int8, woken bool
-- writes: yes
WITH was AS (
	SELECT id, demand, demand_unit, demand_until_us FROM fleet
	WHERE id = $1 AND state = 'ACTIVE' AND ($2 = 0 OR demand_version = $2) FOR NO KEY UPDATE
), f AS (
	UPDATE fleet SET demand = $3, demand_unit = $4, demand_until_us = $5, demand_by = $6,
		demand_us = $7, demand_version = demand_version + 1
	FROM was WHERE fleet.id = was.id RETURNING fleet.id, fleet.demand_version
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, was, now, event, why, actor)
	SELECT $7, 'fleet', 'f' || id, coalesce(demand || ' ' || demand_unit, ''), $3 || ' ' || $4,
		'DEMAND', 'demand by ' || $6, $6
	FROM was WHERE demand IS DISTINCT FROM $3 OR demand_unit <> $4 OR demand_until_us <= $7
)
SELECT demand_version, pg_notify('spot_engine', '') IS NOT NULL AS woken FROM f

-- version 0 matches any version. size: of a fleet that follows demand.
-- name: api_fleet_update
-- params: id int8, version int8, spec jsonb?, closing bool, why text, actor text, at_us int8,
--   size int4?
-- rows: 0..1 version int8, woken bool
-- writes: yes
WITH f AS (
	UPDATE fleet SET spec = coalesce($3, spec), version = version + 1, updated_us = $7,
		size = coalesce($8, size), size_us = CASE WHEN $8 IS NULL THEN size_us ELSE $7 END,
		size_slack_us = CASE WHEN $8 IS NULL THEN size_slack_us ELSE 0 END,
		state = CASE WHEN $4 THEN 'CLOSING' ELSE state END
	WHERE id = $1 AND ($2 = 0 OR version = $2) AND state = 'ACTIVE' RETURNING id, version, state
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, was, now, event, why, actor)
	SELECT $7, 'fleet', 'f' || id, 'ACTIVE', state, CASE WHEN $4 THEN 'CLOSE' ELSE 'CHANGED' END, $5, $6 FROM f
)
SELECT version, pg_notify('spot_engine', '') IS NOT NULL AS woken FROM f

-- Pages of all nodes and of the live ones have plans of their own (see api_jobs).
-- name: api_nodes
-- params: before_id int8, most int4
-- rows: many id int8, name text, state text, pool_id int4, provider text, region text, zone text,
--   zone_name text, instance_type text, pool_market text, gpu_name text, gpu_milli int4,
--   gpu_mem_mib int4, vcpus int4, mem_mib int4, arch text, offered bool, pool_price_micros int8?,
--   per_gpu_micros int8?, price_state text, price_why text, observed_us int8?, effective_us int8?,
--   source text, serves_job_id int8?, job_id int8?, fleet_id int8?, replaces_id int8?, gang_id
--   int8?, gang_rank int4?, ref text?, ip text, token text, price_micros int8, created_us int8,
--   launched_us int8?, ready_us int8?, drain_deadline_us int8?, terminate_us int8?, ended_us
--   int8?, end_cause text, last_seen_us int8?, provider_state text, agent_version text,
--   notice_kind text?, notice_deadline_us int8?, notice_source text?, notice_heard_us int8?,
--   cost_micros int8, why text, last_error text, ends_us int8?
-- json: id#n, name, state, pool{id#p, provider, region, zone, zone_name, instance_type, market,
--   gpu, gpus%, gpu_mem_mib, vcpus, mem_mib, arch, offered, price$, price_per_gpu_micros,
--   price_state, price_why, observed@age, effective@, source}, job#j, wanted_for#j, fleet#f,
--   replaces#n, gang#g, rank, ref, ip, token, price$, created@, launched@, ready@,
--   drain_deadline@, terminate@, ended@, end_cause, last_seen@, provider_state, agent_version,
--   notice{kind, deadline@, source, heard@}, cost$, why, last_error, ends@
-- writes: no
SELECT d.*, nullif(x.ends_us, 0) FROM (SELECT id, ends_us FROM (SELECT id, ends_us FROM node
	WHERE id < (SELECT $1) ORDER BY id DESC LIMIT 1001) y LIMIT (SELECT $2)) x
JOIN node_shown d ON d.id = x.id ORDER BY d.id DESC

-- name: api_nodes_live
-- params: before_id int8, most int4
-- rows: many as api_nodes
-- writes: no
SELECT d.*, nullif(x.ends_us, 0) FROM (SELECT id, ends_us FROM (SELECT id, ends_us FROM node
	WHERE state NOT IN ('GONE', 'FAILED') AND id < (SELECT $1)
	ORDER BY id DESC LIMIT 1001) y LIMIT (SELECT $2)) x
JOIN node_shown d ON d.id = x.id ORDER BY d.id DESC

-- The nodes that were wanted for a job or served it: few, so other filters apply to them.
-- name: api_nodes_of_job
-- params: states node_state[], live bool, provider text?, job_id int8, fleet_id int8?,
--   before_id int8, most int4
-- rows: many as api_nodes
-- writes: no
SELECT d.*, nullif(n.ends_us, 0) FROM (SELECT id FROM node WHERE job_id = $4
	UNION SELECT node_id FROM attempt WHERE job_id = $4) x
JOIN node n ON n.id = x.id JOIN node_shown d ON d.id = x.id
WHERE (cardinality($1) = 0 OR d.state = ANY ($1)) AND (NOT $2 OR d.state NOT IN ('GONE', 'FAILED'))
	AND ($3 IS NULL OR d.provider = $3)
	AND ($5::int8 IS NULL OR d.fleet_id = $5) AND d.id < $6
ORDER BY d.id DESC LIMIT $7

-- Planned for each call (see api_jobs_filtered).
-- name: api_nodes_filtered
-- params: states node_state[], live bool, provider text?, fleet_id int8?, before_id int8, most int4
-- rows: many as api_nodes
-- writes: no
WITH x AS (
	SELECT n.id, n.ends_us FROM node n JOIN pool p ON p.id = n.pool_id
	WHERE (cardinality($1) = 0 OR n.state = ANY ($1)) AND (NOT $2 OR n.state NOT IN ('GONE', 'FAILED'))
		AND ($3 IS NULL OR p.provider = $3) AND ($4::int8 IS NULL OR n.fleet_id = $4) AND
			n.id < $5
	ORDER BY n.id DESC LIMIT $6
)
SELECT d.*, nullif(x.ends_us, 0) FROM x JOIN node_shown d ON d.id = x.id
WHERE (SELECT count(*) FROM node a, node b WHERE $3 IS NULL AND $3 IS NOT NULL) = 0 ORDER BY d.id
	DESC

-- name: api_node
-- params: id int8
-- rows: 0..1 state node_state, unsure bool, doc text, more text
-- writes: no
SELECT n.state, n.state = 'UNKNOWN' OR (n.state = 'WANTED' AND EXISTS (SELECT FROM event e WHERE e.node_id = n.id AND e.now = 'UNKNOWN')),
	d.doc::text, json_build_object('hw', n.hw, 'ends@', nullif(n.ends_us, 0),
	'notices', coalesce((SELECT json_agg(json_build_object('kind', o.kind, 'deadline@', nullif(o.deadline_us, 0),
		'source', o.source, 'raw', o.raw, 'heard@', o.heard_us, 'handled@', o.handled_us) ORDER BY o.heard_us)
		FROM notice o WHERE o.node_id = n.id), '[]'::json),
	'attempts', coalesce((SELECT json_agg(json_build_object('job', 'j' || a.job_id, 'epoch', a.epoch, 'phase', a.phase,
		'desired', a.desired, 'exit_reason', a.exit_reason, 'created@', a.created_us, 'ended@', a.ended_us)
		ORDER BY a.created_us) FROM attempt a WHERE a.node_id = n.id), '[]'::json),
	'samples', coalesce((SELECT json_agg(json_build_object('@', s.at_us, 'gpus', s.gpus, 'gpu_util', s.gpu_util,
		'gpu_mem_used_mib', s.gpu_mem_used_mib, 'gpu_mem_total_mib', s.gpu_mem_total_mib, 'gpu_power_mw', s.gpu_power_mw,
		'cpu_util', s.cpu_util, 'mem_used_mib', s.mem_used_mib) ORDER BY s.at_us) FROM (SELECT * FROM node_sample
		WHERE node_id = n.id ORDER BY at_us DESC LIMIT 40) s), '[]'::json),
	'verdicts', coalesce((SELECT json_agg(v.doc ORDER BY v.id) FROM (SELECT id, doc FROM api_verdict WHERE node_id = n.id
		ORDER BY id DESC LIMIT 50) v), '[]'::json),
	'events', coalesce((SELECT json_agg(e.doc ORDER BY e.id) FROM (SELECT id, doc FROM api_event WHERE node_id = n.id
		ORDER BY id DESC LIMIT 100) e), '[]'::json))::text AS more
FROM node n JOIN api_node d ON d.id = n.id WHERE n.id = $1

-- A person releases the node. For the engine that is a notice with a generous deadline.
-- name: api_node_drain
-- params: id int8, actor text, deadline_us int8, at_us int8
-- rows: 0..1 state node_state, asked bool, woken bool
-- writes: yes
WITH n AS (
	SELECT id, state, job_id FROM node WHERE id = $1
), o AS (
	INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us)
	SELECT id, 'maintenance', $3, 'api', 'drain asked by ' || $2, $4 FROM n WHERE state IN ('BOOTING', 'READY')
	ON CONFLICT (node_id, kind) DO NOTHING RETURNING node_id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, node_id, event, why, actor)
	SELECT $4, 'node', 'n' || node_id, node_id, 'DRAIN_ASKED', 'drain asked by ' || $2, $2 FROM o
)
SELECT state, EXISTS (SELECT FROM o) AS asked, pg_notify('spot_engine', '') IS NOT NULL AS woken FROM n

-- name: api_node_terminate
-- params: id int8, was node_state, now node_state, event node_event, why text, actor text,
--   at_us int8
-- rows: 0..1 id int8, woken bool, told bool
-- writes: yes
WITH n AS (
	UPDATE node SET state = $3, state_us = $7, why = $5, next_act_us = 0, tries = 0, claim_until_us = 0,
		end_cause = CASE WHEN end_cause = '' THEN 'released' ELSE end_cause END,
		terminate_us = CASE WHEN $3 = 'TERMINATING' THEN coalesce(terminate_us, $7) ELSE terminate_us END,
		ended_us = CASE WHEN $3 = 'FAILED' THEN $7 ELSE ended_us END
	WHERE id = $1 AND state = $2 RETURNING id, job_id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $7, 'node', 'n' || id, job_id, id, $2, $3, $4, $5, $6 FROM n
)
SELECT id, pg_notify('spot_engine', '') IS NOT NULL AS woken, pg_notify('spot_api', 'n' || id) IS NOT NULL AS told FROM n

-- Column known: the fleet exists; '' asks for all jobs and fleets.
-- name: api_rebalance_ask
-- params: dry_run bool, actor text, at_us int8, token_id int8, idem_key text, fleet text
-- rows: 1 id int8, woken bool, known bool
-- writes: yes
WITH k AS MATERIALIZED (
	SELECT status FROM idempotency WHERE token_id = $4 AND key = $5 FOR NO KEY UPDATE
), f AS MATERIALIZED (
	SELECT id FROM fleet WHERE state = 'ACTIVE' AND ('f' || id = $6 OR name = $6)
	ORDER BY 'f' || id = $6 DESC LIMIT 1
), d AS (
	INSERT INTO decision (at_us, kind, inputs, outcome, why)
	SELECT $3, 'rebalance_request', jsonb_build_object('dry_run', $1, 'by', $2)
		|| coalesce((SELECT jsonb_build_object('fleet', id) FROM f), '{}'),
		'{"state":"pending"}', ''
	WHERE ($5 = '' OR EXISTS (SELECT FROM k WHERE status IS NULL))
		AND ($6 = '' OR EXISTS (SELECT FROM f)) RETURNING id
), i AS (
	UPDATE idempotency SET status = 202, response = 'ref:d' || d.id FROM d
	WHERE token_id = $4 AND key = $5
)
SELECT id, pg_notify('spot_engine', '') IS NOT NULL AS woken, true FROM d
UNION ALL SELECT 0, false, $6 = '' OR EXISTS (SELECT FROM f)
WHERE ($6 <> '' AND NOT EXISTS (SELECT FROM f))
	OR ($5 <> '' AND NOT EXISTS (SELECT FROM k WHERE status IS NULL))

-- name: api_rebalance
-- params: id int8
-- rows: 0..1 state text, doc text
-- writes: no
SELECT coalesce(outcome->>'state', 'done'),
	(jsonb_build_object('id', 'd' || id, 'dry_run', coalesce((inputs->>'dry_run')::bool, false),
		'fleet', 'f' || (inputs->>'fleet'), 'why', why) || outcome)::text
FROM decision WHERE id = $1 AND kind = 'rebalance_request'

-- name: api_events_after
-- params: after_id int8, most int4
-- rows: many id int8, at_us int8, entity text, entity_id text, job_id int8?, node_id int8?,
--   epoch int4?, was text, now text, event text, why text, actor text, data jsonb?
-- json: id, @, entity, entity_id, job#j, node#n, epoch, was, now, event, why, actor, data
-- row: api_event
-- writes: no
SELECT id, at_us, entity, entity_id, job_id, node_id, epoch, was, now, event, why, actor, data
FROM event WHERE id > $1 ORDER BY id LIMIT $2

-- Returns the events after an id, or the newest. Both are read along the primary key.
-- name: api_events
-- params: after_id int8?, job_id int8?, node_id int8?, most int4
-- rows: many as api_events_after
-- writes: no
SELECT * FROM (
	(SELECT id, at_us, entity, entity_id, job_id, node_id, epoch, was, now, event, why, actor, data
	FROM event WHERE $1::int8 IS NOT NULL AND id > $1
		AND ($2::int8 IS NULL OR job_id = $2) AND ($3::int8 IS NULL OR node_id = $3)
	ORDER BY id LIMIT $4)
	UNION ALL
	(SELECT id, at_us, entity, entity_id, job_id, node_id, epoch, was, now, event, why, actor, data
	FROM event WHERE $1::int8 IS NULL
		AND ($2::int8 IS NULL OR job_id = $2) AND ($3::int8 IS NULL OR node_id = $3)
	ORDER BY id DESC LIMIT $4)) e
ORDER BY id

-- Returns the newest event that is old enough for all events before it to be committed.
-- name: api_events_tail
-- params: before_us int8
-- rows: 1 id int8
-- writes: no
SELECT coalesce((SELECT id FROM event WHERE at_us < $1 ORDER BY id DESC LIMIT 1), 0)::int8

-- name: api_ready
-- params: at_us int8
-- rows: 1 engine bool, version int8
-- writes: no
SELECT EXISTS (SELECT FROM leader WHERE name = 'engine' AND until_us > $1),
	(SELECT coalesce(max(version), 0)::int8 FROM schema_version)
