-- The agent's last word when its machine came under suspicion. Silence is what that suspicion lasted without another word: wall clocks
-- of daemons differ and jump, so how old the word is by one of them proves nothing.
ALTER TABLE node ADD COLUMN suspect_seen_us int8;
