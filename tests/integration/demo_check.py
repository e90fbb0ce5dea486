#!/usr/bin/env python3
"""Runs the demo's story and judges its JSON: demo_check.py BUILD [--kill-seed N]. Exit 0 only if every promise held."""
import json
import os
import subprocess
import sys


def main():
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    build, extra = sys.argv[1], sys.argv[2:]
    cmd = [sys.executable, os.path.join(top, "deploy/story/story.py"), "--build", build, "--json", *extra]
    out = subprocess.run(cmd, stdout=subprocess.PIPE, text=True, timeout=900)
    try:
        s = json.loads(out.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        print("the demo printed no JSON summary; exit code %d" % out.returncode)
        return 1
    print(json.dumps(s))
    wrong = []
    for what, ok in (
            ("exit code 0", out.returncode == 0),
            ("job SUCCEEDED", s["job"]["state"] == "SUCCEEDED"),
            ("at least 4 attempts", s["job"]["attempts"] >= 4),
            ("no step lost", s["job"]["lost_steps"] == 0),
            ("result matches", s["job"]["result_matches_uninterrupted"] is True),
            ("no instance left", s["instances_left"] == 0),
            ("no double launch", s["double_launches"] == 0),
            ("it cost something", s["cost_usd"] > 0),
            ("cheaper than on-demand", s["saved_pct"] > 0),
            ("under three minutes", s["seconds"] < 180 or "--kill-seed" in extra),
            ("the daemon was killed", s["daemon_kills"] > 0 or "--kill-seed" not in extra)):
        if not ok:
            wrong.append(what)
    if wrong:
        print("broken: " + "; ".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
