-- Planned moves: back to spot, and rebalancing. A gang's row is that of its rank 0. Its replacement
-- is another gang, ready when all of its machines are.

-- refused: the pools of the probes refused since the job's last move, one entry each, the newest
-- first. Moves and probes in the future stem from a clock step. Their age is unknown, and until
-- that time they block nothing. Column spec is set for the first rows that fit into spec_bytes, and
-- always for the very first.
-- name: engine_move_jobs
-- params: at_us int8, any_market bool, after_id int8, most int8, only int8[], end_us int8,
--   spec_bytes int8
-- rows: many id int8, epoch int4, name text, spec text?, deadline_us int8?, steps_done int8,
--   steps_total int8, checkpoint_id int8?, checkpoint_bytes int8, checkpoint_steps int8,
--   save_us int8, node_id int8, pool_id int4, state_us int8, created_us int8, queued_us int8,
--   last_move_us int8, moves_hour int4, probes_refused int4, last_probe_us int8,
--   replacement_id int8?, replacement_state node_state?, replacement_ready_us int8?, rates text?,
--   restart_us int8?, num_nodes int4, unsaved_from_us int8?, budget_micros int8?,
--   budget_left int8?, refused text?
-- writes: no
WITH RECURSIVE x AS MATERIALIZED (
SELECT j.id, j.epoch, j.name, j.deadline_us, j.steps_done, j.steps_total, j.checkpoint_id,
	coalesce(c.bytes, 0) AS checkpoint_bytes, coalesce(c.steps, 0) AS checkpoint_steps,
	coalesce(c.committed_us - c.created_us, 0) AS save_us,
	a.node_id, a.pool_id, j.state_us, j.created_us, j.queued_us,
	coalesce((SELECT max(e.at_us) FROM event e WHERE e.job_id = j.id AND e.event = 'MOVE' AND e.at_us <= $1), 0) AS last_move_us,
	(SELECT count(*) FROM event e WHERE e.job_id = j.id AND e.event = 'MOVE' AND e.at_us > $1 - 3600000000
		AND e.at_us <= $1)::int4 AS moves_hour,
	coalesce(f.n, 0)::int4 AS probes_refused,
	coalesce((SELECT max(r.created_us) FROM node r WHERE r.job_id = j.id AND r.replaces_id = a.node_id
		AND r.created_us <= $1), 0) AS last_probe_us,
	r.id AS replacement_id, r.state AS replacement_state, r.ready_us AS replacement_ready_us, m.rates, m.restart_us, j.num_nodes,
	greatest(a.started_us, CASE WHEN c.epoch = a.epoch THEN c.created_us END) AS unsaved_from_us,
	j.budget_micros, CASE WHEN j.budget_micros IS NOT NULL THEN job_budget_left(j, $1, $6) END AS budget_left, f.pools AS refused
FROM job j
JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch AND a.rank = 0 AND a.ended_us IS NULL AND a.desired = 'run'
JOIN node n ON n.id = a.node_id AND n.state = 'READY'
LEFT JOIN checkpoint c ON c.id = j.checkpoint_id
LEFT JOIN LATERAL (SELECT count(*) AS n, string_agg(r.pool_id::text, ' ' ORDER BY r.id DESC) AS pools
	FROM node r LEFT JOIN gang g ON g.id = r.gang_id WHERE r.job_id = j.id AND r.replaces_id = a.node_id
		AND CASE WHEN g.id IS NULL THEN r.state = 'FAILED' ELSE g.state = 'RELEASED' AND g.served_us IS NULL END) f ON true
LEFT JOIN LATERAL (SELECT r.id, CASE WHEN w.n < j.num_nodes THEN 'BOOTING' ELSE r.state END AS state,
		CASE WHEN r.gang_id IS NULL THEN r.ready_us ELSE w.ready_us END AS ready_us
	FROM node r LEFT JOIN gang g ON g.id = r.gang_id
	LEFT JOIN LATERAL (SELECT count(*) AS n, max(x.ready_us) AS ready_us FROM node x WHERE x.gang_id = r.gang_id
		AND x.state = 'READY' HAVING r.gang_id IS NOT NULL) w ON true
	WHERE r.job_id = j.id AND r.replaces_id = a.node_id AND coalesce(g.state = 'ACQUIRING', true)
		AND r.state NOT IN ('FAILED', 'GONE', 'TERMINATING') ORDER BY r.id DESC LIMIT 1) r ON true
LEFT JOIN LATERAL job_measured(ARRAY[j.id]) m ON true
WHERE j.state = 'RUNNING' AND j.cancel_us IS NULL AND j.fleet_id IS NULL
	AND ($2 OR a.market NOT IN ('spot', 'interruptible') OR r.id IS NOT NULL OR j.deadline_us IS NOT NULL) AND j.id > $3 AND (cardinality($5) = 0 OR j.id = ANY ($5))
ORDER BY j.id LIMIT $4
), o AS MATERIALIZED (
	SELECT array_agg(id ORDER BY id) AS ids FROM x
), t AS (
	SELECT 0 AS i, 0::int8 AS id, '' AS spec, 0::int8 AS bytes
	UNION ALL SELECT t.i + 1, j.id, y.spec, t.bytes + octet_length(y.spec)
	FROM t CROSS JOIN o JOIN job j ON j.id = o.ids[t.i + 1] CROSS JOIN LATERAL (SELECT j.spec::text AS spec OFFSET 0) y WHERE t.bytes < $7
)
SELECT x.id, x.epoch, x.name, t.spec, x.deadline_us, x.steps_done, x.steps_total, x.checkpoint_id, x.checkpoint_bytes, x.checkpoint_steps,
	x.save_us, x.node_id, x.pool_id, x.state_us, x.created_us, x.queued_us, x.last_move_us, x.moves_hour, x.probes_refused, x.last_probe_us,
	x.replacement_id, x.replacement_state, x.replacement_ready_us, x.rates, x.restart_us, x.num_nodes, x.unsaved_from_us,
	x.budget_micros, x.budget_left, x.refused
