-- Supply from our own rows: availability of pools for deadline policies, hours of the day for
-- deferral, and the tightness of pool groups.

-- Moves a job off on-demand to wait for spot, as the deadline policy decided. Its node is drained
-- and released, so the job is not placed on it again. Stores the decision with its inputs.
-- name: engine_park
-- params: job_id int8, epoch int4, node_id int8, inputs jsonb, why text, deadline_us int8,
--   at_us int8, fence int8
-- rows: 0..1 node_id int8
-- writes: yes
WITH ok AS (
	SELECT j.id, a.epoch, a.node_id FROM job j JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch
	JOIN node n ON n.id = a.node_id
	WHERE j.id = $1 AND j.state = 'RUNNING' AND j.epoch = $2 AND j.cancel_us IS NULL
		AND a.node_id = $3 AND a.ended_us IS NULL AND a.desired = 'run' AND n.state = 'READY'
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $8 FOR KEY SHARE)
	FOR NO KEY UPDATE OF j, a, n
), o AS (
	INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us)
	SELECT x.node_id, 'maintenance', $6, 'deadline policy', $5, $7 FROM ok JOIN attempt x ON x.job_id = ok.id AND x.epoch = ok.epoch
	WHERE x.ended_us IS NULL ON CONFLICT (node_id, kind) DO NOTHING RETURNING node_id
), d AS (
	INSERT INTO decision (at_us, kind, job_id, node_id, inputs, outcome, why)
	SELECT $7, 'park', $1, min(node_id), $4, '{"choice":"wait"}'::jsonb, $5 FROM o HAVING count(*) > 0
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, epoch, was, now, event, why, actor)
	SELECT $7, 'job', 'j' || ok.id, ok.id, ok.node_id, ok.epoch, 'RUNNING', 'RUNNING', 'PARKED', $5, 'engine' FROM ok
	WHERE EXISTS (SELECT FROM o)
)
SELECT min(node_id) FROM o HAVING count(*) > 0

-- A live node means that its pool is available, a refusal or a reclaim that it is not. For `want`
-- nodes at once, only a gang of that size proves availability.
-- name: engine_supply_words
-- params: pools int4[], since_us int8, most int8, want int4
-- rows: many pool_id int4, from_us int8, to_us int8, up bool
-- writes: no
SELECT pool_id, from_us, to_us, up FROM (
	SELECT pool_id, launched_us AS from_us, coalesce(ended_us, 0) AS to_us, true AS up FROM node
	WHERE pool_id = ANY ($1) AND created_us > $2 AND launched_us IS NOT NULL AND $4 < 2
	UNION ALL
	SELECT g.pool_id, g.served_us, coalesce((SELECT min(n.ended_us) FROM node n WHERE n.gang_id = g.id), 0), true FROM gang g
	WHERE $4 > 1 AND g.pool_id = ANY ($1) AND g.created_us > $2 AND g.served_us IS NOT NULL AND g.want >= $4
	UNION ALL
	SELECT pool_id, ended_us, 0, false FROM node
	WHERE pool_id = ANY ($1) AND created_us > $2 AND ended_us IS NOT NULL AND end_cause IN ('refused', 'reclaimed')
	UNION ALL
	SELECT n.pool_id, o.heard_us, 0, false FROM notice o JOIN node n ON n.id = o.node_id
	WHERE n.pool_id = ANY ($1) AND n.created_us > $2 AND o.kind = 'interruption'
) w ORDER BY from_us LIMIT $3

-- Returns the hours of the day (UTC) since from_us: the price in force relative to the pool's mean,
-- and our own launches.
-- name: engine_supply_hours
-- params: pools int4[], from_us int8, at_us int8
-- rows: many hour int4, price float8, days int4, launches int4, refusals int4
-- writes: no
-- lane: long
WITH t AS (
	SELECT g AS at_us FROM generate_series($2, $3, 3600000000) g
), p AS (
	SELECT pool_id, effective_us AS from_us, coalesce(lead(effective_us) OVER (PARTITION BY pool_id ORDER BY effective_us,
		observed_us), $3 + 1) AS to_us, price_micros
	FROM price_dated WHERE pool_id = ANY ($1) AND effective_us > $2 - 7776000000000
), x AS (
	SELECT p.pool_id, t.at_us, p.price_micros FROM p JOIN t ON t.at_us >= p.from_us AND t.at_us < p.to_us
), m AS (
	SELECT pool_id, avg(price_micros) AS mean FROM x GROUP BY pool_id
), h AS (
	SELECT (x.at_us / 3600000000 % 24)::int4 AS hour, avg(x.price_micros / m.mean)::float8 AS price,
		count(DISTINCT x.at_us / 86400000000)::int4 AS days
	FROM x JOIN m ON m.pool_id = x.pool_id GROUP BY 1
), n AS (
	SELECT (created_us / 3600000000 % 24)::int4 AS hour, count(launched_us)::int4 AS launches,
		count(*) FILTER (WHERE end_cause = 'refused')::int4 AS refusals
	FROM node WHERE pool_id = ANY ($1) AND created_us > $2 GROUP BY 1
)
SELECT g.hour, coalesce(h.price, 0), coalesce(h.days, 0), coalesce(n.launches, 0), coalesce(n.refusals, 0)
FROM generate_series(0, 23) g (hour) LEFT JOIN h ON h.hour = g.hour LEFT JOIN n ON n.hour = g.hour ORDER BY g.hour

