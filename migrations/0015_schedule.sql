-- Who waits where in the queue and why, as the engine last worked it out (core/schedule.h); a row per waiting job.
CREATE TABLE job_queue (
	job_id         int8 PRIMARY KEY REFERENCES job,
	pos            int4 NOT NULL,    -- from 1
	effective      int4 NOT NULL,    -- priority with its ageing
	ratio          float8 NOT NULL,  -- dollars of its team over its share, with what stands ahead
	why            text NOT NULL,
	at_us          int8 NOT NULL
);
-- Shares between teams, and their dollars, which fade; brought up from ledger lines up to ledger_id at spent_us.
CREATE TABLE team_share (
	team           text PRIMARY KEY,
	weight_pm      int8 NOT NULL DEFAULT 1000 CHECK (weight_pm > 0),
	set_by         text NOT NULL DEFAULT '',
	updated_us     int8 NOT NULL DEFAULT 0,
	spent_micros   int8 NOT NULL DEFAULT 0,
	spent_us       int8 NOT NULL DEFAULT 0,
	ledger_id      int8 NOT NULL DEFAULT 0
);
CREATE INDEX decision_preempted ON decision (at_us) WHERE kind = 'preempted';
