#!/usr/bin/env python3
"""Repeats every write of the engine and the poller, in real stories, after the lease was taken away: nothing may change
(fence_probe.h). The stories are those of other tests. Their results do not count here, since repeating makes them slow.
The test counts the statements that had something to do, and names the others. None may get through.

    fence_check.py BUILD
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ENGINE = ("flow", "reply", "upkeep", "files", "leak", "deadline", "promise", "absence", "stop", "contract", "stream", "gang", "gang_end",
          "schedule", "verdict", "notice", "bill")
E2E = (("e2e_market",), ("e2e_doctor",), ("e2e_dispose",), ("e2e_move",), ("e2e_loss",), ("e2e_gang", "OneLaunch"))
LEAST = 45  # statements that have something to do in these stories, timing aside


def fenced():
    """Names of the statements that look at the lease, from their sources."""
    for path in glob.glob(os.path.join(HERE, "../../../src/store/sql/**/*.sql"), recursive=True):
        with open(path, encoding="utf-8") as f:
            for text in re.split(r"(?m)^-- name: ", f.read())[1:]:
                if "-- writes: yes" in text and re.search(r"FROM leader WHERE name = 'engine' AND epoch = \$", text):
                    yield text.split("\n")[0].strip()


def run(words, env):
    out = subprocess.run(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    broken = re.findall(r"^fence: .*", out.stdout, re.M)
    print("%s: exit %d%s" % (" ".join(os.path.basename(w) for w in words), out.returncode, "".join("\n  " + b for b in broken)), flush=True)
    return not broken and out.returncode != -6


def main():
    build, good = os.path.abspath(sys.argv[1]), True
    with tempfile.TemporaryDirectory() as d:
        report, logs = os.path.join(d, "report"), os.path.join(d, "log")
        env = dict(os.environ, SPOT_FENCE_REPORT=report)
        for name in ENGINE:
            good &= run([os.path.join(build, "tests/integration/fence_" + name)], env)
        env.update(SPOT_TEST_SPOTD=os.path.join(build, "tests/integration/spotd-fence"), SPOT_FENCE_VIOLATIONS=logs)
        for name, *more in E2E:
            good &= run([sys.executable, os.path.join(HERE, "..", "e2e", name + ".py"), build, *more], env)
        if os.path.exists(logs):
            with open(logs, encoding="utf-8") as f:
                print(f.read())
            good = False
        effective = {}
        with open(report, encoding="utf-8") as f:
            for line in f:
                name, _, n = line.split()
                effective[name] = effective.get(name, 0) + int(n)
    missing = sorted(n for n in fenced() if not effective.get(n) and n != "engine_lease_take")
    tried = sum(1 for n in effective.values() if n)
    print("%d statements that had something to do changed nothing; never with anything to do: %s" % (tried, ", ".join(missing) or "none"))
    return 0 if good and tried >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
