-- Returns the end of a cooldown that begins at at_us: min_us, doubled per refusal in a row, at most
-- max_us.
CREATE FUNCTION cool_until(at_us int8, min_us int8, max_us int8, refusals int4) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
	SELECT at_us + least(max_us, min_us * (1 << least(refusals, 10)))
$$;
