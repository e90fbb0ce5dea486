-- The agent's last word when its machine came under suspicion. Silence is what that suspicion lasted without another word: wall clocks
-- of daemons differ and jump, so how old the word is by one of them proves nothing.
ALTER TABLE node ADD COLUMN suspect_seen_us int8;

-- That some API was there to be spoken to: each adds a beat every few seconds.
CREATE TABLE listener (
	name  text PRIMARY KEY,
	beats int8 NOT NULL
);
ALTER TABLE node ADD COLUMN suspect_beats int8;  -- when it came under suspicion
