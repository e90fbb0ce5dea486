-- Jobs: submit, lists, one in full, logs, cancel, reasons, cost.

-- Submits a group of jobs in one transaction. The outcome of a row is 'made', if its job is stored
-- with event and key. It is 'token' if the token was revoked or has expired meanwhile. It is
-- 'fleet' if no active fleet has this name or id, and for 'any' if the team has none. It is
-- 'replay', 'busy' or 'mismatch' if the key was used before (idem_answer). A job and the claim of
-- its key stand or fall together. The caller sends each key
-- once in a group. The reply that is stored with a key is head, fleet and tail after the id.
-- Without a head it is 'ref:' and the id.
-- name: api_jobs_submit
-- params: job[]
-- rows_in: job (at_us int8, name text, owner text, team text, project text, class text, spec text,
--   source text, secrets text, priority int4, fleet text, deadline_us int8?, baseline text,
--   not_before_us int8?, budget_micros int8?, token_id int8, idem_key text, route text,
--   body_sha256 text, head text, tail text)
-- rows: many at int4, outcome text, id int8?, fleet_id int8?, status int4?, response text?,
--   told bool?
-- writes: yes
WITH g AS MATERIALIZED (
	SELECT u.*, t.id AS token, f.id AS fleet_id, CASE WHEN t.id IS NOT NULL
		AND (u.fleet = '' OR f.id IS NOT NULL OR (u.fleet = 'any' AND EXISTS (SELECT
		FROM fleet x WHERE x.team = u.team AND x.state = 'ACTIVE')))
		THEN nextval('job_id_seq') END AS id
	FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
		$19, $20, $21) WITH ORDINALITY u (at_us, name, owner, team, project, class, spec,
		source, secrets, priority, fleet, deadline_us, baseline, not_before_us,
		budget_micros, token_id, key, route, body_sha256, head, tail, at)
	LEFT JOIN api_token t ON t.id = u.token_id AND t.revoked_us IS NULL
		AND (t.expires_us IS NULL OR t.expires_us > u.at_us)
	LEFT JOIN LATERAL (SELECT f.id FROM fleet f WHERE u.fleet <> '' AND f.state = 'ACTIVE'
		AND (f.name = u.fleet OR f.id = fleet_id_of(u.fleet))
		ORDER BY f.name = u.fleet DESC LIMIT 1) f ON true
), k AS (
	INSERT INTO idempotency AS i (token_id, key, route, body_sha256, created_us, status, response)
	SELECT token_id, key, route, body_sha256, at_us, 201, CASE WHEN head = '' THEN 'ref:j' || id
		ELSE '{"id":"j' || id || '"' || head || coalesce('"f' || fleet_id || '"', 'null')
			|| tail END
	FROM g WHERE key <> '' AND id IS NOT NULL ORDER BY 1, 2
	ON CONFLICT (token_id, key) DO UPDATE SET created_us = excluded.created_us, status = 201,
		route = excluded.route, body_sha256 = excluded.body_sha256,
		response = excluded.response
	WHERE i.created_us < excluded.created_us
		- idempotency_life(i, excluded.route, excluded.body_sha256)
	RETURNING token_id, key
), j AS (
	INSERT INTO job (id, name, owner, team, project, class, spec, source, secrets, state, state_us,
		priority, fleet_id, deadline_us, created_us, queued_us, baseline, not_before_us,
		budget_micros, fleet_any) OVERRIDING SYSTEM VALUE
	SELECT id, name, owner, team, project, class, spec::jsonb, source, secrets::jsonb, 'QUEUED',
		at_us, priority, fleet_id, deadline_us, at_us, at_us, baseline::jsonb,
		not_before_us, budget_micros, fleet = 'any' AND fleet_id IS NULL
	FROM g LEFT JOIN k USING (token_id, key)
	WHERE id IS NOT NULL AND (key = '' OR k.key IS NOT NULL) ORDER BY id
	RETURNING id, owner, created_us
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, was, now, event, why, actor)
	SELECT created_us, 'job', 'j' || id, id, '', 'QUEUED', 'SUBMITTED', 'submitted by ' || owner,
		owner FROM j
)
SELECT g.at::int4, CASE WHEN j.id IS NOT NULL THEN 'made' WHEN g.token IS NULL THEN 'token'
		WHEN i.key IS NULL AND g.id IS NULL THEN 'fleet'
		WHEN i.route <> g.route OR i.body_sha256 <> g.body_sha256 THEN 'mismatch'
		WHEN i.status IS NULL THEN 'busy' ELSE 'replay' END AS outcome,
	j.id, g.fleet_id, i.status, i.response, (SELECT pg_notify('spot_engine', '') IS NOT NULL
		AND pg_notify('spot_api', 'j' || min(id)) IS NOT NULL FROM j HAVING count(*) > 0)
