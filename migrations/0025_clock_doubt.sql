-- Times that a wall clock wrote which was wrong, put right when it is right again.

-- One that lies ahead is down_us less, or now where that would be a quarter of an hour before the clock came into doubt; one that lies a minute or
-- more before that, of what began since, is up_us more, but never ahead. A time that is not known stays so.
CREATE FUNCTION time_put_right(t int8, now_us int8, doubt_us int8, up_us int8, down_us int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
SELECT CASE WHEN t > now_us THEN CASE WHEN t - down_us >= doubt_us - 900000000 THEN t - down_us ELSE now_us END
	WHEN t < doubt_us - 60000000 THEN least(t + up_us, now_us) ELSE t END
$$;

-- What ran on a machine, for its bill: attempt_node is of those that run.
CREATE INDEX attempt_of_node ON attempt (node_id, created_us);
