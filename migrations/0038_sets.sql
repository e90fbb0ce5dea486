-- Launches in sets: several equal nodes that one call launches, under the token of the first.

ALTER TABLE node ADD COLUMN set_id int8,     -- the first node of the set, whose token and name all machines carry
	ADD COLUMN set_want int4;                -- how many machines the call asked for
CREATE INDEX node_set ON node (set_id) WHERE set_id IS NOT NULL;

-- The rows of a launch: a node, all nodes of a gang that come by one call, or all nodes of a set.
-- Its id and token are those of its first row. The token identifies the launch, since a lagging
-- standby that became primary may reuse an id. Rows that left a set, or were never sent with it, are
-- not among them.
CREATE FUNCTION launch_rows(head_id int8, head_token text) RETURNS TABLE (id int8) LANGUAGE sql STABLE AS $$
	SELECT h.id FROM node h WHERE h.id = $1 AND h.token = $2
	UNION SELECT m.id FROM node h JOIN node m ON m.gang_id = h.gang_id WHERE h.id = $1 AND h.token = $2 AND h.gang_call
	UNION SELECT m.id FROM node h JOIN node m ON m.set_id = h.id WHERE h.id = $1 AND h.token = $2 AND h.set_id = h.id
$$;

-- True while somebody wants the node whose launch has an unknown outcome.
CREATE FUNCTION launch_wanted(n node) RETURNS bool LANGUAGE sql STABLE AS $$
	SELECT $1.end_cause <> 'unwanted' AND coalesce(($1.job_id IS NULL AND $1.fleet_id IS NOT NULL)
		OR (SELECT j.cancel_us IS NULL AND (j.state IN ('QUEUED', 'DRAINING') OR (j.state = 'RUNNING' AND $1.replaces_id IS NOT NULL))
			FROM job j WHERE j.id = $1.job_id), false)
$$;

-- The token that the machine of a node carries at its provider.
CREATE FUNCTION launch_token(n node) RETURNS text LANGUAGE sql STABLE AS $$
	SELECT CASE WHEN $1.gang_call THEN (SELECT g.token FROM gang g WHERE g.id = $1.gang_id)
		WHEN $1.set_id <> $1.id THEN (SELECT h.token FROM node h WHERE h.id = $1.set_id)
		ELSE $1.token END
$$;
