-- The market poller: feeds, pools, signals, quotas, and the ageing of prices.

-- A provider that is not configured any more sells nothing.
-- name: market_provider_put
-- params: name text, kind text, account text?, state text, ok_us int8?, error text?, error_us int8?, requests int8, throttled int8, now_us int8, fence int8,
--   sells_spot bool, configured text[]
-- rows: none
-- writes: yes
WITH ok AS (
	SELECT WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $11 FOR KEY SHARE)
), gone AS (
	UPDATE provider SET sells_spot = false FROM ok WHERE name <> ALL ($13) AND sells_spot IS NOT false
)
INSERT INTO provider AS p (name, kind, account, state, last_ok_us, last_error, last_error_us, requests, throttled,
	updated_us, sells_spot)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $12 FROM ok
ON CONFLICT (name) DO UPDATE SET kind = EXCLUDED.kind, account = coalesce(EXCLUDED.account, p.account),
	state = EXCLUDED.state, last_ok_us = coalesce(EXCLUDED.last_ok_us, p.last_ok_us),
	last_error = coalesce(EXCLUDED.last_error, p.last_error),
	last_error_us = coalesce(EXCLUDED.last_error_us, p.last_error_us),
	requests = EXCLUDED.requests, throttled = EXCLUDED.throttled, updated_us = EXCLUDED.updated_us,
	sells_spot = EXCLUDED.sells_spot;

-- name: market_feeds_add
-- params: feed[], now_us int8, fence int8
-- rows_in: feed (provider text, region text, feed text)
-- rows: none
-- writes: yes
INSERT INTO feed (provider, region, feed, next_us)
SELECT p, r, f, $4 FROM unnest($1, $2, $3) AS t (p, r, f)
WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE)
ON CONFLICT DO NOTHING;

-- name: market_feeds_due
-- params: providers text[], now_us int8, most int8
-- rows: many provider text, region text, feed text, since_us int8, fails int4, last_ok_us int8?
-- writes: no
-- Alternates between providers. Otherwise one with many regions and a low rate would delay all
-- others.
SELECT provider, region, feed, since_us, fails, last_ok_us FROM feed
WHERE provider = ANY ($1) AND next_us <= $2
ORDER BY (feed = 'regions') DESC, (feed = 'pools') DESC, feed = 'prices_past',
	row_number() OVER (PARTITION BY provider, feed IN ('regions', 'pools') ORDER BY next_us, region, feed),
	next_us, provider, region, feed LIMIT $3;

-- name: market_feeds_next
-- params: providers text[]
-- rows: 1 next_us int8?
-- writes: no
SELECT min(next_us) FROM feed WHERE provider = ANY ($1);

-- name: market_feed_done
-- params: provider text, region text, feed text, ok_us int8, next_us int8, since_us int8, rows_seen int8, requests int4, interval_us int8, tells_past bool, fence int8
-- rows: none
-- writes: yes
-- Records a silence of three intervals, unless the provider later reported its prices.
WITH gap AS (
	INSERT INTO feed_gap (provider, region, feed, from_us, to_us)
	SELECT provider, region, feed, last_ok_us, $4 FROM feed
	WHERE provider = $1 AND region = $2 AND feed = $3 AND NOT $10 AND $4 - last_ok_us > 3 * $9
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $11 FOR KEY SHARE)
	ON CONFLICT DO NOTHING
)
UPDATE feed SET last_ok_us = $4, next_us = $5, since_us = $6, rows_seen = $7, requests_last = $8, interval_us = $9, fails = 0, last_error = NULL
WHERE provider = $1 AND region = $2 AND feed = $3
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $11 FOR KEY SHARE);

-- name: market_feed_failed
-- params: provider text, region text, feed text, next_us int8, error text, requests int4, fence int8
-- rows: none
-- writes: yes
UPDATE feed SET next_us = $4, fails = fails + 1, last_error = $5, requests_last = $6
WHERE provider = $1 AND region = $2 AND feed = $3
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE);

