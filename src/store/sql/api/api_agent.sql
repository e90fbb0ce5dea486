-- The agents' requests: facts about nodes and attempts. A report for an attempt that is not the
-- job's newest, or not on this node, changes nothing.

-- name: api_enrol_key
-- rows: 0..1 id text, enrol_key bytea
-- writes: no
-- lane: agent
SELECT id, enrol_key FROM install

-- shared: one launch made the machines of a gang or a set, with one token for all. The instance says
-- which machine it is. The id may be that of a set's first node.
-- name: api_enrol_node
-- params: id int8
-- rows: many id int8, token text, state node_state, ref text?, boot_id text, used bool, shared bool
-- row: enrol_node
-- writes: no
-- lane: agent
SELECT n.id, launch_token(n), n.state, n.ref, n.boot_id, n.enrol_used_us IS NOT NULL,
	n.gang_call OR n.set_id IS NOT NULL
FROM node n WHERE n.id = $1 OR n.set_id = $1

-- name: api_enrol_candidates
-- rows: many id int8, token text, state node_state, ref text?, boot_id text, used bool, shared bool
-- row: enrol_node
-- writes: no
-- lane: agent
SELECT n.id, launch_token(n), n.state, n.ref, n.boot_id, n.enrol_used_us IS NOT NULL,
	n.gang_call OR n.set_id IS NOT NULL
FROM node n WHERE n.state NOT IN ('GONE', 'FAILED')

-- Returns whether a machine whose token no live row has is one that no row ever knew. A machine
-- without an identity may be one that the sweeper keeps, or has not reached yet because nobody led
-- for ten minutes. An empty table led means that nobody ever led, so there is no other history.
-- name: api_enrol_stranger
-- params: ref text, at_us int8
-- rows: 1 stranger bool
-- writes: no
-- lane: agent
SELECT CASE WHEN $1 <> '' THEN NOT EXISTS (SELECT FROM node WHERE ref = $1)
	ELSE EXISTS (SELECT FROM orphan WHERE kind = 'instance' AND kept AND gone_us IS NULL)
		OR (EXISTS (SELECT FROM led) AND NOT EXISTS (SELECT FROM led WHERE from_us <= $2 - 600000000 AND to_us > $2 - 60000000)) END

-- Stores an agent's proof of identity, for the engine to judge (engine_enrol.sql). A repeat finds
-- the verdict. A node stores only a few, so a holder of its token cannot fill the table.
-- name: api_enrol_ask
-- params: id int8, boot_id text, sha256 text, proof text, instance_ref text, peer text, at_us int8
-- rows: 0..1 verdict text, why text, woken bool
-- row: enrol_verdict
-- writes: yes
-- lane: agent
WITH e AS (
	INSERT INTO enrol_proof AS e (node_id, boot_id, sha256, proof, instance_ref, peer, asked_us)
	SELECT $1, $2, $3, $4, $5, $6, $7
	WHERE (SELECT count(*) FROM enrol_proof WHERE node_id = $1 AND (boot_id, sha256) <> ($2, $3)) < 32
	ON CONFLICT (node_id, boot_id, sha256) DO UPDATE SET asked_us = excluded.asked_us
	RETURNING verdict, why
)
SELECT verdict, why, pg_notify('spot_engine', '') IS NOT NULL AS woken FROM e

-- name: api_enrol_verdict
-- params: id int8, boot_id text, sha256 text
-- rows: 0..1 verdict text, why text, woken bool
-- row: enrol_verdict
-- writes: no
-- lane: agent
SELECT verdict, why, false FROM enrol_proof WHERE node_id = $1 AND boot_id = $2 AND sha256 = $3

