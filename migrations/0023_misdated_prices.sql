-- A clock that was ahead and was set right leaves prices that were observed at a time to come: they would stand before all that is observed
-- until then, and after. Such a point is copied to when the clock was set right; ledger lines may name the first one, so it stays.
CREATE TABLE price_misdated (
	pool_id        int4 NOT NULL,
	observed_us    int8 NOT NULL,
	PRIMARY KEY (pool_id, observed_us)
);
CREATE VIEW price_dated AS
SELECT * FROM price_point p
WHERE NOT EXISTS (SELECT FROM price_misdated m WHERE (m.pool_id, m.observed_us) = (p.pool_id, p.observed_us));
