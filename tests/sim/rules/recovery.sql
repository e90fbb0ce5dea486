-- Recoveries and their sums: rules that the tests ask (src/store/gen_rules.py).

-- rule: the phases of a recovery are in order
-- chaos: yes
SELECT r.job_id AS id, 'j' || r.job_id || ' epoch ' || r.epoch || ' rank ' || r.rank || ': '
	|| r.outcome AS words,
	least(r.signal_us, r.saved_us, r.committed_us) < r.notice_us OR r.saved_us < r.signal_us
	OR r.committed_us < greatest(r.signal_us, r.saved_us) OR r.wanted_us < r.notice_us
	OR (r.outcome = 'open') <> (r.ended_us IS NULL)
		OR (r.outcome = 'recovered') <> (r.step_us IS NOT NULL) AS bad
FROM recovery r

-- rule: each notice and each loss of an attempt has its recovery
-- A notice of ours moves the job by itself. The provider's takes the attempts that lived when
-- it was handled.
SELECT a.job_id AS id, 'j' || a.job_id || ' epoch ' || a.epoch || ' on n' || a.node_id || ': '
	|| x.what AS words,
	r.job_id IS NULL OR r.node_id <> a.node_id AS bad
FROM (SELECT o.node_id, o.kind || ' notice' AS what, a.job_id, a.epoch, a.rank
		FROM notice o JOIN attempt a ON a.node_id = o.node_id
		WHERE o.handled_us IS NOT NULL AND o.kind <> 'rebalance'
			AND NOT notice_is_ours(o.source)
			AND a.created_us + :skew < least(o.heard_us, o.handled_us)
			AND coalesce(a.ended_us > greatest(o.heard_us, o.handled_us) + :skew,
				true)
	UNION ALL SELECT e.node_id, e.event, e.job_id, e.epoch, 0 FROM event e
		JOIN node n ON n.id = e.node_id AND n.end_cause <> 'released'
		WHERE e.entity = 'job' AND e.event = 'NODE_LOST') x
JOIN attempt a ON a.job_id = x.job_id AND a.epoch = x.epoch AND a.rank = x.rank
	AND a.node_id = x.node_id
LEFT JOIN recovery r ON r.job_id = a.job_id AND r.epoch = a.epoch AND r.rank = a.rank

-- rule: a recovery has a cause
SELECT r.job_id AS id, 'j' || r.job_id || ' epoch ' || r.epoch || ': ' || r.cause AS words,
	CASE r.cause WHEN 'notice' THEN NOT EXISTS (SELECT FROM notice o
		WHERE o.node_id = r.node_id
			AND o.kind <> 'rebalance' AND NOT notice_is_ours(o.source))
		ELSE NOT EXISTS (SELECT FROM attempt a WHERE a.job_id = r.job_id
			AND a.epoch = r.epoch
			AND a.rank = r.rank AND a.exit_reason = 'lost') END AS bad
FROM recovery r

-- rule: the sums of recoveries equal their rows
SELECT 0 AS id, coalesce(x.provider, s.provider) || ' ' || coalesce(x.phase, s.phase) || ': '
		|| coalesce(x.n, 0) || ' rows, ' || coalesce(s.n, 0) || ' summed' AS words,
	(x.n, x.us) IS DISTINCT FROM (s.n, s.us) AS bad
FROM (SELECT r.provider, p.phase, width_bucket(p.us - 1, recovery_bounds()) AS bucket,
	count(*) AS n,
		sum(p.us)::int8 AS us
	FROM recovery r CROSS JOIN LATERAL recovery_phases(r) p
	WHERE r.outcome <> 'open' AND p.us IS NOT NULL GROUP BY 1, 2, 3) x
FULL JOIN recovery_sum s ON s.provider = x.provider AND s.phase = x.phase AND s.bucket = x.bucket
