-- Recovery as a figure. An attempt whose machine got a notice or was lost has a row. The row has
-- the time of each phase until the job makes progress again.

-- By our clock: the agent reports how long ago each was.
ALTER TABLE attempt ADD COLUMN left_signal_us int8,   -- the agent asked the job to save and leave
	ADD COLUMN left_saved_us int8,                -- the job confirmed that save
	ADD COLUMN first_step_us int8;                -- first progress beyond steps_start

CREATE TABLE recovery (
	job_id       int8 NOT NULL REFERENCES job,
	epoch        int4 NOT NULL,
	rank         int4 NOT NULL,
	node_id      int8 NOT NULL REFERENCES node,
	provider     text NOT NULL,
	cause        text NOT NULL CHECK (cause IN ('notice', 'loss')),
	saves        boolean NOT NULL,    -- the job has a checkpoint directory
	notice_us    int8 NOT NULL,       -- the notice was heard, or the loss was found
	deadline_us  int8,                -- of the notice
	signal_us    int8,
	saved_us     int8,
	committed_us int8,                -- the save is durable, of a gang on all ranks
	wanted_us    int8,                -- first node wanted for the job since
	launched_us  int8,                -- the launch call of the next machine returned
	enrolled_us  int8,
	step_us      int8,                -- first progress of a later attempt
	in_window    boolean,             -- the save was durable by the deadline; NULL = not known or not asked
	outcome      text NOT NULL DEFAULT 'open' CHECK (outcome IN ('open', 'recovered', 'failed', 'ended')),
	ended_us     int8,                -- when the outcome was written, with the sums
	PRIMARY KEY (job_id, epoch, rank)
);
CREATE INDEX recovery_open ON recovery (job_id) WHERE outcome = 'open';
CREATE INDEX recovery_notice ON recovery (notice_us);

-- The histograms of all recoveries that ever ended. The statement that writes an outcome adds the
-- recovery.
CREATE TABLE recovery_sum (
	provider text NOT NULL,
	phase    text NOT NULL,
	bucket   int4 NOT NULL,           -- number of bounds below the duration
	n        int8 NOT NULL,
	us       int8 NOT NULL,
	PRIMARY KEY (provider, phase, bucket)
);

