-- Looking up launches whose outcome is not known.

-- name: engine_lookup_due
-- params: claimed_by text, at_us int8
-- rows: many id int8, provider text, region text, zone text, token text, name text, launch_sent_us int8,
--   tries int4, wanted bool, last_error text
-- writes: no
SELECT n.id, p.provider, p.region, p.zone, n.token, n.name, coalesce(n.launch_sent_us, n.created_us), n.tries,
	coalesce((n.job_id IS NULL AND n.fleet_id IS NOT NULL)
		OR (j.state IN ('QUEUED', 'DRAINING') AND j.cancel_us IS NULL
			AND (n.gang_id IS NULL OR EXISTS (SELECT FROM gang g WHERE g.id = n.gang_id AND g.state <> 'RELEASED')))
		OR (j.state = 'RUNNING' AND n.replaces_id IS NOT NULL), false),
	n.last_error
FROM node n JOIN pool p ON p.id = n.pool_id LEFT JOIN job j ON j.id = n.job_id
WHERE n.state = 'UNKNOWN' AND n.next_act_us <= $2 AND (n.claim_until_us <= $2 OR n.claimed_by <> $1) AND NOT n.gang_call
ORDER BY n.next_act_us, n.id LIMIT 50

-- A lease on an act at the provider that is harmless to repeat (find, terminate).
-- name: engine_act_claim
-- params: id int8, state text, claimed_by text, at_us int8, until_us int8, fence int8
-- rows: 0..1 tries int4
-- writes: yes
UPDATE node SET claimed_by = $3, claim_until_us = $5, tries = tries + 1
WHERE id = $1 AND state = $2 AND (claim_until_us <= $4 OR claimed_by <> $3)
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $6 FOR SHARE)
RETURNING tries

-- name: engine_act_done
-- params: id int8, state text, claimed_by text, next_us int8, error text
-- rows: none
-- writes: yes
UPDATE node SET claim_until_us = 0, next_act_us = $4, last_error = $5
WHERE id = $1 AND state = $2 AND claimed_by = $3
