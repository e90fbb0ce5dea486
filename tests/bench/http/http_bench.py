#!/usr/bin/env python3
"""The daemon's API under load, beside bare Postgres and nginx: http_bench.py BUILD [--sizes 500,5000,50000] [--seconds 2] [--rounds 3] [--json].
A private Postgres with fsync on, spotd with the role api, and load (load.c) with each request in turn with its references."""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", ".."))
from support.postgres import Postgres  # noqa: E402
from support.processes import cpu_seconds, process_tree  # noqa: E402
from support.spotd import Spotd, create_token, program  # noqa: E402
from world import Failure, exchange, free_port  # noqa: E402
import market  # noqa: E402
import references  # noqa: E402

SETTINGS = ("fsync = on", "jit = off", "shared_buffers = 256MB", "max_wal_size = 2GB", "checkpoint_timeout = 15min", "max_connections = 100")
JOB = "name: bench\nresources:\n  accelerators: H100:1\n  use_spot: true\nrun: ./train.sh\n"
WARMUP = 0.5  # Seconds of load before those that count.
PLAN = JOB + "config:\n  spotctl:\n    work: 20h\n    deadline: 30h\n    checkpoint: {path: ckpt, size_gb: 10}\n"
YAML = ("Content-Type: application/yaml",)
KEY = ("Idempotency-Key: bench-{counter}",)

REQUESTS = {
    "submit": [("POST", "/v1/jobs", 1, YAML + KEY, JOB)],
    "jobs": [("GET", "/v1/jobs?limit=100", 1, (), "")],
    "prices": [("GET", "/v1/prices?limit=50", 1, (), "")],
    "nodes": [("GET", "/v1/nodes?limit=100", 1, (), "")],
    "job": [("GET", "/v1/jobs/j{random:%(jobs)d}", 1, (), "")],
    "plan": [("POST", "/v1/plan", 1, YAML, PLAN)],
    "mix": [("GET", "/v1/jobs/j{random:%(jobs)d}", 6, (), ""), ("GET", "/v1/whoami", 1, (), ""), ("GET", "/v1/jobs?limit=20", 1, (), ""),
            ("GET", "/v1/prices?limit=10", 1, (), ""), ("GET", "/v1/nodes?limit=20", 1, (), "")],
}

# Name in the table, request, connections, rate (0: closed loop), floors. Reads come first: submits lengthen the queue.
ROWS = [
    ("GET one job", "job", 8, 0, {"per_second": 10000}),
    ("GET /v1/jobs?limit=100", "jobs", 8, 0, {"per_second": 3000}),
    ("GET /v1/prices?limit=50", "prices", 8, 0, {"per_second": 3000}),
    ("GET /v1/nodes?limit=100", "nodes", 8, 0, {"per_second": 3000}),
    ("mixed reads", "mix", 32, 0, {"per_second": 5000}),
    ("mixed reads, 5,000/s", "mix", 32, 5000, {"p99_ms": 20}),
    ("POST /v1/plan", "plan", 1, 0, {"p50_ms": 25}),
    ("submit", "submit", 1, 0, {"p99_ms": 8}),
    ("submit", "submit", 8, 0, {}),
    ("submit", "submit", 32, 0, {"per_second": 4000, "grouped": 0.7}),
    ("submit, 1,000/s", "submit", 32, 1000, {"p99_ms": 50}),
]


class World:
    """One database and one daemon of a size, on a shared server."""

    def __init__(self, bench, size):
        self.bench, self.size, self.database = bench, size, "bench_%d" % size.pools
        bench.server.sql("CREATE DATABASE " + self.database, "postgres")
        self.port = free_port()
        config = os.path.join(bench.dir, self.database + ".conf")
        with open(config, "w", encoding="utf-8") as f:
            f.write("[api]\nlisten = 127.0.0.1:%d\n" % self.port)
        self.env = dict(os.environ, DATABASE_URL=bench.server.dsn(self.database), XDG_DATA_HOME=bench.dir)
        self.words = [program(bench.build), "--config", config]
        self.token = create_token(self.words, self.env, "bench")
        self.daemon = None

    def start(self):
        state = os.path.join(self.bench.dir, self.database + ".state")
        if os.path.exists(state):
            os.unlink(state)
        self.daemon = Spotd([*self.words, "--role", "api", "--state-file", state], self.bench.dir, self.env, self.database)
        self.daemon.start()
        self.daemon.await_state(state)

    def stop(self):
        if self.daemon is not None:
            self.daemon.stop()
            self.daemon = None

    def fill(self):
        """The first job comes through the API: so the rows are what it stores. The daemon that is measured starts after that."""
        market.load_pools(self.bench.server, self.database, self.size)
        self.start()
        self.fetch("submit")
        self.stop()
        market.load_work(self.bench.server, self.database, self.size)
        self.start()

    def fetch(self, name):
        """One reply of a request: its body."""
        method, path, _, headers, body = REQUESTS[name][0]
        path, headers = path.replace("{random:%(jobs)d}", "1"), [h.replace("{counter}", "first").split(": ") for h in headers]
        status, _, reply = exchange(method, "http://127.0.0.1:%d%s" % (self.port, path), body.encode() or None,
                                    dict(headers, Authorization="Bearer " + self.token))
        if status >= 300:
            raise Failure("%s %s: %d %s" % (method, path, status, reply.decode("utf-8", "replace")))
        return reply

    def templates(self, name):
        path = os.path.join(self.bench.dir, "templates")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
            for method, where, weight, headers, body in REQUESTS[name]:
                lines = ["### %s %s %d" % (method, where, weight), "Authorization: Bearer " + self.token, *headers, "", body]
                f.write("\n".join(lines).replace("{random:%(jobs)d}", "{random:%d}" % self.size.jobs))
        return path


