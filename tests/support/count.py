"""Prints "passed failed skipped" of a meson testlog.json (one JSON object a line). A test program that reports its
cases (cmocka's or unittest's closing lines) counts with its cases, another one as one test."""
import json
import re
import sys

passed = failed = skipped = 0
for line in open(sys.argv[1], encoding="utf-8"):
    t = json.loads(line)
    out = (t.get("stdout") or "") + "\n" + (t.get("stderr") or "")
    ok = sum(int(n) for n in re.findall(r"\[  PASSED  \] (\d+) test", out))
    bad = sum(int(n) for n in re.findall(r"\[  FAILED  \] (\d+) test", out))
    m = re.findall(r"^Ran (\d+) tests? in", out, re.M)
    if m:
        n = sum(map(int, m))
        b = sum(int(x) for x in re.findall(r"(?:failures|errors)=(\d+)", out))
        ok, bad = ok + max(n - b, 0), bad + b
    result = t["result"]
    if result == "SKIP":
        skipped += 1
    elif result in ("OK", "EXPECTEDFAIL"):
        passed += max(ok, 1)
    else:
        passed += ok
        failed += max(bad, 1)
print(passed, failed, skipped)