-- name: market_feed_later
-- params: provider text, region text, feed text, next_us int8, fence int8
-- rows: none
-- writes: yes
UPDATE feed SET next_us = $4 WHERE provider = $1 AND region = $2 AND feed = $3
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE);

-- name: market_past_pools
-- params: provider text, region text, most int8
-- rows: many id int4, region text, zone text, zone_name text, instance_type text, market text, gpu_name text, gpu_milli int4, gpu_mem_mib int4, vcpus int4, mem_mib int4, arch text, quota_class text, last_micros int8, on_demand_micros int8
-- row: market_pools_of
-- writes: no
-- lane: long
-- Returns spot pools whose past was not fetched yet, for providers with a separate request for it.
-- It takes the first $3 types by name, since one request covers all zones of a type. Returns none
-- before the current prices have come.
WITH t AS (
	SELECT DISTINCT p.region, p.instance_type FROM pool p
	WHERE p.provider = $1 AND ($2 = '' OR p.region = $2) AND p.offered AND p.market = 'spot' AND p.past_us IS NULL
		AND EXISTS (SELECT FROM feed f WHERE f.provider = $1 AND f.region = $2 AND f.feed = 'prices_spot'
			AND f.last_ok_us IS NOT NULL)
	ORDER BY p.region, p.instance_type LIMIT $3
)
SELECT p.id, p.region, p.zone, p.zone_name, p.instance_type, p.market, p.gpu_name, p.gpu_milli, p.gpu_mem_mib, p.vcpus,
	p.mem_mib, p.arch, p.quota_class, coalesce(l.price_micros, 0), coalesce((SELECT max(d.price_micros)
		FROM pool o JOIN pool_latest d ON d.pool_id = o.id
		WHERE o.provider = $1 AND o.region = p.region AND o.instance_type = p.instance_type AND o.market = 'on_demand'), 0)
FROM t JOIN pool p ON p.provider = $1 AND p.region = t.region AND p.instance_type = t.instance_type
	LEFT JOIN pool_latest l ON l.pool_id = p.id
WHERE p.offered AND p.market = 'spot' AND p.past_us IS NULL
ORDER BY p.id;

-- name: market_past_done
-- params: provider text, region text, pools int4[], now_us int8, rows_seen int8, requests int4, fence int8
-- rows: none
-- writes: yes
-- Makes the feed due again at once for the next pools, if any are left. It has no interval, and its
-- rows add up over all pools.
WITH p AS (
	UPDATE pool SET past_us = $4 WHERE id = ANY ($3)
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE)
)
UPDATE feed SET last_ok_us = $4, next_us = $4, since_us = $4, rows_seen = rows_seen + $5, requests_last = $6, interval_us = 0,
	fails = 0, last_error = NULL
WHERE provider = $1 AND region = $2 AND feed = 'prices_past'
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE);

-- name: market_past_none
-- params: provider text, region text, now_us int8, soon_us int8, later_us int8, fence int8
-- rows: none
-- writes: yes
-- No pool is left. Tries again soon while the current prices have not come, else later for new
-- pools.
WITH c AS (
	SELECT EXISTS (SELECT FROM feed f WHERE f.provider = $1 AND f.region = $2 AND f.feed = 'prices_spot'
		AND f.last_ok_us IS NOT NULL) AS came
)
UPDATE feed SET next_us = CASE WHEN c.came THEN $5 ELSE $4 END, last_ok_us = CASE WHEN c.came THEN $3 ELSE last_ok_us END,
	interval_us = 0, fails = 0, last_error = NULL
FROM c WHERE provider = $1 AND region = $2 AND feed = 'prices_past'
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $6 FOR KEY SHARE);

