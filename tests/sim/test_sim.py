"""The simulation itself: a seed has one trace wherever and however it runs, and each rule was seen to fail."""
import os
import re
import subprocess
import sys
import unittest

SIM = sys.argv.pop(1)


def run(*args, **env):
    p = subprocess.run([SIM, *args], capture_output=True, text=True, timeout=800, env={**os.environ, **env})
    return p.returncode, p.stdout


def trace_of(seed, **env):
    return int(re.search(r"^hash (\S*) ", run(seed, **env)[1], re.M).group(1), 16)


def names(out, kind):
    return set(re.findall(r"^%s +(.*?) +\d+ in \d+ seeds$" % kind, out, re.M))


class Sim(unittest.TestCase):
    def test_a_seed_has_one_trace_alone_and_among_others(self):
        code, out = run("--seeds", "3-4")
        self.assertEqual(code, 0, out)
        both = int(re.search(r"^hashes (\S*) ", out, re.M).group(1), 16)
        third, fourth = trace_of("3"), trace_of("4")
        self.assertNotEqual(third, fourth)
        self.assertEqual(both, third ^ fourth)

    def test_a_seed_has_the_same_trace_when_every_statement_is_sent(self):
        for seed in ("6", "7"):  # with CoreWeave, with Google Cloud
            self.assertEqual(trace_of(seed), trace_of(seed, SPOT_SIM_GATES="off"), seed)

    def test_each_rule_was_seen_to_fail(self):
        code, out = run("--seeds", "1-24", "--prove")
        self.assertEqual(code, 0, out)
        self.assertIn("24 seeds, 0 failed", out)
        self.assertEqual(names(out, "always") - names(out, "proven"), set(), out)
        self.assertGreater(len(names(out, "proven")), 20)


if __name__ == "__main__":
    unittest.main()
