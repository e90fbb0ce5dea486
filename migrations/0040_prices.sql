-- A poll of prices costs what its feed has, and new prices are written in place (HOT). GET /v1/prices of the previous daemon sorts all prices meanwhile.
-- CREATE INDEX lets nobody write to pool_latest while it runs: about 50 ms for 50,000 pools.

-- An index on the price gets an entry for each new price, and so does every other index of the table.
DROP INDEX pool_latest_price;
DROP INDEX pool_latest_odd;
CREATE INDEX pool_latest_odd ON pool_latest (state, pool_id) WHERE state <> 'fresh';
CREATE INDEX pool_latest_round ON pool_latest (round_id);

-- The factor of faded sums (migration 0010) after some time. e^-700 is practically zero.
CREATE FUNCTION price_kept(since_us int8, at_us int8) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
SELECT exp(-least(greatest($2 - $1, 0) / 6.048e11::float8, 700))
$$;

-- The four functions below store the points of the temporary table price_in (store/sql/price.sql). Parameter in_round is the feed's round, confirmed its
-- last poll before this one.

-- Stores new prices of pools of the round that have one point, later than all that they have. Returns their number. Leaves the other points.
CREATE FUNCTION price_move(in_round int8, confirmed int8) RETURNS int8 LANGUAGE plpgsql SET enable_nestloop = off AS $$
#variable_conflict use_column
DECLARE
	moved int8;
BEGIN
	WITH m AS (
		UPDATE pool_latest l SET price_micros = i.price_micros, source = i.source, observed_us = i.observed_us, effective_us = i.at_us,
			changed_us = i.at_us, state = 'fresh', why = '', fade_us = i.at_us,
			fade_w = 1 - (1 - coalesce(l.fade_w, 0)) * price_kept(coalesce(l.fade_us, l.changed_us), i.at_us),
			fade_1 = l.price_micros / 1e6::float8 - (l.price_micros / 1e6::float8 - coalesce(l.fade_1, 0))
				* price_kept(coalesce(l.fade_us, l.changed_us), i.at_us),
			fade_2 = (l.price_micros / 1e6::float8) ^ 2 - ((l.price_micros / 1e6::float8) ^ 2 - coalesce(l.fade_2, 0))
				* price_kept(coalesce(l.fade_us, l.changed_us), i.at_us)
		FROM (SELECT *, CASE WHEN effective_us = 0 THEN observed_us ELSE effective_us END AS at_us FROM price_in
			WHERE pool_id > 0 AND NOT several) i
		WHERE l.round_id = in_round AND l.pool_id = i.pool_id AND l.price_micros <> i.price_micros
			AND i.at_us >= l.effective_us AND i.observed_us > greatest(l.observed_us, confirmed)
		RETURNING l.pool_id, l.observed_us, l.effective_us, l.price_micros, l.source
	)
	INSERT INTO price_point (pool_id, observed_us, effective_us, price_micros, source) SELECT * FROM m;
	GET DIAGNOSTICS moved = ROW_COUNT;
	RETURN moved;
END $$;

-- True if the poll lists the pools of the round, each once and with the price that it has.
CREATE FUNCTION price_stands(in_round int8, confirmed int8, points int8) RETURNS bool LANGUAGE plpgsql SET enable_nestloop = off AS $$
BEGIN
	RETURN (SELECT count(*) = points AND count(*) FILTER (WHERE NOT i.several AND i.price_micros = l.price_micros
			AND l.state IN ('fresh', 'frozen') AND i.source = l.source AND i.effective_us <= l.effective_us
			AND i.observed_us >= greatest(l.observed_us, confirmed)) = points
		FROM pool_latest l LEFT JOIN price_in i ON i.pool_id = l.pool_id WHERE l.round_id = in_round);
END $$;

-- Returns all points but those that only confirm, and the pools of the round that the poll does not list. It is planned anew each time, for so many
-- points and the feed's row. Few are looked up one by one, many by a scan of all prices.
CREATE FUNCTION price_seen(in_round int8, points int8) RETURNS TABLE (pool_id int4, observed_us int8, dated bool, effective_us int8, price_micros int8, source text,
	several bool, known_id int4, was int8, was_us int8, confirmed_us int8, fade_us int8, mine bool) LANGUAGE plpgsql SET enable_nestloop = on AS $$
