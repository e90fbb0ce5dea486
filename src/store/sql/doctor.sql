-- Examinations (spotctl doctor). The API asks, the engine examines, and they communicate by rows.

-- name: api_doctor_ask
-- params: actor text, providers text, at_us int8, token_id int8, idem_key text
-- rows: 1 id int8, woken bool
-- writes: yes
WITH k AS MATERIALIZED (
	SELECT status FROM idempotency WHERE token_id = $4 AND key = $5 FOR NO KEY UPDATE
), d AS (
	INSERT INTO doctor_run (actor, providers, state, created_us) SELECT $1, $2, 'pending', $3
	WHERE $5 = '' OR EXISTS (SELECT FROM k WHERE status IS NULL) RETURNING id
), i AS (
	UPDATE idempotency SET status = 202, response = 'ref:r' || d.id FROM d WHERE token_id = $4 AND key = $5
)
SELECT id, pg_notify('spot_engine', '') IS NOT NULL AS woken FROM d
UNION ALL SELECT 0, false WHERE $5 <> '' AND NOT EXISTS (SELECT FROM k WHERE status IS NULL)

-- name: api_doctor
-- params: id int8
-- rows: 0..1 state text, doc text
-- writes: no
-- lane: long
SELECT r.state, json_build_object('id', 'r' || r.id, 'state', r.state, 'by', r.actor, 'providers', r.providers,
	'created@', r.created_us, 'done@', r.done_us,
	'bad', (SELECT count(*) FROM doctor_item i WHERE i.run_id = r.id AND i.state = 'bad'),
	'warn', (SELECT count(*) FROM doctor_item i WHERE i.run_id = r.id AND i.state = 'warn'),
	'items', coalesce((SELECT json_agg(json_build_object('provider', i.provider, 'region', i.region, 'name', i.name,
		'state', i.state, 'words', i.words, 'fix', i.fix, 'amount', i.amount)
		ORDER BY i.provider <> 'spotd', i.provider, i.region, i.part, i.seq)
		FROM doctor_item i WHERE i.run_id = r.id), '[]'::json))::text
FROM doctor_run r WHERE r.id = $1

-- A run of a dead daemon, or one whose claim has expired, starts again. until_us is the end of a
-- claim made now. A claim that ends later stems from a clock step.
-- name: engine_doctor_due
-- params: claimed_by text, at_us int8, until_us int8
-- rows: 0..1 id int8, providers text
-- writes: no
SELECT id, providers FROM doctor_run
WHERE state <> 'done' AND (state = 'pending' OR claimed_by <> $1 OR claim_until_us NOT BETWEEN $2 AND $3) ORDER BY id LIMIT 1

-- name: engine_doctor_claim
-- params: id int8, claimed_by text, at_us int8, until_us int8, fence int8
-- rows: 0..1 id int8
-- writes: yes
WITH r AS (
	UPDATE doctor_run SET state = 'running', claimed_by = $2, claim_until_us = $4
	WHERE id = $1 AND state <> 'done' AND (state = 'pending' OR claimed_by <> $2 OR claim_until_us NOT BETWEEN $3 AND $4)
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE)
	RETURNING id
), gone AS (
	DELETE FROM doctor_item i USING r WHERE i.run_id = r.id
)
SELECT id FROM r

-- Returns the places to examine: first those with nodes, then those that sell most.
-- name: engine_doctor_places
-- rows: many provider text, region text, nodes int8
-- writes: no
-- lane: long
SELECT p.provider, p.region, count(n.id) FROM pool p
LEFT JOIN node n ON n.pool_id = p.id AND n.state NOT IN ('GONE', 'FAILED')
WHERE p.offered GROUP BY 1, 2 ORDER BY 1, 3 DESC, count(*) DESC, 2

-- Returns one pool per place and limit, whose quota is examined: a used one, else the cheapest.
-- name: engine_doctor_pools
-- rows: many provider text, region text, zone text, zone_name text, instance_type text,
--   market market, gpu_name text, gpu_milli int4, gpu_mem_mib int4, vcpus int4, mem_mib int4,
--   arch text, quota_class text
-- writes: no
-- lane: long
SELECT provider, region, zone, zone_name, instance_type, market, gpu_name, gpu_milli, gpu_mem_mib, vcpus, mem_mib, arch,
	quota_class
FROM (SELECT DISTINCT ON (p.provider, p.region, p.market, p.quota_class) p.*, l.price_micros
	FROM pool p LEFT JOIN pool_latest l ON l.pool_id = p.id
	WHERE p.offered
	ORDER BY p.provider, p.region, p.market, p.quota_class,
		EXISTS (SELECT FROM node n WHERE n.pool_id = p.id AND n.state NOT IN ('GONE', 'FAILED')) DESC,
		l.price_micros NULLS LAST, p.id) x
