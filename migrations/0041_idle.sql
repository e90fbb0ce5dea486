-- Looks that cost what they need when nothing happens. No rows change, and the previous daemon gets the same answers.

-- As in 0039, with job_flying() written out. A call of such a function takes ten times as long as its one look into an index.
CREATE OR REPLACE FUNCTION job_group(of_ask int8, most int8) RETURNS SETOF int8 LANGUAGE sql STABLE ROWS 20 AS $$
	SELECT j.id FROM job j WHERE j.state = 'QUEUED' AND j.cancel_us IS NULL AND j.ask = $1
		AND NOT CASE WHEN j.num_nodes > 1 THEN EXISTS (SELECT FROM gang g WHERE g.job_id = j.id AND g.state = 'ACQUIRING')
			ELSE EXISTS (SELECT FROM node n WHERE n.job_id = j.id AND n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')
				AND NOT EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND a.job_id = j.id AND a.ended_us IS NULL)) END
	ORDER BY j.queued_us, j.id LIMIT $2
$$;
CREATE OR REPLACE FUNCTION job_head(blocked int8[], each int8, most int8) RETURNS SETOF int8 LANGUAGE sql STABLE ROWS 300 AS $$
	SELECT id FROM (SELECT id, n, row_number() OVER (PARTITION BY ask ORDER BY n) AS k
		FROM (SELECT j.id, j.ask, j.num_nodes, q.n
			FROM (SELECT job_id, row_number() OVER (ORDER BY effective DESC, pos) AS n FROM job_queue) q JOIN job j ON j.id = q.job_id
			WHERE j.state = 'QUEUED' AND j.cancel_us IS NULL AND NOT EXISTS (SELECT FROM unnest($1) b WHERE b = j.ask)
			ORDER BY q.n LIMIT 4 * $3) x
		WHERE NOT CASE WHEN num_nodes > 1 THEN EXISTS (SELECT FROM gang g WHERE g.job_id = x.id AND g.state = 'ACQUIRING')
			ELSE EXISTS (SELECT FROM node m WHERE m.job_id = x.id AND m.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')
				AND NOT EXISTS (SELECT FROM attempt a WHERE a.node_id = m.id AND a.job_id = x.id AND a.ended_us IS NULL)) END) y
	WHERE k <= $2 ORDER BY n LIMIT $3
$$;
