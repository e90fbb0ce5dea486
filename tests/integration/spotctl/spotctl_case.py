"""Shared by the tests of spotctl: a scripted daemon, a home of its own, shapes of the API."""

import os
import subprocess
import tempfile
import unittest

from spotctl_fake import FakeDaemon, Reply

SPOTCTL = [None]  # the program under test
POOL = {"id": "p44", "provider": "aws", "region": "us-east-1", "zone": "use1-az4", "zone_name": "us-east-1a",
        "instance_type": "g5.xlarge", "market": "spot", "gpu": "A10G", "gpus": 1, "gpu_mem_mib": 24576, "vcpus": 4,
        "mem_mib": 16384, "arch": "x86_64", "price_micros": 412300, "price_usd": 0.4123, "price_per_gpu_micros": 412300,
        "price_state": "fresh", "price_why": "", "observed_at": "2026-01-01T00:00:00Z", "age_s": 65,
        "effective_at": "2026-01-01T00:00:00Z", "source": "DescribeSpotPriceHistory"}
JOB = {"id": "j12", "name": "train", "state": "RUNNING", "owner": "ann", "team": "nlp", "project": "llama",
       "class": "training", "epoch": 2, "created_at": "2026-01-01T00:00:00Z", "steps_done": 30, "steps_total": 600,
       "why": "step 30", "pool": POOL, "node": "n7", "market": "spot", "attempts": 2, "interruptions": 1,
       "cost_micros": 1234567, "cost_usd": 1.234567,
       "checkpoint": {"id": "c9", "steps": 25, "bytes": 1000, "committed_at": "2026-01-01T00:10:00Z"}}
BUDGET = {"limit_micros": 12500000, "limit_usd": 12.5, "spent_micros": 4900000, "spent_usd": 4.9, "left_micros": 7600000, "left_usd": 7.6,
          "needs_micros": None, "needs_usd": None}
PARKED = {**JOB, "state": "PARKED", "why": "its budget is used up: it waits for more", "budget": {
    **BUDGET, "spent_micros": 12123456, "left_micros": 376544, "needs_micros": 413001}}
NODE = {"id": "n7", "state": "READY", "pool": POOL, "job": "j12", "fleet": "f3", "ref": "i-1", "price_micros": 412300,
        "created_at": "2026-01-01T00:00:00Z", "last_seen_at": None, "notice": None, "cost_micros": 5, "end_cause": "",
        "why": "", "last_error": "", "notices": [], "attempts": [], "events": []}
FLEET = {"id": "f3", "name": "big", "state": "ACTIVE", "spec": {"nodes": 8}, "nodes_live": 2, "nodes_ready": 1, "pools": 2,
         "cost_micros": 99, "created_at": "2026-01-01T00:00:00Z", "owner": "ann", "team": "nlp", "project": "", "why": "",
         "nodes": [NODE], "on_demand_micros": 4000000, "node_prices": [{"node": "n7", "price_micros": 412300, "on_demand_micros": 1000000}],
         "size": {"unit": "nodes", "have": 2.0, "wanted": 5, "min": 0, "max": 20, "target": 0, "rule": "queue", "hourly_micros": 1000000,
                  "why": "2 nodes with work, 3 jobs in the queue since 130 s want 3", "since_at": "2026-01-01T00:00:00Z",
                  "next_at": "2026-01-01T00:05:00Z", "need": 5, "used": 2.0, "idle": 0.0, "coming": 0.0, "queue_jobs": 3},
         "demand": {"value": 4, "unit": "replicas", "by": "vllm", "set_at": "2026-01-01T00:00:00Z", "until_at": "2026-01-01T00:02:00Z",
                    "version": 1, "metric": None}}
FLEET_PLAN = {"name": "big", "want": 8.0, "unit": "nodes", "gpus_of": "", "have": 2.0, "missing": 1, "surplus": 0, "floor_want": 2.0, "floor_have": 2.0,
              "pools": 2, "pools_want": 5, "hourly_micros": 9000000, "cost_micros": 10050000, "risk_micros": 1600000, "total_micros": 11650000,
              "bound_micros": 11000000, "gap": 0.0558, "proved": False, "risk_hours": 4.0, "lost_together_per_hour": 0.4, "risk_price_micros": 4000000,
              "pools_usable": 3, "steps": 9, "pools_known": 7, "why": "2 pools chosen of 3 usable, 1 missing, 0 surplus",
              "limits": [{"limit": "limits.per_zone", "where": "aws r z", "max": 3, "used": 3, "unit": "nodes", "pools_kept_out": 2, "worth_micros": 12}],
              "pool_list": [{"pool": "p1", "provider": "aws", "region": "r", "zone": "z", "instance_type": "g5", "market": "spot", "gpu": "A10G", "held": 2,
                             "add": 5, "give_back": 0, "price_micros": 400000, "work_micros": 500000, "reclaims_per_hour": 0.1,
                             "marginal_micros": 600000}]}


def page(items, after=None):
    return Reply(body={"items": items, "next": after})


class Case(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.daemon = FakeDaemon().__enter__()
        self.token_file = os.path.join(self.home.name, "token")
        self.write(self.token_file, "secret-token-123\n", 0o600)

    def tearDown(self):
        self.daemon.__exit__()
        self.home.cleanup()

    def write(self, path, text, mode=0o644):
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def file(self, text, name="file.yaml"):
        return self.write(os.path.join(self.home.name, name), text)

    def env(self, **more):
        env = {"HOME": self.home.name, "PATH": os.environ["PATH"], "SPOTCTL_URL": self.daemon.url,
               "SPOTCTL_TOKEN_FILE": self.token_file}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def run_it(self, *words, stdin="", env=None, code=0):
        p = subprocess.run([SPOTCTL[0], *words], input=stdin, capture_output=True, text=True, timeout=60,
                           env=env or self.env())
        self.assertEqual(p.returncode, code, "%s\nstdout: %s\nstderr: %s" % (words, p.stdout, p.stderr))
        return p

    def only_request(self):
        self.assertEqual(len(self.daemon.requests), 1, [(r.method, r.path) for r in self.daemon.requests])
        return self.daemon.requests[0]

    def rows(self, text):
        return [line.split("\t") for line in text.splitlines()]
