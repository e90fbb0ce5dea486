-- The rules that the rows of a live database keep. `spotctl doctor --consistency` and the tests ask
-- them. gen_rules.py defines their form. Parameters are grace times, since a change under way is
-- not an error. Rows that ended before :since are not checked.

-- rule: nodes that serve have a machine that is there
-- name: machines
-- fix: spotctl node show NODE lists the last reports; spotctl node rm NODE ends it, and its job
--	gets its next attempt on another node
--
-- A serving machine has its provider's ref, and its provider does not report it gone.
SELECT n.id, 'n' || n.id || ' is ' || n.state || CASE WHEN n.ref IS NULL THEN ' without an instance'
	ELSE ' while its provider says ' || n.provider_state || CASE WHEN n.gone_seen > 0 THEN ', and ' || n.gone_seen
		|| ' lists in a row lack it' ELSE '' END END AS words,
	n.ref IS NULL OR ((n.provider_state IN ('gone', 'gone_reclaimed', 'gone_user', 'interrupted', 'failed', 'failed_no_capacity',
		'failed_quota') OR n.gone_seen >= 2) AND n.provider_seen_us < :settle AND coalesce(n.last_seen_us, 0) < :settle) AS bad
FROM node n WHERE n.state IN ('BOOTING', 'READY', 'DRAINING')

-- rule: of each node that serves the agent or the provider was heard
-- name: vouched
-- fix: check the provider (spotctl doctor PROVIDER) and the network between nodes and [api]
--	public_url
--
-- The agent or the provider of a serving machine has reported it. This daemon leads since :up.
-- Earlier reports count as of then, since nobody listened.
SELECT n.id, 'n' || n.id || ' is ' || n.state || '; its agent spoke ' || coalesce('last at ' || to_timestamp(n.last_seen_us / 1000000), 'never')
	|| ', its provider ' || coalesce('last at ' || to_timestamp(n.provider_seen_us / 1000000), 'never') AS words,
	greatest(n.last_seen_us, n.provider_seen_us, n.launched_us, :up) < :silent AS bad
FROM node n WHERE n.state IN ('BOOTING', 'READY', 'DRAINING')

-- rule: no machine outlives its job
-- name: outlived
-- fix: end it at the provider if it bills; spotctl node rm NODE asks again
--
-- No machine outlives the job that it was wanted for, or serves a parked one. A fleet's node serves
-- the fleet, and a node with other work keeps it. Idle nodes may be kept or drain since :keep.
-- Terminated nodes may be ending since :ending.
SELECT n.id, 'n' || n.id || ' is ' || n.state || CASE WHEN n.state = 'TERMINATING' THEN ': asked to end at '
		|| to_timestamp(coalesce(n.terminate_us, n.state_us) / 1000000) || ', its provider does not confirm it'
	ELSE ' although j' || j.id || ' is ' || j.state || ' since ' || to_timestamp(j.state_us / 1000000) END AS words,
	CASE WHEN n.state = 'TERMINATING' THEN greatest(coalesce(n.terminate_us, n.state_us), :up) < :ending
		ELSE greatest(j.state_us, n.state_us, n.idle_since_us, n.ready_us, n.drain_deadline_us, :up) < :keep END AS bad
FROM node n LEFT JOIN job j ON j.id = n.job_id
WHERE n.state NOT IN ('GONE', 'FAILED') AND (n.state = 'TERMINATING' OR (n.fleet_id IS NULL
	AND j.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'PARKED')
	AND NOT EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND a.ended_us IS NULL AND a.job_id <> j.id)))

-- rule: of each job one attempt lives, that of its newest epoch
-- name: epochs
-- fix: keep the log of all daemons and cancel the job: two attempts may write at once
--
-- At most one attempt of a job is live, of a gang one per rank, and its epoch is the job's. There
-- is no grace, since the statement that begins an attempt ensures it.
SELECT a.job_id AS id, 'j' || a.job_id || ' is at epoch ' || j.epoch || ', and '
	|| string_agg('epoch ' || a.epoch || CASE WHEN j.num_nodes > 1 THEN ' rank ' || a.rank ELSE '' END || ' lives on n' || a.node_id, ', '
		ORDER BY a.epoch, a.rank) AS words,
	bool_or(a.epoch <> j.epoch) OR count(*) > count(DISTINCT a.rank) OR count(*) > j.num_nodes AS bad
FROM attempt a JOIN job j ON j.id = a.job_id WHERE a.ended_us IS NULL GROUP BY a.job_id, j.epoch, j.num_nodes