FROM g LEFT JOIN j USING (id) LEFT JOIN LATERAL (SELECT * FROM idempotency x
	WHERE j.id IS NULL AND g.key <> '' AND x.token_id = g.token_id AND x.key = g.key AND
	x.created_us >= g.at_us - idempotency_life(x, g.route, g.body_sha256) OFFSET 0) i ON true

-- A page of all jobs. One plan serves all values, and the planner keeps it, since subselects hide the
-- values from it. The inner limit, the largest page, tells it that few rows are read.
-- name: api_jobs
-- params: before_id int8, most int4
-- rows: many id int8, name text, state text, owner text, team text, project text, class text,
--   fleet_id int8?, epoch int4, priority int4, num_nodes int4, created_us int8, queued_us int8,
--   started_us int8?, ended_us int8?, deadline_us int8?, cancel_us int8?, steps_done int8,
--   steps_total int8, restarts int4, reason text, why text, pool_id int4?, provider text?, region
--   text?, zone text?, zone_name text?, instance_type text?, pool_market text?, gpu_name text?,
--   gpu_milli int4?, gpu_mem_mib int4?, vcpus int4?, mem_mib int4?, arch text?, offered bool?,
--   pool_price_micros int8?, per_gpu_micros int8?, price_state text?, price_why text?, observed_us
--   int8?, effective_us int8?, source text?, node_id int8?, market text?, attempts int8,
--   interruptions int8, cost_micros int8, checkpoint_id int8?, checkpoint_steps int8?,
--   checkpoint_bytes int8?, checkpoint_us int8?
-- json: id#j, name, state, owner, team, project, class, fleet#f, epoch, priority, num_nodes,
--   created@, queued@, started@, ended@, deadline@, cancel@, steps_done, steps_total, restarts,
--   reason, why, pool{id#p, provider, region, zone, zone_name, instance_type, market, gpu, gpus%,
--   gpu_mem_mib, vcpus, mem_mib, arch, offered, price$, price_per_gpu_micros, price_state,
--   price_why, observed@age, effective@, source}, node#n, market, attempts, interruptions, cost$,
--   checkpoint{id#c, steps, bytes, committed@}
-- writes: no
SELECT d.* FROM (SELECT id FROM (SELECT id FROM job WHERE id < (SELECT $1) ORDER BY id DESC LIMIT
	1001) y LIMIT (SELECT $2)) x
JOIN job_shown d ON d.id = x.id ORDER BY d.id DESC

-- A page of the jobs in some states. Each state is walked along its index.
-- name: api_jobs_states
-- params: states job_state[], before_id int8, most int4
-- rows: many as api_jobs
-- writes: no
SELECT d.* FROM (SELECT id FROM (SELECT y.id FROM (SELECT DISTINCT u FROM unnest((SELECT $1)) u) s
	(state), LATERAL (SELECT id
	FROM (SELECT id FROM job WHERE state = s.state AND id < (SELECT $2) ORDER BY id DESC LIMIT
		1001) w LIMIT (SELECT $3)) y
	ORDER BY y.id DESC LIMIT 1001) z LIMIT (SELECT $3)) x
JOIN job_shown d ON d.id = x.id ORDER BY d.id DESC

-- An empty list of states means all. The count makes a plan for any values dear, and is nothing in a
-- plan for given ones. So each call is planned, by the values of its filters.
-- name: api_jobs_filtered
-- params: states job_state[], team text?, project text?, class text?, owner text?, name text?,
--   before_id int8, most int4
-- rows: many as api_jobs
-- writes: no
WITH x AS (
	SELECT id FROM job
	WHERE (cardinality($1) = 0 OR state = ANY ($1)) AND ($2 IS NULL OR team = $2) AND ($3 IS NULL OR project = $3)
		AND ($4 IS NULL OR class = $4) AND ($5 IS NULL OR owner = $5) AND ($6 IS NULL OR name = $6) AND id < $7
	ORDER BY id DESC LIMIT $8
)
SELECT d.* FROM x JOIN job_shown d ON d.id = x.id
WHERE (SELECT count(*) FROM job a, job b WHERE $2 IS NULL AND $2 IS NOT NULL) = 0 ORDER BY d.id DESC

-- Several jobs. Column plain: the job never had an attempt and has no budget, so that this is all
-- there is to show; else api_jobs_full reads it. Most of a queue is plain, and this takes a quarter
-- of the time.
-- name: api_jobs_plain
-- params: ids int8[]
-- rows: many id int8, name text, state job_state, owner text, team text, project text, class text,
--   fleet_id int8?, epoch int4, priority int4, num_nodes int4, created_us int8, queued_us int8,
--   started_us int8?, ended_us int8?, deadline_us int8?, cancel_us int8?, steps_done int8,
--   steps_total int8, restarts int4, reason text, why text, cost_micros int8, source_text text,
--   not_before_us int8?, queue text?, network_tier text, saves bool, plain bool
-- json: id#j, name, state, owner, team, project, class, fleet#f, epoch, priority, num_nodes,
--   created@, queued@, started@, ended@, deadline@, cancel@, steps_done, steps_total, restarts,
--   reason, why, cost$, source, -, queue*, network_tier, -, -
-- writes: no
SELECT j.id, j.name, j.state, j.owner, j.team, j.project, j.class, j.fleet_id, j.epoch, j.priority,
	j.num_nodes, j.created_us,
	j.queued_us, j.started_us, j.ended_us, j.deadline_us, j.cancel_us, j.steps_done,
		j.steps_total, j.restarts, j.reason, j.why,
	coalesce((SELECT c.micros FROM job_cost c WHERE c.job_id = j.id),
		(SELECT sum(l.amount_micros) FROM ledger l WHERE l.job_id = j.id), 0)::int8,
	j.source, j.not_before_us,
	CASE WHEN j.state = 'QUEUED' THEN (SELECT json_build_object('position', w.pos,
		'effective_priority', w.effective, 'why', w.why)::text
		FROM job_queue w WHERE w.job_id = j.id) END,
	coalesce(j.spec->>'network_tier', 'standard'),
	coalesce(j.spec #>> '{checkpoint,path}', '') <> '', j.epoch = 0 AND j.budget_micros IS NULL
		AND j.checkpoint_id IS NULL
FROM job j WHERE j.id = ANY ((SELECT $1)::int8[])

-- Several jobs in full. The subselect hides the number of ids, so that the planner keeps one plan.
-- A job of epoch 0 has no attempts, and so no checkpoints.
-- name: api_jobs_full
-- params: ids int8[], at_us int8
-- rows: many id int8, name text, state job_state, owner text, team text, project text, class text,
--   fleet_id int8?, epoch int4, priority int4, num_nodes int4, created_us int8, queued_us int8,
--   started_us int8?, ended_us int8?, deadline_us int8?, cancel_us int8?, steps_done int8,
--   steps_total int8, restarts int4, reason text, why text, pool_id int4?, provider text?, region
--   text?, zone text?, zone_name text?, instance_type text?, pool_market text?, gpu_name text?,
--   gpu_milli int4?, gpu_mem_mib int4?, vcpus int4?, mem_mib int4?, arch text?, offered bool?,
--   pool_price_micros int8?, per_gpu_micros int8?, price_state text?, price_why text?, observed_us
--   int8?, effective_us int8?, source text?, node_id int8?, market text?, attempts int8,
--   interruptions int8, cost_micros int8, checkpoint_id int8?, checkpoint_steps int8?,
--   checkpoint_bytes int8?, checkpoint_us int8?, attempts_list text, recoveries text, checkpoints
--   text, source_text text, lost_steps int8, not_before_us int8?, queue text?, budget text?,
--   network_tier text, saves bool
-- json: id#j, name, state, owner, team, project, class, fleet#f, epoch, priority, num_nodes,
--   created@, queued@, started@, ended@, deadline@, cancel@, steps_done, steps_total, restarts,
--   reason, why, pool{id#p, provider, region, zone, zone_name, instance_type, market, gpu, gpus%,
--   gpu_mem_mib, vcpus, mem_mib, arch, offered, price$, price_per_gpu_micros, price_state,
--   price_why, observed@age, effective@, source}, node#n, market, attempts, interruptions, cost$,
--   checkpoint{id#c, steps, bytes, committed@}, attempts_list*, recoveries*, checkpoints*, source,
--   lost_steps,
--   -, queue*, budget*, network_tier, -
-- writes: no
SELECT d.*,
	CASE WHEN d.epoch = 0 THEN '[]' ELSE (SELECT coalesce(json_agg(a.doc ORDER BY a.epoch,
		a.rank), '[]') FROM api_attempt a
		WHERE a.job_id = d.id)::text END,
	CASE WHEN d.epoch = 0 THEN '[]' ELSE (SELECT coalesce(json_agg(r.doc ORDER BY r.epoch,
		r.rank), '[]') FROM api_recovery r WHERE r.job_id = d.id)::text END,
	CASE WHEN d.epoch = 0 THEN '[]' ELSE (SELECT coalesce(json_agg(c.doc ORDER BY c.id), '[]')
		FROM (SELECT id, doc FROM api_checkpoint
		WHERE job_id = d.id AND state = 'COMMITTED' ORDER BY id DESC LIMIT 200) c)::text
			END,
	j.source,
	CASE WHEN d.epoch = 0 THEN 0 ELSE coalesce((SELECT sum(greatest(t.was - t.steps_start, 0))
		FROM (SELECT a.steps_start,
		lag(a.steps_done) OVER (ORDER BY a.epoch) AS was FROM attempt a WHERE a.job_id =
			d.id AND a.rank = 0) t), 0) END::int8,
	j.not_before_us,
	CASE WHEN d.state = 'QUEUED' THEN (SELECT json_build_object('position', w.pos,
		'effective_priority', w.effective, 'why', w.why)::text
		FROM job_queue w WHERE w.job_id = d.id) END,
	CASE WHEN j.budget_micros IS NOT NULL THEN (SELECT json_build_object('limit$', j.budget_micros, 'spent$', s.micros,
		'left$', j.budget_micros - s.micros, 'needs$', CASE WHEN j.state = 'PARKED' THEN j.park_need_micros END)::text
		FROM job_spent(j.id, $2) s (micros)) END,
	coalesce(j.spec->>'network_tier', 'standard'),
	coalesce(j.spec #>> '{checkpoint,path}', '') <> ''
FROM job j JOIN job_shown d ON d.id = j.id WHERE j.id = ANY ((SELECT $1)::int8[])

-- name: api_job_team
-- params: id int8
-- rows: 0..1 team text
-- writes: no
SELECT team FROM job WHERE id = $1

-- Refused saves are reported once and stay refused, so those events never age out.
-- name: api_job_why
-- params: id int8
-- rows: 0..1 doc text, spec text, class text
-- writes: no
SELECT json_build_object('job', 'j' || j.id, 'state', j.state, 'why', j.why,
	'decisions', coalesce((SELECT json_agg(d.doc ORDER BY d.id) FROM (SELECT id, doc FROM api_decision
		WHERE job_id = $1 ORDER BY id DESC LIMIT 100) d), '[]'::json),
	'events', coalesce((SELECT json_agg(e.doc ORDER BY e.id) FROM (SELECT id, doc FROM api_event WHERE id IN (
		(SELECT id FROM event WHERE job_id = $1 ORDER BY id DESC LIMIT 200) UNION
		(SELECT id FROM event WHERE job_id = $1 AND event = 'CHECKPOINT_REFUSED' ORDER BY id DESC LIMIT 20))) e), '[]'::json),
	'verdicts', coalesce((SELECT json_agg(v.doc ORDER BY v.id) FROM (SELECT id, doc FROM api_verdict
		WHERE job_id = $1 ORDER BY id DESC LIMIT 100) v), '[]'::json),
	'queue', (SELECT json_build_object('position', w.pos, 'effective_priority', w.effective, 'why', w.why) FROM job_queue w
		WHERE w.job_id = j.id AND j.state = 'QUEUED'))::text AS doc, j.spec::text, j.class
FROM job j WHERE j.id = $1

-- name: api_job_cancel
-- params: id int8, actor text, at_us int8
-- rows: 0..1 state job_state, woken bool
-- writes: yes
WITH o AS (
	SELECT id, state, cancel_us FROM job WHERE id = $1 FOR NO KEY UPDATE
), j AS (
	UPDATE job SET cancel_us = $3 FROM o
	WHERE job.id = o.id AND o.cancel_us IS NULL AND o.state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED') RETURNING job.id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, event, why, actor)
	SELECT $3, 'job', 'j' || id, id, 'CANCEL_ASKED', 'cancellation asked by ' || $2, $2 FROM j
)
SELECT state, pg_notify('spot_engine', '') IS NOT NULL AS woken FROM o

-- budget_micros NULL lifts the limit. The engine decides on reserves and on the restart of parked
-- jobs, so this wakes it.
-- name: api_job_budget
-- params: id int8, budget_micros int8?, actor text, at_us int8
-- rows: 0..1 state job_state, saves bool, spent_micros int8, woken bool, told bool
-- writes: yes
WITH o AS (
	SELECT id, state, budget_micros AS was, job_spent(id, $4) AS spent, coalesce(spec #>> '{checkpoint,path}', '') <> '' AS saves
	FROM job WHERE id = $1 FOR NO KEY UPDATE
), j AS (
	UPDATE job SET budget_micros = $2 FROM o
	WHERE job.id = o.id AND o.state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED') AND ($2 IS NULL OR (o.saves AND $2 >= o.spent))
		AND o.was IS DISTINCT FROM $2 RETURNING job.id, o.was
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, event, why, actor)
	SELECT $4, 'job', 'j' || id, id, 'BUDGET_SET', CASE WHEN $2 IS NULL THEN 'budget lifted'
			ELSE 'budget set to ' || to_char($2 / 1e6, 'FM999999990.009999') || ' USD' END || ' by ' || $3
		|| coalesce(' (it was ' || to_char(was / 1e6, 'FM999999990.009999') || ' USD)', ' (it had none)'), $3 FROM j
)
SELECT state, saves, spent, pg_notify('spot_engine', '') IS NOT NULL AS woken, pg_notify('spot_api', 'j' || id) IS NOT NULL AS told FROM o

-- Returns bytes of one attempt's log, of one rank, from an offset on. epoch 0 means the newest
-- attempt. more_epoch is a later attempt.
-- name: api_job_log
-- params: id int8, epoch int4, from_offset int8, rank int4
-- rows: 0..1 state job_state, epoch int4, ended bool, newer int4?, at_offset int8?, bytes bytea?,
--   num_nodes int4
-- writes: no
SELECT j.state, e.epoch, a.ended_us IS NOT NULL OR a.job_id IS NULL,
	(SELECT min(n.epoch) FROM attempt n WHERE n.job_id = j.id AND n.epoch > e.epoch), l.at_offset, l.bytes, j.num_nodes
FROM job j
CROSS JOIN LATERAL (SELECT CASE WHEN $2 = 0 THEN j.epoch ELSE $2 END AS epoch) e
LEFT JOIN attempt a ON a.job_id = j.id AND a.epoch = e.epoch AND a.rank = $4
LEFT JOIN LATERAL (
	SELECT min(c.at_offset) AS at_offset, string_agg(c.bytes, ''::bytea ORDER BY c.at_offset) AS bytes
	FROM (SELECT at_offset, bytes FROM job_log WHERE job_id = j.id AND epoch = e.epoch AND rank = $4
		AND at_offset + length(bytes) > $3 ORDER BY at_offset LIMIT 16) c) l ON true
WHERE j.id = $1

-- name: api_job_cost
-- params: id int8
-- rows: 0..1 doc text, spec text, work text, cheapest_lost int8
-- writes: no
SELECT json_build_object('job', 'j' || j.id, 'name', j.name, 'state', j.state,
	'total$', coalesce((SELECT sum(amount_micros) FROM ledger WHERE job_id = $1), 0)::int8,
	'kinds', coalesce((SELECT json_agg(json_build_object('kind', k.kind, 'market', k.market, 'seconds', k.s,
		'amount$', k.m) ORDER BY k.kind, k.market) FROM (SELECT kind, market,
		round(sum(CASE WHEN reverses IS NULL THEN to_us - from_us ELSE from_us - to_us END) / 1e6, 3) AS s,
		sum(amount_micros)::int8 AS m FROM ledger WHERE job_id = $1 GROUP BY kind, market) k), '[]'::json),
	'items', coalesce((SELECT json_agg(json_build_object('id', l.id, 'kind', l.kind, 'node', 'n' || l.node_id,
		'pool', json_build_object('id', 'p' || p.id, 'provider', p.provider, 'region', p.region, 'zone', p.zone,
			'instance_type', p.instance_type), 'market', l.market, 'epoch', l.epoch, 'from@', l.from_us, 'to@', l.to_us,
		'seconds', round((l.to_us - l.from_us) / 1e6, 3), 'price$', l.price_micros,
		'price_observed@', nullif(l.price_observed_us, 0), 'amount$', l.amount_micros, 'reverses', l.reverses) ORDER BY l.id)
		FROM (SELECT * FROM ledger WHERE job_id = $1 ORDER BY id LIMIT 2000) l JOIN pool p ON p.id = l.pool_id), '[]'::json),
	'baseline', j.baseline)::text AS doc, j.spec::text AS spec,
	coalesce((SELECT json_agg(w) FROM (SELECT p.gpu_name AS gpu, p.gpu_milli AS milli,
		sum(CASE WHEN l.reverses IS NULL THEN l.to_us - l.from_us ELSE l.from_us - l.to_us END)::int8 AS us
		FROM ledger l JOIN pool p ON p.id = l.pool_id WHERE l.job_id = $1 AND l.kind = 'compute'
		GROUP BY 1, 2) w), '[]'::json)::text AS work,
	(SELECT count(*) FROM node n WHERE n.job_id = $1 AND n.end_cause IN ('reclaimed', 'refused')
		AND 'p' || n.pool_id = j.baseline #>> '{cheapest,pool}') AS cheapest_lost
FROM job j WHERE j.id = $1

-- Returns costs grouped by any of team project class provider gpu job market kind. Counts lines
-- whose interval begins in [since, until).
-- name: api_cost
-- params: by text[], since_us int8, until_us int8
-- rows: 1 doc text
-- writes: no
-- lane: long
WITH l AS (
	SELECT CASE WHEN 'team' = ANY ($1) THEN l.team END AS team,
		CASE WHEN 'project' = ANY ($1) THEN l.project END AS project,
		CASE WHEN 'class' = ANY ($1) THEN l.class END AS class,
		CASE WHEN 'provider' = ANY ($1) THEN p.provider END AS provider,
		CASE WHEN 'gpu' = ANY ($1) THEN p.gpu_name END AS gpu,
		CASE WHEN 'job' = ANY ($1) THEN coalesce('j' || l.job_id, '') END AS job,
		CASE WHEN 'market' = ANY ($1) THEN l.market END AS market,
		CASE WHEN 'kind' = ANY ($1) THEN l.kind END AS kind,
		l.kind AS k, l.amount_micros AS m,
		(CASE WHEN l.kind = 'credit' THEN 0 WHEN l.reverses IS NULL THEN l.to_us - l.from_us ELSE l.from_us - l.to_us END) * p.gpu_milli / 1000 AS gpu_us
	FROM ledger l JOIN pool p ON p.id = l.pool_id WHERE l.from_us >= $2 AND l.from_us < $3
), g AS (
	SELECT team, project, class, provider, gpu, job, market, kind, sum(m)::int8 AS total,
		coalesce(sum(m) FILTER (WHERE k = 'compute'), 0)::int8 AS compute,
		coalesce(sum(m) FILTER (WHERE k = 'boot'), 0)::int8 AS boot,
		coalesce(sum(m) FILTER (WHERE k = 'idle'), 0)::int8 AS idle,
		coalesce(sum(m) FILTER (WHERE k = 'lost_work'), 0)::int8 AS lost_work,
		coalesce(sum(m) FILTER (WHERE k = 'credit'), 0)::int8 AS credit,
		round(sum(gpu_us) / 3.6e9, 6) AS gpu_hours
	FROM l GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 9 DESC, 1, 2, 3, 4, 5, 6, 7, 8 LIMIT 5000
)
SELECT json_build_object('by', $1, 'since@', nullif($2, 0), 'until@', $3,
	'rows', coalesce((SELECT json_agg(json_strip_nulls(json_build_object('team', team, 'project', project, 'class', class,
		'provider', provider, 'gpu', gpu, 'job', job, 'market', market, 'kind', kind, 'compute_micros', compute,
		'boot_micros', boot, 'idle_micros', idle, 'lost_work_micros', lost_work, 'credit_micros', credit, 'total$', total,
		'gpu_hours', gpu_hours))) FROM g), '[]'::json),
	'totals', (SELECT json_build_object('compute_micros', coalesce(sum(compute), 0)::int8,
		'boot_micros', coalesce(sum(boot), 0)::int8, 'idle_micros', coalesce(sum(idle), 0)::int8,
		'lost_work_micros', coalesce(sum(lost_work), 0)::int8,
		'credit_micros', coalesce(sum(credit), 0)::int8, 'total$', coalesce(sum(total), 0)::int8,
		'gpu_hours', coalesce(sum(gpu_hours), 0)) FROM g))::text AS doc

-- name: api_checkpoint
-- params: id int8
-- rows: 0..1 doc text
-- writes: no
SELECT json_build_object('id', 'c' || c.id, 'job', 'j' || c.job_id, 'epoch', c.epoch, 'state', c.state, 'reason', c.reason,
	'steps', c.steps, 'bytes', c.bytes, 'bytes_new', c.bytes_new, 'created@', c.created_us, 'committed@', c.committed_us,
	'chunks', coalesce((SELECT json_agg(json_build_object('path', k.path, 'seq', k.seq, 'bytes', k.bytes, 'mode', k.mode,
		'sha256', k.sha256, 'object_key', k.object_key) ORDER BY k.path, k.seq) FROM checkpoint_chunk k
		WHERE k.checkpoint_id = c.id), '[]'::json))::text AS doc
FROM checkpoint c WHERE c.id = $1
