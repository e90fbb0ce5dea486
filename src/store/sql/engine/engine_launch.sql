-- Launches. The engine claims the rows before it sends a call. If the holder of a claim is gone,
-- the rows become UNKNOWN. A launch is one node, all nodes of a gang that come by one call
-- (node.gang_call), or a set of equal nodes (node.set_id). Its id is the node's, that of rank 0, or
-- that of the set's first node, whose token and name all machines carry (function launch_rows). The
-- rows of a launch move together, in the order of their ids.

-- Returns the first `most` launches of each provider, so a slow provider delays no other. Column
-- rests: the launch was never sent, and its pool has refused since the decision. Column together:
-- the machines of the gang are placed close to each other (network_tier: best).
--
-- Nodes never sent, of one pool and price cap, are launched in sets if their provider takes sets of
-- up to most_set machines. Column equal: at most want nodes, with ids from id to last_id. Rows of a
-- set with an unknown outcome are repeated together, with the same parameters. If somebody gave up
-- one of them, the others are torn from it: only a look-up settles them.
-- name: engine_launch_due
-- params: at_us int8, most int8, sets[]
-- rows_in: sets (provider text, most_set int4)
-- rows: many id int8, last_id int8, want int4, equal bool, torn bool, in_set bool, gang_id int8?,
--   provider text, region text, zone text, zone_name text, instance_type text, market market,
--   gpu_name text, gpu_milli int4, gpu_mem_mib int4, vcpus int4, mem_mib int4, arch text,
--   token text, name text, price_cap_micros int8, tries int4, fresh bool, job_id int8?,
--   unsure bool, rests bool, together bool
-- writes: no
WITH w AS MATERIALIZED (
	SELECT n.id, n.pool_id, n.price_cap_micros, n.gang_id, n.gang_call, n.gang_rank, n.set_id,
		n.set_want, p.provider, s.most, n.launch_sent_us IS NULL AND n.gang_id IS NULL
			AND p.market NOT IN ('reserved', 'interruptible', 'flex_start')
			AND s.most IS NOT NULL AS equal
	FROM node n JOIN pool p ON p.id = n.pool_id
		LEFT JOIN unnest($3, $4) s (provider, most) ON s.provider = p.provider
	WHERE n.state = 'WANTED' AND n.next_act_us <= $1
), e AS (
	SELECT w.*, (row_number() OVER (PARTITION BY w.pool_id, w.price_cap_micros ORDER BY w.id) - 1)
		/ w.most AS part FROM w WHERE w.equal
), l AS (
	SELECT min(e.id) AS id, max(e.id) AS last_id, count(*)::int4 AS want, true AS equal,
		false AS torn, e.provider
	FROM e GROUP BY e.pool_id, e.price_cap_micros, e.provider, e.part
	UNION ALL
	SELECT w.id, w.id, CASE WHEN w.gang_call THEN g.want ELSE coalesce(w.set_want, 1) END, false,
		coalesce(t.torn, false), w.provider
	FROM w LEFT JOIN gang g ON g.id = w.gang_id LEFT JOIN LATERAL (
		SELECT bool_or(m.state <> 'WANTED') AS torn FROM node m WHERE m.set_id = w.set_id) t
		ON w.set_id IS NOT NULL
	WHERE NOT w.equal AND (w.set_id IS NULL OR w.set_id = w.id OR t.torn)
		AND (NOT w.gang_call OR (w.gang_rank = 0 AND g.state = 'ACQUIRING'
			AND (SELECT count(*) FROM node m WHERE m.gang_id = g.id AND m.state = 'WANTED'
				AND m.next_act_us <= $1) = g.want))
), d AS (
	SELECT l.*, row_number() OVER (PARTITION BY l.provider ORDER BY l.id) AS i,
		count(*) OVER (PARTITION BY l.provider) AS line FROM l
)
SELECT n.id, d.last_id, d.want, d.equal, d.torn, n.set_id IS NOT NULL, n.gang_id, p.provider,
	p.region, p.zone, p.zone_name, p.instance_type, p.market, p.gpu_name, p.gpu_milli,
	p.gpu_mem_mib, p.vcpus, p.mem_mib, p.arch, n.token, n.name, n.price_cap_micros, n.tries,
	n.launch_sent_us IS NULL AS fresh, n.job_id, n.launch_sent_us IS NOT NULL
		AND EXISTS (SELECT FROM event e WHERE e.node_id = n.id AND e.now = 'UNKNOWN') AS unsure,
	d.line > $2 AND n.launch_sent_us IS NULL AND n.job_id IS NOT NULL AND n.gang_id IS NULL
		AND n.replaces_id IS NULL AND EXISTS (SELECT FROM pool_cool c WHERE c.pool_id = n.pool_id
			AND c.until_us > $1 AND c.at_us > n.created_us AND c.rc <> 'reclaimed') AS rests,
	n.gang_id IS NOT NULL AND EXISTS (SELECT FROM job j WHERE j.id = n.job_id
		AND j.spec->>'network_tier' = 'best') AS together
