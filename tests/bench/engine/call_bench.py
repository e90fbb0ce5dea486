#!/usr/bin/env python3
"""From a submit to its decision and its launch call, with an empty queue: call_bench.py BUILD [--jobs 50] [--json].
The whole daemon, a private Postgres with fsync on, and the emulator of AWS without rate limits."""
import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", ".."), os.path.join(HERE, "..", "launch")]
from launch_bench import World  # noqa: E402
from world import Failure, exchange, until  # noqa: E402

JOB = "name: bench\nresources:\n  accelerators: T4:1\n  use_spot: false\nrun: ./train.sh\n"
LONGEST_S = 60
# By the daemon's own clock: from the stored job to the row of its node, and to the launch call.
TOOK = """SELECT (n.created_us - j.created_us) / 1000.0 || ' ' || (n.launch_sent_us - j.created_us) / 1000.0
    FROM job j JOIN node n ON n.job_id = j.id WHERE j.id = %d AND n.launch_sent_us IS NOT NULL"""


def place(world):
    """Milliseconds to the decision and to the launch call."""
    status, _, reply = exchange("POST", "http://127.0.0.1:%d/v1/jobs" % world.port, JOB.encode(),
                                {"Authorization": "Bearer " + world.token, "Content-Type": "application/yaml"})
    if status >= 300:
        raise Failure("no job: %d %s" % (status, reply))
    job = int(json.loads(reply)["id"].lstrip("j"))
    took = until("j%d is launched" % job, LONGEST_S, lambda: world.server.sql(TOOK % job).split(), pause=0.02)
    return [float(x) for x in took]


def percentiles(values):
    values = sorted(values)
    return {"p50_ms": values[len(values) // 2], "p99_ms": values[min(len(values) - 1, len(values) * 99 // 100)]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    world = World(args.build, "aws", False, False)
    try:
        place(world)  # waits for the engine's start
        took = [place(world) for _ in range(args.jobs)]
        pools = int(world.server.sql("SELECT count(*) FROM pool WHERE offered"))
    finally:
        world.close()
    r = {"jobs": args.jobs, "pools": pools, "decision": percentiles(t[0] for t in took), "call": percentiles(t[1] for t in took)}
    if args.json:
        print(json.dumps(r))
    else:
        print("%d jobs, %d pools: decision %.0f / %.0f ms, launch call %.0f / %.0f ms (p50 / p99)" % (
            args.jobs, pools, r["decision"]["p50_ms"], r["decision"]["p99_ms"], r["call"]["p50_ms"], r["call"]["p99_ms"]))


if __name__ == "__main__":
    try:
        main()
    except Failure as e:
        sys.exit(str(e))