-- Stores the first use of the token with boot and instance. The same machine gets a new session
-- each time. Requires an accepted proof of this boot.
-- name: api_enrol
-- params: id int8, boot_id text, instance_ref text, session_hash bytea, version text, hw jsonb?, at_us int8, sha256 text
-- rows: 0..1 id int8, woken bool
-- writes: yes
-- lane: agent
WITH n AS (
	UPDATE node SET session_hash = $4, boot_id = $2, agent_version = $5, hw = coalesce($6, hw),
		enrol_used_us = coalesce(enrol_used_us, $7), last_seen_us = $7
	WHERE id = $1 AND state NOT IN ('GONE', 'FAILED', 'TERMINATING')
		AND (enrol_used_us IS NULL OR boot_id = $2) AND (ref IS NULL OR $3 = '' OR ref = $3)
		AND EXISTS (SELECT FROM enrol_proof e WHERE e.node_id = $1 AND e.boot_id = $2 AND e.sha256 = $8
			AND e.verdict IN ('verified', 'waived'))
	RETURNING id, job_id, enrol_used_us = $7 AS first
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, event, why, actor)
	SELECT $7, 'node', 'n' || id, job_id, id, CASE WHEN first THEN 'AGENT_ENROLLED' ELSE 'AGENT_RESTARTED' END,
		'agent ' || $5 || ' of instance ' || $3, 'n' || id FROM n
)
SELECT id, pg_notify('spot_engine', '') IS NOT NULL AS woken FROM n

-- name: api_enrol_alarm
-- params: id int8, why text, at_us int8
-- rows: none
-- writes: yes
-- lane: agent
INSERT INTO event (at_us, entity, entity_id, node_id, event, why, actor) VALUES ($3, 'node', 'n' || $1::int8, $1,
	'ENROL_REFUSED', $2, 'api')

-- Returns the node and its live attempt, of which it has at most one. Only ended attempts are ordered by
-- their start, which a clock step may falsify.
-- name: api_agent_want
-- params: node_id int8
-- rows: 0..1 id int8, hash bytea?, state node_state, drain_deadline_us int8?, why text,
--   job_id int8?, epoch int4?, desired text?, version int8?, phase attempt_phase?,
--   attempt_deadline_us int8?, drain_why text?, live bool, save_asked_us int8?
-- row: agent_want
-- writes: no
-- lane: agent
SELECT n.id, n.session_hash, n.state, n.drain_deadline_us, n.why, a.job_id, a.epoch, a.desired,
	a.version, a.phase, a.drain_deadline_us, a.drain_why,
	a.job_id IS NOT NULL AND a.ended_us IS NULL, a.save_asked_us
FROM node n LEFT JOIN LATERAL (SELECT * FROM attempt WHERE node_id = n.id
	ORDER BY ended_us IS NULL DESC, created_us DESC, epoch DESC LIMIT 1) a ON true
WHERE n.id = $1

-- The same by the node's session.
-- name: api_agent_poll
-- params: hash bytea
-- rows: 0..1 id int8, hash bytea?, state node_state, drain_deadline_us int8?, why text,
--   job_id int8?, epoch int4?, desired text?, version int8?, phase attempt_phase?,
--   attempt_deadline_us int8?, drain_why text?, live bool, save_asked_us int8?
-- row: agent_want
-- writes: no
-- lane: agent
SELECT n.id, n.session_hash, n.state, n.drain_deadline_us, n.why, a.job_id, a.epoch, a.desired,
	a.version, a.phase, a.drain_deadline_us, a.drain_why,
	a.job_id IS NOT NULL AND a.ended_us IS NULL, a.save_asked_us
FROM node n LEFT JOIN LATERAL (SELECT * FROM attempt WHERE node_id = n.id
	ORDER BY ended_us IS NULL DESC, created_us DESC, epoch DESC LIMIT 1) a ON true
WHERE n.session_hash = $1

