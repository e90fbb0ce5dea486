-- Statements that look whether their lease still holds lock its row FOR KEY SHARE. With the epoch in a key that stands in the way of
-- another epoch (who takes the lease waits for what is under way, and what comes later sees him), but not of a renewal.
CREATE UNIQUE INDEX leader_epoch ON leader (name, epoch);
