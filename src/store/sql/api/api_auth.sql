-- Authentication, and idempotency keys of POSTs.

-- name: api_token_by_hash
-- params: hash bytea, at_us int8
-- rows: 0..1 id int8, name text, role text, team text, hash bytea, expires_us int8?
-- writes: no
SELECT id, name, role, team, hash, expires_us FROM api_token
WHERE hash = $1 AND revoked_us IS NULL AND (expires_us IS NULL OR expires_us > $2)

-- name: api_node_by_session
-- params: hash bytea
-- rows: 0..1 id int8, hash bytea
-- writes: no
-- lane: agent
SELECT id, session_hash FROM node WHERE session_hash = $1

-- A key lives a day. If a daemon died during a request, the same request may take the key over
-- after a minute. A create that had committed by then left its status and 'ref:', so it is
-- replayed. A status stores the reply with the claim.
-- name: api_idem_begin
-- params: token_id int8, key text, route text, body_sha256 text, at_us int8, status int4?,
--   response text?
-- rows: 1 outcome text, status int4?, response text?
-- writes: yes
WITH ins AS (
	INSERT INTO idempotency AS i (token_id, key, route, body_sha256, created_us, status, response)
	VALUES ($1, $2, $3, $4, $5, $6, $7)
	ON CONFLICT (token_id, key) DO UPDATE
		SET created_us = $5, route = $3, body_sha256 = $4, status = $6, response = $7
		WHERE i.created_us < $5 - 86400000000
			OR (i.status IS NULL AND i.created_us < $5 - 60000000 AND i.body_sha256 = $4 AND i.route = $3)
	RETURNING token_id
)
SELECT CASE WHEN EXISTS (SELECT FROM ins) THEN 'fresh'
	WHEN i.route <> $3 OR i.body_sha256 <> $4 THEN 'mismatch'
	WHEN i.status IS NULL THEN 'busy' ELSE 'replay' END AS outcome, i.status, i.response
FROM (SELECT 1) one LEFT JOIN idempotency i ON i.token_id = $1 AND i.key = $2

-- A settled key stays as it is, since an earlier sending of the request may end later.
-- name: api_idem_end
-- params: token_id int8, key text, status int4, response text
-- rows: none
-- writes: yes
UPDATE idempotency SET status = $3, response = $4 WHERE token_id = $1 AND key = $2 AND (status IS NULL OR status = $3)

-- Drops the key after a failure on our side, so the same request may be tried again. Drops only
-- this sending's own row, identified by at_us.
-- name: api_idem_drop
-- params: token_id int8, key text, at_us int8
-- rows: none
-- writes: yes
DELETE FROM idempotency WHERE token_id = $1 AND key = $2 AND created_us = $3 AND status IS NULL

-- name: api_idem_purge
-- params: before_us int8
-- rows: none
-- writes: yes
DELETE FROM idempotency WHERE created_us < $1

-- name: api_tokens
-- params: at_us int8, after_id int8, most int4
-- rows: many id int8, doc text
-- row: listed
-- writes: no
SELECT id, json_build_object('id', 't' || id, 'name', name, 'role', role, 'team', team, 'created@', created_us,
	'expires@', expires_us, 'revoked@', revoked_us,
	'active', revoked_us IS NULL AND (expires_us IS NULL OR expires_us > $1))::text AS doc
FROM api_token WHERE id > $2 ORDER BY id LIMIT $3

-- name: api_token_create
-- params: name text, role text, team text, hash bytea, at_us int8, expires_us int8?, actor text
-- rows: 1 id int8
-- writes: yes
WITH t AS (
	INSERT INTO api_token (name, role, team, hash, created_us, expires_us) VALUES ($1, $2, $3, $4, $5, $6)
	RETURNING id
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, event, why, actor)
	SELECT $5, 'token', 't' || id, 'CREATED', 'token ' || $1 || ' with role ' || $2, $7 FROM t
)
SELECT id FROM t

-- name: api_token_revoke
-- params: id int8, at_us int8, actor text
-- rows: 0..1 id int8
-- writes: yes
WITH t AS (
	UPDATE api_token SET revoked_us = coalesce(revoked_us, $2) WHERE id = $1 RETURNING id, name
), ev AS (
	INSERT INTO event (at_us, entity, entity_id, event, why, actor)
	SELECT $2, 'token', 't' || id, 'REVOKED', 'token ' || name || ' was revoked', $3 FROM t
)
SELECT id FROM t
