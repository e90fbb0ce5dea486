-- What jobs were seen to do, for the next estimate: steps and hours per kind of GPU, one line each ("GPU milli steps
-- hours"), and how long a start took without the wait for capacity: machine and agent, then fetching, setup and restore.
CREATE FUNCTION job_measured(jobs int8[]) RETURNS TABLE (rates text, restart_us int8) LANGUAGE sql STABLE AS $$
SELECT string_agg(concat_ws(' ', x.gpu_name, x.gpu_milli, x.steps, x.ran_us / 3.6e9), E'\n' ORDER BY x.gpu_name, x.gpu_milli)
		FILTER (WHERE x.steps > 0 AND x.ran_us > 0),
	(sum(x.boot_us) / nullif(sum(x.starts), 0))::int8
FROM (
	SELECT p.gpu_name, p.gpu_milli, sum(greatest(a.steps_done - a.steps_start, 0)) AS steps,
		sum(greatest(a.steps_us - a.started_us, 0)) AS ran_us, count(n.ready_us) AS starts,
		sum(n.ready_us - n.launched_us + a.started_us - a.created_us) AS boot_us
	FROM attempt a JOIN pool p ON p.id = a.pool_id
	LEFT JOIN node n ON n.id = a.node_id AND n.ready_us >= n.launched_us
	WHERE a.job_id = ANY ($1) AND a.started_us IS NOT NULL AND p.gpu_name <> '' GROUP BY 1, 2) x $$;

-- Earlier jobs of the same name tell how a new one will run.
CREATE INDEX job_name ON job (name, team, id);
