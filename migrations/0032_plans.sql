-- Plans that hold with 10,000 live nodes and any history. An index lets nobody write to its table
-- while it is built. For event, the largest, that is about a second for a million rows.

-- Each heartbeat updates its node, attempt and job. With room in the page the new row needs no new
-- index entries. This counts for pages filled from now on.
ALTER TABLE node SET (fillfactor = 70);
ALTER TABLE attempt SET (fillfactor = 70);
ALTER TABLE job SET (fillfactor = 70);

-- Live nodes in order of their ids. The primary key would lead through all nodes that ever were.
CREATE INDEX node_live_id ON node (id) WHERE state NOT IN ('GONE', 'FAILED');

-- Attempts that use their node (view node_use): they run, or their end is not settled yet.
CREATE INDEX attempt_used ON attempt (node_id) WHERE ended_us IS NULL OR NOT settled;

-- Launches that were once ambiguous.
CREATE INDEX event_unknown ON event (node_id) WHERE now = 'UNKNOWN';

-- Was a machine that was given up ended as a leak later?
CREATE INDEX orphan_ref ON orphan (ref);

-- The parts of node_seen (0019) that belong to the node alone. A statement about many nodes counts
-- the other agents once and adds them itself.
CREATE FUNCTION node_evidence(n node) RETURNS jsonb LANGUAGE sql STABLE AS $$
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
			ORDER BY a.created_us DESC, a.epoch DESC LIMIT 1))
$$;
CREATE OR REPLACE FUNCTION node_seen(n node, listens_us int8) RETURNS jsonb LANGUAGE sql STABLE AS $$
	SELECT node_evidence(n) || jsonb_build_object('daemon', (SELECT jsonb_build_object('listens@', listens_us, 'other_agents', count(*),
			'others_spoke@', max(o.last_seen_us))
		FROM node o WHERE o.state IN ('READY', 'DRAINING') AND o.id <> n.id))
$$;
