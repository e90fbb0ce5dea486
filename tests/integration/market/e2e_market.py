#!/usr/bin/env python3
"""Price feeds that lie, stand still or fall silent."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402


class Market(e2e.Case):
    OPTIONS = {"regions": "us-east-1,us-west-2", "settings": {"market": {"spot": "1s", "frozen": "6s", "on_demand": "5s"}}}

    def listed(self, *words):
        return {p["id"]: p for p in self.world.ctl_json("prices", *words)["items"]}

    def pool_of(self, gpu, **want):
        return next(p for p in self.world.api("GET", "/v1/prices?gpu=%s&limit=1000" % gpu)["items"] if all(p[k] == v for k, v in want.items()))

    def test_a_b200_for_a_cent_is_shown_as_implausible_and_not_chosen(self):
        w = self.world
        pools = [self.pool_of("B200", provider="aws", market="spot"), self.pool_of("B200", provider="lambda")]
        for p in pools:
            w.sim("POST", "/price", {"pool": w.pool_text(p), "usd": 0.01})
        for p in pools:
            got = w.until("%s at a cent is refused" % p["id"], 40, lambda: self.listed("--gpu", "B200", "--state", "implausible").get(p["id"]))
            self.assertEqual(got["price_micros"], p["price_micros"], "the absurd price replaced the good one")
            self.assertIn("0.01", got["price_why"])
        table = w.ctl("prices", "--gpu", "B200", "--state", "implausible")
        self.assertIn("implausible", table)
        plan = w.api("POST", "/v1/plan", "name: x\nresources: {accelerators: {B200: %d}, use_spot: true}\nrun: a\n" % pools[0]["gpus"],
                     headers={"Content-Type": "application/yaml"})
        self.assertNotIn(pools[0]["id"], [o["pool"]["id"] for o in plan["offers"]])
        self.assertIn("implausible", next(str(r["why"]) for r in plan["refused"] if pools[0]["id"] in str(r["pool"])))
        # A believable price ends it.
        for p in pools:
            w.sim("POST", "/price", {"pool": w.pool_text(p), "usd": p["price_micros"] / 1e6 * 1.01})
        w.until("both are believed again", 40, lambda: not set(self.listed("--gpu", "B200", "--state", "implausible")) & {p["id"] for p in pools})

    def test_frozen_and_silent_feeds_are_told_apart(self):
        w = self.world
        still = self.pool_of("L4", provider="aws", market="spot", region="us-east-1")
        w.until("a price that never moves is frozen", 40, lambda: still["id"] in self.listed("--gpu", "L4", "--state", "frozen"))
        w.sim("POST", "/price", {"pool": w.pool_text(still), "usd": still["price_micros"] / 1e6 * 1.1})
        w.until("it moved: fresh", 30, lambda: still["id"] in self.listed("--gpu", "L4", "--state", "fresh"))
        w.sim("POST", "/fault", {"match": {"service": "ec2", "action": "DescribeSpotPriceHistory", "region": "us-west-2"}, "kind": "status",
                                 "status": 503, "code": "Unavailable", "count": -1})
        silent = self.pool_of("L4", provider="aws", market="spot", region="us-west-2")
        got = w.until("a silent feed makes its prices stale", 40, lambda: self.listed("--gpu", "L4", "--state", "stale").get(silent["id"]))
        self.assertIn("silent", got["price_why"])
        w.until("only the silent region is stale", 60, lambda: still["id"] not in self.listed("--gpu", "L4", "--state", "stale"))
        self.assertIn("stale", w.ctl("prices", "--gpu", "L4", "--state", "stale"))

        def failing():
            feeds = next(p for p in w.ctl_json("providers")["items"] if p["name"] == "aws")["feeds"]
            return [f for f in feeds if f["fails"] > 0 and f["last_error"]]
        # A call repeats an unavailable request for as long as it may; then the feed counts as failed, with the vendor's
        # words.
        self.assertEqual({(f["region"], f["feed"]) for f in w.until("a failed feed", 60, failing)}, {("us-west-2", "prices_spot")})
        w.sim("DELETE", "/fault")
        w.until("the feed speaks again", 60, lambda: silent["id"] not in self.listed("--gpu", "L4", "--state", "stale"))
        # The poll's cost is written beside it.
        for f in next(p for p in w.ctl_json("providers")["items"] if p["name"] == "aws")["feeds"]:
            if f["feed"] == "prices_spot":
                self.assertGreaterEqual(f["requests_last"], 1, f)
                self.assertEqual(f["interval_s"], 1, f)

    def test_a_silence_stays_empty_in_the_history(self):
        w = self.world
        pool = self.pool_of("A10", provider="lambda")
        show = lambda: w.api("GET", "/v1/pools/%s?history=1d" % pool["id"])
        self.assertEqual(show()["gaps"], [])
        w.sim("POST", "/fault", {"match": {"service": "lambda", "action": "GET /instance-types"}, "kind": "status", "status": 503, "code": "x", "count": -1})
        w.until("a silent feed makes its prices stale", 60, lambda: pool["id"] in self.listed("--gpu", "A10", "--state", "stale"))
        w.sim("DELETE", "/fault")
        gap = w.until("the feed speaks again and the silence is known", 60, lambda: show()["gaps"])[0]
        self.assertGreater(e2e.micros(gap["to_at"]) - e2e.micros(gap["from_at"]), 15000000)
        self.assertIn("USD/h  min", w.ctl("pools", "show", pool["id"], "--history", "1h"))

    def test_refused_prices_are_kept_with_their_reason(self):
        w = self.world
        pool = self.pool_of("T4", provider="aws", market="spot")
        w.sim("POST", "/price", {"pool": w.pool_text(pool), "usd": pool["price_micros"] / 1e6 * 30})
        got = w.until("it is refused", 40, lambda: [r for r in w.ctl_json("prices", "--refused", "--gpu", "T4")["items"] if r["pool"]["id"] == pool["id"]])[0]
        self.assertRegex(got["why"], "jump|on-demand")
        self.assertEqual(got["pool"]["price_micros"], pool["price_micros"])
        self.assertIn(pool["id"], w.ctl("prices", "--refused"))
        w.sim("POST", "/price", {"pool": w.pool_text(pool), "usd": pool["price_micros"] / 1e6 * 1.01})


if __name__ == "__main__":
    e2e.main()
