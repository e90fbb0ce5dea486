#!/usr/bin/env python3
"""The engine by itself: engine_bench.py BUILD [--idle POOLS,QUEUED,RUNNING] [--behind 10000,100000] [--memory POOLS,QUEUED,RUNNING] [--seconds 20]
[--statements N].

A private Postgres with fsync on and spotd with the role engine, without providers. The rows are made in SQL. Three questions:
- idle: what do all processes cost while nothing happens?
- behind: a job that can be placed is submitted behind so many that cannot. How long until its machine is wanted?
- memory: how large is the whole daemon (role all), once the engine is idle and the API has served lists and plans?"""
import argparse
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", ".."))
sys.path.append(os.path.join(HERE, "..", "http"))
from support.postgres import Postgres, psql  # noqa: E402
from support.processes import cpu_seconds, process_tree  # noqa: E402
from support.spotd import Spotd, create_token, program  # noqa: E402
from support.wait import until  # noqa: E402
from world import Failure, exchange, free_port  # noqa: E402
import http_bench  # noqa: E402
import market  # noqa: E402

SETTINGS = ["fsync = on", "jit = off", "shared_buffers = 256MB", "max_wal_size = 4GB", "checkpoint_timeout = 60min", "max_connections = 100",
            "track_functions = none"]
NOW = market.NOW
# In each of 20 groups jobs differ only by their names. Blocked: nobody sells their GPU.
SPEC = """'{"name": "b", "run": "x", "envs": {}, "secrets": [], "mounts": [], "checkpoint": {}, "interruptible": true, "class": "training",
	"asks": [{"gpus": [{"gpu": "%s", "milli": 1000}], "use_spot": 0, "vcpus_min": ' || %s || '}]}'"""
JOBS = """
INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, created_us, queued_us)
SELECT 'bench-' || i, 'me', 'team-' || i %% 4, '', 'training', (""" + SPEC + """)::jsonb, '', 'QUEUED', %s, %s, %s
FROM generate_series(1, %d) i;
"""
RUNNING = """
WITH j AS (
	INSERT INTO job (name, owner, team, project, class, spec, source, state, state_us, epoch, created_us, queued_us, started_us, why)
	SELECT 'run-' || i, 'me', 'team', '', 'training', (""" + SPEC + """)::jsonb, '', 'RUNNING', %s, 1, %s, %s, %s, 'runs'
	FROM generate_series(1, %d) i RETURNING id
), n AS (
	INSERT INTO node (pool_id, job_id, state, state_us, token, name, ref, ip, price_micros, created_us, launched_us, ready_us,
		last_seen_us, provider_state, provider_seen_us, provider_since_us)
	SELECT 1 + id %% %d, id, 'READY', %s, 'token-' || id, 'node-' || id, 'i-' || id, '10.0.0.1', 500000, %s, %s, %s, %s, 'running', %s, %s
	FROM j RETURNING id, job_id, pool_id
)
INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, phase, created_us, started_us, urls_until_us)
SELECT job_id, 1, n.id, pool_id, p.market, 'run', 'RUNNING', %s, %s, %s + 86400000000 FROM n JOIN pool p ON p.id = n.pool_id;
"""


class World:
    def __init__(self, args, directory):
        self.args, self.dir = args, directory
        settings = SETTINGS + (["shared_preload_libraries = 'pg_stat_statements'", "pg_stat_statements.track = all",
                                 "pg_stat_statements.track_planning = on"] if args.statements else [])
        self.server = Postgres(directory, settings)
        self.engine, self.n = None, 0

    def database(self, pools, role="engine"):
        """A migrated database with a market."""
        self.n += 1
        self.name = "engine_%d" % self.n
        self.server.sql("CREATE DATABASE " + self.name, "postgres")
        self.dsn = self.server.dsn(self.name)
        self.env = dict(os.environ, DATABASE_URL=self.dsn, XDG_DATA_HOME=self.dir)
        config = os.path.join(self.dir, self.name + ".conf")
        with open(config, "w", encoding="utf-8") as f:
            self.port = free_port()
            f.write("[api]\nlisten = 127.0.0.1:%d\n[engine]\nclock_doubt = 0s\nagent_silent = 10m\n" % self.port)
        self.words = [program(self.args.build), "--config", config, "--role", role]
        self.start()
        self.stop()
        market.load_pools(self.server, self.name, market.Size(pools, 0, 0))
        if self.args.statements:
            self.sql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")

    def sql(self, text):
        return psql(self.dsn, text, timeout_s=900)

    def start(self):
        state = os.path.join(self.dir, "engine.state")
        if os.path.exists(state):
            os.unlink(state)
        self.engine = Spotd([*self.words, "--state-file", state], self.dir, self.env, self.name)
        self.engine.start()
        self.engine.await_state(state)

    def stop(self):
        if self.engine is not None:
            self.engine.stop()
            self.engine = None

    def jobs(self, gpu, groups, count):
        self.sql(JOBS % (gpu, "i %% %d" % groups, NOW, NOW, NOW, count))

    def processes(self):
        postmaster = self.server.proc.pid
        return [self.engine.proc.pid], {postmaster, *process_tree(postmaster)}

    def settle(self, floor=0.02, most_s=600):
        """Until all processes together are as good as idle, or the time is over. Returns what it took."""
        began = time.monotonic()
        while time.monotonic() - began < most_s:
            share = sum(self.measure(3))
            if share < floor:
                break
        return time.monotonic() - began

    def measure(self, seconds):
        """The share of one core that the engine and the server took."""
        groups = self.processes()
        before, at = [cpu_seconds(g) for g in groups], time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - at
        return [(cpu_seconds(g) - b) / took for g, b in zip(self.processes(), before)]

    def statements(self):
        return self.sql("SELECT round(total_exec_time)::int8 || ' ms + ' || round(total_plan_time)::int8 || ' ms of planning, ' || calls || ' calls ' || round(mean_exec_time::numeric, 2) || ' ms each: ' "
                        "|| left(regexp_replace(query, '\\s+', ' ', 'g'), 150) FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database "
                        "WHERE datname = current_database()) AND query NOT LIKE '%%pg_stat_statements%%' ORDER BY total_exec_time + total_plan_time DESC LIMIT %d"
                        % self.args.statements)


