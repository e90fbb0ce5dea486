-- The whole schema of the first release. Times are int8 microseconds since the Unix epoch (UTC) and
-- reach SQL only as parameters; money is int8 micro-dollars. Names of states are the wire names of
-- the transition tables in src/core (job_fsm.c, node_fsm.c).

CREATE TABLE install (
	one            boolean PRIMARY KEY DEFAULT true CHECK (one),
	id             text NOT NULL CHECK (id ~ '^[0-9a-f]{8}$'), -- value of our tag at every provider
	enrol_key      bytea NOT NULL,   -- one-time enrolment tokens are HMAC(enrol_key, node token), so that
	                                 -- a launch can be repeated with identical bytes
	created_us     int8 NOT NULL
);

CREATE TABLE leader (
	name           text PRIMARY KEY,
	epoch          int8 NOT NULL,
	holder         text NOT NULL,
	until_us       int8 NOT NULL
);

-- ---- market ------------------------------------------------------------------------------

CREATE TABLE provider (
	name           text PRIMARY KEY,
	kind           text NOT NULL,
	account        text,
	state          text NOT NULL CHECK (state IN ('ok', 'degraded', 'down')),
	last_ok_us     int8,
	last_error     text,
	last_error_us  int8,
	requests       int8 NOT NULL DEFAULT 0,
	throttled      int8 NOT NULL DEFAULT 0,
	updated_us     int8 NOT NULL
);

CREATE TABLE feed (                      -- one poller: a provider's feed in a region
	provider       text NOT NULL,
	region         text NOT NULL,
	feed           text NOT NULL,    -- pools, prices_spot, prices_on_demand, signals, quotas
	last_ok_us     int8,
	next_us        int8 NOT NULL,
	since_us       int8 NOT NULL DEFAULT 0,
	rows_seen      int8 NOT NULL DEFAULT 0,
	fails          int4 NOT NULL DEFAULT 0,
	last_error     text,
	PRIMARY KEY (provider, region, feed)
);

CREATE TABLE pool (
	id             int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	provider       text NOT NULL,
	region         text NOT NULL,
	zone           text NOT NULL,    -- zone id; '' where the provider has none
	zone_name      text NOT NULL,
	instance_type  text NOT NULL,
	market         text NOT NULL CHECK (market IN ('spot', 'on_demand', 'reserved')),
	gpu_name       text NOT NULL,
	gpu_milli      int4 NOT NULL,
	gpu_mem_mib    int4 NOT NULL,
	vcpus          int4 NOT NULL,
	mem_mib        int4 NOT NULL,
	arch           text NOT NULL,
	quota_class    text NOT NULL,
	offered        boolean NOT NULL,  -- false: gone from the provider's list
	seen_us        int8 NOT NULL,
	UNIQUE (provider, region, zone, instance_type, market)
);
CREATE INDEX pool_gpu ON pool (gpu_name) WHERE offered;

CREATE TABLE price_point (
	pool_id        int4 NOT NULL,
	observed_us    int8 NOT NULL,
	effective_us   int8 NOT NULL,    -- provider's own time of the change; observed_us if not said
	price_micros   int8 NOT NULL CHECK (price_micros > 0),
	source         text NOT NULL,
	PRIMARY KEY (pool_id, observed_us)
) PARTITION BY RANGE (observed_us);      -- daily partitions price_point_YYYYMMDD, made ahead by the daemon

CREATE TABLE pool_latest (
	pool_id        int4 PRIMARY KEY REFERENCES pool,
	price_micros   int8 NOT NULL,
	observed_us    int8 NOT NULL,    -- last poll that confirmed it
	effective_us   int8 NOT NULL,
	changed_us     int8 NOT NULL,    -- when the value last differed from the one before
	source         text NOT NULL,
	state          text NOT NULL CHECK (state IN ('fresh', 'stale', 'frozen', 'implausible')),
	why            text NOT NULL DEFAULT ''
);

CREATE TABLE price_refused (             -- points that failed the plausibility checks
	pool_id        int4 NOT NULL,
	observed_us    int8 NOT NULL,
	price_micros   int8 NOT NULL,
	source         text NOT NULL,
	why            text NOT NULL,
	PRIMARY KEY (pool_id, observed_us)
);

CREATE TABLE signal (                    -- latest interruption/capacity signals; '' = coarser than a pool
	provider       text NOT NULL,
	region         text NOT NULL,
	zone           text NOT NULL,
	instance_type  text NOT NULL,
	market         text NOT NULL,
	kind           text NOT NULL,
	value          float8 NOT NULL,
	lo             float8 NOT NULL,
	hi             float8 NOT NULL,
	as_of_us       int8 NOT NULL,
	observed_us    int8 NOT NULL,
	source         text NOT NULL,
	PRIMARY KEY (provider, region, zone, instance_type, market, kind)
);

