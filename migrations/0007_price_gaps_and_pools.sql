-- When a feed was silent for more than three of its intervals and its provider does not tell the past: what prices
-- were then nobody knows, and a history drawn without saying so would lie.
CREATE TABLE feed_gap (
	provider       text NOT NULL,
	region         text NOT NULL,
	feed           text NOT NULL,
	from_us        int8 NOT NULL,    -- last poll before
	to_us          int8 NOT NULL,    -- first poll after
	PRIMARY KEY (provider, region, feed, from_us)
);

-- What /v1/prices and /v1/pools say of a pool beside its price: signals, rest after a refusal, our own record since a day,
-- and what the estimate of its hazard is made of.
CREATE FUNCTION api_pool_more(one int4, since_day int4) RETURNS TABLE (more json, market text, advisor_lo float8,
	advisor_hi float8, advisor_as_of_us int8, node_us int8, reclaims int4, band_lo float8, band_hi float8, share float8,
	share_lo float8, share_hi float8) LANGUAGE sql STABLE AS $$
SELECT json_build_object(
	'signals', coalesce((SELECT json_agg(json_build_object('kind', s.kind, 'value', s.value, 'lo', s.lo, 'hi', s.hi,
		'source', s.source, 'as_of@', nullif(s.as_of_us, 0), 'observed@age', s.observed_us) ORDER BY s.kind)
		FROM signal s WHERE s.provider = p.provider AND s.region = p.region AND s.zone IN ('', p.zone)
			AND s.instance_type IN ('', p.instance_type) AND s.market IN ('', p.market)), '[]'::json),
	'cooling_until@', c.until_us, 'cooling_why', c.why,
	'record', json_build_object('node_hours', round(r.node_us / 3.6e9, 3), 'reclaims', r.reclaims,
		'launches', r.launches, 'refusals', r.refusals),
	'nodes', (SELECT count(*) FROM node n WHERE n.pool_id = p.id AND n.state NOT IN ('GONE', 'FAILED'))),
	p.market, a.advisor_lo, a.advisor_hi, a.advisor_as_of_us, r.node_us, r.reclaims, a.band_lo, a.band_hi, a.share,
	a.share_lo, a.share_hi
FROM pool p
LEFT JOIN pool_cool c ON c.pool_id = p.id
LEFT JOIN LATERAL (SELECT max(w.advisor_lo) AS advisor_lo, max(w.advisor_hi) AS advisor_hi,
	max(w.advisor_as_of_us) AS advisor_as_of_us, max(w.band_lo) AS band_lo, max(w.band_hi) AS band_hi,
	max(w.share) AS share, min(w.share_lo) AS share_lo, max(w.share_hi) AS share_hi
	FROM signal_wide w WHERE w.provider = p.provider AND w.region = p.region AND w.zone IN ('', p.zone)
		AND w.instance_type = p.instance_type AND w.market = p.market) a ON true
LEFT JOIN LATERAL (SELECT coalesce(sum(d.node_us), 0)::int8 AS node_us, coalesce(sum(d.reclaims), 0)::int4 AS reclaims,
	coalesce(sum(d.launches), 0)::int4 AS launches, coalesce(sum(d.refusals), 0)::int4 AS refusals
	FROM pool_day d WHERE d.pool_id = p.id AND d.day >= $2) r ON true
WHERE p.id = $1 $$;