-- The hazard is that of the newest decision for this machine, whichever job or fleet it was for.
-- For a gang, or several fleet nodes chosen together, the decision names one.
-- name: api_agent_run
-- params: job_id int8, epoch int4, since_day int4, node_id int8
-- rows: 0..1 name text, spec text, secrets text, files text, restore_id int8?, steps_start int8,
--   gpu_milli int4, log_offset int8, market market, adv_lo float8?, adv_hi float8?,
--   adv_as_of_us int8?, own_us int8, reclaims int4, save_us int8, band_lo float8?, band_hi float8?,
--   share float8?, share_lo float8?, share_hi float8?, rank int4, ips text, pool_id int4,
--   provider text, region text, gpu_name text, hazard float8?, steps_total int8, rates text?,
--   restart_us int8
-- writes: no
-- lane: agent
SELECT j.name, j.spec::text, j.secrets::text, a.files::text, a.restore_id, a.steps_start, p.gpu_milli,
	coalesce((SELECT max(at_offset + length(bytes)) FROM job_log l WHERE l.job_id = j.id AND l.epoch = a.epoch
		AND l.rank = a.rank), 0)::int8,
	p.market, s.advisor_lo, s.advisor_hi, s.advisor_as_of_us, r.node_us, r.reclaims,
	coalesce((SELECT c.committed_us - c.created_us FROM checkpoint c WHERE c.id = j.checkpoint_id), 0)::int8,
	s.band_lo, s.band_hi, s.share, s.share_lo, s.share_hi, a.rank,
	(SELECT string_agg(coalesce(nullif(n.hw->>'ip', ''), n.ip), E'\n' ORDER BY m.rank) FROM attempt m
		JOIN node n ON n.id = m.node_id WHERE m.job_id = a.job_id AND m.epoch = a.epoch),
	p.id, p.provider, p.region, p.gpu_name, d.hazard, j.steps_total, w.rates, coalesce(w.restart_us, 0)
FROM attempt a JOIN job j ON j.id = a.job_id JOIN pool p ON p.id = a.pool_id JOIN node me ON me.id = a.node_id
LEFT JOIN LATERAL (SELECT max(w.advisor_lo) AS advisor_lo, max(w.advisor_hi) AS advisor_hi,
	max(w.advisor_as_of_us) AS advisor_as_of_us, max(w.band_lo) AS band_lo, max(w.band_hi) AS band_hi,
	max(w.share) AS share, min(w.share_lo) AS share_lo, max(w.share_hi) AS share_hi
	FROM signal_wide w WHERE w.provider = p.provider AND w.region = p.region AND w.zone IN ('', p.zone)
		AND w.instance_type = p.instance_type AND w.market = p.market) s ON true
LEFT JOIN LATERAL (SELECT coalesce(sum(node_us), 0)::int8 AS node_us, coalesce(sum(reclaims), 0)::int4 AS reclaims
	FROM pool_day WHERE pool_id = p.id AND day >= $3) r ON true
LEFT JOIN LATERAL (SELECT (d.outcome->'pool'->>'hazard_per_hour')::float8 AS hazard
	FROM (SELECT me.id, 0 AS far UNION ALL SELECT x.id, 1 FROM node x WHERE x.gang_id = me.gang_id
		UNION ALL SELECT x.id, 2 FROM node x WHERE x.fleet_id = me.fleet_id AND x.pool_id = me.pool_id
			AND x.state NOT IN ('GONE', 'FAILED')) x
	JOIN decision d ON d.node_id = x.id AND d.outcome->'pool' ? 'hazard_per_hour' ORDER BY x.far, d.id DESC LIMIT 1) d ON true
LEFT JOIN LATERAL job_measured(ARRAY[j.id]) w ON true
WHERE a.job_id = $1 AND a.epoch = $2 AND a.node_id = $4

-- Records that an API is reachable for agents.
-- name: api_listens
-- rows: none
-- writes: yes
INSERT INTO listener (name, beats) VALUES ('api', 1) ON CONFLICT (name) DO UPDATE SET beats = listener.beats + 1

