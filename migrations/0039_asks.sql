-- Jobs that wait, grouped by what they ask for. Placing answers each distinct ask once, so a job
-- that stands behind a million blocked ones of another ask costs what one job costs.
ALTER TABLE job ADD COLUMN ask int8 NOT NULL DEFAULT 0;

-- Returns a number that jobs share if placing cannot tell them apart. They have the same file but
-- for its commands, and the same team, class, fleet and deadline. A job that has run, or that has a budget,
-- is a group of its own. Speeds measured for a name are no part: they change which pool is best, and
-- hardly whether one suits. Above 52 bits of hash stands the priority, highest first, so the order of
-- asks is that of priorities.
CREATE FUNCTION job_ask(j job) RETURNS int8 LANGUAGE sql STABLE AS $$
	SELECT ((1023 - least(greatest(j.priority, -1024), 1023))::int8 << 52) | (4503599627370495 & hashtextextended(concat_ws('|',
		j.team, j.class, j.fleet_id, j.deadline_us, CASE WHEN j.deadline_us IS NOT NULL THEN j.created_us END, j.not_before_us,
		CASE WHEN j.epoch > 0 OR j.budget_micros IS NOT NULL THEN concat_ws('.', 'j', j.id, j.epoch, j.budget_micros, j.checkpoint_id) END,
		j.spec - ARRAY['name', 'setup', 'run', 'envs', 'secrets', 'project', 'max_restarts', 'deadline_us', 'start_after_us']), 0))
$$;
CREATE FUNCTION job_ask_set() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.ask := job_ask(NEW);
	RETURN NEW;
END
$$;
CREATE TRIGGER job_asks BEFORE INSERT OR UPDATE OF spec, state, epoch, priority, fleet_id, deadline_us, not_before_us, team, class,
	budget_micros, checkpoint_id ON job FOR EACH ROW WHEN (NEW.state IN ('QUEUED', 'DRAINING')) EXECUTE FUNCTION job_ask_set();
-- The engine numbers the jobs that wait already, in pages (engine_ask_number).

-- The jobs of an ask, the first to wait first.
CREATE INDEX job_waits ON job (ask, queued_us, id) WHERE state = 'QUEUED' AND cancel_us IS NULL;
-- The queue by priority, for its order.
CREATE INDEX job_order ON job (priority DESC, id) WHERE state = 'QUEUED' AND cancel_us IS NULL;
-- Waiting jobs whose ask has no number yet.
CREATE INDEX job_unnumbered ON job (id) WHERE ask = 0 AND state IN ('QUEUED', 'DRAINING');
-- Waiting jobs that do not say why yet.
CREATE INDEX job_untold ON job (ask, id) WHERE state = 'QUEUED' AND cancel_us IS NULL AND why = '';

-- Returns the first `most` asks after from_ask for which a job waits, without those in blocked,
-- which is sorted. One step in the index each.
CREATE FUNCTION job_asks_open(from_ask int8, blocked int8[], most int8) RETURNS SETOF int8 LANGUAGE plpgsql STABLE ROWS 100 AS $$
DECLARE
	a int8 := from_ask;
	i int4 := 1;
	n int4 := coalesce(array_length(blocked, 1), 0);
BEGIN
	WHILE most > 0 LOOP
		SELECT j.ask INTO a FROM job j WHERE j.state = 'QUEUED' AND j.cancel_us IS NULL AND j.ask > a ORDER BY j.ask LIMIT 1;
		EXIT WHEN NOT FOUND;
		WHILE i <= n AND blocked[i] < a LOOP
			i := i + 1;
		END LOOP;
		IF i > n OR blocked[i] <> a THEN
			RETURN NEXT a;
			most := most - 1;
		END IF;
	END LOOP;
END
$$;

-- Has the job machines on their way, or ready ones without an attempt of it?
CREATE FUNCTION job_flying(of_job int8, nodes int4) RETURNS bool LANGUAGE sql STABLE AS $$
	SELECT CASE WHEN $2 > 1 THEN EXISTS (SELECT FROM gang g WHERE g.job_id = $1 AND g.state = 'ACQUIRING')
		ELSE EXISTS (SELECT FROM node n WHERE n.job_id = $1 AND n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING', 'READY')
			AND NOT EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND a.job_id = $1 AND a.ended_us IS NULL)) END
$$;
-- Returns the first `most` waiting jobs of an ask that have none.
CREATE FUNCTION job_group(of_ask int8, most int8) RETURNS SETOF int8 LANGUAGE sql STABLE ROWS 20 AS $$
	SELECT j.id FROM job j WHERE j.state = 'QUEUED' AND j.cancel_us IS NULL AND j.ask = $1 AND NOT job_flying(j.id, j.num_nodes)
	ORDER BY j.queued_us, j.id LIMIT $2
