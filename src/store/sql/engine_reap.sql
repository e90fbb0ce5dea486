-- Ending instances until the provider confirms, and instances nobody knows.

-- name: engine_reap_due
-- params: claimed_by text, at_us int8
-- rows: many id int8, provider text, region text, zone text, ref text, spot_request text, tries int4,
--   confirmed bool, terminate_us int8, provider_state text, gone_seen int4, last_error text
-- writes: no
SELECT id, provider, region, zone, ref, spot_request, tries, confirmed, terminate_us, provider_state, gone_seen,
	last_error FROM (
	SELECT n.id, p.provider, p.region, p.zone, coalesce(n.ref, '') AS ref, n.spot_request, n.tries,
		n.ref IS NULL OR n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user') OR (n.gone_seen >= 2 AND n.tries > 0)
			AS confirmed,
		coalesce(n.terminate_us, n.state_us) AS terminate_us, n.provider_state, n.gone_seen, n.last_error,
		n.next_act_us, n.claim_until_us, n.claimed_by
	FROM node n JOIN pool p ON p.id = n.pool_id WHERE n.state = 'TERMINATING') t
WHERE confirmed OR (next_act_us <= $2 AND (claim_until_us <= $2 OR claimed_by <> $1))
ORDER BY id LIMIT 200

-- name: engine_reap_result
-- params: id int8, claimed_by text, state text, next_us int8, error text, at_us int8
-- rows: none
-- writes: yes
UPDATE node SET claim_until_us = 0, next_act_us = $4, last_error = $5,
	provider_state = CASE WHEN $3 <> '' THEN $3 ELSE provider_state END,
	provider_seen_us = CASE WHEN $3 <> '' THEN $6 ELSE provider_seen_us END
WHERE id = $1 AND state = 'TERMINATING' AND claimed_by = $2

-- name: engine_sweep_places
-- rows: many provider text, region text
-- writes: no
SELECT DISTINCT provider, region FROM pool

-- Of the listed instances with our tag, those that no live row accounts for, with the time of the
-- first alarm about them. Rows still without a ref keep the instance that carries their token.
-- name: engine_sweep_orphans
-- params: provider text, refs text[], tokens text[], created int8[]
-- rows: many ref text, created_us int8, alarm_us int8?, why text
-- writes: no
SELECT s.ref, s.created,
	(SELECT min(e.at_us) FROM event e WHERE e.entity = 'instance' AND e.event = 'ORPHAN'
		AND e.entity_id = $1 || '/' || s.ref) AS alarm_us,
	CASE WHEN n.id IS NULL THEN 'no row knows it'
		WHEN n.ref IS DISTINCT FROM s.ref THEN 'second instance of n' || n.id
		ELSE 'n' || n.id || ' is ' || n.state END
FROM unnest($2, $3, $4) s (ref, token, created)
LEFT JOIN LATERAL (
	SELECT n.id, n.ref, n.state FROM (
		SELECT id, pool_id, ref, state FROM node WHERE ref = s.ref
		UNION ALL SELECT id, pool_id, ref, state FROM node WHERE token = s.token AND s.token <> '') n
	JOIN pool p ON p.id = n.pool_id AND p.provider = $1
	ORDER BY (n.ref IS NOT DISTINCT FROM s.ref) DESC, n.id LIMIT 1) n ON true
WHERE n.id IS NULL OR n.state IN ('GONE', 'FAILED') OR (n.ref IS NOT NULL AND n.ref <> s.ref)

-- name: engine_sweep_alarm
-- params: provider text, refs text[], whys text[], at_us int8
-- rows: none
-- writes: yes
INSERT INTO event (at_us, entity, entity_id, event, why, actor)
SELECT $4, 'instance', $1 || '/' || s.ref, 'ORPHAN', s.why, 'engine' FROM unnest($2, $3) s (ref, why)
WHERE NOT EXISTS (SELECT FROM event e WHERE e.entity = 'instance' AND e.event = 'ORPHAN'
	AND e.entity_id = $1 || '/' || s.ref)
