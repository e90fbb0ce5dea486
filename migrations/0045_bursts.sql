-- Reclaims that come together: the newest reclaim of each pool raises the hazard of its siblings, and jobs on them may be asked to save. Fast: new
-- tables, and a column without a default.

ALTER TABLE attempt ADD COLUMN save_asked_us int8; -- the engine asked for a save without a stop

CREATE TABLE pool_reclaim (              -- the newest reclaim of a pool
	pool_id        int4 PRIMARY KEY REFERENCES pool,
	at_us          int8 NOT NULL
);
CREATE TRIGGER reclaim_market_add AFTER INSERT ON pool_reclaim REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER reclaim_market_change AFTER UPDATE ON pool_reclaim REFERENCING NEW TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();
CREATE TRIGGER reclaim_market_delete AFTER DELETE ON pool_reclaim REFERENCING OLD TABLE AS moved
	FOR EACH STATEMENT EXECUTE FUNCTION market_pools_moved();

-- The hardware that pools share, as core/hazard names it: the GPU, or without one the type's name up to its size.
CREATE FUNCTION pool_family(gpu_name text, instance_type text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
SELECT CASE WHEN $1 <> '' THEN $1 WHEN starts_with($2, 'Standard_') THEN substring($2 FROM '^Standard_[^0-9]*')
	ELSE substring($2 FROM '^[^.-]*') END
$$;

CREATE TABLE burst (                     -- reclaims of a family in a region that follow each other closely
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	provider       text NOT NULL,
	region         text NOT NULL,
	family         text NOT NULL,
	began_us       int8 NOT NULL,
	last_us        int8 NOT NULL     -- its newest reclaim
);
CREATE INDEX burst_place ON burst (provider, region, family, last_us);
CREATE INDEX burst_last ON burst (last_us);

CREATE TABLE burst_save (                -- a burst asked an attempt to save: once
	burst_id       int8 NOT NULL REFERENCES burst ON DELETE CASCADE,
	job_id         int8 NOT NULL REFERENCES job ON DELETE CASCADE,
	epoch          int4 NOT NULL,
	node_id        int8 NOT NULL REFERENCES node ON DELETE CASCADE,
	struck_us      int8 NOT NULL,    -- the sibling's reclaim
	at_us          int8 NOT NULL,
	PRIMARY KEY (burst_id, job_id, epoch)
);
CREATE INDEX burst_save_job ON burst_save (job_id);
CREATE INDEX burst_save_node ON burst_save (node_id);
CREATE INDEX burst_save_at ON burst_save (at_us);
