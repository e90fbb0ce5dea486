#!/usr/bin/env python3
"""Prints the files that ninja must build for some suites of a build folder: targets.py BUILD SUITE...

A test's program, its arguments and its dependencies count.
"""
import json
import os
import subprocess
import sys

def introspect(build, what):
    return json.loads(subprocess.run(["meson", "introspect", what, build], check=True, capture_output=True, text=True).stdout)


def main():
    build, suites = os.path.abspath(sys.argv[1]), set(sys.argv[2:])
    files = {t["id"]: t["filename"] for t in introspect(build, "--targets")}
    made = {f for names in files.values() for f in names}
    wanted = set()
    for test in introspect(build, "--tests"):
        if suites & {s.split(":")[-1] for s in test["suite"]}:
            wanted.update(f for d in test["depends"] for f in files.get(d, ()))
            wanted.update(w for w in test["cmd"] if w in made)
    print("\n".join(sorted(os.path.relpath(f, build) for f in wanted if f in made)))


if __name__ == "__main__":
    main()
