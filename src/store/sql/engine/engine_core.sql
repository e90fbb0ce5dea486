-- The engine's own rows: installation, leadership, and the plain transitions of nodes and jobs.
-- Every write carries the leader's epoch ("fence"), so a daemon that lost the lease changes
-- nothing.

-- name: engine_install_get
-- rows: 0..1 id text, enrol_key bytea
-- writes: no
SELECT id, enrol_key FROM install

-- name: engine_install_create
-- params: id text, enrol_key bytea, at_us int8
-- rows: none
-- writes: yes
INSERT INTO install (id, enrol_key, created_us) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- Takes the lease if it was released (until_us 0), or if its row is the one that the caller has
-- watched for a whole lease. Clock skew therefore neither keeps nor takes it. If another daemon
-- holds the lease, returns the row to watch.
--
-- The new holder gets gap_us. It says how long nobody renewed the lease, or how far the clock lags
-- behind the previous leader's. 0 means for no longer than that. The gap is stored. most_us is the
-- most that leaders since since_us found, gap_at_us the time of the last such find. Two daemons
-- that lead alternately, one with a slow clock, thus find the same gap each time.
--
-- No epoch is given twice, even if a lagging standby restores an older row. known_epoch is the
-- highest that the caller ever led or watched.
-- name: engine_lease_take
-- params: holder text, at_us int8, until_us int8, seen_epoch int8, seen_until_us int8,
--   known_epoch int8, little_us int8, since_us int8
-- rows: 0..1 epoch int8, taken bool, until_us int8, gap_us int8, most_us int8, gap_at_us int8
-- writes: yes
WITH c AS (
	SELECT epoch, until_us FROM leader WHERE name = 'engine'
), t AS (
	INSERT INTO leader AS l (name, epoch, holder, until_us)
	SELECT 'engine', $6 + 1, $1, $3 WHERE NOT EXISTS (SELECT FROM c WHERE until_us > 0 AND (epoch, until_us) <> ($4, $5))
	ON CONFLICT (name) DO UPDATE
		SET epoch = greatest(l.epoch, $6) + 1, holder = excluded.holder, until_us = excluded.until_us
		WHERE l.until_us <= 0 OR (l.epoch = $4 AND l.until_us = $5)
	RETURNING l.epoch
), p AS (
	SELECT t.epoch, $2 - least((SELECT b.to_us FROM led b WHERE b.epoch < t.epoch ORDER BY b.epoch DESC LIMIT 1),
		(SELECT until_us - $3 + $2 FROM c WHERE until_us > 0)) AS us FROM t
), g AS (
	SELECT epoch, CASE WHEN us > $7 THEN us ELSE 0 END AS gap_us FROM p
), w AS (
	INSERT INTO led (epoch, from_us, to_us, gap_us, gap_at_us) SELECT epoch, $2, $2, gap_us, $2 FROM g
	ON CONFLICT (epoch) DO UPDATE SET to_us = excluded.to_us
)
SELECT epoch, true, 0::int8, gap_us, coalesce(o.us, 0), coalesce(o.at_us, 0)
FROM g, (SELECT max(b.gap_us) AS us, max(b.gap_at_us) AS at_us FROM led b WHERE b.gap_us > 0 AND b.gap_at_us > $8) o
UNION ALL SELECT epoch, false, until_us, 0, 0, 0 FROM c WHERE NOT EXISTS (SELECT FROM t)

-- After a clock step ahead, rows look this much older than they are.
-- name: engine_led_gap
-- params: us int8, at_us int8, fence int8
-- rows: none
-- writes: yes
UPDATE led SET gap_us = gap_us + $1, gap_at_us = $2
WHERE epoch = $3 AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $3 FOR KEY SHARE)

-- Renews only a row with the value that this engine last read or has sent since (was_us). Another
-- value of the same epoch is older: a lagging standby became the primary. Its rows lack the
-- launches of the missing seconds, so table led must not claim a leader for them.
-- name: engine_lease_renew
-- params: holder text, epoch int8, until_us int8, at_us int8, was_us int8[]
-- rows: 0..1 epoch int8
-- writes: yes
WITH l AS (
	UPDATE leader SET until_us = $3 WHERE name = 'engine' AND holder = $1 AND epoch = $2 AND until_us = ANY ($5) RETURNING epoch
), led AS (
	UPDATE led SET to_us = greatest(to_us, $4) FROM l WHERE led.epoch = l.epoch
)
SELECT epoch FROM l

-- Notifies the daemons that wait for the lease.
-- name: engine_lease_release
-- params: holder text, epoch int8
-- rows: 0..1 told bool
-- writes: yes
WITH l AS (
	UPDATE leader SET until_us = 0 WHERE name = 'engine' AND holder = $1 AND epoch = $2 RETURNING 1
)
SELECT pg_notify('spot_engine', 'lease') IS NOT NULL AS told FROM l

