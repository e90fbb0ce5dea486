-- Deletes expired rows: one statement per table, a limited number of rows at a time. A slow or
-- failing one delays no other, and a long unpurged table empties piece by piece. Rows are deleted
-- by age alone, so any daemon may do it: not fenced. If n equals the limit, there may be more.

-- Walks the primary key, from one node to the next. An index on the time alone would cost a write
-- for every agent's sample.
-- name: retention_samples
-- params: before_us int8, most int4
-- rows: 1 n int8
-- writes: yes
-- lane: long
WITH RECURSIVE x AS (
	(SELECT node_id FROM node_sample ORDER BY node_id LIMIT 1)
	UNION ALL
	SELECT (SELECT s.node_id FROM node_sample s WHERE s.node_id > x.node_id ORDER BY s.node_id LIMIT 1) FROM x WHERE x.node_id IS NOT NULL
), d AS (
	DELETE FROM node_sample WHERE ctid = ANY (ARRAY(SELECT s.ctid FROM x CROSS JOIN LATERAL (SELECT ctid FROM node_sample
		WHERE node_id = x.node_id AND at_us < $1 ORDER BY at_us LIMIT $2) s LIMIT $2))
	RETURNING 1
)
SELECT count(*) AS n FROM d

-- The same, from job to job.
-- name: retention_logs
-- params: before_us int8, most int4
-- rows: 1 n int8
-- writes: yes
-- lane: long
WITH RECURSIVE x AS (
	(SELECT job_id FROM job_log ORDER BY job_id LIMIT 1)
	UNION ALL
	SELECT (SELECT l.job_id FROM job_log l WHERE l.job_id > x.job_id ORDER BY l.job_id LIMIT 1) FROM x WHERE x.job_id IS NOT NULL
), d AS (
	DELETE FROM job_log WHERE ctid = ANY (ARRAY(SELECT l.ctid FROM x JOIN job j ON j.id = x.job_id AND j.ended_us < $1
		CROSS JOIN LATERAL (SELECT ctid FROM job_log WHERE job_id = j.id LIMIT $2) l LIMIT $2))
	RETURNING 1
)
SELECT count(*) AS n FROM d

-- name: retention_refused
-- params: before_us int8, most int4
-- rows: 1 n int8
-- writes: yes
-- lane: long
WITH d AS (
	DELETE FROM price_refused WHERE ctid = ANY (ARRAY(SELECT ctid FROM price_refused WHERE observed_us < $1 LIMIT $2)) RETURNING 1
)
SELECT count(*) AS n FROM d

-- name: retention_misdated
-- params: before_us int8, most int4
-- rows: 1 n int8
-- writes: yes
-- lane: long
WITH d AS (
	DELETE FROM price_misdated WHERE ctid = ANY (ARRAY(SELECT ctid FROM price_misdated WHERE observed_us < $1 LIMIT $2)) RETURNING 1
)
SELECT count(*) AS n FROM d

-- name: retention_gaps
-- params: before_us int8, most int4
-- rows: 1 n int8
-- writes: yes
-- lane: long
WITH d AS (
	DELETE FROM feed_gap WHERE ctid = ANY (ARRAY(SELECT ctid FROM feed_gap WHERE to_us < $1 LIMIT $2)) RETURNING 1
)
SELECT count(*) AS n FROM d

-- A stopped machine may come back after weeks, so decisions to keep one stay longer.
-- name: retention_leaks
-- params: before_us int8, keep_before_us int8, most int4
-- rows: 1 n int8
-- writes: yes
-- lane: long
WITH d AS (
	DELETE FROM orphan WHERE ctid = ANY (ARRAY(SELECT ctid FROM orphan WHERE gone_us < CASE WHEN word = 'keep' THEN $2 ELSE $1 END LIMIT $3))
		AND gone_us < $1 RETURNING 1
)
SELECT count(*) AS n FROM d

-- name: retention_proofs
-- params: before_us int8, most int4
-- rows: 1 n int8
-- writes: yes
-- lane: long
WITH d AS (
	DELETE FROM enrol_proof WHERE ctid = ANY (ARRAY(SELECT e.ctid FROM enrol_proof e JOIN node n ON n.id = e.node_id WHERE n.ended_us < $1 LIMIT $2))
	RETURNING 1
)
SELECT count(*) AS n FROM d

-- name: retention_keys
-- params: before_us int8, most int4
-- rows: 1 n int8
-- writes: yes
-- lane: long
WITH d AS (
	DELETE FROM idempotency WHERE ctid = ANY (ARRAY(SELECT ctid FROM idempotency WHERE created_us < $1 LIMIT $2)) AND created_us < $1 RETURNING 1
)
SELECT count(*) AS n FROM d

-- A daemon marks files that nodes still download as in use (api_handout_seen).
-- name: retention_agents
-- params: before_us int8, most int4
-- rows: 1 n int8
-- writes: yes
-- lane: long
WITH d AS (
	DELETE FROM agent_binary WHERE sha256 = ANY (ARRAY(SELECT sha256 FROM agent_binary WHERE seen_us < $1 LIMIT $2)) AND seen_us < $1 RETURNING 1
)
SELECT count(*) AS n FROM d
