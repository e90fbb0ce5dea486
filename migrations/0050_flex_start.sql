-- A market more: Google's flex-start machines, which wait in a queue. Fast: it checks the pools, some thousand rows.

ALTER TABLE pool DROP CONSTRAINT pool_market_check,
	ADD CONSTRAINT pool_market_check CHECK (market IN ('spot', 'on_demand', 'reserved', 'interruptible',
		'flex_start'));

-- An order that ended in its provider's queue: it never had a machine, and so no launch time.
CREATE FUNCTION node_unserved(n node) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
SELECT n.state = 'BOOTING' AND n.launched_us IS NULL AND (n.provider_state = 'gone' OR n.gone_seen >= 2) $$;