CREATE TABLE quota (
	provider       text NOT NULL,
	region         text NOT NULL,
	class          text NOT NULL,
	market         text NOT NULL,
	unit           text NOT NULL,
	quota_limit    int8 NOT NULL,
	observed_us    int8 NOT NULL,
	PRIMARY KEY (provider, region, class, market)
);

CREATE TABLE pool_cool (                 -- a refused pool rests until until_us
	pool_id        int4 PRIMARY KEY REFERENCES pool,
	until_us       int8 NOT NULL,
	refusals       int4 NOT NULL,    -- in a row
	rc             text NOT NULL,
	why            text NOT NULL,
	at_us          int8 NOT NULL
);

CREATE TABLE pool_day (                  -- our own exposure, the base of the hazard estimate
	pool_id        int4 NOT NULL REFERENCES pool,
	day            int4 NOT NULL,    -- days since the epoch, UTC
	node_us        int8 NOT NULL DEFAULT 0,
	reclaims       int4 NOT NULL DEFAULT 0,
	launches       int4 NOT NULL DEFAULT 0,
	refusals       int4 NOT NULL DEFAULT 0,
	PRIMARY KEY (pool_id, day)
);

CREATE TABLE rate_bucket (               -- account-wide limits shared by all daemons
	key            text PRIMARY KEY,
	tokens         float8 NOT NULL,
	updated_us     int8 NOT NULL
);

-- ---- people ------------------------------------------------------------------------------

CREATE TABLE api_token (
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name           text NOT NULL UNIQUE,
	role           text NOT NULL CHECK (role IN ('admin', 'lead', 'engineer', 'viewer', 'service')),
	team           text NOT NULL DEFAULT '',
	hash           bytea NOT NULL UNIQUE,
	created_us     int8 NOT NULL,
	expires_us     int8,
	revoked_us     int8
);

CREATE TABLE idempotency (
	token_id       int8 NOT NULL REFERENCES api_token,
	key            text NOT NULL,
	route          text NOT NULL,
	body_sha256    text NOT NULL,
	status         int4,             -- NULL while in flight
	response       text,
	created_us     int8 NOT NULL,
	PRIMARY KEY (token_id, key)
);

-- ---- work --------------------------------------------------------------------------------

CREATE TABLE fleet (
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name           text NOT NULL,
	owner          text NOT NULL,
	team           text NOT NULL,
	project        text NOT NULL,
	spec           jsonb NOT NULL,
	version        int8 NOT NULL DEFAULT 1,  -- ETag
	state          text NOT NULL CHECK (state IN ('ACTIVE', 'CLOSING', 'CLOSED')),
	why            text NOT NULL DEFAULT '',
	created_us     int8 NOT NULL,
	updated_us     int8 NOT NULL
);
CREATE UNIQUE INDEX fleet_name ON fleet (name) WHERE state <> 'CLOSED';

CREATE TABLE job (
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name           text NOT NULL,
	owner          text NOT NULL,
	team           text NOT NULL,
	project        text NOT NULL,
	class          text NOT NULL,
	spec           jsonb NOT NULL,   -- normalised job, without secrets
	source         text NOT NULL,    -- the file as submitted, secrets blanked
	secrets        jsonb NOT NULL DEFAULT '{}',  -- never shown; delivered to the node that runs it
	state          text NOT NULL,
	state_us       int8 NOT NULL,
	epoch          int4 NOT NULL DEFAULT 0,      -- fencing number of the newest attempt
	priority       int4 NOT NULL DEFAULT 0,
	fleet_id       int8 REFERENCES fleet,
	deadline_us    int8,
	created_us     int8 NOT NULL,
	queued_us      int8 NOT NULL,    -- since when it waits for capacity (this time)
	started_us     int8,             -- first attempt that ran
	ended_us       int8,
	steps_done     int8 NOT NULL DEFAULT 0,
	steps_total    int8 NOT NULL DEFAULT 0,      -- 0 = the job does not say
	checkpoint_id  int8,             -- newest committed
	restarts       int4 NOT NULL DEFAULT 0,      -- after errors, not after interruptions
	cancel_us      int8,             -- somebody asked for cancellation
	reason         text NOT NULL DEFAULT '',
	why            text NOT NULL DEFAULT '',
	baseline       jsonb             -- cheapest pool and cheapest on-demand at submit, for the savings line
);
CREATE INDEX job_live ON job (id) WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED');
CREATE INDEX job_state ON job (state, id);

