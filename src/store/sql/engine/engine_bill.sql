-- The ledger from node intervals.

-- Machines that have ended come first, then those that were not billed for longest. A skewed clock
-- may have set an end in the future. The machine has ended all the same.
-- name: engine_bill_due
-- params: before_us int8, settled_us int8, at_us int8
-- rows: many id int8, pool_id int4, market market, launched_us int8, ended_us int8?,
--   ready_us int8?, billed_to_us int8?, job_id int8?, fleet_id int8?, price_micros int8
-- writes: no
SELECT n.id, n.pool_id, p.market, n.launched_us, n.ended_us, n.ready_us, n.billed_to_us, n.job_id, n.fleet_id,
	n.price_micros
FROM node n JOIN pool p ON p.id = n.pool_id
WHERE n.launched_us IS NOT NULL AND (n.ended_us IS NULL OR n.billed_to_us IS NULL OR n.billed_to_us < n.ended_us)
	AND coalesce(n.ended_us <= $2 OR n.ended_us > $3, coalesce(n.billed_to_us, n.launched_us) <= $1)
ORDER BY n.ended_us IS NULL, coalesce(n.billed_to_us, n.launched_us), n.id LIMIT 200

-- Returns for each span the prices of its pool in force in [from, to), beginning with the one in
-- force at its start.
-- name: engine_bill_prices
-- params: span[]
-- rows_in: span (node_id int8, pool_id int4, from_us int8, to_us int8)
-- rows: many node_id int8, effective_us int8, price_micros int8, observed_us int8
-- writes: no
-- lane: long
SELECT s.node_id, p.effective_us, p.price_micros, p.observed_us
FROM unnest($1, $2, $3, $4) s (node_id, pool_id, from_us, to_us) CROSS JOIN LATERAL (
	(SELECT effective_us, price_micros, observed_us FROM price_dated d
		WHERE d.pool_id = s.pool_id AND effective_us <= s.from_us
		ORDER BY observed_us DESC LIMIT 1)
	UNION ALL
	(SELECT effective_us, price_micros, observed_us FROM price_dated d
		WHERE d.pool_id = s.pool_id AND effective_us > s.from_us AND effective_us < s.to_us
			AND observed_us > s.from_us - 86400000000)) p
ORDER BY s.node_id, p.effective_us, p.observed_us

-- name: engine_bill_attempts
-- params: span[]
-- rows_in: span (node_id int8, from_us int8, to_us int8)
-- rows: many node_id int8, job_id int8, epoch int4, from_us int8, to_us int8
-- writes: no
-- lane: long
SELECT s.node_id, a.job_id, a.epoch, a.created_us, coalesce(a.ended_us, 0)
FROM unnest($1, $2, $3) s (node_id, from_us, to_us) CROSS JOIN LATERAL (
	SELECT * FROM attempt a WHERE a.node_id = s.node_id AND a.created_us < s.to_us
		AND (a.ended_us IS NULL OR a.ended_us > s.from_us)) a
ORDER BY s.node_id, a.created_us

-- Bills a group of machines: each to its to_us, if it was billed to its from_us (first: never).
-- Otherwise another daemon billed it, and its lines are left out. Machines come in the order of
-- their ids, as in engine_watch_seen, so that the two never wait for each other.
-- name: engine_bill_write
-- params: machine[], line[], at_us int8, day int4, fence int8
-- rows_in: machine (node_id int8, from_us int8, to_us int8, first bool)
-- rows_in: line (node_id int8, kind text, job_id int8, epoch int4, from_us int8, to_us int8,
--   price_micros int8, price_observed_us int8, amount_micros int8)
-- rows: many id int8
-- writes: yes
-- lane: long
-- wakes: ledger
WITH n AS (
	UPDATE node SET billed_to_us = m.t
	FROM unnest($1, $2, $3, $4) m (id, f, t, first)
	WHERE node.id = m.id AND node.billed_to_us IS NOT DISTINCT FROM CASE WHEN m.first THEN NULL ELSE m.f END
		AND (node.ended_us IS NULL OR node.ended_us >= m.t)
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $16 FOR KEY SHARE)
	RETURNING node.id, node.pool_id, node.fleet_id, m.t, m.t - m.f AS us
), l AS (
	INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, team, project, class, from_us, to_us,
		price_micros, price_observed_us, amount_micros)
	SELECT $14, s.kind, n.id, n.pool_id, p.market, nullif(s.job, 0), nullif(s.epoch, 0),
		coalesce(j.team, f.team, ''), coalesce(j.project, f.project, ''), coalesce(j.class, ''),
		s.f, s.t, s.price, s.observed, s.amount
	FROM unnest($5, $6, $7, $8, $9, $10, $11, $12, $13) s (node, kind, job, epoch, f, t, price, observed, amount)
	JOIN n ON n.id = s.node JOIN pool p ON p.id = n.pool_id
	LEFT JOIN job j ON j.id = s.job
	LEFT JOIN fleet f ON f.id = n.fleet_id
	ORDER BY n.id, s.f
), d AS (
	INSERT INTO pool_day AS d (pool_id, day, node_us) SELECT pool_id, $15, sum(us) FROM n GROUP BY pool_id ORDER BY pool_id
	ON CONFLICT (pool_id, day) DO UPDATE SET node_us = d.node_us + excluded.node_us
), h AS (
	INSERT INTO pool_hour AS h (pool_id, at_hour, node_us)
	SELECT pool_id, (t - 1) / 3600000000, sum(us) FROM n GROUP BY 1, 2 ORDER BY 1, 2
	ON CONFLICT (pool_id, at_hour) DO UPDATE SET node_us = h.node_us + excluded.node_us
)
SELECT id FROM n

