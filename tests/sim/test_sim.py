"""The simulation itself: a seed has one trace wherever and however it runs, and each rule was seen to fail."""
import os
import re
import signal
import subprocess
import sys
import unittest

SIM = sys.argv.pop(1)


def run(*args, **env):
    p = subprocess.run([SIM, *args], capture_output=True, text=True, timeout=800, env={**os.environ, **env})
    return p.returncode, p.stdout


def trace_of(seed, **env):
    return int(re.search(r"^hash (\S*) ", run(seed, **env)[1], re.M).group(1), 16)


def children(pid):
    """The server, whose folder it stands in."""
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        found = f.read().split()
    return [c for c in found if os.path.basename(os.readlink("/proc/%s/exe" % c)).startswith("postgres")]


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
        for seed in ("6", "7", "100002"):  # with CoreWeave, with Google Cloud, a small world
            self.assertEqual(trace_of(seed), trace_of(seed, SPOT_SIM_GATES="off"), seed)

    def test_a_seed_has_the_same_trace_in_a_database_of_its_own(self):
        # 4: two daemons, in which partitions are made and COPY breaks
        for seed in ("4", "7", "100002"):
            self.assertEqual(trace_of(seed), trace_of(seed, SPOT_SIM_UNIVERSES="off"), seed)

    def test_a_batch_that_is_told_to_end_leaves_nothing_behind(self):
        for sig in (signal.SIGTERM, signal.SIGINT):
            with subprocess.Popen([SIM, "--seeds", "1-99999", "--jobs", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as p:
                folder = re.search(r" in (/\S+)$", next(line for line in p.stderr if "ready" in line)).group(1)
                self.assertTrue(os.path.isdir(folder))
                cluster = [os.readlink("/proc/%s/cwd" % pid) for pid in children(p.pid)]
                self.assertNotEqual(cluster, [])
                p.send_signal(sig)
                self.assertEqual(p.wait(60), -sig)
            for gone in (folder, *cluster):
                self.assertFalse(os.path.exists(gone), gone)

    def test_each_rule_was_seen_to_fail(self):
        code, out = run("--seeds", "1-24", "--prove")
        self.assertEqual(code, 0, out)
        self.assertIn("24 seeds, 0 failed", out)
        self.assertEqual(names(out, "always") - names(out, "proven"), set(), out)
        self.assertGreater(len(names(out, "proven")), 20)


if __name__ == "__main__":
    unittest.main()
