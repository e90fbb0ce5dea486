#!/usr/bin/env python3
"""A job that can be placed behind jobs that cannot: queue_bench.py BUILD [--sizes 10000,100000,1000000] [--json].
The whole daemon, a private Postgres with fsync on, and the emulator of AWS without rate limits. The blocked jobs pay less
than any machine costs. The first size is 0: an empty queue."""
import argparse
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", ".."), os.path.join(HERE, "..", "http"), os.path.join(HERE, "..", "launch")]
from launch_bench import World, cpu_s  # noqa: E402
from world import Failure, exchange  # noqa: E402
import market  # noqa: E402

JOB = "name: bench\nresources:\n  accelerators: T4:1\n  use_spot: false\n  max_hourly_cost: %s\nrun: ./train.sh\n"
ENOUGH, TOO_LITTLE = 100, 0.001
LONGEST_S = 90  # For one job.
JOBS, JOBS_S = 20, 60  # So many jobs, or as many as fit into the time.
IDLE_S = 10
# By the daemon's own clock: from the stored job to the row of its node, and to the launch call.
TOOK = """SELECT (n.created_us - j.created_us) / 1000.0 || ' ' || (n.launch_sent_us - j.created_us) / 1000.0
    FROM job j JOIN node n ON n.job_id = j.id WHERE j.id = %d AND n.launch_sent_us IS NOT NULL"""


def submit(world, usd):
    status, _, reply = exchange("POST", "http://127.0.0.1:%d/v1/jobs" % world.port, (JOB % usd).encode(),
                                {"Authorization": "Bearer " + world.token, "Content-Type": "application/yaml"})
    if status >= 300:
        raise Failure("no job: %d %s" % (status, reply))
    return int(json.loads(reply)["id"].lstrip("j"))


def place(world):
    """Milliseconds to the decision and to the launch call, or None."""
    job, end = submit(world, ENOUGH), time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        took = world.server.sql(TOOK % job).strip()
        if took:
            return [float(x) for x in took.split()]
        time.sleep(0.05)
    return None


def load(world, jobs):
    """The daemon starts on a queue that is there."""
    submit(world, TOO_LITTLE)
    world.daemon.stop()
    market.load_work(world.server, "spotbroker", market.Size(1, jobs, 0))
    world.start()


def measure(world, jobs):
    # The first waits for the engine's start. One that is not placed says it for the others.
    took, end = [place(world)], time.monotonic() + JOBS_S
    while took[-1] is not None and len(took) <= JOBS and (len(took) == 1 or time.monotonic() < end):
        took.append(place(world))
    before, began = sum(cpu_s(pid) for pid in world.pids().values()), time.monotonic()
    time.sleep(IDLE_S)
    idle = (sum(cpu_s(pid) for pid in world.pids().values()) - before) / (time.monotonic() - began)
    placed = sorted(t for t in took[1:] if t is not None)
    launched = sorted(t[1] for t in placed)
    return {"jobs": jobs, "pools": int(world.server.sql("SELECT count(*) FROM pool WHERE offered")), "first_ms": took[0] and took[0][0],
            "decision_ms": placed[len(placed) // 2][0] if placed else None, "decision_max_ms": placed[-1][0] if placed else None,
            "launch_ms": launched[len(launched) // 2] if placed else None, "launch_max_ms": launched[-1] if placed else None,
            "unplaced": sum(t is None for t in took), "idle_cores": idle}


def line(r):
    words = "%d blocked jobs, %d pools: " % (r["jobs"], r["pools"])
    if r["decision_ms"] is None:
        words += "none decided in %d s" % LONGEST_S
    else:
        words += "decision %.0f ms (most %.0f), launch call %.0f ms (most %.0f)" % (
            r["decision_ms"], r["decision_max_ms"], r["launch_ms"], r["launch_max_ms"])
    return words + "; then %.0f %% of a core with nothing happening" % (100 * r["idle_cores"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    for jobs in [0, *(int(n) for n in args.sizes.split(",") if n)]:
        world = World(args.build, False, False)
        try:
            if jobs:
                load(world, jobs)
            r = measure(world, jobs)
        finally:
            world.close()
        print(json.dumps(r) if args.json else line(r), flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as e:
        sys.exit(str(e))
