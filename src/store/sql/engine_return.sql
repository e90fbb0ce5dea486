-- Planned moves: back to spot, and rebalancing. Gangs stay where they are: all ranks would stop for it, and twice the
-- machines would be held meanwhile.

-- name: engine_move_jobs
-- params: at_us int8, any_market bool
-- rows: many id int8, epoch int4, name text, spec jsonb, deadline_us int8?, steps_done int8, steps_total int8,
--   checkpoint_id int8?, checkpoint_bytes int8, checkpoint_steps int8, save_us int8, node_id int8, pool_id int4,
--   state_us int8, created_us int8, queued_us int8,
--   last_move_us int8, moves_hour int4, probes_refused int4, last_probe_us int8,
--   replacement_id int8?, replacement_state text?, replacement_ready_us int8?, rates text?, restart_us int8?
-- writes: no
SELECT j.id, j.epoch, j.name, j.spec, j.deadline_us, j.steps_done, j.steps_total, j.checkpoint_id,
	coalesce(c.bytes, 0), coalesce(c.steps, 0), coalesce(c.committed_us - c.created_us, 0),
	a.node_id, a.pool_id, j.state_us, j.created_us, j.queued_us,
	coalesce((SELECT max(e.at_us) FROM event e WHERE e.job_id = j.id AND e.event = 'MOVE'), 0),
	(SELECT count(*) FROM event e WHERE e.job_id = j.id AND e.event = 'MOVE' AND e.at_us > $1 - 3600000000)::int4,
	(SELECT count(*) FROM node r WHERE r.job_id = j.id AND r.replaces_id = a.node_id AND r.state = 'FAILED')::int4,
	coalesce((SELECT max(r.created_us) FROM node r WHERE r.job_id = j.id AND r.replaces_id = a.node_id), 0),
	r.id, r.state, r.ready_us, m.rates, m.restart_us
FROM job j
JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch AND a.ended_us IS NULL AND a.desired = 'run'
JOIN node n ON n.id = a.node_id AND n.state = 'READY'
LEFT JOIN checkpoint c ON c.id = j.checkpoint_id
LEFT JOIN LATERAL (SELECT r.id, r.state, r.ready_us FROM node r WHERE r.job_id = j.id AND r.replaces_id = a.node_id
	AND r.state NOT IN ('FAILED', 'GONE', 'TERMINATING') ORDER BY r.id DESC LIMIT 1) r ON true
LEFT JOIN LATERAL job_measured(ARRAY[j.id]) m ON true
WHERE j.state = 'RUNNING' AND j.cancel_us IS NULL AND j.fleet_id IS NULL AND j.num_nodes = 1
	AND ($2 OR a.market <> 'spot' OR r.id IS NOT NULL)
ORDER BY j.id LIMIT 200

-- name: engine_rebalance_due
-- rows: many id int8, outcome jsonb, inputs jsonb
-- writes: no
SELECT id, outcome, inputs FROM decision
WHERE kind = 'rebalance_request' AND outcome->>'state' = 'pending' ORDER BY id LIMIT 4

-- name: engine_rebalance_done
-- params: id int8, outcome jsonb, why text, fence int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH d AS (
	UPDATE decision SET outcome = $2, why = $3 WHERE id = $1 AND outcome->>'state' = 'pending'
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR SHARE)
	RETURNING id
)
SELECT id, pg_notify('spot_api', 'd' || id) IS NOT NULL AS told FROM d
