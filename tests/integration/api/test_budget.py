"""Budgets of jobs: stored at submit, shown, changed. There is no engine here: SQL writes the engine's rows."""
import unittest
import lib

A = lib.Apid()
SAVES = "config: {spotctl: {%scheckpoint: {path: c}}}\n"


def job(budget=None, more="", token=""):
    return A.job(lib.JOB + SAVES % ("%s%s" % ("budget: %s, " % budget if budget else "", more)), token=token)


def patch(j, amount, expect=200, token=""):
    return A.call("PATCH", "/v1/jobs/" + j["id"], {"budget_usd": amount}, expect=expect, token=token)[1]


def row(j, what):
    return A.sql("SELECT %s FROM job WHERE id = %s" % (what, j["id"][1:]))


def spent(j, micros, hour_micros=0):
    """So much is in the ledger; with a price, a machine that began an hour ago and is not billed yet comes on top."""
    n, _ = A.node(A.pool(zone="b" + j["id"]), job=j["id"][1:])
    t = lib.now()
    A.sql("INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, from_us, to_us, price_micros, price_observed_us, "
          "amount_micros) SELECT 1, 'compute', id, pool_id, 'spot', job_id, 1, 1, 2, 1000000, 0, %d FROM node WHERE id = %d" % (micros, n))
    if hour_micros:
        A.sql("UPDATE node SET price_micros = %d, launched_us = %d, billed_to_us = NULL, ended_us = %d WHERE id = %d; "
              "UPDATE pool_latest SET price_micros = %d WHERE pool_id = (SELECT pool_id FROM node WHERE id = %d)"
              % (hour_micros, t - lib.HOUR, t, n, hour_micros, n))
    else:
        A.sql("UPDATE node SET state = 'GONE', ended_us = launched_us, billed_to_us = launched_us WHERE id = %d" % n)


class Submit(unittest.TestCase):
    def test_the_budget_of_the_file_is_stored_and_shown(self):
        j = job("12.50")
        self.assertEqual(j["budget"], {"limit_micros": 12500000, "limit_usd": 12.5, "spent_micros": 0, "spent_usd": 0, "left_micros": 12500000,
                                       "left_usd": 12.5, "needs_micros": None, "needs_usd": None})
        self.assertEqual(row(j, "budget_micros"), "12500000")
        self.assertIsNone(job()["budget"])

    def test_a_job_that_saves_nothing_gets_no_budget_and_the_line_is_named(self):
        p = A.call("POST", "/v1/jobs", lib.JOB + "config:\n  spotctl:\n    budget: 5\n", expect=400)[1]
        self.assertIn("the job saves nothing", p["detail"])
        self.assertEqual(p["line"], 8)

    def test_a_budget_that_does_not_pay_for_the_work_is_said_with_figures(self):
        A.pool(provider="dear", gpu="T4", market="on_demand", price=2.0)
        file = "name: b\nresources: {accelerators: T4:1}\nrun: x\n" + SAVES
        tight = A.job(file % "budget: 5, work: 10h, ")["warnings"]
        self.assertEqual(len(tight), 1)
        for words in ("budget: 5.0000 USD do not pay", "dear use1-az1 p3.2xlarge on_demand at 2.0000 USD/h", "to need 2", "set budget to 2", "parked"):
            self.assertIn(words, tight[0])
        plan = A.call("POST", "/v1/plan", file % "budget: 5, work: 10h, ", expect=200)[1]
        self.assertTrue(any("do not pay" in w for w in plan["warnings"]))
        self.assertEqual(A.job(file % "budget: 500, work: 10h, ")["warnings"], [])
        # How long it takes was not said: a guess warns nobody.
        self.assertEqual(A.job(file % "budget: 0.01, ")["warnings"], [])
        # Two machines cost twice as much as one.
        self.assertEqual(A.job(file % "budget: 25, work: 10h, ")["warnings"], [])
        self.assertIn("do not pay", A.job("num_nodes: 2\n" + file % "budget: 25, work: 10h, ")["warnings"][0])


class Shown(unittest.TestCase):
    def test_time_that_is_not_billed_yet_counts_as_spent(self):
        j = job(25)
        spent(j, 4000000, hour_micros=900000)
        b = A.call("GET", "/v1/jobs/" + j["id"], expect=200)[1]["budget"]
        self.assertEqual((b["spent_micros"], b["left_micros"]), (4900000, 20100000))

    def test_a_parked_job_tells_what_it_needs_and_can_be_cancelled(self):
        j = job(5)
        A.sql("UPDATE job SET state = 'PARKED', why = 'its budget is used up', park_need_micros = 420000 WHERE id = " + j["id"][1:])
        got = A.call("GET", "/v1/jobs/%s?wait_state=PARKED&timeout_s=1" % j["id"], expect=200)[1]
        self.assertEqual((got["state"], got["budget"]["needs_micros"], got["budget"]["needs_usd"]), ("PARKED", 420000, 0.42))
        for state in ("PARKED", "active"):
            self.assertIn(j["id"], [x["id"] for x in A.call("GET", "/v1/jobs?state=" + state, expect=200)[1]["items"]])
        self.assertIn("PARKED", A.call("GET", "/v1/jobs?state=ASLEEP", expect=400)[1]["detail"])
        self.assertIsNotNone(A.call("POST", "/v1/jobs/%s/cancel" % j["id"], expect=202)[1]["cancel_at"])


