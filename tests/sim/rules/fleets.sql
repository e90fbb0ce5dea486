-- Moves and sizes of fleets, and bursts: rules that the tests ask (src/store/gen_rules.py).

-- rule: a fleet moves no more nodes at once than its file allows
-- Begun with its replacement, over when one of the two leaves. Events are in the order of their
-- statements.
SELECT r.id, 'f' || r.fleet_id || ': n' || r.id || ' for n' || r.replaces_id || ' beside '
	|| o.n || ' others, '
		|| o.zone_n || ' of its zone' AS words,
	o.n >= r.at_once OR o.zone_n >= r.per_zone AS bad
FROM (SELECT n.id, n.fleet_id, n.replaces_id, p.provider, p.region, p.zone,
		(f.spec->'rebalance'->>'at_once')::int8 AS at_once,
		(f.spec->'rebalance'->>'per_zone')::int8 AS per_zone,
		(SELECT min(e.id) FROM event e WHERE e.node_id = n.id
			AND e.now = 'WANTED') AS begin_id
	FROM node n JOIN fleet f ON f.id = n.fleet_id JOIN node old ON old.id = n.replaces_id
	JOIN pool p ON p.id = old.pool_id) r
CROSS JOIN LATERAL (SELECT count(*) AS n, count(*) FILTER (
		WHERE (q.provider, q.region, q.zone) = (r.provider, r.region, r.zone)) AS zone_n
	FROM node m JOIN node old ON old.id = m.replaces_id JOIN pool q ON q.id = old.pool_id
	WHERE m.fleet_id = r.fleet_id AND m.id <> r.id
		AND (SELECT min(e.id) FROM event e WHERE e.node_id = m.id
			AND e.now = 'WANTED') < r.begin_id
		AND NOT EXISTS (SELECT FROM event e WHERE e.node_id IN (m.id, m.replaces_id)
			AND e.entity = 'node' AND e.id < r.begin_id
			AND e.now IN ('DRAINING', 'TERMINATING', 'GONE', 'FAILED'))) o

-- rule: a fleet begins no more moves in an hour than its file allows
-- Refused ones do not count.
SELECT r.id, 'f' || r.fleet_id || ': n' || r.id || ' after ' || o.n || ' others' AS words,
	o.n >= (f.spec->'rebalance'->>'per_hour')::int8 AS bad
FROM node r JOIN fleet f ON f.id = r.fleet_id
CROSS JOIN LATERAL (SELECT count(*) AS n FROM node m
	WHERE m.fleet_id = r.fleet_id AND m.replaces_id IS NOT NULL AND m.id < r.id
		AND m.created_us > r.created_us - 3600000000 AND m.created_us <= r.created_us
		AND NOT (m.ready_us IS NULL AND m.state IN ('FAILED', 'GONE', 'TERMINATING')
			AND m.end_cause NOT IN ('unwanted', 'released'))) o
WHERE r.replaces_id IS NOT NULL

-- rule: a move of a fleet pays
-- Both machines are paid while the new one boots.
SELECT d.id, 'n' || d.node_id || ' saves ' || m.saving || ' for ' || m.cost AS words,
	m.saving * 1000 <= m.cost * (1000 + m.margin) OR m.margin <= 0 OR m.both <= 0
		OR m.cost <> m.both + m.restart + m.egress AS bad
FROM decision d CROSS JOIN LATERAL (SELECT (x->>'saving_micros')::numeric AS saving,
		(x->>'cost_micros')::numeric AS cost, (x->>'margin_pm')::numeric AS margin,
		(x->>'both_micros')::numeric AS both, (x->>'restart_micros')::numeric AS restart,
		(x->>'egress_micros')::numeric AS egress
	FROM (SELECT d.inputs->'move' AS x) y) m
WHERE d.kind IN ('return', 'rebalance') AND d.inputs ? 'fleet'

-- rule: a node of a fleet is not moved again at once
-- [engine] return_hold lies between its becoming ready and its replacement.
SELECT r.id, 'n' || r.id || ' for n' || o.id || ', ready for '
		|| (r.created_us - o.ready_us) / 1000000 || ' s' AS words,
	r.created_us + :skew < o.ready_us + :hold AS bad
FROM node r JOIN node o ON o.id = r.replaces_id AND o.fleet_id = r.fleet_id

-- rule: the size of a fleet is from min to max
-- Outside of its hours and after its end it is 0.
SELECT d.id, d.inputs->>'fleet' || ' wants ' || (d.outcome->>'size') || ' by '
	|| (d.outcome->>'rule') AS words,
	(d.outcome->>'size')::int8 NOT BETWEEN (f.spec->'scaling'->>'min')::int8
		AND (f.spec->'scaling'->>'max')::int8
	AND NOT (d.outcome->>'size' = '0' AND d.outcome->>'rule' IN ('schedule',
		'expired')) AS bad
FROM decision d JOIN fleet f ON f.name = d.inputs->>'fleet'
WHERE d.kind = 'fleet_size'

