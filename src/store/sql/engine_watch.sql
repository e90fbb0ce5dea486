-- What the providers say about our nodes.

-- name: engine_watch_places
-- params: at_us int8, silent_us int8
-- rows: many provider text, region text, nodes int8, hurry bool
-- writes: no
SELECT p.provider, p.region, count(*),
	bool_or(n.state = 'READY' AND coalesce(n.last_seen_us, n.ready_us, 0) < $1 - $2
		AND coalesce(n.provider_seen_us, 0) < $1 - 3000000)
FROM node n JOIN pool p ON p.id = n.pool_id
WHERE n.state IN ('BOOTING', 'READY', 'DRAINING', 'TERMINATING') AND n.ref IS NOT NULL
GROUP BY 1, 2

-- name: engine_watch_refs
-- params: provider text, region text
-- rows: many id int8, ref text, state text, market text, zone text, instance_type text, spot_request text,
--   launched_us int8
-- writes: no
SELECT n.id, n.ref, n.state, p.market, p.zone, p.instance_type, n.spot_request, coalesce(n.launched_us, n.created_us)
FROM node n JOIN pool p ON p.id = n.pool_id
WHERE n.state IN ('BOOTING', 'READY', 'DRAINING', 'TERMINATING') AND n.ref IS NOT NULL
	AND p.provider = $1 AND p.region = $2
ORDER BY n.id LIMIT 5000

-- name: engine_watch_seen
-- params: ids int8[], states text[], ips text[], reasons text[], at_us int8, lag_us int8
-- rows: none
-- writes: yes
UPDATE node n SET provider_state = s.state, provider_seen_us = $5,
	ip = CASE WHEN s.ip <> '' THEN s.ip ELSE n.ip END,
	last_error = CASE WHEN s.reason <> '' THEN s.reason ELSE n.last_error END,
	gone_seen = CASE WHEN s.state <> 'absent' THEN 0
		WHEN coalesce(n.launched_us, 0) + $6 < $5 THEN n.gone_seen + 1 ELSE 0 END
FROM unnest($1, $2, $3, $4) s (id, state, ip, reason)
WHERE n.id = s.id AND n.state IN ('BOOTING', 'READY', 'DRAINING', 'TERMINATING')
	AND (n.provider_state <> s.state OR s.state NOT IN ('pending', 'running') OR n.gone_seen > 0
		OR (s.ip <> '' AND n.ip <> s.ip) OR n.provider_seen_us IS NULL OR n.provider_seen_us < $5 - 30000000
		OR n.last_seen_us < $5 - 20000000)

-- name: engine_watch_due
-- params: at_us int8, boot_us int8, silent_us int8, up_us int8, speaks_us int8, slow text[], slow_us int8[]
-- rows: many id int8, state text, event text, cause text, why text, pool_id int4, market text, ended_by text
-- writes: no
SELECT n.id, n.state,
	CASE WHEN n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user', 'interrupted') OR n.gone_seen >= 2 THEN 'VANISHED'
		WHEN n.provider_state IN ('failed', 'failed_no_capacity', 'failed_quota') THEN 'BROKEN'
		WHEN n.state = 'BOOTING' AND n.enrol_used_us IS NOT NULL AND coalesce(n.hw->>'gpu_fault', '') <> '' THEN 'BROKEN'
		WHEN n.state = 'BOOTING' AND n.enrol_used_us IS NOT NULL THEN 'ENROLLED'
		WHEN n.state = 'BOOTING' THEN 'BOOT_TIMEOUT'
		ELSE 'BROKEN' END,
	CASE WHEN n.provider_state IN ('gone_reclaimed', 'interrupted') THEN 'reclaimed'
		WHEN n.state = 'BOOTING' AND n.provider_state IN ('failed_no_capacity', 'failed_quota') THEN 'refused'
		WHEN n.state = 'DRAINING' AND n.provider_state = 'gone' AND p.market = 'spot' THEN 'reclaimed'
		WHEN n.state = 'BOOTING' AND n.provider_state NOT IN ('gone', 'gone_user', 'failed', 'failed_no_capacity',
			'failed_quota') AND n.enrol_used_us IS NULL
			AND n.gone_seen < 2 THEN 'boot_timeout'
		WHEN n.state = 'BOOTING' AND n.enrol_used_us IS NOT NULL AND n.gone_seen < 2
			AND n.provider_state NOT IN ('gone', 'gone_user', 'failed', 'failed_no_capacity', 'failed_quota')
			AND coalesce(n.hw->>'gpu_fault', '') <> '' THEN 'broken'
		WHEN n.enrol_used_us IS NOT NULL AND n.state = 'BOOTING' AND n.gone_seen < 2
			AND n.provider_state NOT IN ('gone', 'gone_user', 'failed', 'failed_no_capacity', 'failed_quota') THEN ''
		ELSE 'lost' END,
	CASE WHEN n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user', 'interrupted')
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
WHERE n.state IN ('BOOTING', 'READY', 'DRAINING') AND (
	n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user', 'interrupted', 'failed', 'failed_no_capacity',
		'failed_quota')
	OR (n.gone_seen >= 2 AND coalesce(n.last_seen_us, 0) < $1 - $5)
	OR (n.state = 'BOOTING' AND n.enrol_used_us IS NOT NULL)
	OR (n.state = 'BOOTING' AND n.launched_us + greatest($2, coalesce(slow.us, 0)) <= $1)
	OR (n.state = 'READY' AND n.provider_state = 'running'
		AND greatest(coalesce(n.last_seen_us, n.ready_us), $4) + $3 <= $1))
