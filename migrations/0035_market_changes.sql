-- Says which pools of the market changed, so that a process can keep the market in memory. Triggers
-- write the rows, so the previous daemon's writes are seen too. CREATE TRIGGER lets nobody write to
-- its table for an instant. Fast.

-- A process reads the rows that its last snapshot did not show (pg_visible_in_snapshot), so the
-- order of commits hides none. A row names pools, or all pools of a provider and region ('' = every
-- region). Rows are deleted after some minutes (market_changes_trim).
CREATE TABLE market_change (
	seq            int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
	at             timestamptz NOT NULL DEFAULT now(), -- of the server
	pool_ids       int4[],
	round_id       int8,             -- of price_round: the prices of its pools stand
	provider       text,
	region         text
);
CREATE INDEX market_change_xid ON market_change (xid);
-- The newest transaction whose row was deleted. A process that read last before it reads everything.
CREATE TABLE market_trimmed (
	only_one       bool PRIMARY KEY DEFAULT true CHECK (only_one),
	xid            xid8 NOT NULL
);
INSERT INTO market_trimmed (xid) VALUES ('0');

-- For statement triggers of tables with pool_id; "moved" is the transition table.
CREATE FUNCTION market_pools_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO market_change (pool_ids) SELECT array_agg(DISTINCT pool_id) FROM moved HAVING count(*) > 0;
	RETURN NULL;
END $$;
-- The same for tables with provider and region.
CREATE FUNCTION market_places_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO market_change (provider, region) SELECT DISTINCT provider, region FROM moved;
	RETURN NULL;
END $$;
CREATE FUNCTION market_pool_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO market_change (pool_ids) SELECT array_agg(id) FROM moved HAVING count(*) > 0;
	RETURN NULL;
END $$;
-- For row triggers.
CREATE FUNCTION market_pool_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO market_change (pool_ids) VALUES (ARRAY[NEW.id]);
	RETURN NULL;
END $$;
CREATE FUNCTION market_place_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO market_change (provider, region) VALUES (NEW.provider, NEW.region);
	RETURN NULL;
END $$;
CREATE FUNCTION market_node_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO market_change (pool_ids) VALUES (CASE TG_OP WHEN 'DELETE' THEN ARRAY[OLD.pool_id]
		ELSE ARRAY[OLD.pool_id, NEW.pool_id] END);
	RETURN NULL;
END $$;

-- How the market counts a node: 2 = against its quota, 1 = alive, 0 = not at all.
CREATE FUNCTION market_node_counts(state text) RETURNS int4 LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY', 'DRAINING') THEN 2
		WHEN state IN ('GONE', 'FAILED') THEN 0 ELSE 1 END
$$;
-- Only what changes a count fires. A heartbeat sets no column named here.
CREATE TRIGGER node_market_add AFTER INSERT ON node REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER node_market_change AFTER UPDATE OF state, pool_id ON node FOR EACH ROW
	WHEN (OLD.pool_id <> NEW.pool_id OR (OLD.state <> NEW.state AND market_node_counts(OLD.state) <> market_node_counts(NEW.state)))
	EXECUTE FUNCTION market_node_moved();
CREATE TRIGGER node_market_delete AFTER DELETE ON node FOR EACH ROW
	WHEN (OLD.state NOT IN ('GONE', 'FAILED')) EXECUTE FUNCTION market_node_moved();

-- A poll that confirms a pool changes seen_us alone.
CREATE TRIGGER pool_market_add AFTER INSERT ON pool REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pool_added();
CREATE TRIGGER pool_market_change AFTER UPDATE ON pool FOR EACH ROW
	WHEN (OLD.offered <> NEW.offered OR (OLD.zone_name, OLD.gpu_name, OLD.gpu_milli, OLD.gpu_mem_mib, OLD.vcpus, OLD.mem_mib,
		OLD.arch, OLD.quota_class, OLD.provider, OLD.region, OLD.zone, OLD.instance_type, OLD.market)
		IS DISTINCT FROM (NEW.zone_name, NEW.gpu_name, NEW.gpu_milli, NEW.gpu_mem_mib, NEW.vcpus, NEW.mem_mib,
		NEW.arch, NEW.quota_class, NEW.provider, NEW.region, NEW.zone, NEW.instance_type, NEW.market))
	EXECUTE FUNCTION market_pool_moved();

CREATE TRIGGER price_market_add AFTER INSERT ON pool_latest REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER price_market_change AFTER UPDATE ON pool_latest REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER price_market_delete AFTER DELETE ON pool_latest REFERENCING OLD TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
-- A poll that only confirms prices writes one row. A new round comes with rows of pool_latest. A clock that is corrected
-- takes a round back, and what its pools had before is read again.
CREATE FUNCTION market_round_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF NEW.confirmed_us > OLD.confirmed_us THEN
		INSERT INTO market_change (round_id) VALUES (NEW.id);
	ELSE
		INSERT INTO market_change (pool_ids) SELECT array_agg(pool_id) FROM pool_latest WHERE round_id = NEW.id HAVING count(*) > 0;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER round_market_change AFTER UPDATE ON price_round FOR EACH ROW
	WHEN (OLD.confirmed_us <> NEW.confirmed_us) EXECUTE FUNCTION market_round_moved();
