-- Partitions of price_point come and go beside long readers (a backup reads for hours); prices that were in force when their day went stay;
-- one replacement for one machine.

-- Who waits for a lock makes all wait that come after, on every connection: this waits 200 ms, fails, and is tried again. A table that is made by
-- itself and attached asks only for a lock that neither readers nor writers mind. It is new and empty, so that nothing is read to prove its bounds.
CREATE OR REPLACE FUNCTION price_partitions_ensure(from_us int8, to_us int8) RETURNS int4 LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
	day_us constant int8 := 86400000000;
	lo int8;
	name text;
	made int4 := 0;
BEGIN
	IF to_us - from_us > 400 * day_us THEN
		RAISE EXCEPTION 'price_partitions_ensure: more than 400 days asked for';
	END IF;
	lo := from_us - from_us % day_us;
	WHILE lo < to_us LOOP
		name := 'price_point_' || to_char(to_timestamp(lo / 1000000) AT TIME ZONE 'UTC', 'YYYYMMDD');
		IF to_regclass(name) IS NULL THEN
			PERFORM pg_advisory_xact_lock(7236834562);
			IF to_regclass(name) IS NULL THEN
				EXECUTE format('CREATE TABLE %I (LIKE price_point INCLUDING ALL)', name);
				EXECUTE format('ALTER TABLE price_point ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, lo, lo + day_us);
				made := made + 1;
			END IF;
		END IF;
		lo := lo + day_us;
	END LOOP;
	RETURN made;
END $$;

-- price_point holds changes: of a pool whose price stands for longer than prices are kept, the last one would go, and with it what its machines are billed
-- at. So the last point of each pool before the first day that is kept is copied to the beginning of that day, before the pool's own points of it. A minute
-- is left before it for older ones that may still come (copy_merge_past). All or nothing: with a reader there, nothing is copied either.
CREATE OR REPLACE FUNCTION price_partitions_drop(before_us int8) RETURNS int4 LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
	day_us constant int8 := 86400000000;
	over text[];
	kept_us int8;
	name text;
BEGIN
	PERFORM pg_advisory_xact_lock(7236834562);
	SELECT array_agg(d.name ORDER BY lo) FILTER (WHERE lo + day_us <= before_us), min(lo) FILTER (WHERE lo + day_us > before_us) INTO over, kept_us
	FROM (SELECT c.relname AS name, extract(epoch FROM to_date(right(c.relname, 8), 'YYYYMMDD'))::int8 * 1000000 AS lo
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'price_point'::regclass AND c.relname ~ '^price_point_[0-9]{8}$') d;
	IF over IS NULL OR kept_us IS NULL THEN
		RETURN 0;
	END IF;
	INSERT INTO price_point (pool_id, observed_us, effective_us, price_micros, source)
	SELECT o.pool_id, least(k.first_us - 1, kept_us + 60000000), o.effective_us, o.price_micros, o.source
	FROM (SELECT DISTINCT ON (pool_id) * FROM price_dated WHERE observed_us < kept_us ORDER BY pool_id, observed_us DESC) o
		LEFT JOIN (SELECT pool_id, min(observed_us) AS first_us FROM price_point
			WHERE observed_us >= kept_us AND observed_us < kept_us + day_us GROUP BY pool_id) k USING (pool_id)
	WHERE k.first_us IS DISTINCT FROM kept_us
	ON CONFLICT (pool_id, observed_us) DO NOTHING;
	FOREACH name IN ARRAY over LOOP
		EXECUTE format('DROP TABLE %I', name);
	END LOOP;
	RETURN cardinality(over);
END $$;

-- Pools whose last point is gone already: their price is still the latest one's.
INSERT INTO price_point (pool_id, observed_us, effective_us, price_micros, source)
SELECT l.pool_id, l.observed_us, l.changed_us, l.price_micros, l.source FROM pool_latest l
WHERE l.pool_id NOT IN (SELECT pool_id FROM price_point)
	AND to_regclass('price_point_' || to_char(to_timestamp(l.observed_us / 1000000) AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NOT NULL
ON CONFLICT (pool_id, observed_us) DO NOTHING;

-- Two that want a machine for the same job at once each see none yet; the second is refused. A machine that serves its job replaces none any more
-- (engine_assign). Of two that are there already the younger is nobody's replacement now, and goes back.
UPDATE node n SET replaces_id = NULL
WHERE n.replaces_id IS NOT NULL AND n.gang_id IS NULL AND n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')
	AND EXISTS (SELECT FROM node o WHERE (o.job_id, o.replaces_id) = (n.job_id, n.replaces_id) AND o.id < n.id AND o.gang_id IS NULL
		AND o.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY'));
CREATE UNIQUE INDEX node_replacement ON node (job_id, replaces_id)
	WHERE replaces_id IS NOT NULL AND gang_id IS NULL AND state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY');
