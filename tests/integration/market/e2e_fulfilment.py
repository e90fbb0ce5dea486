#!/usr/bin/env python3
"""AWS's fulfilment rates through the real path: Capacity Manager, the signals' poll, the plan, the pools, the doctor."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

FILE = """name: filled
resources:
  accelerators: {A10G: 1}
  use_spot: true
run: sleep 1
config:
  spotctl: {work: 2h, checkpoint: {path: c}}
"""


class Fulfilment(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}

    def offers(self):
        """The plan's offers of one type, the best first, by zone."""
        return {o["pool"]["zone"]: o for o in self.world.ctl_json("plan", "-", text=FILE)["offers"]
                if (o["pool"]["market"], o["pool"]["instance_type"]) == ("spot", "g5.xlarge")}

    def ask(self, zone, fulfilled):
        self.world.sim("POST", "/aws/fulfilment", {"region": "us-east-1", "zone": zone, "type": "g5.xlarge", "requested": 40, "fulfilled": fulfilled})

    def test_of_two_equal_pools_the_one_that_the_account_does_not_get_comes_second(self):
        w = self.world
        w.prices()
        usd = min(o["pool"]["price_micros"] for o in self.offers().values()) / 1e6
        for o in self.offers().values():
            w.sim("POST", "/price", {"pool": w.pool_text(o["pool"]), "usd": usd})
        equal = lambda: len({(o["total_micros"], o["launch_odds"]) for o in self.offers().values()}) == 1
        w.until("the pools are equal", 60, equal)
        bad, good = list(self.offers())[:2]
        self.assertIn("enable-capacity-manager --region us-east-1", w.ctl("doctor", "aws"))

        w.sim("POST", "/aws/capacity-manager", {"region": "us-east-1"})
        self.ask(bad, 0)
        self.ask(good, 40)
        # Its data come by the hour. A daemon that starts asks at once.
        w.stop_daemon()
        w.start_daemon()
        w.until("the rates are known", 60, lambda: self.offers()[bad]["terms"]["odds_source"] == "fulfilment rate")
        after = self.offers()
        zones = list(after)
        self.assertEqual((zones[0], zones[-1]), (good, bad))
        self.assertGreater(after[good]["launch_odds"], 0.8)
        self.assertLess(after[bad]["launch_odds"], 0.3)
        self.assertEqual(after[bad]["total_micros"], after[good]["total_micros"])
        self.assertGreater(after[bad]["hours_to_finish"], after[good]["hours_to_finish"])
        self.assertIn("fulfilment rate", w.ctl("plan", "-", "-o", "wide", text=FILE))

        pool = w.ctl_json("pools", "show", after[bad]["pool"]["id"])
        odds, signal = pool["launch_odds"], next(s for s in pool["signals"] if s["kind"] == "fulfilment")
        self.assertEqual((odds["account"], signal["value"], signal["source"]), (0, 0, "GetCapacityManagerMetricData"))
        parts = ("signal", "account", "group")
        self.assertAlmostEqual(odds["odds"] * (sum(odds[p + "_weight"] for p in parts) + odds["own_launches"] + odds["own_refusals"]),
                               sum(odds[p] * odds[p + "_weight"] for p in parts) + odds["own_launches"], 6)
        self.assertRegex(w.ctl("pools", "--gpu", "A10G", "-o", "wide"), "filled 0 % of 10")
        self.assertIn("newest data of", w.ctl("doctor", "aws"))


if __name__ == "__main__":
    e2e.main()
