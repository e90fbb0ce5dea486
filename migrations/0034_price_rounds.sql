-- A poll confirms all prices of its feed that did not move. It writes its time once here, and rows of pool_latest only where something changed.
CREATE TABLE price_round (
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	provider       text NOT NULL,
	region         text NOT NULL,    -- as in feed
	feed           text NOT NULL,
	confirmed_us   int8 NOT NULL,    -- the last poll that was stored
	UNIQUE (provider, region, feed)
);

-- The round that confirms the row's price: its feed's last poll listed the pool. A pool that a poll does not list leaves the round, and observed_us
-- then has the time of the last poll that listed it. NULL: only observed_us counts.
ALTER TABLE pool_latest ADD COLUMN round_id int8;

-- pool_latest, with the time at which a poll last confirmed the price.
CREATE VIEW pool_price AS
SELECT l.pool_id, l.price_micros, greatest(l.observed_us, r.confirmed_us) AS observed_us, l.effective_us, l.changed_us, l.source, l.state, l.why,
	l.fade_us, l.fade_w, l.fade_1, l.fade_2, l.round_id
FROM pool_latest l LEFT JOIN price_round r ON r.id = l.round_id;

-- As price_faded of migration 0010.
CREATE FUNCTION price_faded(l pool_price) RETURNS TABLE (w float8, w1 float8, w2 float8) LANGUAGE sql IMMUTABLE AS $$
SELECT coalesce(l.fade_w, 0) * k + now, coalesce(l.fade_1, 0) * k + now * p, coalesce(l.fade_2, 0) * k + now * p * p
FROM (SELECT k, 1 - k + 1e-9 AS now, l.price_micros / 1e6::float8 AS p
	FROM (SELECT exp(-least(greatest(l.observed_us - coalesce(l.fade_us, l.changed_us), 0) / 6.048e11::float8, 700)) AS k) x) y
$$;

CREATE OR REPLACE VIEW api_pool AS
SELECT p.id, json_build_object('id', 'p' || p.id, 'provider', p.provider, 'region', p.region, 'zone', p.zone,
	'zone_name', p.zone_name, 'instance_type', p.instance_type, 'market', p.market, 'gpu', p.gpu_name,
	'gpus', trim_scale(p.gpu_milli / 1000.0), 'gpu_mem_mib', p.gpu_mem_mib, 'vcpus', p.vcpus,
	'mem_mib', p.mem_mib, 'arch', p.arch, 'offered', p.offered, 'price$', l.price_micros,
	'price_per_gpu_micros', CASE WHEN p.gpu_milli > 0 THEN l.price_micros * 1000 / p.gpu_milli END,
	'price_state', coalesce(l.state, 'none'), 'price_why', coalesce(l.why, ''),
	'observed@age', l.observed_us, 'effective@', l.effective_us, 'source', coalesce(l.source, '')) AS doc
FROM pool p LEFT JOIN pool_price l ON l.pool_id = p.id;