ORDER BY n.id LIMIT 500

-- A pool whose node was taken or did not boot rests; the record feeds the hazard estimate.
-- name: engine_pool_rest
-- params: pool_id int4, until_us int8, rc text, why text, at_us int8, day int4, reclaims int4
-- rows: none
-- writes: yes
WITH c AS (
	INSERT INTO pool_cool AS c (pool_id, until_us, refusals, rc, why, at_us) VALUES ($1, $2, 1, $3, $4, $5)
	ON CONFLICT (pool_id) DO UPDATE SET until_us = greatest(c.until_us, excluded.until_us), rc = excluded.rc,
		why = excluded.why, at_us = excluded.at_us
), h AS (
	INSERT INTO pool_hour AS h (pool_id, at_hour, reclaims) VALUES ($1, $5 / 3600000000, $7)
	ON CONFLICT (pool_id, at_hour) DO UPDATE SET reclaims = h.reclaims + excluded.reclaims
)
INSERT INTO pool_day AS d (pool_id, day, reclaims) VALUES ($1, $6, $7)
ON CONFLICT (pool_id, day) DO UPDATE SET reclaims = d.reclaims + $7

-- A refusal that came after the launch had been accepted: like engine_launch_refused, which see. Its rc begins with
-- late: another accepted launch proves nothing, only a node that serves does (engine_pool_serves).
-- name: engine_pool_refused_late
-- params: pool_id int4, rc text, scope text, why text, cool_min_us int8, cool_max_us int8, at_us int8, day int4
-- rows: none
-- writes: yes
WITH c AS (
	INSERT INTO pool_cool AS c (pool_id, until_us, refusals, rc, why, at_us)
	SELECT q.id, $7 + $5, 1, $2, $4, $7
	FROM pool p JOIN pool q ON q.provider = p.provider AND q.region = p.region
	WHERE p.id = $1 AND CASE $3 WHEN 'class' THEN q.quota_class = p.quota_class AND q.market = p.market
		ELSE q.id = p.id END
	ON CONFLICT (pool_id) DO UPDATE SET
		until_us = greatest(c.until_us, $7 + least($6, $5 * (1 << least(c.refusals, 10)))),
		refusals = c.refusals + 1, rc = excluded.rc, why = excluded.why, at_us = excluded.at_us
), h AS (
	INSERT INTO pool_hour AS h (pool_id, at_hour, refusals) VALUES ($1, $7 / 3600000000, 1)
	ON CONFLICT (pool_id, at_hour) DO UPDATE SET refusals = h.refusals + 1
)
INSERT INTO pool_day AS d (pool_id, day, refusals) VALUES ($1, $8, 1)
ON CONFLICT (pool_id, day) DO UPDATE SET refusals = d.refusals + 1

-- name: engine_pool_serves
-- params: pool_id int4
-- rows: none
-- writes: yes
DELETE FROM pool_cool WHERE pool_id = $1 AND rc LIKE 'late%'

-- name: engine_notice_add
-- params: node_ids int8[], kinds text[], deadlines int8[], sources text[], raws text[], at_us int8
-- rows: none
-- writes: yes
INSERT INTO notice AS o (node_id, kind, deadline_us, source, raw, heard_us)
SELECT s.id, s.kind, s.deadline, s.source, s.raw, $6
FROM unnest($1, $2, $3, $4, $5) s (id, kind, deadline, source, raw)
ON CONFLICT (node_id, kind) DO UPDATE SET deadline_us = least(o.deadline_us, excluded.deadline_us)
	WHERE excluded.deadline_us < o.deadline_us