FROM d JOIN node n ON n.id = d.id JOIN pool p ON p.id = n.pool_id
WHERE d.i <= $2 ORDER BY d.id

-- name: engine_launch_flying
-- rows: many provider text, n int8
-- writes: no
SELECT p.provider, count(*) FROM node n JOIN pool p ON p.id = n.pool_id
WHERE n.state = 'LAUNCHING' AND (NOT n.gang_call OR n.gang_rank = 0)
	AND (n.set_id IS NULL OR n.set_id = n.id) GROUP BY 1

-- name: engine_launch_claim
-- params: id int8, want int4, was node_state, now node_state, event node_event, why text,
--   claimed_by text, at_us int8, until_us int8, fence int8
-- rows: many id int8
-- writes: yes
WITH m AS MATERIALIZED (
	SELECT n.id FROM node n LEFT JOIN gang g ON g.id = n.gang_id
	WHERE n.id IN (SELECT r.id FROM node h, launch_rows(h.id, h.token) r WHERE h.id = $1)
		AND n.state = $3 AND (NOT n.gang_call OR g.state = 'ACQUIRING')
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $10 FOR KEY SHARE)
	ORDER BY n.id FOR NO KEY UPDATE OF n
), n AS (
	UPDATE node SET state = $4, state_us = $8, why = $6, claimed_by = $7, claim_until_us = $9,
		launch_sent_us = coalesce(launch_sent_us, $8), tries = tries + 1
	FROM m WHERE node.id = m.id AND (SELECT count(*) FROM m) = $2 RETURNING node.id, node.job_id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $8, 'node', 'n' || id, job_id, id, $3, $4, $5, $6, 'engine' FROM n
)
SELECT id FROM n

-- Claims launches of one machine each. A row that is not as it was drops out of the reply.
-- name: engine_launch_claim_each
-- params: launch[], was node_state, now node_state, event node_event, claimed_by text,
--   at_us int8, until_us int8, fence int8
-- rows_in: launch (id int8, why text)
-- rows: many id int8
-- writes: yes
WITH m AS MATERIALIZED (
	SELECT n.id, c.why FROM unnest($1, $2) c (id, why) JOIN node n ON n.id = c.id
		LEFT JOIN gang g ON g.id = n.gang_id
	WHERE n.state = $3 AND n.set_id IS NULL AND (NOT n.gang_call OR g.state = 'ACQUIRING')
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $9 FOR KEY SHARE)
	ORDER BY n.id FOR NO KEY UPDATE OF n
), n AS (
	UPDATE node SET state = $4, state_us = $7, why = m.why, claimed_by = $6,
		claim_until_us = $8, launch_sent_us = coalesce(launch_sent_us, $7),
		tries = tries + 1
	FROM m WHERE node.id = m.id RETURNING node.id, node.job_id, m.why
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $7, 'node', 'n' || id, job_id, id, $3, $4, $5, why, 'engine' FROM n
)
SELECT id FROM n

