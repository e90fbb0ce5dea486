-- Times that a wall clock wrote which was wrong, put right when it is right again.

-- One that lies ahead is down_us less, or now where that would be a quarter of an hour before the clock came into doubt; one that lies a minute or
-- more before that, of what began since, is up_us more, but never ahead. A time that is not known stays so.
CREATE FUNCTION time_put_right(t int8, now_us int8, doubt_us int8, up_us int8, down_us int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
SELECT CASE WHEN t > now_us THEN CASE WHEN t - down_us >= doubt_us - 900000000 THEN t - down_us ELSE now_us END
	WHEN t < doubt_us - 60000000 THEN least(t + up_us, now_us) ELSE t END
$$;

-- What ran on a machine, for its bill: attempt_node is of those that run.
CREATE INDEX attempt_of_node ON attempt (node_id, created_us);

-- What a leak costs (0018): an order for machines says of which type they are, and costs as one of them as soon as it is delivered.
CREATE OR REPLACE VIEW leak AS
SELECT o.provider, o.region AS list_region, coalesce(nullif(o.where_region, ''), o.region) AS region, o.zone, o.instance_type, o.market, o.ref,
	o.kind, o.created_us, o.first_us, o.terminate_us, o.gone_us, o.why, o.word, o.word_by, o.word_us,
	CASE WHEN o.gone_us IS NOT NULL THEN 'gone' WHEN o.terminate_us IS NOT NULL THEN 'ending' WHEN o.word = 'keep' OR (o.kept AND o.word = '')
		THEN 'kept' ELSE 'found' END AS state,
	CASE WHEN o.kind = 'instance' OR o.instance_type <> '' THEN coalesce(p.price_micros, 0) ELSE 0 END AS price_micros
FROM orphan o LEFT JOIN LATERAL (
	SELECT l.price_micros FROM pool p JOIN pool_latest l ON l.pool_id = p.id
	WHERE p.provider = o.provider AND p.instance_type = o.instance_type AND p.region = coalesce(nullif(o.where_region, ''), o.region)
		AND p.market = coalesce(nullif(o.market, ''), 'on_demand')
	ORDER BY (p.zone = o.zone) DESC, l.price_micros DESC LIMIT 1) p ON true;
