-- The queue and the shares, as the API shows them.

-- name: api_queue
-- params: team text?, most int4
-- rows: 1 doc text
-- writes: no
SELECT coalesce(json_agg(json_build_object('position', x.pos, 'job', 'j' || x.id, 'name', x.name, 'team', x.team,
	'class', x.class, 'priority', x.priority, 'effective_priority', x.effective, 'share_ratio', round(x.ratio::numeric, 3),
	'queued@', x.queued_us, 'deadline@', x.deadline_us, 'queue_why', x.queue_why, 'why', x.why) ORDER BY x.pos, x.id), '[]')::text
FROM (SELECT q.pos, q.effective, q.ratio, q.why AS queue_why, j.* FROM job_queue q JOIN job j ON j.id = q.job_id
	WHERE j.state = 'QUEUED' AND ($1 IS NULL OR j.team = $1) ORDER BY q.pos, j.id LIMIT $2) x

-- Returns a team's dollars over its share of all dollars, by weight. A waiting team appears even
-- before it spent anything.
-- name: api_shares
-- rows: 1 doc text
-- writes: no
WITH x AS (
	SELECT team, weight_pm, spent_micros, updated_us, set_by, source, file_pm FROM team_share_now
	UNION ALL SELECT DISTINCT j.team, 1000, 0, 0, '', 'default', NULL::int8 FROM job j WHERE j.state = 'QUEUED'
		AND NOT EXISTS (SELECT FROM team_share s WHERE s.team = j.team)
), t AS (
	SELECT sum(weight_pm)::float8 AS weight, nullif(sum(spent_micros), 0)::float8 AS spent FROM x
)
SELECT coalesce(json_agg(json_build_object('team', x.team, 'weight', round(x.weight_pm / 1000.0, 3), 'source', x.source,
	'file_weight', round(x.file_pm / 1000.0, 3),
	'share', round((x.weight_pm / t.weight)::numeric, 4), 'spent$', x.spent_micros,
	'ratio', round(coalesce((x.spent_micros / t.spent) / (x.weight_pm / t.weight), 0)::numeric, 3),
	'waiting', (SELECT count(*) FROM job j WHERE j.state = 'QUEUED' AND j.cancel_us IS NULL AND j.team = x.team),
	'set_by', nullif(x.set_by, ''), 'updated@', nullif(x.updated_us, 0)) ORDER BY x.team), '[]')::text
FROM x, t

-- weight NULL removes the override. The file's share then counts, or the ordinary one.
-- name: api_share_set
-- params: team text, weight_pm int8?, actor text, at_us int8
-- rows: 1 woken bool
-- writes: yes
WITH s AS (
	INSERT INTO team_share AS s (team, weight_pm, set_by, updated_us, spent_us)
	VALUES ($1, coalesce($2, 1000), CASE WHEN $2 IS NULL THEN '' ELSE $3 END, $4, $4)
	ON CONFLICT (team) DO UPDATE SET weight_pm = excluded.weight_pm, set_by = excluded.set_by, updated_us = $4 RETURNING team
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, event, why, actor)
	SELECT $4, 'team', team, 'SHARE_SET', 'share of team ' || team || coalesce(' set to ' || round($2 / 1000.0, 3), ' not set any more'),
		$3 FROM s
)
SELECT pg_notify('spot_engine', '') IS NOT NULL AS woken FROM s
