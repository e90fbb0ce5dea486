"""POST /v1/fleets/plan: the printed rows add up to the sums, and the plan names each obstacle."""
import unittest
import lib

A = lib.Apid()
FILE = {"name": "draft", "nodes": 6, "resources": {"accelerators": "A100-80GB:1"}, "pools_min": 1, "risk": 0}


def plan(**more):
    return A.call("POST", "/v1/fleets/plan", dict(FILE, **more), expect=200)[1]


class FleetPlan(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.spot = [A.pool(zone="use1-az%d" % (i + 1), itype="a", gpu="A100-80GB", price=1.0 + i / 10) for i in range(3)]
        cls.od = A.pool(zone="use1-az1", itype="a", gpu="A100-80GB", market="on_demand", price=3.0)

    def nodes(self, p):
        return {r["pool"]: r["add"] for r in p["pool_list"]}

    def check_sums(self, p):
        """By hand: dollars per work hour times nodes, risk, total, gap."""
        cost = sum(r["work_micros"] * (r["held"] + r["add"] - r["give_back"]) for r in p["pool_list"])
        self.assertAlmostEqual(p["cost_micros"], cost, delta=5)
        self.assertEqual(p["total_micros"], p["cost_micros"] + p["risk_micros"])
        self.assertAlmostEqual(p["risk_micros"], p["lost_together_per_hour"] * p["risk_price_micros"], delta=5)
        self.assertAlmostEqual(p["gap"], (p["total_micros"] - p["bound_micros"]) / p["total_micros"], delta=1e-5)
        self.assertEqual(p["hourly_micros"], sum(r["price_micros"] * r["add"] for r in p["pool_list"]))
        self.assertEqual(sum(r["add"] for r in p["pool_list"]), p["want"] - p["missing"])
        self.assertTrue(p["proved"] and p["gap"] == 0 or p["bound_micros"] <= p["total_micros"])

    def test_the_cheapest_and_what_risk_does_to_it(self):
        p = plan()
        self.check_sums(p)
        self.assertEqual((self.nodes(p), p["missing"], p["proved"]), ({"p%d" % self.spot[0]: 6}, 0, True))
        q = plan(risk=100)
        self.check_sums(q)
        self.assertGreaterEqual(len(q["pool_list"]), 2)
        self.assertGreater(q["risk_micros"], 0)
        # Weighed with its own price of risk, the one pool would be dearer.
        alone = plan(risk=100, limits={"per_zone": 6}, nodes=6, pools_min=1)
        self.assertEqual(alone["total_micros"], q["total_micros"])

    def test_limits_are_kept_and_named(self):
        p = plan(limits={"per_zone": 2})
        self.check_sums(p)
        self.assertEqual(self.nodes(p), {"p%d" % i: 2 for i in self.spot})
        p = plan(limits={"per_zone": 1})
        self.assertEqual(p["missing"], 3)
        self.assertEqual({x["limit"] for x in p["limits"]}, {"limits.per_zone"})
        self.assertEqual(len(p["limits"]), 3)
        self.assertIn("limits.per_zone aws", p["why"])
        p = plan(limits={"per_gpu": 4})
        self.assertEqual((p["missing"], p["limits"][0]["limit"], p["limits"][0]["where"]), (2, "limits.per_gpu", "A100-80GB"))
        self.assertEqual(plan(limits={"per_region": 5})["missing"], 1)
        self.assertEqual(plan(limits={"per_provider": 5})["missing"], 1)

    def test_the_floor_as_a_share(self):
        p = plan(on_demand_floor="20%")
        self.check_sums(p)
        self.assertEqual(self.nodes(p)["p%d" % self.od], 2)
        self.assertEqual((p["floor_want"], p["floor_have"]), (1.2, 2.0))

    def test_work_in_terms_of_another_gpu(self):
        p = A.call("POST", "/v1/fleets/plan", {
            "name": "w", "gpus": {"H100": 4}, "resources": FILE["resources"], "pools_min": 1}, expect=200)[1]
        self.assertEqual((p["unit"], p["gpus_of"], p["want"]), ("gpus", "H100", 4.0))
        self.assertGreater(sum(self.nodes(p).values()), 4)

    def test_nothing_is_started_and_bad_files_are_refused(self):
        plan()
        self.assertEqual(A.sql("SELECT count(*) FROM node"), "0")
        self.assertEqual(A.sql("SELECT count(*) FROM fleet WHERE name = 'draft'"), "0")
        for more in ({"on_demand_floor": "120%"}, {"risk": "much"}, {"gpus": {"ZX81": 1}}, {"limits": {"per_rack": 1}}):
            A.call("POST", "/v1/fleets/plan", dict(FILE, **more), expect=400)
        A.call("POST", "/v1/fleets/plan", b"", expect=400)

    def test_no_pool_suits(self):
        p = plan(resources={"accelerators": "V100:8"})
        self.assertEqual((p["missing"], p["pool_list"], p["gap"]), (6, [], 0))
        self.assertIn("no pool suits", p["why"])


if __name__ == "__main__":
    lib.main()
