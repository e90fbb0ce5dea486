-- The current market: read once, then by change. src/store/market/market.h keeps it.

-- Returns what changed since a snapshot of the database ('' if there is none), and:
--
-- - behind: rows of changes may be missing, so everything must be read
-- - pools: the ids of the changed pools
-- - rounds: the rounds of prices that were confirmed, each with its time
-- - sellers: the providers that sell spot, one a line; NULL if no engine has said so
-- - known: every feed of pools and prices was read once
-- name: offers_moved
-- params: since text
-- rows: 1 snapshot text, behind bool, pools text?, rounds text?, sellers text?, known bool
-- writes: no
WITH since AS MATERIALIZED (SELECT nullif($1, '')::pg_snapshot AS s),
c AS MATERIALIZED (
	SELECT m.pool_ids, m.round_id, m.provider, m.region FROM since, market_change m
	WHERE m.xid >= pg_snapshot_xmin(since.s) AND NOT pg_visible_in_snapshot(m.xid, since.s)
), ids AS (
	SELECT unnest(pool_ids) AS id FROM c
	UNION SELECT p.id
	FROM (SELECT DISTINCT provider, region FROM c WHERE provider IS NOT NULL) x
		JOIN pool p ON p.provider = x.provider AND (x.region = '' OR p.region = x.region)
)
SELECT pg_current_snapshot()::text, since.s IS NULL OR t.xid >= pg_snapshot_xmin(since.s)
		OR pg_snapshot_xmin(since.s) > pg_snapshot_xmin(pg_current_snapshot()),
	(SELECT string_agg(id::text, ' ' ORDER BY id) FROM ids),
	(SELECT string_agg(id || ' ' || confirmed_us, ' ') FROM price_round
		WHERE id IN (SELECT round_id FROM c WHERE round_id IS NOT NULL)),
	(SELECT CASE WHEN bool_or(sells_spot) IS NOT NULL THEN
		coalesce(string_agg(name, E'\n' ORDER BY name) FILTER (WHERE sells_spot), '') END FROM provider),
	EXISTS (SELECT FROM pool WHERE offered) AND NOT EXISTS (SELECT FROM feed
		WHERE last_ok_us IS NULL AND feed IN ('pools', 'prices_spot', 'prices_on_demand'))
FROM since, market_trimmed t;

-- Deletes changes older than ten minutes. Any daemon may do it: not fenced. A row stays while a
-- transaction is open that may be older, since a snapshot orders by it.
-- name: offers_trim
-- params: most int4
-- rows: 1 n int8
-- writes: yes
WITH d AS (
	DELETE FROM market_change WHERE ctid = ANY (ARRAY(SELECT ctid FROM market_change
		WHERE at < now() - interval '10 minutes' AND xid < pg_snapshot_xmin(pg_current_snapshot())
		ORDER BY seq LIMIT $1))
	RETURNING xid
), t AS (
	UPDATE market_trimmed SET xid = (SELECT x.xid FROM (SELECT xid FROM d
			UNION ALL SELECT market_trimmed.xid
			WHERE market_trimmed.xid < pg_snapshot_xmin(pg_current_snapshot())) x
		ORDER BY x.xid DESC LIMIT 1)
	WHERE EXISTS (SELECT FROM d)
)
SELECT count(*) FROM d;