-- Writes heartbeats and progress, gathered for a second. steps -1: none reported. A time that
-- another API wrote by a clock ahead of ours still grows with each message. An agent whose last
-- message time stands still is silent (engine_watch_doubt).
-- name: api_agents_seen
-- params: agent[]
-- rows_in: agent (node_id int8, at_us int8, job_id int8, epoch int4, steps int8)
-- rows: none
-- writes: yes
-- lane: agent
WITH s AS (
	SELECT DISTINCT ON (node_id) * FROM unnest($1, $2, $3, $4, $5) u (node_id, at, job_id, epoch, steps)
	ORDER BY node_id, at DESC
), n AS (
	UPDATE node SET last_seen_us = greatest(coalesce(last_seen_us, 0) + 1, s.at), said_job = s.job_id, said_epoch = s.epoch, said_step = s.steps
	FROM s WHERE node.id = s.node_id
), a AS (
	UPDATE attempt a SET steps_done = s.steps, steps_us = s.at,
		first_step_us = coalesce(a.first_step_us,
			CASE WHEN s.steps > a.steps_start THEN s.at END)
	FROM s
	WHERE a.node_id = s.node_id AND a.job_id = s.job_id AND a.epoch = s.epoch AND a.ended_us IS NULL
		AND s.steps >= 0 AND s.steps <> a.steps_done
	RETURNING a.job_id, a.epoch, a.rank, a.steps_done
)
UPDATE job SET steps_done = a.steps_done FROM a WHERE job.id = a.job_id AND job.epoch = a.epoch AND a.rank = 0

-- name: api_agent_notice
-- params: node_id int8, kind text, deadline_us int8, source text, raw text, at_us int8,
--   heard_us int8
-- rows: 0..1 node_id int8, woken bool
-- writes: yes
-- lane: agent
WITH o AS (
	INSERT INTO notice AS o (node_id, kind, deadline_us, source, raw, heard_us)
	VALUES ($1, $2, $3, $4, $5, $7)
	ON CONFLICT (node_id, kind) DO UPDATE SET
		deadline_us = CASE WHEN excluded.deadline_us = 0 THEN o.deadline_us WHEN o.deadline_us = 0
			THEN excluded.deadline_us ELSE least(o.deadline_us, excluded.deadline_us) END,
		source = CASE WHEN notice_sooner(o, excluded.deadline_us) THEN excluded.source
			ELSE o.source END,
		handled_us = CASE WHEN NOT notice_sooner(o, excluded.deadline_us)
			THEN o.handled_us END
	RETURNING node_id, heard_us = $7 AS first
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, event, why, actor)
	SELECT $6, 'node', 'n' || o.node_id, a.job_id, o.node_id, 'NOTICE_HEARD', $2 || ' from ' || $4, 'n' || o.node_id
	FROM o LEFT JOIN attempt a ON a.node_id = o.node_id AND a.ended_us IS NULL WHERE o.first
)
SELECT node_id, pg_notify('spot_engine', '') IS NOT NULL AS woken FROM o

