-- Presigned URLs for nodes, which hold no keys.

-- Returns chunks to presign. Checkpoints that lack the fewest come first, then urgent saves. begun:
-- checkpoints whose presigned URLs count. old: another daemon presigned some, which do not count.
-- name: engine_presign_due
-- params: most int8, begun int8[]
-- rows: many checkpoint_id int8, job_id int8, epoch int4, rank int4, path text, seq int4,
--   sha256 text, old bool
-- writes: no
SELECT c.id, c.job_id, c.epoch, c.rank, k.path, k.seq, k.sha256, c.old
FROM (SELECT o.id, o.job_id, o.epoch, o.rank, o.reason = 'periodic' AS calm, o.id <> ALL ($2) AND EXISTS (SELECT FROM checkpoint_chunk u
		WHERE u.checkpoint_id = o.id AND u.fresh AND u.upload_url IS NOT NULL) AS old
	FROM checkpoint o WHERE o.state = 'OPEN' AND o.urls_us IS NULL ORDER BY o.reason = 'periodic', o.id LIMIT 64) c
CROSS JOIN LATERAL (SELECT f.path, f.seq, f.sha256, count(*) OVER () AS n
	FROM (SELECT u.path, u.seq, u.sha256 FROM checkpoint_chunk u WHERE u.checkpoint_id = c.id AND u.fresh AND (c.old OR u.upload_url IS NULL)
		ORDER BY u.path, u.seq LIMIT $1) f) k
ORDER BY k.n, c.calm, c.id, k.path, k.seq LIMIT $1

-- Clears the URLs that another engine presigned for some chunks, since they may be too old.
-- name: engine_presign_anew
-- params: checkpoint_id int8, fence int8
-- rows: none
-- writes: yes
UPDATE checkpoint_chunk k SET upload_url = NULL, upload_headers = NULL FROM checkpoint c
WHERE c.id = $1 AND c.state = 'OPEN' AND c.urls_us IS NULL AND k.checkpoint_id = c.id AND k.upload_url IS NOT NULL
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $2 FOR KEY SHARE)

-- Returns checkpoints that wait for URLs and have no new chunk to upload.
-- name: engine_presign_empty
-- params: at_us int8, fence int8
-- rows: many id int8, told bool
-- writes: yes
WITH c AS (
	UPDATE checkpoint SET urls_us = $1 WHERE state = 'OPEN' AND urls_us IS NULL
		AND NOT EXISTS (SELECT FROM checkpoint_chunk k WHERE k.checkpoint_id = checkpoint.id AND k.fresh)
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $2 FOR KEY SHARE)
	RETURNING id
)
SELECT id, pg_notify('spot_api', 'c' || id) IS NOT NULL AS told FROM c

-- Stores URLs for some chunks. When none is left it notifies the agent and returns a row.
-- name: engine_presign_put
-- params: checkpoint_id int8, chunk[], at_us int8, fence int8
-- rows_in: chunk (path text, seq int4, object_key text, url text, how text, headers text?)
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH c AS (
	SELECT id FROM checkpoint WHERE id = $1 AND state = 'OPEN' AND urls_us IS NULL
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $9 FOR KEY SHARE)
	FOR NO KEY UPDATE
), k AS (
	UPDATE checkpoint_chunk k SET upload_url = s.url, object_key = s.key, upload_how = s.how,
		upload_headers = s.headers::jsonb
	FROM c, unnest($2, $3, $4, $5, $6, $7) s (path, seq, key, url, how, headers)
	WHERE k.checkpoint_id = c.id AND k.path = s.path AND k.seq = s.seq
), whole AS (
	UPDATE checkpoint SET urls_us = $8 FROM c WHERE checkpoint.id = c.id AND NOT EXISTS (SELECT FROM checkpoint_chunk k
		WHERE k.checkpoint_id = $1 AND k.fresh AND k.upload_url IS NULL
			AND NOT EXISTS (SELECT FROM unnest($2, $3) s (path, seq) WHERE s.path = k.path AND s.seq = k.seq))
	RETURNING checkpoint.id
)
SELECT id, pg_notify('spot_api', 'c' || id) IS NOT NULL AS told FROM whole

-- Returns attempts that may not have fetched their files yet and whose URLs expire soon. Agents
-- report SETUP until then. URLs signed by a clock ahead of time (with an end too far off) count
-- too, since no store honours them yet.
-- name: engine_files_stale
-- params: before_us int8, after_us int8
-- rows: many job_id int8, epoch int4, rank int4, restore_id int8?, mounts bool
-- writes: no
SELECT a.job_id, a.epoch, a.rank, a.restore_id, m.some FROM attempt a JOIN job j ON j.id = a.job_id
CROSS JOIN LATERAL (SELECT coalesce(jsonb_array_length(j.spec->'mounts'), 0) > 0 AS some) m
WHERE a.ended_us IS NULL AND a.phase IN ('ASSIGNED', 'SETUP') AND a.urls_until_us > 0
	AND (a.urls_until_us < $1 OR a.urls_until_us > $2) AND (a.restore_id IS NOT NULL OR m.some)
