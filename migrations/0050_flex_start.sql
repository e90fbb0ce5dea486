-- A market more: Google's flex-start machines, which wait in a queue. Fast: it checks the pools, some thousand rows.

ALTER TABLE pool DROP CONSTRAINT pool_market_check,
	ADD CONSTRAINT pool_market_check CHECK (market IN ('spot', 'on_demand', 'reserved', 'interruptible',
		'flex_start'));

-- An order that ended in its provider's queue: it never had a machine, and so no launch time.
CREATE FUNCTION node_unserved(n node) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
SELECT n.state = 'BOOTING' AND n.launched_us IS NULL AND (n.provider_state = 'gone' OR n.gone_seen >= 2) $$;
-- A node whose provider took the order, and then had no machine for it.
CREATE FUNCTION node_refused(n node) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
SELECT node_unserved(n) OR (n.state = 'BOOTING' AND n.provider_state IN ('failed_no_capacity', 'failed_quota')) $$;

-- The time at which a machine of the pool loses its place, if it began now; null = never, or unknown.
CREATE FUNCTION pool_ends(p pool) RETURNS int8 LANGUAGE sql STABLE AS $$
SELECT CASE WHEN p.market IN ('reserved', 'flex_start') THEN (SELECT (s.value * 1000000)::int8 FROM signal s
	WHERE (s.provider, s.region, s.zone, s.instance_type, s.market, s.kind) =
		(p.provider, p.region, p.zone, p.instance_type, p.market, 'ends')) END $$;