-- Column known: the attempt is on this node. Column fresh: it is the job's newest and has not
-- ended. Column same: this exit was reported before (a repeat after a lost reply). A job that
-- stopped without our order (by the SIGTERM of its Pod) also gives its reason. Agents of before
-- 0042 do not report a first step: the first report of a later step counts.
-- name: api_agent_report
-- params: node_id int8, job_id int8, epoch int4, phase attempt_phase, steps_done int8, steps_total int8, exit_code int4?,
--   exit_signal int4?, reason text, why text, signalled_us int8?, at_us int8, left_signal_us int8?,
--   left_saved_us int8?, first_step_us int8?
-- rows: 0..1 fresh bool, same bool, woken bool, told bool
-- writes: yes
-- lane: agent
WITH o AS (
	SELECT a.job_id, a.epoch, a.rank, a.phase, a.ended_us IS NULL AND a.phase <> 'EXITED' AND j.epoch = a.epoch AS fresh,
		a.phase = 'EXITED' AND $4 = 'EXITED' AND a.exit_reason = $9 AND j.epoch = a.epoch AS same
	FROM attempt a JOIN job j ON j.id = a.job_id
	WHERE a.job_id = $2 AND a.epoch = $3 AND a.node_id = $1 FOR NO KEY UPDATE OF a, j
), a AS (
	UPDATE attempt a SET phase = $4, steps_done = CASE WHEN $5 >= 0 THEN $5 ELSE a.steps_done END,
		steps_us = CASE WHEN $5 >= 0 THEN $12 ELSE a.steps_us END,
		started_us = CASE WHEN $4 = 'RUNNING' THEN coalesce(a.started_us, $12) ELSE a.started_us END,
		signalled_us = coalesce(a.signalled_us, $11),
		left_signal_us = coalesce(a.left_signal_us, $13),
		left_saved_us = coalesce(a.left_saved_us, $14),
		first_step_us = least(a.first_step_us,
			coalesce($15, CASE WHEN $5 > a.steps_start THEN $12 END)),
		exit_code = $7, exit_signal = $8, exit_reason = CASE WHEN $4 = 'EXITED' THEN $9 ELSE a.exit_reason END,
		drain_why = CASE WHEN $4 = 'EXITED' AND $9 = 'drained' AND a.drain_why = '' THEN coalesce((SELECT n.kind || ' notice ('
			|| n.source || ')' FROM notice n WHERE n.node_id = $1 AND n.kind <> 'rebalance' ORDER BY n.heard_us LIMIT 1),
			nullif($10, ''), 'its agent was told to stop') ELSE a.drain_why END,
		ended_us = CASE WHEN $4 = 'EXITED' THEN $12 ELSE NULL END
	FROM o WHERE o.fresh AND a.job_id = o.job_id AND a.epoch = o.epoch AND a.rank = o.rank
	RETURNING a.job_id, a.epoch, a.rank, a.steps_done
), j AS (
	UPDATE job SET steps_done = CASE WHEN a.rank = 0 THEN a.steps_done ELSE job.steps_done END,
		steps_total = CASE WHEN $6 > 0 AND a.rank = 0 THEN $6 ELSE steps_total END,
		started_us = CASE WHEN $4 = 'RUNNING' THEN coalesce(started_us, $12) ELSE started_us END
	FROM a WHERE job.id = a.job_id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, epoch, was, now, event, why, actor)
	SELECT $12, 'attempt', 'j' || o.job_id || '/' || o.epoch || CASE WHEN o.rank > 0 THEN '/' || o.rank ELSE '' END, o.job_id, $1, o.epoch, o.phase, $4, 'PHASE',
		CASE WHEN $9 = '' THEN $10 ELSE $9 || CASE WHEN $10 = '' THEN '' ELSE ': ' || $10 END END, 'n' || $1::int8
	FROM o WHERE o.fresh AND (o.phase <> $4)
), late AS (
	UPDATE node SET last_seen_us = greatest(coalesce(last_seen_us, 0) + 1, $12), said_job = $2, said_epoch = $3, said_step = $5
	FROM o WHERE node.id = $1 AND NOT o.fresh
)
SELECT fresh, same, pg_notify('spot_engine', '') IS NOT NULL AS woken,
	pg_notify('spot_api', 'j' || job_id) IS NOT NULL AS told FROM o

