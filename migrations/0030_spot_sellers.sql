-- For a plan to say what the engine would do. Which configured providers sell spot, as the engine publishes it; NULL: no engine of this release has said so yet.
ALTER TABLE provider ADD COLUMN sells_spot bool;
-- The newest jobs of a name that ran, behind thousands that wait; takes as long as the job table is large.
CREATE INDEX job_ran ON job (name, team, id) WHERE epoch > 0;