-- A verdict that gives up a machine stores the observations before the move (node_seen, migration
-- 0019). The machine ended at its agent's last message or at its provider's first report, but never
-- before this daemon listened. A loss older than bound_us is found too late; lost_us is added if
-- silence alone decides.
--
-- A node that got a job since it was read as idle is not released (engine_assign clears
-- idle_since_us). A clock set back ends no machine before its launch or its last bill.
-- name: engine_node_move
-- params: id int8, was node_state, now node_state, event node_event, why text, cause text,
--   at_us int8, next_us int8, fence int8, bound_us int8, lost_us int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH n AS (
	UPDATE node SET state = $3, state_us = $7, why = $5, next_act_us = $8, tries = 0,
		claim_until_us = 0,
		end_cause = CASE WHEN end_cause = '' THEN $6 ELSE end_cause END,
		idle_since_us = CASE WHEN $3 = 'READY' THEN $7 ELSE idle_since_us END,
		ready_us = CASE WHEN $3 = 'READY' THEN coalesce(ready_us, $7) ELSE ready_us END,
		terminate_us = CASE WHEN $3 = 'TERMINATING' THEN coalesce(terminate_us, $7) ELSE terminate_us END,
		ended_us = CASE WHEN $3 IN ('GONE', 'FAILED') THEN greatest($7, launched_us, billed_to_us) ELSE ended_us END
	WHERE id = $1 AND state = $2
		AND ($4 <> 'RELEASE' OR $2 <> 'READY' OR idle_since_us IS NOT NULL OR job_id IS NULL)
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $9 FOR KEY SHARE)
	RETURNING id, job_id
), g AS (
	SELECT x.id, s.job_id, s.epoch, s.rank, coalesce(s.step, 0) AS step, node_seen(x, l.from_us) AS seen,
		CASE WHEN $4 = 'BOOT_TIMEOUT' THEN 'boot_timeout' WHEN $6 IN ('reclaimed', 'refused') THEN $6 WHEN $6 = 'identity' THEN 'denied'
			WHEN $4 = 'VANISHED' THEN 'lost' WHEN $6 = 'broken' OR x.provider_state LIKE 'failed%' THEN 'broken' ELSE 'silent' END AS kind,
		greatest(l.from_us, least(CASE WHEN $4 = 'VANISHED' OR $6 = 'lost' THEN greatest(x.last_seen_us, x.ready_us) END,
			CASE WHEN x.provider_state NOT IN ('', 'pending', 'running', 'odd', 'queued') THEN x.provider_since_us END)) AS over_us
	FROM n JOIN node x ON x.id = n.id LEFT JOIN led l ON l.epoch = $9 LEFT JOIN LATERAL node_serves(x) s ON true
	WHERE $4 IN ('VANISHED', 'BROKEN', 'BOOT_TIMEOUT')
), v AS (
	INSERT INTO verdict (at_us, node_id, job_id, epoch, rank, kind, why, seen, step, since_us, missed)
	SELECT $7, id, job_id, epoch, rank, kind, $5, seen, step, since_us,
		coalesce($7 - since_us > $10 + CASE WHEN kind = 'silent' THEN $11 ELSE 0 END, false)
	FROM (SELECT *, CASE WHEN kind IN ('lost', 'reclaimed', 'silent', 'broken') THEN over_us END AS since_us FROM g) g
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $7, 'node', 'n' || id, job_id, id, $2, $3, $4, $5, 'engine' FROM n
)
SELECT id, pg_notify('spot_api', 'n' || id) IS NOT NULL AS told FROM n

-- name: engine_job_move
-- params: id int8, was job_state, epoch int4, now job_state, event job_event, why text,
--   reason text, at_us int8, fence int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH j AS (
	UPDATE job SET state = $4, state_us = $8, why = $6, reason = $7,
		queued_us = CASE WHEN $4 = 'QUEUED' THEN $8 ELSE queued_us END,
		started_us = CASE WHEN $4 = 'RUNNING' THEN coalesce(started_us, $8) ELSE started_us END,
		ended_us = CASE WHEN $4 IN ('SUCCEEDED', 'FAILED', 'CANCELLED') THEN $8 ELSE NULL END
	WHERE id = $1 AND state = $2 AND epoch = $3
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $9 FOR KEY SHARE)
	RETURNING id, epoch
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, epoch, was, now, event, why, actor)
	SELECT $8, 'job', 'j' || id, id, epoch, $2, $4, $5, $6, 'engine' FROM j
)
SELECT id, pg_notify('spot_api', 'j' || id) IS NOT NULL AS told FROM j

-- An account-wide token bucket. It takes cost tokens and returns 0, or takes none and returns the
-- time until they can be there. No caller goes into debt, since a waiting one may end. A full
-- bucket serves a cost above the burst.
-- name: engine_rate_take
-- params: key text, per_second float8, burst float8, cost float8, at_us int8
-- rows: 1 wait_us int8
-- writes: yes
WITH t AS (
	INSERT INTO rate_bucket AS b (key, tokens, updated_us) VALUES ($1, $3 - least($4, $3), $5)
	ON CONFLICT (key) DO UPDATE SET
		tokens = least($3, b.tokens + greatest($5 - b.updated_us, 0) * $2 / 1e6) - least($4, $3),
		updated_us = greatest($5, b.updated_us)
		WHERE least($3, b.tokens + greatest($5 - b.updated_us, 0) * $2 / 1e6) + 1e-6 >= least($4, $3)
	RETURNING 1
)
SELECT CASE WHEN EXISTS (SELECT FROM t) THEN 0 ELSE greatest(1000, coalesce((SELECT
	((least($4, $3) - b.tokens) / $2 * 1e6)::int8 - greatest($5 - b.updated_us, 0) FROM rate_bucket b WHERE b.key = $1), 0)) END AS wait_us
