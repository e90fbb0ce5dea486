-- What a job has cost, and which sets of a gang are undecided, in a time that does not grow with all that was written. CREATE TRIGGER and the sums
-- let nobody write to the ledger meanwhile (a second for three million lines of jobs with a budget): who bills waits, or tries again. The index lets
-- nobody write to checkpoint while it runs (half a second for a million rows); it comes last, so that agents do not wait for the sums.

-- Sums of the ledger by job. Whoever writes a line keeps them, a daemon of the release before too. A job of which no line was written since
-- has no row: its first line brings all that there are.
CREATE TABLE job_cost (
	job_id         int8 PRIMARY KEY,
	micros         int8 NOT NULL
);
-- Two that write a job's first row at once do not see each other's lines: who comes second adds only its own.
CREATE FUNCTION job_cost_add() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO job_cost AS c (job_id, micros)
	SELECT n.job_id, CASE WHEN EXISTS (SELECT FROM job_cost o WHERE o.job_id = n.job_id) THEN n.micros
		ELSE (SELECT sum(l.amount_micros) FROM ledger l WHERE l.job_id = n.job_id) END
	FROM (SELECT job_id, sum(amount_micros) AS micros FROM added WHERE job_id IS NOT NULL GROUP BY job_id) n ORDER BY n.job_id
	ON CONFLICT (job_id) DO UPDATE SET micros = c.micros + (SELECT sum(a.amount_micros) FROM added a WHERE a.job_id = c.job_id);
	RETURN NULL;
END $$;
CREATE TRIGGER ledger_job_cost AFTER INSERT ON ledger REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION job_cost_add();
INSERT INTO job_cost (job_id, micros)
SELECT j.id, coalesce((SELECT sum(l.amount_micros) FROM ledger l WHERE l.job_id = j.id), 0)
FROM job j WHERE j.budget_micros IS NOT NULL AND j.state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED');

-- What a job has cost at at_us: its ledger lines, and what of its machines is not billed yet.
CREATE OR REPLACE FUNCTION job_spent(of_job int8, at_us int8) RETURNS int8 LANGUAGE sql STABLE AS $$
	SELECT (coalesce((SELECT c.micros FROM job_cost c WHERE c.job_id = $1), (SELECT sum(l.amount_micros) FROM ledger l WHERE l.job_id = $1), 0)
		+ coalesce((SELECT sum(ceil(m.price_micros::numeric * m.open_us / 3600000000)) FROM job_machines($1, $2) m), 0))::int8
$$;

-- What is left of its budget when its machines are given back now (0024 says more). The same sum as job_spent's: who calls a function that calls another has it
-- planned again for each job, which takes longer than all the rest.
CREATE OR REPLACE FUNCTION job_budget_left(j job, at_us int8, end_us int8) RETURNS int8 LANGUAGE sql STABLE AS $$
	SELECT CASE WHEN j.budget_micros IS NOT NULL THEN (SELECT j.budget_micros
		- coalesce((SELECT c.micros FROM job_cost c WHERE c.job_id = j.id), (SELECT sum(l.amount_micros) FROM ledger l WHERE l.job_id = j.id), 0)
		- coalesce(sum(ceil(m.price_micros::numeric * m.open_us / 3600000000)), 0) - coalesce(sum(ceil(m.price_micros::numeric
			* ($3 + coalesce((j.spec #>> '{checkpoint,budget_s}')::int8, 60) * 1000000) / 3600000000)) FILTER (WHERE m.goes_on), 0)
		FROM job_machines(j.id, $2) m)::int8 END
$$;

CREATE INDEX checkpoint_undecided ON checkpoint (job_id, epoch, set_key) WHERE state = 'COMMITTED' AND set_key IS NOT NULL AND set_us IS NULL;
