"""Prices, pools, plans, providers, quotas, health, metrics, downloads."""
import hashlib
import os
import re
import tempfile
import time
import unittest
import lib

DIR = tempfile.TemporaryDirectory()
with open(os.path.join(DIR.name, "spot-agent"), "wb") as f:
    f.write(b"\x7fELF agent" * 1000)
A = lib.Apid([DIR.name])


class Market(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ids = [A.pool(provider="aws", zone="use1-az%d" % i, itype="p4d", gpu="A100-40GB", gpus=8, price=10 - i) for i in range(1, 6)]
        cls.od = A.pool(provider="aws", zone="use1-az1", itype="p4d", gpu="A100-40GB", gpus=8, market="on_demand", price=32.77)
        cls.lam = A.pool(provider="lambda", region="us-west-1", zone="", itype="gpu_1x_a100", gpu="A100-80GB", market="on_demand", price=1.29)
        cls.stale = A.pool(provider="aws", zone="use1-az6", itype="p4d", gpu="A100-40GB", gpus=8, price=1, state="stale", age_s=7200)
        cls.bare = A.pool(provider="aws", zone="use1-az7", itype="p4d", gpu="A100-40GB", gpus=8, price=None)

    def prices(self, q=""):
        return A.call("GET", "/v1/prices" + q, expect=200)[1]

    def test_prices_are_cheapest_first_in_exact_money(self):
        got = self.prices("?gpu=A100")["items"]
        self.assertEqual([p["price_micros"] for p in got], sorted(p["price_micros"] for p in got))
        self.assertEqual(len(got), 8)
        p = [p for p in got if p["market"] == "on_demand" and p["provider"] == "aws"][0]
        self.assertEqual((p["price_micros"], p["price_usd"], p["gpus"], p["price_per_gpu_micros"]), (32770000, 32.77, 8, 4096250))

    def test_prices_of_a_gpu_hour_are_cheapest_first_on_every_page(self):
        seen, cursor = [], ""
        while cursor is not None:
            got = self.prices("?sort=gpu_price&gpu=A100&limit=3" + (cursor and "&cursor=" + cursor))
            seen += got["items"]
            cursor = got["next"]
        self.assertEqual(sorted(p["id"] for p in seen), sorted(p["id"] for p in self.prices("?gpu=A100")["items"]))
        per_gpu = [p["price_per_gpu_micros"] for p in seen]
        self.assertEqual(per_gpu, sorted(per_gpu))
        self.assertNotEqual([p["price_micros"] for p in seen], sorted(p["price_micros"] for p in seen))
        A.call("GET", "/v1/prices?sort=name", expect=400)

    def test_pages_of_prices_hold_every_pool_once(self):
        seen, cursor = [], ""
        while cursor is not None:
            got = self.prices("?limit=3" + (cursor and "&cursor=" + cursor))
            seen += [p["id"] for p in got["items"]]
            cursor = got["next"]
        self.assertEqual(len(seen), len(set(seen)))
        self.assertEqual(len(seen), int(A.sql("SELECT count(*) FROM pool_latest")))

    def test_filters(self):
        n = lambda q: len(self.prices(q)["items"])
        self.assertEqual(n("?gpu=A100-80GB"), 1)
        self.assertEqual(n("?gpu=a100"), 8)
        self.assertEqual(n("?gpu=A10"), 0)
        self.assertEqual(n("?provider=lambda"), 1)
        self.assertEqual(n("?gpu=A100&market=spot&state=stale"), 1)
        self.assertEqual(n("?gpu=A100&max_usd=5.5"), 3)
        self.assertEqual(n("?zone=use1-az2&instance_type=p4d"), 1)
        self.assertEqual(n("?gpu=A100&region=us-west-1"), 1)

    def test_the_clouds_side_by_side_tell_age_source_interval_and_room(self):
        best, now = self.ids[-1], lib.now()
        A.sql("INSERT INTO signal VALUES ('aws','us-east-1','use1-az5','p4d','spot','placement_score',7,0,0,0,%d,'scores')" % now)
        rows = {i["gpu"]: i["offers"] for i in A.call("GET", "/v1/prices/gpus?gpu=A100", expect=200)[1]["items"]}
        self.assertEqual(sorted(rows), ["A100-40GB", "A100-80GB"])
        spot, on_demand = (next(o for o in rows["A100-40GB"] if o["pool"]["market"] == m) for m in ("spot", "on_demand"))
        self.assertEqual((spot["pool"]["id"], spot["per_gpu_micros"]), ("p%d" % best, 625000))
        self.assertEqual((on_demand["per_gpu_micros"], rows["A100-80GB"][0]["per_gpu_micros"]), (4096250, 1290000))
        for p in (spot["pool"], on_demand["pool"]):
            self.assertTrue(p["source"] and p["age_s"] is not None and p["hazard"]["source"])
            self.assertLess(p["hazard"]["lo"], p["hazard"]["hi"])
        self.assertIn("placement_score", [s["kind"] for s in spot["pool"]["signals"]])
        self.assertEqual(A.call("GET", "/v1/prices/gpus?provider=lambda", expect=200)[1]["items"][0]["gpu"], "A100-80GB")

    def test_a_stale_price_says_so_with_its_age(self):
        p = self.prices("?state=stale")["items"][0]
        self.assertEqual(p["price_state"], "stale")
        self.assertGreaterEqual(p["age_s"], 7200)

    def test_pools_show_hazard_signals_and_record(self):
        A.sql("INSERT INTO signal VALUES ('aws','us-east-1','','p4d','spot','advisor_bucket',2,0.1,0.15,0,%d,'advisor')" % lib.now())
        A.sql("INSERT INTO pool_day VALUES (%d, %d, 36000000000, 2, 3, 1)" % (self.ids[0], lib.now() // (86400 * lib.US)))
        A.sql("INSERT INTO pool_cool VALUES (%d, %d, 1, 'no_capacity', 'sold out', 1)" % (self.ids[0], lib.now() + lib.HOUR))
        p = A.call("GET", "/v1/pools/p%d" % self.ids[0], expect=200)[1]
        q = A.call("GET", "/v1/pools/p%d" % self.ids[1], expect=200)[1]
        self.assertEqual(p["record"], {"node_hours": 10, "reclaims": 2, "launches": 3, "refusals": 1})
        self.assertEqual((p["signals"][0]["kind"], p["cooling_why"]), ("advisor_bucket", "sold out"))
        self.assertGreater(p["hazard"]["per_hour"], q["hazard"]["per_hour"])
        self.assertLessEqual(p["hazard"]["lo"], p["hazard"]["per_hour"])
        self.assertGreater(q["hazard"]["per_hour"], 0)

    def test_a_hazard_follows_from_its_printed_parts_and_neighbours_have_it_too(self):
        mine, other = [A.pool(provider="gcp", region="r8", zone="r8-" + z, itype="mi", gpu="MI300X", gpus=8, price=9) for z in "ab"]
        far = A.call("GET", "/v1/pools/p%d" % other, expect=200)[1]["hazard"]
        hour = lib.now() // (3600 * lib.US)
        A.sql("INSERT INTO pool_day VALUES (%d, %d, 360000000000, 60, 6, 0)" % (mine, lib.now() // (86400 * lib.US)))
        A.sql("INSERT INTO pool_hour VALUES (%d, %d, 36000000000, 5, 2, 1)" % (mine, hour))
        p = A.call("GET", "/v1/pools/p%d" % mine, expect=200)[1]
        h, o = p["hazard"], p["launch_odds"]
        usual = (h["group_per_hour"] * h["weight_hours"] + h["own_reclaims"]) / (h["weight_hours"] + h["own_hours"])
        now = (usual * h["usual_weight_hours"] + h["recent_reclaims"]) / (h["usual_weight_hours"] + h["recent_hours"])
        self.assertAlmostEqual(h["usual_per_hour"], usual, 6)
        self.assertAlmostEqual(h["per_hour"], now * h["day_factor"], 6)
        self.assertGreater(h["own_reclaims"], 50)
        self.assertGreater(h["recent_reclaims"], 4)
        self.assertAlmostEqual(o["odds"], (o["signal"] * o["signal_weight"] + o["group"] * o["group_weight"] + o["own_launches"]) /
                               (o["signal_weight"] + o["group_weight"] + o["own_launches"] + o["own_refusals"]), 6)
        self.assertGreater(o["own_launches"], 1.5)
        near = A.call("GET", "/v1/pools/p%d" % other, expect=200)[1]["hazard"]
        self.assertGreater(near["group_per_hour"], far["group_per_hour"])
        self.assertEqual(near["source"], "neighbours and prior")

    def test_pools_without_a_price_are_listed_as_such(self):
        p = A.call("GET", "/v1/pools/p%d" % self.bare, expect=200)[1]
        self.assertEqual((p["price_micros"], p["price_state"], p["observed_at"]), (None, "none", None))
        seen, cursor = [], ""
        while cursor is not None:
            got = A.call("GET", "/v1/pools?limit=4" + (cursor and "&cursor=" + cursor), expect=200)[1]
            seen += [p["id"] for p in got["items"]]
            cursor = got["next"]
        self.assertIn("p%d" % self.bare, seen)
        self.assertEqual(len(seen), len(set(seen)))

    def test_history(self):
        t = lib.now()
        A.sql("SELECT price_partitions_ensure(%d, %d)" % (t - 3 * 86400 * lib.US, t + 86400 * lib.US))
        for i, price in enumerate((5000000, 6000000)):
            A.sql("INSERT INTO price_point VALUES (%d, %d, %d, %d, 'test')" % (self.ids[2], t - (2 - i) * lib.HOUR, t, price))
        h = A.call("GET", "/v1/pools/p%d?history=7d" % self.ids[2], expect=200)[1]["history"]
        self.assertEqual([x["price_micros"] for x in h], [5000000, 6000000])
        # The history includes the price in force when the period began.
        held = A.call("GET", "/v1/pools/p%d?history=30m" % self.ids[2], expect=200)[1]["history"]
        self.assertEqual([x["price_micros"] for x in held], [6000000])
        A.call("GET", "/v1/pools/p99999", expect=404)

    def test_a_plan_ranks_and_explains(self):
        p = A.call("POST", "/v1/plan", "name: x\nresources:\n  accelerators: A100:8\nrun: y\n", expect=200)[1]
        self.assertEqual([o["rank"] for o in p["offers"]], list(range(1, len(p["offers"]) + 1)))
        totals = [o["total_micros"] for o in p["offers"]]
        self.assertEqual(totals, sorted(totals))
        self.assertTrue(p["offers"][0]["chosen"])
        self.assertTrue(all(r["why"] for r in p["refused"]))
        for o in p["offers"]:
            self.assertEqual(o["total_micros"], o["compute_micros"] + o["egress_micros"])
        again = A.call("POST", "/v1/plan", "name: x\nresources:\n  accelerators: A100:8\nrun: y\n", expect=200)[1]
        self.assertEqual([o["pool"]["id"] for o in p["offers"]], [o["pool"]["id"] for o in again["offers"]])
        self.assertEqual(A.sql("SELECT count(*) FROM job"), "0")

    def test_a_plan_without_offers_says_why(self):
        p = A.call("POST", "/v1/plan", "name: x\nresources:\n  accelerators: H200:8\nrun: y\n", expect=200)[1]
        self.assertEqual((p["offers"], p["offers_known"]), ([], 0))
        self.assertIn("no pool", p["note"])

    def test_providers_and_quotas(self):
        A.sql("INSERT INTO provider (name, kind, state, updated_us) VALUES ('aws', 'aws', 'ok', %d)" % lib.now())
        A.sql("INSERT INTO feed (provider, region, feed, last_ok_us, next_us) VALUES ('aws', 'us-east-1', 'prices_spot', %d, 5)" % (lib.now() - 60 * lib.US))
        A.sql("INSERT INTO quota VALUES ('aws', 'us-east-1', 'P/Spot', 'spot', 'vcpu', -1, %d), ('aws', 'us-east-2', 'P/Spot', 'spot', 'vcpu', 64, %d)" % (lib.now(), lib.now()))
        p = A.call("GET", "/v1/providers", expect=200)[1]["items"][0]
        self.assertEqual((p["name"], p["state"], p["feeds"][0]["feed"]), ("aws", "ok", "prices_spot"))
        self.assertGreaterEqual(p["feeds"][0]["age_s"], 60)
        self.assertEqual([q["limit"] for q in A.call("GET", "/v1/quotas", expect=200)[1]["items"]], [None, 64])
        self.assertEqual(len(A.call("GET", "/v1/quotas?region=us-east-2", expect=200)[1]["items"]), 1)


    def test_backtest_tells_supply_and_prices_by_when_they_held(self):
        od = A.pool(zone="btod", itype="g5.xlarge", market="on_demand", gpu="A10G", price=1.0)
        spot = A.pool(zone="bts", itype="g5.xlarge", gpu="A10G", price=0.4)
        self.assertTrue(od)
        tick = 600 * lib.US
        t = lib.now() // tick * tick
        A.sql("SELECT price_partitions_ensure(%d, %d)" % (t - 3 * 86400 * lib.US, t + 86400 * lib.US))
        for i, (ago, price) in enumerate(((30, 300000), (4, 500000))):
            A.sql("INSERT INTO price_point VALUES (%d, %d, %d, %d, 'test')" % (spot, t - 1000 + i, t - ago * tick, price))
        # Refused five ticks ago: down for half an hour; had before that.
        for created, launched, ended, cause in ((20, 20, 6, "released"), (5, None, 5, "refused")):
            A.sql("INSERT INTO node (pool_id, state, state_us, token, name, price_micros, created_us, launched_us, ended_us, end_cause) "
                  "VALUES (%d, 'GONE', 0, 'bt%d', 'bt%d', 1, %d, %s, %d, '%s')" % (spot, created, created, t - created * tick,
                  "NULL" if launched is None else t - launched * tick, t - ended * tick, cause))
        job = "resources: {accelerators: 'A10G:1'}\nrun: x\nconfig: {spotctl: {work: 1h, deadline: 2h}}\n"
        at = lambda us: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(us / lib.US))
        r = A.call("POST", "/v1/backtest?from=%s&to=%s" % (at(t - 10 * tick), at(t)), job, expect=200)[1]
        p = r["pools"][0]
        self.assertEqual((p["id"], p["tried"], p["up"]), ("p%d" % spot, True, "1111100011"))
        self.assertEqual(p["prices"], [[0, 300000], [6, 500000]])
        self.assertEqual((p["rounds"], r["round_s"], r["pools_known"], r["transfer_micros"]), ([0], 86400, 1, 0))
        self.assertEqual((r["tick_s"], r["on_demand_micros"]), (600, 1000000))
        self.assertAlmostEqual(r["deadline_us"], 2 * lib.HOUR, delta=5 * lib.US)
        A.call("POST", "/v1/backtest?from=2099-01-01T00:00:00Z", job, expect=400)
        A.call("POST", "/v1/backtest", "num_nodes: 2\n" + job, expect=400)

    @staticmethod
    def past(pool, t, *changes):
        """(ticks of ten minutes ago, micro-dollars)"""
        A.sql("SELECT price_partitions_ensure(%d, %d)" % (t - 3 * 86400 * lib.US, t + 86400 * lib.US))
        for i, (ago, micros) in enumerate(changes):
            A.sql("INSERT INTO price_point VALUES (%d, %d, %d, %d, 'test')" % (pool, t - 1000 + i, t - ago * 600 * lib.US, micros))

    def test_backtest_picks_by_the_prices_of_the_time(self):
        at = lambda us: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(us / lib.US))
        t = lib.now() // lib.HOUR * lib.HOUR
        od = A.pool(region="eu-west-1", zone="bp", itype="g6e.xlarge", market="on_demand", gpu="L40S", price=2.0)
        self.past(od, t, (400, 1500000), (3, 2000000))
        ids = [A.pool(region="eu-west-1" if i % 2 else "eu-north-1", zone="bp%d" % i, itype="g6e.xlarge", gpu="L40S", price=0.9) for i in range(5)]
        for i, p in enumerate(ids):
            self.past(p, t, (400, 500000 + i))
        # The best of today: dear when the first two rounds begin, cheap in the second half of the last one.
        late = A.pool(region="eu-west-1", zone="bplate", itype="g6e.xlarge", gpu="L40S", price=0.1)
        self.past(late, t, (400, 900000), (20, 100000))
        # One that the second round finds; in the first one it is the sixth.
        second = A.pool(region="eu-west-1", zone="bpsecond", itype="g6e.xlarge", gpu="L40S", price=0.4)
        self.past(second, t, (400, 800000), (200, 400000))
        job = "resources: {accelerators: 'L40S:1'}\nrun: x\nconfig: {spotctl: {work: 1h, checkpoint: {path: c, size_gb: 40}}}\n"
        path = "/v1/backtest?from=%s&to=%s" % (at(t - 288 * 600 * lib.US), at(t))
        r = A.call("POST", path, job, expect=200)[1]
        self.assertEqual([(p["id"], p["rounds"]) for p in r["pools"]],
                         [("p%d" % p, [0, 1] if i < 4 else [0]) for i, p in enumerate(ids)] + [("p%d" % second, [1])])
        self.assertEqual((r["on_demand_micros"], r["pools_known"], r["deadline_us"]), (1500000, 7, 0))
        self.assertEqual({(p["tried"], p["up"]) for p in r["pools"]}, {(False, "?" * 288)})
        self.assertTrue(all(p["hazard_per_hour"] > 0 and 0 < p["launch_odds"] < 1 for p in r["pools"]))
        # 40 GB between two regions of one cloud, at most 2 cents a GB or so; not said how big: nothing.
        self.assertGreater(r["transfer_micros"], 100000)
        self.assertEqual(r["checkpoint_bytes"], 40000000000)
        self.assertEqual(A.call("POST", path, job.replace(", size_gb: 40", ""), expect=200)[1]["transfer_micros"], 0)
        # A change after the last round has begun changes no pick.
        A.sql("UPDATE price_point SET price_micros = 1 WHERE pool_id = %d AND effective_us > %d" % (late, t - 144 * 600 * lib.US))
        again = A.call("POST", path, job, expect=200)[1]
        self.assertEqual([(p["id"], p["rounds"]) for p in again["pools"]], [(p["id"], p["rounds"]) for p in r["pools"]])

    def test_backtest_falls_back_on_a_machine_that_is_in_time(self):
        slow = A.pool(region="sa-east-1", zone="bf1", itype="g4dn.xlarge", market="on_demand", gpu="T4", price=0.2)
        fast = A.pool(region="sa-east-1", zone="bf2", itype="p5.4xlarge", market="on_demand", gpu="H100-80GB-SXM", price=9.0)
        spot = A.pool(region="sa-east-1", zone="bf3", itype="p5.4xlarge", gpu="H100-80GB-SXM", price=1.0)
        self.past(spot, lib.now(), (300, 1000000))
        self.assertTrue(slow and fast)
        job = "resources: {region: sa-east-1, accelerators: {T4: 1, H100: 1}}\nrun: x\nconfig: {spotctl: {work: 4h, checkpoint: {path: c}}}\n"
        r = A.call("POST", "/v1/backtest?from=%s" % time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(lib.now() / lib.US - 86400)), job, expect=200)[1]
        self.assertEqual((r["on_demand_type"], r["deadline_us"]), ("g4dn.xlarge", 0))
        r = A.call("POST", "/v1/backtest?deadline_s=7200", job, expect=200)[1]
        self.assertEqual((r["on_demand_type"], r["deadline_us"]), ("p5.4xlarge", 2 * lib.HOUR))
        A.call("POST", "/v1/backtest?deadline_s=-1", job, expect=400)

    def test_supply(self):
        A.sql("INSERT INTO supply_state VALUES ('aws', 'us-east-1', 'A10G', 'tight', %d, 0, 0.41, '{\"refusals\": 0.41}', 'refused', %d),"
              " ('aws', 'us-east-2', 'A10G', 'easy', %d, 0, 0.01, '{}', 'calm', %d)" % ((lib.now(),) * 4))
        items = A.call("GET", "/v1/supply", expect=200)[1]["items"]
        self.assertEqual([(s["region"], s["state"], s["index"]) for s in items], [("us-east-1", "tight", 0.41), ("us-east-2", "easy", 0.01)])
        self.assertEqual(len(A.call("GET", "/v1/supply?state=easy&gpu=a10", expect=200)[1]["items"]), 1)
        self.assertIn("easy, tight", A.call("GET", "/v1/supply?state=scarce", expect=400)[1]["detail"])


class Rest(unittest.TestCase):
    def test_health_and_readiness(self):
        self.assertEqual(A.call("GET", "/healthz", token=None, expect=200)[1], b"ok\n")
        r = A.call("GET", "/readyz", token=None, expect=200)[1]
        self.assertEqual((r["ready"], r["engine"]), (True, False))
        A.sql("INSERT INTO leader VALUES ('engine', 1, 'me', %d)" % (lib.now() + lib.HOUR))
        self.assertTrue(A.call("GET", "/readyz", token=None, expect=200)[1]["engine"])

    def test_waiting_and_deferred_jobs_are_told_apart(self):
        pool = A.pool(zone="deferred", gpu="V100")
        first, later = int(A.job()["id"][1:]), int(A.job()["id"][1:])
        A.sql("UPDATE pool SET offered = false WHERE id = %d" % pool)
        A.sql("UPDATE job SET team = 'waits', queued_us = %d WHERE id IN (%d, %d)" % (lib.now() - 3600 * lib.US, first, later))
        A.sql("UPDATE job SET not_before_us = %d WHERE id = %d" % (lib.now() + lib.HOUR, later))
        text = A.call("GET", "/metrics", token=None, expect=200)[1].decode()
        self.assertRegex(text, r'spot_queue_wait_seconds_max{team="waits"} 36\d\d')
        self.assertIn('spot_deferred_jobs{team="waits"} 1\n', text)
        A.sql("UPDATE job SET not_before_us = %d WHERE id = %d" % (lib.now() + lib.HOUR, first))
        text = A.call("GET", "/metrics", token=None, expect=200)[1].decode()
        self.assertNotIn('spot_queue_wait_seconds_max{team="waits"}', text)

    def test_parked_jobs_and_what_is_left_of_budgets_are_told_per_team(self):
        pool = A.pool(zone="parked", gpu="V100")
        jobs = [A.job(lib.JOB + "config: {spotctl: {team: thrift, budget: %s, checkpoint: {path: c}}}\n" % b)["id"] for b in ("25", "12.5", "3")]
        A.sql("UPDATE pool SET offered = false WHERE id = %d" % pool)
        A.sql("UPDATE job SET state = 'PARKED' WHERE id = %s; UPDATE job SET state = 'FAILED' WHERE id = %s" % (jobs[1][1:], jobs[2][1:]))
        text = A.call("GET", "/metrics", token=None, expect=200)[1].decode()
        self.assertIn('spot_parked_jobs{team="thrift"} 1\n', text)
        self.assertIn('spot_budget_left_usd_min{team="thrift"} 12.5\n', text)  # of those that are not over

    def test_metrics_are_well_formed(self):
        A.call("GET", "/v1/nothing", expect=404)
        text = A.call("GET", "/metrics", token=None, expect=200)[1].decode()
        names = set()
        for line in text.strip().split("\n"):
            if not line.startswith("#"):
                self.assertRegex(line, r'^[a-z_]+(\{([a-z_]+="[^"]*",?)*\})? [-+0-9.einfEINF]+$')
                names.add(line.split("{")[0].split(" ")[0])
        for n in ("spot_up", "spot_prices", "spot_price_age_seconds_max", "spot_http_requests_total", "spot_pg_statements_total",
                  "spot_http_request_seconds_bucket", "spot_http_parked", "spot_launches_total", "spot_deadline_jobs"):
            self.assertIn(n, names)
        helped = re.findall(r"^# HELP ([a-z_]+) .", text, re.M)
        typed = re.findall(r"^# TYPE ([a-z_]+) ", text, re.M)
        self.assertEqual(helped, typed, "every metric says what it is, once")
        self.assertEqual(len(typed), len(set(typed)))
        self.assertIn('status="4xx"', text)

    def test_version(self):
        v = A.call("GET", "/v1/version", token=None, expect=200)[1]
        self.assertEqual((v["install"], v["version"]), ("deadbeef", "test"))

    def test_downloads(self):
        s, data, h = A.call("GET", "/v1/agent/download/spot-agent", token=None, expect=200)
        self.assertEqual(hashlib.sha256(data).hexdigest(), h["x-sha256"])
        for bad in ("spot-nvml", "passwd", "..", "%2e%2e", "spot-agent/x"):
            A.call("GET", "/v1/agent/download/" + bad, token=None, expect=404)

    def test_a_node_that_says_what_it_wants_gets_just_that(self):
        mine = A.call("GET", "/v1/agent/download/spot-agent", token=None, expect=200)[2]["x-sha256"]
        other = hashlib.sha256(b"another").hexdigest()
        A.sql("INSERT INTO agent_binary VALUES ('%s', 'another', 1)" % other)
        for pin, code, size in ((mine, 200, None), (other, 200, 7), ("0" * 64, 404, None), ("x", 400, None)):
            s, data, h = A.call("GET", "/v1/agent/download/spot-agent", token=None, headers={"X-Sha256": pin}, expect=code)
            if code == 200:
                self.assertEqual((hashlib.sha256(data).hexdigest(), h["x-sha256"]), (pin, pin))
                self.assertEqual(len(data), size or len(data))

    def test_head_is_get_without_a_body(self):
        s, data, h = A.raw("HEAD", "/v1/version")
        self.assertEqual((s, data), (200, b""))
        self.assertGreater(int(h["content-length"]), 10)

    def test_the_database_away_gives_503_and_recovers(self):
        A.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'apid'")
        codes = []

        def serves():
            codes.append(A.call("GET", "/v1/whoami")[0])
            return codes[-1] == 200
        A.until(serves, "the daemon serves again")
        self.assertTrue(set(codes) <= {200, 502, 503, 504}, codes)
        self.assertEqual(A.call("GET", "/healthz", token=None)[0], 200)


if __name__ == "__main__":
    lib.main()
