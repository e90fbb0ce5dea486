-- name: install_ensure
-- params: id text, enrol_key bytea, now_us int8
-- rows: 1 id text, enrol_key bytea, created_us int8
-- writes: yes
-- The first caller's id and key stay for ever, and every caller gets them. The update changes
-- nothing. It makes a concurrent first call return the winner's row instead of none.
INSERT INTO install AS i (id, enrol_key, created_us) VALUES ($1, $2, $3)
ON CONFLICT (one) DO UPDATE SET one = i.one
RETURNING id, enrol_key, created_us;