FROM x LEFT JOIN t ON t.id = x.id ORDER BY x.id

-- name: engine_rebalance_due
-- rows: many id int8, outcome jsonb, inputs jsonb
-- writes: no
SELECT id, outcome, inputs FROM decision
WHERE kind = 'rebalance_request' AND outcome->>'state' = 'pending' ORDER BY id LIMIT 4

-- name: engine_rebalance_done
-- params: id int8, outcome jsonb, why text, fence int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH d AS (
	UPDATE decision SET outcome = $2, why = $3 WHERE id = $1 AND outcome->>'state' = 'pending'
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE)
	RETURNING id
)
SELECT id, pg_notify('spot_api', 'd' || id) IS NOT NULL AS told FROM d

-- Makes the daemon's own request when nobody asked for that long. A request in the future (from a
-- clock step) does not delay it.
-- name: engine_rebalance_self
-- params: every_us int8, at_us int8, fence int8
-- rows: 0..1 id int8
-- writes: yes
INSERT INTO decision (at_us, kind, inputs, outcome, why)
SELECT $2, 'rebalance_request', '{"dry_run": false, "by": "engine"}', '{"state":"pending"}', ''
WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $3 FOR KEY SHARE)
	AND NOT EXISTS (SELECT FROM decision WHERE kind = 'rebalance_request' AND at_us > $2 - $1 AND at_us <= $2)
	AND (EXISTS (SELECT FROM job WHERE state = 'RUNNING')
		OR EXISTS (SELECT FROM fleet WHERE state = 'ACTIVE'))
RETURNING id

-- Returns recommendations to leave a node that are not yet judged, with the outcome of that
-- provider's earlier ones.
-- name: engine_recommended
-- params: since_us int8, window_us int8, at_us int8
-- rows: many node_id int8, job_id int8, provider text, heard int8, followed int8
-- writes: no
WITH open AS (
	SELECT o.node_id, a.job_id, p.provider
	FROM notice o JOIN node n ON n.id = o.node_id AND n.state = 'READY' JOIN pool p ON p.id = n.pool_id
	JOIN attempt a ON a.node_id = n.id AND a.ended_us IS NULL AND a.desired = 'run'
	WHERE o.kind = 'rebalance' AND o.handled_us IS NOT NULL AND o.heard_us > $3 - $2
		AND NOT EXISTS (SELECT FROM decision d WHERE d.node_id = o.node_id AND d.kind = 'recommendation')
	ORDER BY o.heard_us LIMIT 50
), past AS (
	SELECT p.provider, count(*) AS heard, count(*) FILTER (WHERE f.yes) AS followed
	FROM notice o JOIN node n ON n.id = o.node_id JOIN pool p ON p.id = n.pool_id
	CROSS JOIN LATERAL (SELECT (n.end_cause = 'reclaimed' AND n.ended_us < o.heard_us + $2) OR EXISTS (SELECT FROM notice i
		WHERE i.node_id = o.node_id AND i.kind = 'interruption' AND i.heard_us < o.heard_us + $2) AS yes) f
	WHERE o.kind = 'rebalance' AND o.heard_us > $1 AND (f.yes OR o.heard_us < $3 - $2)
		AND EXISTS (SELECT FROM open)
	GROUP BY p.provider
)
SELECT open.node_id, open.job_id, open.provider, coalesce(past.heard, 0)::int8, coalesce(past.followed, 0)::int8
FROM open LEFT JOIN past ON past.provider = open.provider

-- name: engine_recommendation
-- params: job_id int8, node_id int8, inputs jsonb, outcome jsonb, why text, at_us int8, fence int8
-- rows: 0..1 id int8
-- writes: yes
INSERT INTO decision (at_us, kind, job_id, node_id, inputs, outcome, why)
SELECT $6, 'recommendation', $1, $2, $3, $4, $5
WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE)
	AND NOT EXISTS (SELECT FROM decision d WHERE d.node_id = $2 AND d.kind = 'recommendation')