class Change(unittest.TestCase):
    def events(self, j):
        return A.sql("SELECT string_agg(why, '|' ORDER BY id) FROM event WHERE event = 'BUDGET_SET' AND actor = 'root' AND job_id = " + j["id"][1:])

    def test_it_is_raised_lowered_lifted_and_given(self):
        j = job(25)
        self.assertEqual(patch(j, 30)["budget"]["limit_micros"], 30000000)
        self.assertEqual(patch(j, "12.345678")["budget"]["limit_micros"], 12345678)
        self.assertEqual(patch(j, 7.1)["budget"]["limit_micros"], 7100000)
        self.assertIsNone(patch(j, None)["budget"])
        self.assertEqual(patch(j, 8)["budget"]["left_usd"], 8)
        self.assertEqual(self.events(j).split("|"), [
            "budget set to 30.00 USD by root (it was 25.00 USD)", "budget set to 12.345678 USD by root (it was 30.00 USD)",
            "budget set to 7.10 USD by root (it was 12.345678 USD)", "budget lifted by root (it was 7.10 USD)",
            "budget set to 8.00 USD by root (it had none)"])

    def test_the_same_again_changes_nothing_and_is_answered_alike(self):
        j = job(25)
        for _ in range(3):
            self.assertEqual(patch(j, 30)["budget"]["limit_usd"], 30)
        self.assertEqual(self.events(j), "budget set to 30.00 USD by root (it was 25.00 USD)")

    def test_waiting_users_and_the_engine_hear_of_it(self):
        j, heard = job(25), A.notes
        patch(j, 30)
        A.until(lambda: A.notes > heard, "a notification")

    def test_less_than_was_spent_is_refused_and_exactly_that_is_not(self):
        j = job(25)
        spent(j, 4900000)
        p = patch(j, "4.899999", expect=409)
        self.assertEqual((p["code"], p["field"]), ("conflict", "budget_usd"))
        self.assertIn("has cost 4.900000 USD already", p["detail"])
        self.assertEqual(row(j, "budget_micros"), "25000000")
        self.assertEqual(patch(j, "4.90")["budget"]["left_micros"], 0)
        self.assertIsNone(patch(j, None)["budget"])

    def test_a_parked_job_keeps_its_state_until_the_engine_looks(self):
        j = job(5)
        A.sql("UPDATE job SET state = 'PARKED', park_need_micros = 420000 WHERE id = " + j["id"][1:])
        self.assertEqual(patch(j, 6)["state"], "PARKED")
        self.assertEqual(row(j, "budget_micros, park_need_micros"), "6000000|420000")

    def test_a_job_that_is_over_is_refused(self):
        for state in ("SUCCEEDED", "FAILED", "CANCELLED"):
            j = job(5)
            A.sql("UPDATE job SET state = '%s' WHERE id = %s" % (state, j["id"][1:]))
            p = patch(j, 6, expect=409)
            self.assertIn("is over: " + state, p["detail"])
            self.assertEqual(row(j, "budget_micros"), "5000000")
            patch(j, None, expect=409)

    def test_a_job_that_saves_nothing_is_given_no_limit(self):
        j = A.job()
        p = patch(j, 6, expect=400)
        self.assertEqual((p["code"], p["field"]), ("invalid", "budget_usd"))
        self.assertIn("the job saves nothing", p["detail"])
        self.assertEqual(row(j, "budget_micros IS NULL"), "t")
        self.assertIsNone(patch(j, None)["budget"])

    def test_amounts_that_are_none_are_refused_and_a_job_that_is_not_there(self):
        j = job(5)
        for bad in (0, -1, "0", "-1", "much", "", "1e3", True, [], 1e9):
            p = patch(j, bad, expect=400)
            self.assertEqual(p["field"], "budget_usd")
        self.assertEqual(row(j, "budget_micros"), "5000000")
        self.assertEqual(A.call("PATCH", "/v1/jobs/j4040404", {"budget_usd": 5}, expect=404)[1]["code"], "not_found")
        self.assertEqual(A.call("PATCH", "/v1/jobs/" + j["id"], {}, expect=400)[1]["field"], "budget_usd")
        self.assertEqual(A.call("PATCH", "/v1/jobs/" + j["id"], {"state": "QUEUED"}, expect=400)[1]["field"], "state")

    def test_a_token_of_another_team_and_a_viewer_change_nothing(self):
        j = job(5, token=A.token("engineer", "vision"))
        self.assertEqual(patch(j, 6, expect=403, token=A.token("engineer", "nlp"))["code"], "denied")
        patch(j, 6, expect=403, token=A.token("viewer"))
        self.assertEqual(row(j, "budget_micros"), "5000000")
        self.assertEqual(patch(j, 6, token=A.token("engineer", "vision"))["budget"]["limit_usd"], 6)
        self.assertEqual(patch(j, 7, token=A.token("lead", "nlp"))["budget"]["limit_usd"], 7)


if __name__ == "__main__":
    lib.main()
