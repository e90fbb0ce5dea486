-- Gangs that lose one rank and keep their other machines while one more is sought in their place. Fast: columns without a table rewrite, and an index over
-- the live machines of gangs. The previous daemon leaves the columns alone, and gives such a gang back.

ALTER TABLE gang ADD COLUMN wait_us int8,              -- its machines wait for another of wait_rank since; NULL = no wait
	ADD COLUMN wait_until_us int8,                 -- they go back then
	ADD COLUMN wait_rank int4,
	ADD COLUMN wait_why text NOT NULL DEFAULT '',
	ADD COLUMN wait_over boolean NOT NULL DEFAULT false, -- they do not wait, or no longer: the gang goes back
	ADD COLUMN waits_won int4 NOT NULL DEFAULT 0,  -- waits after which its job went on
	ADD COLUMN waits_lost int4 NOT NULL DEFAULT 0; -- waits that were given up

-- A machine that leaves holds its rank no more: its successor is launched while it still saves.
DROP INDEX node_gang;
CREATE UNIQUE INDEX node_gang ON node (gang_id, gang_rank)
	WHERE gang_id IS NOT NULL AND state NOT IN ('GONE', 'FAILED', 'TERMINATING', 'DRAINING');

-- The job wants its machines to wait.
CREATE FUNCTION job_elastic(j job) RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT j.num_nodes > 1 AND coalesce(j.spec->>'elastic', '') = 'replace' $$;

-- The job's serving gang goes back when one of its machines leaves. An elastic one does once it has no wait, or no longer.
CREATE FUNCTION gang_goes_back(g gang, j job) RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT g.job_id = j.id AND g.state = 'SERVING' AND (g.wait_over OR NOT job_elastic(j)) $$;

-- A gang that waits now, and the words of its wait.
CREATE FUNCTION gang_waits(g gang) RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT g.state = 'SERVING' AND g.wait_us IS NOT NULL AND NOT g.wait_over $$;
CREATE FUNCTION job_wait_why(job_id int8) RETURNS text LANGUAGE sql STABLE AS $$
SELECT g.wait_why FROM gang g WHERE g.job_id = $1 AND gang_waits(g) $$;