class Bench:
    def __init__(self, args, directory):
        self.build, self.seconds, self.rounds, self.quiet, self.dir = args.build, args.seconds, args.rounds, args.json, directory
        self.load = os.path.join(args.build, "tests/bench/http/load")
        self.server = Postgres(directory, SETTINGS)
        self.nginx = references.Nginx(directory)
        self.has_pgbench = references.pgbench_program(self.server) is not None
        self.notes = [words for words, there in (("nginx is not installed: its columns are empty.", self.nginx.program),
                                                 ("pgbench is not installed: the columns of SQL are empty.", self.has_pgbench)) if not there]

    def close(self):
        self.nginx.stop()
        self.server.stop()

    def processes(self, world):
        """The daemon's, and those of the server."""
        return [world.daemon.proc.pid], {self.server.proc.pid, *process_tree(self.server.proc.pid)}

    def measure_ours(self, world, name, connections, rate):
        """With the processor's microseconds for each reply, in the daemon, the server and the load generator."""
        groups, loads = self.processes(world), sum(os.times()[2:4])
        before = [cpu_seconds(g) for g in groups]
        ours = self.run_load(world.port, world.templates(name), connections, rate)
        spent = [cpu_seconds(g) - b for g, b in zip(self.processes(world), before)] + [sum(os.times()[2:4]) - loads]
        replies = max(1, ours["answered"] * (self.seconds + WARMUP) / self.seconds)
        return dict(ours, cpu_us=dict(zip(("spotd", "postgres", "load"), (s * 1e6 / replies for s in spent))))

    def run_load(self, port, templates, connections, rate):
        out = subprocess.run([self.load, "--address", "127.0.0.1:%d" % port, "--connections", str(connections), "--rate", str(rate),
                              "--seconds", "%dms" % (self.seconds * 1000), "--json", templates], capture_output=True, text=True,
                             timeout=self.seconds + 120)
        if out.returncode == 2:
            raise Failure(out.stderr)
        return json.loads(out.stdout)

    def measure(self, world, pgbench, row):
        """Ours and the references in turn; of each the median of all rounds."""
        what, name, connections, rate, floors = row
        rounds = [self.measure_round(world, pgbench, name, connections, rate) for _ in range(self.rounds)]
        result = {key: middle([r[key] for r in rounds]) for key in rounds[0]}
        return {"what": what, "pools": world.size.pools, "jobs": world.size.jobs, "connections": connections, "floors": floors,
                "daemon_mb": resident_mb(world.daemon.proc.pid), **result}

    def measure_round(self, world, pgbench, name, connections, rate):
        result = {"ours": self.measure_ours(world, name, connections, rate)}
        if pgbench and rate == 0:
            result.update(self.measure_sql(world, pgbench, name, connections))
        if self.nginx.program and name != "submit":
            result["nginx"] = self.measure_nginx(world, name, connections, rate)
        return result

    @staticmethod
    def measure_sql(world, pgbench, name, connections):
        if name != "submit":
            return {"sql": pgbench.selects(name, world.size, connections)}
        together = connections > 1
        return {"sql": pgbench.inserts(connections), "grouped": pgbench.inserts_grouped(connections) if together else None,
                "stored": pgbench.submits_alike(connections) if together else None}

    def measure_nginx(self, world, name, connections, rate):
        """The same request for a file with the bytes of our reply; of a mix, those of the commonest."""
        self.nginx.put(name, world.fetch(name))
        path = os.path.join(self.dir, "templates.nginx")
        with open(path, "w", encoding="utf-8") as f:
            f.write("### GET /%s\n" % name)
        return self.run_load(self.nginx.port, path, connections, rate)

    def run_size(self, size):
        world = World(self, size)
        try:
            world.fill()
            pgbench = self.has_pgbench and references.Pgbench(self.server, world.database, self.dir, max(1, round(self.seconds)))
            for row in ROWS:
                result = self.measure(world, pgbench, row)
                if not self.quiet:
                    print(line(result), flush=True)
                yield result
        finally:
            world.stop()


