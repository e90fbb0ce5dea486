-- Budgets of jobs: what one may cost in all, NULL for no limit. Nothing is wanted, begun or kept that the budget does not pay for to its
-- end: a job whose budget is used up saves, stops and is PARKED. park_need_micros: what must be left of the budget before it begins again.
ALTER TABLE job ADD COLUMN budget_micros int8 CHECK (budget_micros > 0);
ALTER TABLE job ADD COLUMN park_need_micros int8;
CREATE INDEX job_budget ON job (id) WHERE budget_micros IS NOT NULL AND state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED');

-- Which machines of a job cost something that is not in the ledger yet, at at_us, or will: their price, for how long, and whether they go on. A
-- machine of a fleet is its job's only while an attempt is there. The newest price of the pool or that of the launch, whichever is more; a launch
-- that is under way costs nothing yet.
CREATE FUNCTION job_machines(of_job int8, at_us int8) RETURNS TABLE (price_micros int8, open_us int8, goes_on bool) LANGUAGE sql STABLE AS $$
	SELECT greatest(n.price_micros, p.price_micros),
		CASE WHEN n.launched_us IS NULL THEN 0 ELSE greatest(least(coalesce(n.ended_us, $2), $2) - coalesce(n.billed_to_us, n.launched_us), 0) END,
		n.state NOT IN ('GONE', 'FAILED')
	FROM node n LEFT JOIN pool_latest p ON p.pool_id = n.pool_id
	WHERE n.job_id = $1 AND n.fleet_id IS NULL AND n.state NOT IN ('GONE', 'FAILED')
	UNION ALL
	SELECT greatest(n.price_micros, p.price_micros), greatest(n.ended_us - coalesce(n.billed_to_us, n.launched_us), 0), false
	FROM node n LEFT JOIN pool_latest p ON p.pool_id = n.pool_id
	WHERE n.job_id = $1 AND n.fleet_id IS NULL AND n.state IN ('GONE', 'FAILED') AND n.ended_us IS NOT NULL
		AND n.launched_us IS NOT NULL AND (n.billed_to_us IS NULL OR n.billed_to_us < n.ended_us)
	UNION ALL
	SELECT greatest(n.price_micros, p.price_micros),
		greatest(least(coalesce(a.ended_us, $2), $2) - greatest(a.created_us, n.billed_to_us), 0), a.ended_us IS NULL
	FROM attempt a JOIN node n ON n.id = a.node_id AND n.fleet_id IS NOT NULL LEFT JOIN pool_latest p ON p.pool_id = n.pool_id
	WHERE a.job_id = $1 AND (a.ended_us IS NULL OR n.billed_to_us IS NULL OR n.billed_to_us < a.ended_us)
$$;

-- What a job has cost at at_us: its ledger lines, and what of its machines is not billed yet.
CREATE FUNCTION job_spent(of_job int8, at_us int8) RETURNS int8 LANGUAGE sql STABLE AS $$
	SELECT (coalesce((SELECT sum(l.amount_micros) FROM ledger l WHERE l.job_id = $1), 0)
		+ coalesce((SELECT sum(ceil(m.price_micros::numeric * m.open_us / 3600000000)) FROM job_machines($1, $2) m), 0))::int8
$$;

-- What is left of its budget when its machines are given back now: they save, which takes as long as the file allows, and end, which takes
-- end_us. NULL: it has no budget.
CREATE FUNCTION job_budget_left(j job, at_us int8, end_us int8) RETURNS int8 LANGUAGE sql STABLE AS $$
	SELECT CASE WHEN j.budget_micros IS NOT NULL THEN (j.budget_micros - job_spent(j.id, $2) - coalesce((SELECT sum(ceil(m.price_micros::numeric
		* ($3 + coalesce((j.spec #>> '{checkpoint,budget_s}')::int8, 60) * 1000000) / 3600000000)) FROM job_machines(j.id, $2) m WHERE m.goes_on), 0))::int8 END
$$;
