#!/usr/bin/env python3
"""A poll of all five clouds at the real catalog's size, in one pass: every region, every type, and the past as far as told.

Nothing may be refused for its rate, no statement may be slow, and the times are printed."""
import csv
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", ".."))
from support import e2e, postgres  # noqa: E402

DATA = os.path.join(HERE, "..", "..", "cloudsim", "data")
SLOW_S = 0.2  # on an idle machine, and not once: a busy one may delay any statement now and then
# Current prices, and rows of price history.
PRICES, HISTORY = 3400, 20000
# Days that the vendor tells (Azure: that the emulated cloud's record holds).
PAST_DAYS = {"aws": 89, "gcp": 350, "azure": 17}
ALL = ("aws", "gcp", "azure", "coreweave", "lambda")


# Regions of AWS that the emulated account has not opted into.
NOT_OPTED_IN = {"af-south-1", "ap-east-1", "me-south-1"}


def regions(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as f:
        return ",".join(sorted({r["region"] for r in csv.DictReader(f)} - NOT_OPTED_IN))


class Poll(e2e.Case):
    HOUR = {"pools": "6h", "regions": "6h", "spot": "1h", "on_demand": "6h", "signals": "6h", "quotas": "6h"}
    OPTIONS = {"providers": ALL, "regions": regions("aws_zones.csv"), "settings": {
        "market": HOUR, "engine": {"tick": "1s", "sweep": "10m", "watch": "10m"}, "provider gcp": {"regions": regions("gcp_zones.csv")},
        "provider azure": {"regions": regions("azure_pools.csv")}}}

    @classmethod
    def setUpClass(cls):
        cls.broken, cls.current_s, cls.late = False, None, e2e.Late()
        cls.world = e2e.World(**cls.OPTIONS)
        cls.began = time.monotonic()
        cls.sql("ALTER SYSTEM SET log_min_duration_statement = %d" % (SLOW_S * 1000))
        # The test measures statements, not how fast this machine's disk writes.
        cls.sql("ALTER SYSTEM SET synchronous_commit = off")
        cls.sql("ALTER SYSTEM SET fsync = off")
        cls.sql("SELECT pg_reload_conf()")

    @classmethod
    def sql(cls, text):
        r = subprocess.run([os.path.join(postgres.programs(), "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1",
                            postgres.local_dsn(os.path.join(cls.world.dir, "data"))], input="SET log_min_duration_statement = -1; " * (not text.startswith("ALTER")) + text, capture_output=True, text=True, timeout=60)
        if r.returncode != 0:
            raise e2e.Failure(r.stderr)
        return r.stdout.strip()

    def all_read(self):
        """Every feed came in, and nothing waits for pools that are not there yet."""
        left = self.sql("WITH sold AS MATERIALIZED (SELECT DISTINCT provider, region FROM pool) "
                        "SELECT provider || ' ' || feed || ' ' || count(*) || coalesce(': ' || max(last_error), '') FROM feed "
                        "WHERE last_ok_us IS NULL AND feed <> 'prices_past' AND NOT (feed IN ('prices_spot', 'prices_on_demand', 'signals') AND NOT EXISTS "
                        "(SELECT FROM sold p WHERE p.provider = feed.provider AND feed.region IN ('', p.region))) GROUP BY provider, feed")
        past = self.sql("SELECT p.provider || ': past of ' || count(*) || ' pools not asked for' FROM pool p WHERE p.market = 'spot' AND p.offered AND p.past_us IS NULL "
                        "AND EXISTS (SELECT FROM feed f WHERE f.provider = p.provider AND f.region IN ('', p.region) AND f.feed = 'prices_past') GROUP BY p.provider")
        if left == "" and self.current_s is None:
            self.current_s = time.monotonic() - self.began
        left += past
        self.left = left
        return left == "" and int(self.sql("SELECT count(DISTINCT p.provider) FROM pool_latest l JOIN pool p ON p.id = l.pool_id")) == len(ALL)

    def await_feeds(self, what, timeout_s):
        try:
            self.world.until(what, timeout_s, self.all_read)
        except e2e.Failure as e:
            self.fail("%s\n%s\n%s" % (e, self.left, self.world.log()[-2000:]))

    def slow(self):
        with open(os.path.join(self.world.dir, "data", "spotbroker", "postgres", "log"), encoding="utf-8", errors="replace") as f:
            found = re.findall(r"^.*?(\d\d:\d\d:\d\d).*duration: ([0-9.]+) ms +(.*(?:\n\t.*){0,4})", f.read(), re.M)
        limit_ms = self.late.limit(SLOW_S) * 1000
        found = [(second, float(ms), text) for second, ms, text in found if float(ms) > limit_ms]
        sys.stderr.write("  a statement is slow beyond %.0f ms on this machine\n" % limit_ms)
        return ["%.0f ms %s" % (ms, text) for _, ms, text in found
                if ms > 10 * limit_ms or len({second for second, _, other in found if other == text}) >= 3]

    def test_one_pass_over_five_clouds_and_their_past(self):
        w = self.world
        # Every provider is there at once, whatever its feeds wait for.
        w.until("a row for each provider", 5, lambda: {p["name"] for p in w.ctl_json("providers")["items"]} == set(ALL))
        self.await_feeds("the first pass", 1000)
        took = time.monotonic() - self.began
        current = int(self.sql("SELECT count(*) FROM pool_latest"))
        self.assertGreaterEqual(current, PRICES)
        rows = int(self.sql("SELECT sum(rows_seen) FROM feed WHERE feed IN ('prices_spot', 'prices_past')"))
        sys.stderr.write("\none pass %.1f s (%.1f s to the last current price): %d current prices, %d rows of history read, %s changes kept\n" % (
            took, self.current_s, current, rows, self.sql("SELECT count(*) FROM price_point")))
        for name, days in PAST_DAYS.items():
            oldest = self.sql("SELECT extract(epoch FROM now())::int8 - min(h.effective_us) / 1000000 FROM price_point h "
                              "JOIN pool p ON p.id = h.pool_id WHERE p.provider = '%s' AND p.market = 'spot'" % name)
            self.assertGreaterEqual(int(oldest), days * 86400, name)
        providers = w.ctl_json("providers")["items"]
        for p in providers:
            cost = self.sql("SELECT coalesce(sum(requests_last), 0) || ' ' || sum(rows_seen) FROM feed WHERE provider = '%s'" % p["name"]).split()
            refused = self.sql("SELECT count(*) FROM price_refused r JOIN pool o ON o.id = r.pool_id WHERE o.provider = '%s'" % p["name"])
            sys.stderr.write("  %-10s %5d pools  %6s rows  %5s requests  %d refused for their rate, %s prices not believed\n" % (
                p["name"], p["pools"], cost[1], cost[0], p["throttled"], refused))
            # Two may come closer together than they were sent.
            self.assertLessEqual(p["throttled"], 3 + int(cost[0]) // 100, p["name"])
        self.assertEqual(self.slow(), [])
        self.assertEqual(self.sql("SELECT r.why FROM price_refused r LIMIT 5"), "", "real prices were refused")
        self.assertGreaterEqual(rows, HISTORY)
        costs = {i["provider"]: i["amount"] for i in json.loads(w.spotctl("doctor", "-o", "json").stdout)["items"] if i["name"] == "poll cost"}
        self.assertEqual(set(costs), set(ALL))
        sys.stderr.write("  requests a day at these intervals: %s\n" % costs)


if __name__ == "__main__":
    e2e.main()
