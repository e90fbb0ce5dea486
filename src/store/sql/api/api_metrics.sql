-- Rows of /metrics, in the order in which src/api/ops/metrics.c publishes them.

-- Jobs, nodes, fleets and gangs by state.
-- name: api_metrics_work
-- rows: many metric text, label text, value float8
-- row: metric
-- writes: no
-- lane: long
SELECT 'spot_jobs', state, count(*)::float8 FROM job GROUP BY state
UNION ALL SELECT 'spot_nodes', state, count(*)::float8 FROM node GROUP BY state
UNION ALL SELECT 'spot_fleets', state, count(*)::float8 FROM fleet GROUP BY state
UNION ALL SELECT 'spot_fleet_missing', name, (plan->>'missing')::float8 FROM fleet WHERE state = 'ACTIVE' AND plan IS NOT NULL
UNION ALL SELECT 'spot_fleet_gap', name, (plan->>'gap')::float8 FROM fleet WHERE state = 'ACTIVE' AND plan IS NOT NULL
UNION ALL SELECT 'spot_fleet_usd_per_hour', name, (plan->>'hourly_micros')::float8 / 1e6 FROM fleet
	WHERE state = 'ACTIVE' AND plan IS NOT NULL
UNION ALL SELECT metric, label, value FROM api_metrics_fleets
UNION ALL SELECT 'spot_gangs', s.state, count(x.state)::float8
	FROM (VALUES ('waiting'), ('acquiring'), ('holding'),
		('serving'), ('standby')) s (state)
	LEFT JOIN (
		SELECT 'waiting' AS state FROM job j WHERE j.num_nodes > 1 AND j.state = 'QUEUED'
			AND NOT EXISTS (SELECT FROM gang g WHERE g.job_id = j.id AND g.state <> 'RELEASED')
		UNION ALL
		SELECT CASE
			WHEN gang_waits(g) THEN 'standby'
			WHEN g.state = 'SERVING' THEN 'serving'
			WHEN EXISTS (SELECT FROM node n
				WHERE n.gang_id = g.id AND n.launched_us IS NOT NULL AND n.ended_us IS NULL) THEN 'holding'
			ELSE 'acquiring' END
		FROM gang g WHERE g.state <> 'RELEASED'
	) x ON x.state = s.state
	GROUP BY s.state
UNION ALL SELECT 'spot_gangs_over_total', s.how, count(g.id)::float8 FROM (VALUES ('served', true), ('given_up', false)) s (how, yes)
	LEFT JOIN gang g ON g.state = 'RELEASED' AND (g.served_us IS NOT NULL) = s.yes GROUP BY s.how
UNION ALL SELECT 'spot_gang_waits_total', 'replaced', coalesce(sum(waits_won), 0)::float8 FROM gang
UNION ALL SELECT 'spot_gang_waits_total', 'given_up', coalesce(sum(waits_lost), 0)::float8 FROM gang

-- Prices, providers and feeds.
-- name: api_metrics_market
-- params: at_us int8
-- rows: many metric text, label text, value float8
-- row: metric
-- writes: no
-- lane: long
SELECT 'spot_prices', l.state, count(*)::float8 FROM pool_latest l GROUP BY l.state
UNION ALL SELECT 'spot_price_age_seconds_max', p.provider, max($1 - l.observed_us) / 1e6
	FROM pool_price l JOIN pool p ON p.id = l.pool_id WHERE p.offered GROUP BY p.provider
UNION ALL SELECT 'spot_provider_requests_total', name, requests::float8 FROM provider
UNION ALL SELECT 'spot_provider_throttled_total', name, throttled::float8 FROM provider
UNION ALL SELECT 'spot_provider_up', name, CASE state WHEN 'ok' THEN 1.0 WHEN 'degraded' THEN 0.5 ELSE 0.0 END FROM provider
UNION ALL SELECT 'spot_feed_fails', provider || '/' || region || '/' || feed, fails::float8 FROM feed WHERE fails > 0

