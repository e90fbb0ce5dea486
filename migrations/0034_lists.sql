-- Rows of the lists as typed columns, and indexes for their filters. The views of 0003 and 0012 stay for the previous daemon.
-- CREATE INDEX lets nobody write to job or node while it runs: about two seconds for each million jobs.

-- Filters of GET /v1/jobs: each is walked from the newest id. The index job_state serves states, job_name serves names.
CREATE INDEX job_team_id ON job (team, id);
CREATE INDEX job_owner_id ON job (owner, id);
CREATE INDEX job_class_id ON job (class, id);
CREATE INDEX job_project_id ON job (project, id) WHERE project <> '';
CREATE INDEX node_fleet_id ON node (fleet_id, id) WHERE fleet_id IS NOT NULL;
CREATE INDEX node_pool_id ON node (pool_id, id);
CREATE INDEX fleet_team_id ON fleet (team, id);
-- The offered pools by id, for pages of GET /v1/pools.
CREATE INDEX pool_offered_id ON pool (id) WHERE offered;

CREATE VIEW pool_shown AS
SELECT p.id AS pool_id, p.provider, p.region, p.zone, p.zone_name, p.instance_type, p.market AS pool_market, p.gpu_name, p.gpu_milli,
	p.gpu_mem_mib, p.vcpus, p.mem_mib, p.arch, p.offered, l.price_micros AS pool_price_micros,
	CASE WHEN p.gpu_milli > 0 THEN l.price_micros * 1000 / p.gpu_milli END AS per_gpu_micros, coalesce(l.state, 'none') AS price_state,
	coalesce(l.why, '') AS price_why, l.observed_us, l.effective_us, coalesce(l.source, '') AS source
FROM pool p LEFT JOIN pool_latest l ON l.pool_id = p.id;

-- The node is the head, rank 0; once that has ended, the lowest rank that lives. An interruption stops all ranks and
-- counts once. A job of epoch 0 never had an attempt.
CREATE VIEW job_shown AS
SELECT j.id, j.name, j.state, j.owner, j.team, j.project, j.class, j.fleet_id, j.epoch, j.priority, j.num_nodes, j.created_us, j.queued_us,
	j.started_us, j.ended_us, j.deadline_us, j.cancel_us, j.steps_done, j.steps_total, j.restarts, j.reason, j.why,
	p.*, a.node_id, a.market,
	CASE WHEN j.epoch = 0 THEN 0 ELSE (SELECT count(DISTINCT t.epoch) FROM attempt t WHERE t.job_id = j.id) END AS attempts,
	CASE WHEN j.epoch = 0 THEN 0 ELSE (SELECT count(DISTINCT t.epoch) FROM attempt t WHERE t.job_id = j.id AND (t.exit_reason = 'lost'
		OR (t.exit_reason = 'drained' AND EXISTS (SELECT FROM notice o WHERE o.node_id = t.node_id
			AND o.kind = 'interruption')))) END AS interruptions,
	coalesce((SELECT c.micros FROM job_cost c WHERE c.job_id = j.id),
		(SELECT sum(l.amount_micros) FROM ledger l WHERE l.job_id = j.id), 0)::int8 AS cost_micros,
	c.id AS checkpoint_id, c.steps AS checkpoint_steps, c.bytes AS checkpoint_bytes, c.committed_us AS checkpoint_us
FROM job j
LEFT JOIN LATERAL (SELECT t.node_id, t.pool_id, t.market FROM attempt t WHERE j.epoch > 0 AND t.job_id = j.id AND t.ended_us IS NULL
	ORDER BY t.rank LIMIT 1) a ON true
LEFT JOIN pool_shown p ON p.pool_id = a.pool_id
LEFT JOIN checkpoint c ON c.id = j.checkpoint_id;

CREATE VIEW node_shown AS
SELECT n.id, n.name, n.state, p.*,
	(SELECT a.job_id FROM attempt a WHERE a.node_id = n.id AND a.ended_us IS NULL) AS serves_job_id, n.job_id, n.fleet_id,
	n.replaces_id, n.gang_id, n.gang_rank, n.ref, n.ip, n.token, n.price_micros, n.created_us, n.launched_us, n.ready_us,
	n.drain_deadline_us, n.terminate_us, n.ended_us, n.end_cause, n.last_seen_us, n.provider_state, n.agent_version,
	o.kind AS notice_kind, nullif(o.deadline_us, 0) AS notice_deadline_us, o.source AS notice_source, o.heard_us AS notice_heard_us,
	(SELECT coalesce(sum(l.amount_micros), 0)::int8 FROM ledger l WHERE l.node_id = n.id) AS cost_micros, n.why, n.last_error
FROM node n
JOIN pool_shown p ON p.pool_id = n.pool_id
LEFT JOIN LATERAL (SELECT o.kind, o.deadline_us, o.source, o.heard_us FROM notice o WHERE o.node_id = n.id
	ORDER BY o.kind = 'interruption' DESC, o.heard_us LIMIT 1) o ON true;
