#!/usr/bin/env python3
"""A fleet from its creation to its last launched machine:
launch_bench.py BUILD [--cloud aws|gcp] [--sizes 100,1000,10000] [--limits] [--json].
The whole daemon runs, with a private Postgres (fsync on) and the emulator of the cloud. There are no rate limits, or with
--limits those that the cloud publishes. The machines have no agents."""
import argparse
import json
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", ".."))
from support.postgres import Postgres  # noqa: E402
from support.processes import process_tree  # noqa: E402
from support.spotd import Spotd, create_token, program  # noqa: E402
from support.wait import until  # noqa: E402
sys.path.append(os.path.join(HERE, "..", "..", "..", "deploy", "story"))
from clouds import Clouds  # noqa: E402
from world import Emulator, Failure, exchange, free_port  # noqa: E402

SETTINGS = ("fsync = on", "jit = off", "shared_buffers = 256MB", "max_wal_size = 2GB", "checkpoint_timeout = 15min")
FLEET = "name: bench\nnodes: %d\nteam: bench\nproject: bench\nresources: {accelerators: {T4: 1}, use_spot: false}\n"
# From the first row of a node to the reply that names the last machine, by the engine's own clock.
DONE = "SELECT count(*) FROM node WHERE ref IS NOT NULL"
TOOK = """SELECT (max(at_us) FILTER (WHERE now = 'BOOTING') - min(at_us) FILTER (WHERE now = 'WANTED'))::float8 / 1e6
    FROM event WHERE entity = 'node'"""
DEAREST = """SELECT round(total_exec_time::numeric) || ' ms, ' || calls || ' calls, ' || rows || ' rows, ' || shared_blks_hit || ' blocks: '
    || regexp_replace(left(query, 150), '\\s+', ' ', 'g') FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 25"""
MORE_POOLS = """
WITH was AS (SELECT count(*) AS n FROM pool), like_it AS (SELECT * FROM pool WHERE gpu_name LIKE '%%T4%%' AND offered AND provider = '%(cloud)s' LIMIT 1), p AS (
INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, gpu_milli, gpu_mem_mib, vcpus, mem_mib,
	arch, quota_class, offered, seen_us)
SELECT provider, region, 'bench-' || i %% 3, '', 'bench-' || i / 3, CASE WHEN i %% 4 = 3 THEN 'on_demand' ELSE 'spot' END,
	CASE WHEN i %% 8 = 0 THEN gpu_name ELSE 'GPU-' || i %% 8 END, gpu_milli, gpu_mem_mib, vcpus, mem_mib, arch, '', true, seen_us
FROM like_it, was, generate_series(1, greatest(%(pools)d - was.n, 0)) i RETURNING id)
INSERT INTO pool_latest (pool_id, price_micros, observed_us, effective_us, changed_us, source, state)
SELECT id, 8000000 + id::int8 * 7919 %% 4000000, x.us, x.us, x.us, 'bench', 'fresh'
FROM p, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8 AS us) x"""
LONGEST_S = 600
# Region, quota, calls that launch, time to boot. Google's operation ends with the boot.
CLOUDS = {"aws": ("us-east-1", {"region": "*", "code": "*", "vcpus": 10000000}, ("RunInstances",), "3600000"),
          "gcp": ("us-central1", {"region": "*", "metric": "*", "limit": 10000000}, ("instances.insert", "instances.bulkInsert"), "1000")}
TICK = os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    """Seconds of processor time of a process and its children, with those that ended."""
    total = 0
    for p in process_tree(pid):
        try:
            with open("/proc/%d/stat" % p, encoding="ascii", errors="replace") as f:
                total += sum(int(x) for x in f.read().rsplit(")", 1)[1].split()[11:15])
        except OSError:
            continue
    return total / TICK


