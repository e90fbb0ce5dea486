-- Recoveries: the phases of each, and the histograms.

-- Writes what the rows tell of the open recoveries of the jobs after `after`, the first `most`. One
-- that ended is added to the sums by the statement that ends it, so it counts once. Returns the
-- last job, and how many jobs changed.
-- name: engine_recoveries
-- params: after int8, most int8, at_us int8, fence int8
-- rows: 0..1 last int8, open int8, changed int8, told bool?
-- writes: yes
-- wakes: none
WITH w AS MATERIALIZED (
	SELECT r AS was FROM recovery r WHERE r.outcome = 'open' AND r.job_id > $1
	ORDER BY r.job_id FETCH FIRST $2 ROWS WITH TIES
), u AS (
	UPDATE recovery r SET signal_us = f.signal_us, saved_us = f.saved_us,
		committed_us = f.committed_us, wanted_us = f.wanted_us, launched_us = f.launched_us,
		enrolled_us = f.enrolled_us, step_us = f.step_us, in_window = f.in_window,
		outcome = f.outcome, ended_us = CASE WHEN f.outcome <> 'open' THEN $3 END
	FROM w CROSS JOIN LATERAL recovery_now(w.was) f
	WHERE r.job_id = f.job_id AND r.epoch = f.epoch AND r.rank = f.rank
		AND r.outcome = 'open' AND r.* IS DISTINCT FROM f.*
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE)
	RETURNING r.job_id, r.provider, r.outcome, r AS done
), s AS (
	INSERT INTO recovery_sum AS s (provider, phase, bucket, n, us)
	SELECT u.provider, p.phase, b.bucket, count(*), sum(p.us)::int8
	FROM u CROSS JOIN LATERAL recovery_phases(u.done) p
	CROSS JOIN LATERAL (SELECT width_bucket(p.us - 1, recovery_bounds()) AS bucket) b
	WHERE u.outcome <> 'open' AND p.us IS NOT NULL GROUP BY 1, 2, 3
	ON CONFLICT (provider, phase, bucket)
		DO UPDATE SET n = s.n + excluded.n, us = s.us + excluded.us
)
SELECT max((w.was).job_id), count(*), (SELECT count(DISTINCT job_id) FROM u),
	(SELECT bool_and(pg_notify('spot_api', 'j' || job_id) IS NOT NULL) FROM u)
FROM w HAVING count(*) > 0

-- The recoveries since a time, by provider.
-- name: api_recovery_report
-- params: since_us int8
-- rows: 1 doc text
-- writes: no
-- lane: long
WITH r AS MATERIALIZED (
	SELECT provider, cause, outcome, in_window, r FROM recovery r WHERE notice_us >= $1
), p AS (
	SELECT r.provider, p.i, p.phase, count(*) AS n,
		percentile_cont(ARRAY[0.5, 0.95, 1]) WITHIN GROUP (ORDER BY p.us / 1e6) AS q
	FROM r CROSS JOIN LATERAL recovery_phases(r.r) p
	WHERE p.us IS NOT NULL GROUP BY r.provider, p.i, p.phase
), c AS (
	SELECT r.provider, count(*) AS n, count(*) FILTER (WHERE cause = 'notice') AS notices,
		count(*) FILTER (WHERE cause = 'loss') AS losses,
		count(*) FILTER (WHERE outcome = 'open') AS open,
		count(*) FILTER (WHERE outcome = 'recovered') AS recovered,
		count(*) FILTER (WHERE outcome = 'failed') AS failed,
		count(*) FILTER (WHERE outcome = 'ended') AS ended,
		count(in_window) AS saves, count(*) FILTER (WHERE in_window) AS landed
	FROM r GROUP BY r.provider
)
SELECT json_build_object('since@', $1, 'clouds', coalesce(json_agg(json_build_object(
	'provider', c.provider, 'recoveries', c.n, 'notices', c.notices, 'losses', c.losses,
	'open', c.open, 'recovered', c.recovered, 'failed', c.failed, 'ended', c.ended,
	'success_pct', round(100.0 * c.recovered / nullif(c.recovered + c.failed, 0), 1),
	'saves', c.saves, 'saves_in_window', c.landed,
	'in_window_pct', round(100.0 * c.landed / nullif(c.saves, 0), 1),
	'phases', coalesce((SELECT json_agg(json_build_object('phase', p.phase, 'n', p.n,
		'p50_s', round(p.q[1]::numeric, 3), 'p95_s', round(p.q[2]::numeric, 3),
		'max_s', round(p.q[3]::numeric, 3)) ORDER BY p.i)
		FROM p WHERE p.provider = c.provider), '[]')) ORDER BY c.provider), '[]'))::text
FROM c