-- name: market_pools_put
-- params: provider text, region text, pool[], now_us int8, fence int8
-- rows_in: pool (region text, zone text, zone_name text, type text, market market, gpu text,
--          gpu_milli int4, gpu_mem_mib int4, vcpus int4, mem_mib int4, arch text, quota_class text)
-- rows: 1 seen int8, withdrawn int8
-- writes: yes
-- lane: long
-- An empty region means that the list covers every region of the provider. A pool missing from the
-- list keeps its row, since its history refers to it, but is not offered any more. A pool listed
-- twice (overlapping pages) counts once.
WITH put AS (
	INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, gpu_milli, gpu_mem_mib,
		vcpus, mem_mib, arch, quota_class, offered, seen_us)
	SELECT $1, t.*, true, $15 FROM (SELECT DISTINCT ON (a, b, d, e) * FROM
		unnest($3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) AS u (a, b, c, d, e, f, g, h, i, j, k, l)) AS t
	WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $16 FOR KEY SHARE)
	ON CONFLICT (provider, region, zone, instance_type, market) DO UPDATE SET
		zone_name = EXCLUDED.zone_name, gpu_name = EXCLUDED.gpu_name, gpu_milli = EXCLUDED.gpu_milli,
		gpu_mem_mib = EXCLUDED.gpu_mem_mib, vcpus = EXCLUDED.vcpus, mem_mib = EXCLUDED.mem_mib,
		arch = EXCLUDED.arch, quota_class = EXCLUDED.quota_class, offered = true, seen_us = EXCLUDED.seen_us
	RETURNING id
), gone AS (
	UPDATE pool SET offered = false
	WHERE provider = $1 AND ($2 = '' OR region = $2) AND offered
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $16 FOR KEY SHARE)
		AND (region, zone, instance_type, market) NOT IN (
			SELECT * FROM unnest($3, $4, $6, $7))
	RETURNING id
)
SELECT (SELECT count(*) FROM put), (SELECT count(*) FROM gone);

-- name: market_pools_of
-- params: provider text, region text
-- rows: many id int4, region text, zone text, zone_name text, instance_type text, market text, gpu_name text, gpu_milli int4, gpu_mem_mib int4, vcpus int4, mem_mib int4, arch text, quota_class text, last_micros int8, on_demand_micros int8
-- writes: no
-- Column on_demand_micros is the on-demand price of the same type in the same region, for
-- plausibility.
SELECT p.id, p.region, p.zone, p.zone_name, p.instance_type, p.market, p.gpu_name, p.gpu_milli, p.gpu_mem_mib, p.vcpus,
	p.mem_mib, p.arch, p.quota_class, coalesce(l.price_micros, 0),
	coalesce(max(CASE WHEN p.market = 'on_demand' THEN l.price_micros END)
		OVER (PARTITION BY p.region, p.instance_type), 0)
FROM pool p LEFT JOIN pool_latest l ON l.pool_id = p.id
WHERE p.provider = $1 AND ($2 = '' OR p.region = $2) AND p.offered
ORDER BY p.id;

-- name: market_refused_put
-- params: point[], observed_us int8, past bool, fence int8
-- rows_in: point (pool_id int4, price_micros int8, source text, why text)
-- rows: none
-- writes: yes
-- Stores a rejected point with its reason. The pool's last good price stays and is marked, unless
-- the point was from the past.
WITH r AS (
	SELECT DISTINCT ON (p) p, v, s, w FROM unnest($1, $2, $3, $4) AS t (p, v, s, w)
	WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE) ORDER BY p
), kept AS (
	INSERT INTO price_refused (pool_id, observed_us, price_micros, source, why)
	SELECT p, $5, v, s, w FROM r ON CONFLICT DO NOTHING
)
UPDATE pool_latest l SET state = 'implausible', why = r.w FROM r WHERE l.pool_id = r.p AND NOT $6;