-- The broker's own notices: it moves the job, and no provider takes the machine.
CREATE FUNCTION notice_is_ours(source text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT source IN ('api', 'fleet', 'preemption', 'deadline policy') $$;

-- The new deadline is a second or more before the one of the notice, which is then handled again.
CREATE FUNCTION notice_sooner(o notice, deadline int8) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT deadline > 0 AND o.deadline_us > 0 AND deadline <= o.deadline_us - 1000000 $$;

-- The provider refused the launch after it had accepted it, and no machine ran: it bills nothing.
CREATE FUNCTION node_never_ran(n node) RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT n.end_cause = 'refused' AND n.enrol_used_us IS NULL AND n.provider_state <> 'running'
	AND NOT n.provider_past @> '[{"state": "running"}]' $$;

-- The number in a fleet's id such as 'f12'; NULL for any other text.
CREATE FUNCTION fleet_id_of(word text) RETURNS int8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT CASE WHEN word ~ '^f[1-9][0-9]{0,17}$' THEN substr(word, 2)::int8 END $$;

-- The job has a checkpoint directory.
CREATE FUNCTION job_saves(j job) RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT coalesce(j.spec #>> '{checkpoint,path}', '') <> '' $$;

-- The upper bounds of the buckets; one more bucket has none.
CREATE FUNCTION recovery_bounds() RETURNS int8[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT ARRAY[50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000, 120000000, 300000000,
	600000000, 1800000000, 3600000000]::int8[] $$;

-- The phases of a recovery, in order. There are two ways: the save (signal, saved, committed) and
-- the next machine (wanted, launched, enrolled, first_step). The first phase of each begins at the
-- notice, the others at the end of the phase before. NULL: one of its ends is not known.
CREATE FUNCTION recovery_phases(r recovery) RETURNS TABLE (i int4, phase text, us int8) LANGUAGE sql IMMUTABLE AS $$
SELECT x.i, x.phase, CASE WHEN x.to_us < x.from_us THEN 0 ELSE x.to_us - x.from_us END FROM (VALUES
	(1, 'signal', r.notice_us, r.signal_us), (2, 'saved', r.signal_us, r.saved_us), (3, 'committed', r.saved_us, r.committed_us),
	(4, 'wanted', r.notice_us, r.wanted_us), (5, 'launched', r.wanted_us, r.launched_us), (6, 'enrolled', r.launched_us, r.enrolled_us),
	(7, 'first_step', r.enrolled_us, r.step_us), (8, 'total', r.notice_us, r.step_us)) x (i, phase, from_us, to_us)
ORDER BY x.i $$;

-- The next attempt of the same rank: the first that made progress, else the newest. A job that
-- reports no steps makes progress when it runs.
CREATE FUNCTION recovery_next(r recovery, counts boolean) RETURNS TABLE (node_id int8, step_us int8) LANGUAGE sql STABLE AS $$
SELECT b.node_id, p.us FROM attempt b CROSS JOIN LATERAL (SELECT coalesce(b.first_step_us,
	CASE WHEN b.exit_reason = 'ok' THEN b.ended_us WHEN NOT counts THEN b.started_us END) AS us) p
WHERE b.job_id = r.job_id AND b.rank = r.rank AND b.epoch > r.epoch
ORDER BY p.us IS NULL, CASE WHEN p.us IS NULL THEN -b.epoch ELSE b.epoch END LIMIT 1 $$;

-- The recovery as the rows of attempts, checkpoints and nodes tell it now. The times of the agent
-- lack the time that its requests took. So none counts as before the one that causes it.
CREATE FUNCTION recovery_now(r recovery) RETURNS SETOF recovery LANGUAGE sql STABLE AS $$
SELECT r.job_id, r.epoch, r.rank, r.node_id, r.provider, r.cause, r.saves, r.notice_us, r.deadline_us,
	s.signal_us, s.saved_us, CASE WHEN c.us IS NOT NULL THEN greatest(c.us, s.saved_us, s.signal_us) END, w.us, n.launched_us, n.enrol_used_us, x.step_us,
	CASE WHEN r.cause = 'notice' AND r.saves THEN CASE WHEN c.us <= r.deadline_us
		OR (a.exit_reason IN ('drained', 'ok') AND a.ended_us <= r.deadline_us AND EXISTS (SELECT FROM checkpoint k WHERE k.job_id = r.job_id
			AND k.rank = r.rank AND k.epoch <= r.epoch AND k.state = 'COMMITTED' AND k.steps >= a.steps_done)) THEN true
		WHEN o.outcome IN ('recovered', 'failed') THEN false END END,
	o.outcome, r.ended_us
FROM attempt a JOIN job j ON j.id = a.job_id
CROSS JOIN LATERAL (SELECT CASE WHEN a.left_signal_us IS NOT NULL THEN greatest(a.left_signal_us, r.notice_us) END AS signal_us,
	CASE WHEN a.left_saved_us IS NOT NULL THEN greatest(a.left_saved_us, a.left_signal_us, r.notice_us) END AS saved_us) s
LEFT JOIN LATERAL recovery_next(r, j.steps_total > 0 OR j.steps_done > 0) x ON true
CROSS JOIN LATERAL (SELECT min(CASE WHEN j.num_nodes > 1 THEN c.set_us ELSE c.committed_us END) AS us FROM checkpoint c
	WHERE c.job_id = r.job_id AND c.epoch = r.epoch AND c.rank = r.rank AND c.reason <> 'periodic' AND c.state = 'COMMITTED'
		AND c.committed_us >= r.notice_us) c
CROSS JOIN LATERAL (SELECT min(n.created_us) AS us FROM node n WHERE n.job_id = r.job_id AND n.created_us >= r.notice_us) w
LEFT JOIN node n ON n.created_us >= r.notice_us AND n.id = coalesce(x.node_id, (SELECT max(m.id) FROM node m WHERE m.job_id = r.job_id
	AND coalesce(m.gang_rank, 0) = r.rank AND m.state NOT IN ('GONE', 'FAILED')))
CROSS JOIN LATERAL (SELECT CASE WHEN x.step_us IS NOT NULL THEN 'recovered' WHEN j.state = 'FAILED' THEN 'failed'
	WHEN j.state IN ('SUCCEEDED', 'CANCELLED') THEN 'ended' ELSE 'open' END AS outcome) o
WHERE a.job_id = r.job_id AND a.epoch = r.epoch AND a.rank = r.rank $$;

-- Recoveries of a job as the API shows them.
CREATE VIEW api_recovery AS
SELECT r.job_id, r.epoch, r.rank, json_build_object('epoch', r.epoch, 'rank', r.rank, 'node', 'n' || r.node_id, 'provider', r.provider,
	'cause', r.cause, 'outcome', r.outcome, 'in_window', r.in_window, 'notice@', r.notice_us, 'deadline@', r.deadline_us,
	'signal@', r.signal_us, 'saved@', r.saved_us, 'committed@', r.committed_us, 'wanted@', r.wanted_us, 'launched@', r.launched_us,
	'enrolled@', r.enrolled_us, 'first_step@', r.step_us,
	'phases', (SELECT json_object_agg(p.phase || '_s', round(p.us / 1e6, 3) ORDER BY p.i) FROM recovery_phases(r) p)) AS doc
FROM recovery r;
