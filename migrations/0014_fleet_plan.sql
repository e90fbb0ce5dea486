-- What the engine last decided for a fleet, with its sums, bound and limits (core/fleet.h), and when.
ALTER TABLE fleet ADD COLUMN plan jsonb;
ALTER TABLE fleet ADD COLUMN plan_us int8 NOT NULL DEFAULT 0;
