#!/usr/bin/env python3
"""spotctl plan beside curl to the same route, and the first plan after a change: plan_bench.py BUILD [--sizes 500,5000,50000] [--runs 40] [--json].
A private Postgres with fsync on, spotd with the role api. Both programs are spawned in turn."""
import argparse
import http.client
import json
import os
import shutil
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", ".."), os.path.join(HERE, "..", "http")]
import http_bench  # noqa: E402
from http_bench import Failure  # noqa: E402
import market  # noqa: E402

# After so long a plan must know of a change: the market may be 250 ms old. A request that looked would read the market itself.
KNOWN_S = 1


def spawn(argv, env):
    """Milliseconds from the spawn to the reaped end, and those of the processor."""
    out = os.open(os.devnull, os.O_WRONLY)
    began = time.monotonic()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=[(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, out, 2)])
    _, status, used = os.wait4(pid, 0)
    took = (time.monotonic() - began) * 1000
    os.close(out)
    if status != 0:
        raise Failure("%s ended with status %d" % (" ".join(argv[:3]), os.waitstatus_to_exitcode(status)))
    return took, (used.ru_utime + used.ru_stime) * 1000


def summary(runs):
    """runs: of each, milliseconds that passed, and those of the processor."""
    passed, cpu = sorted(ms for ms, _ in runs), sorted(ms for _, ms in runs)
    return {"p50_ms": passed[len(passed) // 2], "p99_ms": passed[min(len(passed) - 1, int(len(passed) * 0.99))], "cpu_ms": cpu[len(cpu) // 2]}


def cpu_ms(pid):
    """Of all threads of a process, finer than clock ticks."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, task), encoding="ascii") as f:
            total += int(f.read().split()[0])
    return total / 1e6


def secret(path, text):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
        f.write(text)
    return path


def whole_process(bench, world, runs):
    job, token = os.path.join(bench.dir, "plan.yaml"), secret(os.path.join(bench.dir, "token"), world.token + "\n")
    with open(job, "w", encoding="utf-8") as f:
        f.write(http_bench.PLAN)
    url = "http://127.0.0.1:%d" % world.port
    curl = secret(os.path.join(bench.dir, "curl"), 'header = "Authorization: Bearer %s"\nheader = "Content-Type: application/yaml"\n' % world.token)
    env = dict(os.environ, SPOTCTL_URL=url, SPOTCTL_TOKEN_FILE=token, NO_COLOR="1")
    ours = [os.path.join(bench.build, "src/spotctl/spotctl"), "plan", job]
    theirs = [shutil.which("curl"), "-sf", "-K", curl, "--data-binary", "@" + job, url + "/v1/plan"]
    runs_of = {"spotctl": (ours, []), "curl": (theirs, [])}
    for i in range(runs + 2):
        for argv, took in runs_of.values():
            one = spawn(argv, env)
            if i >= 2:
                took.append(one)
    return {name: summary(took) for name, (_, took) in runs_of.items()}


def after_changes(bench, world, runs):
    """A plan over a kept connection, first after a hundredth of the prices moved, and again at once."""
    wire = http.client.HTTPConnection("127.0.0.1", world.port)
    first, again, pid = [], [], world.daemon.proc.pid
    for n in range(runs):
        bench.server.sql("UPDATE pool_latest SET price_micros = price_micros + 1, changed_us = changed_us + 1 WHERE pool_id %% 100 = %d" % (n % 100),
                         world.database)
        time.sleep(KNOWN_S)
        for took in (first, again):
            began, before = time.monotonic(), cpu_ms(pid)
            wire.request("POST", "/v1/plan", http_bench.PLAN, {"Authorization": "Bearer " + world.token, "Content-Type": "application/yaml"})
            reply = wire.getresponse()
            reply.read()
            took.append(((time.monotonic() - began) * 1000, cpu_ms(pid) - before))
            if reply.status != 200:
                raise Failure("POST /v1/plan: %d" % reply.status)
    wire.close()
    return {"first": summary(first), "again": summary(again)}


def measure(bench, args, size):
    world = http_bench.World(bench, market.SIZES[size])
    market.load_pools(bench.server, world.database, market.SIZES[size])
    try:
        world.start()
        return {"pools": size, **whole_process(bench, world, args.runs), **after_changes(bench, world, max(3, args.runs // 4))}
    finally:
        world.stop()


def line(r):
    each = ["%s p50 %.1f, p99 %.1f, CPU %.1f ms" % (name, r[name]["p50_ms"], r[name]["p99_ms"], r[name]["cpu_ms"]) for name in ("spotctl", "curl")]
    return "%d pools: %s; %s; first plan after a change p50 %.1f, CPU %.1f ms; again p50 %.1f, CPU %.1f ms" % (
        r["pools"], *each, r["first"]["p50_ms"], r["first"]["cpu_ms"], r["again"]["p50_ms"], r["again"]["cpu_ms"])


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("build")
    p.add_argument("--sizes", default="500,5000,50000", help="pools: some of 500, 5000, 50000")
    p.add_argument("--runs", type=int, default=40, help="of each program; a quarter as many changes")
    p.add_argument("--json", action="store_true", help="one object instead of lines")
    args = p.parse_args()
    args.seconds, args.rounds = 1, 1
    if shutil.which("curl") is None:
        print("no curl: skipped")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that Postgres and spotd end with us
    directory = tempfile.mkdtemp(prefix="plan-bench-")
    os.chmod(directory, 0o711)
    bench, results = None, []
    try:
        bench = http_bench.Bench(args, directory)
        for size in map(int, args.sizes.split(",")):
            results.append(measure(bench, args, size))
            if not args.json:
                print(line(results[-1]), flush=True)
        if args.json:
            print(json.dumps({"load_average": os.getloadavg()[0], "rows": results}))
    finally:
        if bench is not None:
            bench.close()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