-- Returns attempts that ended without saving and whose compute lines still count as work. That
-- includes ranks stopped because another rank was lost. Their lines are billed up to the loss
-- already. If a skewed clock left no line after the loss began, nothing is due.
-- name: engine_lost_due
-- params: since_us int8
-- rows: many job_id int8, epoch int4, node_id int8, lost_from_us int8, lost_to_us int8,
--   launched_us int8
-- writes: no
SELECT t.job_id, t.epoch, t.node_id, t.lost_from, t.ended_us, t.launched_us FROM (
	SELECT a.job_id, a.epoch, a.node_id, least(a.ended_us, n.ended_us) AS ended_us, n.launched_us, n.billed_to_us,
		coalesce((SELECT max(CASE WHEN c.set_key IS NULL THEN c.committed_us ELSE c.set_us END) FROM checkpoint c
			WHERE c.job_id = a.job_id AND c.epoch = a.epoch AND c.rank = a.rank AND c.state = 'COMMITTED'),
			a.started_us, a.created_us) AS lost_from
	FROM attempt a JOIN node n ON n.id = a.node_id
	WHERE a.settled AND a.ended_us > $1 AND a.started_us IS NOT NULL AND (a.exit_reason = 'lost' OR (a.exit_reason = 'killed'
		AND EXISTS (SELECT FROM attempt o WHERE o.job_id = a.job_id AND o.epoch = a.epoch AND o.exit_reason = 'lost')))) t
WHERE t.billed_to_us >= t.ended_us AND t.lost_from < t.ended_us
	AND NOT EXISTS (SELECT FROM ledger l WHERE l.node_id = t.node_id AND l.kind = 'credit')
	AND NOT EXISTS (SELECT FROM ledger l WHERE l.job_id = t.job_id AND l.epoch = t.epoch AND l.node_id = t.node_id
		AND l.kind = 'lost_work')
	AND EXISTS (SELECT FROM ledger l WHERE l.job_id = t.job_id AND l.epoch = t.epoch AND l.node_id = t.node_id AND l.kind = 'compute'
		AND l.to_us > t.lost_from AND l.reverses IS NULL AND NOT EXISTS (SELECT FROM ledger r WHERE r.node_id = t.node_id AND r.reverses = l.id))
ORDER BY t.job_id LIMIT 50

-- Returns the first `most` lines. The partly kept one, whose time must be cut, comes before all
-- others.
-- name: engine_lost_lines
-- params: job_id int8, epoch int4, node_id int8, from_us int8, most int8
-- rows: many id int8, from_us int8, to_us int8, price_micros int8, price_observed_us int8,
--   amount_micros int8
-- writes: no
SELECT l.id, l.from_us, l.to_us, l.price_micros, l.price_observed_us, l.amount_micros FROM ledger l
WHERE l.job_id = $1 AND l.epoch = $2 AND l.node_id = $3 AND l.kind = 'compute' AND l.to_us > $4
	AND l.reverses IS NULL AND l.id NOT IN (SELECT r.reverses FROM ledger r WHERE r.node_id = $3 AND r.reverses IS NOT NULL)
ORDER BY l.from_us >= $4, l.id LIMIT $5

-- Reverses whole compute lines and writes them again as work kept and work lost. All lines after
-- after_id are lost as a whole, so the caller need not pass months of them; 0 = there are none.
-- name: engine_lost_write
-- params: job_id int8, epoch int4, at_us int8, ids int8[], part[], fence int8, node_id int8,
--   from_us int8, after_id int8
-- rows_in: part (line_id int8, kind text, from_us int8, to_us int8, amount_micros int8)
-- rows: 0..1 id int8
-- writes: yes
WITH ok AS (
	SELECT id FROM job WHERE id = $1
		AND NOT EXISTS (SELECT FROM ledger l WHERE l.job_id = $1 AND l.epoch = $2 AND l.kind = 'lost_work'
			AND l.node_id IN (SELECT x.node_id FROM ledger x WHERE x.id = ANY ($4)))
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $10 FOR KEY SHARE)
), more AS (
	SELECT l.* FROM ok, ledger l WHERE $13 > 0 AND l.job_id = $1 AND l.epoch = $2 AND l.node_id = $11 AND l.kind = 'compute' AND l.id > $13
		AND l.from_us >= $12 AND l.reverses IS NULL AND l.id NOT IN (SELECT r.reverses FROM ledger r WHERE r.node_id = $11 AND r.reverses IS NOT NULL)
), rev AS (
	INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, team, project, class, from_us, to_us,
		price_micros, price_observed_us, amount_micros, reverses)
	SELECT $3, l.kind, l.node_id, l.pool_id, l.market, l.job_id, l.epoch, l.team, l.project, l.class, l.from_us,
		l.to_us, l.price_micros, l.price_observed_us, -l.amount_micros, l.id
	FROM (SELECT l.* FROM ok, ledger l WHERE l.id = ANY ($4) UNION ALL SELECT * FROM more) l
), again AS (
	INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, team, project, class, from_us, to_us,
		price_micros, price_observed_us, amount_micros)
	SELECT $3, s.kind, l.node_id, l.pool_id, l.market, l.job_id, l.epoch, l.team, l.project, l.class, s.f, s.t,
		l.price_micros, l.price_observed_us, s.amount
	FROM ok, unnest($5, $6, $7, $8, $9) s (id, kind, f, t, amount) JOIN ledger l ON l.id = s.id
	UNION ALL
	SELECT $3, 'lost_work', l.node_id, l.pool_id, l.market, l.job_id, l.epoch, l.team, l.project, l.class, l.from_us, l.to_us,
		l.price_micros, l.price_observed_us, l.amount_micros
	FROM more l
)
SELECT id FROM ok