CREATE TABLE node (
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	pool_id        int4 NOT NULL REFERENCES pool,
	fleet_id       int8 REFERENCES fleet,
	job_id         int8 REFERENCES job,          -- wanted for this job
	replaces_id    int8 REFERENCES node,         -- a planned move: launched before the old one is left
	state          text NOT NULL,
	state_us       int8 NOT NULL,
	token          text NOT NULL UNIQUE,         -- launch token at the provider
	name           text NOT NULL UNIQUE,
	ref            text,
	spot_request   text NOT NULL DEFAULT '',
	ip             text NOT NULL DEFAULT '',
	price_micros   int8 NOT NULL,    -- per hour when it was decided
	price_cap_micros int8 NOT NULL DEFAULT 0,
	created_us     int8 NOT NULL,
	claimed_by     text NOT NULL DEFAULT '',
	claim_until_us int8 NOT NULL DEFAULT 0,      -- an act at the provider may be in progress until then
	next_act_us    int8 NOT NULL DEFAULT 0,
	tries          int4 NOT NULL DEFAULT 0,
	launch_sent_us int8,             -- the first launch call may have left us
	launched_us    int8,             -- the provider gave a ref
	ready_us       int8,             -- enrolled
	drain_deadline_us int8,
	idle_since_us  int8,
	terminate_us   int8,             -- first terminate asked
	ended_us       int8,             -- confirmed gone (or never existed)
	billed_to_us   int8,             -- ledger covers [launched_us, billed_to_us)
	gone_seen      int4 NOT NULL DEFAULT 0,      -- polls in a row without it
	enrol_used_us  int8,
	session_hash   bytea UNIQUE,
	boot_id        text NOT NULL DEFAULT '',
	agent_version  text NOT NULL DEFAULT '',
	last_seen_us   int8,             -- last word of the agent
	provider_state text NOT NULL DEFAULT '',
	provider_seen_us int8,
	end_cause      text NOT NULL DEFAULT '',     -- reclaimed, released, boot_timeout, lost, refused, void
	hw             jsonb,
	why            text NOT NULL DEFAULT '',
	last_error     text NOT NULL DEFAULT ''
);
CREATE INDEX node_live ON node (state, next_act_us) WHERE state NOT IN ('GONE', 'FAILED');
CREATE INDEX node_job ON node (job_id) WHERE state NOT IN ('GONE', 'FAILED');
CREATE INDEX node_fleet ON node (fleet_id) WHERE state NOT IN ('GONE', 'FAILED');
CREATE INDEX node_unbilled ON node (id) WHERE launched_us IS NOT NULL
	AND (ended_us IS NULL OR billed_to_us IS NULL OR billed_to_us < ended_us);
CREATE UNIQUE INDEX node_ref ON node (ref, pool_id) WHERE ref IS NOT NULL;

CREATE TABLE attempt (                   -- one placement of a job; epoch fences it
	job_id         int8 NOT NULL REFERENCES job,
	epoch          int4 NOT NULL,
	node_id        int8 NOT NULL REFERENCES node,
	pool_id        int4 NOT NULL REFERENCES pool,
	market         text NOT NULL,
	desired        text NOT NULL CHECK (desired IN ('run', 'drain', 'kill')),
	phase          text NOT NULL CHECK (phase IN ('ASSIGNED', 'SETUP', 'RUNNING', 'SAVING', 'EXITED')),
	version        int8 NOT NULL DEFAULT 1,      -- bumps whenever what the agent must do changes
	files          jsonb NOT NULL DEFAULT '[]',  -- to fetch before start, with presigned URLs
	urls_until_us  int8 NOT NULL DEFAULT 0,
	restore_id     int8,             -- checkpoint it starts from
	steps_start    int8 NOT NULL DEFAULT 0,
	steps_done     int8 NOT NULL DEFAULT 0,
	steps_us       int8,
	exit_code      int4,
	exit_signal    int4,
	exit_reason    text NOT NULL DEFAULT '',     -- ok, error, setup_failed, drained, killed, lost
	drain_why      text NOT NULL DEFAULT '',
	drain_deadline_us int8,
	signalled_us   int8,             -- agent signalled the job after a notice
	created_us     int8 NOT NULL,
	started_us     int8,
	ended_us       int8,
	settled        boolean NOT NULL DEFAULT false, -- the engine has acted upon its end
	PRIMARY KEY (job_id, epoch)
);
CREATE INDEX attempt_node ON attempt (node_id) WHERE ended_us IS NULL;
CREATE UNIQUE INDEX attempt_one_live ON attempt (job_id) WHERE ended_us IS NULL;
CREATE UNIQUE INDEX attempt_one_per_node ON attempt (node_id) WHERE ended_us IS NULL;

CREATE TABLE notice (
	node_id        int8 NOT NULL REFERENCES node,
	kind           text NOT NULL,
	deadline_us    int8 NOT NULL,    -- earliest heard
	source         text NOT NULL,
	raw            text NOT NULL DEFAULT '',
	heard_us       int8 NOT NULL,
	handled_us     int8,
	PRIMARY KEY (node_id, kind)
);

