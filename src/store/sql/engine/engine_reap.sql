-- Ends instances until the provider confirms, and instances without a row.

-- Returns nodes to end. If a provider's machines leave resources behind, only a terminate confirms
-- the end. For a launch sent more than once, launched_us is the time of the answer, since the
-- machine may be that young. A time in the future stems from a clock step (engine_clock_settle).
-- providers lists those that can be asked; a confirmed end needs none.
-- name: engine_reap_due
-- params: claimed_by text, at_us int8, leaving text[], providers text[]
-- rows: many id int8, provider text, region text, zone text, ref text, spot_request text, tries int4,
--   confirmed bool, terminate_us int8, provider_state text, gone_seen int4, last_error text, launched_us int8
-- writes: no
SELECT id, provider, region, zone, ref, spot_request, tries, confirmed, terminate_us, provider_state, gone_seen,
	last_error, CASE WHEN launched_us > $2 THEN state_us ELSE launched_us END FROM (
	SELECT n.id, p.provider, p.region, p.zone, coalesce(n.ref, '') AS ref, n.spot_request, n.tries,
		n.ref IS NULL OR (n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user')
			AND (n.tries > 0 OR p.provider <> ALL ($3))) OR (n.gone_seen >= 2 AND n.tries > 0) AS confirmed,
		coalesce(n.terminate_us, n.state_us) AS terminate_us, n.provider_state, n.gone_seen, n.last_error,
		greatest(coalesce(n.launched_us, n.launch_sent_us, n.created_us), (SELECT max(e.at_us) FROM event e
			WHERE e.node_id = n.id AND e.now = 'BOOTING')) AS launched_us, n.state_us, n.next_act_us, n.claim_until_us, n.claimed_by
	FROM node n JOIN pool p ON p.id = n.pool_id WHERE n.state = 'TERMINATING') t
WHERE confirmed OR (provider = ANY ($4) AND next_act_us <= $2 AND (claim_until_us <= $2 OR claimed_by <> $1))
ORDER BY id LIMIT 200

-- name: engine_reap_result
-- params: id int8, claimed_by text, state text, next_us int8, error text, at_us int8, fence int8
-- rows: none
-- writes: yes
UPDATE node SET claim_until_us = 0, next_act_us = $4, last_error = $5,
	provider_state = CASE WHEN $3 <> '' THEN $3 ELSE provider_state END,
	provider_seen_us = CASE WHEN $3 <> '' THEN $6 ELSE provider_seen_us END,
	provider_since_us = CASE WHEN $3 IN ('', provider_state) THEN provider_since_us ELSE $6 END,
	provider_past = CASE WHEN $3 IN ('', provider_state) THEN provider_past ELSE provider_past(provider_past, $3, $6, 'asked to end it') END
WHERE id = $1 AND state = 'TERMINATING' AND claimed_by = $2
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE)

-- name: engine_sweep_places
-- rows: many provider text, region text
-- writes: no
-- lane: long
WITH RECURSIVE p AS (
	(SELECT provider, region FROM pool ORDER BY provider, region LIMIT 1)
	UNION ALL
	SELECT n.provider, n.region FROM p CROSS JOIN LATERAL (
		SELECT q.provider, q.region FROM pool q
		WHERE (q.provider, q.region) > (p.provider, p.region)
		ORDER BY q.provider, q.region LIMIT 1) n
)
SELECT provider, region FROM p

