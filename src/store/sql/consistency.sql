-- Returns each object once: those that jobs continue from, and those of ended jobs. Active jobs
-- come first, then the newest. Column whole is the total number.
-- name: consistency_objects
-- params: since_us int8, most int8
-- rows: many object_key text, bytes int8, path text, seq int4, checkpoint_id int8, job_id int8, whole int8
-- writes: no
-- lane: long
WITH c AS MATERIALIZED (
	SELECT s.id, s.job_id, j.ended_us FROM job j JOIN checkpoint h ON h.id = j.checkpoint_id JOIN checkpoint s ON s.job_id = h.job_id
		AND s.epoch = h.epoch AND (s.id = h.id OR (s.set_key = h.set_key AND s.set_us IS NOT NULL)) AND s.state = 'COMMITTED'
	WHERE j.ended_us IS NULL OR j.ended_us >= $1
), k AS (
	SELECT DISTINCT ON (k.object_key) k.object_key, k.bytes, k.path, k.seq, c.id, c.job_id, c.ended_us
	FROM c JOIN checkpoint_chunk k ON k.checkpoint_id = c.id
	ORDER BY k.object_key, c.ended_us DESC NULLS FIRST, c.id DESC, k.path, k.seq
)
SELECT object_key, bytes, path, seq, id, job_id, count(*) OVER () FROM k
ORDER BY ended_us DESC NULLS FIRST, id DESC, path, seq LIMIT $2
