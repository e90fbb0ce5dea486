-- Supply tightness of pool groups, and jobs that begin later.

CREATE TABLE supply_state (              -- a group is (provider, region, GPU) of the spot market
	provider       text NOT NULL,
	region         text NOT NULL,
	gpu_name       text NOT NULL,
	state          text NOT NULL CHECK (state IN ('easy', 'tight')),
	since_us       int8 NOT NULL,    -- of the state
	calm_us        int8 NOT NULL,    -- since when its index is low; 0 = it is not
	idx            float8 NOT NULL,
	parts          jsonb NOT NULL,   -- what was seen, and what each part adds to the index
	why            text NOT NULL,
	at_us          int8 NOT NULL,
	PRIMARY KEY (provider, region, gpu_name)
);

-- start_after of the job file, or a deferral decided by the engine. NULL: deferral was not thought about yet.
ALTER TABLE job ADD COLUMN not_before_us int8;

CREATE INDEX node_pool ON node (pool_id, created_us);
CREATE INDEX node_ended ON node (ended_us) WHERE ended_us IS NOT NULL;