-- Opens a checkpoint and abandons earlier open ones of the attempt. A chunk is not fresh if one of
-- the rank's last four committed checkpoints has its bytes. Only those still have objects, and all
-- jobs share the hash of the empty file.
-- name: api_checkpoint_open
-- params: node_id int8, job_id int8, epoch int4, reason text, steps int8, chunk[], at_us int8
-- rows_in: chunk checkpoint_chunk (path text, seq int4, bytes int8, mode int4, sha256 text)
-- rows: 0..1 id int8, fresh int8, woken bool
-- writes: yes
-- lane: agent
WITH ok AS (
	SELECT j.id, a.epoch, a.rank FROM attempt a JOIN job j ON j.id = a.job_id AND j.epoch = a.epoch
	WHERE a.job_id = $2 AND a.epoch = $3 AND a.node_id = $1 AND a.ended_us IS NULL FOR NO KEY UPDATE OF j
), old AS (
	UPDATE checkpoint c SET state = 'ABANDONED' FROM ok WHERE c.job_id = ok.id AND c.rank = ok.rank AND c.state = 'OPEN'
	RETURNING c.id
), blank AS (
	UPDATE checkpoint_chunk k SET upload_url = NULL, upload_headers = NULL FROM old
	WHERE k.checkpoint_id = old.id AND k.upload_url IS NOT NULL
), past AS MATERIALIZED (
	SELECT DISTINCT ON (k.sha256, k.bytes) k.sha256, k.bytes, k.object_key
	FROM (SELECT c.id FROM checkpoint c JOIN ok ON c.rank = ok.rank WHERE c.job_id = $2 AND c.state = 'COMMITTED' ORDER BY c.id DESC LIMIT 4) c
	CROSS JOIN LATERAL (SELECT * FROM checkpoint_chunk k WHERE k.checkpoint_id = c.id OFFSET 0) k
	ORDER BY k.sha256, k.bytes, k.checkpoint_id DESC
), s AS (
	SELECT u.*, p.object_key AS have FROM ok, unnest($6, $7, $8, $9, $10) u (path, seq, bytes, mode, sha)
	LEFT JOIN past p ON p.sha256 = u.sha AND p.bytes = u.bytes
), c AS (
	INSERT INTO checkpoint (job_id, epoch, rank, state, reason, steps, bytes, bytes_new, created_us, urls_us)
	SELECT ok.id, ok.epoch, ok.rank, 'OPEN', $4, $5, coalesce((SELECT sum(bytes) FROM s), 0)::int8,
		coalesce((SELECT sum(bytes) FROM s WHERE have IS NULL), 0)::int8, $11,
		CASE WHEN EXISTS (SELECT FROM s WHERE have IS NULL) THEN NULL ELSE $11 END
	FROM ok RETURNING id
), k AS (
	INSERT INTO checkpoint_chunk (checkpoint_id, path, seq, bytes, mode, sha256, object_key, fresh)
	SELECT c.id, s.path, s.seq, s.bytes, s.mode, s.sha, coalesce(s.have, 'j' || $2::int8 || '/' || s.sha), s.have IS NULL
	FROM c, s
)
SELECT id, (SELECT count(*) FROM s WHERE have IS NULL)::int8 AS fresh, pg_notify('spot_engine', '') IS NOT NULL AS woken
FROM c

-- Records a refused checkpoint as an event. A refusal repeats at each save, so the same text counts
-- again only after a stored checkpoint. Each machine of an attempt writes at most sixteen.
-- name: api_checkpoint_refused
-- params: node_id int8, job_id int8, epoch int4, why text, at_us int8
-- rows: 0..1 told bool
-- writes: yes
-- lane: agent
WITH ok AS (
	SELECT a.job_id, a.epoch, a.rank FROM attempt a JOIN job j ON j.id = a.job_id AND j.epoch = a.epoch
	WHERE a.job_id = $2 AND a.epoch = $3 AND a.node_id = $1 AND a.ended_us IS NULL
), past AS (
	SELECT e.at_us, e.why FROM event e WHERE e.job_id = $2 AND e.epoch = $3 AND e.node_id = $1 AND e.event = 'CHECKPOINT_REFUSED'
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, epoch, event, why, actor)
	SELECT $5, 'attempt', 'j' || ok.job_id || '/' || ok.epoch || CASE WHEN ok.rank > 0 THEN '/' || ok.rank ELSE '' END, ok.job_id, $1,
		ok.epoch, 'CHECKPOINT_REFUSED', $4, 'n' || $1::int8
	FROM ok WHERE (SELECT count(*) FROM past) < 16 AND NOT EXISTS (SELECT FROM past p WHERE p.why = $4
		AND NOT EXISTS (SELECT FROM checkpoint c WHERE c.job_id = ok.job_id AND c.epoch = ok.epoch AND c.rank = ok.rank
			AND c.state = 'COMMITTED' AND c.committed_us > p.at_us))
	RETURNING job_id
)
SELECT pg_notify('spot_api', 'j' || job_id) IS NOT NULL AS told FROM ev

