#!/usr/bin/env python3
"""Compares counts of instructions with figures.json: guard.py BUILD [--record].

The commands rank, parse and sign run in a process of their own (guard.c), once for N times and once for 2N. The difference is N of
them. The others are requests to a real spotd under callgrind, which writes the count since its last dump. More than 5 % above its
figure fails. Exit code 77: no valgrind, or the figures are another compiler's.
"""
import argparse
import hashlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", ".."), os.path.join(HERE, "..", "http")]
from support.postgres import Postgres  # noqa: E402
from support.spotd import Spotd, create_token, program  # noqa: E402
from world import Failure, free_port  # noqa: E402
import market  # noqa: E402

FIGURES = os.path.join(HERE, "figures.json")
LIMIT = 1.05
ALONE = {"rank": 5, "parse": 200, "sign": 500}  # times, and twice as often
JOB = "name: guard\nresources:\n  accelerators: H100:1\n  use_spot: true\nrun: ./train.sh\n"
SESSION = "session-of-the-guard"
POLL = json.dumps({"have": {"job": None, "epoch": 0, "phase": "", "version": 0}, "hold_ms": 0})
REQUESTS = {  # requests, method, path, body
    "submit": (200, "POST", "/v1/jobs", JOB),
    "poll": (1000, "POST", "/v1/agent/poll", POLL),
    "list": (50, "GET", "/v1/jobs?limit=100", None),
}
NODE = """
INSERT INTO node (pool_id, state, state_us, token, name, ref, ip, price_micros, created_us, launched_us, ready_us, last_seen_us, session_hash)
SELECT 1, 'READY', %(now)s, 'token', 'node', 'i-1', '10.0.0.1', 500000, %(now)s, %(now)s, %(now)s, %(now)s, '\\x%(hash)s'
"""


class Skip(Exception):
    pass


def tool(build):
    return os.path.join(build, "tests/bench/guard/guard")


def compiler(build):
    out = subprocess.run([tool(build), "compiler"], capture_output=True, text=True, check=True)
    return "%s, %s" % (out.stdout.strip(), os.uname().machine)


def count_alone(build, what, times):
    """All instructions of one process."""
    out = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                          tool(build), what, str(times)], capture_output=True, text=True, timeout=600)
    found = re.search(r"Collected : (\d+)", out.stderr)
    if out.returncode != 0 or not found:
        raise Failure("guard %s: %s" % (what, out.stderr))
    return int(found.group(1))


def measure_alone(build):
    return {what: round((count_alone(build, what, 2 * n) - count_alone(build, what, n)) / n) for what, n in ALONE.items()}


class Daemon:
    """spotd with the role api under callgrind, and one connection to it."""

    def __init__(self, build, directory):
        self.dir = directory
        self.server = Postgres(directory)
        self.port = free_port()
        config = os.path.join(directory, "spotd.conf")
        with open(config, "w", encoding="utf-8") as f:
            f.write("[api]\nlisten = 127.0.0.1:%d\n" % self.port)
        env = dict(os.environ, DATABASE_URL=self.server.dsn(), XDG_DATA_HOME=directory)
        words = [program(build), "--config", config]
        self.tokens = {"submit": create_token(words, env, "guard"), "poll": SESSION}
        self.tokens["list"] = self.tokens["submit"]
        market.load_pools(self.server, "spotbroker", market.SIZES[500])
        self.server.sql(NODE % {"now": market.NOW, "hash": hashlib.sha256(SESSION.encode()).hexdigest()})
        state = os.path.join(directory, "state")
        self.spotd = Spotd(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + os.path.join(directory, "out"), *words, "--role", "api",
                            "--state-file", state], directory, env)
        self.spotd.start()
        self.spotd.await_state(state)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def close(self):
        self.spotd.stop()
        self.server.stop()

    def request(self, what, times):
        _, method, path, body = REQUESTS[what]
        for _ in range(times):
            self.connection.request(method, path, body, {"Authorization": "Bearer " + self.tokens[what],
                                                         "Content-Type": "application/json" if what == "poll" else "application/yaml"})
            reply = self.connection.getresponse()
            text = reply.read()
            if reply.status >= 300:
                raise Failure("%s: %d %s" % (what, reply.status, text.decode("utf-8", "replace")))

    def dump(self):
        """The instructions since the last dump."""
        before = set(os.listdir(self.dir))
        subprocess.run(["callgrind_control", "--dump", str(self.spotd.proc.pid)], capture_output=True, check=True, timeout=120)
        new = [n for n in os.listdir(self.dir) if n not in before and n.startswith("out.")]
        if len(new) != 1:
            raise Failure("callgrind wrote %s" % (new or "no dump"))
        with open(os.path.join(self.dir, new[0]), encoding="utf-8") as f:
            return int(re.search(r"^(?:summary|totals): (\d+)", f.read(), re.M).group(1))

    def measure(self, what):
        times = REQUESTS[what][0]
        self.request(what, times // 4)
        self.dump()
        self.request(what, times)
        return round(self.dump() / times)


def measure_daemon(build):
    directory = tempfile.mkdtemp(prefix="bench-guard-")
    os.chmod(directory, 0o711)
    daemon = None
    try:
        daemon = Daemon(build, directory)
        return {what: daemon.measure(what) for what in REQUESTS}
    finally:
        if daemon is not None:
            daemon.close()
        shutil.rmtree(directory)


def compare(known, counts):
    """Prints a line for each; the names of those that rose too far."""
    risen = []
    for what, count in counts.items():
        figure = known.get(what)
        change = "no figure" if figure is None else "{:,} before, {:+.1%}".format(figure, count / figure - 1)
        print("{:8} {:>12,} instructions ({})".format(what, count, change))
        if figure is None or count > figure * LIMIT:
            risen.append(what)
    return risen


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("build")
    p.add_argument("--record", action="store_true", help="writes figures.json")
    args = p.parse_args()
    known = {"compiler": "", "instructions": {}}
    if os.path.exists(FIGURES):
        with open(FIGURES, encoding="utf-8") as f:
            known = json.load(f)
    try:
        if shutil.which("valgrind") is None:
            raise Skip("valgrind is not installed")
        if not args.record and known["compiler"] != compiler(args.build):
            raise Skip("the figures are for '%s', this is '%s': record them with --record" % (known["compiler"], compiler(args.build)))
    except Skip as why:
        print("skipped: %s" % why)
        return 77
    counts = {**measure_alone(args.build), **measure_daemon(args.build)}
    risen = compare(known["instructions"], counts)
    if args.record:
        with open(FIGURES, "w", encoding="utf-8") as f:
            f.write(json.dumps({"compiler": compiler(args.build), "instructions": counts}, indent=1) + "\n")
        return 0
    if risen:
        print("more than 5 %% above its figure: %s" % ", ".join(risen))
    return 1 if risen else 0


if __name__ == "__main__":
    sys.exit(main())
