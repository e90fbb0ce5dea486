-- The end of the capacity that a node runs in, such as a capacity block, as its provider tells it long before. And which jobs
-- suit a fleet. Fast: a constant default and a function.

ALTER TABLE node ADD COLUMN ends_us int8 NOT NULL DEFAULT 0; -- 0: it has no end

-- True when the machines that a fleet asks for could suit a job, by their GPUs. Names match as gpu_matches() of core/rank does; either may
-- be the shorter one. Both are stored specs.
CREATE FUNCTION fleet_suits(fleet jsonb, job jsonb) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
SELECT NOT EXISTS (SELECT FROM jsonb_path_query($1, '$.asks[*].gpus[*]')) OR NOT EXISTS (SELECT FROM jsonb_path_query($2, '$.asks[*].gpus[*]'))
	OR EXISTS (SELECT FROM jsonb_path_query($1, '$.asks[*].gpus[*]') f, jsonb_path_query($2, '$.asks[*].gpus[*]') j
		WHERE coalesce(f->>'milli', '1000') = coalesce(j->>'milli', '1000')
			AND (starts_with(lower(f->>'gpu') || '-', lower(j->>'gpu') || '-') OR starts_with(lower(j->>'gpu') || '-', lower(f->>'gpu') || '-')))
$$;
