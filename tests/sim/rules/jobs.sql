-- Rules about rows that the tests ask (src/store/gen_rules.py says how one is written). Jobs, their epochs and their checkpoints.

-- rule: every accepted job reaches an end
-- chaos: yes
-- Asked when all is calm.
SELECT id, 'j' || id || ' ' || state || ' ' || why AS words
FROM job
WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')

-- rule: every node reaches an end
-- chaos: yes
SELECT id, 'n' || id || ' ' || state || ' ' || why || ' ' || last_error AS words
FROM node
WHERE state NOT IN ('GONE', 'FAILED')

-- rule: an abandoned checkpoint is deleted
-- An abandoned checkpoint is disposed of in the end.
SELECT id, 'c' || id AS words
FROM checkpoint
WHERE state = 'ABANDONED' AND disposed_us IS NULL

-- rule: an epoch that is over commits nothing
-- chaos: yes
SELECT c.id, 'c' || c.id || ' of j' || c.job_id || ' epoch ' || c.epoch AS words
FROM checkpoint c
JOIN attempt n ON n.job_id = c.job_id AND n.epoch > c.epoch
WHERE c.state = 'COMMITTED' AND c.committed_us > n.created_us + :skew

-- rule: each rank goes on from its own checkpoint
-- chaos: yes
SELECT a.job_id AS id, 'j' || a.job_id || ' epoch ' || a.epoch || ' rank ' || a.rank || ' from c' || c.id AS words
FROM attempt a
JOIN checkpoint c ON c.id = a.restore_id
WHERE (c.job_id, c.rank) <> (a.job_id, a.rank) OR c.state <> 'COMMITTED'

-- rule: a checkpoint has all that its program saved
-- :files: as many files as each program of this seed saves.
SELECT id, 'c' || id || ' has ' || n AS words
FROM (SELECT c.id, count(DISTINCT k.path) AS n FROM checkpoint c JOIN checkpoint_chunk k ON k.checkpoint_id
	= c.id WHERE c.state = 'COMMITTED' GROUP BY 1) x
WHERE n <> :files

-- rule: a healthy job is never recovered
-- Asked where no fault was injected.
SELECT id, 'j' || id || ' epoch ' || epoch AS words
FROM job j
WHERE epoch > 1 AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.job_id = j.id AND a.exit_reason = 'error')
	AND NOT EXISTS (SELECT 1 FROM decision d WHERE d.job_id = j.id AND d.kind IN ('rebalance', 'return', 'preempted'))
	AND NOT EXISTS (SELECT FROM event e WHERE e.job_id = j.id AND e.event = 'BUDGET')

-- rule: a job that succeeded did all its steps
-- chaos: yes
SELECT id, 'j' || id || ' at ' || steps_done || ' of ' || steps_total AS words
FROM job
WHERE state = 'SUCCEEDED' AND steps_total > 0 AND steps_done < steps_total

-- rule: a job that succeeded ended well on all ranks
-- chaos: yes
SELECT j.id, 'j' || j.id || ' rank ' || a.rank || ' ' || a.exit_reason AS words
FROM job j
JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch
WHERE j.state = 'SUCCEEDED' AND a.exit_reason <> 'ok'

-- rule: a succeeded job's result is stored
SELECT j.id, 'j' || j.id || ' rank ' || a.rank || ' at step ' || coalesce(c.steps, -1) AS words
FROM job j
JOIN attempt a ON a.job_id = j.id AND a.epoch = j.epoch
LEFT JOIN LATERAL (SELECT max(k.steps) AS steps FROM checkpoint k WHERE k.job_id = j.id AND k.rank = a.rank
	AND k.state = 'COMMITTED') c ON true
WHERE j.state = 'SUCCEEDED' AND j.steps_total > 0 AND j.spec->'checkpoint'->>'path' IS NOT NULL
	AND coalesce(c.steps, -1) < j.steps_total

-- rule: no submit is half done
-- chaos: yes
-- A job has one such event. The stored reply of a key names a job.
SELECT j.id, 'j' || j.id || ' and its event' AS words
FROM job j
WHERE (SELECT count(*) FROM event e WHERE e.job_id = j.id AND e.event = 'SUBMITTED') <> 1
UNION ALL
SELECT i.token_id, i.key || ' and its job'
FROM idempotency i
WHERE i.route = 'POST /v1/jobs' AND i.status = 201 AND NOT EXISTS (SELECT FROM job j
	WHERE i.response = 'ref:j' || j.id OR starts_with(i.response, '{"id":"j' || j.id || '"'))
