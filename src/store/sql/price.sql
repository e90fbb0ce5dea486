-- Price feed. store/price.h defines a batch.

-- name: copy_merge_prices
-- setup: SET LOCAL work_mem = '64MB'; SET LOCAL enable_nestloop = off;
--        CREATE TEMP TABLE IF NOT EXISTS price_in (pool_id int4 NOT NULL,
--        observed_us int8 NOT NULL, effective_us int8 NOT NULL, price_micros int8 NOT NULL,
--        source text NOT NULL)
--        ON COMMIT DELETE ROWS
-- copy: COPY price_in (pool_id, observed_us, effective_us, price_micros, source) FROM STDIN BINARY
-- rows: 1 received int8, changed int8, pools int8
-- writes: yes
-- Several points of one pool in one poll keep their order. The newest has the poll's observed_us,
-- each older one a microsecond less. Known history is left out. A pool's newest point confirms the
-- known price even with an earlier date, since a price list knows only its own dates. The staging
-- table has no statistics, and without help the planner expects a handful of rows.
WITH d AS (
	SELECT DISTINCT ON (pool_id, effective_us) *
	FROM (SELECT pool_id, observed_us, price_micros, source,
			CASE WHEN effective_us = 0 THEN observed_us ELSE effective_us END AS effective_us FROM price_in) i
	ORDER BY pool_id, effective_us, observed_us DESC
), n AS (
	SELECT d.*, l.price_micros AS was, coalesce(l.fade_us, l.changed_us) AS fade_us, lag(d.price_micros) OVER w AS before,
		count(*) OVER (PARTITION BY d.pool_id) - row_number() OVER w AS age, count(*) OVER (PARTITION BY d.pool_id) AS points,
		exp(-least(greatest(d.effective_us - coalesce(l.fade_us, l.changed_us), 0) / 6.048e11::float8, 700)) AS kept
	FROM (SELECT *, lead(effective_us) OVER (PARTITION BY pool_id ORDER BY effective_us) AS next_us FROM d) d
		LEFT JOIN pool_latest l USING (pool_id)
	WHERE l.pool_id IS NULL OR d.effective_us >= l.effective_us OR (next_us IS NULL AND d.price_micros = l.price_micros)
	WINDOW w AS (PARTITION BY d.pool_id ORDER BY d.effective_us)
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
		coalesce(f.kept, n.kept) AS k, coalesce(f.w, 1 - n.kept) AS w, coalesce(f.w1, (1 - n.kept) * n.was / 1e6::float8) AS w1,
		coalesce(f.w2, (1 - n.kept) * (n.was / 1e6::float8) ^ 2) AS w2
	FROM n LEFT JOIN several f USING (pool_id) WHERE n.age = 0
), changed AS (
	INSERT INTO price_point (pool_id, observed_us, effective_us, price_micros, source)
	SELECT pool_id, observed_us - age, effective_us, price_micros, source FROM n
	WHERE coalesce(before, was) IS DISTINCT FROM price_micros
	ON CONFLICT (pool_id, observed_us) DO NOTHING RETURNING pool_id
), confirmed AS (
	UPDATE pool_latest l SET price_micros = m.price_micros, source = m.source,
		observed_us = greatest(m.observed_us, l.observed_us), effective_us = greatest(m.effective_us, l.effective_us),
		changed_us = CASE WHEN m.price_micros <> l.price_micros THEN m.effective_us ELSE l.changed_us END,
		state = CASE WHEN l.state = 'frozen' AND m.price_micros = l.price_micros THEN l.state ELSE 'fresh' END,
		why = CASE WHEN l.state = 'frozen' AND m.price_micros = l.price_micros THEN l.why ELSE '' END,
		fade_us = coalesce(m.to_us, l.fade_us),
		fade_w = CASE WHEN m.to_us IS NULL THEN l.fade_w ELSE coalesce(l.fade_w, 0) * m.k + m.w END,
		fade_1 = CASE WHEN m.to_us IS NULL THEN l.fade_1 ELSE coalesce(l.fade_1, 0) * m.k + m.w1 END,
		fade_2 = CASE WHEN m.to_us IS NULL THEN l.fade_2 ELSE coalesce(l.fade_2, 0) * m.k + m.w2 END
	FROM m WHERE m.was IS NOT NULL AND l.pool_id = m.pool_id RETURNING 1
), fresh AS (
	INSERT INTO pool_latest (pool_id, price_micros, observed_us, effective_us, changed_us, source, state, fade_us, fade_w, fade_1, fade_2)
	SELECT pool_id, price_micros, observed_us, effective_us, effective_us, source, 'fresh',
		coalesce(to_us, effective_us), coalesce(w, 0), coalesce(w1, 0), coalesce(w2, 0)
	FROM m WHERE was IS NULL ORDER BY pool_id ON CONFLICT (pool_id) DO NOTHING RETURNING 1
)
SELECT (SELECT count(*) FROM price_in), (SELECT count(*) FROM changed), (SELECT count(*) FROM confirmed) + (SELECT count(*) FROM fresh);

