"""Cost: sums of the ledger by dimension, and the cost of the baselines."""
import unittest
import lib

A = lib.Apid()


class Cost(unittest.TestCase):
    def test_sums_by_dimension_and_against_the_baselines(self):
        j = int(A.job(lib.JOB + "config:\n  spotctl:\n    team: money\n    project: pm\n")["id"][1:])
        n, _ = A.node(A.pool(zone="cost"))
        t = lib.now() - lib.HOUR
        for kind, a, b, amount, rev in [("boot", 0, 60, 20000, None), ("compute", 60, 3600, 980000, None),
                                        ("idle", 3600, 3700, 30000, None)]:
            A.sql("INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, team, project, class, from_us, to_us, "
                  "price_micros, price_observed_us, amount_micros) SELECT 1, '%s', id, pool_id, 'spot', %d, 1, 'money', 'pm', "
                  "'training', %d, %d, 1000000, 0, %d FROM node WHERE id = %d"
                  % (kind, j, t + a * lib.US, t + b * lib.US, amount, n))
        A.sql("UPDATE job SET baseline = '{\"on_demand\":{\"pool\":\"p1\",\"provider\":\"aws\",\"instance_type\":\"p3\",\"market\":\"on_demand\","
              "\"gpu\":\"V100\",\"gpu_milli\":1000,\"price_micros\":4000000},\"cheapest\":null}' WHERE id = %d" % j)
        c = A.call("GET", "/v1/jobs/%d/cost" % j, expect=200)[1]
        self.assertEqual((c["total_micros"], len(c["items"])), (1030000, 3))
        # 3540 s of compute on the same GPU, at the on-demand price of the submit
        self.assertEqual([(s["baseline"], s["baseline_micros"], s["saved_micros"]) for s in c["savings"]],
                         [("on-demand", 3933333, 3933333 - 1030000)])
        self.assertAlmostEqual(c["savings"][0]["saved_pct"], 73.81, 2)
        got = A.call("GET", "/v1/cost?by=team,project&since=2h", expect=200)[1]
        row = [r for r in got["rows"] if r["team"] == "money"][0]
        self.assertEqual((row["project"], row["compute_micros"], row["boot_micros"], row["idle_micros"], row["total_micros"]),
                         ("pm", 980000, 20000, 30000, 1030000))
        got = A.call("GET", "/v1/cost?by=kind&until=2001-01-01T00:00:00Z", expect=200)[1]
        self.assertEqual((got["rows"], got["totals"]["total_micros"]), ([], 0))
        every = A.call("GET", "/v1/cost?by=team,project,class,provider,gpu,job,market,kind", expect=200)[1]
        self.assertEqual(sum(r["total_micros"] for r in every["rows"]), every["totals"]["total_micros"])
        self.assertEqual(A.call("GET", "/v1/jobs/%d" % j, expect=200)[1]["cost_usd"], 1.03)


if __name__ == "__main__":
    lib.main()
