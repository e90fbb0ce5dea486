-- Views and functions for statements that grew over fifty lines. Nothing is stored; the previous
-- daemon does not use them. Fast.

-- Live nodes with the facts that decide whether they go back. These are the states of their job and
-- gang, whether an attempt uses them, and whether the provider reclaims them.
CREATE VIEW node_use AS
SELECT n.id, n.state, n.state_us, n.ready_us, n.idle_since_us, n.drain_deadline_us, n.job_id, n.fleet_id, n.gang_id,
	n.replaces_id, j.state AS job_state, j.cancel_us AS job_cancel,
	j.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'CANCELLING') AS job_over,
	EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND (a.ended_us IS NULL OR NOT a.settled)) AS used,
	n.gang_id IS NOT NULL AND EXISTS (SELECT FROM attempt a WHERE a.node_id = n.id AND a.ended_us IS NULL
		AND a.desired = 'kill') AS told,
	g.state AS gang_state, g.why AS gang_why,
	NOT EXISTS (SELECT FROM attempt a WHERE a.node_id = n.replaces_id AND a.job_id = n.job_id
		AND a.ended_us IS NULL) AS moved,
	p.market = 'spot' AND EXISTS (SELECT FROM notice o WHERE o.node_id = n.id AND o.kind = 'interruption') AS reclaimed
FROM node n JOIN pool p ON p.id = n.pool_id LEFT JOIN job j ON j.id = n.job_id LEFT JOIN gang g ON g.id = n.gang_id
WHERE n.state IN ('WANTED', 'BOOTING', 'READY', 'DRAINING');

-- The node of a listed machine, if any: the one with its ref, else the first with its token.
CREATE FUNCTION sweep_node_of(in_provider text, in_ref text, in_token text)
RETURNS TABLE (id int8, ref text, state text, ended_us int8) LANGUAGE sql STABLE AS $$
	SELECT n.id, n.ref, n.state, n.ended_us FROM (
		SELECT id, pool_id, ref, state, ended_us FROM node WHERE ref = in_ref
		UNION ALL SELECT id, pool_id, ref, state, ended_us FROM node WHERE token = in_token AND in_token <> '') n
	JOIN pool p ON p.id = n.pool_id AND p.provider = in_provider
	ORDER BY (n.ref IS NOT DISTINCT FROM in_ref) DESC, n.id LIMIT 1
$$;

-- The newest node that a leftover can be from: by its ref, token or name.
CREATE FUNCTION sweep_left_by(in_ref text, in_token text)
RETURNS TABLE (id int8, state text) LANGUAGE sql STABLE AS $$
	SELECT n.id, n.state FROM (
		SELECT id, state FROM node WHERE ref = in_ref
		UNION ALL SELECT id, state FROM node WHERE token = in_token AND in_token <> ''
		UNION ALL SELECT id, state FROM node WHERE name = in_token AND in_token <> '') n
	ORDER BY n.id DESC LIMIT 1
$$;

-- Returns the things of a provider's list that no live node accounts for. These are machines without
-- a node, second machines of a node, machines of a node that ended before over_us, and leftovers.
-- Column busy: a launch on its way may own the leftover. Column kept: the thing was created while no
-- daemon led this database. A restored backup or another broker may own it. The leaders' times are
-- widened by slack_us.
CREATE FUNCTION sweep_strangers(in_provider text, in_region text, at_us int8, fence int8, over_us int8, slack_us int8,
	refs text[], tokens text[], requests text[], leftovers bool[], zones text[], regions text[], types text[],
	markets text[], created int8[])
RETURNS TABLE (ref text, kind text, why text, busy bool, kept bool, node_id int8, zone text, where_region text,
	instance_type text, market text, created_us int8) LANGUAGE sql STABLE AS $$