-- Returns the attempt's open checkpoint, if it is the same one and still waits for URLs. Presigning
-- many takes longer than a held request, and a repeat must not start over.
-- name: api_checkpoint_again
-- params: node_id int8, job_id int8, epoch int4, reason text, steps int8, chunk[]
-- rows_in: chunk checkpoint_chunk (path text, seq int4, bytes int8, mode int4, sha256 text)
-- rows: 0..1 id int8
-- writes: no
-- lane: agent
SELECT c.id FROM attempt a JOIN checkpoint c ON c.job_id = a.job_id AND c.epoch = a.epoch AND c.rank = a.rank
WHERE a.job_id = $2 AND a.epoch = $3 AND a.node_id = $1 AND a.ended_us IS NULL
	AND c.state = 'OPEN' AND c.urls_us IS NULL AND c.reason = $4 AND c.steps = $5
	AND (SELECT count(*) FROM checkpoint_chunk k WHERE k.checkpoint_id = c.id) = cardinality($6)
	AND NOT EXISTS (SELECT FROM unnest($6, $7, $8, $9, $10) u (path, seq, bytes, mode, sha) LEFT JOIN checkpoint_chunk k
		ON k.checkpoint_id = c.id AND k.path = u.path AND k.seq = u.seq AND k.bytes = u.bytes AND k.mode = u.mode AND k.sha256 = u.sha
		WHERE k.checkpoint_id IS NULL)
ORDER BY c.id DESC LIMIT 1

-- Column current: its attempt goes on, so only a newer checkpoint of that attempt can have replaced
-- it. Column doc is empty until all URLs are there.
-- name: api_checkpoint_urls
-- params: id int8
-- rows: 0..1 state checkpoint_state, ready bool, current bool, doc text
-- writes: no
-- lane: agent
SELECT c.state, c.urls_us IS NOT NULL, EXISTS (SELECT FROM attempt a JOIN job j ON j.id = a.job_id AND j.epoch = a.epoch
		WHERE a.job_id = c.job_id AND a.epoch = c.epoch AND a.rank = c.rank AND a.ended_us IS NULL),
	CASE WHEN c.urls_us IS NULL THEN '' ELSE json_build_object('checkpoint', 'c' || c.id,
	'uploads', coalesce((SELECT json_agg(json_strip_nulls(json_build_object('path', k.path, 'seq', k.seq,
		'url', k.upload_url, 'how', nullif(k.upload_how, 'put'), 'headers', k.upload_headers))
		ORDER BY k.path, k.seq) FROM checkpoint_chunk k WHERE k.checkpoint_id = c.id AND k.fresh), '[]'::json))::text END AS doc
FROM checkpoint c WHERE c.id = $1

-- For a gang only complete sets count: the same step of every rank (engine_gang_sets). set_key
-- names the set.
-- name: api_checkpoint_commit
-- params: node_id int8, job_id int8, epoch int4, checkpoint_id int8, at_us int8
-- rows: 0..1 state checkpoint_state, current bool, woken bool, told bool
-- writes: yes
-- lane: agent
WITH ok AS (
	SELECT c.id, c.state, c.steps, j.id AS job_id, j.epoch = a.epoch AS current, j.num_nodes, c.rank,
		CASE WHEN j.num_nodes > 1 THEN CASE WHEN c.steps > 0 THEN c.steps ELSE -1 - (SELECT count(*) FROM checkpoint o
			WHERE o.job_id = j.id AND o.epoch = a.epoch AND o.rank = c.rank AND o.set_key IS NOT NULL) END END AS key
	FROM attempt a JOIN job j ON j.id = a.job_id
	JOIN checkpoint c ON c.job_id = a.job_id AND c.epoch = a.epoch AND c.rank = a.rank
	WHERE a.job_id = $2 AND a.epoch = $3 AND a.node_id = $1 AND c.id = $4 FOR NO KEY UPDATE OF j, c
), c AS (
	UPDATE checkpoint c SET state = 'COMMITTED', committed_us = $5, set_key = ok.key FROM ok
	WHERE c.id = ok.id AND ok.state = 'OPEN' AND ok.current AND c.urls_us IS NOT NULL
	RETURNING c.id, c.job_id, c.steps, c.set_key, c.rank
), j AS (
	UPDATE job SET checkpoint_id = c.id FROM c WHERE job.id = c.job_id AND c.set_key IS NULL
), w AS (
	UPDATE checkpoint_chunk k SET upload_url = NULL, upload_headers = NULL FROM c
	WHERE k.checkpoint_id = c.id AND k.upload_url IS NOT NULL
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, epoch, was, now, event, why, actor)
	SELECT $5, 'checkpoint', 'c' || id, job_id, $1, $3, 'OPEN', 'COMMITTED', 'COMMITTED',
		CASE WHEN set_key IS NULL THEN '' ELSE 'rank ' || rank || ' ' END || 'at step ' || steps,
		'n' || $1::int8 FROM c
)
SELECT CASE WHEN EXISTS (SELECT FROM c) THEN 'COMMITTED' ELSE ok.state END, ok.current,
	pg_notify('spot_engine', '') IS NOT NULL AS woken, pg_notify('spot_api', 'j' || job_id) IS NOT NULL AS told FROM ok

