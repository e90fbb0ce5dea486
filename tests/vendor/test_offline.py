#!/usr/bin/env python3
"""Without a network the vendors' suites are skipped, and only the first of them waits for pip."""
import os
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class Offline(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.env = {"PATH": os.environ["PATH"], "HOME": self.dir.name, "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
                    "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}

    def tearDown(self):
        self.dir.cleanup()

    def run_it(self, *words):
        began = time.monotonic()
        r = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=200)
        return r, time.monotonic() - began

    def test_it_is_skipped_and_remembered(self):
        r, took = self.run_it(os.path.join(HERE, "venv"), self.dir.name)
        self.assertEqual((r.returncode, r.stdout), (77, ""), r.stderr)
        again, again_took = self.run_it(os.path.join(HERE, "venv"), self.dir.name)
        self.assertEqual(again.returncode, 77)
        self.assertIn("within the last ten minutes", again.stderr)
        self.assertLess(again_took, took)
        # Ten minutes later it is tried again.
        past = time.time() - 700
        os.utime(os.path.join(self.dir.name, "vendor-venv", "refused.txt"), (past, past))
        later, _ = self.run_it(os.path.join(HERE, "venv"), self.dir.name)
        self.assertEqual(later.returncode, 77)
        self.assertNotIn("within the last ten minutes", later.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