-- rule: committed checkpoints are whole
-- name: checkpoints
-- fix: do not let the job be moved before its next checkpoint is committed; see what deletes
--	below the store's prefix
--
-- A committed checkpoint is complete. Its chunks have its bytes, no chunk of a file is missing, and
-- no chunk's object was deleted.
WITH c AS MATERIALIZED (
	SELECT c.id, c.job_id, c.bytes FROM checkpoint c JOIN job j ON j.id = c.job_id
	WHERE c.state = 'COMMITTED' AND (j.ended_us IS NULL OR j.ended_us >= :since)
), f AS (
	SELECT c.id, k.path, sum(k.bytes) AS bytes, max(k.seq) + 1 - count(*) AS missing,
		count(*) FILTER (WHERE k.deleted_us IS NOT NULL OR EXISTS (SELECT FROM checkpoint_chunk o
			WHERE o.object_key = k.object_key AND o.deleted_us IS NOT NULL)) AS deleted
	FROM c JOIN checkpoint_chunk k ON k.checkpoint_id = c.id GROUP BY c.id, k.path
)
SELECT c.id, 'c' || c.id || ' of j' || c.job_id || ': ' || coalesce(sum(f.bytes), 0) || ' of ' || c.bytes || ' bytes, '
	|| coalesce(sum(f.missing), 0) || ' pieces missing, ' || coalesce(sum(f.deleted), 0) || ' deleted' AS words,
	coalesce(sum(f.bytes), 0) <> c.bytes OR coalesce(bool_or(f.missing <> 0 OR f.deleted > 0), false) AS bad
FROM c LEFT JOIN f ON f.id = c.id GROUP BY c.id, c.job_id, c.bytes

-- rule: attempts began at the newest checkpoint
-- name: progress
-- fix: the job's work of those steps is done again; keep the daemon's log of that time
--
-- An attempt begins at the newest checkpoint of earlier epochs. Only the acting epoch commits, so
-- the checkpoints of earlier epochs existed then. For a gang complete sets count.
SELECT (a.job_id, a.epoch, a.rank) AS id, 'j' || a.job_id || ' epoch ' || a.epoch || CASE WHEN a.rank > 0 THEN ' rank ' || a.rank ELSE '' END
	|| ' began at step ' || a.steps_start || coalesce(' with c' || a.restore_id, ' without a checkpoint') || '; c' || c.id
	|| ' of epoch ' || c.epoch || ' is at step ' || c.steps AS words,
	a.steps_start < c.steps OR a.restore_id IS NULL AS bad
FROM attempt a JOIN job j ON j.id = a.job_id
JOIN LATERAL (SELECT c.id, c.epoch, c.steps FROM checkpoint c
	WHERE c.job_id = a.job_id AND c.rank = a.rank AND c.epoch < a.epoch AND c.state = 'COMMITTED'
		AND (c.set_key IS NULL OR c.set_us IS NOT NULL)
	ORDER BY c.epoch DESC, c.id DESC LIMIT 1) c ON true
WHERE j.ended_us IS NULL OR j.ended_us >= :since

-- rule: the ledger has all time of nodes once
-- name: ledger time
-- fix: the ledger is never edited: compare with the provider's bill, then book the difference
--	where you account
--
-- The ledger covers each node's time from its launch to billed_to exactly once. A reversed line
-- does not count, but its replacements do. A credit returns money, not time.
WITH n AS MATERIALIZED (
	SELECT id, launched_us, coalesce(billed_to_us, launched_us) AS to_us FROM node
	WHERE (launched_us IS NOT NULL OR billed_to_us IS NOT NULL) AND (ended_us IS NULL OR ended_us >= :since)
), l AS (
	SELECT n.id, l.from_us, l.to_us, coalesce(lag(l.to_us) OVER w, n.launched_us) AS before
	FROM n JOIN ledger l ON l.node_id = n.id
	WHERE l.reverses IS NULL AND NOT EXISTS (SELECT FROM ledger r WHERE r.reverses = l.id AND r.kind <> 'credit' AND r.node_id = l.node_id)
	WINDOW w AS (PARTITION BY n.id ORDER BY l.from_us, l.to_us, l.id)
), x AS (
	SELECT id, sum(greatest(before - from_us, 0)) AS twice, sum(greatest(from_us - before, 0)) AS holes, max(to_us) AS last
	FROM l GROUP BY id
)
SELECT n.id, 'n' || n.id || ': ' || coalesce(x.twice, 0) || ' us billed twice, ' || coalesce(x.holes, 0) || ' us not at all, lines reach '
	|| coalesce(x.last, n.launched_us) - n.to_us || ' us beyond its mark' AS words,
	coalesce(x.twice > 0 OR x.holes > 0, false) OR coalesce(x.last, n.launched_us) IS DISTINCT FROM n.to_us AS bad
