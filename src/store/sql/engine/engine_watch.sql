-- The providers' reports about our nodes.

-- Returns the places of our nodes.
-- name: engine_watch_places
-- rows: many provider text, region text
-- writes: no
SELECT DISTINCT p.provider, p.region
FROM (SELECT DISTINCT pool_id FROM node -- index node_watched
	WHERE state IN ('BOOTING', 'READY', 'DRAINING', 'TERMINATING') AND ref IS NOT NULL) n
JOIN pool p ON p.id = n.pool_id

-- Returns the places of nodes that boot or are odd (index node_odd), so it costs these nodes.
-- Column hurry: one of them is silent, or has just come to enrol.
-- name: engine_watch_odd
-- params: at_us int8, silent_us int8
-- rows: many provider text, region text, hurry bool
-- writes: no
SELECT p.provider, p.region, bool_or(CASE n.state
		WHEN 'READY' THEN coalesce(n.last_seen_us, n.ready_us, 0) < $1 - $2
			AND coalesce(n.provider_seen_us, 0) < $1 - 3000000
		ELSE EXISTS (SELECT FROM enrol_proof e WHERE e.node_id = n.id
			AND e.verdict = '' AND e.asked_us > coalesce(n.provider_seen_us, 0)) END)
FROM node n JOIN pool p ON p.id = n.pool_id
WHERE n.ref IS NOT NULL AND n.state IN ('BOOTING', 'READY')
	AND (n.state = 'BOOTING' OR n.gone_seen > 0 OR n.suspect_us IS NOT NULL
		OR n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user', 'interrupted',
			'failed', 'failed_no_capacity', 'failed_quota'))
GROUP BY 1, 2

-- Paged: after is the last id of the previous page. Column save_us: how long the job of a machine
-- takes to save, if the machine's capacity ends. 0 = unknown.
-- Column ran: its agent enrolled, so its provider had the machine.
-- name: engine_watch_refs
-- params: provider text, region text, after int8, most int8
-- rows: many id int8, ref text, state node_state, market market, zone text, instance_type text,
--   spot_request text, launched_us int8, gone_seen int4, save_us int8, ran bool, ends_us int8
-- writes: no
-- lane: long
SELECT n.id, n.ref, n.state, p.market, p.zone, p.instance_type, n.spot_request, coalesce(n.launched_us, n.created_us), n.gone_seen,
	CASE WHEN p.market IN ('reserved', 'interruptible', 'flex_start')
		THEN coalesce((SELECT c.committed_us - c.created_us
		FROM node_serves(n) s JOIN job j ON j.id = s.job_id
		JOIN checkpoint c ON c.id = j.checkpoint_id), 0) ELSE 0 END,
	n.ready_us IS NOT NULL, n.ends_us
FROM node n JOIN pool p ON p.id = n.pool_id
WHERE n.state IN ('BOOTING', 'READY', 'DRAINING', 'TERMINATING') AND n.ref IS NOT NULL
	AND p.provider = $1 AND p.region = $2 AND n.id > $3
ORDER BY n.id LIMIT $4

-- Absence counts from the time when lists must show the machine. The machine of a launch sent more
-- than once may be as young as its answer. A launch in the future stems from a clock step. It is at
-- least as old as its state (engine_clock_settle). A row that changed since the question is newer
-- than the answer and is asked again.
--
-- A machine begins its life, and so its bill and its time to boot, when it leaves the queue.
-- name: engine_watch_seen
-- params: node[], at_us int8, lag_us int8, fence int8, asked_us int8
-- rows_in: node (id int8, state text, ip text, reason text)
-- rows: none
-- writes: yes
UPDATE node n SET provider_state = s.state, provider_seen_us = $5, unanswered = 0,
	provider_since_us = CASE WHEN n.provider_state = s.state THEN n.provider_since_us ELSE $5 END,
	provider_past = CASE WHEN n.provider_state = s.state THEN n.provider_past ELSE provider_past(n.provider_past, s.state, $5, 'asked') END,
	ip = CASE WHEN s.ip <> '' THEN s.ip ELSE n.ip END,
	launched_us = coalesce(n.launched_us,
		CASE WHEN s.state IN ('pending', 'running') THEN $5 END),
	last_error = CASE WHEN s.reason <> '' THEN s.reason ELSE n.last_error END,
	gone_seen = CASE WHEN s.state <> 'absent' THEN 0
		WHEN CASE WHEN greatest(n.launched_us, b.at_us) > $5 THEN n.state_us ELSE greatest(n.launched_us, b.at_us, 0) END + $6 < $5
			THEN n.gone_seen + 1 ELSE 0 END
