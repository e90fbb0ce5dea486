-- Judges whether the caller of an enrolment is the machine that we launched. The API stored the
-- proof.

-- Accepts the one-time token alone, for clouds that attest nothing, or if the operator waives
-- proof. Two machines of one launch have that token, so the caller must have our machine's address,
-- or three conditions hold. A list has shown our machine, or the list's lag is over. A list has
-- arrived since the caller asked, or none did for as long. Any other machine of the launch is gone.
--
-- The text after the dot in a boot id tells machines apart across reboots. Two callers are thus two
-- machines before any list says so. Both wait until one has been silent since the other machine was
-- gone, or for longer than agents pause between tries.
-- name: engine_enrol_waive
-- params: provider[], at_us int8, fence int8
-- rows_in: provider (name text, lag_us int8)
-- rows: many id int8, told bool
-- writes: yes
WITH d AS MATERIALIZED (
	SELECT e.node_id, e.boot_id, e.sha256, e.why, CASE WHEN n.ref IS NULL THEN 'its launch is being looked up'
		WHEN n.listed_us IS NULL AND coalesce(n.launched_us, $3) + l.lag_us > $3 THEN 'no list of the account has shown it yet'
		WHEN n.provider_state = 'absent' THEN 'lists of the account lack it now'
		WHEN coalesce(n.provider_seen_us, 0) < e.asked_us - 5000000 AND e.asked_us + l.lag_us > $3 THEN 'no list since it asked has shown that ours is there'
		WHEN EXISTS (SELECT FROM orphan o WHERE o.node_id = n.id AND o.gone_us IS NULL) AND (n.ip = '' OR NOT starts_with(e.peer, n.ip || ':'))
			THEN 'its launch made a second machine, which is ended first'
		WHEN EXISTS (SELECT FROM enrol_proof o WHERE o.node_id = n.id AND o.asked_us > greatest($3 - 120000000,
				(SELECT max(x.gone_us) FROM orphan x WHERE x.node_id = n.id))
			AND coalesce(nullif(split_part(o.boot_id, '.', 2), ''), o.boot_id)
				<> coalesce(nullif(split_part(e.boot_id, '.', 2), ''), e.boot_id))
			AND (n.ip = '' OR NOT starts_with(e.peer, n.ip || ':'))
			THEN 'two machines presented the token of its launch, and no list shows yet which is ours' ELSE '' END AS holds
	FROM enrol_proof e JOIN node n ON n.id = e.node_id JOIN pool p ON p.id = n.pool_id
	JOIN unnest($1, $2) l (provider, lag_us) ON l.provider = p.provider
	WHERE e.verdict = '' AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $4 FOR KEY SHARE)
), h AS (
	UPDATE enrol_proof e SET why = d.holds FROM d
	WHERE d.holds <> '' AND d.why <> d.holds AND (e.node_id, e.boot_id, e.sha256) = (d.node_id, d.boot_id, d.sha256)
), e AS (
	UPDATE enrol_proof e SET verdict = 'waived', verdict_us = $3, proof = '', why = '' FROM d
	WHERE d.holds = '' AND (e.node_id, e.boot_id, e.sha256) = (d.node_id, d.boot_id, d.sha256) AND e.verdict = ''
	RETURNING e.node_id
)
SELECT node_id, pg_notify('spot_api', 'v' || node_id) IS NOT NULL AS told FROM e

-- Returns the places to list for waiting callers. They wait for the first sight of their machine,
-- or of another that used its token.
-- name: engine_enrol_unlisted
-- params: providers text[]
-- rows: many provider text, region text
-- writes: no
SELECT DISTINCT p.provider, p.region
FROM enrol_proof e JOIN node n ON n.id = e.node_id JOIN pool p ON p.id = n.pool_id
WHERE e.verdict = '' AND p.provider = ANY ($1) AND n.ref IS NOT NULL AND (n.listed_us IS NULL
		OR (EXISTS (SELECT FROM enrol_proof o WHERE o.node_id = n.id AND o.boot_id <> e.boot_id)
			AND NOT EXISTS (SELECT FROM orphan o WHERE o.node_id = n.id)))
	AND n.state IN ('BOOTING', 'READY', 'DRAINING')

