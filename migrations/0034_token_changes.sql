-- Tells every API of a change to a token, so that what it remembers of tokens ends at once. A key names its token
-- without a foreign key: tokens are never deleted, and the check cost a lookup and a row lock for each submitted job.
ALTER TABLE idempotency DROP CONSTRAINT idempotency_token_id_fkey;

CREATE FUNCTION token_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	PERFORM pg_notify('spot_api', 't' || OLD.id);
	RETURN NULL;
END $$;
CREATE TRIGGER api_token_changed AFTER UPDATE OR DELETE ON api_token FOR EACH ROW EXECUTE FUNCTION token_changed();