-- Judges listed resources with our tag that belong to no live row, and keeps the time since when. A
-- row without a ref keeps the instance with its token. A leftover (a disk, an order) belongs to a
-- node by its ref, token or name, or by the random part of both. Every name we give has that part,
-- 16 letters. One without an owner's name (an order for machines) may belong to any launch under
-- way: busy.
--
-- over_us: a row that ended after this proves nothing about the list, which may be older than the
-- end. A row that has not ended owns everything with its token. A leak that has an owner again is
-- forgotten.
--
-- A leak not listed for lag_us (a stopped one, as for a reboot, is listed) is gone if it was told
-- to end. So is one that a person decided about; the decision still holds if it is listed again.
-- Others are forgotten.
--
-- A machine without any row is kept if no engine of this database led at its creation. A restored
-- backup knows nothing of later launches. slack_us covers clock skew. The current leader counts as
-- leading until now, whenever its lease was renewed. With dry set, only machines that a person
-- decided about are ended, and the reason says so.
--
-- A list may have any size. Set tests therefore use IN under an OR or IS TRUE, in a result, or NOT
-- IN. PostgreSQL then hashes the set whatever size the plan expects (ten for a parameter).
-- name: engine_sweep_judge
-- params: provider text, region text, listed[], at_us int8, lag_us int8, fence int8,
--   present text[], over_us int8, slack_us int8, dry bool
-- rows_in: listed (ref text, token text, request text, leftover bool, zone text, where_region text,
--   instance_type text, market text, created_us int8)
-- rows: many ref text, kind text, first_us int8, why text, busy bool, kept bool, word text
-- writes: yes
-- lane: long
WITH ok AS (SELECT FROM leader WHERE name = 'engine' AND epoch = $14 FOR KEY SHARE),
x AS (
	SELECT x.* FROM ok, sweep_strangers($1, $2, $12, $14, $16, $17, $3, $4, $5, $6, $7, $8, $9, $10, $11) x
), put AS (
	INSERT INTO orphan AS o (provider, region, ref, kind, first_us, last_us, why, zone, where_region, instance_type, market, created_us, kept, node_id)
	SELECT $1, $2, x.ref, x.kind, $12, $12, x.why || CASE WHEN $18 AND NOT x.kept
		THEN '; the sweeper''s dry run ([engine] orphan_end = false): it runs until spotctl leaks end REF' ELSE '' END, x.zone, x.where_region, x.instance_type, x.market, nullif(x.created_us, 0), x.kept, x.node_id
	FROM x
	ON CONFLICT (provider, region, ref) DO UPDATE SET last_us = excluded.last_us, why = excluded.why,
		kind = excluded.kind, gone_us = NULL, kept = excluded.kept, zone = excluded.zone, where_region = excluded.where_region,
		instance_type = excluded.instance_type, market = excluded.market, created_us = excluded.created_us, node_id = excluded.node_id,
		word = CASE WHEN o.gone_us IS NULL OR o.terminate_us IS NULL OR o.word = 'keep' THEN o.word ELSE '' END,
		first_us = CASE WHEN (o.gone_us IS NULL OR o.terminate_us IS NULL) AND NOT (o.terminate_us IS NULL AND o.kind = 'leftover' AND excluded.kind = 'instance')
			THEN o.first_us ELSE excluded.first_us END,
		terminate_us = CASE WHEN o.gone_us IS NULL THEN o.terminate_us END
	RETURNING ref, kind, first_us, why, kept, word
), listed AS (
	UPDATE node n SET listed_us = $12 FROM ok, unnest($3, $6) s (ref, leftover), pool p
	WHERE n.ref = s.ref AND n.listed_us IS NULL AND NOT s.leftover AND n.state IN ('BOOTING', 'READY', 'DRAINING')
		AND p.id = n.pool_id AND p.provider = $1
), f AS MATERIALIZED (
	SELECT o.ref, CASE WHEN o.ref = ANY ($3) OR (o.terminate_us IS NULL AND EXISTS (SELECT FROM node n JOIN pool p ON p.id = n.pool_id
			WHERE p.provider = $1 AND n.ref = o.ref AND n.state NOT IN ('GONE', 'FAILED'))) THEN 'owned'
		WHEN o.ref IN (SELECT unnest($15)) THEN 'there' WHEN o.last_us + $13 <= $12 THEN 'gone' ELSE 'unknown' END AS fate
	FROM ok, orphan o WHERE o.provider = $1 AND o.region = $2 AND o.gone_us IS NULL AND o.ref NOT IN (SELECT ref FROM x)
), forgotten AS (
	DELETE FROM orphan o WHERE o.provider = $1 AND o.region = $2 AND o.gone_us IS NULL AND (o.ref IN (SELECT ref FROM f WHERE fate = 'owned')
		OR (o.terminate_us IS NULL AND o.word = '' AND o.ref IN (SELECT ref FROM f WHERE fate = 'gone')))
), there AS (
	UPDATE orphan o SET last_us = $12 WHERE o.provider = $1 AND o.region = $2 AND o.gone_us IS NULL AND o.terminate_us IS NULL
		AND (o.ref IN (SELECT ref FROM f WHERE fate = 'there')) IS TRUE
), gone AS (
	UPDATE orphan o SET gone_us = $12 WHERE o.provider = $1 AND o.region = $2 AND o.gone_us IS NULL AND (o.terminate_us IS NOT NULL OR o.word <> '')
		AND (o.ref IN (SELECT ref FROM f WHERE fate = 'gone')) IS TRUE
	RETURNING o.ref, o.kind, o.terminate_us, o.word_by
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, event, why, actor)
	SELECT $12, 'instance', $1 || '/' || ref, CASE WHEN kept THEN 'ORPHAN_KEPT' ELSE 'ORPHAN' END, why, 'engine' FROM put WHERE kind = 'instance' AND first_us = $12
	UNION ALL
	SELECT $12, kind, $1 || '/' || ref, CASE kind WHEN 'leftover' THEN 'LEFTOVER_GONE' ELSE 'ORPHAN_GONE' END,
		'not listed any more' || CASE WHEN terminate_us IS NULL THEN '; what ' || word_by || ' said holds if it is listed again'
			ELSE ', ' || ($12 - terminate_us) / 1000000 || ' s after we asked to end it' END, 'engine' FROM gone
)
SELECT put.ref, put.kind, put.first_us, put.why, put.ref IN (SELECT ref FROM x WHERE busy) AS busy, put.kept, put.word FROM put ORDER BY put.ref