-- Events of the past: the ledger, ends of nodes, verdicts, launches; then polls, doctor and supply.
-- name: api_metrics_record
-- rows: many metric text, label text, value float8
-- row: metric
-- writes: no
-- lane: long
SELECT 'spot_ledger_usd_total', kind, sum(amount_micros) / 1e6 FROM ledger GROUP BY kind
UNION ALL SELECT 'spot_notices_total', kind, count(*)::float8 FROM notice GROUP BY kind
UNION ALL SELECT 'spot_node_ends_total', end_cause, count(*)::float8 FROM node WHERE ended_us IS NOT NULL GROUP BY end_cause
UNION ALL (
	SELECT m.metric, v.kind, m.n::float8
	FROM (
		SELECT k.kind, k.up, count(v.id) AS n, count(v.false_us) AS alive, count(v.id) FILTER (WHERE v.missed) AS missed
		FROM (VALUES ('lost', true), ('reclaimed', true), ('silent', true), ('broken', true), ('boot_timeout', true),
			('suspected', false), ('healthy', false), ('notice', false), ('job_lost', false)) k (kind, up)
		LEFT JOIN verdict v ON v.kind = k.kind GROUP BY k.kind, k.up
	) v
	CROSS JOIN LATERAL (VALUES ('spot_verdicts_total', v.n, true), ('spot_false_recoveries_total', v.alive, v.up),
		('spot_missed_losses_total', v.missed, v.up)) m (metric, n, shown)
	WHERE m.shown ORDER BY m.metric, v.kind)
UNION ALL SELECT 'spot_suspected_nodes', 'now', count(*)::float8 FROM node WHERE state = 'READY' AND suspect_us IS NOT NULL
UNION ALL SELECT 'spot_queued_nodes', 'now', count(*)::float8 FROM node
	WHERE state = 'BOOTING' AND provider_state = 'queued'
UNION ALL SELECT 'spot_launches_total', 'launched', coalesce(sum(launches), 0)::float8 FROM pool_day
UNION ALL SELECT 'spot_launches_total', 'refused', coalesce(sum(refusals), 0)::float8 FROM pool_day
UNION ALL SELECT 'spot_reclaims_total', p.market, sum(d.reclaims)::float8 FROM pool_day d JOIN pool p ON p.id = d.pool_id
	GROUP BY p.market
UNION ALL SELECT 'spot_poll_requests_per_day', provider, sum(requests_last * 86400e6 / nullif(interval_us, 0))::float8
	FROM feed WHERE requests_last IS NOT NULL AND interval_us > 0 GROUP BY provider
UNION ALL SELECT 'spot_doctor_items', i.state, count(*)::float8 FROM doctor_item i
	WHERE i.run_id = (SELECT max(id) FROM doctor_run WHERE state = 'done') GROUP BY i.state
UNION ALL SELECT 'spot_supply_groups', state, count(*)::float8 FROM supply_state GROUP BY state

