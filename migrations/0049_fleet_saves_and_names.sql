-- The saves of a fleet's jobs. The index takes about a second for a million jobs of fleets.

CREATE INDEX job_ran_in_fleet ON job (fleet_id, id) WHERE epoch > 0 AND fleet_id IS NOT NULL;

-- Returns means over the newest 20 jobs that ran in a fleet: the size of a checkpoint, and the time of a save.
-- A job without a checkpoint counts with the size that its file expects. 0 = unknown.
CREATE FUNCTION fleet_saves(fleet_id int8) RETURNS TABLE (bytes int8, save_us int8) LANGUAGE sql STABLE AS $$
SELECT coalesce(avg(x.bytes) FILTER (WHERE x.bytes > 0), 0)::int8, coalesce(avg(x.save_us) FILTER (WHERE x.save_us > 0), 0)::int8
FROM (SELECT coalesce(c.bytes, (j.spec #>> '{checkpoint,size_bytes}')::int8) AS bytes, c.committed_us - c.created_us AS save_us
	FROM (SELECT j.checkpoint_id, j.spec FROM job j WHERE j.fleet_id = $1 AND j.epoch > 0 ORDER BY j.id DESC LIMIT 20) j
	LEFT JOIN checkpoint c ON c.id = j.checkpoint_id) x
$$;

-- A revoked token frees its name. The previous daemon inserts without ON CONFLICT, so it works with the index, too.
ALTER TABLE api_token DROP CONSTRAINT api_token_name_key;
CREATE UNIQUE INDEX api_token_name ON api_token (name) WHERE revoked_us IS NULL;

-- The size of a fleet as the API shows it. A fleet that counts the work of a GPU weighs its nodes by gpu_worth of its plan.
-- That has the work of one GPU of each model that the fleet holds.
CREATE OR REPLACE FUNCTION fleet_size_doc(f fleet) RETURNS json LANGUAGE sql STABLE AS $$
	SELECT json_build_object('unit', CASE WHEN g THEN 'gpus' ELSE 'nodes' END, 'gpus_of', u.gpus_of,
		'have', n.have,
		'wanted', coalesce(f.size, CASE WHEN g THEN (f.spec->>'gpus')::int4 ELSE (f.spec->>'nodes')::int4 END),
		'min', (f.spec->'scaling'->>'min')::int4, 'max', (f.spec->'scaling'->>'max')::int4,
		'target', (f.spec->'scaling'->>'target')::int4,
		'rule', CASE WHEN f.spec ? 'scaling' THEN f.size_rule ELSE 'fixed' END,
		'why', CASE WHEN f.spec ? 'scaling' THEN f.size_why ELSE 'the size is fixed' END,
		'since@', nullif(f.size_us, 0), 'next@', nullif(f.size_next_us, 0),
		'need', (f.size_seen->>'need')::int4, 'used', n.used, 'idle', n.idle, 'coming', n.coming,
		'queue_jobs', (f.size_seen->>'queue_jobs')::int8, 'hourly$', n.micros)
	FROM (SELECT x.g, CASE WHEN x.g THEN coalesce(f.spec->>'gpus_of', '') ELSE '' END AS gpus_of,
			CASE WHEN x.g AND coalesce(f.spec->>'gpus_of', '') <> '' THEN f.plan->'gpu_worth' END AS worth
		FROM (SELECT CASE WHEN f.spec ? 'scaling' THEN f.spec->'scaling'->>'unit' = 'gpus'
			ELSE coalesce((f.spec->>'nodes')::int4, 0) = 0 AND coalesce((f.spec->>'gpus')::int4, 0) > 0 END AS g) x OFFSET 0) u,
		LATERAL (SELECT coalesce(sum(w), 0)::float8 AS have, coalesce(sum(w) FILTER (WHERE used), 0)::float8 AS used,
			coalesce(sum(w) FILTER (WHERE NOT used AND state = 'READY'), 0)::float8 AS idle,
			coalesce(sum(w) FILTER (WHERE NOT used AND state <> 'READY'), 0)::float8 AS coming,
			coalesce(sum(price_micros), 0)::int8 AS micros
		FROM (SELECT m.state, m.price_micros,
				CASE WHEN g THEN p.gpu_milli / 1000.0 * coalesce((u.worth->>p.gpu_name)::float8, 1) ELSE 1 END AS w,
				EXISTS (SELECT FROM attempt a WHERE a.node_id = m.id AND (a.ended_us IS NULL OR NOT a.settled)) AS used
			FROM node m JOIN pool p ON p.id = m.pool_id
			WHERE m.fleet_id = f.id AND m.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')) x) n
$$;