-- Makes a set of at most `most` equal nodes that were never sent, and claims it. Their ids are from
-- that of the first, which must be one of them, to last_id.
-- name: engine_launch_claim_set
-- params: id int8, last_id int8, most int8, was node_state, now node_state,
--   event node_event, why text, claimed_by text, at_us int8, until_us int8, fence int8
-- rows: many id int8, token text, name text, job_id int8?
-- writes: yes
WITH m AS MATERIALIZED (
	SELECT n.id FROM node n JOIN node h ON h.id = $1 AND h.state = $4 AND n.pool_id = h.pool_id
		AND n.price_cap_micros = h.price_cap_micros
	WHERE n.id BETWEEN $1 AND $2 AND n.state = $4 AND n.launch_sent_us IS NULL
		AND n.gang_id IS NULL AND n.next_act_us <= $9
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $11 FOR KEY SHARE)
	ORDER BY n.id LIMIT $3 FOR NO KEY UPDATE OF n
), s AS (
	SELECT min(m.id) AS head, count(*)::int4 AS want FROM m
), n AS (
	UPDATE node SET state = $5, state_us = $9, why = $7, claimed_by = $8, claim_until_us = $10,
		launch_sent_us = $9, tries = tries + 1, set_id = CASE WHEN s.want > 1 THEN s.head END,
		set_want = CASE WHEN s.want > 1 THEN s.want END
	FROM m, s WHERE node.id = m.id AND s.head = $1
	RETURNING node.id, node.job_id, node.token, node.name
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $9, 'node', 'n' || id, job_id, id, $4, $5, $6, $7, 'engine' FROM n
)
SELECT id, token, name, job_id FROM n ORDER BY id

-- Stores the provider's refs: from the launch call's reply, late or not, or from a look-up. Not
-- fenced: it is a fact, and the state says whether it matters. A queued machine has no launch time
-- until it leaves the queue (engine_watch_seen). Machines go to ranks, or to the rows
-- of a set, in the given order. Rows beyond them never came and get the void event. If void_now is
-- WANTED, the provider made fewer for sure: these rows leave the set as if never sent.
-- name: engine_node_exists
-- params: id int8, was node_state[], now node_state, event node_event, how text, machine[],
--   at_us int8, day int4, void_event node_event, void_now node_state, token text
-- rows_in: machine (ref text, spot_request text, ip text, queued bool)
-- rows: many id int8, told bool
-- writes: yes
WITH x AS MATERIALIZED (
	SELECT n.id, n.state, n.gang_call, n.gang_rank FROM node n
	WHERE n.id IN (SELECT r.id FROM launch_rows($1, $14) r) AND n.state = ANY ($2)
	ORDER BY n.id FOR NO KEY UPDATE
), o AS (
	SELECT x.id, x.state, CASE WHEN x.gang_call THEN x.gang_rank + 1
		ELSE row_number() OVER (ORDER BY x.id) END AS i FROM x
), s AS (
	SELECT * FROM unnest($6, $7, $8, $9) WITH ORDINALITY s (ref, request, ip, queued, i)
), n AS (
	UPDATE node SET state = CASE WHEN s.ref IS NULL THEN $13 ELSE $3 END, state_us = $10,
		why = CASE WHEN s.ref IS NULL THEN 'not among the machines of its launch' ELSE s.ref || ' ' || $5 END,
		ref = s.ref, spot_request = coalesce(s.request, ''), ip = CASE WHEN coalesce(s.ip, '') <> '' THEN s.ip ELSE node.ip END,
		launched_us = CASE WHEN s.ref IS NULL OR s.queued THEN launched_us ELSE coalesce(launched_us, launch_sent_us, $10) END,
		provider_state = CASE WHEN s.queued THEN 'queued' ELSE provider_state END,
		ended_us = CASE WHEN s.ref IS NULL AND $13 <> 'WANTED' THEN $10 ELSE ended_us END,
		end_cause = CASE WHEN s.ref IS NULL AND $13 <> 'WANTED' THEN 'void' ELSE '' END,
		launch_sent_us = CASE WHEN s.ref IS NULL AND $13 = 'WANTED' THEN NULL ELSE launch_sent_us END,
		set_id = CASE WHEN s.ref IS NULL AND $13 = 'WANTED' THEN NULL ELSE set_id END,
		set_want = CASE WHEN s.ref IS NULL AND $13 = 'WANTED' THEN NULL ELSE set_want END,
		claim_until_us = 0, next_act_us = 0, tries = 0, last_error = ''
	FROM o LEFT JOIN s ON s.i = o.i WHERE node.id = o.id
	RETURNING node.id, job_id, pool_id, o.state AS was, s.ref, node.state, why
), c AS (
	DELETE FROM pool_cool USING n WHERE pool_cool.pool_id = n.pool_id AND n.ref IS NOT NULL
		AND pool_cool.rc <> 'reclaimed' AND pool_cool.rc NOT LIKE 'late%'
), d AS (
	INSERT INTO pool_day AS d (pool_id, day, launches) SELECT pool_id, $11, count(*)::int4 FROM n WHERE ref IS NOT NULL GROUP BY 1
	ON CONFLICT (pool_id, day) DO UPDATE SET launches = d.launches + excluded.launches
), h AS (
	INSERT INTO pool_hour AS h (pool_id, at_hour, launches)
	SELECT pool_id, $10 / 3600000000, count(*)::int4 FROM n WHERE ref IS NOT NULL GROUP BY 1
	ON CONFLICT (pool_id, at_hour) DO UPDATE SET launches = h.launches + excluded.launches
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $10, 'node', 'n' || id, job_id, id, was, state, CASE WHEN ref IS NULL THEN $12 ELSE $4 END, why, 'engine' FROM n
)
SELECT id, pg_notify('spot_api', 'n' || id) IS NOT NULL AS told FROM n

