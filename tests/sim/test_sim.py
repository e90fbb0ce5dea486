"""The simulation itself: a seed gives the same trace twice, each rule was seen to fail, a broken run is told as such."""
import re
import subprocess
import sys
import unittest

SIM = sys.argv.pop(1)


def run(*args):
    p = subprocess.run([SIM, *args], capture_output=True, text=True, timeout=800)
    return p.returncode, p.stdout


def trace_of(seed, *args):
    return re.search(r"^hash (.*)$", run(seed, *args)[1], re.M).group(1)


def names(out, kind):
    return set(re.findall(r"^%s +(.*?) +\d+ in \d+ seeds$" % kind, out, re.M))


class Sim(unittest.TestCase):
    def test_a_seed_has_one_trace(self):
        self.assertEqual(trace_of("3"), trace_of("3"))

    def test_seeds_differ(self):
        self.assertNotEqual(trace_of("5"), trace_of("6"))

    def test_each_rule_was_seen_to_fail(self):
        code, out = run("--seeds", "1-24", "--prove")
        self.assertEqual(code, 0, out)
        self.assertIn("24 seeds, 0 failed", out)
        self.assertEqual(names(out, "always") - names(out, "proven"), set(), out)
        self.assertGreater(len(names(out, "proven")), 20)


if __name__ == "__main__":
    unittest.main()