WITH s AS (
	SELECT DISTINCT ON (u.ref) u.*, u.created_us > 0 AND NOT EXISTS (SELECT FROM led
		WHERE u.created_us BETWEEN led.from_us - $6
			AND CASE WHEN led.epoch = $4 THEN greatest(led.to_us, $3) ELSE led.to_us END + $6) AS unled
	FROM unnest($7, $8, $9, $10, $11, $12, $13, $14, $15)
		u (ref, token, request, leftover, zone, where_region, instance_type, market, created_us)
	ORDER BY u.ref, u.leftover
), lives AS MATERIALIZED (
	SELECT n.ref, n.token, n.name FROM node n JOIN pool p ON p.id = n.pool_id
	WHERE p.provider = $1 AND n.state NOT IN ('GONE', 'FAILED')
)
SELECT s.ref, 'instance', CASE
	WHEN n.id IS NULL AND s.unled THEN 'no row knows it, and nobody led this database when it was launched: '
		|| 'a restored backup, or another broker with our install id'
	WHEN n.id IS NULL THEN 'no row knows it'
	WHEN n.ref IS DISTINCT FROM s.ref THEN 'second instance of n' || n.id
	ELSE 'n' || n.id || ' is ' || n.state END, false, n.id IS NULL AND s.unled,
	CASE WHEN n.ref IS DISTINCT FROM s.ref THEN n.id END, s.zone, s.where_region, s.instance_type, s.market, s.created_us
FROM s LEFT JOIN LATERAL sweep_node_of($1, s.ref, s.token) n ON true
WHERE NOT s.leftover AND (n.id IS NULL OR (n.state IN ('GONE', 'FAILED') AND coalesce(n.ended_us, 0) <= $5)
	OR (n.ref IS NOT NULL AND n.ref <> s.ref))
UNION ALL
SELECT s.ref, 'leftover', coalesce('left behind by n' || n.id || ', which is ' || n.state, 'no node knows it'),
	s.token = '' AND EXISTS (SELECT FROM node n JOIN pool p ON p.id = n.pool_id
		WHERE p.provider = $1 AND ($2 = '' OR p.region = $2) AND n.state IN ('LAUNCHING', 'UNKNOWN')),
	s.unled AND n.id IS NULL, NULL, s.zone, s.where_region, s.instance_type, s.market, s.created_us
FROM s LEFT JOIN LATERAL sweep_left_by(s.ref, s.token) n ON true
WHERE s.leftover AND NOT (s.ref IN (SELECT ref FROM lives WHERE ref IS NOT NULL)
	OR s.request IN (SELECT ref FROM lives WHERE ref IS NOT NULL)
	OR s.token IN (SELECT token FROM lives UNION ALL SELECT name FROM lives)
	OR coalesce((SELECT bool_or(substr(t.names, i, 16) IN (SELECT right(token, 16) FROM lives))
		FROM (SELECT s.ref || ' ' || s.token AS names) t, generate_series(1, length(t.names) - 15) i), false))
$$;

-- Returns the faded sums (migration 0010) that several points of a pool add, up to the newest.
-- The points are in order of time. Parameters was and fade_us are the price before them and its
-- begin, both NULL for a new pool. Column kept is the factor of the old sums. Ages count in units
-- of 7 days; e^-700 is practically zero.
CREATE FUNCTION price_fade(times int8[], prices int8[], was int8, fade_us int8)
RETURNS TABLE (to_us int8, kept float8, w float8, w1 float8, w2 float8) LANGUAGE sql IMMUTABLE AS $$
SELECT max(x.to_us), coalesce(exp(max(x.faded)), 0), sum(x.w) + max(x.w_was),
	sum(x.w * x.p) + max(x.w_was * x.was), sum(x.w * x.p * x.p) + max(x.w_was * x.was ^ 2)
FROM (SELECT y.p, y.to_us, y.faded, coalesce($3, 0) / 1e6::float8 AS was,
		CASE WHEN y.next_us IS NULL THEN 0 ELSE greatest(exp(greatest((y.next_us - y.to_us) / 6.048e11::float8, -700))
			- exp(greatest((greatest(y.at_us, $4) - y.to_us) / 6.048e11::float8, -700)), 0) END AS w,
		CASE WHEN y.faded IS NULL THEN 0
			ELSE greatest(exp(greatest((y.first_us - y.to_us) / 6.048e11::float8, -700)) - exp(y.faded), 0) END AS w_was
	FROM (SELECT u.at_us, u.price / 1e6::float8 AS p, lead(u.at_us) OVER (ORDER BY u.at_us) AS next_us,
			max(u.at_us) OVER () AS to_us, min(u.at_us) OVER () AS first_us,
			CASE WHEN $4 IS NOT NULL THEN greatest(least($4 - max(u.at_us) OVER (), 0) / 6.048e11::float8, -700) END AS faded
		FROM unnest($1, $2) u (at_us, price)) y) x
$$;
