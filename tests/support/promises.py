#!/usr/bin/env python3
"""Checks tests/PROMISES.md: each row names tests, and every test that it names exists.

    promises.py BUILD TESTS | --self-test

A name belongs to a meson test, a suite of tests/run or a file below tests. After the suite chaos it may be a story.
"""
import os
import re
import subprocess
import sys
import unittest


def names_known(build, tests):
    listed = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--list"], capture_output=True, text=True, check=True).stdout
    known = {line.split(" / ", 1)[1].strip() for line in listed.splitlines() if " / " in line}
    with open(os.path.join(tests, "run"), encoding="utf-8") as f:
        known.update(re.findall(r"^\t\t(\S+) {1,}\S", f.read(), re.M))
    for _, _, files in os.walk(tests):
        known.update(name for f in files for name in (f, os.path.splitext(f)[0]))
    return known


def stories(tests):
    text = ""
    for name in os.listdir(os.path.join(tests, "chaos")):
        if name.endswith(".py"):
            with open(os.path.join(tests, "chaos", name), encoding="utf-8") as f:
                text += f.read()
    return text


def wrong(text, known, chaos):
    """Complaints about a table's rows."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("| ") or line.startswith("| planted fault"):
            continue
        guards = line.strip("| \n").split(" | ")[-1]
        named = re.findall(r"`([^`]+)`", guards)
        if not named and "two guards" not in guards:
            found.append("%d: no test is named" % number)
        for name in named:
            story = "`chaos`" in guards and re.search(r"\b%s\b" % re.escape(re.split("[@ ]", name)[0]), chaos)
            if name not in known and not story:
                found.append("%d: no test '%s'" % (number, name))
    return found


class SelfTest(unittest.TestCase):
    def test_a_test_that_is_gone_is_named(self):
        self.assertEqual(wrong("| a | `x_test`: words |", {"x_test"}, ""), [])
        self.assertEqual(wrong("| a | `y_test` |", {"x_test"}, ""), ["1: no test 'y_test'"])

    def test_a_row_without_a_test_is_named(self):
        self.assertEqual(wrong("| a | words |", set(), ""), ["1: no test is named"])
        self.assertEqual(wrong("| a | two guards: words |", set(), ""), [])

    def test_a_story_of_chaos_counts(self):
        self.assertEqual(wrong("| a | `chaos`: `writes@gang` |", {"chaos"}, "def writes("), [])


def main():
    if sys.argv[1:] == ["--self-test"]:
        unittest.main(argv=sys.argv[:1])
    build, tests = sys.argv[1:]
    with open(os.path.join(tests, "PROMISES.md"), encoding="utf-8") as f:
        found = wrong(f.read(), names_known(build, tests), stories(tests))
    for line in found:
        print("tests/PROMISES.md:" + line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