CREATE TABLE checkpoint (
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	job_id         int8 NOT NULL REFERENCES job,
	epoch          int4 NOT NULL,
	state          text NOT NULL CHECK (state IN ('OPEN', 'COMMITTED', 'ABANDONED')),
	reason         text NOT NULL,    -- periodic, notice, drain, final
	steps          int8 NOT NULL,
	bytes          int8 NOT NULL,
	bytes_new      int8 NOT NULL DEFAULT 0,
	created_us     int8 NOT NULL,
	urls_us        int8,             -- upload URLs are ready since
	committed_us   int8
);
CREATE INDEX checkpoint_job ON checkpoint (job_id, id);
CREATE INDEX checkpoint_want ON checkpoint (id) WHERE state = 'OPEN' AND urls_us IS NULL;

CREATE TABLE checkpoint_chunk (          -- a file is its chunks in order
	checkpoint_id  int8 NOT NULL REFERENCES checkpoint ON DELETE CASCADE,
	path           text NOT NULL,    -- relative to the checkpoint directory
	seq            int4 NOT NULL,
	bytes          int8 NOT NULL,
	mode           int4 NOT NULL,
	sha256         text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
	object_key     text NOT NULL,
	fresh          boolean NOT NULL, -- must be uploaded (false: an earlier checkpoint has the same bytes)
	upload_url     text,
	PRIMARY KEY (checkpoint_id, path, seq)
);
CREATE INDEX checkpoint_chunk_sha ON checkpoint_chunk (sha256);

CREATE TABLE decision (
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at_us          int8 NOT NULL,
	kind           text NOT NULL,    -- place, failover, return, release, rebalance, wait
	job_id         int8,
	node_id        int8,
	inputs         jsonb NOT NULL,
	outcome        jsonb NOT NULL,
	why            text NOT NULL
);
CREATE INDEX decision_job ON decision (job_id, id);

CREATE TABLE event (                     -- every transition and notable fact; SSE reads it by id
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at_us          int8 NOT NULL,
	entity         text NOT NULL,    -- job, node, fleet, checkpoint, provider, pool, token
	entity_id      text NOT NULL,
	job_id         int8,
	node_id        int8,
	epoch          int4,
	was            text NOT NULL DEFAULT '',
	now            text NOT NULL DEFAULT '',
	event          text NOT NULL,
	why            text NOT NULL DEFAULT '',
	actor          text NOT NULL DEFAULT '',
	data           jsonb
);
CREATE INDEX event_job ON event (job_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX event_node ON event (node_id, id) WHERE node_id IS NOT NULL;

CREATE TABLE job_log (
	job_id         int8 NOT NULL REFERENCES job,
	epoch          int4 NOT NULL,
	at_offset      int8 NOT NULL,
	at_us          int8 NOT NULL,
	bytes          bytea NOT NULL,
	PRIMARY KEY (job_id, epoch, at_offset)
);

CREATE TABLE node_sample (               -- utilisation as the agent reports it
	node_id        int8 NOT NULL REFERENCES node,
	at_us          int8 NOT NULL,
	gpus           int4 NOT NULL,    -- 0 = no GPU on this node
	gpu_util       float8,           -- mean over GPUs, 0..1
	gpu_mem_used_mib int8,
	gpu_mem_total_mib int8,
	gpu_power_mw   int8,
	cpu_util       float8,
	mem_used_mib   int8,
	PRIMARY KEY (node_id, at_us)
);

CREATE TABLE ledger (                    -- append only; reversed, never edited
	id             int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at_us          int8 NOT NULL,
	kind           text NOT NULL CHECK (kind IN ('compute', 'boot', 'idle', 'lost_work')),
	node_id        int8 NOT NULL REFERENCES node,
	pool_id        int4 NOT NULL REFERENCES pool,
	market         text NOT NULL,
	job_id         int8,
	epoch          int4,
	team           text NOT NULL DEFAULT '',
	project        text NOT NULL DEFAULT '',
	class          text NOT NULL DEFAULT '',
	from_us        int8 NOT NULL,
	to_us          int8 NOT NULL CHECK (to_us > from_us),
	price_micros   int8 NOT NULL,    -- per hour, in force over the whole interval
	price_observed_us int8 NOT NULL, -- which price row; 0 = the price noted at launch
	amount_micros  int8 NOT NULL,    -- negative in a reversal
	reverses       int8 REFERENCES ledger
);
CREATE INDEX ledger_node ON ledger (node_id, id);
CREATE INDEX ledger_job ON ledger (job_id, id);
CREATE INDEX ledger_at ON ledger (from_us);
CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the ledger is append-only: write a reversal'; END $$;
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE ON ledger
	FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