FROM n LEFT JOIN x ON x.id = n.id

-- rule: amounts are interval times price
-- name: ledger amounts
-- fix: the ledger is never edited: compare with the provider's bill, then book the difference
--	where you account
--
-- A line's amount follows from its interval and price as in src/core/money/ledger.c. It is
-- floor(price * (to - launched) / hour) less the same of from. The price is that of the named row,
-- as long as such old prices are stored, or the one stored at the launch.
SELECT l.id, 'line ' || l.id || ' of n' || n.id || ': ' || l.amount_micros || ' micro-dollars at ' || l.price_micros || ' an hour, which makes '
	|| w.amount || CASE WHEN p.price_micros <> l.price_micros THEN '; the price was ' || p.price_micros ELSE '' END AS words,
	l.amount_micros <> w.amount OR coalesce(p.price_micros <> l.price_micros, false) AS bad
FROM node n JOIN ledger l ON l.node_id = n.id
CROSS JOIN LATERAL (SELECT div(l.price_micros::numeric * (l.to_us - n.launched_us), 3600000000)
	- div(l.price_micros::numeric * (l.from_us - n.launched_us), 3600000000) AS amount) w
LEFT JOIN LATERAL (SELECT n.price_micros WHERE l.price_observed_us = 0
	UNION ALL SELECT pp.price_micros FROM price_point pp WHERE pp.pool_id = l.pool_id AND pp.observed_us = l.price_observed_us
		AND l.price_observed_us > 0) p ON true
WHERE l.reverses IS NULL AND (n.ended_us IS NULL OR n.ended_us >= :since)

-- rule: reversals take back one line each
-- name: ledger reversals
-- fix: the ledger is never edited: compare with the provider's bill, then book the difference
--	where you account
--
-- A reversal cancels exactly the line that it names. That line is no reversal, and no line is
-- reversed twice.
SELECT r.id, 'line ' || r.id || ' reverses ' || r.reverses || CASE WHEN l.id IS NULL THEN ', which is not there'
	WHEN l.reverses IS NOT NULL THEN ', which is a reversal'
	WHEN count(*) OVER (PARTITION BY r.reverses) > 1 THEN ', which is reversed twice'
	ELSE ' with ' || r.amount_micros || ' micro-dollars for ' || l.amount_micros || ' of n' || l.node_id END AS words,
	l.id IS NULL OR l.reverses IS NOT NULL OR count(*) OVER (PARTITION BY r.reverses) > 1 OR r.amount_micros <> -l.amount_micros
		OR (r.node_id, r.from_us, r.to_us, r.price_micros) <> (l.node_id, l.from_us, l.to_us, l.price_micros)
		OR (r.job_id, r.epoch) IS DISTINCT FROM (l.job_id, l.epoch) AS bad
FROM node n JOIN ledger r ON r.node_id = n.id AND r.reverses IS NOT NULL LEFT JOIN ledger l ON l.id = r.reverses
WHERE n.ended_us IS NULL OR n.ended_us >= :since

-- rule: jobs that are not over go somewhere
-- name: moving
-- fix: spotctl job why JOB; the daemon's log names statements and calls that fail
--
-- Every active job makes progress. A waiting or parked job has a reason. A running job has an
-- attempt whose end is not yet handled. A stopping job moves on, since :stuck at the latest or
-- within the deadline of its drain.
SELECT j.id, 'j' || j.id || ' is ' || j.state || ' since ' || to_timestamp(j.state_us / 1000000) || CASE
	WHEN j.state IN ('QUEUED', 'PARKED') THEN CASE WHEN j.cancel_us IS NOT NULL THEN ' although it was cancelled' ELSE ' and nothing says why' END
	WHEN t.attempts = 0 THEN ' without an attempt' ELSE ': it neither stops nor is given up' END AS words,
	greatest(j.state_us, j.cancel_us, t.deadline_us, :up) < :stuck AND CASE
		WHEN j.state = 'QUEUED' THEN j.cancel_us IS NOT NULL OR (j.why = '' AND NOT EXISTS (SELECT FROM job_queue q WHERE q.job_id = j.id AND q.why <> '')
			AND NOT EXISTS (SELECT FROM decision d WHERE d.job_id = j.id AND d.at_us >= j.queued_us))
		WHEN j.state = 'PARKED' THEN j.cancel_us IS NOT NULL OR j.why = ''
		ELSE t.attempts = 0 OR j.state IN ('DRAINING', 'CANCELLING') END AS bad
