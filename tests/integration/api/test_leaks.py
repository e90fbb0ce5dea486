"""The cost of orphans: since their launch if the provider tells a credible time, else since they were first seen."""
import unittest
import lib

A = lib.Apid()
HOUR = 3600 * 1000000


class Leaks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        A.pool(zone="", itype="p3.2xlarge", market="on_demand", price=2.0)
        now = lib.now()
        for ref, first, made in (("seen", now - HOUR, "NULL"), ("made", now - HOUR, now - 3 * HOUR),
                                 ("to-come", now - HOUR, now + 9000 * 1000000)):  # dated by a clock that was ahead
            A.sql("INSERT INTO orphan (provider, region, ref, kind, first_us, last_us, why, instance_type, market, created_us) "
                  "VALUES ('aws', 'us-east-1', '%s', 'instance', %d, %d, 'no node knows it', 'p3.2xlarge', 'on_demand', %s)" % (ref, first, now, made))

    def test_each_has_cost_what_it_was_there_for(self):
        doc = A.call("GET", "/v1/leaks", expect=200)[1]
        for x in doc["items"]:
            self.assertAlmostEqual(x["cost_usd"], {"seen": 2, "made": 6, "to-come": 2}[x["ref"]], delta=0.1, msg=x["ref"])
        self.assertEqual(len(doc["items"]), 3)
        self.assertAlmostEqual(doc["total_usd"], 10, delta=0.3)

    def test_why_tells_who_said_what(self):
        for word, words in (("keep", "no node knows it; ann said to keep it"), ("end", "no node knows it; its end was asked for by ann, the next sweep ends it")):
            A.sql("UPDATE orphan SET word = '%s', word_by = 'ann' WHERE ref = 'seen'" % word)
            self.assertEqual([x["why"] for x in A.call("GET", "/v1/leaks", expect=200)[1]["items"] if x["ref"] == "seen"], [words])
        A.sql("UPDATE orphan SET terminate_us = 1 WHERE ref = 'seen'")
        self.assertEqual([x["why"] for x in A.call("GET", "/v1/leaks?state=ending", expect=200)[1]["items"]], ["no node knows it; its end was asked for by ann"])
        A.sql("UPDATE orphan SET word = '', word_by = '', terminate_us = NULL WHERE ref = 'seen'")

    def test_a_kept_machine_that_is_gone_is_no_leak_and_costs_no_more(self):
        A.sql("UPDATE orphan SET word = 'keep', word_by = 'ann', gone_us = first_us + %d WHERE ref = 'made'" % HOUR)
        try:
            doc = A.call("GET", "/v1/leaks", expect=200)[1]
            self.assertEqual(sorted(x["ref"] for x in doc["items"]), ["seen", "to-come"])
            self.assertAlmostEqual(doc["per_hour_usd"], 4, delta=0.01)
            self.assertEqual(A.call("GET", "/v1/leaks?state=kept", expect=200)[1]["items"], [])
            self.assertEqual([(x["ref"], x["said"]) for x in A.call("GET", "/v1/leaks?state=gone", expect=200)[1]["items"]], [("made", "keep")])
            A.call("POST", "/v1/leaks", {"ref": "made", "act": "end"}, expect=404)
        finally:
            A.sql("UPDATE orphan SET word = '', word_by = '', gone_us = NULL WHERE ref = 'made'")


if __name__ == "__main__":
    lib.main()