FROM unnest($1, $2, $3, $4) s (id, state, ip, reason)
	LEFT JOIN LATERAL (SELECT max(e.at_us) AS at_us FROM event e WHERE e.node_id = s.id AND e.now = 'BOOTING') b ON true
WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE)
	AND n.id = s.id AND n.state IN ('BOOTING', 'READY', 'DRAINING', 'TERMINATING')
	AND (n.provider_since_us >= $8 AND n.provider_state <> s.state) IS NOT TRUE
	AND (n.provider_state <> s.state OR s.state NOT IN ('pending', 'running', 'queued') OR n.gone_seen > 0 OR n.unanswered > 0
		OR (n.state = 'BOOTING' AND EXISTS (SELECT FROM enrol_proof e WHERE e.node_id = n.id AND e.verdict = '' AND e.asked_us > n.provider_seen_us))
		OR (s.ip <> '' AND n.ip <> s.ip) OR n.provider_seen_us IS NULL OR n.provider_seen_us < $5 - 30000000
		OR n.last_seen_us < $5 - 20000000)

-- Records a question about these nodes without a complete answer. Not repeated while their agents
-- report.
-- name: engine_watch_unanswered
-- params: ids int8[], why text, at_us int8, fence int8
-- rows: none
-- writes: yes
UPDATE node n SET unanswered = unanswered + 1, unanswered_us = $3, unanswered_why = $2
WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE)
	AND n.id = ANY ($1) AND n.state IN ('BOOTING', 'READY', 'DRAINING', 'TERMINATING')
	AND (n.unanswered = 0 OR n.state = 'BOOTING' OR n.last_seen_us < $3 - 20000000)

-- Begins and ends suspicion. A node becomes suspect if its agent is silent for too long, or if the
-- provider's answers lack the machine. Suspicion ends when the agent reports and the provider lists
-- it again. The only effect is closer watching. An agent that has reported since is not silent,
-- however old that is by our clock. Its suspicion starts over. The evidence is that of
-- node_seen, but the agents are counted once for all.
-- name: engine_watch_doubt
-- params: at_us int8, silent_us int8, up_us int8, fence int8
-- rows: many id int8, begins bool, why text, told bool
-- writes: yes
WITH d AS MATERIALIZED (
	SELECT n.id, n.suspect_us IS NULL AS begins, CASE WHEN n.suspect_us IS NOT NULL THEN 'healthy again after '
			|| ($1 - n.suspect_us) / 1000000 || ' s: its agent spoke ' || ($1 - n.last_seen_us) / 1000000 || ' s ago, its provider says '
			|| n.provider_state
		WHEN n.gone_seen > 0 THEN 'absent from ' || n.gone_seen || CASE n.gone_seen WHEN 1 THEN ' answer' ELSE ' answers' END || ' of its provider; its agent '
			|| coalesce('spoke ' || ($1 - n.last_seen_us) / 1000000 || ' s ago', 'never spoke')
		ELSE 'its agent is silent for ' || ($1 - greatest(coalesce(n.last_seen_us, n.ready_us), $3)) / 1000000 || ' s; its provider says '
			|| CASE WHEN n.provider_state = '' THEN 'nothing' ELSE n.provider_state END END AS why
	FROM node n WHERE n.state = 'READY' AND CASE WHEN n.suspect_us IS NULL
		THEN greatest(coalesce(n.last_seen_us, n.ready_us), $3) + $2 <= $1 OR n.gone_seen > 0
		ELSE n.last_seen_us > $1 - $2 AND n.gone_seen = 0 END
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE)
	ORDER BY n.id LIMIT 500 FOR NO KEY UPDATE OF n SKIP LOCKED
), n AS (
	UPDATE node SET suspect_us = CASE WHEN d.begins THEN $1 END, suspect_seen_us = CASE WHEN d.begins THEN last_seen_us END,
		suspect_beats = (SELECT beats FROM listener WHERE name = 'api')
	FROM d WHERE node.id = d.id RETURNING node.id, node.job_id
), spoke AS (
	UPDATE node SET suspect_us = $1, suspect_seen_us = last_seen_us, suspect_beats = (SELECT beats FROM listener WHERE name = 'api')
	WHERE state = 'READY' AND suspect_us IS NOT NULL AND last_seen_us <= $1 - $2 AND last_seen_us IS DISTINCT FROM suspect_seen_us
		AND id NOT IN (SELECT id FROM d) AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE)
), o AS MATERIALIZED (
	SELECT count(*) AS agents, (array_agg(last_seen_us ORDER BY last_seen_us DESC NULLS LAST))[1:2] AS spoke
	FROM node WHERE state IN ('READY', 'DRAINING')
), v AS (
	INSERT INTO verdict (at_us, node_id, job_id, epoch, rank, kind, why, seen, step)
	SELECT $1, x.id, s.job_id, s.epoch, s.rank, CASE WHEN d.begins THEN 'suspected' ELSE 'healthy' END, d.why,
		node_evidence(x) || jsonb_build_object('daemon', jsonb_build_object('listens@', $3, 'other_agents', o.agents - 1,
			'others_spoke@', CASE WHEN x.last_seen_us = o.spoke[1] THEN o.spoke[2] ELSE o.spoke[1] END)),
		coalesce(s.step, 0)
	FROM o, d JOIN node x ON x.id = d.id LEFT JOIN LATERAL node_serves(x) s ON true RETURNING node_id, job_id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, event, why, actor)
	SELECT $1, 'node', 'n' || d.id, v.job_id, d.id, CASE WHEN d.begins THEN 'SUSPECTED' ELSE 'HEALTHY' END, d.why, 'engine'
	FROM d JOIN v ON v.node_id = d.id
)
SELECT d.id, d.begins, d.why, pg_notify('spot_api', 'n' || d.id) IS NOT NULL AS told FROM d

