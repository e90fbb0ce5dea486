-- Our own record by the hour: how a pool is just now, at which time of day it loses nodes, and which pools lose them
-- together.
CREATE TABLE pool_hour (
	pool_id        int4 NOT NULL REFERENCES pool,
	at_hour        int4 NOT NULL,    -- hours since the epoch, UTC
	node_us        int8 NOT NULL DEFAULT 0,
	reclaims       int4 NOT NULL DEFAULT 0,
	launches       int4 NOT NULL DEFAULT 0,
	refusals       int4 NOT NULL DEFAULT 0,
	PRIMARY KEY (pool_id, at_hour)
);
CREATE INDEX pool_hour_at ON pool_hour (at_hour);

CREATE TABLE pool_habit (                -- what is worked out of pool_hour now and then
	pool_id        int4 PRIMARY KEY REFERENCES pool,
	record         text NOT NULL,    -- numbers, in the order of core/hazard_record.c
	at_us          int8 NOT NULL
);

-- Our own record since a day: plain sums, and as the hazard model reads it, each event weighted by its age with these
-- half-lives.
CREATE FUNCTION pool_record(since_day int4, now_us int8, half_h float8, recent_h float8, odds_h float8)
	RETURNS TABLE (pool_id int4, node_us int8, reclaims int4, launches int4, refusals int4, record text)
	LANGUAGE sql STABLE AS $$
SELECT d.pool_id, d.node_us, d.reclaims, d.launches, d.refusals,
	concat_ws(' ', d.aged_h, d.aged_reclaims, coalesce(h.launches, 0), coalesce(h.refusals, 0), coalesce(h.hours, 0),
		coalesce(h.reclaims, 0), b.record)
FROM (SELECT x.pool_id, sum(x.node_us)::int8 AS node_us, sum(x.reclaims)::int4 AS reclaims,
		sum(x.launches)::int4 AS launches, sum(x.refusals)::int4 AS refusals, sum(x.node_us * x.w) / 3.6e9 AS aged_h,
		sum(x.reclaims * x.w) AS aged_reclaims
	FROM (SELECT p.*, power(0.5::float8, greatest($2 / 86400000000 - p.day, 0) * 24 / $3) AS w FROM pool_day p
		WHERE p.day >= $1) x GROUP BY x.pool_id) d
LEFT JOIN (SELECT x.pool_id, sum(x.node_us * x.recent) / 3.6e9 AS hours, sum(x.reclaims * x.recent) AS reclaims,
		sum(x.launches * x.odds) AS launches, sum(x.refusals * x.odds) AS refusals
	FROM (SELECT p.*, power(0.5::float8, greatest($2 / 3600000000 - p.at_hour, 0) / $4) AS recent,
			power(0.5::float8, greatest($2 / 3600000000 - p.at_hour, 0) / $5) AS odds FROM pool_hour p
		WHERE p.at_hour > $2 / 3600000000 - 96) x GROUP BY x.pool_id) h ON h.pool_id = d.pool_id
LEFT JOIN pool_habit b ON b.pool_id = d.pool_id $$;
