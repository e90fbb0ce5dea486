-- Where a cloud vouches for nothing, an agent that enrols is believed for its token alone. Two machines that a vendor made of one
-- launch both have it: enrolment waits until the account was listed, and while a second machine of the launch is there.
ALTER TABLE node ADD COLUMN listed_us int8;   -- when a sweep first listed it
ALTER TABLE orphan ADD COLUMN node_id int8;   -- a second instance of this node
CREATE INDEX orphan_second ON orphan (node_id) WHERE gone_us IS NULL AND node_id IS NOT NULL;
