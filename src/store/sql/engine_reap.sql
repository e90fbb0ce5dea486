-- Ending instances until the provider confirms, and instances nobody knows.

-- Of a provider whose machines leave something, an end is confirmed only after a terminate.
-- name: engine_reap_due
-- params: claimed_by text, at_us int8, leaving text[]
-- rows: many id int8, provider text, region text, zone text, ref text, spot_request text, tries int4,
--   confirmed bool, terminate_us int8, provider_state text, gone_seen int4, last_error text
-- writes: no
SELECT id, provider, region, zone, ref, spot_request, tries, confirmed, terminate_us, provider_state, gone_seen,
	last_error FROM (
	SELECT n.id, p.provider, p.region, p.zone, coalesce(n.ref, '') AS ref, n.spot_request, n.tries,
		n.ref IS NULL OR (n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user')
			AND (n.tries > 0 OR p.provider <> ALL ($3))) OR (n.gone_seen >= 2 AND n.tries > 0) AS confirmed,
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

-- Of what was listed with our tag, that which no live row accounts for, and since when. Rows still without a
-- ref keep the instance that carries their token; a leftover (a disk, an order) belongs to a node by its ref, token,
-- name or the random part of both, which is in every name we give. One that says nothing of its owner (an order for
-- machines) may be that of any launch under way: busy. over_us: a row that ended after this says nothing about what was listed, since
-- the list may be older than its end; a row that has not ended owns what carries its token. What has an owner again is forgotten, and what was told to end
-- and is not listed for lag_us any more is gone.
-- name: engine_sweep_judge
-- params: provider text, region text, refs text[], tokens text[], requests text[], leftovers bool[], at_us int8,
--   lag_us int8, fence int8, present text[], over_us int8
-- rows: many ref text, kind text, first_us int8, why text, busy bool
-- writes: yes
WITH ok AS (SELECT FROM leader WHERE name = 'engine' AND epoch = $9 FOR SHARE),
s AS (
	SELECT DISTINCT ON (u.ref) u.* FROM ok, unnest($3, $4, $5, $6) u (ref, token, request, leftover)
	ORDER BY u.ref, u.leftover
), x AS (
	SELECT s.ref, 'instance' AS kind, CASE WHEN n.id IS NULL THEN 'no row knows it'
		WHEN n.ref IS DISTINCT FROM s.ref THEN 'second instance of n' || n.id
		ELSE 'n' || n.id || ' is ' || n.state END AS why, false AS busy
	FROM s LEFT JOIN LATERAL (
		SELECT n.id, n.ref, n.state, n.ended_us FROM (
			SELECT id, pool_id, ref, state, ended_us FROM node WHERE ref = s.ref
			UNION ALL SELECT id, pool_id, ref, state, ended_us FROM node WHERE token = s.token AND s.token <> '') n
		JOIN pool p ON p.id = n.pool_id AND p.provider = $1
		ORDER BY (n.ref IS NOT DISTINCT FROM s.ref) DESC, n.id LIMIT 1) n ON true
	WHERE NOT s.leftover AND (n.id IS NULL OR (n.state IN ('GONE', 'FAILED') AND coalesce(n.ended_us, 0) <= $11)
		OR (n.ref IS NOT NULL AND n.ref <> s.ref))
	UNION ALL
	SELECT s.ref, 'leftover', coalesce((SELECT 'left behind by n' || n.id || ', which is ' || n.state
		FROM node n WHERE n.ref = s.ref OR (s.token <> '' AND s.token IN (n.token, n.name)) ORDER BY n.id DESC LIMIT 1),
		'no node knows it'),
		s.token = '' AND EXISTS (SELECT FROM node n JOIN pool p ON p.id = n.pool_id
			WHERE p.provider = $1 AND ($2 = '' OR p.region = $2) AND n.state IN ('LAUNCHING', 'UNKNOWN'))
	FROM s WHERE s.leftover AND NOT EXISTS (
		SELECT FROM node n JOIN pool p ON p.id = n.pool_id
		WHERE p.provider = $1 AND n.state NOT IN ('GONE', 'FAILED')
			AND (n.ref IN (s.ref, s.request) OR s.token IN (n.token, n.name)
				OR position(right(n.token, 16) IN s.ref) > 0 OR position(right(n.token, 16) IN s.token) > 0))
), put AS (
	INSERT INTO orphan AS o (provider, region, ref, kind, first_us, last_us, why)
	SELECT $1, $2, x.ref, x.kind, $7, $7, x.why FROM x
	ON CONFLICT (provider, region, ref) DO UPDATE SET last_us = excluded.last_us, why = excluded.why,
		kind = excluded.kind, gone_us = NULL,
		first_us = CASE WHEN o.gone_us IS NULL THEN o.first_us ELSE excluded.first_us END,
		terminate_us = CASE WHEN o.gone_us IS NULL THEN o.terminate_us END
	RETURNING ref, kind, first_us, why
), owned AS (
	DELETE FROM orphan o USING ok WHERE o.provider = $1 AND o.region = $2 AND o.gone_us IS NULL
		AND NOT EXISTS (SELECT FROM x WHERE x.ref = o.ref)
		AND (o.ref IN (SELECT ref FROM s) OR o.terminate_us IS NULL)
), gone AS (
	UPDATE orphan o SET gone_us = $7 FROM ok
	WHERE o.provider = $1 AND o.region = $2 AND o.gone_us IS NULL AND o.terminate_us IS NOT NULL
		AND o.last_us + $8 <= $7 AND o.ref <> ALL ($10)
	RETURNING o.ref, o.kind, o.terminate_us
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, event, why, actor)
	SELECT $7, 'instance', $1 || '/' || ref, 'ORPHAN', why, 'engine' FROM put WHERE kind = 'instance' AND first_us = $7
	UNION ALL
	SELECT $7, kind, $1 || '/' || ref, CASE kind WHEN 'leftover' THEN 'LEFTOVER_GONE' ELSE 'ORPHAN_GONE' END,
		'not listed any more, ' || ($7 - terminate_us) / 1000000 || ' s after we asked to end it', 'engine' FROM gone
)
SELECT put.ref, put.kind, put.first_us, put.why, x.busy FROM put JOIN x ON x.ref = put.ref ORDER BY put.ref

-- Before the provider is asked to end them.
-- name: engine_sweep_ending
-- params: provider text, region text, refs text[], at_us int8, fence int8
-- rows: many ref text
-- writes: yes
WITH o AS (
	SELECT o.ref, o.kind, o.why, o.first_us, o.terminate_us FROM orphan o
	WHERE o.provider = $1 AND o.region = $2 AND o.ref = ANY ($3) AND o.gone_us IS NULL
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR SHARE)
	FOR UPDATE
), u AS (
	UPDATE orphan SET terminate_us = $4 FROM o
	WHERE orphan.provider = $1 AND orphan.region = $2 AND orphan.ref = o.ref AND o.terminate_us IS NULL
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, event, why, actor)
	SELECT $4, kind, $1 || '/' || ref, CASE kind WHEN 'leftover' THEN 'LEFTOVER' ELSE 'ORPHAN_ENDED' END,
		why || '; without an owner for ' || ($4 - first_us) / 1000000 || ' s: it is ended', 'engine'
	FROM o WHERE terminate_us IS NULL
)
SELECT ref FROM o