def fill(world, pools, queued, running):
    world.jobs("B300", 20, queued)
    if running:
        world.sql(RUNNING % ("A100-80GB", "1", *[NOW] * 4, running, pools, *[NOW] * 10))
    world.sql("VACUUM ANALYZE")


def run_idle(world, pools, queued, running):
    world.database(pools)
    fill(world, pools, queued, running)
    world.start()
    settled = world.settle(most_s=world.args.settle)
    time.sleep(max(0, world.args.rest - settled))
    if world.args.statements:
        world.sql("SELECT pg_stat_statements_reset()")
    engine, server = world.measure(world.args.seconds)
    print("idle, %d pools, %d queued, %d running: spotd %.1f %%, Postgres %.1f %%, together %.1f %% of a core (floor 3 %%); settled after %.0f s"
          % (pools, queued, running, engine * 100, server * 100, (engine + server) * 100, settled), flush=True)
    if world.args.statements:
        print(world.statements())
    world.stop()


def memory_mb(pid):
    """Resident memory now, and the most that there ever was."""
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        kib = {line.split(":")[0]: int(line.split()[1]) for line in f if line.startswith(("VmRSS", "VmHWM"))}
    return kib["VmRSS"] / 1024, kib["VmHWM"] / 1024


def run_memory(world, pools, queued, running):
    world.database(pools, "all")
    fill(world, pools, queued, running)
    token = create_token(world.words[:3], world.env, "bench")
    world.start()
    settled = world.settle(most_s=world.args.settle)
    for _ in range(20):
        for name in ("jobs", "prices", "nodes", "plan"):
            method, path, _, headers, body = http_bench.REQUESTS[name][0]
            status = exchange(method, "http://127.0.0.1:%d%s" % (world.port, path), body.encode() or None,
                              dict([h.split(": ") for h in headers], Authorization="Bearer " + token))[0]
            if status != 200:
                raise Failure("%s: %d" % (path, status))
    now, most = memory_mb(world.engine.proc.pid)
    print("memory, role all, %d pools, %d queued, %d running: %.0f MB, at most %.0f MB (floor 400 MB); settled after %.0f s"
          % (pools, queued, running, now, most, settled), flush=True)
    world.stop()


def run_behind(world, pools, blocked):
    world.database(pools)
    world.jobs("B300", 20, blocked)
    world.sql("VACUUM ANALYZE")
    world.start()
    world.settle(most_s=world.args.warm)
    times = []
    for _ in range(5):
        at = time.monotonic()
        world.jobs("A100-80GB", 1, 1)
        world.sql("NOTIFY spot_engine, 'w1'")
        until("the machine is wanted", 120, lambda: world.sql("SELECT count(DISTINCT job_id) FROM node") == str(len(times) + 1), pause=0.005)
        times.append((time.monotonic() - at) * 1000)
    print("behind %d blocked jobs, %d pools: decision after %.0f ms, median of 5, most %.0f ms (floor 1000 ms)"
          % (blocked, pools, statistics.median(times), max(times)), flush=True)
    if world.args.statements:
        print(world.statements())
    world.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("build")
    p.add_argument("--idle", default="50000,100000,10000", help="pools,queued,running; '' = not")
    p.add_argument("--behind", default="10000,100000,1000000", help="jobs that are blocked; '' = not")
    p.add_argument("--memory", default="50000,100000,20000", help="pools,queued,running; '' = not")
    p.add_argument("--pools", type=int, default=50000, help="pools of --behind")
    p.add_argument("--seconds", type=float, default=20, help="how long the idle engine is measured")
    p.add_argument("--rest", type=float, default=0, help="how long the idle engine runs before it is measured: the first look at 10,000 running jobs takes 400 s")
    p.add_argument("--settle", type=float, default=300, help="how long it may take to become idle")
    p.add_argument("--warm", type=float, default=5, help="how long the engine may take to become idle before the first job of --behind")
    p.add_argument("--statements", type=int, default=0, help="shows so many of the statements that cost most (wants pg_stat_statements)")
    args = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="engine_bench.") as directory:
        os.chmod(directory, 0o755)
        world = World(args, directory)
        try:
            if args.idle:
                run_idle(world, *[int(v) for v in args.idle.split(",")])
            if args.memory:
                run_memory(world, *[int(v) for v in args.memory.split(",")])
            for blocked in [int(v) for v in args.behind.split(",")] if args.behind else []:
                run_behind(world, args.pools, blocked)
        finally:
            world.stop()
            world.server.stop()


if __name__ == "__main__":
    try:
        main()
    except Failure as e:
        sys.exit(str(e))
