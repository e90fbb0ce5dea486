-- Daily partitions of price_point are made ahead and dropped by the daemon. DDL takes no parameters,
-- hence functions. The advisory lock keeps two daemons from making the same partition at once.

CREATE FUNCTION price_partitions_ensure(from_us int8, to_us int8) RETURNS int4 LANGUAGE plpgsql AS $$
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
				EXECUTE format('CREATE TABLE %I PARTITION OF price_point FOR VALUES FROM (%s) TO (%s)',
					name, lo, lo + day_us);
				made := made + 1;
			END IF;
		END IF;
		lo := lo + day_us;
	END LOOP;
	RETURN made;
END $$;

CREATE FUNCTION price_partitions_drop(before_us int8) RETURNS int4 LANGUAGE plpgsql AS $$
DECLARE
	name text;
	dropped int4 := 0;
BEGIN
	PERFORM pg_advisory_xact_lock(7236834562);
	FOR name IN
		SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'price_point'::regclass AND c.relname ~ '^price_point_[0-9]{8}$'
			AND (extract(epoch FROM to_date(right(c.relname, 8), 'YYYYMMDD')) + 86400) * 1000000
				<= before_us
	LOOP
		EXECUTE format('DROP TABLE %I', name);
		dropped := dropped + 1;
	END LOOP;
	RETURN dropped;
END $$;