ORDER BY a.job_id LIMIT 50

-- Returns a page of the mounts of a job's spec, after the n-th.
-- name: engine_mounts
-- params: job_id int8, after int8, most int8
-- rows: many n int8, dst text, uri text
-- writes: no
SELECT m.n, coalesce(m.mount->>'dst', ''), coalesce(m.mount->>'uri', '')
FROM job j CROSS JOIN LATERAL jsonb_array_elements(j.spec->'mounts') WITH ORDINALITY m (mount, n)
WHERE j.id = $1 AND m.n > $2 ORDER BY m.n LIMIT $3

-- Returns a page of a checkpoint's chunks after path and seq. An agent assembles a file in this
-- order.
-- name: engine_chunks
-- params: checkpoint_id int8, path text, seq int4, most int8
-- rows: many path text, seq int4, bytes int8, mode int4, sha256 text, object_key text
-- writes: no
SELECT path, seq, bytes, mode, sha256, object_key FROM checkpoint_chunk
WHERE checkpoint_id = $1 AND (path, seq) > ($2, $3)
ORDER BY path, seq LIMIT $4

-- name: engine_files_put
-- params: job_id int8, epoch int4, files jsonb, urls_until_us int8, fence int8, rank int4
-- rows: 0..1 node_id int8, told bool
-- writes: yes
WITH a AS (
	UPDATE attempt SET files = $3, urls_until_us = $4, version = version + 1
	WHERE job_id = $1 AND epoch = $2 AND rank = $6 AND ended_us IS NULL AND phase IN ('ASSIGNED', 'SETUP')
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE)
	RETURNING node_id
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AS told FROM a

-- Returns objects of discarded checkpoints. Their attempts must have ended on all ranks, and the
-- last upload URL must have expired. A key holds job, epoch and rank, so nobody uploads there
-- again. Objects of another checkpoint stay.
-- name: engine_dispose_due
-- params: before_us int8, most int8
-- rows: many checkpoint_id int8, path text, seq int4, object_key text
-- writes: no
SELECT k.checkpoint_id, k.path, k.seq, k.object_key
FROM (SELECT c.id FROM checkpoint c JOIN attempt a ON a.job_id = c.job_id AND a.epoch = c.epoch AND a.rank = c.rank
	WHERE c.state = 'ABANDONED' AND c.disposed_us IS NULL AND c.urls_us <= $1 AND a.ended_us IS NOT NULL AND a.settled
		AND NOT EXISTS (SELECT FROM attempt o WHERE o.job_id = c.job_id AND o.epoch = c.epoch
			AND (o.ended_us IS NULL OR NOT o.settled))
	ORDER BY c.id LIMIT 16) c
JOIN checkpoint_chunk k ON k.checkpoint_id = c.id AND k.fresh AND k.deleted_us IS NULL
WHERE NOT EXISTS (SELECT FROM checkpoint_chunk o JOIN checkpoint oc ON oc.id = o.checkpoint_id
	WHERE o.object_key = k.object_key AND oc.state <> 'ABANDONED')
ORDER BY k.checkpoint_id, k.path, k.seq LIMIT $2

-- name: engine_dispose_done
-- params: checkpoint_id int8, path text, seq int4, at_us int8, fence int8
-- rows: none
-- writes: yes
UPDATE checkpoint_chunk SET deleted_us = $4 WHERE checkpoint_id = $1 AND path = $2 AND seq = $3
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR KEY SHARE)

-- Closes discarded checkpoints without objects of their own. A checkpoint without presigned URLs
-- never uploaded anything. Running attempts may have many others that must not be read yet. Those
-- that engine_dispose_due reads are among the first here.
-- name: engine_dispose_close
-- params: before_us int8, at_us int8, fence int8
-- rows: many id int8
-- writes: yes
UPDATE checkpoint c SET disposed_us = $2
WHERE c.id IN (SELECT o.id FROM checkpoint o JOIN attempt a ON a.job_id = o.job_id AND a.epoch = o.epoch AND a.rank = o.rank
		WHERE o.state = 'ABANDONED' AND o.disposed_us IS NULL AND (o.urls_us IS NULL OR o.urls_us <= $1) AND a.ended_us IS NOT NULL AND a.settled
			AND (o.urls_us IS NULL OR NOT EXISTS (SELECT FROM attempt r WHERE r.job_id = o.job_id AND r.epoch = o.epoch AND (r.ended_us IS NULL OR NOT r.settled)))
		ORDER BY o.id LIMIT 200)
	AND (c.urls_us IS NULL OR (c.urls_us <= $1 AND NOT EXISTS (
		SELECT FROM checkpoint_chunk k WHERE k.checkpoint_id = c.id AND k.fresh AND k.deleted_us IS NULL
			AND NOT EXISTS (SELECT FROM checkpoint_chunk o JOIN checkpoint oc ON oc.id = o.checkpoint_id
				WHERE o.object_key = k.object_key AND oc.state <> 'ABANDONED'))))
	AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $3 FOR KEY SHARE)
RETURNING c.id