-- Finds machines that were given up within a week although they were alive. Four signs prove that:
-- - Their provider retracts its report. One that always said running has nothing to retract.
-- - Their agent goes on with its job: at once after a silence, else later than messages already
--   under way.
-- - Their agent enrols after all.
-- - The machine outlived its row and was ended as a leak.
-- name: engine_watch_alive
-- params: at_us int8, grace_us int8, fence int8
-- rows: many node_id int8, kind text, why text
-- writes: yes
WITH d AS (
	SELECT v.id, v.node_id, v.job_id, v.kind, CASE WHEN v.kind = 'boot_timeout' THEN 'its agent came to enrol '
			|| (e.asked_us - v.at_us) / 1000000 || ' s later'
		WHEN n.provider_state = 'running' AND n.provider_since_us > v.at_us AND v.seen->'provider'->>'state' <> 'running' THEN 'its provider says running, '
			|| (n.provider_since_us - v.at_us) / 1000000 || ' s later'
		WHEN o.terminate_us > v.at_us THEN 'its provider listed it all the same; it was ended as a leak '
			|| (o.terminate_us - v.at_us) / 1000000 || ' s later'
		ELSE 'its agent spoke ' || (n.last_seen_us - v.at_us) / 1000000 || ' s later' || CASE WHEN v.epoch IS NULL THEN ''
			ELSE ', at step ' || greatest(n.said_step, 0) || ' of try ' || n.said_epoch || ' (it was at ' || v.step || ')' END END AS why
	FROM verdict v JOIN node n ON n.id = v.node_id
	LEFT JOIN LATERAL (SELECT max(e.asked_us) AS asked_us FROM enrol_proof e WHERE e.node_id = n.id) e ON true
	LEFT JOIN LATERAL (SELECT max(o.terminate_us) AS terminate_us FROM orphan o JOIN pool p ON p.id = n.pool_id
		WHERE o.provider = p.provider AND o.ref = n.ref AND o.kind = 'instance') o ON true
	WHERE v.kind IN ('lost', 'reclaimed', 'silent', 'broken', 'boot_timeout') AND v.false_us IS NULL AND v.at_us > $1 - 604800000000
		AND CASE v.kind WHEN 'boot_timeout' THEN e.asked_us > v.at_us
			ELSE (n.provider_state = 'running' AND n.provider_since_us > v.at_us AND v.seen->'provider'->>'state' <> 'running')
				OR (v.kind IN ('lost', 'reclaimed') AND o.terminate_us > v.at_us)
				OR (v.kind = 'silent' AND v.epoch IS NULL AND n.last_seen_us > v.at_us)
				OR (n.last_seen_us > v.at_us + CASE WHEN v.kind = 'silent' THEN 0 ELSE $2 END AND n.said_job = v.job_id
					AND n.said_epoch = v.epoch AND (n.said_step > v.step OR (v.kind = 'silent' AND v.step = 0)))
			END
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $3 FOR KEY SHARE)
	ORDER BY v.id LIMIT 200
), v AS (
	UPDATE verdict SET false_us = $1, false_why = d.why FROM d WHERE verdict.id = d.id RETURNING verdict.id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, event, why, actor)
	SELECT $1, 'node', 'n' || node_id, job_id, node_id, 'WAS_ALIVE', 'given up (' || kind || ') though it was alive: ' || why, 'engine' FROM d
)
SELECT node_id, kind, why FROM d

