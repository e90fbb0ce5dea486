#!/usr/bin/env python3
"""Results and costs of a run of tests.

    results.py count TESTLOG COSTS      prints "passed failed skipped" of a meson testlog.json; adds a line for each test to COSTS
    results.py dearest COSTS            prints the ten dearest tests, by CPU time, and what all took

A test program that reports its cases (cmocka's or unittest's closing lines) counts with its cases, another one as one
test. A line of COSTS: CPU seconds ("-" where unknown), wall seconds, name.
"""
import json
import re
import sys


def cases(test):
    """(passed, failed) cases that the program itself reports."""
    out = (test.get("stdout") or "") + "\n" + (test.get("stderr") or "")
    ok = sum(int(n) for n in re.findall(r"\[  PASSED  \] (\d+) test", out))
    bad = sum(int(n) for n in re.findall(r"\[  FAILED  \] (\d+) test", out))
    ran = re.findall(r"^Ran (\d+) tests? in", out, re.M)
    if ran:
        n = sum(map(int, ran))
        b = sum(int(x) for x in re.findall(r"(?:failures|errors)=(\d+)", out))
        ok, bad = ok + max(n - b, 0), bad + b
    return ok, bad


def cost(test):
    found = re.findall(r"^cost [\d.]+ ([\d.]+) ([\d.]+)$", test.get("stderr") or "", re.M)
    return "%.1f" % sum(map(float, found[-1])) if found else "-"


def count(log, costs):
    passed = failed = skipped = 0
    with open(log, encoding="utf-8") as f, open(costs, "a", encoding="utf-8") as to:
        for line in f:
            test = json.loads(line)
            ok, bad = cases(test)
            if test["result"] == "SKIP":
                skipped += 1
            elif test["result"] in ("OK", "EXPECTEDFAIL"):
                passed += max(ok, 1)
            else:
                passed += ok
                failed += max(bad, 1)
            to.write("%s %.1f %s\n" % (cost(test), test["duration"], test["name"].split(":", 1)[-1]))
    print(passed, failed, skipped)


def dearest(costs):
    with open(costs, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split(" ", 2) for line in f]
    known = [float(cpu) for cpu, _, _ in rows if cpu != "-"]
    rows.sort(key=lambda r: (float(r[0]) if r[0] != "-" else 0, float(r[1])), reverse=True)
    print("\nthe ten dearest of %d tests, which took %d s of CPU time and %d s of test time:" % (
        len(rows), sum(known), sum(float(wall) for _, wall, _ in rows)))
    for cpu, wall, name in rows[:10]:
        print("%8s s CPU %8s s  %s" % (cpu, wall, name))


if __name__ == "__main__":
    {"count": count, "dearest": dearest}[sys.argv[1]](*sys.argv[2:])
