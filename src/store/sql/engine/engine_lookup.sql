-- Looks up launches with an unknown outcome. engine_launch.sql defines a launch.

-- Returns launches to look up. None of their rows may still be LAUNCHING. Nobody wants a set any more
-- if one of its nodes is given up: a repeat must ask for as many machines. A daemon that knows no
-- sets may settle the first row of a set alone. The others are then looked up one by one, under
-- their own tokens, and leave the set (engine_lookup_claim). A token lives from its
-- first call. The machine may be as young as the end of the last call: a request may be queued
-- while its caller waits. A time in the future stems from a clock step, and lies before the outcome
-- became unknown (engine_clock_settle). Launches of a provider that cannot be asked now wait.
-- name: engine_lookup_due
-- params: claimed_by text, at_us int8, providers text[]
-- rows: many id int8, want int4, provider text, region text, zone text, token text, name text,
--   launch_sent_us int8, launch_last_us int8, wanted bool, last_error text
-- writes: no
SELECT n.id, CASE WHEN n.gang_call THEN g.want WHEN n.set_id = n.id THEN n.set_want ELSE 1 END,
	p.provider, p.region, p.zone, n.token, n.name,
	coalesce(n.launch_sent_us, n.created_us),
	CASE WHEN l.us > $2 THEN n.state_us ELSE l.us END,
	coalesce(g.state = 'ACQUIRING', true) AND launch_wanted(n)
		AND (n.set_id IS DISTINCT FROM n.id OR (SELECT bool_and(launch_wanted(m)) FROM node m WHERE m.set_id = n.set_id)),
	n.last_error
FROM node n JOIN pool p ON p.id = n.pool_id LEFT JOIN gang g ON g.id = n.gang_id
CROSS JOIN LATERAL (SELECT greatest(n.launch_sent_us, n.created_us, n.state_us, (SELECT max(e.at_us) FROM event e WHERE e.node_id = n.id AND e.now = 'LAUNCHING')) AS us) l
WHERE n.state = 'UNKNOWN' AND p.provider = ANY ($3) AND n.next_act_us <= $2 AND (n.claim_until_us <= $2 OR n.claimed_by <> $1)
	AND (NOT n.gang_call OR (n.gang_rank = 0 AND NOT EXISTS (SELECT FROM node m WHERE m.gang_id = g.id AND m.state = 'LAUNCHING')))
	AND CASE WHEN n.set_id IS NULL THEN true
		WHEN n.set_id = n.id THEN NOT EXISTS (SELECT FROM node m
			WHERE m.set_id = n.id AND m.state IN ('LAUNCHING', 'WANTED'))
		ELSE NOT EXISTS (SELECT FROM node h
			WHERE h.id = n.set_id AND h.state IN ('LAUNCHING', 'WANTED', 'UNKNOWN')) END
ORDER BY n.next_act_us, n.id LIMIT 50

-- name: engine_lookup_claim
-- params: id int8, claimed_by text, at_us int8, until_us int8, fence int8
-- rows: many tries int4
-- writes: yes
UPDATE node SET claimed_by = $2, claim_until_us = $4, tries = tries + 1,
	set_id = CASE WHEN id = $1 AND set_id <> id THEN NULL ELSE set_id END,
	set_want = CASE WHEN id = $1 AND set_id <> id THEN NULL ELSE set_want END
WHERE id IN (SELECT r.id FROM node h, launch_rows(h.id, h.token) r WHERE h.id = $1)
	AND state = 'UNKNOWN' AND (claim_until_us <= $3 OR claimed_by <> $2)
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE)
RETURNING tries

-- name: engine_lookup_again
-- params: id int8, claimed_by text, next_us int8, error text, fence int8
-- rows: none
-- writes: yes
UPDATE node SET claim_until_us = 0, next_act_us = $3, last_error = $4
WHERE id IN (SELECT r.id FROM node h, launch_rows(h.id, h.token) r WHERE h.id = $1)
	AND state = 'UNKNOWN' AND claimed_by = $2
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE)

-- Leases an act at the provider that is safe to repeat (find, terminate).
-- name: engine_act_claim
-- params: id int8, state node_state, claimed_by text, at_us int8, until_us int8, fence int8
-- rows: 0..1 tries int4
-- writes: yes
UPDATE node SET claimed_by = $3, claim_until_us = $5, tries = tries + 1
WHERE id = $1 AND state = $2 AND (claim_until_us <= $4 OR claimed_by <> $3)
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $6 FOR KEY SHARE)
RETURNING tries
