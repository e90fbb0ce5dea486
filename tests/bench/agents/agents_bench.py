#!/usr/bin/env python3
"""Agents that wait for work, and the API beside a busy engine: agents_bench.py BUILD [--polls 1000,10000,20000] [--fleet 100000] [--pools 50000] [--seconds 8] [--json].
A private Postgres with fsync on, spotd, and the load generator of ../http. Each connection parks a poll."""
import argparse
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", ".."), os.path.join(HERE, "..", "http")]
from support.postgres import Postgres, programs  # noqa: E402
from support.spotd import Spotd, create_token, program  # noqa: E402
from support.wait import until  # noqa: E402
from world import Failure, exchange, free_port  # noqa: E402
import http_bench  # noqa: E402
import market  # noqa: E402
import references  # noqa: E402

WAKES = 200  # Nodes whose state changes while their polls are parked.
PLAIN = 1340  # Polls a second that are answered at once: 20,000 agents every 15 s.
SPARE = 300  # Open files of a daemon for all but polls.
BUSY = 500  # Requests a second of each kind beside the engine,
QUEUED = 100000  # whose queue has so many jobs.
NODES = """
INSERT INTO node (pool_id, state, state_us, token, name, ref, ip, price_micros, created_us, launched_us, ready_us, last_seen_us, session_hash)
SELECT 1, 'READY', %(now)s, 'token-a' || i, 'node-a' || i, 'a-' || i, '10.0.0.1', 500000, %(now)s, %(now)s, %(now)s, %(now)s,
	sha256(('agent-' || i)::bytea)
FROM generate_series(1, %(nodes)d) i;
"""


