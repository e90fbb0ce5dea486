-- A change to a token is told to every API, which forgets what it remembers of tokens.
-- A key names its token without a foreign key. Tokens are never deleted, and the check cost each submitted job a lookup.
ALTER TABLE idempotency DROP CONSTRAINT idempotency_token_id_fkey;

CREATE FUNCTION token_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	PERFORM pg_notify('spot_api', 't' || OLD.id);
	RETURN NULL;
END $$;
CREATE TRIGGER api_token_changed AFTER UPDATE OR DELETE ON api_token FOR EACH ROW EXECUTE FUNCTION token_changed();

-- For how long a key holds, in microseconds: a day. A request that stays open does not end, since its daemon died. The
-- same request may take the key over after a minute.
CREATE FUNCTION idempotency_life(i idempotency, route text, body_sha256 text) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i.status IS NULL AND i.route = $2 AND i.body_sha256 = $3 THEN 60000000 ELSE 86400000000 END $$;
