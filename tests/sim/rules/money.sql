-- Rules about rows that the tests ask (src/store/gen_rules.py says how one is written). The ledger.

-- rule: a price is the pool's
-- chaos: yes
SELECT l.id, 'line ' || l.id || ' of n' || l.node_id AS words
FROM ledger l
JOIN node n ON n.id = l.node_id
WHERE NOT CASE WHEN l.price_observed_us = 0 THEN l.price_micros = n.price_micros ELSE EXISTS (SELECT FROM
	price_point p WHERE p.pool_id = n.pool_id AND p.observed_us = l.price_observed_us AND p.price_micros
	= l.price_micros AND p.effective_us <= l.from_us) END

-- rule: a price is the newest
-- The newest of its time that had been stored for a minute. Asked while clocks are right and no
-- daemon was paused.
SELECT l.id, 'line ' || l.id || ' of n' || l.node_id || ' is of ' || l.price_observed_us || ', not ' ||
	q.observed_us AS words
FROM ledger l
JOIN price_point q ON q.pool_id = l.pool_id AND q.observed_us > l.price_observed_us
	AND q.effective_us < l.to_us AND q.observed_us < l.at_us - 60000000
	AND q.price_micros <> l.price_micros
WHERE l.reverses IS NULL AND NOT EXISTS (SELECT FROM ledger r WHERE r.node_id = l.node_id AND r.reverses IS NOT NULL)
	AND NOT EXISTS (SELECT FROM price_point o WHERE o.pool_id = q.pool_id AND o.observed_us > q.observed_us
		AND o.effective_us < l.to_us)

-- rule: no price is of a time to come
SELECT pool_id AS id, 'p' || pool_id || ' in ' || s || ' s' AS words
FROM (SELECT pool_id, (greatest(observed_us, changed_us) - :now) / 1000000 AS s FROM pool_price UNION
	ALL SELECT pool_id, (observed_us - :now) / 1000000 FROM price_dated) x
WHERE s > 5

-- rule: a reversal takes one line back
-- chaos: yes
SELECT l.id, 'line ' || l.id || ' of n' || l.node_id AS words
FROM ledger l
WHERE EXISTS (SELECT FROM ledger r WHERE r.reverses = l.id AND (r.amount_micros <> -l.amount_micros OR
	(r.from_us, r.to_us, r.node_id) <> (l.from_us, l.to_us, l.node_id)))
	OR (SELECT count(*) FROM ledger r WHERE r.reverses = l.id) > 1

-- rule: lost work is billed as well
-- chaos: yes
SELECT n.id, 'n' || n.id || ' lived ' || (n.ended_us - n.launched_us) || ' billed ' || b.us AS words
FROM node n, LATERAL (SELECT sum(l.to_us - l.from_us) us FROM ledger l WHERE l.node_id = n.id AND l.reverses
	IS NULL AND NOT EXISTS (SELECT FROM ledger x WHERE x.reverses = l.id)) b
WHERE n.ended_us > n.launched_us AND b.us <> n.ended_us - n.launched_us
	AND EXISTS (SELECT FROM ledger r WHERE r.node_id = n.id AND r.kind = 'lost_work')

-- rule: work is lost from the last checkpoint on
-- chaos: yes
SELECT l.id, 'line ' || l.id || ' of j' || l.job_id || ' epoch ' || l.epoch || ': c' || c.id AS words
FROM ledger l
JOIN attempt a ON a.job_id = l.job_id AND a.epoch = l.epoch
	AND a.node_id = l.node_id
JOIN checkpoint c ON c.job_id = a.job_id AND c.epoch = a.epoch
	AND c.rank = a.rank AND c.state = 'COMMITTED'
WHERE l.kind = 'lost_work' AND l.reverses IS NULL AND CASE WHEN c.set_key IS NULL THEN c.committed_us
	ELSE c.set_us END > l.from_us

-- rule: lost work is booked as lost
-- Five minutes after a loss, work since the last checkpoint is not compute. A credit excuses it.
SELECT l.id, 'line ' || l.id || ' of j' || a.job_id || ' epoch ' || a.epoch || ' on n' || a.node_id AS words
FROM attempt a
JOIN node n ON n.id = a.node_id
JOIN ledger l ON (l.job_id, l.epoch, l.node_id) = (a.job_id, a.epoch, a.node_id)
WHERE (a.exit_reason = 'lost' OR (a.exit_reason = 'killed' AND EXISTS (SELECT FROM attempt o WHERE (o.job_id,
	o.epoch) = (a.job_id, a.epoch) AND o.exit_reason = 'lost')))
	AND a.started_us IS NOT NULL AND n.state IN ('GONE', 'FAILED')
	AND greatest(a.ended_us, n.ended_us) < (:now - 300000000 - :skew)
	AND l.kind = 'compute' AND l.reverses IS NULL AND NOT EXISTS (SELECT FROM ledger r WHERE r.reverses = l.id)
	AND l.from_us < least(a.ended_us, n.ended_us) AND l.from_us >= coalesce((SELECT max(CASE WHEN c.set_key
		IS NULL THEN c.committed_us ELSE c.set_us END) FROM checkpoint c WHERE (c.job_id, c.epoch, c.rank) =
		(a.job_id, a.epoch, a.rank) AND c.state = 'COMMITTED'), a.started_us) AND NOT EXISTS (SELECT FROM ledger
		x WHERE x.node_id = n.id AND x.kind = 'credit')