-- name: copy_merge_past
-- setup: SET LOCAL work_mem = '64MB';
--        CREATE TEMP TABLE IF NOT EXISTS price_in (pool_id int4 NOT NULL,
--        observed_us int8 NOT NULL, effective_us int8 NOT NULL, price_micros int8 NOT NULL,
--        source text NOT NULL)
--        ON COMMIT DELETE ROWS
-- copy: COPY price_in (pool_id, observed_us, effective_us, price_micros, source) FROM STDIN BINARY
-- rows: 1 received int8, changed int8, pools int8
-- row: copy_merge_prices
-- writes: yes
-- Stores a pool's prices before our first point. They come before it by observed_us too, which
-- orders a pool's points. From that point on our own record counts. Repeating it changes nothing.
WITH f AS MATERIALIZED (
	SELECT l.pool_id, coalesce(l.fade_us, l.changed_us) AS fade_us, coalesce(p.observed_us, l.observed_us) AS observed_us,
		coalesce(p.effective_us, l.effective_us) AS until_us
	FROM pool_latest l LEFT JOIN (SELECT pool_id, min(observed_us) AS observed_us, min(effective_us) AS effective_us
			FROM price_point WHERE pool_id = ANY (ARRAY(SELECT DISTINCT pool_id FROM price_in)) GROUP BY 1) p USING (pool_id)
	WHERE l.pool_id = ANY (ARRAY(SELECT DISTINCT pool_id FROM price_in))
), d AS (
	SELECT DISTINCT ON (i.pool_id, i.effective_us) i.pool_id, i.effective_us, i.price_micros, i.source, f.until_us,
		f.observed_us, f.fade_us
	FROM price_in i JOIN f USING (pool_id) WHERE i.effective_us > 0 AND i.effective_us < f.until_us
	ORDER BY i.pool_id, i.effective_us, i.observed_us DESC
), n AS (
	SELECT *, lag(price_micros) OVER w AS before, coalesce(lead(effective_us) OVER w, until_us) AS next_us,
		count(*) OVER (PARTITION BY pool_id) - row_number() OVER w AS age
	FROM d WINDOW w AS (PARTITION BY pool_id ORDER BY effective_us)
), changed AS (
	INSERT INTO price_point (pool_id, observed_us, effective_us, price_micros, source)
	SELECT pool_id, observed_us - 1 - age, effective_us, price_micros, source FROM n WHERE before IS DISTINCT FROM price_micros
	ON CONFLICT (pool_id, observed_us) DO NOTHING
	RETURNING 1
), w AS (
	-- The part that the points add to the sums of migration 0010, as of the row's fade_us.
	SELECT pool_id, fade_us, sum(k) AS w, sum(k * p) AS w1, sum(k * p * p) AS w2
	FROM (SELECT pool_id, fade_us, price_micros / 1e6::float8 AS p,
			exp(greatest((next_us - fade_us) / 6.048e11::float8, -700)) - exp(greatest((effective_us - fade_us) / 6.048e11::float8, -700)) AS k
		FROM n WHERE next_us <= fade_us) x GROUP BY pool_id, fade_us
), faded AS (
	-- A price that came meanwhile has advanced the row's sums to a later time.
	UPDATE pool_latest l SET fade_us = coalesce(l.fade_us, l.changed_us),
		fade_w = coalesce(l.fade_w, 0) + w.w * exp((w.fade_us - coalesce(l.fade_us, l.changed_us)) / 6.048e11::float8),
		fade_1 = coalesce(l.fade_1, 0) + w.w1 * exp((w.fade_us - coalesce(l.fade_us, l.changed_us)) / 6.048e11::float8),
		fade_2 = coalesce(l.fade_2, 0) + w.w2 * exp((w.fade_us - coalesce(l.fade_us, l.changed_us)) / 6.048e11::float8)
	FROM w WHERE l.pool_id = w.pool_id
	RETURNING 1
)
SELECT (SELECT count(*) FROM price_in), (SELECT count(*) FROM changed), (SELECT count(*) FROM faded);

-- name: pool_latest_all
-- rows: many pool_id int4, price_micros int8, observed_us int8, effective_us int8, changed_us int8,
--       state text
-- row: pool_latest
-- writes: no
-- lane: long
SELECT pool_id, price_micros, observed_us, effective_us, changed_us, state FROM pool_latest;

-- name: price_history_pool
-- params: pool_id int4, from_us int8, to_us int8
-- rows: many observed_us int8, effective_us int8, price_micros int8, source text
-- writes: no
-- lane: long
SELECT observed_us, effective_us, price_micros, source FROM price_dated
WHERE pool_id = $1 AND observed_us >= $2 AND observed_us < $3 ORDER BY observed_us;

-- name: price_partitions_ensure
-- params: from_us int8, to_us int8
-- rows: 1 made int4
-- writes: yes
-- lane: long
-- Creates daily partitions for every day that touches [from_us, to_us).
SELECT price_partitions_ensure($1, $2);

-- name: price_partitions_drop
-- params: before_us int8
-- rows: 1 dropped int4
-- writes: yes
-- lane: long
-- Drops partitions that end at or before before_us. Prices in force are copied to the first
-- remaining day.
SELECT price_partitions_drop($1);