-- A node without a ref is not known to exist yet, so its look-up comes first. Nodes of a provider
-- that cannot be asked now wait.
-- name: engine_enrol_due
-- params: claimed_by text, at_us int8, providers text[]
-- rows: many node_id int8, boot_id text, sha256 text, proof text, peer text, provider text,
--   region text, zone text, ref text, name text, token text
-- writes: no
SELECT e.node_id, e.boot_id, e.sha256, e.proof, e.peer, p.provider, p.region, p.zone, n.ref, n.name, launch_token(n)
FROM enrol_proof e JOIN node n ON n.id = e.node_id JOIN pool p ON p.id = n.pool_id
WHERE e.verdict = '' AND e.next_us <= $2 AND (e.claim_until_us <= $2 OR e.claimed_by <> $1)
	AND n.state IN ('BOOTING', 'READY', 'DRAINING') AND n.ref IS NOT NULL AND p.provider = ANY ($3)
ORDER BY e.next_us, e.asked_us, e.node_id LIMIT 50

-- name: engine_enrol_claim
-- params: node_id int8, boot_id text, sha256 text, claimed_by text, at_us int8, until_us int8,
--   fence int8
-- rows: 0..1 tries int4
-- writes: yes
UPDATE enrol_proof SET claimed_by = $4, claim_until_us = $6, tries = tries + 1
WHERE node_id = $1 AND boot_id = $2 AND sha256 = $3 AND verdict = '' AND (claim_until_us <= $5 OR claimed_by <> $4)
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE)
RETURNING tries

-- name: engine_enrol_verdict
-- params: node_id int8, boot_id text, sha256 text, claimed_by text, verdict text, why text,
--   at_us int8, fence int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH e AS (
	UPDATE enrol_proof SET verdict = $5, verdict_us = $7, why = $6, proof = '', claim_until_us = 0
	WHERE node_id = $1 AND boot_id = $2 AND sha256 = $3 AND verdict = '' AND claimed_by = $4
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $8 FOR KEY SHARE)
	RETURNING node_id, instance_ref, peer
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, node_id, event, why, actor)
	SELECT $7, 'node', 'n' || node_id, node_id, CASE WHEN $5 = 'denied' THEN 'ENROL_DENIED' ELSE 'IDENTITY_VERIFIED' END,
		$6 || ' (the caller says it is instance ' || instance_ref || ', from ' || peer || ')', 'engine' FROM e
)
SELECT node_id, pg_notify('spot_api', 'v' || node_id) IS NOT NULL AS told FROM e

-- Postpones the judgement, with a reason. Waiting callers get that reason when their wait ends.
-- name: engine_enrol_later
-- params: node_id int8, boot_id text, sha256 text, claimed_by text, next_us int8, why text,
--   fence int8
-- rows: none
-- writes: yes
UPDATE enrol_proof SET next_us = $5, why = $6, claim_until_us = 0
WHERE node_id = $1 AND boot_id = $2 AND sha256 = $3 AND verdict = '' AND claimed_by = $4
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR KEY SHARE)

-- Returns nodes whose token another caller used before our machine did. The engine replaces them.
-- name: engine_enrol_denied
-- rows: many id int8, state node_state, why text
-- writes: no
SELECT n.id, n.state, (SELECT e.why FROM enrol_proof e WHERE e.node_id = n.id AND e.verdict = 'denied'
	ORDER BY e.verdict_us LIMIT 1)
FROM node n
WHERE n.state = 'BOOTING' AND n.enrol_used_us IS NULL
	AND EXISTS (SELECT FROM enrol_proof e WHERE e.node_id = n.id AND e.verdict = 'denied')
	AND NOT EXISTS (SELECT FROM enrol_proof e WHERE e.node_id = n.id AND e.verdict = 'verified')
ORDER BY n.id LIMIT 50
