-- Examinations: what an operator asked to be looked at (spotctl doctor), and what was seen.
CREATE TABLE doctor_run (
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	actor          text NOT NULL,
	providers      text NOT NULL DEFAULT '',     -- names, comma separated; '' = all that are configured
	state          text NOT NULL CHECK (state IN ('pending', 'running', 'done')),
	created_us     int8 NOT NULL,
	done_us        int8,
	claimed_by     text NOT NULL DEFAULT '',
	claim_until_us int8 NOT NULL DEFAULT 0
);
CREATE INDEX doctor_run_open ON doctor_run (id) WHERE state <> 'done';

CREATE TABLE doctor_item (
	run_id         int8 NOT NULL REFERENCES doctor_run ON DELETE CASCADE,
	provider       text NOT NULL,    -- 'spotd' = the daemon itself
	region         text NOT NULL,
	part           text NOT NULL,    -- which look it comes from: one statement writes one part
	seq            int4 NOT NULL,
	name           text NOT NULL,
	state          text NOT NULL CHECK (state IN ('ok', 'warn', 'bad', 'untested')),
	words          text NOT NULL,
	fix            text NOT NULL,
	amount         int8,             -- where the item is a number: requests per day
	PRIMARY KEY (run_id, provider, region, part, seq)
);
