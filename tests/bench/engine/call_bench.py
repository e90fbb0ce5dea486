#!/usr/bin/env python3
"""To the launch call: call_bench.py BUILD [--jobs 200] [--notices 100] [--pools 50000] [--json].
From a submit to its decision and its launch call, with an empty queue. From a notice that an agent heard to the decision for the
next machine and its launch call. The whole daemon, a private Postgres with fsync on, and the emulator of AWS without rate limits."""
import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", ".."), os.path.join(HERE, "..", "launch")]
from launch_bench import World  # noqa: E402
from world import Failure, exchange, until  # noqa: E402

JOB = "name: bench\nresources:\n  accelerators: T4:1\n  use_spot: %s\nrun: exec sleep 3600\n"
LONGEST_S = 60
WARM = 5  # Jobs that are not measured: the market is read meanwhile.
# By the daemon's own clock: from the stored job to the row of its node, and to the launch call.
TOOK = """SELECT (n.created_us - j.created_us) / 1000.0 || ' ' || (n.launch_sent_us - j.created_us) / 1000.0
    FROM job j JOIN node n ON n.job_id = j.id WHERE j.id = %d AND n.launch_sent_us IS NOT NULL"""
# From the moment at which the agent heard the notice, by the daemon's clock.
REPLACED = """SELECT (n.created_us - r.notice_us) / 1000.0 || ' ' || (n.launch_sent_us - r.notice_us) / 1000.0
    FROM recovery r JOIN node n ON n.job_id = r.job_id AND n.created_us > r.notice_us WHERE r.node_id = %d AND n.launch_sent_us IS NOT NULL
    ORDER BY n.id LIMIT 1"""
# The machine on which the newest attempt of the job runs, unless a notice is out.
RUNS = """SELECT n.id || ' ' || n.ref FROM attempt a JOIN node n ON n.id = a.node_id
    WHERE a.job_id = %d AND a.phase = 'RUNNING' AND a.ended_us IS NULL AND n.state = 'READY'"""


def place(world, spot="false"):
    """Milliseconds to the decision and to the launch call."""
    status, _, reply = exchange("POST", "http://127.0.0.1:%d/v1/jobs" % world.port, (JOB % spot).encode(),
                                {"Authorization": "Bearer " + world.token, "Content-Type": "application/yaml"})
    if status >= 300:
        raise Failure("no job: %d %s" % (status, reply))
    job = int(json.loads(reply)["id"].lstrip("j"))
    world.job = job
    took = until("j%d is launched" % job, LONGEST_S, lambda: world.server.sql(TOOK % job).split(), pause=0.02)
    return [float(x) for x in took]


def cancel(world):
    """The queue is empty afterwards: without an agent no job begins."""
    status, _, reply = exchange("POST", "http://127.0.0.1:%d/v1/jobs/j%d/cancel" % (world.port, world.job), b"", {"Authorization": "Bearer " + world.token})
    if status >= 300:
        raise Failure("j%d not cancelled: %d %s" % (world.job, status, reply))
    until("j%d is over" % world.job, LONGEST_S, lambda: world.server.sql("SELECT 1 FROM job WHERE id = %d AND state = 'CANCELLED'" % world.job), pause=0.02)


def replace(world):
    """Milliseconds from a notice to the decision and to the launch call of the next machine."""
    node, ref = until("j%d runs" % world.job, LONGEST_S, lambda: world.server.sql(RUNS % world.job).split(), pause=0.1)
    world.emulator.ask("POST", "/reclaim", {"instance": ref, "notice_s": 20})
    took = until("j%d has another machine" % world.job, LONGEST_S, lambda: world.server.sql(REPLACED % int(node)).split(), pause=0.1)
    return [float(x) for x in took]


def measure(args, agents):
    """The times of jobs, or with agents those of notices to a job that runs; and the number of pools."""
    world = World(args.build, "aws", False, False, agents)
    try:
        world.more_pools(args.pools)
        if agents:
            place(world, "true")
            took = [replace(world) for _ in range(args.notices)]
        else:
            took = []
            for _ in range(WARM + args.jobs):
                took.append(place(world))
                cancel(world)
            took = took[WARM:]
        return took, int(world.server.sql("SELECT count(*) FROM pool WHERE offered"))
    finally:
        world.close()


def percentiles(values):
    values = sorted(values)
    return {"p50_ms": values[len(values) // 2], "p99_ms": values[min(len(values) - 1, len(values) * 99 // 100)]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--notices", type=int, default=100)
    parser.add_argument("--pools", type=int, default=50000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    for what, n, agents in (("jobs", args.jobs, False), ("notices", args.notices, True)):
        if n == 0:
            continue
        took, pools = measure(args, agents)
        r = {"what": what, "n": n, "pools": pools, "decision": percentiles(t[0] for t in took), "call": percentiles(t[1] for t in took)}
        if args.json:
            print(json.dumps(r), flush=True)
        else:
            print("%d %s, %d pools: decision %.0f / %.0f ms, launch call %.0f / %.0f ms (p50 / p99)" % (
                n, what, pools, r["decision"]["p50_ms"], r["decision"]["p99_ms"], r["call"]["p50_ms"], r["call"]["p99_ms"]), flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as e:
        sys.exit(str(e))