-- Defers a job to start_us. Decided once, stored with its inputs.
-- name: engine_defer
-- params: job_id int8, was job_state, epoch int4, start_us int8, deferred bool, inputs jsonb,
--   outcome jsonb, why text, at_us int8, fence int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH j AS (
	UPDATE job SET not_before_us = $4, why = CASE WHEN $5 THEN $8 ELSE why END
	WHERE id = $1 AND state = $2 AND epoch = $3 AND cancel_us IS NULL AND not_before_us IS NULL
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $10 FOR KEY SHARE)
	RETURNING id
), d AS (
	INSERT INTO decision (at_us, kind, job_id, inputs, outcome, why) SELECT $9, 'defer', id, $6, $7, $8 FROM j WHERE $5
)
SELECT id, pg_notify('spot_api', 'j' || id) IS NOT NULL AS told FROM j

-- Returns our own launches per pool in the window, with the pool's price of the last week.
-- name: engine_supply_window
-- params: since_us int8, week_us int8, at_us int8
-- rows: many pool_id int4, launches int4, refusals int4, reclaims int4, node_us int8, price float8,
--   price_mean float8
-- writes: no
-- lane: long
WITH m AS (
	SELECT pool_id, launched_us, ended_us, end_cause FROM node WHERE state NOT IN ('GONE', 'FAILED')
	UNION ALL SELECT pool_id, launched_us, ended_us, end_cause FROM node
	WHERE ended_us > $1 AND state IN ('GONE', 'FAILED')
), n AS (
	SELECT pool_id, count(*) FILTER (WHERE launched_us > $1)::int4 AS launches,
		count(*) FILTER (WHERE end_cause = 'refused' AND ended_us > $1)::int4 AS refusals,
		count(*) FILTER (WHERE end_cause = 'reclaimed' AND ended_us > $1)::int4 AS reclaims,
		coalesce(sum(greatest(coalesce(ended_us, $3) - greatest(launched_us, $1), 0)), 0)::int8 AS node_us
	FROM m GROUP BY pool_id
)
SELECT n.pool_id, n.launches, n.refusals, n.reclaims, n.node_us, l.price_micros::float8,
	coalesce((SELECT avg(x.price_micros) FROM price_dated x WHERE x.pool_id = n.pool_id AND x.observed_us > $2),
		l.price_micros)::float8
FROM n JOIN pool p ON p.id = n.pool_id AND p.market = 'spot' JOIN pool_latest l ON l.pool_id = n.pool_id

-- name: engine_supply_states
-- rows: many provider text, region text, gpu_name text, state supply_state, since_us int8,
--   calm_us int8
-- writes: no
SELECT provider, region, gpu_name, state, since_us, calm_us FROM supply_state

-- Stores one group's state, with an event on a change. Compare-and-set on the state it was decided
-- from (NULL = no row).
-- name: engine_supply_set
-- params: provider text, region text, gpu_name text, was supply_state?, state supply_state,
--   since_us int8, calm_us int8, idx float8, parts jsonb, why text, at_us int8, fence int8
-- rows: 0..1 state supply_state
-- writes: yes
WITH s AS (
	INSERT INTO supply_state AS s (provider, region, gpu_name, state, since_us, calm_us, idx, parts, why, at_us)
	SELECT $1, $2, $3, $5, $6, $7, $8, $9, $10, $11
	WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $12 FOR KEY SHARE)
	ON CONFLICT (provider, region, gpu_name) DO UPDATE SET state = excluded.state, since_us = excluded.since_us,
		calm_us = excluded.calm_us, idx = excluded.idx, parts = excluded.parts, why = excluded.why, at_us = excluded.at_us
	WHERE s.state = $4
	RETURNING state
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, was, now, event, why, actor)
	SELECT $11, 'supply', $1 || '/' || $2 || '/' || $3, coalesce($4, ''), $5, 'SUPPLY_' || upper($5), $10, 'engine'
	FROM s WHERE $4 IS DISTINCT FROM $5 AND ($4 IS NOT NULL OR $5 <> 'easy')
)
SELECT state FROM s

-- name: api_supply
-- params: provider text?, region text?, gpu text?, state text?, most int4
-- rows: 1 doc text
-- writes: no
SELECT coalesce(json_agg(json_build_object('provider', s.provider, 'region', s.region, 'gpu', s.gpu_name, 'state', s.state,
	'since@', s.since_us, 'index', round(s.idx::numeric, 4), 'parts', s.parts, 'why', s.why, 'updated@age', s.at_us)
	ORDER BY s.state DESC, s.idx DESC, s.provider, s.region, s.gpu_name), '[]')::text
FROM (SELECT * FROM supply_state WHERE ($1 IS NULL OR provider = $1) AND ($2 IS NULL OR region = $2)
	AND ($3 IS NULL OR upper(gpu_name) LIKE upper($3) || '%') AND ($4 IS NULL OR state = $4)
	ORDER BY state DESC, idx DESC LIMIT $5) s

-- Returns the prices of pools over time, by when each held, including the one in force at from_us.
-- name: api_backtest_prices
-- params: pools int4[], from_us int8, to_us int8, most int8
-- rows: many pool_id int4, at_us int8, price_micros int8
-- writes: no
-- lane: long
SELECT pool_id, greatest(effective_us, $2) AS at_us, price_micros FROM (
	SELECT pool_id, effective_us, observed_us, price_micros, lead(effective_us) OVER (PARTITION BY pool_id
		ORDER BY effective_us, observed_us) AS next_us
	FROM price_dated WHERE pool_id = ANY ($1) AND effective_us < $3
) p WHERE next_us IS NULL OR next_us > $2
ORDER BY pool_id, effective_us, observed_us LIMIT $4
