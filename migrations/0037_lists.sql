-- Rows of the lists as typed columns, and indexes for their filters. The views of 0003 and 0012 stay for the previous daemon.
-- CREATE INDEX lets nobody write to job or node while it runs: about two seconds for each million jobs.

-- Filters of GET /v1/jobs: each is walked from the newest id. The index job_state serves states, job_name serves names.
CREATE INDEX job_team_id ON job (team, id);
CREATE INDEX job_owner_id ON job (owner, id);
CREATE INDEX job_class_id ON job (class, id);
CREATE INDEX node_job_id ON node (job_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX node_fleet_id ON node (fleet_id, id) WHERE fleet_id IS NOT NULL;
CREATE INDEX node_pool_live ON node (pool_id) WHERE state NOT IN ('GONE', 'FAILED');
CREATE INDEX fleet_team_id ON fleet (team, id);
-- The offered pools by id, for pages of GET /v1/pools.
CREATE INDEX pool_offered_id ON pool (id) WHERE offered;
-- Filters of GET /v1/prices and /v1/pools. A GPU is asked for in any case, and by the beginning of its name. The planner
-- uses no statistics of a partial index.
CREATE INDEX pool_gpu_any ON pool (upper(gpu_name) text_pattern_ops);
CREATE INDEX pool_region ON pool (region) WHERE offered;
CREATE INDEX pool_type ON pool (instance_type) WHERE offered;
CREATE INDEX pool_latest_odd ON pool_latest (state, price_micros, pool_id) WHERE state <> 'fresh';

CREATE VIEW pool_shown AS
SELECT p.id AS pool_id, p.provider, p.region, p.zone, p.zone_name, p.instance_type, p.market AS pool_market, p.gpu_name, p.gpu_milli,
	p.gpu_mem_mib, p.vcpus, p.mem_mib, p.arch, p.offered, l.price_micros AS pool_price_micros,
	CASE WHEN p.gpu_milli > 0 THEN l.price_micros * 1000 / p.gpu_milli END AS per_gpu_micros, coalesce(l.state, 'none') AS price_state,
	coalesce(l.why, '') AS price_why, l.observed_us, l.effective_us, coalesce(l.source, '') AS source
FROM pool p LEFT JOIN pool_price l ON l.pool_id = p.id;

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

-- The rest of a row of prices and pools, as the statements show it (api_pool_more of 0007, as columns).
CREATE FUNCTION pool_told(one int4, since_day int4) RETURNS TABLE (signals text, cool_until_us int8, cool_why text, node_milli int8,
	reclaims int4, launches int4, refusals int4, nodes int8, market text, advisor_lo float8, advisor_hi float8, advisor_as_of_us int8,
	node_us int8, band_lo float8, band_hi float8, share float8, share_lo float8, share_hi float8) LANGUAGE sql STABLE AS $$
SELECT coalesce((SELECT json_agg(json_build_object('kind', s.kind, 'value', s.value, 'lo', s.lo, 'hi', s.hi,
		'source', s.source, 'as_of@', nullif(s.as_of_us, 0), 'observed@age', s.observed_us) ORDER BY s.kind)
		FROM signal s WHERE s.provider = p.provider AND s.region = p.region AND s.zone IN ('', p.zone)
			AND s.instance_type IN ('', p.instance_type) AND s.market IN ('', p.market))::text, '[]'),
	c.until_us, c.why, round(r.node_us / 3600000.0)::int8, r.reclaims, r.launches, r.refusals,
	(SELECT count(*) FROM node n WHERE n.pool_id = p.id AND n.state NOT IN ('GONE', 'FAILED')),
	p.market, a.advisor_lo, a.advisor_hi, a.advisor_as_of_us, r.node_us, a.band_lo, a.band_hi, a.share, a.share_lo, a.share_hi
FROM pool p
LEFT JOIN pool_cool c ON c.pool_id = p.id
LEFT JOIN LATERAL (SELECT max(w.advisor_lo) AS advisor_lo, max(w.advisor_hi) AS advisor_hi,
	max(w.advisor_as_of_us) AS advisor_as_of_us, max(w.band_lo) AS band_lo, max(w.band_hi) AS band_hi,
	max(w.share) AS share, min(w.share_lo) AS share_lo, max(w.share_hi) AS share_hi
	FROM signal_wide w WHERE w.provider = p.provider AND w.region = p.region AND w.zone IN ('', p.zone)
		AND w.instance_type = p.instance_type AND w.market = p.market) a ON true
LEFT JOIN LATERAL (SELECT coalesce(sum(d.node_us), 0)::int8 AS node_us, coalesce(sum(d.reclaims), 0)::int4 AS reclaims,
	coalesce(sum(d.launches), 0)::int4 AS launches, coalesce(sum(d.refusals), 0)::int4 AS refusals
	FROM pool_day d WHERE d.pool_id = p.id AND d.day >= $2) r ON true
WHERE p.id = $1 $$;