-- The provider refused and nothing exists. scope says what cools down:
-- - pool, or zone;
-- - type: in all zones of the region;
-- - class: all pools of the quota class;
-- - region: an error of the account;
-- - market, or provider: in every region, for a quota pools with as many GPUs or more;
-- - the empty text: nothing.
--
-- The cooldown is cool_min, doubled per refusal in a row. A gang or a set counts as one refusal.
-- name: engine_launch_refused
-- params: id int8, was node_state, now node_state, event node_event, why text, rc text, scope text,
--   cool_min_us int8, cool_max_us int8, claimed_by text, at_us int8, day int4, fence int8,
--   token text
-- rows: many id int8, told bool
-- writes: yes
WITH n AS (
	UPDATE node SET state = $3, state_us = $11, why = $5, last_error = $5, end_cause = 'refused', ended_us = $11,
		claim_until_us = 0
	WHERE id IN (SELECT r.id FROM launch_rows($1, $14) r)
		AND state = $2 AND claimed_by = $10
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $13 FOR KEY SHARE)
	RETURNING id, job_id, pool_id
), c AS (
	INSERT INTO pool_cool AS c (pool_id, until_us, refusals, rc, why, at_us)
	SELECT DISTINCT q.id, $11 + $8, 1, $6, $5, $11
	FROM n JOIN pool p ON p.id = n.pool_id JOIN pool q ON q.provider = p.provider
	WHERE (q.region = p.region OR $7 IN ('market', 'provider'))
		AND CASE $7 WHEN 'pool' THEN q.id = p.id
		WHEN 'type' THEN q.instance_type = p.instance_type AND q.market = p.market
		WHEN 'zone' THEN q.zone = p.zone
		WHEN 'class' THEN q.quota_class = p.quota_class AND q.market = p.market
		WHEN 'region' THEN true
		WHEN 'market' THEN q.market = p.market
		WHEN 'provider' THEN $6 <> 'quota' OR q.gpu_milli >= p.gpu_milli ELSE false END
	ON CONFLICT (pool_id) DO UPDATE SET
		until_us = greatest(c.until_us, cool_until($11, $8, $9, c.refusals)),
		refusals = c.refusals + 1, rc = excluded.rc, why = excluded.why, at_us = excluded.at_us
), d AS (
	INSERT INTO pool_day AS d (pool_id, day, refusals) SELECT DISTINCT pool_id, $12, 1 FROM n
	ON CONFLICT (pool_id, day) DO UPDATE SET refusals = d.refusals + 1
), h AS (
	INSERT INTO pool_hour AS h (pool_id, at_hour, refusals) SELECT DISTINCT pool_id, $11 / 3600000000, 1 FROM n
	ON CONFLICT (pool_id, at_hour) DO UPDATE SET refusals = h.refusals + 1
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor, data)
	SELECT $11, 'node', 'n' || id, job_id, id, $2, $3, $4, $5, 'engine', jsonb_build_object('rc', $6) FROM n
)
SELECT id, pg_notify('spot_api', 'n' || id) IS NOT NULL AS told FROM n