BEGIN
	RETURN QUERY EXECUTE format($q$
SELECT i.pool_id, i.observed_us, i.effective_us > 0, CASE WHEN i.effective_us = 0 THEN i.observed_us ELSE i.effective_us END,
	i.price_micros, i.source, i.several, l.pool_id, l.price_micros, l.effective_us, l.observed_us, coalesce(l.fade_us, l.changed_us),
	coalesce(l.round_id = $1, false)
FROM (SELECT * FROM price_in LIMIT %s) i LEFT JOIN pool_price l ON l.pool_id = i.pool_id
WHERE i.pool_id > 0 AND (NOT i.several AND i.price_micros = l.price_micros AND l.round_id = $1 AND l.state IN ('fresh', 'frozen')
	AND i.source = l.source AND i.effective_us <= l.effective_us AND i.observed_us >= l.observed_us) IS NOT TRUE
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, l.pool_id, l.price_micros, l.effective_us, l.observed_us, coalesce(l.fade_us, l.changed_us), true
FROM pool_price l WHERE l.round_id = $1 AND l.pool_id NOT IN (SELECT i.pool_id FROM price_in i)
	$q$, points + 1) USING in_round;
END $$;

-- Stores the points that price_move leaves. Several points of one pool keep their order: the newest has the poll's observed_us, each older one a
-- microsecond less. Known history is left out. A pool's newest point confirms the known price even with an earlier date, since a price list knows only
-- its own dates.
CREATE FUNCTION price_rest(in_round int8, points int8) RETURNS TABLE (looked int8, changed int8, pools int8) LANGUAGE plpgsql SET enable_nestloop = off AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY
	WITH s AS MATERIALIZED (
		SELECT * FROM price_seen(in_round, points)
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
			round_id = coalesce(in_round, l.round_id)
		FROM m WHERE m.was IS NOT NULL AND l.pool_id = m.pool_id AND l.pool_id = ANY (ARRAY(SELECT pool_id FROM m WHERE was IS NOT NULL))
			AND NOT (m.mine AND m.to_us IS NULL AND m.price_micros = l.price_micros AND m.source = l.source AND m.effective_us <= l.effective_us
				AND l.state IN ('fresh', 'frozen'))
	), fresh AS (
		INSERT INTO pool_latest (pool_id, price_micros, observed_us, effective_us, changed_us, source, state, fade_us, fade_w, fade_1, fade_2, round_id)
		SELECT pool_id, price_micros, observed_us, effective_us, effective_us, source, 'fresh',
			coalesce(to_us, effective_us), coalesce(w, 0), coalesce(w1, 0), coalesce(w2, 0), in_round
		FROM m WHERE was IS NULL ORDER BY pool_id ON CONFLICT (pool_id) DO NOTHING
	), gone AS (
		UPDATE pool_latest l SET round_id = NULL, observed_us = s.confirmed_us
		FROM (SELECT DISTINCT known_id, confirmed_us FROM s WHERE mine AND NOT EXISTS (SELECT FROM n WHERE n.pool_id = s.known_id)) s
		WHERE l.pool_id = s.known_id AND l.pool_id = ANY (ARRAY(SELECT known_id FROM s WHERE mine))
	)
	SELECT (SELECT count(*) FROM s WHERE pool_id IS NOT NULL), (SELECT count(*) FROM later) + (SELECT count(*) FROM changed),
		(SELECT count(*) FROM m);
END $$;

-- Stores the poll of a feed, if price_in names one and its lease holds, else the points alone. The round of the feed confirms the pools whose price
-- stands, and no row of them is written. Column price_micros of the feed's row is 0 if no price seems to have moved; the result does not depend on it.
CREATE OR REPLACE FUNCTION price_merge() RETURNS TABLE (looked int8, changed int8, pools int8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	points int8;
	moved int8 := 0;
	stands bool;
	poll record;
	round record;
BEGIN
	points := (SELECT count(*) FROM price_in WHERE pool_id > 0);
	SELECT split_part(source, E'\n', 1) AS provider, split_part(source, E'\n', 2) AS region, split_part(source, E'\n', 3) AS feed,
		observed_us, price_micros > 0 AS moves INTO poll
	FROM price_in WHERE pool_id = 0 AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = effective_us FOR KEY SHARE) LIMIT 1;
	IF NOT FOUND THEN
		RETURN QUERY SELECT * FROM price_rest(NULL, points);
		RETURN;
	END IF;
	SELECT id, confirmed_us INTO round FROM price_round
	WHERE provider = poll.provider AND region = poll.region AND feed = poll.feed FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		INSERT INTO price_round (provider, region, feed, confirmed_us) VALUES (poll.provider, poll.region, poll.feed, poll.observed_us)
		RETURNING id, confirmed_us INTO round;
	ELSIF poll.moves THEN
		moved := price_move(round.id, round.confirmed_us);
	END IF;
	IF moved = points THEN
		stands := (SELECT count(*) = points FROM pool_latest WHERE round_id = round.id);
	ELSE
		stands := price_stands(round.id, round.confirmed_us, points);
	END IF;
	IF stands THEN
		RETURN QUERY SELECT moved, moved, moved;
	ELSE
		RETURN QUERY SELECT r.looked + moved, r.changed + moved, r.pools + moved FROM price_rest(round.id, points) r;
	END IF;
	UPDATE price_round SET confirmed_us = poll.observed_us WHERE id = round.id AND confirmed_us < poll.observed_us;
END $$;
