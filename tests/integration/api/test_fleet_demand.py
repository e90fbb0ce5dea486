"""Fleets whose size follows demand: names, PUT /v1/fleets/{fleet}/demand, scale within the range, what a list shows."""
import json
import unittest
import lib

A = lib.Apid()
FILE = {"nodes": {"min": 1, "max": 20, "target": 2}, "resources": {"accelerators": "A100-80GB:1"}, "team": "ml"}


def create(name, **more):
    return A.call("POST", "/v1/fleets", dict(FILE, name=name, **more), expect=201)[1]


def put(fleet, body, expect=200, **more):
    return A.call("PUT", "/v1/fleets/%s/demand" % fleet, body, expect=expect, **more)


class FleetDemand(unittest.TestCase):
    def test_a_fleet_is_found_by_its_name_and_its_id(self):
        made = create("by-name")
        for key in (made["id"], made["id"][1:], "by-name"):
            self.assertEqual(A.call("GET", "/v1/fleets/" + key, expect=200)[1]["id"], made["id"])
        self.assertIn("no fleet 'nobody'", A.call("GET", "/v1/fleets/nobody", expect=404)[1]["detail"])
        A.call("PATCH", "/v1/fleets/by-name", {"nodes": 3}, expect=200)
        A.call("DELETE", "/v1/fleets/by-name", expect=202)
        A.sql("UPDATE fleet SET state = 'CLOSED' WHERE name = 'by-name'")
        again = create("by-name")
        self.assertEqual(A.call("GET", "/v1/fleets/by-name", expect=200)[1]["id"], again["id"])
        for name in ("any", "f12", "12"):
            self.assertEqual(A.call("POST", "/v1/fleets", dict(FILE, name=name), expect=400)[1]["code"], "invalid")

    def test_demand_is_kept_with_its_time_and_its_author(self):
        fleet = create("asked")["id"]
        self.assertIsNone(A.call("GET", "/v1/fleets/asked/demand", expect=200)[1]["value"])
        head, doc = put(fleet, {"nodes": 7, "ttl_s": 300})[2:0:-1]
        self.assertEqual((doc["value"], doc["unit"], doc["version"], doc["metric"]), (7, "nodes", 1, None))
        self.assertEqual(A.sql("SELECT (demand_until_us - demand_us) / 1000000 FROM fleet WHERE id = %s" % fleet[1:]), "300")
        self.assertEqual(head["etag"], '"v1"')
        shown = A.call("GET", "/v1/fleets/" + fleet, expect=200)[1]
        self.assertEqual(shown["demand"]["value"], 7)
        # A repeat prolongs it and is no event; another value is one.
        put(fleet, {"nodes": 7})
        put(fleet, {"replicas": 7})
        events = A.sql("SELECT count(*) FROM event WHERE entity_id = '%s' AND event = 'DEMAND'" % fleet)
        self.assertEqual(events, "2")

    def test_a_concurrent_change_is_refused(self):
        fleet = create("raced")["id"]
        put(fleet, {"nodes": 1})
        put(fleet, {"nodes": 2}, headers={"If-Match": '"v1"'})
        self.assertEqual(put(fleet, {"nodes": 3}, 412, headers={"If-Match": '"v1"'})[1]["code"], "conflict")
        put(fleet, {"nodes": 3}, headers={"If-Match": "*"})
        # The fleet's own ETag is not moved by a demand.
        self.assertEqual(A.call("GET", "/v1/fleets/" + fleet, expect=200)[1]["version"], 1)

    def test_wrong_demands_name_the_field(self):
        fleet = create("strict")["id"]
        for body, field in (({"gpus": 2}, "gpus"), ({"nodes": -1}, "nodes"), ({"nodes": 1.5}, "nodes"), ({"nodes": "2"}, "nodes"),
                            ({"nodes": 1, "replicas": 1}, "nodes"), ({"nodes": 1, "ttl_s": 0}, "ttl_s"),
                            ({"nodes": 1, "ttl_s": 86401}, "ttl_s"), ({"node": 1}, "node")):
            self.assertEqual(put(fleet, body, 400)[1].get("field"), field, body)
        put(fleet, {}, 400)
        put(fleet, {"ttl_s": 5}, 400)
        fixed = A.call("POST", "/v1/fleets", dict(FILE, name="fixed", nodes=4), expect=201)[1]["id"]
        self.assertIn("is fixed", put(fixed, {"nodes": 2}, 409)[1]["detail"])
        A.call("DELETE", "/v1/fleets/" + fleet, expect=202)
        put(fleet, {"nodes": 2}, 409)
        put("f99999", {"nodes": 2}, 404)

    def test_a_job_of_any_fleet_needs_one_of_its_team(self):
        job = "name: x\nrun: x\nresources: {accelerators: 'A100-80GB:1'}\nconfig: {spotctl: {team: %s, fleet: any}}\n"
        self.assertIn("team 'lonely' has no active fleet", A.call("POST", "/v1/jobs", job % "lonely", expect=400)[1]["detail"])
        create("for-any", team="busy")
        made = A.call("POST", "/v1/jobs", job % "busy", expect=201)[1]
        self.assertIsNone(made["fleet"])
        self.assertEqual(A.sql("SELECT fleet_any FROM job WHERE id = %s" % made["id"][1:]), "t")

    def test_roles_and_teams(self):
        fleet = create("theirs")["id"]
        viewer, other = A.token("viewer"), A.token("engineer", team="vision")
        self.assertEqual(put(fleet, {"nodes": 2}, 403, token=viewer)[1]["code"], "denied")
        self.assertEqual(put(fleet, {"nodes": 2}, 403, token=other)[1]["code"], "denied")
        put(fleet, {"nodes": 2}, token=A.token("engineer", team="ml"))

    def test_scale_moves_the_target_within_the_range(self):
        fleet = create("scaled")["id"]
        doc = A.call("PATCH", "/v1/fleets/scaled", {"nodes": 9}, expect=200)[1]
        self.assertEqual((doc["size"]["wanted"], doc["size"]["target"], doc["size"]["max"]), (9, 9, 20))
        self.assertEqual(A.call("PATCH", "/v1/fleets/scaled", {"nodes": 21}, expect=400)[1]["field"], "nodes")
        self.assertEqual(A.call("PATCH", "/v1/fleets/scaled", {"gpus": 2}, expect=400)[1]["field"], "gpus")
        self.assertEqual(A.sql("SELECT size FROM fleet WHERE id = %s" % fleet[1:]), "9")
        # A fixed one with an end is scaled as a whole.
        A.call("POST", "/v1/fleets", dict(FILE, name="ends", nodes=4, expires="72h"), expect=201)
        size = A.call("PATCH", "/v1/fleets/ends", {"nodes": 6}, expect=200)[1]["size"]
        self.assertEqual((size["min"], size["max"], size["wanted"]), (6, 6, 6))

    def test_the_range_of_a_running_fleet_changes(self):
        fleet = create("ranged")["id"]
        head, doc = A.call("PATCH", "/v1/fleets/ranged", {"min": 3, "max": 8, "headroom": 1}, expect=200)[2:0:-1]
        self.assertEqual((doc["size"]["min"], doc["size"]["max"], doc["size"]["target"]), (3, 8, 3))
        self.assertEqual((doc["version"], head["etag"]), (2, '"v2"'))
        # The size is the engine's, until a target is given.
        self.assertEqual(A.sql("SELECT spec->'scaling'->>'headroom', size FROM fleet WHERE id = %s" % fleet[1:]), "1|")
        why = A.sql("SELECT why FROM event WHERE entity_id = '%s' AND event = 'CHANGED'" % fleet)
        self.assertEqual(why, "min 3 (was 1), max 8 (was 20), headroom 1 (was 0)")
        size = A.call("PATCH", "/v1/fleets/ranged", {"target": 5}, expect=200)[1]["size"]
        self.assertEqual((size["target"], size["wanted"]), (5, 5))
        # A lower max takes the target along.
        self.assertEqual(A.call("PATCH", "/v1/fleets/ranged", {"max": 4}, expect=200)[1]["size"]["target"], 4)
        for body, field in (({"min": 5}, "min"), ({"max": 2}, "max"), ({"max": 0}, "max"), ({"target": 9}, "target"), ({"headroom": 5}, "headroom"),
                            ({"min": -1}, "min"), ({"max": "8"}, "max"), ({"max": 100001}, "max")):
            self.assertEqual(A.call("PATCH", "/v1/fleets/ranged", body, expect=400)[1].get("field"), field, body)
        self.assertIn("either", A.call("PATCH", "/v1/fleets/ranged", {"min": 1, "nodes": 2}, expect=400)[1]["detail"])
        A.call("PATCH", "/v1/fleets/ranged", {"min": 1}, expect=412, headers={"If-Match": '"v1"'})
        A.call("POST", "/v1/fleets", dict(FILE, name="unmoved", nodes=4), expect=201)
        self.assertIn("fixed", A.call("PATCH", "/v1/fleets/unmoved", {"max": 8}, expect=400)[1]["detail"])

    def test_nodes_are_listed_by_the_name_of_their_fleet(self):
        fleet = create("listed")["id"]
        node = A.node(A.pool(zone="use1-az3", itype="big", gpu="A100-80GB", price=1.0), fleet=int(fleet[1:]))[0]
        for key in ("listed", fleet):
            self.assertEqual([n["id"] for n in A.call("GET", "/v1/nodes?fleet=" + key, expect=200)[1]["items"]], ["n%s" % node])
        self.assertEqual(A.call("GET", "/v1/nodes?fleet=unheard", expect=400)[1]["field"], "fleet")

    def test_size_price_and_saving_are_shown(self):
        spot = A.pool(zone="use1-az1", itype="big", gpu="A100-80GB", price=1.0)
        A.pool(zone="use1-az2", itype="big", gpu="A100-80GB", market="on_demand", price=3.0)
        fleet = create("shown")["id"]
        for state in ("READY", "BOOTING", "GONE"):
            A.node(spot, state=state, fleet=int(fleet[1:]))
        A.sql("UPDATE node SET price_micros = 1000000 WHERE fleet_id = %s" % fleet[1:])
        doc = A.call("GET", "/v1/fleets/" + fleet, expect=200)[1]
        self.assertEqual((doc["size"]["have"], doc["size"]["idle"], doc["size"]["coming"], doc["size"]["used"]), (2, 1, 1, 0))
        self.assertEqual((doc["size"]["hourly_micros"], doc["on_demand_micros"]), (2000000, 6000000))
        self.assertEqual([(p["price_micros"], p["on_demand_micros"]) for p in doc["node_prices"]], [(1000000, 3000000)] * 2)
        self.assertEqual([p["node"] for p in doc["node_prices"]], [n["id"] for n in doc["nodes"]])
        listed = next(f for f in A.call("GET", "/v1/fleets", expect=200)[1]["items"] if f["id"] == fleet)
        self.assertEqual(listed["on_demand_micros"], 6000000)
        put(fleet, {"nodes": 5})
        text = A.call("GET", "/metrics", expect=200)[1].decode()
        for line in ('spot_fleet_nodes{fleet="shown",state="idle"} 1', 'spot_fleet_nodes{fleet="shown",state="used"} 0',
                     'spot_fleet_wanted{fleet="shown"} 2', 'spot_fleet_demand{fleet="shown"} 5'):
            self.assertIn(line + "\n", text)
        doc = A.call("GET", "/v1/fleets/" + fleet, expect=200)[1]
        listed = next(f for f in A.call("GET", "/v1/fleets", expect=200)[1]["items"] if f["id"] == fleet)
        self.assertEqual(listed["size"], doc["size"])

    def test_a_size_in_the_work_of_a_gpu_weighs_its_nodes(self):
        pool = A.pool(zone="use1-az1", itype="weighed", gpu="A100-80GB", price=1.0)
        other = A.pool(zone="use1-az1", itype="unknown", gpu="V100", price=1.0)
        fleet = A.call("POST", "/v1/fleets", {"name": "weighed", "gpus": {"H100": 4}, "resources": {"accelerators": "A100-80GB:1"}}, expect=201)[1]["id"]
        for state in ("READY", "READY", "BOOTING"):
            A.node(pool, state=state, fleet=int(fleet[1:]))
        size = A.call("GET", "/v1/fleets/" + fleet, expect=200)[1]["size"]
        self.assertEqual((size["unit"], size["gpus_of"], size["wanted"], size["have"]), ("gpus", "H100", 4, 3))
        # The engine writes its plan with what each model does.
        A.sql("UPDATE fleet SET plan = '{\"gpu_worth\": {\"A100-80GB\": 0.5}}' WHERE id = %s" % fleet[1:])
        A.node(other, state="READY", fleet=int(fleet[1:]))
        size = json.loads(A.sql("SELECT fleet_size_doc(f) FROM fleet f WHERE id = %s" % fleet[1:]))
        A.sql("UPDATE fleet SET plan = NULL WHERE id = %s" % fleet[1:])
        self.assertEqual((size["have"], size["idle"], size["coming"]), (2.5, 2, 0.5))
        self.assertEqual(A.call("POST", "/v1/fleets", {"name": "plain", "gpus": 4, "resources": {"accelerators": "A100-80GB:1"}},
                                expect=201)[1]["size"]["gpus_of"], "")


if __name__ == "__main__":
    lib.main()