-- Deadlines, and the moves of 30 days: predicted saving, cost of staying, amount paid.
-- name: api_metrics_moves
-- params: at_us int8
-- rows: many metric text, label text, value float8
-- row: metric
-- writes: no
-- lane: long
WITH move AS (
	SELECT (d.inputs->'move'->>'saving_micros')::float8 - (d.inputs->'move'->>'cost_micros')::float8 AS predicted,
		coalesce((d.inputs->'move'->>'here_price_micros')::float8, 0)
			* coalesce(nullif((d.inputs->'move'->>'speed')::float8, 0), 1)
			* CASE WHEN d.inputs ? 'fleet'
			THEN coalesce((SELECT greatest(coalesce(n.ended_us, $1) - n.ready_us, 0)
				FROM node n WHERE n.id = d.node_id AND n.ready_us IS NOT NULL), 0)
			ELSE (SELECT coalesce(sum(greatest(coalesce(a.ended_us, $1) - a.started_us, 0)), 0) FROM attempt a
				WHERE a.job_id = d.job_id AND a.node_id = d.node_id AND a.started_us IS NOT NULL) END
			/ 3.6e9 AS stay,
		coalesce((SELECT sum(l.amount_micros) FROM ledger l WHERE l.node_id = d.node_id
			AND (d.inputs ? 'fleet' OR coalesce(l.job_id, d.job_id) = d.job_id)), 0)::float8
			AS paid
	FROM decision d WHERE d.kind IN ('rebalance', 'return') AND d.at_us > $1 - 2592000000000 AND d.inputs ? 'move'
), total AS (
	SELECT coalesce(sum(predicted), 0) AS predicted, coalesce(sum(stay), 0) AS stay, coalesce(sum(paid), 0) AS paid FROM move
)
SELECT 'spot_deadline_jobs', s.how, count(j.how)::float8 FROM (VALUES ('open'), ('late'), ('met'), ('missed')) s (how)
	LEFT JOIN (
		SELECT CASE
			WHEN ended_us IS NULL THEN CASE WHEN deadline_us > $1 THEN 'open' ELSE 'late' END
			WHEN state = 'SUCCEEDED' AND ended_us <= deadline_us THEN 'met'
			ELSE 'missed' END AS how
		FROM job WHERE deadline_us IS NOT NULL AND state <> 'CANCELLED'
	) j ON j.how = s.how
	GROUP BY s.how
UNION ALL SELECT 'spot_moves_total', k.kind, count(d.id)::float8 FROM (VALUES ('rebalance'), ('return'), ('park')) k (kind)
	LEFT JOIN decision d ON d.kind = k.kind GROUP BY k.kind
UNION ALL SELECT 'spot_fleet_moves_total', s.what, s.n::float8 FROM (SELECT count(*) AS begun,
		count(*) FILTER (WHERE ready_us IS NOT NULL AND NOT node_stands_in(n)) AS done,
		count(*) FILTER (WHERE ready_us IS NULL
			AND end_cause NOT IN ('', 'unwanted', 'released')) AS refused
	FROM node n WHERE fleet_id IS NOT NULL AND replaces_id IS NOT NULL) c
	CROSS JOIN LATERAL (VALUES ('begun', c.begun), ('done', c.done), ('refused', c.refused))
		s (what, n)
UNION ALL SELECT 'spot_moves_usd', s.what, s.micros / 1e6 FROM total t
	CROSS JOIN LATERAL (VALUES ('predicted', t.predicted), ('stay', t.stay), ('paid', t.paid), ('earned', t.stay - t.paid))
		s (what, micros)
UNION ALL SELECT 'spot_bursts_total', v.what, v.n::float8 FROM (
		SELECT count(*) AS asked, count(*) FILTER (WHERE x.after_us <= 180000000) AS soon,
			count(*) FILTER (WHERE x.after_us <= 3600000000) AS late
		FROM burst_save s JOIN node n ON n.id = s.node_id CROSS JOIN LATERAL (SELECT least(
			CASE WHEN n.end_cause = 'reclaimed' THEN n.ended_us END,
			(SELECT min(o.heard_us) FROM notice o WHERE o.node_id = n.id
				AND o.kind = 'interruption' AND o.heard_us >= s.at_us)
			) - s.at_us AS after_us) x
	) t CROSS JOIN LATERAL (VALUES ('begun', (SELECT count(*) FROM burst)), ('asked', t.asked),
		('followed_3m', t.soon), ('followed_60m', t.late)) v (what, n)

-- The histograms of recoveries, each with cumulated counts. le_us 0 = no bound.
-- name: api_metrics_recovery
-- rows: many provider text, phase text, le_us int8, n int8, us int8
-- writes: no
-- lane: long
SELECT t.provider, t.phase, coalesce(b.le, 0), (SELECT coalesce(sum(s.n), 0) FROM recovery_sum s
	WHERE s.provider = t.provider AND s.phase = t.phase AND s.bucket < b.i)::int8, t.us::int8
FROM (SELECT provider, phase, sum(us) AS us FROM recovery_sum GROUP BY provider, phase) t
CROSS JOIN unnest(recovery_bounds() || NULL::int8) WITH ORDINALITY b (le, i)
ORDER BY t.provider, t.phase, b.i