CREATE TRIGGER cool_market_add AFTER INSERT ON pool_cool REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER cool_market_change AFTER UPDATE ON pool_cool REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER cool_market_delete AFTER DELETE ON pool_cool REFERENCING OLD TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER day_market_add AFTER INSERT ON pool_day REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER day_market_change AFTER UPDATE ON pool_day REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER hour_market_add AFTER INSERT ON pool_hour REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER hour_market_change AFTER UPDATE ON pool_hour REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER habit_market_add AFTER INSERT ON pool_habit REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER habit_market_change AFTER UPDATE ON pool_habit REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();

CREATE TRIGGER signal_market_add AFTER INSERT ON signal REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_places_moved();
CREATE TRIGGER signal_market_change AFTER UPDATE ON signal REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_places_moved();
CREATE TRIGGER signal_market_delete AFTER DELETE ON signal REFERENCING OLD TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_places_moved();
CREATE TRIGGER quota_market_add AFTER INSERT ON quota REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_places_moved();
CREATE TRIGGER quota_market_change AFTER UPDATE ON quota FOR EACH ROW
	WHEN (OLD.unit <> NEW.unit OR OLD.quota_limit <> NEW.quota_limit) EXECUTE FUNCTION market_place_moved();
CREATE TRIGGER quota_market_delete AFTER DELETE ON quota REFERENCING OLD TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_places_moved();

-- The signals of one place and type side by side, as signal_wide (0005) has those of all.
CREATE FUNCTION signals_of(in_provider text, in_region text, in_zone text, in_type text, in_market text)
	RETURNS TABLE (advisor_lo float8, advisor_hi float8, advisor_as_of_us int8, band_lo float8, band_hi float8, share float8,
		share_lo float8, share_hi float8, odds float8, odds_us int8, score float8, capacity float8, capacity_us int8)
	LANGUAGE sql STABLE AS $$
SELECT max(lo) FILTER (WHERE kind = 'advisor_bucket'), max(hi) FILTER (WHERE kind = 'advisor_bucket'),
	max(as_of_us) FILTER (WHERE kind = 'advisor_bucket'), max(lo) FILTER (WHERE kind = 'eviction_band'),
	max(hi) FILTER (WHERE kind = 'eviction_band'), max(value) FILTER (WHERE kind = 'preemption_share'),
	max(lo) FILTER (WHERE kind = 'preemption_share'), max(hi) FILTER (WHERE kind = 'preemption_share'),
	max(value) FILTER (WHERE kind = 'obtainability'), max(observed_us) FILTER (WHERE kind = 'obtainability'),
	max(value) FILTER (WHERE kind = 'placement_score'), max(value) FILTER (WHERE kind = 'capacity'),
	max(observed_us) FILTER (WHERE kind = 'capacity')
FROM signal WHERE provider = $1 AND region = $2 AND zone = $3 AND instance_type = $4 AND market = $5 HAVING count(*) > 0
$$;

-- Our own record of a pool, as pool_record (0009) reads it of all.
CREATE FUNCTION pool_record_of(in_pool int4, since_day int4, now_us int8, half_h float8, recent_h float8, odds_h float8)
	RETURNS TABLE (node_us int8, reclaims int4, launches int4, refusals int4, record text)
	LANGUAGE sql STABLE AS $$
SELECT d.node_us, d.reclaims, d.launches, d.refusals,
	concat_ws(' ', d.aged_h, d.aged_reclaims, coalesce(h.launches, 0), coalesce(h.refusals, 0), coalesce(h.hours, 0),
		coalesce(h.reclaims, 0), (SELECT b.record FROM pool_habit b WHERE b.pool_id = $1))
FROM (SELECT sum(x.node_us)::int8 AS node_us, sum(x.reclaims)::int4 AS reclaims, sum(x.launches)::int4 AS launches,
		sum(x.refusals)::int4 AS refusals, sum(x.node_us * x.w) / 3.6e9 AS aged_h, sum(x.reclaims * x.w) AS aged_reclaims
	FROM (SELECT p.*, power(0.5::float8, greatest($3 / 86400000000 - p.day, 0) * 24 / $4) AS w FROM pool_day p
		WHERE p.pool_id = $1 AND p.day >= $2) x HAVING count(*) > 0) d,
	(SELECT sum(x.node_us * x.recent) / 3.6e9 AS hours, sum(x.reclaims * x.recent) AS reclaims,
		sum(x.launches * x.odds) AS launches, sum(x.refusals * x.odds) AS refusals
	FROM (SELECT p.*, power(0.5::float8, greatest($3 / 3600000000 - p.at_hour, 0) / $5) AS recent,
			power(0.5::float8, greatest($3 / 3600000000 - p.at_hour, 0) / $6) AS odds FROM pool_hour p
		WHERE p.pool_id = $1 AND p.at_hour > $3 / 3600000000 - 96) x) h
$$;
