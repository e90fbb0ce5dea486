-- Proofs of identity at enrolment, cursors of providers' streams, instances and leftovers that nobody
-- accounts for, ways to upload, deletion of abandoned checkpoints' objects, what a poll costs.

-- What an agent sent to prove that it is the machine we launched, and the engine's verdict. The verdict is
-- for exactly this node, boot and proof.
CREATE TABLE enrol_proof (
	node_id        int8 NOT NULL REFERENCES node,
	boot_id        text NOT NULL,
	sha256         text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'), -- of the proof as it came
	proof          text NOT NULL,    -- JSON; blanked with the verdict
	instance_ref   text NOT NULL DEFAULT '',
	peer           text NOT NULL DEFAULT '',
	asked_us       int8 NOT NULL,
	verdict        text NOT NULL DEFAULT '' CHECK (verdict IN ('', 'verified', 'waived', 'denied')),
	verdict_us     int8,
	why            text NOT NULL DEFAULT '',     -- of the verdict, or why there is none yet
	claimed_by     text NOT NULL DEFAULT '',
	claim_until_us int8 NOT NULL DEFAULT 0,
	next_us        int8 NOT NULL DEFAULT 0,
	tries          int4 NOT NULL DEFAULT 0,
	PRIMARY KEY (node_id, boot_id, sha256)
);
CREATE INDEX enrol_proof_open ON enrol_proof (next_us) WHERE verdict = '';

CREATE TABLE watch_cursor (              -- where a provider's stream goes on; written with what it brought
	provider       text NOT NULL,
	region         text NOT NULL,    -- '' = all of them in one stream
	cursor         text NOT NULL,
	at_us          int8 NOT NULL,
	PRIMARY KEY (provider, region)
);

CREATE TABLE orphan (                    -- listed with our tag, and no live row accounts for it
	provider       text NOT NULL,
	region         text NOT NULL,    -- '' = the list covered all of them
	ref            text NOT NULL,
	kind           text NOT NULL CHECK (kind IN ('instance', 'leftover')),
	first_us       int8 NOT NULL,    -- seen without an owner since
	last_us        int8 NOT NULL,
	terminate_us   int8,             -- first asked to end it
	gone_us        int8,             -- not listed any more
	why            text NOT NULL,
	PRIMARY KEY (provider, region, ref)
);
CREATE INDEX orphan_open ON orphan (provider, region) WHERE gone_us IS NULL;

ALTER TABLE checkpoint_chunk ADD COLUMN upload_how text NOT NULL DEFAULT 'put',
	ADD COLUMN upload_headers jsonb,
	ADD COLUMN deleted_us int8;      -- its object was deleted: an abandoned checkpoint's
ALTER TABLE checkpoint ADD COLUMN disposed_us int8; -- abandoned, and nothing of it is left in the store
CREATE INDEX checkpoint_disposable ON checkpoint (id) WHERE state = 'ABANDONED' AND disposed_us IS NULL;

ALTER TABLE feed ADD COLUMN requests_last int4,      -- requests that the last poll took
	ADD COLUMN interval_us int8;     -- pause between polls, as configured

-- The signals of one place and type side by side.
CREATE VIEW signal_wide AS
SELECT provider, region, zone, instance_type, market,
	max(lo) FILTER (WHERE kind = 'advisor_bucket') AS advisor_lo,
	max(hi) FILTER (WHERE kind = 'advisor_bucket') AS advisor_hi,
	max(as_of_us) FILTER (WHERE kind = 'advisor_bucket') AS advisor_as_of_us,
	max(lo) FILTER (WHERE kind = 'eviction_band') AS band_lo,
	max(hi) FILTER (WHERE kind = 'eviction_band') AS band_hi,
	max(value) FILTER (WHERE kind = 'preemption_share') AS share,
	max(lo) FILTER (WHERE kind = 'preemption_share') AS share_lo,
	max(hi) FILTER (WHERE kind = 'preemption_share') AS share_hi,
	max(value) FILTER (WHERE kind = 'obtainability') AS odds,
	max(observed_us) FILTER (WHERE kind = 'obtainability') AS odds_us,
	max(value) FILTER (WHERE kind = 'placement_score') AS score,
	max(observed_us) FILTER (WHERE kind = 'placement_score') AS score_us,
	max(value) FILTER (WHERE kind = 'capacity') AS capacity,
	max(observed_us) FILTER (WHERE kind = 'capacity') AS capacity_us
FROM signal GROUP BY provider, region, zone, instance_type, market;
