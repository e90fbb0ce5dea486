-- Where a pool's price comes from: sums over its past that fade with a time constant of 7 days. Of a price p that held from s
-- to e the weight at fade_us is exp(-(fade_us - e) / 7 d) - exp(-(fade_us - s) / 7 d): fade_w sums the weights (1 = the
-- whole past was seen), fade_1 weight times USD an hour, fade_2 weight times its square. The price of the row holds since
-- fade_us. A poll that brings another price brings them up (store/sql/price.sql).
ALTER TABLE pool_latest ADD COLUMN fade_us int8, ADD COLUMN fade_w float8, ADD COLUMN fade_1 float8,
	ADD COLUMN fade_2 float8;

-- The sums at the time of the last poll. A row of before this migration has none: its price holds since it changed.
CREATE FUNCTION price_faded(l pool_latest) RETURNS TABLE (w float8, w1 float8, w2 float8) LANGUAGE sql IMMUTABLE AS $$
SELECT coalesce(l.fade_w, 0) * k + now, coalesce(l.fade_1, 0) * k + now * p, coalesce(l.fade_2, 0) * k + now * p * p
FROM (SELECT k, 1 - k + 1e-9 AS now, l.price_micros / 1e6::float8 AS p
	FROM (SELECT exp(-least(greatest(l.observed_us - coalesce(l.fade_us, l.changed_us), 0) / 6.048e11::float8, 700)) AS k) x) y
$$;