-- rule: a credit takes back all of it
-- chaos: yes
SELECT node_id AS id, 'n' || node_id || ' keeps ' || sum AS words
FROM (SELECT node_id, sum(amount_micros) FROM ledger GROUP BY node_id HAVING bool_or(kind = 'credit')) x
WHERE sum <> 0

-- rule: a line is of what the machine did
-- A job's time on a machine is compute and no other time is. A fleet's idle machine costs no job. Half a minute is for
-- decisions meanwhile.
SELECT l.id, 'line ' || l.id || ' of n' || l.node_id || ' ' || l.kind AS words
FROM ledger l
JOIN node n ON n.id = l.node_id
WHERE l.reverses IS NULL AND NOT EXISTS (SELECT FROM ledger r WHERE r.reverses = l.id)
	AND CASE l.kind WHEN 'boot' THEN l.to_us > n.ready_us WHEN 'idle' THEN (n.fleet_id IS NOT NULL AND l.job_id
		IS NOT NULL) OR n.ready_us IS NULL OR l.from_us < n.ready_us OR EXISTS (SELECT FROM attempt a WHERE
		a.node_id = l.node_id AND least(l.to_us, coalesce(a.ended_us, l.to_us)) - greatest(l.from_us, a.created_us)
		> 30000000) WHEN 'compute' THEN NOT EXISTS (SELECT FROM attempt a WHERE (a.job_id, a.epoch, a.node_id)
		= (l.job_id, l.epoch, l.node_id) AND a.created_us <= l.from_us + 30000000 AND coalesce(a.ended_us, l.to_us)
		+ 30000000 >= l.to_us) ELSE false END

-- rule: a line is the team's
-- chaos: yes
SELECT l.id, 'line ' || l.id AS words
FROM ledger l
JOIN job j ON j.id = l.job_id
WHERE (l.team, l.project) <> (j.team, j.project)

-- rule: no interval is billed twice
-- chaos: yes
SELECT a.node_id AS id, 'n' || a.node_id || ' lines ' || a.id || ' and ' || b.id AS words
FROM ledger a
JOIN ledger b ON b.node_id = a.node_id AND b.id > a.id AND b.from_us < a.to_us
	AND a.from_us < b.to_us AND a.kind <> 'lost_work' AND b.kind <> 'lost_work'
	AND a.reverses IS NULL AND b.reverses IS NULL AND NOT EXISTS (SELECT 1 FROM ledger x WHERE x.reverses
		IN (a.id, b.id))

-- rule: an amount is its interval times its price
-- Amounts are differences of rounded sums, so a line may be off by one micro-dollar.
SELECT id, 'line ' || id AS words
FROM ledger
WHERE reverses IS NULL AND abs(amount_micros) <> round((to_us - from_us)::numeric * price_micros / 3600000000)
	AND abs(abs(amount_micros) - (to_us - from_us)::numeric * price_micros / 3600000000) > 1

-- rule: bills lie within the machine's life
-- chaos: yes
SELECT l.id, 'line ' || l.id || ' of n' || n.id AS words
FROM ledger l
JOIN node n ON n.id = l.node_id
WHERE l.from_us < n.launched_us OR (n.ended_us IS NOT NULL AND l.to_us > n.ended_us)

-- rule: every machine's life is billed whole
-- chaos: yes
SELECT n.id, 'n' || n.id || ' lived ' || (n.ended_us - n.launched_us) || ' billed ' || b.us AS words
FROM node n, LATERAL (SELECT coalesce(sum(l.to_us - l.from_us) FILTER (WHERE l.reverses IS NULL AND NOT
	EXISTS (SELECT 1 FROM ledger x WHERE x.reverses = l.id)), 0) us FROM ledger l WHERE l.node_id = n.id
	AND l.kind <> 'lost_work') b
WHERE n.launched_us IS NOT NULL AND n.ended_us > n.launched_us
	AND b.us <> n.ended_us - n.launched_us AND NOT EXISTS (SELECT 1 FROM ledger r WHERE r.node_id = n.id
		AND r.reverses IS NOT NULL)
