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
UPDATE job SET ask = job_ask(job) WHERE state IN ('QUEUED', 'DRAINING');

-- The jobs of an ask, the first to wait first.
CREATE INDEX job_waits ON job (ask, queued_us, id) WHERE state = 'QUEUED' AND cancel_us IS NULL;
-- The queue by priority, for its order.
CREATE INDEX job_order ON job (priority DESC, id) WHERE state = 'QUEUED' AND cancel_us IS NULL;
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
-- Returns the first `most` jobs of the queue's order (job_queue, some thousands at most), at most `each` of an ask, without
-- those of blocked asks and those that have machines on their way. Asks are in no order among equals, so this keeps the
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
-- Machines of a region about which its provider is asked:
CREATE INDEX node_watched ON node (pool_id) WHERE state IN ('BOOTING', 'READY', 'DRAINING', 'TERMINATING') AND ref IS NOT NULL;
-- Replacements of a machine, and those that failed:
CREATE INDEX node_replaces ON node (replaces_id) WHERE replaces_id IS NOT NULL;