-- rule: the size of a fleet falls with the nodes that leave
-- One idle node leaves at a time, of fewer than 20.
SELECT d.id, d.inputs->>'fleet' || ' falls from ' || x.was || ' to ' || x.size || ', '
		|| x.used || ' with work and ' || x.idle || ' idle' AS words,
	x.size < least(x.was, x.most, x.used + x.idle - 1) AS bad
FROM decision d JOIN fleet f ON f.name = d.inputs->>'fleet'
CROSS JOIN LATERAL (SELECT (d.outcome->>'size')::numeric AS size,
	(d.outcome->>'was')::numeric AS was, (d.inputs->>'used')::numeric AS used,
	(d.inputs->>'idle')::numeric AS idle, (d.inputs->>'coming')::numeric AS coming,
	(f.spec->'scaling'->>'max')::numeric AS most) x
WHERE d.kind = 'fleet_size' AND d.inputs->>'unit' = 'nodes' AND x.used + x.idle + x.coming < 20
	AND d.outcome->>'rule' NOT IN ('schedule', 'expired')

-- rule: a demand counts until its time is over
SELECT f.id, 'f' || f.id || ' needs ' || s.need || ' at ' || f.size_look_us || ' of a demand of '
		|| f.demand || ' until ' || f.demand_until_us AS words,
	s.need > least(s.most, greatest(s.least, ceil(s.work),
		CASE WHEN f.demand_until_us > f.size_look_us
		THEN f.demand * s.per ELSE 0 END) + s.headroom) AS bad
FROM fleet f CROSS JOIN LATERAL (SELECT (f.size_seen->>'need')::numeric AS need,
	(f.size_seen->>'used')::numeric + (f.size_seen->>'queue')::numeric AS work,
	(f.spec->'scaling'->>'min')::numeric AS least,
		(f.spec->'scaling'->>'max')::numeric AS most,
	(f.spec->'scaling'->>'per')::numeric AS per,
	(f.spec->'scaling'->>'headroom')::numeric AS headroom) s
WHERE f.size_seen IS NOT NULL AND f.demand IS NOT NULL AND f.demand_us + :skew < f.size_look_us
	AND f.size_rule NOT IN ('schedule', 'expired')

-- rule: a fleet gives back what was idle for its time
-- Asked of fleets without hours, where no move ends just then. A node that replaced another
-- idles since that one did. A second is for the clocks of two statements.
SELECT e.id, 'n' || n.id || ' of f' || f.id || ' idle for ' || (e.at_us - x.since) / 1000000
	|| ' s' AS words,
	e.at_us + 1000000 + :skew < x.since + (f.spec->'scaling'->>'idle_us')::int8 AS bad
FROM event e JOIN node n ON n.id = e.node_id JOIN fleet f ON f.id = n.fleet_id
LEFT JOIN node o ON o.id = n.replaces_id
CROSS JOIN LATERAL (SELECT least(greatest(n.idle_since_us, n.ready_us),
	greatest(o.idle_since_us, o.ready_us)) AS since) x
WHERE e.entity = 'node' AND e.event = 'RELEASE' AND e.why = 'idle, and more than the fleet wants'
	AND jsonb_array_length(f.spec->'scaling'->'windows') = 0 AND n.ready_us IS NOT NULL
	AND NOT EXISTS (SELECT FROM event m JOIN node k ON k.id = m.node_id
		WHERE k.fleet_id = f.id AND m.event = 'RELEASE' AND m.why LIKE 'n% replaces it'
			AND m.at_us BETWEEN e.at_us - 5000000 AND e.at_us + 1000000)

-- rule: a fleet ends when it expires
SELECT f.id, 'f' || f.id || ' is active ' || (:now - x.us) / 1000000
	|| ' s after it expired' AS words
FROM fleet f CROSS JOIN LATERAL (SELECT CASE WHEN (f.spec->'scaling'->>'expires_us')::int8 > 0
	THEN (f.spec->'scaling'->>'expires_us')::int8
		ELSE nullif((f.spec->'scaling'->>'expires_after_us')::int8, 0)
		+ f.created_us END AS us) x
WHERE f.state = 'ACTIVE' AND x.us > 0 AND :steady > 0 AND greatest(x.us,
	:steady) + 180000000 + :skew < :now

-- rule: a save that a burst asks for is worth its time
SELECT d.id, 'j' || d.job_id || ' loses ' || m.loss || ', saves for ' || m.cost AS words,
	m.loss <= m.cost OR m.loss > m.odds * m.unsaved * m.price / 3600000000 + 1 AS bad
FROM decision d CROSS JOIN LATERAL (SELECT (d.outcome->>'loss_micros')::numeric AS loss,
	(d.outcome->>'cost_micros')::numeric AS cost, (d.outcome->>'odds')::numeric AS odds,
	(d.inputs->>'unsaved_us')::numeric AS unsaved,
		(d.inputs->>'price_micros')::numeric AS price) m
WHERE d.kind = 'burst_save'
