-- Lines that take back what a provider does not bill: a spot machine that it reclaimed early.
ALTER TABLE ledger DROP CONSTRAINT ledger_kind_check;
ALTER TABLE ledger ADD CONSTRAINT ledger_kind_check CHECK (kind IN ('compute', 'boot', 'idle', 'lost_work', 'credit'));