-- Returns every pool of the market. Not every row is an offer (listed): a pool without a price, or
-- not offered any more, counts its nodes against a quota. Columns:
--
-- - nodes: those alive; counted: those of them that count against the quota
-- - quota_wide: the quota is of all regions together
-- - odds_us: when the odds were observed
-- - round_id: the round that confirms the price; fade_us and so on: price_faded of pool_price,
--   so that a confirmation needs no read
-- - asked, delivered, asked_us: the signal fulfilment
-- - signals: lines "KIND JSON", NULL without `told`; that reads offered pools without a price, too
-- name: offers
-- params: since_day int4, at_us int8, half_h float8, recent_h float8, odds_h float8, told bool
-- rows: many id int4, provider text, region text, zone text, zone_name text, instance_type text,
--   market text, gpu_name text, gpu_milli int4, gpu_mem_mib int4, vcpus int4, mem_mib int4,
--   arch text, quota_class text, listed bool, price_micros int8?, observed_us int8?,
--   price_state text?, advisor_lo float8?, advisor_hi float8?, advisor_as_of_us int8?,
--   score float8?, capacity float8?, capacity_us int8?, own_us int8?, reclaims int4?,
--   launches int4?, refusals int4?, cool_until_us int8?, cool_refusals int4?, cool_why text?,
--   nodes int4?, counted int4?, band_lo float8?, band_hi float8?, share float8?, share_lo float8?,
--   share_hi float8?, odds float8?, odds_us int8?, quota_unit text?, quota_limit int8?,
--   quota_wide bool, record text?, price_mean float8?, price_var float8?, price_cover float8?,
--   round_id int8?, fade_us int8?, fade_w float8?, fade_1 float8?, fade_2 float8?, offered bool,
--   price_why text?, effective_us int8?, source text?, signals text?, reclaimed_us int8?,
--   asked float8?, delivered float8?, asked_us int8?, ends_us int8?
-- writes: no
-- lane: long
-- row_at: yes
WITH sig AS MATERIALIZED (SELECT * FROM signal_wide), said AS MATERIALIZED (
	SELECT provider, region, zone, instance_type, market, string_agg(kind || ' ' ||
		json_build_object('kind', kind, 'value', value, 'lo', lo, 'hi', hi, 'source',
		source, 'as_of@', nullif(as_of_us, 0), 'observed@age', observed_us)::text,
		E'\n') AS lines FROM signal WHERE $6 GROUP BY 1, 2, 3, 4, 5
), wide AS MATERIALIZED (SELECT * FROM said WHERE instance_type = '' OR market = '')
SELECT p.id, p.provider, p.region, p.zone, p.zone_name, p.instance_type, p.market, p.gpu_name,
	p.gpu_milli, p.gpu_mem_mib, p.vcpus, p.mem_mib, p.arch, p.quota_class,
	p.offered AND l.pool_id IS NOT NULL, l.price_micros, l.observed_us, l.state,
	coalesce(z.advisor_lo, r.advisor_lo), coalesce(z.advisor_hi, r.advisor_hi),
	coalesce(z.advisor_as_of_us, r.advisor_as_of_us), coalesce(z.score, r.score),
	coalesce(z.capacity, r.capacity), coalesce(z.capacity_us, r.capacity_us), d.node_us,
	d.reclaims, d.launches, d.refusals, c.until_us, c.refusals, c.why, live.n, live.counted,
	coalesce(z.band_lo, r.band_lo), coalesce(z.band_hi, r.band_hi), coalesce(z.share, r.share),
	coalesce(z.share_lo, r.share_lo), coalesce(z.share_hi, r.share_hi),
	CASE WHEN z.odds_us > $2 - 1800000000 THEN z.odds
		WHEN r.odds_us > $2 - 1800000000 THEN r.odds END,
	CASE WHEN z.odds_us > $2 - 1800000000 THEN z.odds_us
		WHEN r.odds_us > $2 - 1800000000 THEN r.odds_us END, coalesce(q.unit, qa.unit),
	coalesce(q.quota_limit, qa.quota_limit), q.unit IS NULL AND qa.unit IS NOT NULL, d.record,
	f.w1 / f.w, greatest(f.w2 / f.w - (f.w1 / f.w) ^ 2, 0), f.w, l.round_id,
	coalesce(l.fade_us, l.changed_us), l.fade_w, l.fade_1, l.fade_2, p.offered, l.why,
	l.effective_us, l.source, concat_ws(E'\n', tz.lines, tr.lines, tw.lines), k.at_us, fu.hi,
	fu.lo, fu.as_of_us, pool_ends(p)
FROM pool p LEFT JOIN said tz USING (provider, region, zone, instance_type, market)
LEFT JOIN pool_price l ON l.pool_id = p.id
LEFT JOIN LATERAL price_faded(l) f ON l.pool_id IS NOT NULL
LEFT JOIN sig z ON z.provider = p.provider AND z.region = p.region AND z.zone = p.zone
	AND z.instance_type = p.instance_type AND z.market = p.market
LEFT JOIN sig r ON p.zone <> '' AND r.zone = '' AND r.provider = p.provider AND r.region = p.region
	AND r.instance_type = p.instance_type AND r.market = p.market
LEFT JOIN said tr ON p.zone <> '' AND (tr.provider, tr.region, tr.zone, tr.instance_type,
	tr.market) = (p.provider, p.region, '', p.instance_type, p.market)
LEFT JOIN LATERAL (SELECT string_agg(w.lines, E'\n') AS lines FROM wide w
	WHERE w.provider = p.provider AND w.region = p.region AND w.zone IN ('', p.zone)
	AND w.instance_type IN ('', p.instance_type) AND w.market IN ('', p.market)) tw ON true
LEFT JOIN signal fu ON (fu.provider, fu.region, fu.zone, fu.instance_type, fu.market, fu.kind) =
	(p.provider, p.region, p.zone, p.instance_type, p.market, 'fulfilment')
LEFT JOIN pool_record($1, $2, $3, $4, $5) d ON d.pool_id = p.id
LEFT JOIN pool_cool c ON c.pool_id = p.id LEFT JOIN pool_reclaim k ON k.pool_id = p.id
LEFT JOIN (SELECT pool_id, count(*)::int4 AS n,
		(count(*) FILTER (WHERE market_node_counts(state) = 2))::int4 AS counted
	FROM node WHERE state NOT IN ('GONE', 'FAILED') GROUP BY pool_id) live ON live.pool_id = p.id
LEFT JOIN quota q ON p.quota_class <> '' AND q.provider = p.provider AND q.region = p.region
	AND q.class = p.quota_class AND q.market = p.market AND q.quota_limit >= 0
