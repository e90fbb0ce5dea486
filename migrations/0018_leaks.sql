-- When the engine was led, and by which epoch: what was launched while nobody led is not of this database's history (it was
-- restored from a backup since, or another one has the same install id). What was before this migration counts as led.
CREATE TABLE led (
	epoch          int8 PRIMARY KEY,
	from_us        int8 NOT NULL,
	to_us          int8 NOT NULL     -- last renewed
);
INSERT INTO led SELECT 0, 0, max(at_us) FROM event HAVING max(at_us) IS NOT NULL;

-- What a leak is and costs, and what was said about it.
ALTER TABLE orphan ADD COLUMN zone text NOT NULL DEFAULT '', ADD COLUMN where_region text NOT NULL DEFAULT '',
	ADD COLUMN instance_type text NOT NULL DEFAULT '', ADD COLUMN market text NOT NULL DEFAULT '',
	ADD COLUMN created_us int8,      -- by the provider; NULL = not told
	ADD COLUMN kept boolean NOT NULL DEFAULT false, -- not ended unless somebody says so; why tells why
	ADD COLUMN word text NOT NULL DEFAULT '' CHECK (word IN ('', 'end', 'keep')),
	ADD COLUMN word_by text NOT NULL DEFAULT '', ADD COLUMN word_us int8;

-- What each leak costs: the price of its pool today, or of the same type anywhere in its region; 0 = not known.
CREATE VIEW leak AS
SELECT o.provider, o.region AS list_region, coalesce(nullif(o.where_region, ''), o.region) AS region, o.zone, o.instance_type, o.market, o.ref,
	o.kind, o.created_us, o.first_us, o.terminate_us, o.gone_us, o.why, o.word, o.word_by, o.word_us,
	CASE WHEN o.gone_us IS NOT NULL THEN 'gone' WHEN o.terminate_us IS NOT NULL THEN 'ending' WHEN o.word = 'keep' OR (o.kept AND o.word = '')
		THEN 'kept' ELSE 'found' END AS state,
	CASE WHEN o.kind = 'instance' THEN coalesce(p.price_micros, 0) ELSE 0 END AS price_micros
FROM orphan o LEFT JOIN LATERAL (
	SELECT l.price_micros FROM pool p JOIN pool_latest l ON l.pool_id = p.id
	WHERE p.provider = o.provider AND p.instance_type = o.instance_type AND p.region = coalesce(nullif(o.where_region, ''), o.region)
		AND p.market = coalesce(nullif(o.market, ''), 'on_demand')
	ORDER BY (p.zone = o.zone) DESC, l.price_micros DESC LIMIT 1) p ON true;