-- An agent is silent if its suspicion lasted without another message, since clocks differ and step.
-- For at least half of that time an API must have been reachable. An API beats every beat_us; one
-- that never beat has an earlier version. A launch in the future is as old as its node's state, so
-- a booting node gets no extra time. A queued node has no agent and does not boot. Without a launch
-- time it never left the queue, so its end is a refusal.
-- name: engine_watch_due
-- params: at_us int8, boot_us int8, silent_us int8, up_us int8, speaks_us int8, slow[],
--   beat_us int8
-- rows_in: slow (provider text, boot_us int8)
-- rows: many id int8, state node_state, event node_event, cause text, why text, pool_id int4,
--   market market, ended_by text
-- writes: no
-- lane: long
SELECT n.id, n.state,
	CASE WHEN node_refused(n) OR n.provider_state IN ('failed', 'failed_no_capacity', 'failed_quota') THEN 'BROKEN'
		WHEN n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user', 'interrupted') OR n.gone_seen >= 2 THEN 'VANISHED'
		WHEN n.state = 'BOOTING' AND n.enrol_used_us IS NOT NULL AND coalesce(n.hw->>'gpu_fault', '') <> '' THEN 'BROKEN'
		WHEN n.state = 'BOOTING' AND n.enrol_used_us IS NOT NULL THEN 'ENROLLED'
		WHEN n.state = 'BOOTING' THEN 'BOOT_TIMEOUT' ELSE 'BROKEN' END,
	CASE WHEN n.provider_state IN ('gone_reclaimed', 'interrupted') THEN 'reclaimed'
		WHEN node_refused(n) THEN 'refused'
		WHEN n.state = 'DRAINING' AND n.provider_state = 'gone'
			AND p.market IN ('spot', 'interruptible') THEN 'reclaimed'
		WHEN n.state = 'BOOTING' AND n.provider_state NOT IN ('gone', 'gone_user', 'failed', 'failed_no_capacity',
			'failed_quota') AND n.enrol_used_us IS NULL
			AND n.gone_seen < 2 THEN 'boot_timeout'
		WHEN n.state = 'BOOTING' AND n.enrol_used_us IS NOT NULL AND n.gone_seen < 2
			AND n.provider_state NOT IN ('gone', 'gone_user', 'failed', 'failed_no_capacity', 'failed_quota')
			AND coalesce(n.hw->>'gpu_fault', '') <> '' THEN 'broken'
		WHEN n.enrol_used_us IS NOT NULL AND n.state = 'BOOTING' AND n.gone_seen < 2
			AND n.provider_state NOT IN ('gone', 'gone_user', 'failed', 'failed_no_capacity', 'failed_quota') THEN ''
		ELSE 'lost' END,
	CASE WHEN node_unserved(n) THEN 'its order left the queue of the provider without a machine'
		WHEN n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user', 'interrupted')
			THEN 'provider says ' || n.provider_state || ': ' || n.last_error
		WHEN n.gone_seen >= 2 THEN 'absent from ' || n.gone_seen || ' lists of the provider in a row'
		WHEN n.provider_state IN ('failed_no_capacity', 'failed_quota')
			THEN 'the provider took the order and then had no room: ' || n.last_error
		WHEN n.provider_state = 'failed' THEN 'provider says the instance is broken: ' || n.last_error
		WHEN n.state = 'BOOTING' AND n.enrol_used_us IS NOT NULL AND coalesce(n.hw->>'gpu_fault', '') <> ''
			THEN 'its GPUs cannot be used: ' || left(n.hw->>'gpu_fault', 200)
		WHEN n.state = 'BOOTING' AND n.enrol_used_us IS NOT NULL THEN 'agent enrolled'
		WHEN n.state = 'BOOTING' THEN 'agent did not enrol within ' || greatest($2, coalesce(slow.us, 0)) / 1000000 || ' s; provider says '
			|| CASE WHEN n.provider_state = '' THEN 'nothing' ELSE n.provider_state END
		ELSE 'agent silent for ' || ($1 - greatest(coalesce(n.last_seen_us, n.ready_us), $4)) / 1000000
			|| ' s while the provider says ' || n.provider_state END,
	n.pool_id, p.market, n.provider_state
