-- The market of reservations that their owner lends and may reclaim. Fast: pools are few. The previous daemon does not
-- write it, and takes such pools off its list with its next poll.

ALTER TABLE pool DROP CONSTRAINT pool_market_check,
	ADD CONSTRAINT pool_market_check CHECK (market IN ('spot', 'on_demand', 'reserved', 'interruptible'));
