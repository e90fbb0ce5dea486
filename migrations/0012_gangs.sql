-- Gangs: a job of several nodes has one attempt row per rank, all under one epoch, on the nodes of one gang. What came
-- before knows rank 0 only, and a job of one node has no other.

ALTER TABLE job ADD COLUMN num_nodes int4 NOT NULL
	GENERATED ALWAYS AS (coalesce((spec->>'num_nodes')::int4, 1)) STORED;
CREATE INDEX job_gang ON job (id) WHERE num_nodes > 1 AND state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED');

CREATE TABLE gang (                      -- machines of one pool that serve one job together, or not at all
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	job_id         int8 NOT NULL REFERENCES job,
	pool_id        int4 NOT NULL REFERENCES pool,
	place          text NOT NULL,    -- provider/region/zone/type: one gang at a time acquires there
	want           int4 NOT NULL CHECK (want > 1),
	token          text,             -- one launch call for all, under this token (that of rank 0); NULL = one each
	state          text NOT NULL CHECK (state IN ('ACQUIRING', 'SERVING', 'RELEASED')),
	created_us     int8 NOT NULL,
	served_us      int8,             -- first assigned
	ended_us       int8,
	why            text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX gang_one_per_place ON gang (place) WHERE state = 'ACQUIRING';
CREATE UNIQUE INDEX gang_one_acquires ON gang (job_id) WHERE state = 'ACQUIRING';
CREATE UNIQUE INDEX gang_one_serves ON gang (job_id) WHERE state = 'SERVING';

ALTER TABLE node ADD COLUMN gang_id int8 REFERENCES gang,
	ADD COLUMN gang_rank int4,
	ADD COLUMN gang_call boolean NOT NULL DEFAULT false; -- launched by the gang's one call, not by its own
CREATE UNIQUE INDEX node_gang ON node (gang_id, gang_rank)
	WHERE gang_id IS NOT NULL AND state NOT IN ('GONE', 'FAILED', 'TERMINATING');
CREATE INDEX node_gang_all ON node (gang_id) WHERE gang_id IS NOT NULL;

CREATE TABLE gang_cool (                 -- a pool that could not give so many together rests for gangs of that size
	pool_id        int4 PRIMARY KEY REFERENCES pool,
	want           int4 NOT NULL,
	until_us       int8 NOT NULL,
	refusals       int4 NOT NULL,    -- in a row
	why            text NOT NULL
);

ALTER TABLE attempt ADD COLUMN rank int4 NOT NULL DEFAULT 0,
	DROP CONSTRAINT attempt_pkey,
	ADD PRIMARY KEY (job_id, epoch, rank);
-- Every epoch has all ranks, so that no rank of an older one lives beside it.
DROP INDEX attempt_one_live;
CREATE UNIQUE INDEX attempt_one_live ON attempt (job_id, rank) WHERE ended_us IS NULL;
CREATE INDEX attempt_unsettled ON attempt (job_id, epoch) WHERE NOT settled;

-- Each rank saves its own files. What counts is a set: the same step of every rank of an epoch.
ALTER TABLE checkpoint ADD COLUMN rank int4 NOT NULL DEFAULT 0,
	ADD COLUMN set_key int8,         -- of a gang: its step; where steps are not told, minus the how-manieth of its rank
	ADD COLUMN set_us int8;          -- the set is complete since
CREATE INDEX checkpoint_set ON checkpoint (job_id, epoch, set_key, rank) WHERE set_key IS NOT NULL;

ALTER TABLE job_log ADD COLUMN rank int4 NOT NULL DEFAULT 0,
	DROP CONSTRAINT job_log_pkey,
	ADD PRIMARY KEY (job_id, epoch, rank, at_offset);

CREATE OR REPLACE VIEW api_checkpoint AS
SELECT c.id, c.job_id, c.epoch, c.state, json_build_object('id', 'c' || c.id, 'job', 'j' || c.job_id, 'epoch', c.epoch,
	'state', c.state, 'reason', c.reason, 'steps', c.steps, 'bytes', c.bytes, 'bytes_new', c.bytes_new,
	'rank', c.rank, 'created@', c.created_us, 'committed@', c.committed_us, 'complete@', c.set_us) AS doc
FROM checkpoint c;

CREATE OR REPLACE VIEW api_attempt AS
SELECT a.job_id, a.epoch, a.node_id, json_build_object('epoch', a.epoch, 'rank', a.rank, 'node', 'n' || a.node_id,
	'pool', p.doc, 'market', a.market, 'desired', a.desired, 'phase', a.phase, 'exit_reason', a.exit_reason,
	'exit_code', a.exit_code, 'exit_signal', a.exit_signal, 'steps_start', a.steps_start,
	'steps_done', a.steps_done, 'restored_from', 'c' || a.restore_id, 'drain_why', a.drain_why,
	'created@', a.created_us, 'started@', a.started_us, 'ended@', a.ended_us,
	'drain_deadline@', a.drain_deadline_us, 'signalled@', a.signalled_us) AS doc, a.rank
FROM attempt a JOIN api_pool p ON p.id = a.pool_id;

-- The node is the head, rank 0; once that has ended, the lowest rank that lives. An interruption stops all ranks and
-- counts once.
CREATE OR REPLACE VIEW api_job AS
SELECT j.id, json_build_object('id', 'j' || j.id, 'name', j.name, 'state', j.state, 'owner', j.owner,
	'team', j.team, 'project', j.project, 'class', j.class, 'fleet', 'f' || j.fleet_id, 'epoch', j.epoch,
	'priority', j.priority, 'num_nodes', j.num_nodes,
	'created@', j.created_us, 'queued@', j.queued_us, 'started@', j.started_us,
	'ended@', j.ended_us, 'deadline@', j.deadline_us, 'cancel@', j.cancel_us, 'steps_done', j.steps_done,
	'steps_total', j.steps_total, 'restarts', j.restarts, 'reason', j.reason, 'why', j.why,
	'pool', p.doc, 'node', 'n' || a.node_id, 'market', a.market,
	'attempts', (SELECT count(DISTINCT t.epoch) FROM attempt t WHERE t.job_id = j.id),
	'interruptions', (SELECT count(DISTINCT t.epoch) FROM attempt t WHERE t.job_id = j.id AND (t.exit_reason = 'lost'
		OR (t.exit_reason = 'drained' AND EXISTS (SELECT FROM notice o WHERE o.node_id = t.node_id
			AND o.kind = 'interruption')))),
	'cost$', (SELECT coalesce(sum(l.amount_micros), 0)::int8 FROM ledger l WHERE l.job_id = j.id),
	'checkpoint', (SELECT json_build_object('id', 'c' || c.id, 'steps', c.steps, 'bytes', c.bytes,
		'committed@', c.committed_us) FROM checkpoint c WHERE c.id = j.checkpoint_id)) AS doc
FROM job j
LEFT JOIN LATERAL (SELECT t.node_id, t.pool_id, t.market FROM attempt t WHERE t.job_id = j.id AND t.ended_us IS NULL
	ORDER BY t.rank LIMIT 1) a ON true
LEFT JOIN api_pool p ON p.id = a.pool_id;

CREATE OR REPLACE VIEW api_node AS
SELECT n.id, json_build_object('id', 'n' || n.id, 'name', n.name, 'state', n.state, 'pool', p.doc,
	'job', (SELECT 'j' || a.job_id FROM attempt a WHERE a.node_id = n.id AND a.ended_us IS NULL),
	'wanted_for', 'j' || n.job_id, 'fleet', 'f' || n.fleet_id, 'replaces', 'n' || n.replaces_id,
	'gang', 'g' || n.gang_id, 'rank', n.gang_rank,
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