FROM node n JOIN pool p ON p.id = n.pool_id
	LEFT JOIN unnest($6, $7) slow (provider, us) ON slow.provider = p.provider
WHERE n.state IN ('BOOTING', 'READY', 'DRAINING')
	AND (n.state = 'BOOTING' OR n.gone_seen > 0 OR n.suspect_us IS NOT NULL -- index node_odd
		OR n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user', 'interrupted', 'failed',
			'failed_no_capacity', 'failed_quota'))
	AND (n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user', 'interrupted', 'failed', 'failed_no_capacity',
		'failed_quota')
	OR (n.gone_seen >= 2 AND coalesce(n.last_seen_us, 0) < $1 - $5)
	OR (n.state = 'BOOTING' AND n.provider_state <> 'queued' AND (n.enrol_used_us IS NOT NULL
		OR greatest(CASE WHEN n.launched_us <= $1 THEN n.launched_us END, n.state_us) + greatest($2, coalesce(slow.us, 0)) <= $1))
	OR (n.state = 'READY' AND n.provider_state = 'running'
		AND greatest(coalesce(n.last_seen_us, n.ready_us), $4) + $3 <= $1
		AND n.suspect_us + $3 - $5 <= $1 AND n.suspect_seen_us IS NOT DISTINCT FROM n.last_seen_us
		AND coalesce((SELECT beats FROM listener WHERE name = 'api') - n.suspect_beats >= ($3 - $5) / (2 * $8), true)))
ORDER BY n.id LIMIT 500

-- Starts the cooldown of a pool whose node was reclaimed or did not boot. The record feeds the
-- hazard estimate.
-- name: engine_pool_rest
-- params: pool_id int4, until_us int8, rc text, why text, at_us int8, day int4, reclaims int4, fence int8
-- rows: none
-- writes: yes
WITH f AS (
	SELECT FROM leader WHERE name = 'engine' AND epoch = $8 FOR KEY SHARE
), c AS (
	INSERT INTO pool_cool AS c (pool_id, until_us, refusals, rc, why, at_us) SELECT $1, $2, 1, $3, $4, $5 FROM f
	ON CONFLICT (pool_id) DO UPDATE SET until_us = greatest(c.until_us, excluded.until_us), rc = excluded.rc,
		why = excluded.why, at_us = excluded.at_us
), h AS (
	INSERT INTO pool_hour AS h (pool_id, at_hour, reclaims) SELECT $1, $5 / 3600000000, $7 FROM f
	ON CONFLICT (pool_id, at_hour) DO UPDATE SET reclaims = h.reclaims + excluded.reclaims
), k AS (
	INSERT INTO pool_reclaim AS k (pool_id, at_us) SELECT $1, $5 FROM f WHERE $7 > 0
	ON CONFLICT (pool_id) DO UPDATE SET at_us = excluded.at_us
)
INSERT INTO pool_day AS d (pool_id, day, reclaims) SELECT $1, $6, $7 FROM f
ON CONFLICT (pool_id, day) DO UPDATE SET reclaims = d.reclaims + $7

-- Records a refusal that came after the launch was accepted, like engine_launch_refused. Its rc
-- begins with late. Another accepted launch proves nothing; only a serving node does
-- (engine_pool_serves).
-- name: engine_pool_refused_late
-- params: pool_id int4, rc text, scope text, why text, cool_min_us int8, cool_max_us int8, at_us int8, day int4, fence int8
-- rows: none
-- writes: yes
WITH f AS (
	SELECT FROM leader WHERE name = 'engine' AND epoch = $9 FOR KEY SHARE
), c AS (
	INSERT INTO pool_cool AS c (pool_id, until_us, refusals, rc, why, at_us)
	SELECT q.id, $7 + $5, 1, $2, $4, $7
	FROM f, pool p JOIN pool q ON q.provider = p.provider AND q.region = p.region
	WHERE p.id = $1 AND CASE $3 WHEN 'class' THEN q.quota_class = p.quota_class AND q.market = p.market
		ELSE q.id = p.id END
	ON CONFLICT (pool_id) DO UPDATE SET
		until_us = greatest(c.until_us, cool_until($7, $5, $6, c.refusals)),
		refusals = c.refusals + 1, rc = excluded.rc, why = excluded.why, at_us = excluded.at_us
), h AS (
	INSERT INTO pool_hour AS h (pool_id, at_hour, refusals) SELECT $1, $7 / 3600000000, 1 FROM f
	ON CONFLICT (pool_id, at_hour) DO UPDATE SET refusals = h.refusals + 1
)
INSERT INTO pool_day AS d (pool_id, day, refusals) SELECT $1, $8, 1 FROM f
ON CONFLICT (pool_id, day) DO UPDATE SET refusals = d.refusals + 1

