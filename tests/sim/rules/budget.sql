-- Rules about rows that the tests ask (src/store/gen_rules.py says how one is written). Budgets.

-- rule: nothing is wanted that a budget does not pay for
-- Pays: for five minutes of work, a save and the end (170 s, src/core/money/money.h).
-- Later lines do not count. Asked while clocks are right.
SELECT n.id, 'n' || n.id || ' for j' || j.id || ', of which ' || b.left_micros || ' were left' AS words
FROM node n
JOIN job j ON j.id = n.job_id AND j.budget_micros IS NOT NULL
	AND n.fleet_id IS NULL AND n.created_us > coalesce((SELECT max(s.at_us) FROM event s WHERE s.job_id =
		j.id AND s.event = 'BUDGET_SET'), 0) + 1000000
CROSS JOIN LATERAL (SELECT j.budget_micros - coalesce(sum(l.amount_micros), 0) AS left_micros FROM ledger
	l WHERE l.job_id = j.id AND l.to_us <= n.created_us) b
WHERE b.left_micros < n.price_micros * (300000000 + 170000000) / 3600000000

-- rule: a job that used up its budget is told to stop
-- soon: yes
-- By the ledger alone, of which the newest minute is missing.
SELECT j.id, j.state AS words
FROM job j
WHERE j.budget_micros <= coalesce((SELECT sum(l.amount_micros) FROM ledger l WHERE l.job_id = j.id), 0)
	AND EXISTS (SELECT FROM attempt a WHERE a.job_id = j.id AND a.ended_us IS NULL AND a.desired = 'run')

-- rule: a parked job keeps no machine
-- soon: yes
SELECT j.id, j.state AS words
FROM job j
WHERE j.state = 'PARKED' AND EXISTS (SELECT FROM node n WHERE n.job_id = j.id AND n.fleet_id IS NULL AND
	n.state IN ('WANTED', 'BOOTING', 'READY') AND n.end_cause <> 'unwanted')

-- rule: nobody is parked who could begin
-- soon: yes
-- Its limit is lifted, or pays for half an hour of the cheapest on-demand offer.
SELECT j.id, j.state AS words
FROM job j
WHERE j.state = 'PARKED' AND (j.budget_micros IS NULL OR j.budget_micros - coalesce((SELECT sum(l.amount_micros)
	FROM ledger l WHERE l.job_id = j.id), 0) > j.num_nodes * (SELECT min(q.price_micros) / 2 FROM pool p
	JOIN pool_latest q ON q.pool_id = p.id, jsonb_array_elements(j.spec->'asks') k, jsonb_array_elements(k->'gpus')
	g WHERE p.market = 'on_demand' AND position(lower(g->>'gpu') IN lower(p.gpu_name)) > 0 AND p.gpu_milli
	>= (g->>'milli')::int))

-- rule: a budget is kept
-- The cost of a job stays within its budget until the reserve (170 s) is due. A rise of prices is
-- excused. Later epochs are paid by later money. A raise says the budget before it. Asked when
-- nothing went wrong and nobody lowered the budget just before.
SELECT x.id, 'j' || x.id || ' has cost ' || c.cost || ' of ' || x.micros AS words,
	coalesce(c.cost > x.micros + c.rise * x.num_nodes / 10, false) AS bad
FROM (
	SELECT j.id, b.micros, j.num_nodes, e.at_us, e.epoch FROM event e JOIN job j ON j.id = e.job_id
	CROSS JOIN LATERAL (SELECT coalesce(
		(SELECT (substring(s.why FROM 'budget set to ([0-9.]+) USD')::numeric * 1000000)::int8 FROM event s
			WHERE s.job_id = j.id AND s.event = 'BUDGET_SET' AND s.at_us <= e.at_us ORDER BY s.at_us DESC LIMIT 1),
		(SELECT (substring(s.why FROM 'it was ([0-9.]+) USD')::numeric * 1000000)::int8 FROM event s
			WHERE s.job_id = j.id AND s.event = 'BUDGET_SET' AND s.at_us > e.at_us ORDER BY s.at_us LIMIT 1),
		j.budget_micros) AS micros) b
	WHERE e.event = 'BUDGET' AND e.now = 'DRAINING' AND e.at_us > :harm + 60000000 AND e.at_us < :now - 240000000
		AND b.micros IS NOT NULL AND NOT EXISTS (SELECT FROM event s WHERE s.job_id = j.id
			AND s.event = 'BUDGET_SET' AND s.at_us BETWEEN e.at_us - 90000000 AND e.at_us)
) x
CROSS JOIN LATERAL (
	SELECT sum(l.amount_micros * least(1.0, greatest(0.0,
			(x.at_us + 170000000 - l.from_us)::numeric / greatest(l.to_us - l.from_us, 1)))) AS cost,
		coalesce(max(l.price_micros) - min(l.price_micros) FILTER (WHERE l.to_us > x.at_us), 0) AS rise
	FROM ledger l WHERE l.job_id = x.id AND l.epoch <= x.epoch
) c

-- rule: a budget is kept / told early
-- A daemon that led before and after tells a job while two minutes of its machine are left.
SELECT x.id, 'j' || x.id || ' had ' || x.budget_micros - c.cost || ' left' AS words
FROM (
	SELECT j.id, j.budget_micros, e.at_us FROM event e JOIN job j ON j.id = e.job_id
		AND j.budget_micros IS NOT NULL AND j.num_nodes = 1 AND j.fleet_id IS NULL
	WHERE e.event = 'BUDGET' AND e.now = 'DRAINING' AND e.at_us > :steady + 60000000 AND e.at_us < :now - 120000000
		AND e.at_us > coalesce((SELECT max(s.at_us) FROM event s
			WHERE s.job_id = j.id AND s.event = 'BUDGET_SET'), 0) + 300000000
) x
CROSS JOIN LATERAL (
	SELECT sum(l.amount_micros * least(1.0, greatest(0.0,
			(x.at_us - l.from_us)::numeric / greatest(l.to_us - l.from_us, 1)))) AS cost, min(l.price_micros) AS price
	FROM ledger l WHERE l.job_id = x.id AND l.kind <> 'credit'
) c
WHERE x.budget_micros - c.cost < c.price * 120000000 / 3600000000
