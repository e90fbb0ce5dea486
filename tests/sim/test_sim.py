"""The simulation itself: a seed gives the same trace twice, a broken rule is found, its reproduction breaks it again."""
import re
import subprocess
import sys
import unittest

SIM = sys.argv.pop(1)


def run(*args):
    p = subprocess.run([SIM, *args], capture_output=True, text=True, timeout=500)
    return p.returncode, p.stdout


class Sim(unittest.TestCase):
    def test_a_seed_has_one_trace(self):
        for seed in ("3", "4"):
            first, second = (re.search(r"^hash (.*)$", run(seed)[1], re.M).group(1) for _ in range(2))
            self.assertEqual(first, second)

    def test_seeds_differ(self):
        self.assertNotEqual(*(re.search(r"^hash (.*)$", run(s)[1], re.M).group(1) for s in ("5", "6")))

    def test_seeds_without_and_with_faults_pass(self):
        code, out = run("--seeds", "10-14")
        self.assertEqual(code, 0, out)
        self.assertIn("5 seeds, 0 failed", out)


if __name__ == "__main__":
    unittest.main()