-- name: engine_pool_serves
-- params: pool_id int4, fence int8
-- rows: none
-- writes: yes
DELETE FROM pool_cool WHERE pool_id = $1 AND rc LIKE 'late%'
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $2 FOR KEY SHARE)

-- A machine may have several events of one kind at a time (EC2: a reboot and a retirement). The
-- earliest counts. Param node: ends of capacity that the provider told, 0 where it tells none any
-- more.
-- name: engine_notice_add
-- params: notice[], at_us int8, fence int8, node[]
-- rows_in: notice (node_id int8, kind text, deadline_us int8, source text, raw text)
-- rows_in: node (id int8, ends_us int8)
-- rows: none
-- writes: yes
WITH n AS (
	UPDATE node SET ends_us = x.ends FROM unnest($8, $9) x (id, ends)
	WHERE node.id = x.id AND node.state NOT IN ('GONE', 'FAILED')
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE)
)
INSERT INTO notice AS o (node_id, kind, deadline_us, source, raw, heard_us)
SELECT DISTINCT ON (s.id, s.kind) s.id, s.kind, s.deadline, s.source, s.raw, $6
FROM unnest($1, $2, $3, $4, $5) s (id, kind, deadline, source, raw)
WHERE EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE)
ORDER BY s.id, s.kind, nullif(s.deadline, 0)
ON CONFLICT (node_id, kind) DO UPDATE SET
	deadline_us = least(nullif(o.deadline_us, 0), excluded.deadline_us),
	source = CASE WHEN notice_sooner(o, excluded.deadline_us) THEN excluded.source
		ELSE o.source END,
	handled_us = CASE WHEN NOT notice_sooner(o, excluded.deadline_us) THEN o.handled_us END
	WHERE excluded.deadline_us > 0 AND (o.deadline_us = 0 OR excluded.deadline_us < o.deadline_us)

