-- What the REST interface shows, as JSON documents: one view per noun, so that a shape is written
-- once. Keys carry marks that src/api/view.c resolves: "created@" is a time (int8 microseconds) and
-- leaves as created_at in RFC 3339; "observed@age" leaves as observed_at and age_s; "price$" is money
-- and leaves as price_micros and price_usd. Documents stored as they are (specs, decisions) hold no marks.

CREATE VIEW api_pool AS
SELECT p.id, json_build_object('id', 'p' || p.id, 'provider', p.provider, 'region', p.region, 'zone', p.zone,
	'zone_name', p.zone_name, 'instance_type', p.instance_type, 'market', p.market, 'gpu', p.gpu_name,
	'gpus', trim_scale(p.gpu_milli / 1000.0), 'gpu_mem_mib', p.gpu_mem_mib, 'vcpus', p.vcpus,
	'mem_mib', p.mem_mib, 'arch', p.arch, 'offered', p.offered, 'price$', l.price_micros,
	'price_per_gpu_micros', CASE WHEN p.gpu_milli > 0 THEN l.price_micros * 1000 / p.gpu_milli END,
	'price_state', coalesce(l.state, 'none'), 'price_why', coalesce(l.why, ''),
	'observed@age', l.observed_us, 'effective@', l.effective_us, 'source', coalesce(l.source, '')) AS doc
FROM pool p LEFT JOIN pool_latest l ON l.pool_id = p.id;

CREATE VIEW api_checkpoint AS
SELECT c.id, c.job_id, c.epoch, c.state, json_build_object('id', 'c' || c.id, 'job', 'j' || c.job_id, 'epoch', c.epoch,
	'state', c.state, 'reason', c.reason, 'steps', c.steps, 'bytes', c.bytes, 'bytes_new', c.bytes_new,
	'created@', c.created_us, 'committed@', c.committed_us) AS doc
FROM checkpoint c;

CREATE VIEW api_attempt AS
SELECT a.job_id, a.epoch, a.node_id, json_build_object('epoch', a.epoch, 'node', 'n' || a.node_id, 'pool', p.doc,
	'market', a.market, 'desired', a.desired, 'phase', a.phase, 'exit_reason', a.exit_reason,
	'exit_code', a.exit_code, 'exit_signal', a.exit_signal, 'steps_start', a.steps_start,
	'steps_done', a.steps_done, 'restored_from', 'c' || a.restore_id, 'drain_why', a.drain_why,
	'created@', a.created_us, 'started@', a.started_us, 'ended@', a.ended_us,
	'drain_deadline@', a.drain_deadline_us, 'signalled@', a.signalled_us) AS doc
FROM attempt a JOIN api_pool p ON p.id = a.pool_id;

-- An interruption is an attempt that was lost, or drained from a node that the provider took.
CREATE VIEW api_job AS
SELECT j.id, json_build_object('id', 'j' || j.id, 'name', j.name, 'state', j.state, 'owner', j.owner,
	'team', j.team, 'project', j.project, 'class', j.class, 'fleet', 'f' || j.fleet_id, 'epoch', j.epoch,
	'priority', j.priority, 'created@', j.created_us, 'queued@', j.queued_us, 'started@', j.started_us,
	'ended@', j.ended_us, 'deadline@', j.deadline_us, 'cancel@', j.cancel_us, 'steps_done', j.steps_done,
	'steps_total', j.steps_total, 'restarts', j.restarts, 'reason', j.reason, 'why', j.why,
	'pool', p.doc, 'node', 'n' || a.node_id, 'market', a.market,
	'attempts', (SELECT count(*) FROM attempt t WHERE t.job_id = j.id),
	'interruptions', (SELECT count(*) FROM attempt t WHERE t.job_id = j.id AND (t.exit_reason = 'lost'
		OR (t.exit_reason = 'drained' AND EXISTS (SELECT FROM notice o WHERE o.node_id = t.node_id
			AND o.kind = 'interruption')))),
	'cost$', (SELECT coalesce(sum(l.amount_micros), 0)::int8 FROM ledger l WHERE l.job_id = j.id),
	'checkpoint', (SELECT json_build_object('id', 'c' || c.id, 'steps', c.steps, 'bytes', c.bytes,
		'committed@', c.committed_us) FROM checkpoint c WHERE c.id = j.checkpoint_id)) AS doc