LEFT JOIN quota qa ON p.quota_class <> '' AND qa.provider = p.provider AND qa.region = ''
	AND qa.class = p.quota_class AND qa.market = p.market AND qa.quota_limit >= 0
WHERE (p.offered AND (l.pool_id IS NOT NULL OR $6)) OR live.n > 0 ORDER BY p.id;

-- The same of these pools, pool by pool.
-- name: offers_some
-- params: since_day int4, at_us int8, half_h float8, recent_h float8, odds_h float8,
--   pools int4[], told bool
-- rows: many as offers
-- writes: no
SELECT p.id, p.provider, p.region, p.zone, p.zone_name, p.instance_type, p.market, p.gpu_name,
	p.gpu_milli, p.gpu_mem_mib, p.vcpus, p.mem_mib, p.arch, p.quota_class,
	p.offered AND l.pool_id IS NOT NULL, l.price_micros, l.observed_us, l.state,
	coalesce(z.advisor_lo, r.advisor_lo), coalesce(z.advisor_hi, r.advisor_hi),
	coalesce(z.advisor_as_of_us, r.advisor_as_of_us), coalesce(z.score, r.score),
	coalesce(z.capacity, r.capacity), coalesce(z.capacity_us, r.capacity_us),
	d.node_us, d.reclaims, d.launches, d.refusals, c.until_us, c.refusals, c.why,
	live.n, live.counted, coalesce(z.band_lo, r.band_lo), coalesce(z.band_hi, r.band_hi),
	coalesce(z.share, r.share), coalesce(z.share_lo, r.share_lo), coalesce(z.share_hi, r.share_hi),
	CASE WHEN z.odds_us > $2 - 1800000000 THEN z.odds
		WHEN r.odds_us > $2 - 1800000000 THEN r.odds END,
	CASE WHEN z.odds_us > $2 - 1800000000 THEN z.odds_us
		WHEN r.odds_us > $2 - 1800000000 THEN r.odds_us END,
	coalesce(q.unit, qa.unit), coalesce(q.quota_limit, qa.quota_limit),
	q.unit IS NULL AND qa.unit IS NOT NULL, d.record,
	f.w1 / f.w, greatest(f.w2 / f.w - (f.w1 / f.w) ^ 2, 0), f.w,
	l.round_id, coalesce(l.fade_us, l.changed_us), l.fade_w, l.fade_1, l.fade_2,
	p.offered, l.why, l.effective_us, l.source, t.lines, k.at_us, fu.hi, fu.lo, fu.as_of_us,
	pool_ends(p)
FROM (SELECT DISTINCT unnest($6) AS id) i JOIN pool p ON p.id = i.id
LEFT JOIN pool_price l ON l.pool_id = p.id
LEFT JOIN LATERAL price_faded(l) f ON l.pool_id IS NOT NULL
LEFT JOIN LATERAL signals_of(p.provider, p.region, p.zone, p.instance_type, p.market) z ON true
LEFT JOIN LATERAL signals_of(p.provider, p.region, '', p.instance_type, p.market) r ON p.zone <> ''
LEFT JOIN LATERAL (SELECT string_agg(s.kind || ' ' ||
		json_build_object('kind', s.kind, 'value', s.value, 'lo', s.lo, 'hi', s.hi,
		'source', s.source, 'as_of@', nullif(s.as_of_us, 0),
		'observed@age', s.observed_us)::text, E'\n') AS lines
	FROM signal s WHERE $7 AND s.provider = p.provider AND s.region = p.region
		AND s.zone IN ('', p.zone) AND s.instance_type IN ('', p.instance_type)
		AND s.market IN ('', p.market)) t ON true
LEFT JOIN signal fu ON (fu.provider, fu.region, fu.zone, fu.instance_type, fu.market, fu.kind) =
	(p.provider, p.region, p.zone, p.instance_type, p.market, 'fulfilment')
LEFT JOIN LATERAL pool_record_of(p.id, $1, $2, $3, $4, $5) d ON true
LEFT JOIN pool_cool c ON c.pool_id = p.id LEFT JOIN pool_reclaim k ON k.pool_id = p.id
LEFT JOIN LATERAL (SELECT count(*)::int4 AS n,
		(count(*) FILTER (WHERE market_node_counts(state) = 2))::int4 AS counted
	FROM node WHERE pool_id = p.id AND state NOT IN ('GONE', 'FAILED') HAVING count(*) > 0) live ON true
LEFT JOIN quota q ON p.quota_class <> '' AND q.provider = p.provider AND q.region = p.region
	AND q.class = p.quota_class AND q.market = p.market AND q.quota_limit >= 0
LEFT JOIN quota qa ON p.quota_class <> '' AND qa.provider = p.provider AND qa.region = ''
	AND qa.class = p.quota_class AND qa.market = p.market AND qa.quota_limit >= 0
WHERE (p.offered AND (l.pool_id IS NOT NULL OR $7)) OR live.n > 0
ORDER BY p.id