-- Returns nodes that the provider does not bill: spot machines that it reclaimed so early, and
-- launches that it refused after it had accepted them. It must have reported the reclaim itself, or
-- never a running machine. None of their lines may be pending, such as lost work (as in
-- engine_lost_due).
-- name: engine_credit_due
-- params: provider[], since_us int8
-- rows_in: provider (name text, free_us int8)
-- rows: many id int8, credit_micros int8, never_ran bool
-- writes: no
SELECT n.id, (SELECT sum(l.amount_micros)::int8 FROM ledger l WHERE l.node_id = n.id),
	node_never_ran(n)
FROM node n JOIN pool p ON p.id = n.pool_id
LEFT JOIN unnest($1, $2) f (provider, us) ON f.provider = p.provider
WHERE n.state = 'GONE' AND n.ended_us > $3
	AND (node_never_ran(n) OR (n.ended_us - n.launched_us < f.us AND p.market = 'spot'
		AND n.provider_state = 'gone_reclaimed'))
	AND n.billed_to_us >= n.ended_us
	AND NOT EXISTS (SELECT FROM attempt a CROSS JOIN LATERAL (SELECT coalesce((SELECT max(CASE WHEN c.set_key IS NULL THEN c.committed_us
			ELSE c.set_us END) FROM checkpoint c WHERE c.job_id = a.job_id AND c.epoch = a.epoch AND c.rank = a.rank AND c.state = 'COMMITTED'),
			a.started_us, a.created_us) AS lost_from) f
		WHERE a.node_id = n.id AND (NOT a.settled OR (a.started_us IS NOT NULL
		AND (a.exit_reason = 'lost' OR (a.exit_reason = 'killed'
			AND EXISTS (SELECT FROM attempt o WHERE o.job_id = a.job_id AND o.epoch = a.epoch AND o.exit_reason = 'lost')))
		AND f.lost_from < least(a.ended_us, n.ended_us)
		AND NOT EXISTS (SELECT FROM ledger l WHERE l.job_id = a.job_id AND l.epoch = a.epoch AND l.node_id = n.id
			AND l.kind = 'lost_work')
		AND EXISTS (SELECT FROM ledger l WHERE l.job_id = a.job_id AND l.epoch = a.epoch AND l.node_id = n.id AND l.kind = 'compute'
			AND l.to_us > f.lost_from AND l.reverses IS NULL AND NOT EXISTS (SELECT FROM ledger r WHERE r.node_id = n.id AND r.reverses = l.id)))))
	AND EXISTS (SELECT FROM ledger l WHERE l.node_id = n.id)
	AND NOT EXISTS (SELECT FROM ledger l WHERE l.node_id = n.id AND l.kind = 'credit')
ORDER BY n.id LIMIT 50

-- Reverses every standing line of the node.
-- name: engine_credit_write
-- params: node_id int8, at_us int8, why text, fence int8
-- rows: many id int8
-- writes: yes
WITH ok AS (
	SELECT id, job_id FROM node WHERE id = $1
		AND NOT EXISTS (SELECT FROM ledger l WHERE l.node_id = $1 AND l.kind = 'credit')
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE)
), c AS (
	INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, team, project, class, from_us, to_us,
		price_micros, price_observed_us, amount_micros, reverses)
	SELECT $2, 'credit', l.node_id, l.pool_id, l.market, l.job_id, l.epoch, l.team, l.project, l.class, l.from_us,
		l.to_us, l.price_micros, l.price_observed_us, -l.amount_micros, l.id
	FROM ok, ledger l WHERE l.node_id = $1 AND l.reverses IS NULL
		AND l.id NOT IN (SELECT r.reverses FROM ledger r WHERE r.node_id = $1 AND r.reverses IS NOT NULL)
	RETURNING id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, event, why, actor)
	SELECT $2, 'node', 'n' || id, job_id, id, 'CREDITED', $3, 'engine' FROM ok
)
SELECT id FROM c
