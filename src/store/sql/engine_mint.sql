-- URLs for nodes that hold no keys.

-- name: engine_mint_due
-- params: most int8
-- rows: many checkpoint_id int8, job_id int8, epoch int4, path text, seq int4, sha256 text, object_key text
-- writes: no
SELECT c.id, c.job_id, c.epoch, k.path, k.seq, k.sha256, k.object_key
FROM (SELECT id, job_id, epoch FROM checkpoint WHERE state = 'OPEN' AND urls_us IS NULL ORDER BY id LIMIT $1) c
JOIN checkpoint_chunk k ON k.checkpoint_id = c.id AND k.fresh
ORDER BY c.id, k.path, k.seq

-- Checkpoints that wait for URLs and have nothing fresh to upload.
-- name: engine_mint_empty
-- params: at_us int8, fence int8
-- rows: many id int8, told bool
-- writes: yes
WITH c AS (
	UPDATE checkpoint SET urls_us = $1 WHERE state = 'OPEN' AND urls_us IS NULL
		AND NOT EXISTS (SELECT FROM checkpoint_chunk k WHERE k.checkpoint_id = checkpoint.id AND k.fresh)
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $2 FOR SHARE)
	RETURNING id
)
SELECT id, pg_notify('spot_api', 'c' || id) IS NOT NULL AS told FROM c

-- name: engine_mint_put
-- params: checkpoint_id int8, paths text[], seqs int4[], keys text[], urls text[], at_us int8, fence int8
-- rows: 0..1 id int8, told bool
-- writes: yes
WITH c AS (
	UPDATE checkpoint SET urls_us = $6 WHERE id = $1 AND state = 'OPEN' AND urls_us IS NULL
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $7 FOR SHARE)
	RETURNING id
), k AS (
	UPDATE checkpoint_chunk k SET upload_url = s.url, object_key = s.key
	FROM c, unnest($2, $3, $4, $5) s (path, seq, key, url)
	WHERE k.checkpoint_id = c.id AND k.path = s.path AND k.seq = s.seq
)
SELECT id, pg_notify('spot_api', 'c' || id) IS NOT NULL AS told FROM c

-- Attempts that have not fetched their files yet although the URLs are about to expire.
-- name: engine_files_stale
-- params: before_us int8
-- rows: many job_id int8, epoch int4, restore_id int8?, spec jsonb
-- writes: no
SELECT a.job_id, a.epoch, a.restore_id, j.spec FROM attempt a JOIN job j ON j.id = a.job_id
WHERE a.ended_us IS NULL AND a.phase = 'ASSIGNED' AND a.urls_until_us > 0 AND a.urls_until_us < $1
ORDER BY a.job_id LIMIT 50

-- name: engine_files_put
-- params: job_id int8, epoch int4, files jsonb, urls_until_us int8, fence int8
-- rows: 0..1 node_id int8, told bool
-- writes: yes
WITH a AS (
	UPDATE attempt SET files = $3, urls_until_us = $4, version = version + 1
	WHERE job_id = $1 AND epoch = $2 AND ended_us IS NULL AND phase = 'ASSIGNED'
		AND EXISTS (SELECT FROM leader WHERE name = 'engine' AND epoch = $5 FOR SHARE)
	RETURNING node_id
)
SELECT node_id, pg_notify('spot_api', 'n' || node_id) IS NOT NULL AS told FROM a