FROM job j
LEFT JOIN attempt a ON a.job_id = j.id AND a.ended_us IS NULL
LEFT JOIN api_pool p ON p.id = a.pool_id;

CREATE VIEW api_node AS
SELECT n.id, json_build_object('id', 'n' || n.id, 'name', n.name, 'state', n.state, 'pool', p.doc,
	'job', (SELECT 'j' || a.job_id FROM attempt a WHERE a.node_id = n.id AND a.ended_us IS NULL),
	'wanted_for', 'j' || n.job_id, 'fleet', 'f' || n.fleet_id, 'replaces', 'n' || n.replaces_id,
	'ref', n.ref, 'ip', n.ip, 'token', n.token, 'price$', n.price_micros, 'created@', n.created_us,
	'launched@', n.launched_us, 'ready@', n.ready_us, 'drain_deadline@', n.drain_deadline_us,
	'terminate@', n.terminate_us, 'ended@', n.ended_us, 'end_cause', n.end_cause,
	'last_seen@', n.last_seen_us, 'provider_state', n.provider_state, 'agent_version', n.agent_version,
	'notice', (SELECT json_build_object('kind', o.kind, 'deadline@', nullif(o.deadline_us, 0), 'source', o.source,
		'heard@', o.heard_us) FROM notice o WHERE o.node_id = n.id
		ORDER BY o.kind = 'interruption' DESC, o.heard_us LIMIT 1),
	'cost$', (SELECT coalesce(sum(l.amount_micros), 0)::int8 FROM ledger l WHERE l.node_id = n.id),
	'why', n.why, 'last_error', n.last_error) AS doc
FROM node n JOIN api_pool p ON p.id = n.pool_id;

CREATE VIEW api_fleet AS
SELECT f.id, json_build_object('id', 'f' || f.id, 'name', f.name, 'owner', f.owner, 'team', f.team,
	'project', f.project, 'state', f.state, 'version', f.version, 'spec', f.spec, 'why', f.why,
	'nodes_live', (SELECT count(*) FROM node n WHERE n.fleet_id = f.id AND n.state NOT IN ('GONE', 'FAILED')),
	'nodes_ready', (SELECT count(*) FROM node n WHERE n.fleet_id = f.id AND n.state = 'READY'),
	'pools', (SELECT count(DISTINCT n.pool_id) FROM node n WHERE n.fleet_id = f.id
		AND n.state NOT IN ('GONE', 'FAILED')),
	'cost$', (SELECT coalesce(sum(l.amount_micros), 0)::int8 FROM ledger l JOIN node n ON n.id = l.node_id
		WHERE n.fleet_id = f.id),
	'created@', f.created_us, 'updated@', f.updated_us) AS doc
FROM fleet f;

CREATE VIEW api_event AS
SELECT e.id, e.job_id, e.node_id, json_build_object('id', e.id, '@', e.at_us, 'entity', e.entity,
	'entity_id', e.entity_id, 'job', 'j' || e.job_id, 'node', 'n' || e.node_id, 'epoch', e.epoch, 'was', e.was,
	'now', e.now, 'event', e.event, 'why', e.why, 'actor', e.actor, 'data', e.data) AS doc
FROM event e;

CREATE VIEW api_decision AS
SELECT d.id, d.job_id, json_build_object('id', 'd' || d.id, '@', d.at_us, 'kind', d.kind, 'job', 'j' || d.job_id,
	'node', 'n' || d.node_id, 'inputs', d.inputs, 'outcome', d.outcome, 'why', d.why) AS doc
FROM decision d;

-- The cheapest offers first, a page at a time.
CREATE INDEX pool_latest_price ON pool_latest (price_micros, pool_id);
