-- One pool, rejected prices, providers, quotas.

-- One pool, offered or not. The record's hours come as thousandths. The market in memory has the lists.
-- name: api_pool
-- params: id int4, since_day int4
-- rows: 0..1 id int4, provider text, region text, zone text, zone_name text, instance_type text,
--   pool_market text, gpu_name text, gpu_milli int4, gpu_mem_mib int4, vcpus int4, mem_mib int4,
--   arch text, offered bool, price_micros int8?, per_gpu_micros int8?, price_state text, price_why
--   text, observed_us int8?, effective_us int8?, source text, signals text, cool_until_us int8?,
--   cool_why text?, node_milli int8, reclaims int4, launches int4, refusals int4, nodes int8,
--   market market, adv_lo float8?, adv_hi float8?, adv_as_of_us int8?, own_us int8, band_lo
--   float8?, band_hi float8?, share float8?, share_lo float8?, share_hi float8?
-- json: id#p, provider, region, zone, zone_name, instance_type, market, gpu, gpus%, gpu_mem_mib,
--   vcpus, mem_mib, arch, offered, price$, price_per_gpu_micros, price_state, price_why,
--   observed@age, effective@, source, signals*, cooling_until@, cooling_why, record{node_hours%,
--   reclaims, launches, refusals}, nodes, -, -, -, -, -, -, -, -, -, -
-- writes: no
SELECT d.*, m.*
FROM pool_shown d, LATERAL pool_told(d.pool_id, $2) m WHERE d.pool_id = $1

-- Returns rejected price points, the newest first.
-- name: api_prices_refused
-- params: gpu text?, provider text?, region text?, instance_type text?, market market?, most int4
-- rows: many doc text
-- writes: no
SELECT json_build_object('pool', d.doc, 'refused$', r.price_micros, 'observed@age', r.observed_us, 'source', r.source,
	'why', r.why)::text
FROM (SELECT r.* FROM price_refused r JOIN pool p ON p.id = r.pool_id
	WHERE ($1 IS NULL OR upper(p.gpu_name) = upper($1) OR upper(p.gpu_name) LIKE upper($1) || '-%')
		AND ($2 IS NULL OR p.provider = $2) AND ($3 IS NULL OR p.region = $3) AND ($4 IS NULL OR p.instance_type = $4)
		AND ($5 IS NULL OR p.market = $5)
	ORDER BY r.observed_us DESC, r.pool_id LIMIT $6) r
JOIN api_pool d ON d.id = r.pool_id ORDER BY r.observed_us DESC, r.pool_id

-- Returns the points of an interval, and the one in force at its beginning.
-- name: api_pool_history
-- params: pool_id int4, from_us int8, to_us int8, most int4
-- rows: 1 doc text
-- writes: no
-- lane: long
SELECT coalesce(json_agg(json_build_object('@', observed_us, 'effective@', effective_us, 'price$', price_micros,
	'source', source) ORDER BY observed_us), '[]')::text AS doc
FROM ((SELECT * FROM price_dated WHERE pool_id = $1 AND observed_us >= $2 AND observed_us < $3
	ORDER BY observed_us DESC LIMIT $4)
	UNION ALL (SELECT * FROM price_dated WHERE pool_id = $1 AND observed_us < $2 ORDER BY observed_us DESC LIMIT 1)) h

-- Returns the marks of a history: silences of its feed, reclaimed machines, refused launches.
-- name: api_pool_marks
-- params: pool_id int4, from_us int8, to_us int8
-- rows: 1 gaps text, marks text
-- writes: no
SELECT coalesce((SELECT json_agg(json_build_object('from@', greatest(g.from_us, $2), 'to@',
	least(g.to_us, $3)) ORDER BY g.from_us)
		FROM feed_gap g JOIN pool p ON p.id = $1 AND g.provider = p.provider AND g.region IN ('', p.region)
			AND g.feed = CASE p.market WHEN 'spot' THEN 'prices_spot' ELSE 'prices_on_demand' END
		WHERE g.to_us > $2 AND g.from_us < $3), '[]'::json)::text AS gaps,
	coalesce((SELECT json_agg(json_build_object('@', n.ended_us, 'kind', n.end_cause, 'node',
		'n' || n.id)
		ORDER BY n.ended_us) FROM node n WHERE n.pool_id = $1 AND n.ended_us >= $2 AND n.ended_us < $3
			AND n.end_cause IN ('reclaimed', 'refused')), '[]'::json)::text AS marks

-- name: api_placing
-- params: name text, team text
-- rows: 1 rates text?, restart_us int8?
-- writes: no
-- Returns the engine's knowledge when it places a job. Rates are the measured speeds of the five
-- newest jobs of this name and team.
SELECT m.rates, m.restart_us
FROM job_measured(ARRAY(SELECT id FROM job WHERE name = $1 AND team = $2 AND epoch > 0
	ORDER BY id DESC LIMIT 5)) m

-- name: api_providers
-- rows: 1 doc text
-- writes: no
SELECT coalesce(json_agg(json_build_object('name', p.name, 'kind', p.kind, 'account', p.account, 'state', p.state,
	'last_ok@', p.last_ok_us, 'last_error', p.last_error, 'last_error@', p.last_error_us, 'requests', p.requests,
	'throttled', p.throttled, 'updated@age', p.updated_us,
	'pools', (SELECT count(*) FROM pool o WHERE o.provider = p.name AND o.offered),
	'feeds', coalesce((SELECT json_agg(json_build_object('region', f.region, 'feed', f.feed, 'last_ok@age', f.last_ok_us,
		'next@', f.next_us, 'rows_seen', f.rows_seen, 'requests_last', f.requests_last,
		'interval_s', (f.interval_us / 1e6)::float8, 'fails', f.fails, 'last_error', f.last_error)
		ORDER BY f.region, f.feed) FROM feed f WHERE f.provider = p.name), '[]'::json)) ORDER BY p.name), '[]')::text AS doc
FROM provider p

-- name: api_quotas
-- params: provider text?, region text?, most int4
-- rows: 1 doc text
-- writes: no
SELECT coalesce(json_agg(json_build_object('provider', q.provider, 'region', q.region, 'class', q.class,
	'market', q.market, 'unit', q.unit, 'limit', nullif(q.quota_limit, -1), 'observed@age', q.observed_us)
	ORDER BY q.provider, q.region, q.class, q.market), '[]')::text AS doc
FROM (SELECT * FROM quota WHERE ($1 IS NULL OR provider = $1) AND ($2 IS NULL OR region = $2)
	ORDER BY provider, region, class, market LIMIT $3) q