-- Sets future times of live rows to now, after a clock step. That covers ages and times of the next
-- look; billed times stay. A rate bucket filled in the future would not fill before. A feed asked
-- then would not be asked, and a pool refused then would cool until then. A cooldown ends if its
-- start is unknown and it is longer than any.
--
-- A NULL time stays NULL. least() would take the other value, so it is not used there. The start of
-- a job is computed again if no correct clock computed it. A drain that began in the future keeps
-- its length. An attempt that runs since then would reach its max_duration that much later.
-- name: engine_clock_settle
-- params: at_us int8, fence int8, rest_us int8
-- rows: none
-- writes: yes
WITH f AS MATERIALIZED (
	SELECT FROM leader WHERE name = 'engine' AND epoch = $2 FOR KEY SHARE
), b AS (
	UPDATE rate_bucket SET updated_us = $1 FROM f WHERE updated_us > $1 + 5000000
), p AS (
	UPDATE feed SET next_us = least(next_us, $1), last_ok_us = CASE WHEN last_ok_us > $1 THEN $1 ELSE last_ok_us END, since_us = least(since_us, $1)
	FROM f WHERE greatest(last_ok_us, since_us) > $1 + 5000000 OR next_us > $1 + greatest(2 * interval_us, 3600000000)
), c AS (
	UPDATE pool_cool SET until_us = until_us - at_us + $1, at_us = $1 FROM f WHERE at_us > $1 + 5000000
), k AS (
	UPDATE pool_reclaim SET at_us = $1 FROM f WHERE at_us > $1 + 5000000
), bu AS (
	UPDATE burst SET began_us = least(began_us, $1), last_us = $1 FROM f WHERE last_us > $1 + 5000000
), gc AS (
	UPDATE gang_cool SET until_us = $1 FROM f WHERE until_us > $1 + $3 + 5000000
), s AS (
	UPDATE supply_state SET since_us = least(since_us, $1), calm_us = least(calm_us, $1) FROM f WHERE greatest(since_us, calm_us) > $1 + 5000000
), ep AS (
	UPDATE enrol_proof SET next_us = least(next_us, $1), claim_until_us = least(claim_until_us, $1 + 120000000), asked_us = least(asked_us, $1)
	FROM f WHERE verdict = '' AND (asked_us > $1 + 5000000 OR greatest(next_us, claim_until_us) > $1 + 3600000000)
), o AS (
	UPDATE orphan SET first_us = least(first_us, $1), last_us = least(last_us, $1),
		terminate_us = CASE WHEN terminate_us > $1 THEN $1 ELSE terminate_us END
	FROM f WHERE gone_us IS NULL AND greatest(first_us, last_us, terminate_us) > $1 + 5000000
), g AS (
	UPDATE gang SET created_us = least(created_us, $1), served_us = CASE WHEN served_us > $1 THEN $1 ELSE served_us END,
		wait_until_us = wait_until_us - greatest(wait_us - $1, 0), wait_us = CASE WHEN wait_us > $1 THEN $1 ELSE wait_us END
	FROM f WHERE state <> 'RELEASED' AND greatest(created_us, served_us, wait_us) > $1 + 5000000
), j AS (
	UPDATE job SET state_us = least(state_us, $1), queued_us = least(queued_us, $1)
	FROM f WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED') AND greatest(state_us, queued_us) > $1 + 5000000
), a AS (
	UPDATE attempt SET started_us = $1 FROM f WHERE ended_us IS NULL AND started_us > $1 + 5000000
), nb AS (
	UPDATE job SET not_before_us = NULL
	FROM f WHERE state = 'QUEUED' AND greatest(state_us, queued_us) <= $1 + 5000000 AND not_before_us > $1 + 5000000 AND spec->>'start_after_us' IS NULL
		AND NOT EXISTS (SELECT FROM decision d WHERE d.job_id = job.id AND d.kind = 'defer' AND d.at_us <= $1 + 5000000)
)
UPDATE node SET state_us = least(state_us, $1), next_act_us = least(next_act_us, $1), claim_until_us = least(claim_until_us, $1 + 120000000),
	ready_us = CASE WHEN ready_us > $1 THEN $1 ELSE ready_us END,
	drain_deadline_us = CASE WHEN state = 'DRAINING' AND state_us > $1 + 5000000 AND drain_deadline_us > state_us
		THEN drain_deadline_us - (state_us - $1) ELSE drain_deadline_us END,
	idle_since_us = CASE WHEN idle_since_us > $1 THEN $1 ELSE idle_since_us END,
	last_seen_us = CASE WHEN last_seen_us > $1 THEN $1 ELSE last_seen_us END,
	provider_seen_us = CASE WHEN provider_seen_us > $1 THEN $1 ELSE provider_seen_us END,
	provider_since_us = CASE WHEN provider_since_us > $1 THEN $1 ELSE provider_since_us END,
	suspect_us = CASE WHEN suspect_us > $1 THEN $1 ELSE suspect_us END
FROM f
WHERE state NOT IN ('GONE', 'FAILED') AND (greatest(state_us, ready_us, idle_since_us, last_seen_us, provider_seen_us, provider_since_us, suspect_us)
		> $1 + 5000000 OR greatest(next_act_us, claim_until_us) > $1 + greatest($3, 600000000))

-- Returns the newest event at the time when our clock came into doubt.
-- name: engine_clock_mark
-- rows: 1 id int8
-- writes: no
SELECT coalesce(max(id), 0)::int8 FROM event

