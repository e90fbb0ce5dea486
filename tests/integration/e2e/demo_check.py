#!/usr/bin/env python3
"""Runs the demo's story and judges its JSON: demo_check.py BUILD [--kill-seed N]. Exit 0 only if every promise held."""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support.late import Late  # noqa: E402

CALM_S = 0.05  # a sleeping process wakes within that on a machine that has time for a demo


def tell_story(cmd):
    """Returns its output and exit code. A signal that ends us also ends the story, which then cleans up."""
    story = subprocess.Popen(cmd, stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return story.communicate(timeout=900)[0], story.returncode
    finally:
        if story.poll() is None:
            story.terminate()
            story.wait(90)


def main():
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    build, extra = sys.argv[1], sys.argv[2:]
    cmd = [sys.executable, os.path.join(top, "deploy/story/story.py"), "--build", build, "--json", *extra]
    late = Late()
    out, code = tell_story(cmd)
    try:
        s = json.loads(out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        print("the demo printed no JSON summary; exit code %d" % code)
        return 1
    print(json.dumps(s))
    wrong = []
    for what, ok in (
            ("exit code 0", code == 0),
            ("job SUCCEEDED", s["job"]["state"] == "SUCCEEDED"),
            ("at least 4 attempts", s["job"]["attempts"] >= 4),
            ("no step lost", s["job"]["lost_steps"] == 0),
            ("result matches", s["job"]["result_matches_uninterrupted"] is True),
            ("no instance left", s["instances_left"] == 0),
            ("no double launch", s["double_launches"] == 0),
            ("five clouds in the table", sorted(s["clouds"]) == ["aws", "azure", "coreweave", "gcp", "lambda"]),
            ("attempts at four clouds at least", sum(1 for c in s["clouds"].values() if c["attempts"]) >= 4),
            ("nothing left at any cloud", not any(c["left"] for c in s["clouds"].values())),
            # AWS does not bill a machine that it takes back within its first hour, and here hours are seconds.
            ("who ran it was paid", all((c["paid_usd"] > 0 and c["provider_bill_usd"] > 0) or name == "aws"
                                        for name, c in s["clouds"].items() if c["attempts"])),
            ("who did not was not", not any(c["paid_usd"] for c in s["clouds"].values() if not c["instances_launched"])),
            ("the clouds' sums are the cost", abs(sum(c["paid_usd"] for c in s["clouds"].values()) - s["cost_usd"]) < 0.0005),
            ("the lines are what the clouds do not bill",
             abs(sum(x["usd"] for x in s["not_billed"]) - s["cost_usd"] + s["provider_bill_usd"]) < 0.000001 * (len(s["not_billed"]) + 2)),
            ("it cost something", s["cost_usd"] > 0),
            # Each kill holds the daemon up for seconds that stand for minutes, all of them paid for: no promise of the price then.
            ("cheaper than on-demand", s["saved_pct"] > 0 or "--kill-seed" in extra),
            ("under three minutes", s["seconds"] < (180 if late.worst < CALM_S else 360) or "--kill-seed" in extra),
            ("the daemon was killed", s["daemon_kills"] > 0 or "--kill-seed" not in extra)):
        if not ok:
            wrong.append(what)
    if wrong:
        print("broken: " + "; ".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
