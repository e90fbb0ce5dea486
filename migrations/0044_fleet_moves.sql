-- Nodes of fleets that move: a new node replaces one of the same fleet. It is launched before the other leaves. The previous daemon
-- counts both as nodes of the fleet and may give an idle one back. Fast.

-- One replacement of a node at a time. An index like node_replacement, which holds for jobs.
CREATE UNIQUE INDEX node_fleet_replacement ON node (replaces_id)
	WHERE replaces_id IS NOT NULL AND fleet_id IS NOT NULL AND state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY');

-- The reason for which each node is where it is, and its next move.
ALTER TABLE fleet ADD COLUMN moves jsonb,
	ADD COLUMN moves_us int8 NOT NULL DEFAULT 0;

-- True while the node that this one replaces counts as a node of their fleet. The two are one node of the fleet until then.
CREATE FUNCTION node_stands_in(n node) RETURNS bool LANGUAGE sql STABLE AS $$
	SELECT $1.fleet_id IS NOT NULL AND $1.replaces_id IS NOT NULL AND EXISTS (SELECT FROM node o WHERE o.id = $1.replaces_id
		AND o.fleet_id = $1.fleet_id AND o.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY'))
$$;

-- The job that a replacement in a fleet is kept for: the one on the node that it replaces. It stays kept for a quarter of an hour after
-- the job left.
CREATE FUNCTION node_kept_for(n node, at_us int8) RETURNS int8 LANGUAGE sql STABLE AS $$
	SELECT j.id FROM attempt a JOIN job j ON j.id = a.job_id AND j.epoch = a.epoch AND j.cancel_us IS NULL
	WHERE $1.fleet_id IS NOT NULL AND a.node_id = $1.replaces_id AND (a.ended_us IS NULL
		OR (j.state IN ('QUEUED', 'DRAINING') AND a.desired <> 'run' AND a.ended_us > $2 - 900000000))
	ORDER BY a.ended_us IS NULL DESC, a.ended_us DESC LIMIT 1
$$;
