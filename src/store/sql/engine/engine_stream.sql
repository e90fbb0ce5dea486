-- Events that providers push.

-- name: engine_stream_places
-- rows: many provider text, region text
-- writes: no
SELECT DISTINCT p.provider, p.region FROM node n JOIN pool p ON p.id = n.pool_id
WHERE n.state NOT IN ('GONE', 'FAILED', 'WANTED')

-- name: engine_stream_cursor
-- params: provider text, region text
-- rows: 0..1 cursor text
-- writes: no
SELECT cursor FROM watch_cursor WHERE provider = $1 AND region = $2

-- Stores events and the new cursor together. Writes nothing if another daemon has moved the cursor
-- meanwhile.
-- name: engine_stream_put
-- params: provider text, region text, was text, cursor text, notice[], seen[], at_us int8,
--   fence int8
-- rows_in: notice (ref text, kind text, deadline_us int8, source text, raw text)
-- rows_in: seen (ref text, state text, ip text, reason text)
-- rows: 0..1 region text
-- writes: yes
WITH ok AS (
	INSERT INTO watch_cursor AS w (provider, region, cursor, at_us)
	SELECT $1, $2, $4, $14 WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $15 FOR KEY SHARE)
	ON CONFLICT (provider, region) DO UPDATE SET cursor = excluded.cursor, at_us = excluded.at_us WHERE w.cursor = $3
	RETURNING w.region
), live AS (
	SELECT n.id, n.ref FROM ok, node n JOIN pool p ON p.id = n.pool_id
	WHERE p.provider = $1 AND ($2 = '' OR p.region = $2) AND n.ref = ANY ($5 || $10)
		AND n.state IN ('BOOTING', 'READY', 'DRAINING', 'TERMINATING')
), o AS (
	INSERT INTO notice AS o (node_id, kind, deadline_us, source, raw, heard_us)
	SELECT DISTINCT ON (live.id, s.kind) live.id, s.kind, s.deadline, s.source, s.raw, $14
	FROM unnest($5, $6, $7, $8, $9) s (ref, kind, deadline, source, raw) JOIN live ON live.ref = s.ref
	ORDER BY live.id, s.kind, nullif(s.deadline, 0)
	ON CONFLICT (node_id, kind) DO UPDATE SET
		deadline_us = least(nullif(o.deadline_us, 0), excluded.deadline_us),
		source = CASE WHEN notice_sooner(o, excluded.deadline_us) THEN excluded.source
			ELSE o.source END,
		handled_us = CASE WHEN NOT notice_sooner(o, excluded.deadline_us) THEN o.handled_us END
		WHERE excluded.deadline_us > 0 AND (o.deadline_us = 0 OR excluded.deadline_us < o.deadline_us)
), n AS (
	UPDATE node n SET provider_state = s.state, provider_seen_us = $14, gone_seen = 0,
		provider_since_us = CASE WHEN n.provider_state = s.state THEN n.provider_since_us ELSE $14 END,
		provider_past = CASE WHEN n.provider_state = s.state THEN n.provider_past ELSE provider_past(n.provider_past, s.state, $14, 'told') END,
		ip = CASE WHEN s.ip <> '' THEN s.ip ELSE n.ip END,
		last_error = CASE WHEN s.reason <> '' THEN s.reason ELSE n.last_error END
	FROM (SELECT DISTINCT ON (u.ref) live.id, u.state, u.ip, u.reason
		FROM unnest($10, $11, $12, $13) WITH ORDINALITY u (ref, state, ip, reason, n) JOIN live ON live.ref = u.ref
		ORDER BY u.ref, u.n DESC) s
	WHERE n.id = s.id
)
SELECT region FROM ok