class World:
    """One database and one daemon. The role is not that of an engine, which would end nodes that no cloud knows.
    beside: the world whose database this daemon serves too."""

    def __init__(self, bench, name, role, beside=None):
        self.bench, self.name, self.role, self.port = bench, beside.name if beside else name, role, free_port()
        if beside is None:
            bench.server.sql("CREATE DATABASE " + name, "postgres")
        self.own = os.path.join(bench.dir, name)
        with open(self.own + ".conf", "w", encoding="utf-8") as f:
            f.write("[api]\nlisten = 0.0.0.0:%d\n" % self.port)
        self.env = dict(os.environ, DATABASE_URL=bench.server.dsn(self.name), XDG_DATA_HOME=bench.dir)
        self.words = [program(bench.build), "--config", self.own + ".conf"]
        self.token = beside.token if beside else create_token(self.words, self.env, "bench")
        self.daemon = None

    def start(self, role=None):
        state = self.own + ".state"
        if os.path.exists(state):
            os.unlink(state)
        self.daemon = Spotd([*self.words, "--role", role or self.role, "--state-file", state], self.bench.dir, self.env, os.path.basename(self.own))
        self.daemon.start()
        self.daemon.await_state(state)

    def stop(self):
        if self.daemon is not None:
            self.daemon.stop()
            self.daemon = None

    def sql(self, text):
        return self.bench.server.sql(text, self.name)

    def metric(self, name):
        text = exchange("GET", "http://127.0.0.1:%d/metrics" % self.port, None, {})[2].decode()
        return float(next(line.split()[1] for line in text.split("\n") if line.startswith(name + " ")))

    def template(self, name, line, headers, body=""):
        path = os.path.join(self.bench.dir, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
            f.write("\n".join(["### " + line, *headers, "", body]))
        return path

    def polls(self, name, nodes, hold_ms):
        return self.template(name, "POST /v1/agent/poll", ("Authorization: Bearer agent-{random:%d}" % nodes,),
                             json.dumps({"have": {"job": None}, "hold_ms": hold_ms}))

    def whoami(self):
        return self.template("whoami", "GET /v1/whoami", ("Authorization: Bearer " + self.token,))


class Bench:
    def __init__(self, args, directory):
        self.build, self.seconds, self.dir = args.build, args.seconds, directory
        self.load = os.path.join(args.build, "tests/bench/http/load")
        self.server = Postgres(directory, http_bench.SETTINGS)
        self.nginx = references.Nginx(directory)

    def close(self):
        self.nginx.stop()
        self.server.stop()

    def load_start(self, port, template, connections, rate, seconds, host=1):
        return subprocess.Popen([self.load, "--address", "127.0.0.%d:%d" % (host, port), "--connections", str(connections), "--rate", str(rate),
                                 "--seconds", "%dms" % (seconds * 1000), "--json", template], stdout=subprocess.PIPE, text=True)

    def load_run(self, port, template, connections, rate):
        return self.load_end(self.load_start(port, template, connections, rate, self.seconds))

    def load_end(self, p):
        out = json.loads(p.communicate(timeout=self.seconds + 120)[0])
        if out["refused"]:
            raise Failure("refused: %s" % out["statuses"])
        return out

    def nginx_run(self, connections, rate):
        """A static byte at the same rate; None if there is no nginx."""
        if not self.nginx.program:
            return None
        self.nginx.put("byte", b"x")
        path = os.path.join(self.dir, "byte")
        with open(path, "w", encoding="utf-8") as f:
            f.write("### GET /byte\n")
        return self.load_run(self.nginx.port, path, connections, rate)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class Parked:
    """A node's poll on a socket of ours."""

    def __init__(self, world, node):
        self.node, self.s = node, socket.create_connection(("127.0.0.1", world.port))
        body = json.dumps({"have": {"job": None}, "hold_ms": 60000})
        self.s.sendall(("POST /v1/agent/poll HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer agent-%d\r\nContent-Length: %d\r\n\r\n%s" % (
            node, len(body), body)).encode())


def wakes_ms(world, first, count):
    """From the moment that the change is sent to the database, to the reply at the agent."""
    polls, took, before = [], [], world.metric("spot_http_parked")
    for node in range(first, first + count):
        polls.append(Parked(world, node))
    until("the polls are parked", 60, lambda: world.metric("spot_http_parked") >= before + count)
    ids = dict(zip(range(first, first + count), map(int, world.sql(
        "SELECT id FROM node WHERE name IN (SELECT 'node-a' || i FROM generate_series(%d, %d) i) ORDER BY id" % (first, first + count - 1)).split())))
    with subprocess.Popen([os.path.join(programs(), "psql"), "-XqAt", world.env["DATABASE_URL"]], stdin=subprocess.PIPE, text=True) as p:
        for poll in polls:
            began = time.monotonic()
            p.stdin.write("UPDATE node SET state = 'TERMINATING' WHERE id = %d; NOTIFY spot_api, 'n%d';\n" % (ids[poll.node], ids[poll.node]))
            p.stdin.flush()
            reply = poll.s.recv(4096)
            took.append((time.monotonic() - began) * 1000)
            if b'"shutdown"' not in reply:
                raise Failure("a woken poll says %r" % reply)
            poll.s.close()
        p.stdin.close()
    return took


def shares(polls):
    """Connections to each address of the server. Towards one the kernel looks long for the last half of the local ports."""
    count = -(-polls // 10000)
    return [polls // count + (i < polls % count) for i in range(count)]


def measure_polls(bench, world, polls):
    world.start()
    try:
        idle = http_bench.resident_mb(world.daemon.proc.pid)
        nodes = polls + WAKES
        # Each is parked once within 15 seconds, and held for a minute.
        parking = [bench.load_start(world.port, world.polls("parked", polls, 60000), n, n / 15, 60, host)
                   for host, n in enumerate(shares(polls), 1)]
        try:
            until("%d polls are parked" % polls, 60, lambda: world.metric("spot_http_parked") >= polls * 0.98,
                  0.2, lambda: ", only %d" % world.metric("spot_http_parked"))
            full = http_bench.resident_mb(world.daemon.proc.pid)
            parked = world.metric("spot_http_parked")
            plain = bench.load_run(world.port, world.polls("plain", polls, 0), 32, PLAIN)
            nginx = bench.nginx_run(32, PLAIN)
            woken = wakes_ms(world, nodes - WAKES + 1, WAKES)
        finally:
            for p in parking:
                p.kill()
                p.communicate()
    finally:
        world.stop()
    return {"what": "%d parked polls" % parked, "parked": parked, "idle_mb": idle, "full_mb": full,
            "bytes_per_poll": (full - idle) * (1 << 20) / parked, "plain_p50_ms": plain["p50_ms"], "plain_p99_ms": plain["p99_ms"],
            "wake_p50_ms": percentile(woken, 0.5), "wake_p99_ms": percentile(woken, 0.99), "nginx_p99_ms": nginx and nginx["p99_ms"]}


def measure_fleet(bench, first, polls):
    """Only the memory. So many polls as the limit of open files permits are parked at each of several daemons."""
    each = -(-polls // -(-polls // (files_most() - SPARE)))
    worlds = [first] + [World(bench, "%s_%d" % (first.name, i), "api", first) for i in range(1, -(-polls // each))]
    template, parking = first.polls("parked", polls, 60000), []
    try:
        for world in worlds:
            world.start()
        idle = [http_bench.resident_mb(world.daemon.proc.pid) for world in worlds]
        for world in worlds:
            parking += [bench.load_start(world.port, template, n, n / 15, 600, host) for host, n in enumerate(shares(each), 1)]
            until("%d polls are parked" % each, 180, lambda w=world: w.metric("spot_http_parked") >= each * 0.98, 0.2)
        parked = sum(world.metric("spot_http_parked") for world in worlds)
        full = [http_bench.resident_mb(world.daemon.proc.pid) for world in worlds]
    finally:
        for p in parking:
            p.kill()
            p.communicate()
        for world in worlds:
            world.stop()
    return {"what": "%d agents, %d daemons" % (parked, len(worlds)), "fleet": parked, "daemons": len(worlds), "idle_mb": idle[0],
            "agents_mb": sum(full) - sum(idle), "bytes_per_poll": (sum(full) - sum(idle)) * (1 << 20) / parked}


def measure_lanes(bench, pools):
    """whoami, polls of agents and nginx at once. Beside them the engine looks at 100,000 queued jobs and so many pools."""
    world = World(bench, "lanes", "all")
    market.load_pools(bench.server, world.name, market.Size(pools, 0, 0))
    world.start("api")
    status, _, reply = exchange("POST", "http://127.0.0.1:%d/v1/jobs" % world.port, http_bench.JOB.encode(),
                                {"Authorization": "Bearer " + world.token, "Content-Type": "application/yaml"})
    if status != 201:
        raise Failure("submit: %d %r" % (status, reply))
    alone = bench.load_run(world.port, world.whoami(), 32, BUSY)
    world.stop()
    market.load_work(bench.server, world.name, market.Size(pools, QUEUED, 0))
    world.sql(NODES % {"now": market.NOW, "nodes": WAKES})
    world.start()
    try:
        world.daemon.await_log("engine.leads")
        polls = bench.load_start(world.port, world.polls("busy", WAKES, 0), 32, BUSY, bench.seconds)
        whoami = bench.load_start(world.port, world.whoami(), 32, BUSY, bench.seconds)
        nginx = bench.nginx_run(32, BUSY)
        busy, polled = bench.load_end(whoami), bench.load_end(polls)
    finally:
        world.stop()
    return {"what": "whoami, %d pools, %d jobs queued" % (pools, QUEUED), "alone_p50_ms": alone["p50_ms"], "alone_p99_ms": alone["p99_ms"],
            "busy_p50_ms": busy["p50_ms"], "busy_p99_ms": busy["p99_ms"], "unsent": busy["unsent"], "poll_p50_ms": polled["p50_ms"],
            "poll_p99_ms": polled["p99_ms"], "nginx_p50_ms": nginx and nginx["p50_ms"], "nginx_p99_ms": nginx and nginx["p99_ms"]}


def line(result):
    return ", ".join("%s %s" % (key, "-" if value is None else "%.1f" % value if isinstance(value, float) else value)
                     for key, value in result.items())


def files_most():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def nodes_world(bench, name, nodes):
    world = World(bench, name, "api")
    market.load_pools(bench.server, world.name, market.Size(500, 0, 0))
    world.sql(NODES % {"now": market.NOW, "nodes": nodes})
    world.sql("VACUUM ANALYZE node")
    return world


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("build")
    p.add_argument("--polls", default="1000,10000,20000", help="polls that are parked; as many as the limit of open files permits")
    p.add_argument("--fleet", type=int, default=100000, help="polls parked at as many daemons as it takes; 0: not measured")
    p.add_argument("--pools", type=int, default=50000, help="of the busy engine; 0: not measured")
    p.add_argument("--seconds", type=float, default=8, help="measured time of each load")
    p.add_argument("--json", action="store_true", help="one object instead of lines")
    args = p.parse_args()
    args.polls = [min(n, files_most() - WAKES - SPARE) for n in map(int, args.polls.split(",")) if n] if args.polls else []
    return args


def main():
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that Postgres and spotd end with us
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_most(),) * 2)
    directory = tempfile.mkdtemp(prefix="agents-bench-")
    os.chmod(directory, 0o711)
    bench, results = None, []

    def report(result):
        results.append(result)
        if not args.json:
            print(line(result), flush=True)
    try:
        bench = Bench(args, directory)
        for polls in args.polls:
            report(measure_polls(bench, nodes_world(bench, "polls_%d" % polls, polls + WAKES), polls))
        if args.fleet:
            report(measure_fleet(bench, nodes_world(bench, "fleet", args.fleet), args.fleet))
        if args.pools:
            report(measure_lanes(bench, args.pools))
        load = os.getloadavg()[0]
        if args.json:
            print(json.dumps({"load_average": load, "rows": results}))
        else:
            print("Load of the machine at the end: %.1f on %d processors." % (load, os.cpu_count()))
    finally:
        if bench is not None:
            bench.close()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