-- Appends a piece that begins at the end of the log. Bytes after the first $7 of an attempt are
-- counted but not stored.
-- name: api_log_append
-- params: node_id int8, job_id int8, epoch int4, at_offset int8, bytes bytea, at_us int8, bytes_max int8
-- rows: 0..1 next_offset int8, told bool
-- writes: yes
-- lane: agent
WITH a AS (
	SELECT job_id, epoch, rank FROM attempt WHERE job_id = $2 AND epoch = $3 AND node_id = $1 FOR NO KEY UPDATE
), e AS (
	SELECT a.rank, coalesce((SELECT at_offset + length(bytes) FROM job_log l WHERE l.job_id = $2 AND l.epoch = $3
		AND l.rank = a.rank ORDER BY at_offset DESC LIMIT 1), 0)::int8 AS n FROM a
), i AS (
	INSERT INTO job_log (job_id, epoch, rank, at_offset, at_us, bytes)
	SELECT $2, $3, e.rank, $4, $6, $5 FROM e WHERE e.n = $4 AND e.n < $7 AND length($5) > 0
	ON CONFLICT DO NOTHING RETURNING at_offset + length(bytes) AS n
)
SELECT CASE WHEN e.n >= $7 THEN $4 + length($5) ELSE coalesce((SELECT n FROM i), e.n) END::int8 AS next_offset, pg_notify('spot_api', 'j' || $2::int8) IS NOT NULL AS told
FROM e

-- name: api_agent_sample
-- params: node_id int8, at_us int8, gpus int4, gpu_util float8?, gpu_mem_used_mib int8?, gpu_mem_total_mib int8?,
--   gpu_power_mw int8?, cpu_util float8?, mem_used_mib int8?
-- rows: none
-- writes: yes
-- lane: agent
INSERT INTO node_sample (node_id, at_us, gpus, gpu_util, gpu_mem_used_mib, gpu_mem_total_mib, gpu_power_mw, cpu_util,
	mem_used_mib) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING

-- Returns a file that nodes download, by its SHA-256. User data pin one, and a daemon asked later
-- may have another version.
-- name: api_handout_get
-- params: sha256 text
-- rows: 0..1 sha256 text, bytes bytea
-- writes: no
-- lane: long
SELECT sha256, bytes FROM agent_binary WHERE sha256 = $1

-- Returns the files that are stored already, and marks them as in use.
-- name: api_handout_seen
-- params: shas text[], at_us int8
-- rows: many sha256 text
-- writes: yes
UPDATE agent_binary SET seen_us = greatest(seen_us, $2) WHERE sha256 = ANY ($1) RETURNING sha256

-- name: api_handout_put
-- params: sha256 text, bytes bytea, at_us int8
-- rows: none
-- writes: yes
-- lane: long
INSERT INTO agent_binary AS b (sha256, bytes, seen_us) VALUES ($1, $2, $3)
ON CONFLICT (sha256) DO UPDATE SET seen_us = greatest(b.seen_us, excluded.seen_us)
