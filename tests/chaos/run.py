#!/usr/bin/env python3
"""tests/chaos/run.py BUILD [--all|--short] [--jobs N] [STORY...]

Sweeps the points of the stories, several at a time (each waits most of the time), one line for each. A broken one's
output is shown, and its world's files are kept. Exit 0: all held. --short: one point of each kind that a minute or two
allow. --all (or SPOT_CHAOS_ALL=1): every point."""
import argparse
import concurrent.futures
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 600
MODES = ("before", "sent", "replied")


def points(size):
    """Lines of arguments of stories.py. The default is a few dozen that take minutes."""
    if size == "short":
        return ["writes sent 1", "postgres 1", "leader 1", "agent_kill 1", "calls db 400 1500", "agent_calls disk 30 400"]
    every = size == "all"
    out = ["judge"]
    for mode in MODES:
        out += ["writes %s %d" % (mode, k) for k in ((1, 2, 3, 4, 5) if every else (1, 2))]
        out += ["statements %s %d 500" % (mode, at) for at in (range(1, 501, 10) if every else (20, 270))]
        out += ["losses %s %d 60" % (mode, at) for at in (range(1, 61, 4) if every else (5, 35))]
    out += ["migrate 12 %d" % first for first in (range(1, 13) if every else (1,))]
    for kind, at, step in (("db", 60, 900), ("http", 10, 40), ("serve", 20, 90)):
        out += ["calls %s %d %d" % (kind, k, step) for k in (range(at, at + step, max(step // 25, 1)) if every else (at, at + step // 2))]
    # The clouds are first called when it is up; the disk hardly ever is after that.
    out += ["start db", "start serve", "start disk"]
    for kind, at, step in (("http", 12, 70), ("disk", 30, 400)):
        out += ["agent_calls %s %d %d" % (kind, k, step) for k in (range(at, at + step, max(step // 25, 1)) if every else (at, at + step // 2))]
    seeds = range(1, 9) if every else (1, 2)
    for story in ("postgres", "disk_full", "connections", "agent_kill", "reboot", "leader", "clock daemon", "clock agents"):
        out += ["%s %d" % (story, seed) for seed in seeds]
    # Longer than a wrong file's tries; than the supervisor's once were.
    out += ["node_disk fetch 45", "node_disk run 45", "node_disk end 90"]
    if every:
        out += ["node_disk %s 300" % phase for phase in ("fetch", "run", "end")] + ["leader 1 150"]
    out += told_otherwise(every)
    for cloud in ("gcp", "azure", "coreweave", "lambda"):
        out += ["writes@%s sent %d" % (cloud, k) for k in ((1, 2, 3) if every else (1,))]
        # A reply of Google's price list is hundreds of reads long.
        out += ["calls@%s http %d %d" % (cloud, at, 400 if cloud == "gcp" else 40) for at in (range(2, 42, 4) if every else (17,))]
        if every:
            out += ["writes@%s %s 1" % (cloud, mode) for mode in ("before", "replied")]
            out += ["agent_calls@%s http %d 70" % (cloud, at) for at in range(5, 75, 10)]
    out += ["partition %s %d" % (link, s) for link in ("clouds", "agents", "database") for s in ((10, 25, 45) if every else (15,))]
    return out


def told_otherwise(every):
    """Jobs of several nodes and standing capacity, under faults of their own kind."""
    out = []
    for tale in ("gang", "fleet"):
        for mode in MODES if every else ("sent",):
            out += ["writes@%s %s %d" % (tale, mode, k) for k in ((1, 2, 3) if every else (1,))]
            out += ["losses@%s %s %d 60" % (tale, mode, at) for at in (range(1, 61, 10) if every else (35,))]
        for kind, at, step in (("db", 400, 900), ("http", 10, 40), ("serve", 20, 90)):
            out += ["calls@%s %s %d %d" % (tale, kind, k, step) for k in (range(at, at + step, step // 8) if every else (at,))]
        for kind, at, step in (("http", 12, 70), ("disk", 30, 400)):
            out += ["agent_calls@%s %s %d %d" % (tale, kind, k, step) for k in (range(at, at + step, step // 8) if every else (at,))]
        if every:
            out += ["%s@%s %d" % (story, tale, seed) for story in ("postgres", "connections") for seed in (1, 2)]
    out += ["writes@azure@gang sent %d" % k for k in ((1, 2) if every else ())]
    return out


def play(build, point):
    began = time.monotonic()
    try:
        out = subprocess.run([sys.executable, os.path.join(HERE, "stories.py"), build, *point.split()], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        code, text = out.returncode if out.stdout.strip() else 1, out.stdout
    except subprocess.TimeoutExpired as e:
        code, text = 1, (e.stdout or b"").decode(errors="replace") + "BROKEN: not over after %d s\n" % LIMIT_S
    return point, code, text, time.monotonic() - began


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("build")
    p.add_argument("stories", nargs="*")
    p.add_argument("--all", action="store_true", default=os.environ.get("SPOT_CHAOS_ALL", "") not in ("", "0"))
    p.add_argument("--short", action="store_true")
    p.add_argument("--jobs", type=int, default=max(2, os.cpu_count() or 2))
    args = p.parse_intermixed_args()
    todo = [x for x in points("short" if args.short else "all" if args.all else "default") if not args.stories or {x.split()[0], x.split()[0].split("@")[0]} & set(args.stories)]
    broken, skipped = [], 0
    print("%d points, %d at a time" % (len(todo), args.jobs), flush=True)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for point, code, text, took in pool.map(lambda x: play(args.build, x), todo):
            lines = text.strip().splitlines()
            word = {0: "held", 77: "skipped"}.get(code, "BROKEN")
            print("%-8s %-28s %4.0f s  %s" % (word, point, took, lines[-1].strip() if lines else ""), flush=True)
            skipped += code == 77
            if code not in (0, 77):
                broken.append(point)
                print("".join("    | %s\n" % line for line in lines), end="", flush=True)
    print("%d points, %d broken, %d skipped" % (len(todo), len(broken), skipped))
    for point in broken:
        print("again: python3 tests/chaos/stories.py %s %s" % (args.build, point))
    return 1 if broken or not todo else 0


if __name__ == "__main__":
    sys.exit(main())
