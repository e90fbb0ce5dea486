"""A market, a queue and nodes of a given size, as rows of a migrated database."""
import collections

Size = collections.namedtuple("Size", "pools jobs nodes")
SIZES = {500: Size(500, 1000, 100), 5000: Size(5000, 10000, 1000), 50000: Size(50000, 100000, 10000)}
NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::int8"

# 5 clouds, 20 regions, 3 zones, 8 GPU types, a quarter on demand. One GPU in eight is the one that jobs ask for.
POOLS = """
INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, gpu_milli, gpu_mem_mib, vcpus, mem_mib,
	arch, quota_class, offered, seen_us)
SELECT ('{aws,gcp,azure,lambda,coreweave}'::text[])[1 + i %% 5], 'region-' || i / 5 %% 20, 'zone-' || i / 100 %% 3,
	'zone-' || i / 100 %% 3, 'type-' || i / 300, CASE WHEN i %% 4 = 3 THEN 'on_demand' ELSE 'spot' END,
	('{H100-80GB,A100-80GB,A100-40GB,V100-16GB,L4-24GB,T4-16GB,A10G-24GB,L40S-48GB}'::text[])[1 + i / 3 %% 8],
	1000 * (1 << i / 24 %% 4), 81920, 16, 131072, 'x86_64', '', true, %(now)s
FROM generate_series(0, %(pools)d - 1) i;
INSERT INTO pool_latest (pool_id, price_micros, observed_us, effective_us, changed_us, source, state)
SELECT id, 400000 + id::int8 * 7919 %% 4000000, %(now)s, %(now)s, %(now)s, 'bench', 'fresh' FROM pool;
"""

# Copies of the job that the API itself stored. The oldest ones run, each on a node of its own.
WORK = """
INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, epoch, created_us, queued_us, started_us, baseline)
SELECT j.name, j.owner, j.team, j.project, j.class, j.spec, j.source, CASE WHEN i <= %(nodes)d THEN 'RUNNING' ELSE 'QUEUED' END,
	j.created_us, CASE WHEN i <= %(nodes)d THEN 1 ELSE 0 END, j.created_us, j.queued_us,
	CASE WHEN i <= %(nodes)d THEN j.created_us END, j.baseline
FROM job j, generate_series(2, %(jobs)d) i WHERE j.id = 1;
INSERT INTO node (pool_id, job_id, state, state_us, token, name, ref, ip, price_micros, created_us, launched_us, ready_us, last_seen_us)
SELECT 1 + i %% %(pools)d, i, 'READY', %(now)s, 'token-' || i, 'node-' || i, 'i-' || i, '10.0.0.1', 500000, %(now)s, %(now)s,
	%(now)s, %(now)s
FROM generate_series(1, %(nodes)d) i;
INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, phase, created_us, started_us)
SELECT n.job_id, 1, n.id, n.pool_id, 'spot', 'run', 'RUNNING', n.created_us, n.ready_us FROM node n WHERE n.job_id > 1;
"""


def load_pools(server, database, size):
    server.sql(POOLS % dict(size._asdict(), now=NOW), database)
    server.sql("ANALYZE", database)


def load_work(server, database, size):
    """The database holds one job, which the API stored."""
    server.sql(WORK % dict(size._asdict(), now=NOW), database)
    server.sql("VACUUM ANALYZE", database)
    server.sql("CHECKPOINT", database)