-- name: market_prices_age
-- params: now_us int8, spot_us int8, on_demand_us int8, frozen_us int8, steady text[], fence int8
-- rows: 1 changed int8, next_us int8?
-- writes: yes
-- lane: long
-- Looks at all prices. Before next_us none of them becomes stale, since polls only put that off.
-- A price is stale after three silent intervals of its feed. A spot price is frozen if polls
-- succeed but it has not moved for frozen_us, unless the provider's prices stand for weeks
-- (steady). An implausible price stays so until a plausible one comes.
WITH l AS (
	SELECT l.*, p.market, p.provider, l.observed_us + 3 * CASE p.market WHEN 'spot' THEN $2 ELSE $3 END AS stale_us
	FROM pool_price l JOIN pool p ON p.id = l.pool_id WHERE l.state <> 'implausible'
), s AS MATERIALIZED (
	SELECT pool_id, stale_us, l.state AS was, CASE
		WHEN $1 > stale_us THEN 'stale'
		WHEN market = 'spot' AND $4 > 0 AND $1 - l.changed_us > $4 AND provider <> ALL ($5) THEN 'frozen'
		ELSE 'fresh' END AS state
	FROM l WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $6 FOR KEY SHARE)
), u AS (
	UPDATE pool_latest l SET state = s.state, why = CASE s.state
		WHEN 'stale' THEN 'the price feed has been silent for three polls'
		WHEN 'frozen' THEN 'the price has not moved for a long time' ELSE '' END
	FROM s WHERE s.state <> s.was AND l.pool_id = s.pool_id AND l.state = s.was RETURNING 1
)
SELECT (SELECT count(*) FROM u), (SELECT min(stale_us) FROM s WHERE state <> 'stale');

-- Stores a provider's signals of a region, or of all regions if it is empty. Capacity that it no
-- longer reports is unknown (CoreWeave reports only pools that somebody asks for), an end too.
-- Storing none instead would stop all requests for the pool for ever. A fulfilment rate is asked
-- for more seldom and fades by itself. It goes after two days without a newer one.
-- name: market_signals_put
-- params: provider text, region text, signal[], now_us int8, fence int8
-- rows_in: signal (region text, zone text, type text, market text, kind text, value float8, lo float8,
--          hi float8, as_of_us int8, source text)
-- rows: none
-- writes: yes
-- lane: long
WITH ok AS (
	SELECT FROM leader WHERE name = 'engine' AND epoch = $14 FOR KEY SHARE
), u AS (
	SELECT DISTINCT ON (region, zone, instance_type, market, kind) *
	FROM unnest($3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS u (region, zone, instance_type, market, kind, value, lo, hi, as_of_us, source)
), silent AS (
	DELETE FROM signal s USING ok WHERE s.provider = $1 AND ($2 = '' OR s.region = $2)
		AND (s.kind IN ('capacity', 'ends') OR (s.kind = 'fulfilment'
			AND s.observed_us < $13 - 172800000000)) AND NOT EXISTS (
		SELECT FROM u WHERE (u.region, u.zone, u.instance_type, u.market, u.kind) = (s.region, s.zone, s.instance_type, s.market, s.kind))
)
INSERT INTO signal (provider, region, zone, instance_type, market, kind, value, lo, hi, as_of_us, source, observed_us)
SELECT $1, u.*, $13 FROM u, ok
ON CONFLICT (provider, region, zone, instance_type, market, kind) DO UPDATE SET value = EXCLUDED.value,
	lo = EXCLUDED.lo, hi = EXCLUDED.hi, as_of_us = EXCLUDED.as_of_us, source = EXCLUDED.source,
	observed_us = EXCLUDED.observed_us;

-- name: market_quotas_put
-- params: provider text, quota[], now_us int8, fence int8
-- rows_in: quota (region text, quota_class text, market market, unit text, quota_limit int8)
-- rows: none
-- writes: yes
INSERT INTO quota (provider, region, class, market, unit, quota_limit, observed_us)
SELECT $1, t.*, $7 FROM (SELECT DISTINCT ON (a, b, c) * FROM
	unnest($2, $3, $4, $5, $6) AS u (a, b, c, d, e)) AS t
WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $8 FOR KEY SHARE)
ON CONFLICT (provider, region, class, market) DO UPDATE SET unit = EXCLUDED.unit, quota_limit = EXCLUDED.quota_limit,
	observed_us = EXCLUDED.observed_us;

