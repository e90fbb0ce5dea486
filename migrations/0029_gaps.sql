-- By how much rows look older than they are to whoever leads: for so long nobody led, or the clock of who did was behind, as was seen at gap_at_us. Whoever
-- leads next, should this leader die soon after, would know of neither.
ALTER TABLE led ADD COLUMN gap_us int8 NOT NULL DEFAULT 0, ADD COLUMN gap_at_us int8 NOT NULL DEFAULT 0;