def middle(values):
    """The median of rates, or the run of load with the median rate and the refusals of all."""
    if values[0] is None or isinstance(values[0], float):
        return None if values[0] is None else sorted(values)[len(values) // 2]
    ranked = sorted(values, key=lambda v: v["per_second"])
    return dict(ranked[len(ranked) // 2], refused=sum(v["refused"] for v in values))


def resident_mb(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        return next(int(words.split()[1]) / 1024 for words in f if words.startswith("VmRSS"))


def judge(result):
    """The floor in words, and whether it is kept."""
    ours, said, kept = result["ours"], [], True
    for key, limit in result["floors"].items():
        if key == "per_second":
            said.append("≥ {:,}/s".format(limit))
            kept = kept and ours[key] >= limit
        elif key == "grouped":
            said.append("≥ %d %% of the same rows" % (limit * 100))
            kept = kept and (not result.get("stored") or ours["per_second"] >= limit * result["stored"])
        else:
            said.append("%s ≤ %d ms" % (key.removesuffix("_ms"), limit))
            kept = kept and ours[key] <= limit and ours["unsent"] == 0
    return ", ".join(said) + (": kept" if kept else ": missed") if said else ""


def against(ours, theirs):
    """Their rate, and ours as a share of it."""
    return "" if not theirs else "{:,.0f} ({:.1%})".format(theirs, ours / theirs)


def latency(load, key):
    """In an overload the unsent requests would have waited for longer."""
    return ("≥ " if load["unsent"] else "") + "%.1f" % load[key]


COLUMNS = ("what", "pools", "connections", "ours/s", "p50 ms", "p99 ms", "bare SQL/s (ratio)", "grouped/s (ratio)", "same rows/s (ratio)", "nginx/s (ratio)",
           "nginx p99 ms", "floor")
HEADER = "| %s |\n|%s" % (" | ".join(COLUMNS), "---|" * len(COLUMNS))


def line(result):
    ours, nginx = result["ours"], result.get("nginx")
    rate = ours["per_second"]
    cells = [result["what"], "{:,}".format(result["pools"]), str(result["connections"]), "{:,.0f}".format(rate),
             latency(ours, "p50_ms"), latency(ours, "p99_ms"), against(rate, result.get("sql")), against(rate, result.get("grouped")), against(rate, result.get("stored")),
             against(rate, nginx and nginx["per_second"]), latency(nginx, "p99_ms") if nginx else "", judge(result)]
    return "| " + " | ".join(cells) + " |"


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("build")
    p.add_argument("--sizes", default=",".join(map(str, market.SIZES)), help="pools: some of 500, 5000, 50000")
    p.add_argument("--seconds", type=float, default=2, help="measured time of each cell and round")
    p.add_argument("--rounds", type=int, default=3, help="how often each is measured; the median counts")
    p.add_argument("--json", action="store_true", help="one object instead of the table")
    args = p.parse_args()
    try:
        args.sizes = [market.SIZES[int(s)] for s in args.sizes.split(",")]
    except (KeyError, ValueError):
        p.error("--sizes takes some of 500, 5000, 50000")
    return args


def main():
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that Postgres, spotd and nginx end with us
    directory = tempfile.mkdtemp(prefix="http-bench-")
    os.chmod(directory, 0o711)
    bench, results = None, []
    try:
        bench = Bench(args, directory)
        if not args.json:
            print(HEADER, flush=True)
        for size in args.sizes:
            results += bench.run_size(size)
        if args.json:
            print(json.dumps({"load_average": os.getloadavg()[0], "notes": bench.notes, "rows": results}))
        else:
            print("\nLoad of the machine at the end: %.1f on %d processors. %s" % (os.getloadavg()[0], os.cpu_count(), " ".join(bench.notes)))
    finally:
        if bench is not None:
            bench.close()
        shutil.rmtree(directory)
    bad = [r for r in results if r["ours"]["refused"]]
    for r in bad:
        print("%s, %d pools: statuses %s, errors %d" % (r["what"], r["pools"], r["ours"]["statuses"], r["ours"]["errors"]), file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
