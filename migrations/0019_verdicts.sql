-- What was decided about machines and jobs that might be lost, and what was seen by whom at that moment. A row each time that a
-- machine is suspected, cleared, noticed or given up, and each time that a job loses its machine.
CREATE TABLE verdict (
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at_us          int8 NOT NULL,
	node_id        int8 NOT NULL REFERENCES node,
	job_id         int8 REFERENCES job,
	epoch          int4,
	rank           int4,
	-- suspected, healthy (again), notice; given up: lost, reclaimed, silent, broken, boot_timeout; denied (not our machine),
	-- refused (a launch, late); job_lost: a job, or a rank of one, that ended with its machine
	kind           text NOT NULL,
	why            text NOT NULL,
	seen           jsonb NOT NULL,
	step           int8 NOT NULL DEFAULT 0,   -- of its job, as far as it was reported
	since_us       int8,             -- given up: it was over since then, by what was seen while a daemon listened
	missed         boolean NOT NULL DEFAULT false, -- and that was longer than it should take to be found
	false_us       int8,             -- it was alive after all: when that was seen
	false_why      text NOT NULL DEFAULT ''
);
CREATE INDEX verdict_node ON verdict (node_id, id);
CREATE INDEX verdict_job ON verdict (job_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX verdict_open ON verdict (at_us) WHERE kind IN ('lost', 'reclaimed', 'silent', 'broken', 'boot_timeout') AND false_us IS NULL;

ALTER TABLE node ADD COLUMN suspect_us int8,         -- under suspicion since
	ADD COLUMN provider_since_us int8,           -- when its provider first said provider_state
	ADD COLUMN provider_past jsonb NOT NULL DEFAULT '[]', -- what it said when, the last six changes
	ADD COLUMN unanswered int4 NOT NULL DEFAULT 0, -- questions in a row without an answer that is good for something
	ADD COLUMN unanswered_us int8,
	ADD COLUMN unanswered_why text NOT NULL DEFAULT '',
	ADD COLUMN said_job int8,                    -- the agent's last word: what it has (0 = nothing) and at which step
	ADD COLUMN said_epoch int4,
	ADD COLUMN said_step int8;

-- One more change of what a provider says; "by" is how it was heard: asked, or told by itself.
CREATE FUNCTION provider_past(past jsonb, state text, at_us int8, by text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN jsonb_array_length(past) >= 6 THEN past - 0 ELSE past END || jsonb_build_object('state', state, '@', at_us, 'by', by)
$$;

-- What is known of a node now, by whom. Names that end in @ are times; the API writes them as such. listens_us: since when the
-- daemon that decides has led, and so heard.
CREATE FUNCTION node_seen(n node, listens_us int8) RETURNS jsonb LANGUAGE sql STABLE AS $$
	SELECT jsonb_build_object(
		'agent', jsonb_build_object('enrolled@', n.enrol_used_us, 'spoke@', n.last_seen_us, 'job', 'j' || nullif(n.said_job, 0),
			'epoch', CASE WHEN n.said_job > 0 THEN n.said_epoch END, 'step', CASE WHEN n.said_step >= 0 THEN n.said_step END),
		'provider', jsonb_build_object('state', n.provider_state, 'since@', n.provider_since_us, 'said@', n.provider_seen_us,
			'reason', n.last_error, 'past', n.provider_past, 'answers_without_it', n.gone_seen, 'unanswered', n.unanswered,
			'unanswered@', n.unanswered_us, 'unanswered_why', n.unanswered_why),
		'notices', (SELECT coalesce(jsonb_agg(jsonb_build_object('kind', o.kind, 'by', o.source, 'heard@', o.heard_us,
			'deadline@', nullif(o.deadline_us, 0)) ORDER BY o.heard_us), '[]') FROM notice o WHERE o.node_id = n.id),
		'job', (SELECT jsonb_build_object('job', 'j' || a.job_id, 'epoch', a.epoch, 'rank', a.rank, 'phase', a.phase,
				'step', a.steps_done, 'step@', a.steps_us, 'ended@', a.ended_us, 'checkpoint', 'c' || j.checkpoint_id)
			FROM attempt a JOIN job j ON j.id = a.job_id WHERE a.node_id = n.id
			ORDER BY a.created_us DESC, a.epoch DESC LIMIT 1),
		'daemon', (SELECT jsonb_build_object('listens@', listens_us, 'other_agents', count(*), 'others_spoke@', max(o.last_seen_us))
			FROM node o WHERE o.state IN ('READY', 'DRAINING') AND o.id <> n.id))
$$;

-- Which job a node serves: the one that is on it, or else the one that it was wanted for.
CREATE FUNCTION node_serves(n node) RETURNS TABLE (job_id int8, epoch int4, rank int4, step int8) LANGUAGE sql STABLE AS $$
	(SELECT a.job_id, a.epoch, a.rank, a.steps_done FROM attempt a WHERE a.node_id = n.id AND NOT a.settled
		ORDER BY a.created_us DESC, a.epoch DESC LIMIT 1)
	UNION ALL SELECT n.job_id, NULL, NULL, 0 LIMIT 1
$$;

CREATE VIEW api_verdict AS
SELECT v.id, v.job_id, v.node_id, v.at_us, v.kind, v.missed, v.false_us, json_build_object('id', v.id, '@', v.at_us, 'node', 'n' || v.node_id,
	'job', 'j' || v.job_id, 'epoch', v.epoch, 'rank', v.rank, 'verdict', v.kind, 'why', v.why, 'seen', v.seen, 'over_since@', v.since_us,
	'missed', v.missed, 'alive_after@', v.false_us, 'alive_after_why', v.false_why) AS doc
FROM verdict v;

-- What a machine was chosen by, for whoever it serves by now.
CREATE INDEX decision_node ON decision (node_id, id) WHERE node_id IS NOT NULL;