-- Moves a launch back to WANTED (nothing exists), on to UNKNOWN (it may exist), or to FAILED
-- (void), with the reply's text. If no call can have had an effect, the launch counts as not sent.
-- Neither its bill nor its boot time begins, and a set is made anew.
-- name: engine_launch_undone
-- params: id int8, was node_state, now node_state, event node_event, why text, claimed_by text,
--   next_us int8, at_us int8, fence int8, token text
-- rows: many id int8, told bool
-- writes: yes
WITH m AS MATERIALIZED (
	SELECT r.id, $2 = 'LAUNCHING' AND $3 = 'WANTED' AND NOT bool_or(EXISTS (SELECT FROM event e
		WHERE e.node_id = r.id AND e.now = 'UNKNOWN')) OVER () AS unsent
	FROM launch_rows($1, $10) r
), n AS (
	UPDATE node SET state = $3, state_us = $8, why = $5, last_error = $5, claim_until_us = 0, next_act_us = $7,
		ended_us = CASE WHEN $3 = 'FAILED' THEN $8 END,
		end_cause = CASE WHEN $3 = 'FAILED' THEN 'void' ELSE end_cause END,
		launch_sent_us = CASE WHEN m.unsent THEN NULL ELSE launch_sent_us END,
		set_id = CASE WHEN m.unsent THEN NULL ELSE set_id END,
		set_want = CASE WHEN m.unsent THEN NULL ELSE set_want END
	FROM m WHERE node.id = m.id AND state = $2 AND claimed_by = $6
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $9 FOR KEY SHARE)
	RETURNING node.id, job_id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, job_id, node_id, was, now, event, why, actor)
	SELECT $8, 'node', 'n' || id, job_id, id, $2, $3, $4, $5, 'engine' FROM n
)
SELECT id, pg_notify('spot_api', 'n' || id) IS NOT NULL AS told FROM n

-- Returns abandoned claims: those of another daemon, and old ones without a call under way here. A
-- call under way may still be sent, and clocks step. The call of a gang or a set is that of its first
-- row, as in engine_launch_due.
-- name: engine_launch_stale
-- params: claimed_by text, at_us int8, calls int8[]
-- rows: many id int8, claimed_by text, token text
-- writes: no
SELECT (array_agg(id ORDER BY gang_rank, id))[1], claimed_by, (array_agg(token ORDER BY gang_rank, id))[1] FROM node WHERE state = 'LAUNCHING' AND (claimed_by <> $1 OR claim_until_us <= $2)
GROUP BY CASE WHEN gang_call THEN -gang_id ELSE coalesce(set_id, id) END, claimed_by
HAVING claimed_by <> $1 OR (array_agg(id ORDER BY gang_rank, id))[1] <> ALL ($3) ORDER BY 1 LIMIT 200
