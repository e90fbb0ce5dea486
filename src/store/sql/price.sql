-- Price feed. store/store.h defines a batch.

-- name: copy_merge_prices
-- setup: SET LOCAL work_mem = '64MB';
--        CREATE TEMP TABLE IF NOT EXISTS price_in (pool_id int4 NOT NULL,
--        observed_us int8 NOT NULL, effective_us int8 NOT NULL, price_micros int8 NOT NULL,
--        source text NOT NULL, several bool NOT NULL)
--        ON COMMIT DELETE ROWS
-- copy: COPY price_in (pool_id, observed_us, effective_us, price_micros, source, several)
--       FROM STDIN BINARY
-- rows: 1 looked int8, changed int8, pools int8
-- writes: yes
-- The first row may name the feed, by pool_id 0. It has provider, region and feed in source, the
-- fence in effective_us, and in price_micros whether prices seem to have moved (0: none). Column
-- several marks the pools with several points in the poll.
SELECT looked, changed, pools FROM price_merge();

-- name: copy_merge_past
-- setup: SET LOCAL work_mem = '64MB';
--        CREATE TEMP TABLE IF NOT EXISTS price_in (pool_id int4 NOT NULL,
--        observed_us int8 NOT NULL, effective_us int8 NOT NULL, price_micros int8 NOT NULL,
--        source text NOT NULL, several bool NOT NULL)
--        ON COMMIT DELETE ROWS
-- copy: COPY price_in (pool_id, observed_us, effective_us, price_micros, source, several)
--       FROM STDIN BINARY
-- rows: 1 looked int8, changed int8, pools int8
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
SELECT pool_id, price_micros, observed_us, effective_us, changed_us, state FROM pool_price;

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