FROM job j CROSS JOIN LATERAL (SELECT count(*) AS attempts, max(a.drain_deadline_us) AS deadline_us FROM attempt a
	WHERE a.job_id = j.id AND a.epoch = j.epoch AND NOT a.settled) t
WHERE j.state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')

-- rule: nothing was wanted, and nothing runs, for a job whose budget is used up
-- name: budget
-- fix: spotctl job cancel JOB stops what runs; spotctl job budget JOB tells what it cost; keep
--	the daemon's log of that time
--
-- No machine is wanted for a job whose budget was used up by then, according to the ledger up to
-- that moment. A parked job runs nowhere. A changed budget limits only later machines. Machines of
-- fleets are not wanted for a job. The spending that budgets are compared with (job_cost) is the
-- sum of the lines.
WITH j AS MATERIALIZED (
	SELECT j.id, j.budget_micros, coalesce((SELECT max(e.at_us) FROM event e WHERE e.job_id = j.id AND e.event = 'BUDGET_SET'), 0) AS set_us
	FROM job j WHERE j.budget_micros IS NOT NULL AND (j.ended_us IS NULL OR j.ended_us >= :since)
)
SELECT j.id, '' AS words, false AS bad FROM j
UNION ALL SELECT n.id, 'n' || n.id || ' was wanted for j' || j.id || ' at ' || to_timestamp(n.created_us / 1000000) || ' although '
	|| l.micros || ' of its ' || j.budget_micros || ' micro-dollars had been spent', true
FROM j JOIN node n ON n.job_id = j.id AND n.fleet_id IS NULL CROSS JOIN LATERAL (SELECT coalesce(sum(l.amount_micros), 0) AS micros
	FROM ledger l WHERE l.job_id = j.id AND l.to_us <= n.created_us) l
WHERE n.created_us >= j.set_us AND l.micros >= j.budget_micros
UNION ALL SELECT a.node_id, 'j' || j.id || ' is PARKED, and its epoch ' || a.epoch || ' lives on n' || a.node_id, true
FROM job j JOIN attempt a ON a.job_id = j.id AND a.ended_us IS NULL WHERE j.state = 'PARKED'
UNION ALL SELECT j.id, 'j' || j.id || ' has cost ' || l.micros || ' micro-dollars by its lines, and its budget is held against ' || c.micros, true
FROM j JOIN job_cost c ON c.job_id = j.id CROSS JOIN LATERAL (SELECT coalesce(sum(l.amount_micros), 0) AS micros FROM ledger l WHERE l.job_id = j.id) l
WHERE c.micros <> l.micros

-- rule: one daemon led at a time
-- name: leaders
-- fix: set the clocks of the daemons' hosts (chrony), and let only one install use this database
--
-- At most one daemon led at any time. The times of the epochs do not overlap, and the lease's epoch
-- is the newest.
WITH e AS (
	SELECT epoch, from_us, to_us, lag(epoch) OVER w AS prev, lag(to_us) OVER w AS prev_us FROM led WHERE to_us >= :since
	WINDOW w AS (ORDER BY epoch)
)
SELECT epoch AS id, CASE WHEN epoch > l.newest THEN 'epoch ' || epoch || ' led, and the lease is at ' || l.newest
	ELSE 'epoch ' || epoch || ' led since ' || to_timestamp(from_us / 1000000) || ', epoch ' || prev || ' until '
		|| to_timestamp(prev_us / 1000000) END AS words,
	epoch > l.newest OR to_us < from_us OR coalesce(from_us < prev_us, false) AS bad
FROM e CROSS JOIN (SELECT coalesce(max(epoch), 0) AS newest FROM leader WHERE name = 'engine') l

-- rule: what nobody accounts for was ended or is kept
-- name: orphans
-- fix: spotctl leaks shows it; spotctl leaks end REF, or keep REF
--
-- A machine with our tag and without a node ends after its grace, unless it is kept.
SELECT (provider, region, ref) AS id, kind || ' ' || ref || ' of ' || provider || ' is there since ' || to_timestamp(first_us / 1000000)
	|| coalesce(' and was asked to end at ' || to_timestamp(terminate_us / 1000000), '') || ': ' || why AS words,
	CASE WHEN terminate_us IS NOT NULL THEN greatest(terminate_us, :up) < :orphan_ending
		ELSE word <> 'keep' AND (NOT kept OR word = 'end') AND greatest(first_us, word_us, :up) < :orphan_grace END AS bad
FROM orphan WHERE gone_us IS NULL