-- Returns machines and leftovers with our tag that belong to no node, with their cost per hour and
-- so far. One whose end a person requested counts as ending, even before the sweep asks its
-- provider.
-- name: api_leaks
-- params: provider text?, state text?, gone bool, ref text?, at_us int8, most int4
-- rows: 1 doc text
-- writes: no
-- lane: long
WITH l AS (
	SELECT *, (price_micros::numeric * greatest(coalesce(gone_us, $5) - least(created_us, first_us), 0) / 3600000000)::int8 AS cost
	FROM leak, LATERAL (SELECT CASE WHEN state = 'found' AND word = 'end' THEN 'ending' ELSE state END AS shown) t
	WHERE ($1 IS NULL OR provider = $1) AND ($2 IS NULL OR shown = $2) AND ($3 OR gone_us IS NULL) AND ($4 IS NULL OR ref = $4)
)
SELECT json_build_object('items', coalesce((SELECT json_agg(json_build_object('provider', provider, 'region', region, 'zone', zone, 'instance_type', instance_type,
		'market', market, 'kind', kind, 'ref', ref, 'state', shown, 'launched@', created_us, 'first_seen@', first_us,
		'end_asked@', terminate_us, 'gone@', gone_us, 'per_hour$', price_micros, 'cost$', cost,
		'why', why || CASE WHEN word = 'keep' THEN '; ' || word_by || ' said to keep it'
			WHEN word = 'end' THEN '; its end was asked for by ' || word_by || CASE WHEN state = 'found' THEN ', the next sweep ends it' ELSE '' END
			ELSE '' END,
		'said', word, 'said_by', word_by, 'said@', word_us) ORDER BY cost DESC, provider, ref)
	FROM (SELECT * FROM l ORDER BY cost DESC, provider, ref LIMIT $6) x), '[]'), 'next', NULL,
	'total$', (SELECT coalesce(sum(cost), 0) FROM l)::int8,
	'per_hour$', (SELECT coalesce(sum(price_micros) FILTER (WHERE gone_us IS NULL), 0) FROM l)::int8)::text

-- Stores a person's decision about a leak. It counts from the next sweep.
-- name: api_leak_word
-- params: provider text?, ref text, word text, actor text, at_us int8
-- rows: 1 found int8, told int8
-- writes: yes
WITH f AS (
	SELECT provider, region, ref FROM orphan WHERE ($1 IS NULL OR provider = $1) AND ref = $2 AND gone_us IS NULL FOR NO KEY UPDATE
), u AS (
	UPDATE orphan o SET word = $3, word_by = $4, word_us = $5 FROM f
	WHERE o.provider = f.provider AND o.region = f.region AND o.ref = f.ref AND (SELECT count(DISTINCT provider) FROM f) = 1
	RETURNING o.provider, o.ref
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, event, why, actor)
	SELECT DISTINCT $5, 'instance', provider || '/' || ref, CASE $3 WHEN 'end' THEN 'LEAK_END' ELSE 'LEAK_KEEP' END, $4 || ' said so', $4 FROM u
)
SELECT (SELECT count(DISTINCT provider) FROM f), (SELECT count(*) FROM u)

-- Marks leaks as ending, before the engine asks the provider.
-- name: engine_sweep_ending
-- params: provider text, region text, refs text[], at_us int8, fence int8
-- rows: many ref text
-- writes: yes
WITH o AS (
	SELECT o.ref, o.kind, o.why, o.first_us, o.terminate_us, o.word, o.word_by FROM orphan o
	WHERE o.provider = $1 AND o.region = $2 AND o.ref = ANY ($3) AND o.gone_us IS NULL AND o.word <> 'keep'
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE)
	FOR NO KEY UPDATE
), u AS (
	UPDATE orphan SET terminate_us = $4 FROM o
	WHERE orphan.provider = $1 AND orphan.region = $2 AND orphan.ref = o.ref AND o.terminate_us IS NULL
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, event, why, actor)
	SELECT $4, kind, $1 || '/' || ref, CASE kind WHEN 'leftover' THEN 'LEFTOVER' ELSE 'ORPHAN_ENDED' END,
		why || '; without an owner for ' || ($4 - first_us) / 1000000 || ' s: it is ended' || CASE WHEN word = 'end' THEN ', as ' || word_by || ' said' ELSE '' END,
		'engine'
	FROM o WHERE terminate_us IS NULL
)
SELECT ref FROM o