ORDER BY provider, region, market DESC, price_micros NULLS LAST, quota_class

-- Returns the cost and the state of a provider's feeds.
-- name: engine_doctor_feeds
-- params: providers text[]
-- rows: many provider text, feeds int8, silent int8, failing int8, regions int8, per_day float8, error text?,
--   fresh int8, stale int8, frozen int8, implausible int8, oldest_us int8?
-- writes: no
-- lane: long
SELECT n, coalesce(f.feeds, 0), coalesce(f.silent, 0), coalesce(f.failing, 0), coalesce(f.regions, 0),
	coalesce(f.per_day, 0)::float8, f.error, coalesce(l.fresh, 0), coalesce(l.stale, 0), coalesce(l.frozen, 0),
	coalesce(l.implausible, 0), l.oldest_us
FROM unnest($1) AS n
LEFT JOIN (SELECT provider, count(*) AS feeds, count(*) FILTER (WHERE last_ok_us IS NULL) AS silent,
	count(*) FILTER (WHERE fails > 0) AS failing, count(DISTINCT region) FILTER (WHERE feed <> 'regions') AS regions,
	sum(requests_last * 86400e6 / nullif(interval_us, 0)) AS per_day, max(last_error) AS error
	FROM feed GROUP BY 1) f ON f.provider = n
LEFT JOIN (SELECT p.provider, count(*) FILTER (WHERE l.state = 'fresh') AS fresh,
	count(*) FILTER (WHERE l.state = 'stale') AS stale, count(*) FILTER (WHERE l.state = 'frozen') AS frozen,
	count(*) FILTER (WHERE l.state = 'implausible') AS implausible, min(l.observed_us) AS oldest_us
	FROM pool_price l JOIN pool p ON p.id = l.pool_id WHERE p.offered GROUP BY 1) l ON l.provider = n
ORDER BY n

-- Returns the machines given up since then, those of them that were alive or found late, with
-- examples, and those under suspicion now.
-- name: engine_doctor_verdicts
-- params: since_us int8
-- rows: 1 total int8, alive int8, alive_words text, missed int8, missed_words text, suspects int8
-- writes: no
-- lane: long
WITH v AS (
	SELECT id, 'n' || node_id || ' (' || kind || '): ' || false_why AS alive, 'n' || node_id || ' (' || kind || ', after '
		|| (at_us - since_us) / 1000000 || ' s)' AS late, false_us, missed
	FROM verdict WHERE at_us > $1 AND kind IN ('lost', 'reclaimed', 'silent', 'broken', 'boot_timeout')
)
SELECT count(*), count(false_us), coalesce((SELECT string_agg(alive, '; ') FROM (SELECT alive FROM v WHERE false_us IS NOT NULL
		ORDER BY id DESC LIMIT 3) x), ''),
	count(*) FILTER (WHERE missed), coalesce((SELECT string_agg(late, ', ') FROM (SELECT late FROM v WHERE missed ORDER BY id DESC LIMIT 3) x), ''),
	(SELECT count(*) FROM node WHERE state = 'READY' AND suspect_us IS NOT NULL)
FROM v

-- Measures how far the database's clock is from ours. No other statement asks the database for its
-- time.
-- name: engine_doctor_database
-- rows: 1 version text, now_us int8, recovery bool
-- writes: no
-- lane: long
SELECT current_setting('server_version'), (extract(epoch FROM clock_timestamp()) * 1000000)::int8, pg_is_in_recovery()

-- name: engine_doctor_items
-- params: run_id int8, claimed_by text, provider text, region text, part text, item[], fence int8
-- rows_in: item (name text, state text, words text, fix text, amount int8?)
-- rows: none
-- writes: yes
-- lane: long
INSERT INTO doctor_item (run_id, provider, region, part, seq, name, state, words, fix, amount)
SELECT r.id, $3, $4, $5, t.seq, t.name, t.state, t.words, t.fix, t.amount
FROM doctor_run r, unnest($6, $7, $8, $9, $10) WITH ORDINALITY AS t (name, state, words, fix, amount, seq)
WHERE r.id = $1 AND r.state = 'running' AND r.claimed_by = $2
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $11 FOR KEY SHARE)
ON CONFLICT DO NOTHING

-- name: engine_doctor_done
-- params: id int8, claimed_by text, at_us int8, fence int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH d AS (
	UPDATE doctor_run SET state = 'done', done_us = $3 WHERE id = $1 AND state = 'running' AND claimed_by = $2
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE) RETURNING id
), old AS (
	DELETE FROM doctor_run WHERE state = 'done' AND id <= $1 - 100 AND EXISTS (SELECT FROM d)
)
SELECT id, pg_notify('spot_api', 'r' || id) IS NOT NULL AS told FROM d