-- The recoveries of 30 days, by provider.
-- name: api_metrics_recovered
-- params: at_us int8
-- rows: many metric text, label text, value float8
-- row: metric
-- writes: no
-- lane: long
WITH r AS (
	SELECT provider, count(*) FILTER (WHERE outcome = 'open') AS open,
		count(*) FILTER (WHERE outcome = 'recovered') AS recovered,
		count(*) FILTER (WHERE outcome = 'failed') AS failed,
		count(in_window) AS saves, count(*) FILTER (WHERE in_window) AS landed
	FROM recovery WHERE notice_us > $1 - 2592000000000 GROUP BY provider
)
SELECT 'spot_recoveries_open', provider, open::float8 FROM r
UNION ALL SELECT 'spot_recovery_success_ratio', provider, recovered::float8 / (recovered + failed)
	FROM r WHERE recovered + failed > 0
UNION ALL SELECT 'spot_recovery_saves_in_window_ratio', provider, landed::float8 / saves
	FROM r WHERE saves > 0

-- The queue, budgets and shares of the teams.
-- name: api_metrics_teams
-- params: at_us int8
-- rows: many metric text, label text, value float8
-- row: metric
-- writes: no
-- lane: long
SELECT 'spot_queue_jobs', j.team, count(*)::float8 FROM job j WHERE j.state = 'QUEUED' AND j.cancel_us IS NULL GROUP BY j.team
UNION ALL SELECT 'spot_queue_wait_seconds_max', team, max($1 - queued_us) / 1e6 FROM job
	WHERE state = 'QUEUED' AND cancel_us IS NULL AND coalesce(not_before_us, 0) <= $1 GROUP BY team
UNION ALL SELECT 'spot_deferred_jobs', team, count(*)::float8 FROM job
	WHERE state = 'QUEUED' AND cancel_us IS NULL AND not_before_us > $1 GROUP BY team
UNION ALL SELECT 'spot_parked_jobs', team, count(*)::float8 FROM job WHERE state = 'PARKED' AND cancel_us IS NULL GROUP BY team
UNION ALL SELECT 'spot_budget_left_usd_min', team, min(budget_micros - job_spent(id, $1)) / 1e6 FROM job
	WHERE budget_micros IS NOT NULL AND state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED') GROUP BY team
UNION ALL SELECT 'spot_preemptions_total', 'jobs', count(*)::float8 FROM decision WHERE kind = 'preempted'
UNION ALL SELECT 'spot_share_ratio', s.team, coalesce((s.spent_micros / nullif(sum(s.spent_micros) OVER (), 0))
	/ (s.weight_pm / sum(s.weight_pm) OVER ()), 0)::float8 FROM team_share_now s
UNION ALL SELECT 'spot_share_weight', team, weight_pm / 1000.0 FROM team_share_now

-- Checkpoints, leaks and the leader.
-- name: api_metrics_upkeep
-- params: at_us int8
-- rows: many metric text, label text, value float8
-- row: metric
-- writes: no
-- lane: long
SELECT 'spot_checkpoints', state, count(*)::float8 FROM checkpoint GROUP BY state
UNION ALL SELECT 'spot_leak_usd_per_hour', k.state, coalesce(sum(l.price_micros), 0) / 1e6
	FROM (VALUES ('found'), ('kept'), ('ending')) k (state)
	LEFT JOIN leak l ON l.state = k.state GROUP BY k.state
UNION ALL SELECT 'spot_orphans', k.kind, count(o.ref)::float8 FROM (VALUES ('instance'), ('leftover')) k (kind)
	LEFT JOIN orphan o ON o.kind = k.kind AND o.gone_us IS NULL GROUP BY k.kind
UNION ALL SELECT 'spot_leader', holder, (until_us > $1)::int::float8 FROM leader
UNION ALL SELECT 'spot_leader_epoch', name, epoch::float8 FROM leader
UNION ALL SELECT 'spot_leader_lease_seconds', name, (until_us - $1) / 1e6 FROM leader