-- Stores the points of the temporary table price_in (store/sql/price.sql). The round of the feed confirms the pools whose price stands, and no row of
-- them is written. Several points of one pool keep their order: the newest has the poll's observed_us, each older one a microsecond less. Known history
-- is left out. A pool's newest point confirms the known price even with an earlier date, since a price list knows only its own dates.
CREATE FUNCTION price_merge() RETURNS TABLE (looked int8, changed int8, pools int8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY
	WITH feed AS MATERIALIZED (
		SELECT split_part(source, E'\n', 1) AS provider, split_part(source, E'\n', 2) AS region, split_part(source, E'\n', 3) AS feed,
			observed_us FROM price_in
		WHERE pool_id = 0 AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = effective_us FOR KEY SHARE)
	), round AS (
		INSERT INTO price_round AS r (provider, region, feed, confirmed_us) SELECT provider, region, feed, observed_us FROM feed
		ON CONFLICT (provider, region, feed) DO UPDATE SET confirmed_us = greatest(r.confirmed_us, EXCLUDED.confirmed_us)
		RETURNING id
	), s AS MATERIALIZED (
		-- All points but those that only confirm, and the pools of the round that the poll does not list.
		SELECT i.pool_id, i.observed_us, i.effective_us > 0 AS dated, CASE WHEN i.effective_us = 0 THEN i.observed_us ELSE i.effective_us END AS effective_us,
			i.price_micros, i.source, i.several, l.pool_id AS known_id, l.price_micros AS was, l.effective_us AS was_us, l.observed_us AS confirmed_us,
			coalesce(l.fade_us, l.changed_us) AS fade_us, coalesce(l.round_id = (SELECT id FROM round), false) AS mine
		FROM (SELECT * FROM price_in WHERE pool_id > 0) i FULL JOIN pool_price l ON l.pool_id = i.pool_id
		WHERE CASE WHEN i.pool_id IS NULL THEN l.round_id = (SELECT id FROM round)
			ELSE (NOT i.several AND i.price_micros = l.price_micros AND l.round_id = (SELECT id FROM round) AND l.state IN ('fresh', 'frozen')
				AND i.source = l.source AND i.effective_us <= l.effective_us AND i.observed_us >= l.observed_us) IS NOT TRUE END
	), d AS (
		SELECT *, lead(effective_us) OVER (PARTITION BY pool_id ORDER BY effective_us) AS next_us
		FROM (SELECT DISTINCT ON (pool_id, effective_us) * FROM s WHERE several ORDER BY pool_id, effective_us, observed_us DESC) x
		UNION ALL SELECT *, NULL FROM s WHERE NOT several
	), known AS (
		SELECT * FROM d WHERE was IS NULL OR (effective_us >= was_us AND (dated OR observed_us >= confirmed_us))
			OR (next_us IS NULL AND price_micros = was)
	), n AS (
		SELECT pool_id, observed_us, effective_us, price_micros, source, was, confirmed_us, fade_us, mine, lag(price_micros) OVER w AS before,
			count(*) OVER (PARTITION BY pool_id) - row_number() OVER w AS age, count(*) OVER (PARTITION BY pool_id) AS points
		FROM known WHERE several WINDOW w AS (PARTITION BY pool_id ORDER BY effective_us)
		UNION ALL SELECT pool_id, observed_us, effective_us, price_micros, source, was, confirmed_us, fade_us, mine, NULL, 0, 1 FROM known WHERE NOT several
	), several AS (
		SELECT s.pool_id, f.* FROM (SELECT pool_id, array_agg(effective_us ORDER BY effective_us) AS times,
				max(was) AS was, array_agg(price_micros ORDER BY effective_us) AS prices, max(fade_us) AS fade_us
			FROM n WHERE points > 1 GROUP BY pool_id
			HAVING bool_or(coalesce(before, was) IS DISTINCT FROM price_micros)) s
			CROSS JOIN LATERAL price_fade(s.times, s.prices, s.was, s.fade_us) f
	), m AS (
		-- The newest point of each pool, with the sums to add. A single changed point ends the price
		-- that was held since fade_us.
		SELECT n.*, coalesce(f.to_us, CASE WHEN n.was <> n.price_micros THEN n.effective_us END) AS to_us,
			coalesce(f.kept, x.kept) AS k, coalesce(f.w, 1 - x.kept) AS w, coalesce(f.w1, (1 - x.kept) * n.was / 1e6::float8) AS w1,
			coalesce(f.w2, (1 - x.kept) * (n.was / 1e6::float8) ^ 2) AS w2
		FROM n LEFT JOIN several f USING (pool_id)
			CROSS JOIN LATERAL (SELECT exp(-least(greatest(n.effective_us - n.fade_us, 0) / 6.048e11::float8, 700)) AS kept) x
		WHERE n.age = 0
	), later AS (
		-- Points after all that the pool has are not there yet, and a plain INSERT costs half.
		INSERT INTO price_point (pool_id, observed_us, effective_us, price_micros, source)
		SELECT pool_id, observed_us - age, effective_us, price_micros, source FROM n
		WHERE coalesce(before, was) IS DISTINCT FROM price_micros AND observed_us - age > confirmed_us RETURNING 1
	), changed AS (
		INSERT INTO price_point (pool_id, observed_us, effective_us, price_micros, source)
		SELECT pool_id, observed_us - age, effective_us, price_micros, source FROM n
		WHERE coalesce(before, was) IS DISTINCT FROM price_micros AND (observed_us - age > confirmed_us) IS NOT TRUE
		ON CONFLICT (pool_id, observed_us) DO NOTHING RETURNING 1
	), confirmed AS (
		UPDATE pool_latest l SET price_micros = m.price_micros, source = m.source,
			observed_us = greatest(m.observed_us, l.observed_us), effective_us = greatest(m.effective_us, l.effective_us),
			changed_us = CASE WHEN m.price_micros <> l.price_micros THEN m.effective_us ELSE l.changed_us END,
			state = CASE WHEN l.state = 'frozen' AND m.price_micros = l.price_micros THEN l.state ELSE 'fresh' END,
			why = CASE WHEN l.state = 'frozen' AND m.price_micros = l.price_micros THEN l.why ELSE '' END,
			fade_us = coalesce(m.to_us, l.fade_us),
			fade_w = CASE WHEN m.to_us IS NULL THEN l.fade_w ELSE coalesce(l.fade_w, 0) * m.k + m.w END,
			fade_1 = CASE WHEN m.to_us IS NULL THEN l.fade_1 ELSE coalesce(l.fade_1, 0) * m.k + m.w1 END,
			fade_2 = CASE WHEN m.to_us IS NULL THEN l.fade_2 ELSE coalesce(l.fade_2, 0) * m.k + m.w2 END,
			round_id = coalesce((SELECT id FROM round), l.round_id)
		FROM m WHERE m.was IS NOT NULL AND l.pool_id = m.pool_id
			AND NOT (m.mine AND m.to_us IS NULL AND m.price_micros = l.price_micros AND m.source = l.source AND m.effective_us <= l.effective_us
				AND l.state IN ('fresh', 'frozen'))
	), fresh AS (
		INSERT INTO pool_latest (pool_id, price_micros, observed_us, effective_us, changed_us, source, state, fade_us, fade_w, fade_1, fade_2, round_id)
		SELECT pool_id, price_micros, observed_us, effective_us, effective_us, source, 'fresh',
			coalesce(to_us, effective_us), coalesce(w, 0), coalesce(w1, 0), coalesce(w2, 0), (SELECT id FROM round)
		FROM m WHERE was IS NULL ORDER BY pool_id ON CONFLICT (pool_id) DO NOTHING
	), gone AS (
		UPDATE pool_latest l SET round_id = NULL, observed_us = s.confirmed_us
		FROM (SELECT DISTINCT known_id, confirmed_us FROM s WHERE mine AND NOT EXISTS (SELECT FROM n WHERE n.pool_id = s.known_id)) s
		WHERE l.pool_id = s.known_id
	)
	SELECT (SELECT count(*) FROM s WHERE pool_id IS NOT NULL), (SELECT count(*) FROM later) + (SELECT count(*) FROM changed),
		(SELECT count(*) FROM m);
END $$;