RETURNING id

-- Returns the earnings of planned moves. A move's decision names the pool where the job would have
-- stayed. The statement prices that pool over the hours that the job ran at its new place, at the
-- machines' relative speed. Column paid is the ledger's sum of the new node for this job. It
-- includes the start and the time that both were held. A fleet's node counts from its start on,
-- with or without a job. Parameter fleet is an id or a name; '' = all moves.
-- name: api_rebalance_report
-- params: since_us int8, at_us int8, most int4, fleet text
-- rows: 1 doc text
-- writes: no
WITH m AS (
	SELECT d.id, d.at_us, d.kind, d.job_id, d.node_id, d.why, d.inputs->'move' AS move,
		(d.inputs->'move'->>'from_pool')::int4 AS from_pool, n.pool_id AS to_pool,
		(d.inputs->'move'->>'speed')::float8 AS speed, a.started_us, a.until_us, a.ran_us,
		n.gang_id, coalesce(g.want, 1) AS nodes, n.fleet_id
	FROM decision d JOIN node n ON n.id = d.node_id LEFT JOIN gang g ON g.id = n.gang_id
	LEFT JOIN LATERAL (SELECT min(a.started_us) AS started_us, max(coalesce(a.ended_us, $2)) AS until_us,
			sum(greatest(coalesce(a.ended_us, $2) - a.started_us, 0))::int8 AS ran_us
		FROM attempt a WHERE a.node_id = d.node_id AND a.job_id = d.job_id
			AND a.started_us IS NOT NULL HAVING n.fleet_id IS NULL
		UNION ALL SELECT n.ready_us, coalesce(n.ended_us, $2),
			greatest(coalesce(n.ended_us, $2) - n.ready_us, 0)
		WHERE n.fleet_id IS NOT NULL AND n.ready_us IS NOT NULL) a ON true
	WHERE d.kind IN ('rebalance', 'return') AND d.at_us > $1 AND d.inputs ? 'move'
		AND ($4 = '' OR n.fleet_id = (SELECT f.id FROM fleet f
			WHERE 'f' || f.id = $4 OR f.name = $4 ORDER BY 'f' || f.id = $4 DESC, f.id DESC LIMIT 1))
), x AS (
	SELECT m.*, coalesce(ran_us, 0) / 3.6e9 AS hours,
		coalesce((SELECT sum(l.amount_micros) FROM ledger l WHERE l.node_id IN (SELECT m.node_id
			UNION SELECT y.id FROM node y WHERE y.gang_id = m.gang_id)
			AND (m.fleet_id IS NOT NULL OR coalesce(l.job_id, m.job_id) = m.job_id)), 0)::int8
			AS paid,
		coalesce((SELECT sum(p.price_micros * (least(p.to_us, m.until_us) - greatest(p.from_us, m.started_us)))
				/ nullif(sum(least(p.to_us, m.until_us) - greatest(p.from_us, m.started_us)), 0)
			FROM (SELECT price_micros, effective_us AS from_us, coalesce(lead(effective_us) OVER (ORDER BY effective_us,
				observed_us), $2) AS to_us FROM price_dated WHERE pool_id = m.from_pool) p
			WHERE p.from_us < m.until_us AND p.to_us > m.started_us),
			(m.move->>'here_price_micros')::float8 / m.nodes, 0)::float8 AS stay_price
	FROM m
), y AS (
	SELECT x.*, round(hours * nodes * stay_price * coalesce(nullif(speed, 0), 1))::int8 AS stay FROM x
)
SELECT json_build_object('since@', $1, 'moves', count(*), 'done', count(*) FILTER (WHERE started_us IS NOT NULL),
	'predicted$', coalesce(sum((move->>'saving_micros')::int8 - (move->>'cost_micros')::int8), 0)::int8,
	'stay$', coalesce(sum(stay), 0)::int8, 'paid$', coalesce(sum(paid), 0)::int8,
	'earned$', coalesce(sum(stay - paid), 0)::int8,
	'items', coalesce((SELECT json_agg(json_build_object('decision', 'd' || z.id, 'kind', z.kind, '@', z.at_us,
		'job', 'j' || z.job_id, 'fleet', 'f' || z.fleet_id,
		'node', 'n' || z.node_id, 'from', 'p' || z.from_pool, 'to', 'p' || z.to_pool,
		'hours', round(z.hours::numeric, 4), 'saving$', (z.move->>'saving_micros')::int8, 'cost$', (z.move->>'cost_micros')::int8,
		'stay$', z.stay, 'paid$', z.paid, 'earned$', z.stay - z.paid, 'done', z.started_us IS NOT NULL, 'why', z.why)
		ORDER BY z.id DESC) FROM (SELECT * FROM y ORDER BY id DESC LIMIT $3) z), '[]'))::text
FROM y