-- Corrects the lives of machines and attempts after a clock step, since a wrong clock wrote them.
-- If it was ahead, the last future time becomes now. The distances stay, since the skew is unknown.
-- If it was behind, events since the doubt began (after mark) dated before doubt_us happened at
-- doubt_us, and later ones shift equally.
--
-- Nothing ends before it began. Billed times stay. A launch that may not have arrived (launched_us
-- NULL) begins its life when it was sent, should it be found.
-- name: engine_clock_lives
-- params: at_us int8, doubt_us int8, mark int8, fence int8
-- rows: none
-- writes: yes
WITH m AS MATERIALIZED (
	SELECT node_id AS id, bool_or(now = 'LAUNCHING') AS sent, bool_or(now IN ('GONE', 'FAILED')) AS ended FROM event
	WHERE id > $3 AND entity = 'node' AND at_us < $2 - 60000000 GROUP BY 1
), u AS MATERIALIZED (
	SELECT n.id, launched_us, launch_sent_us, ended_us, billed_to_us, coalesce(m.ended AND ended_us < $2 - 60000000, false) AS short,
		CASE WHEN m.sent AND billed_to_us IS NULL AND launch_sent_us < $2 - 60000000 THEN $2 - launch_sent_us ELSE 0 END AS up_us,
		greatest(CASE WHEN billed_to_us IS NULL THEN coalesce(launched_us, launch_sent_us) END, ended_us) - $1 AS down_us
	FROM node n LEFT JOIN m ON m.id = n.id
	WHERE n.id IN (SELECT id FROM m UNION ALL SELECT id FROM node
			WHERE launched_us IS NOT NULL AND (ended_us IS NULL OR billed_to_us IS NULL OR billed_to_us < ended_us)
			UNION ALL SELECT id FROM node WHERE state NOT IN ('GONE', 'FAILED') AND launched_us IS NULL AND launch_sent_us > $1)
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE)
), t AS (
	SELECT id, billed_to_us, CASE WHEN billed_to_us IS NULL THEN time_put_right(launch_sent_us, $1, $2, up_us, down_us) ELSE launch_sent_us END AS sent_us,
		CASE WHEN billed_to_us IS NULL THEN time_put_right(launched_us, $1, $2, up_us, down_us) ELSE launched_us END AS launched_us,
		CASE WHEN short AND up_us = 0 THEN $2 ELSE time_put_right(ended_us, $1, $2, up_us, down_us) END AS ended_us
	FROM u WHERE up_us > 0 OR down_us > 60000000 OR short
), a AS (
	UPDATE attempt SET created_us = time_put_right(a.created_us, $1, $2, a.up_us, a.down_us),
		started_us = time_put_right(a.started_us, $1, $2, a.up_us, a.down_us), ended_us = time_put_right(a.ended_us, $1, $2, a.up_us, a.down_us)
	FROM (SELECT o.job_id, o.epoch, o.rank, o.created_us, o.started_us, o.ended_us, u.up_us,
		greatest(o.created_us, o.started_us, o.ended_us) - $1 AS down_us FROM u JOIN attempt o ON o.node_id = u.id) a
	WHERE (attempt.job_id, attempt.epoch, attempt.rank) = (a.job_id, a.epoch, a.rank) AND (a.up_us > 0 OR a.down_us > 60000000)
)
UPDATE node SET launch_sent_us = t.sent_us, launched_us = t.launched_us, ended_us = CASE WHEN t.ended_us IS NOT NULL
	THEN greatest(t.ended_us, t.launched_us, t.billed_to_us) END
FROM t WHERE node.id = t.id

-- Prices observed in the future were observed at the latest when the clock was corrected. A pool's
-- newest price shows whether it has any. By the provider's own date they may hold from an earlier
-- time.
-- name: engine_clock_prices
-- params: at_us int8, fence int8
-- rows: none
-- writes: yes
WITH l AS MATERIALIZED (
	SELECT pool_id FROM pool_latest WHERE observed_us > $1 + 5000000
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $2 FOR KEY SHARE)
), p AS MATERIALIZED (
	SELECT d.*, $1 - row_number() OVER (PARTITION BY d.pool_id ORDER BY d.observed_us DESC) AS now_us
	FROM l JOIN price_dated d USING (pool_id) WHERE d.observed_us > $1 + 5000000
), r AS (
	UPDATE price_round SET confirmed_us = $1 WHERE confirmed_us > $1 + 5000000
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $2 FOR KEY SHARE)
), m AS (
	INSERT INTO price_misdated (pool_id, observed_us) SELECT pool_id, observed_us FROM p
), c AS (
	INSERT INTO price_point (pool_id, observed_us, effective_us, price_micros, source)
	SELECT pool_id, now_us, least(effective_us, now_us), price_micros, source FROM p ON CONFLICT (pool_id, observed_us) DO NOTHING
)
UPDATE pool_latest SET observed_us = $1, effective_us = least(effective_us, $1), changed_us = least(changed_us, $1),
	fade_us = CASE WHEN fade_us > $1 THEN $1 ELSE fade_us END
FROM l WHERE pool_latest.pool_id = l.pool_id