-- Computes habits from our own record by the hour, for pool_record:
-- - how many nodes a pool loses at a time;
-- - sums of cos and sin of the hour of day, over hours with a reclaim and over node-hours;
-- - how often another pool had nodes when this one lost some, by what the two share (provider,
--   region, zone, zone and GPU);
-- - how often that pool also lost some within an hour, and how often it would by chance.
--
-- Each hour fades with a half-life of 14 days.
-- name: market_habits
-- params: at_us int8
-- rows: none
-- writes: yes
-- lane: long
WITH old AS (
	DELETE FROM pool_hour WHERE at_hour < $1 / 3600000000 - 1080
), x AS MATERIALIZED (
	SELECT h.pool_id, h.at_hour, h.node_us / 3.6e9::float8 AS n, h.reclaims, (h.reclaims > 0)::int AS hit,
		power(0.5::float8, greatest($1 / 3600000000 - h.at_hour, 0) / 336.0::float8) AS w,
		radians((h.at_hour % 24 + 0.5) * 15)::float8 AS t
	FROM pool_hour h WHERE h.at_hour >= $1 / 3600000000 - 1080
), often AS (
	SELECT pool_id, 1 - exp(-3 * sum(w * hit) / nullif(sum(w) FILTER (WHERE n > 0 OR hit = 1), 0)) AS struck
	FROM x GROUP BY pool_id
), met AS (
	SELECT a.pool_id, a.w, coalesce(o.struck, 0) AS alone, CASE WHEN q.region <> p.region THEN 0 WHEN q.zone <> p.zone THEN 1
			WHEN q.gpu_name <> p.gpu_name THEN 2 ELSE 3 END AS shared,
		EXISTS (SELECT FROM x c WHERE c.pool_id = b.pool_id AND c.hit = 1
			AND c.at_hour BETWEEN a.at_hour - 1 AND a.at_hour + 1)::int AS struck
	FROM x a JOIN x b ON b.at_hour = a.at_hour AND b.pool_id <> a.pool_id AND (b.n > 0 OR b.hit = 1)
	JOIN often o ON o.pool_id = b.pool_id
	JOIN pool p ON p.id = a.pool_id JOIN pool q ON q.id = b.pool_id AND q.provider = p.provider AND q.market = p.market
	WHERE a.hit = 1
), joint AS (
	SELECT pool_id, concat_ws(' ', coalesce(sum(w) FILTER (WHERE shared = 0), 0),
		coalesce(sum(w) FILTER (WHERE shared = 1), 0), coalesce(sum(w) FILTER (WHERE shared = 2), 0),
		coalesce(sum(w) FILTER (WHERE shared = 3), 0), coalesce(sum(w * struck) FILTER (WHERE shared = 0), 0),
		coalesce(sum(w * struck) FILTER (WHERE shared = 1), 0), coalesce(sum(w * struck) FILTER (WHERE shared = 2), 0),
		coalesce(sum(w * struck) FILTER (WHERE shared = 3), 0),
		coalesce(sum(w * alone) FILTER (WHERE shared = 0), 0), coalesce(sum(w * alone) FILTER (WHERE shared = 1), 0),
		coalesce(sum(w * alone) FILTER (WHERE shared = 2), 0), coalesce(sum(w * alone) FILTER (WHERE shared = 3), 0)) AS record
	FROM met GROUP BY pool_id
), habit AS (
	SELECT pool_id, concat_ws(' ', coalesce(sum(w * reclaims) / nullif(sum(w * hit), 0), 1), sum(w * hit),
		sum(w * hit * cos(t)), sum(w * hit * sin(t)), sum(w * n), sum(w * n * cos(t)), sum(w * n * sin(t)),
		sum(w * n * cos(2 * t)), sum(w * n * sin(2 * t))) AS record
	FROM x GROUP BY pool_id
)
INSERT INTO pool_habit AS b (pool_id, record, at_us)
SELECT h.pool_id, concat_ws(' ', h.record, coalesce(j.record, '0 0 0 0 0 0 0 0 0 0 0 0')), $1
FROM habit h LEFT JOIN joint j ON j.pool_id = h.pool_id
ON CONFLICT (pool_id) DO UPDATE SET record = excluded.record, at_us = excluded.at_us;