class World:
    def __init__(self, build, cloud, limits, statements, agents=False):
        self.cloud = cloud
        region, quota, self.actions, boot_ms = CLOUDS[cloud]
        boot_ms = "200" if agents else boot_ms
        self.dir = tempfile.mkdtemp(prefix="spotbench-")
        os.chmod(self.dir, 0o711)
        self.server = self.emulator = self.daemon = None
        options = ["--boot-ms", boot_ms] + (["--agents"] if agents else []) + ([] if limits else ["--no-throttle"])
        try:
            self.server = Postgres(self.dir, SETTINGS + (("shared_preload_libraries = pg_stat_statements",) if statements else ()))
            if statements:
                self.server.sql("CREATE EXTENSION pg_stat_statements")
            self.emulator = Emulator([os.path.join(build, "tests/cloudsim/cloudsim"), *options], os.path.join(self.dir, "cloud"))
            self.clouds = Clouds(self.emulator, self.dir, {cloud: region})
            self.emulator.ask("POST", "/stock", {"pool": cloud, "count": None})
            self.emulator.ask("POST", "/quota", dict(quota, provider=cloud))
            self.raise_daemon(build, limits, {"engine": {"reclaim_cool": "1s"}} if agents else {})
        except BaseException:
            self.close()
            raise

    def raise_daemon(self, build, limits, more):
        self.port = free_port()
        agents, state = os.path.join(self.dir, "agents"), os.path.join(self.dir, "state")
        os.makedirs(agents)
        shutil.copy(os.path.join(build, "src/agent/spot-agent"), agents)
        sections = self.clouds.sections([self.cloud])
        sections["provider " + self.cloud].update({} if limits else {"rate_factor": "0"})
        sections["api"] = {"listen": "127.0.0.1:%d" % self.port, "public_url": "http://127.0.0.1:%d" % self.port, "agent_dir": agents}
        sections.update(more)
        config = os.path.join(self.dir, "spotd.conf")
        with open(config, "w", encoding="utf-8") as f:
            f.writelines("[%s]\n%s\n" % (name, "".join("%s = %s\n" % kv for kv in keys.items())) for name, keys in sections.items())
        env = dict(self.clouds.environment(), DATABASE_URL=self.server.dsn(), XDG_DATA_HOME=self.dir)
        words = [program(build), "--config", config]
        self.token = create_token(words, env, "bench")
        self.words, self.env, self.state = [*words, "--state-file", state], env, state
        self.start()
        self.until("prices of all T4 pools", "SELECT count(*) > 0 FROM pool p JOIN pool_latest l ON l.pool_id = p.id WHERE p.gpu_name LIKE '%T4%' AND p.offered")
        # Quotas, signals and prices of each place, so that the fleet is planned on a whole market.
        self.until("the first read of every feed", "SELECT count(*) > 0 AND bool_and(last_ok_us IS NOT NULL) FROM feed")

    def start(self):
        """Starts the daemon, which does not run, and waits until it serves."""
        if os.path.exists(self.state):
            os.unlink(self.state)
        self.daemon = Spotd(self.words, self.dir, self.env, "spotd")
        self.daemon.start()
        self.daemon.await_state(self.state)

    def until(self, what, sql, most_s=120):
        until(what, most_s, lambda: self.server.sql(sql).strip() in ("t", "true"), 0.1, lambda: "; " + self.daemon.text()[-1500:])

    def more_pools(self, pools):
        """Rows of dearer pools of this cloud, so that the market has as many. An eighth has the GPU that the jobs ask for."""
        self.server.sql(MORE_POOLS % {"cloud": self.cloud, "pools": pools})
        self.server.sql("ANALYZE")

    def pids(self):
        return {"spotd": self.daemon.proc.pid, "postgres": self.server.proc.pid, "cloudsim": self.emulator.proc.pid}

    def run(self, nodes):
        before = {name: cpu_s(pid) for name, pid in self.pids().items()}
        status, _, reply = exchange("POST", "http://127.0.0.1:%d/v1/fleets" % self.port, (FLEET % nodes).encode(),
                                    {"Authorization": "Bearer " + self.token, "Content-Type": "application/yaml"})
        if status >= 300:
            raise Failure("no fleet: %d %s" % (status, reply))
        self.until("%d machines" % nodes, "SELECT (%s) >= %d" % (DONE, nodes), LONGEST_S)
        cpu = {name: (cpu_s(pid) - before[name]) / nodes * 1e3 for name, pid in self.pids().items()}
        took = float(self.server.sql(TOOK))
        calls = sum(c["n"] for c in self.emulator.ask("GET", "/state?live=1")["requests"] if c["action"] in self.actions)
        alive = self.emulator.ask("GET", "/books")["alive"]
        if alive != nodes:
            raise Failure("%d nodes, and %d machines" % (nodes, alive))
        return {"nodes": nodes, "seconds": took, "per_second": nodes / took, "calls": calls, "cpu_ms": cpu}

    def close(self):
        for part in (self.daemon, self.emulator, self.server):
            if part is not None:
                part.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--cloud", default="aws", choices=sorted(CLOUDS))
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--statements", action="store_true", help="the dearest statements, by pg_stat_statements")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not args.json:
        print("nodes   seconds  launches/s  calls  CPU ms a launch: spotd  postgres  cloudsim")
    for nodes in (int(n) for n in args.sizes.split(",")):
        world = World(args.build, args.cloud, args.limits, args.statements)
        try:
            r = world.run(nodes)
            if args.statements:
                print(world.server.sql(DEAREST))
        finally:
            world.close()
        if args.json:
            print(json.dumps(r), flush=True)
        else:
            print("%6d %8.2f %11.0f %6d %23.2f %9.2f %9.2f" % (r["nodes"], r["seconds"], r["per_second"], r["calls"], r["cpu_ms"]["spotd"],
                                                          r["cpu_ms"]["postgres"], r["cpu_ms"]["cloudsim"]), flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as e:
        sys.exit("launch_bench: %s" % e)
