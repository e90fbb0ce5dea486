-- Agents to download by their hash; chunks by their key. CREATE INDEX lets nobody write to checkpoint_chunk while it runs: about three seconds for a
-- million rows, in which an agent that opens or commits a checkpoint waits (one that was refused tries again).

-- What nodes download. User data pin the SHA-256 that the leader had, and whichever daemon is asked hands it out, also one with a newer agent.
CREATE TABLE agent_binary (
	sha256         text PRIMARY KEY CHECK (sha256 ~ '^[0-9a-f]{64}$'),
	bytes          bytea NOT NULL,
	seen_us        int8 NOT NULL     -- a daemon had it last
);

-- Who else has a chunk's object is found by its key: the hash of an empty file is in every checkpoint of every job. (checkpoint_chunk_sha is of use
-- to the release before only.)
CREATE INDEX checkpoint_chunk_key ON checkpoint_chunk (object_key text_pattern_ops);
