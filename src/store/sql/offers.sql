-- The current market, for ranking.

-- Returns the offers for these GPUs (name prefixes in upper case; none = all).
-- name: offers
-- params: since_day int4, gpus text[], at_us int8, half_h float8, recent_h float8, odds_h float8
-- rows: many id int4, provider text, region text, zone text, zone_name text, instance_type text, market text,
--   gpu_name text, gpu_milli int4, gpu_mem_mib int4, vcpus int4, mem_mib int4, arch text, quota_class text,
--   price_micros int8, observed_us int8, price_state text, advisor_lo float8?, advisor_hi float8?,
--   advisor_as_of_us int8?, score float8?, capacity float8?, capacity_us int8?, own_us int8?, reclaims int4?,
--   launches int4?, refusals int4?, cool_until_us int8?, cool_refusals int4?, cool_why text?, nodes int4?,
--   band_lo float8?, band_hi float8?, share float8?, share_lo float8?, share_hi float8?, odds float8?,
--   quota_unit text?, quota_limit int8?, quota_used int8?, record text?,
--   price_mean float8?, price_var float8?, price_cover float8?
-- writes: no
WITH sig AS MATERIALIZED (SELECT * FROM signal_wide),
used AS MATERIALIZED (
	SELECT p.provider, p.region, p.quota_class, p.market, count(*) AS n, sum(p.vcpus) AS vcpus,
		sum((p.gpu_milli + 999) / 1000) AS gpus
	FROM node n JOIN pool p ON p.id = n.pool_id
	WHERE n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY', 'DRAINING') GROUP BY 1, 2, 3, 4
)
SELECT p.id, p.provider, p.region, p.zone, p.zone_name, p.instance_type, p.market, p.gpu_name, p.gpu_milli,
	p.gpu_mem_mib, p.vcpus, p.mem_mib, p.arch, p.quota_class, l.price_micros, l.observed_us, l.state,
	coalesce(z.advisor_lo, r.advisor_lo), coalesce(z.advisor_hi, r.advisor_hi),
	coalesce(z.advisor_as_of_us, r.advisor_as_of_us), coalesce(z.score, r.score), coalesce(z.capacity, r.capacity),
	coalesce(z.capacity_us, r.capacity_us), d.node_us, d.reclaims, d.launches, d.refusals, c.until_us, c.refusals, c.why,
	live.n, coalesce(z.band_lo, r.band_lo), coalesce(z.band_hi, r.band_hi), coalesce(z.share, r.share),
	coalesce(z.share_lo, r.share_lo), coalesce(z.share_hi, r.share_hi),
	CASE WHEN z.odds_us > $3 - 1800000000 THEN z.odds WHEN r.odds_us > $3 - 1800000000 THEN r.odds END,
	coalesce(q.unit, qa.unit), coalesce(q.quota_limit, qa.quota_limit),
	CASE WHEN q.unit IS NOT NULL THEN (SELECT CASE q.unit WHEN 'vcpu' THEN u.vcpus WHEN 'gpus' THEN u.gpus ELSE u.n END
		FROM used u WHERE u.provider = p.provider AND u.region = p.region AND u.quota_class = p.quota_class
			AND u.market = p.market)
	WHEN qa.unit IS NOT NULL THEN (SELECT sum(CASE qa.unit WHEN 'vcpu' THEN u.vcpus WHEN 'gpus' THEN u.gpus ELSE u.n END)
		FROM used u WHERE u.provider = p.provider AND u.quota_class = p.quota_class AND u.market = p.market) END::int8, d.record,
	f.w1 / f.w, greatest(f.w2 / f.w - (f.w1 / f.w) ^ 2, 0), f.w
FROM pool p
JOIN pool_price l ON l.pool_id = p.id
JOIN LATERAL price_faded(l) f ON true
LEFT JOIN sig z ON z.provider = p.provider AND z.region = p.region AND z.zone = p.zone
	AND z.instance_type = p.instance_type AND z.market = p.market
LEFT JOIN sig r ON p.zone <> '' AND r.zone = '' AND r.provider = p.provider AND r.region = p.region
	AND r.instance_type = p.instance_type AND r.market = p.market
LEFT JOIN pool_record($1, $3, $4, $5, $6) d ON d.pool_id = p.id
LEFT JOIN pool_cool c ON c.pool_id = p.id
LEFT JOIN (SELECT pool_id, count(*)::int4 AS n FROM node WHERE state NOT IN ('GONE', 'FAILED')
	GROUP BY pool_id) live ON live.pool_id = p.id
LEFT JOIN quota q ON p.quota_class <> '' AND q.provider = p.provider AND q.region = p.region AND q.class = p.quota_class
	AND q.market = p.market AND q.quota_limit >= 0
LEFT JOIN quota qa ON p.quota_class <> '' AND qa.provider = p.provider AND qa.region = '' AND qa.class = p.quota_class
	AND qa.market = p.market AND qa.quota_limit >= 0
WHERE p.offered AND (cardinality($2) = 0 OR EXISTS (SELECT FROM unnest($2) g WHERE upper(p.gpu_name) LIKE g || '%'))
ORDER BY p.id
