-- Price feed. See store/price.h for what a batch means.

-- name: copy_merge_prices
-- setup: SET LOCAL work_mem = '64MB'; SET LOCAL enable_nestloop = off;
--        CREATE TEMP TABLE IF NOT EXISTS price_in (pool_id int4 NOT NULL,
--        observed_us int8 NOT NULL, effective_us int8 NOT NULL, price_micros int8 NOT NULL,
--        source text NOT NULL)
--        ON COMMIT DELETE ROWS
-- copy: COPY price_in (pool_id, observed_us, effective_us, price_micros, source) FROM STDIN BINARY
-- rows: 1 received int8, changed int8, pools int8
-- writes: yes
-- Several points of one pool read in one poll keep their order: the newest has the poll's
-- observed_us, each older one a microsecond less. History that we have already is left out; a pool's newest
-- point confirms the price that we have also if it dates it earlier (a price list knows its own dates, not
-- those of the history that came before it). The
-- staging table has no statistics: left alone, the planner expects a handful of rows.
WITH d AS (
	SELECT DISTINCT ON (pool_id, effective_us) pool_id, observed_us, price_micros, source,
		effective_us
	FROM (SELECT pool_id, observed_us, price_micros, source,
			CASE WHEN effective_us = 0 THEN observed_us ELSE effective_us END AS effective_us
		FROM price_in) i
	ORDER BY pool_id, effective_us, observed_us DESC
), m AS (
	-- p held for the share w of the faded past (migration 0010): from its date, or from when the sums were last brought
	-- up, to the next point's date or to now.
	SELECT d.*, l.price_micros AS was, l.fade_us, d.price_micros / 1e6::float8 AS p,
		-- Ages in 7 days; e^-700 is nothing already.
		greatest(least(coalesce(next_us, d.observed_us) - d.observed_us, 0) / 6.048e11::float8, -700) AS till,
		greatest(least(greatest(d.effective_us, l.fade_us) - d.observed_us, 0) / 6.048e11::float8, -700) AS since,
		greatest(least(l.fade_us - d.observed_us, 0) / 6.048e11::float8, -700) AS faded
	FROM (SELECT *, lead(effective_us) OVER (PARTITION BY pool_id ORDER BY effective_us) AS next_us FROM d) d
		LEFT JOIN pool_latest l USING (pool_id)
	WHERE l.pool_id IS NULL OR d.effective_us >= l.effective_us OR (next_us IS NULL AND d.price_micros = l.price_micros)
), n AS (
	SELECT pool_id, observed_us, price_micros, source, effective_us, was,
		lag(price_micros) OVER o AS before,
		count(*) OVER (PARTITION BY pool_id) - row_number() OVER o AS age,
		sum(w) OVER o AS w0, sum(w * p) OVER o AS w1, sum(w * p * p) OVER o AS w2,
		-- What held until the first of them, and what is left of the sums.
		CASE WHEN fade_us IS NULL THEN 0 ELSE greatest(exp(first_value(since) OVER o) - exp(faded), 0) END AS w_was,
		CASE WHEN fade_us IS NULL THEN 0 ELSE exp(faded) END AS kept
	FROM (SELECT *, greatest(exp(till) - exp(since), 0) AS w FROM m) m
	WINDOW o AS (PARTITION BY pool_id ORDER BY effective_us)
), changed AS (
	INSERT INTO price_point (pool_id, observed_us, effective_us, price_micros, source)
	SELECT pool_id, observed_us - age, effective_us, price_micros, source FROM n
	WHERE coalesce(before, was) IS DISTINCT FROM price_micros
	ON CONFLICT (pool_id, observed_us) DO NOTHING
	RETURNING pool_id
), confirmed AS (
	UPDATE pool_latest l SET
		price_micros = n.price_micros,
		observed_us = greatest(n.observed_us, l.observed_us),
		effective_us = greatest(n.effective_us, l.effective_us),
		changed_us = CASE WHEN n.price_micros <> l.price_micros
			THEN n.effective_us ELSE l.changed_us END,
		source = n.source,
		state = CASE WHEN l.state = 'frozen' AND n.price_micros = l.price_micros
			THEN l.state ELSE 'fresh' END,
		why = CASE WHEN l.state = 'frozen' AND n.price_micros = l.price_micros THEN l.why ELSE '' END,
		fade_us = greatest(n.observed_us, l.fade_us),
		fade_w = coalesce(l.fade_w, 0) * n.kept + n.w_was + n.w0,
		fade_1 = coalesce(l.fade_1, 0) * n.kept + n.w_was * (n.was / 1e6::float8) + n.w1,
		fade_2 = coalesce(l.fade_2, 0) * n.kept + n.w_was * (n.was / 1e6::float8) ^ 2 + n.w2
	FROM n WHERE n.age = 0 AND n.was IS NOT NULL AND l.pool_id = n.pool_id
	RETURNING 1
), fresh AS (
	INSERT INTO pool_latest (pool_id, price_micros, observed_us, effective_us, changed_us, source,
		state, fade_us, fade_w, fade_1, fade_2)
	SELECT pool_id, price_micros, observed_us, effective_us, effective_us, source, 'fresh', observed_us, w0, w1, w2
	FROM n WHERE age = 0 AND was IS NULL ORDER BY pool_id
	ON CONFLICT (pool_id) DO NOTHING
	RETURNING 1
)
SELECT (SELECT count(*) FROM price_in), (SELECT count(*) FROM changed),
	(SELECT count(*) FROM confirmed) + (SELECT count(*) FROM fresh);

-- name: pool_latest_all
-- rows: many pool_id int4, price_micros int8, observed_us int8, effective_us int8, changed_us int8,
--       state text
-- row: pool_latest
-- writes: no
SELECT pool_id, price_micros, observed_us, effective_us, changed_us, state FROM pool_latest;

-- name: price_history_pool
-- params: pool_id int4, from_us int8, to_us int8
-- rows: many observed_us int8, effective_us int8, price_micros int8, source text
-- writes: no
SELECT observed_us, effective_us, price_micros, source FROM price_point
WHERE pool_id = $1 AND observed_us >= $2 AND observed_us < $3 ORDER BY observed_us;

-- name: price_partitions_ensure
-- params: from_us int8, to_us int8
-- rows: 1 made int4
-- writes: yes
-- Daily partitions for every day that touches [from_us, to_us).
SELECT price_partitions_ensure($1, $2);

-- name: price_partitions_drop
-- params: before_us int8
-- rows: 1 dropped int4
-- writes: yes
-- Drops partitions that end at or before before_us. pool_latest keeps every current price.
SELECT price_partitions_drop($1);
