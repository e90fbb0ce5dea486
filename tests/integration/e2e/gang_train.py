#!/usr/bin/env python3
"""A training run on several nodes, for tests. Every step waits for all ranks, and the save is at a step that all agree on.
Each rank keeps a state of its own and refuses another one's (with --savers N only the first N ranks do). A directory
that all can see stands for their network.

    gang_train.py --steps N --step-ms M --meet DIR --pause-s S [--fail-at STEP --fail-rank R]
                  [--savers N]
"""
import argparse
import json
import os
import signal
import sys
import time

E = os.environ
RANK, COUNT, EPOCH = int(E["SPOT_NODE_RANK"]), int(E["SPOT_NUM_NODES"]), E["SPOT_EPOCH"]
CKPT = E["SPOT_CHECKPOINT_DIR"]
asked = {"n": 0}


def write(path, text):
    with open(path + ".part", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".part", path)


def save(step, total, savers):
    if 0 <= savers <= RANK:
        return
    os.makedirs(CKPT, exist_ok=True)
    write(os.path.join(CKPT, "state.json"), json.dumps({"rank": RANK, "step": step, "sum": total}))


def say_saved(step):
    asked["n"] = 0
    write(E["SPOT_SAVED_FILE"], "%d\n" % step)


def arrived(meet, step, rank):
    try:
        with open(os.path.join(meet, "%d.%d" % (step, rank)), encoding="ascii") as f:
            return f.read()
    except OSError:
        return None


def meet_all(meet, step):
    """All ranks at this step. True: one of them was asked to save."""
    write(os.path.join(meet, "%d.%d" % (step, RANK)), "save" if asked["n"] else "go")
    while True:
        words = [arrived(meet, step, r) for r in range(COUNT)]
        if all(words):
            return "save" in words
        time.sleep(0.005)


def pause_at(step, pause_s):
    """The agents of the ranks ask one after the other, and a save may not change while it is uploaded. A request in
    this time gets this step as its answer. At a drain the end comes here."""
    end = time.monotonic() + pause_s
    while time.monotonic() < end:
        if asked["n"]:
            say_saved(step)
        time.sleep(0.01)


def main():
    p = argparse.ArgumentParser()
    for name, kind in (("--steps", int), ("--step-ms", int), ("--meet", str), ("--fail-at", int), ("--fail-rank", int), ("--pause-s", int), ("--savers", int)):
        p.add_argument(name, type=kind, default=-1 if kind is int else None)
    o = p.parse_args()
    signal.signal(signal.SIGUSR1, lambda *_: asked.update(n=asked["n"] + 1))
    meet = os.path.join(o.meet, "%s-%s" % (E["SPOT_JOB_ID"], EPOCH))
    os.makedirs(meet, exist_ok=True)
    step, total = 0, 0
    if E["SPOT_RESTORED"] == "1" and 0 <= o.savers <= RANK:
        if os.path.isdir(CKPT) and os.listdir(CKPT):
            sys.exit("rank %d was given what it never saved" % RANK)
        step = int(E["SPOT_STEPS_START"])
        total = (RANK + 1) * step * (step + 1) // 2
    elif E["SPOT_RESTORED"] == "1":
        with open(os.path.join(CKPT, "state.json"), encoding="utf-8") as f:
            state = json.load(f)
        if state["rank"] != RANK or state["step"] != int(E["SPOT_STEPS_START"]):
            sys.exit("rank %d was given %s at start %s" % (RANK, state, E["SPOT_STEPS_START"]))
        step, total = state["step"], state["sum"]
    print("rank %d of %d begins at step %d, nodes %s" % (RANK, COUNT, step, E["SPOT_NODE_IPS"].replace("\n", " ")), flush=True)
    while step < o.steps:
        wanted = meet_all(meet, step + 1)
        time.sleep(o.step_ms / 1000)
        step += 1
        total += step * (RANK + 1)
        if step == o.fail_at and RANK == o.fail_rank:
            sys.exit(7)
        write(E["SPOT_PROGRESS_FILE"], "%d %d\n" % (step, o.steps))
        if wanted:
            save(step, total, o.savers)
            pause_at(step, o.pause_s)
    save(step, total, o.savers)
    write(os.path.join(o.meet, "%s.result.%d" % (E["SPOT_JOB_ID"], RANK)), "%d\n" % total)
    print("rank %d ends with %d" % (RANK, total), flush=True)


if __name__ == "__main__":
    main()