$$;
-- Returns waiting jobs whose machines are on their way: with spare the first `most`, with budgets all that have one.
CREATE FUNCTION jobs_coming(spare bool, budgets bool, most int8) RETURNS SETOF int8 LANGUAGE sql STABLE ROWS 300 AS $$
	(SELECT n.job_id FROM node n JOIN job j ON j.id = n.job_id AND j.state = 'QUEUED'
		WHERE n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING') AND $1 LIMIT $3)
	UNION (SELECT n.job_id FROM node n JOIN job j ON j.id = n.job_id AND j.state = 'QUEUED'
		WHERE n.state IN ('WANTED', 'LAUNCHING', 'UNKNOWN', 'BOOTING') AND $2 AND j.budget_micros IS NOT NULL)
$$;
-- Returns the first `most` jobs of the queue's order (job_queue, some thousands), at most `each` of an ask. Those of blocked
-- asks, and those that have machines on their way, are left out. Asks are in no order among equals, so this keeps the
-- turn of teams and deadlines where many asks wait.
CREATE FUNCTION job_head(blocked int8[], each int8, most int8) RETURNS SETOF int8 LANGUAGE sql STABLE ROWS 300 AS $$
	SELECT id FROM (SELECT id, n, row_number() OVER (PARTITION BY ask ORDER BY n) AS k
		FROM (SELECT j.id, j.ask, j.num_nodes, q.n
			FROM (SELECT job_id, row_number() OVER (ORDER BY effective DESC, pos) AS n FROM job_queue) q JOIN job j ON j.id = q.job_id
			WHERE j.state = 'QUEUED' AND j.cancel_us IS NULL AND NOT EXISTS (SELECT FROM unnest($1) b WHERE b = j.ask)
			ORDER BY q.n LIMIT 4 * $3) x
		WHERE NOT job_flying(id, num_nodes)) y
	WHERE k <= $2 ORDER BY n LIMIT $3
$$;

-- Indexes for looks of reconcilers, so that a look costs its rows. Jobs that are to end or may go on:
CREATE INDEX job_ending ON job (id) WHERE (cancel_us IS NOT NULL OR state = 'PARKED') AND state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED');
-- Jobs that run, for looks that go through them in pages:
CREATE INDEX job_runs ON job (id) WHERE state = 'RUNNING';
-- Jobs that may run only so long:
CREATE INDEX job_timed ON job (id) WHERE (spec->>'max_duration_s')::int8 > 0 AND state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED');
-- Ranks of gangs, and machines that have ended, newest first:
CREATE INDEX attempt_ranks ON attempt (job_id, epoch) WHERE NOT settled AND rank > 0;
CREATE INDEX node_over ON node (state_us) WHERE state IN ('GONE', 'FAILED');
-- Live machines about which something is to decide:
CREATE INDEX node_odd ON node (id) WHERE state IN ('BOOTING', 'READY', 'DRAINING') AND (state = 'BOOTING' OR provider_state IN ('gone',
	'gone_reclaimed', 'gone_user', 'interrupted', 'failed', 'failed_no_capacity', 'failed_quota') OR gone_seen > 0 OR suspect_us IS NOT NULL);
-- Machines of a region about which its provider is asked:
CREATE INDEX node_watched ON node (pool_id) WHERE state IN ('BOOTING', 'READY', 'DRAINING', 'TERMINATING') AND ref IS NOT NULL;
-- Replacements of a machine, and those that failed:
CREATE INDEX node_replaces ON node (replaces_id) WHERE replaces_id IS NOT NULL;

-- The time of [from_us, to_us) in which the machine ran other jobs.
CREATE FUNCTION node_lent_us(of_node int8, to_others_than int8, from_us int8, to_us int8) RETURNS int8 LANGUAGE sql STABLE AS $$
	SELECT coalesce(sum(greatest(least(coalesce(a.ended_us, $4), $4) - greatest(a.created_us, $3), 0)), 0)::int8
	FROM attempt a WHERE a.node_id = $1 AND a.job_id <> $2 AND a.created_us < $4 AND (a.ended_us IS NULL OR a.ended_us > $3)
$$;
-- Returns the machines whose time a job pays and that no ledger line has yet. Of a machine that ran several jobs each pays
-- its own attempts, as the ledger will say. The newest price of the pool or that of the launch, whichever is more.
CREATE OR REPLACE FUNCTION job_machines(of_job int8, at_us int8) RETURNS TABLE (price_micros int8, open_us int8, goes_on bool) LANGUAGE sql STABLE AS $$
	SELECT greatest(n.price_micros, p.price_micros), CASE WHEN n.launched_us IS NULL THEN 0 ELSE greatest(w.till - w.since, 0)
		- node_lent_us(n.id, $1, w.since, w.till) END, n.state NOT IN ('GONE', 'FAILED')
	FROM node n LEFT JOIN pool_latest p ON p.pool_id = n.pool_id
	CROSS JOIN LATERAL (SELECT coalesce(n.billed_to_us, n.launched_us) AS since, least(coalesce(n.ended_us, $2), $2) AS till) w
	WHERE n.job_id = $1 AND n.fleet_id IS NULL AND n.state NOT IN ('GONE', 'FAILED')
	UNION ALL
	SELECT greatest(n.price_micros, p.price_micros), greatest(n.ended_us - w.since, 0) - node_lent_us(n.id, $1, w.since, n.ended_us), false
	FROM node n LEFT JOIN pool_latest p ON p.pool_id = n.pool_id
	CROSS JOIN LATERAL (SELECT coalesce(n.billed_to_us, n.launched_us) AS since) w
	WHERE n.job_id = $1 AND n.fleet_id IS NULL AND n.state IN ('GONE', 'FAILED') AND n.ended_us IS NOT NULL
		AND n.launched_us IS NOT NULL AND (n.billed_to_us IS NULL OR n.billed_to_us < n.ended_us)
	UNION ALL
	SELECT greatest(n.price_micros, p.price_micros),
		greatest(least(coalesce(a.ended_us, $2), $2) - greatest(a.created_us, n.billed_to_us), 0), a.ended_us IS NULL
	FROM attempt a JOIN node n ON n.id = a.node_id AND (n.fleet_id IS NOT NULL OR n.job_id IS DISTINCT FROM $1)
	LEFT JOIN pool_latest p ON p.pool_id = n.pool_id
	WHERE a.job_id = $1 AND (a.ended_us IS NULL OR n.billed_to_us IS NULL OR n.billed_to_us < a.ended_us)
$$;
