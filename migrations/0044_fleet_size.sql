-- Fleets whose size follows demand (core/fleet/fleet_size.h). The engine writes the size and its reason; fleets of a
-- fixed size keep NULL. Old daemons read the target in spec.
ALTER TABLE fleet
	ADD COLUMN size int4,                              -- wanted nodes or GPUs
	ADD COLUMN size_rule text NOT NULL DEFAULT '',     -- the rule that decided it
	ADD COLUMN size_why text NOT NULL DEFAULT '',
	ADD COLUMN size_us int8 NOT NULL DEFAULT 0,        -- since when
	ADD COLUMN size_look_us int8 NOT NULL DEFAULT 0,   -- the reason was written then
	ADD COLUMN size_next_us int8 NOT NULL DEFAULT 0,   -- the next decision by the clock; 0 = none
	ADD COLUMN size_open bool NOT NULL DEFAULT false,  -- inside of the schedule
	ADD COLUMN size_slack_us int8 NOT NULL DEFAULT 0,  -- since when it needs less; 0 = it does not
	ADD COLUMN size_seen jsonb,                        -- the figures of that decision
	-- demand from outside: the last PUT
	ADD COLUMN demand int4,
	ADD COLUMN demand_unit text NOT NULL DEFAULT '',   -- replicas, nodes or gpus
	ADD COLUMN demand_us int8 NOT NULL DEFAULT 0,
	ADD COLUMN demand_until_us int8 NOT NULL DEFAULT 0,
	ADD COLUMN demand_by text NOT NULL DEFAULT '',
	ADD COLUMN demand_version int8 NOT NULL DEFAULT 0, -- ETag
	-- demand by a query: the last answer, and the last error since
	ADD COLUMN metric_value float8,
	ADD COLUMN metric_before float8,                   -- the answer before
	ADD COLUMN metric_us int8 NOT NULL DEFAULT 0,
	ADD COLUMN metric_tried_us int8 NOT NULL DEFAULT 0,
	ADD COLUMN metric_error text NOT NULL DEFAULT '';
CREATE INDEX fleet_scaled ON fleet (id) WHERE state = 'ACTIVE' AND spec ? 'scaling';

-- A job that takes any fleet of its team has a fleet_id once the engine chose one.
ALTER TABLE job ADD COLUMN fleet_any bool NOT NULL DEFAULT false;
-- The queue of a fleet, and jobs that look for one.
CREATE INDEX job_fleet_waits ON job (fleet_id, queued_us) WHERE state = 'QUEUED' AND cancel_us IS NULL AND fleet_id IS NOT NULL;
CREATE INDEX job_fleet_any ON job (team, queued_us) WHERE state = 'QUEUED' AND cancel_us IS NULL AND fleet_any;
