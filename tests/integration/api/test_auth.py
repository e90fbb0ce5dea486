"""Authorization: every route with every role, tokens' life, agents' sessions, teams."""
import unittest
import lib

A = lib.Apid()
RANK = {"nobody": 0, "node": 0, "viewer": 1, "service": 2, "engineer": 2, "lead": 3, "admin": 4}
NEED = {"viewer": 1, "engineer or service": 2, "lead": 3, "admin": 4}
BODY = {"/v1/plan": lib.JOB, "/v1/jobs": lib.JOB, "/v1/rebalance": {"dry_run": True},
        "/v1/fleets": {"name": "x", "nodes": 1, "resources": {"accelerators": "V100:1"}}}


class Auth(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pool = A.pool()
        cls.node, token = A.node(cls.pool, "READY")
        cls.session = A.enrol(cls.node, token)["session"]

    def sample(self, pattern):
        return pattern.replace("{job}", "j99999").replace("{node}", "n99999").replace("{fleet}", "f99999").replace(
            "{pool}", "p99999").replace("{token}", "t99999").replace("{decision}", "d99999").replace("{file}", "nothing")

    def test_every_route_lets_in_its_role_and_those_above_and_nobody_else(self):
        tried = 0
        for pattern, item in A.doc["paths"].items():
            for method, op in item.items():
                words = op["description"][len("Least role: "):-1]
                for role in RANK:
                    tried += 1
                    token = {"nobody": None, "node": self.session}.get(role) or (None if role == "nobody" else A.token(role))
                    body = BODY.get(pattern, {}) if method in ("post", "patch") else None
                    if pattern == "/v1/fleets" and method == "post":
                        body = dict(body, name="by-" + role)
                    if pattern == "/v1/tokens" and method == "post":
                        body = {"name": "tok-" + role, "role": "viewer"}
                    status, doc, _ = A.call(method.upper(), self.sample(pattern), body, token=token)
                    at = "%s %s as %s: %d %r" % (method, pattern, role, status, doc)
                    self.assertLess(status, 500, at)
                    if words == "anybody" or "loopback" in words:
                        self.assertNotEqual(status, 403, at)
                        if pattern != "/v1/agent/enrol":
                            self.assertNotEqual(status, 401, at)
                    elif words == "an agent's session":
                        self.assertEqual(status == 401, role != "node", at)
                    elif role in ("nobody", "node"):
                        self.assertEqual(status, 401, at)
                        self.assertEqual(doc["code"], "unauthenticated", at)
                    elif RANK[role] < NEED[words]:
                        self.assertEqual(status, 403, at)
                        self.assertEqual(doc["code"], "denied", at)
                    else:
                        self.assertNotIn(status, (401, 403), at)
        self.assertGreater(tried, 250)

    def test_wrong_tokens_are_refused(self):
        for bad in ["Bearer", "Bearer ", "Bearer x", "Basic " + A.root, A.root, "Bearer " + A.root + "0",
                    "Bearer " + A.root[:-1], "Bearer " + "a" * 500]:
            status, doc, h = A.call("GET", "/v1/whoami", token=None, headers={"Authorization": bad})
            self.assertEqual((status, doc["code"], h["www-authenticate"]), (401, "unauthenticated", "Bearer"), bad)

    def test_the_scheme_is_case_insensitive(self):
        A.call("GET", "/v1/whoami", token=None, headers={"Authorization": "bearer " + A.root}, expect=200)

    def test_a_tokens_life(self):
        made = A.call("POST", "/v1/tokens", {"name": "life", "role": "viewer", "team": "red", "expires_s": 3600}, expect=201)[1]
        who = A.call("GET", "/v1/whoami", token=made["token"], expect=200)[1]
        self.assertEqual(who, {"name": "life", "role": "viewer", "team": "red"})
        self.assertEqual(A.sql("SELECT count(*) FROM api_token WHERE encode(hash,'hex') LIKE '%%%s%%'" % made["token"][4:]), "0")
        self.assertNotIn(made["token"], str(A.call("GET", "/v1/tokens?limit=1000", expect=200)[1]))
        A.call("DELETE", "/v1/tokens/" + made["id"], expect=200)
        A.call("GET", "/v1/whoami", token=made["token"], expect=401)
        A.call("DELETE", "/v1/tokens/t424242", expect=404)

    def test_an_expired_token_is_refused(self):
        made = A.call("POST", "/v1/tokens", {"name": "short", "role": "viewer", "expires_s": 5}, expect=201)[1]
        A.call("GET", "/v1/whoami", token=made["token"], expect=200)
        A.sql("UPDATE api_token SET expires_us = %d WHERE name = 'short'" % (lib.now() - 1))
        A.until(lambda: A.call("GET", "/v1/whoami", token=made["token"])[0] == 401, "the daemon hears of the change")

    def test_a_token_cannot_revoke_itself(self):
        me = A.sql("SELECT id FROM api_token WHERE name = 'root'")
        self.assertEqual(A.call("DELETE", "/v1/tokens/t" + me, expect=409)[1]["code"], "conflict")

    def test_names_of_tokens_are_unique(self):
        A.call("POST", "/v1/tokens", {"name": "twin", "role": "viewer"}, expect=201)
        A.call("POST", "/v1/tokens", {"name": "twin", "role": "viewer"}, expect=409)

    def test_a_revoked_token_frees_its_name(self):
        body = {"name": "rotated", "role": "service"}
        old = A.call("POST", "/v1/tokens", body, expect=201)[1]
        A.call("DELETE", "/v1/tokens/" + old["id"], expect=200)
        new = A.call("POST", "/v1/tokens", body, expect=201)[1]
        self.assertNotEqual(new["id"], old["id"])
        self.assertEqual(A.call("GET", "/v1/whoami", token=new["token"], expect=200)[1]["name"], "rotated")
        A.call("GET", "/v1/whoami", token=old["token"], expect=401)
        A.call("DELETE", "/v1/tokens/" + old["id"], expect=200)
        A.call("GET", "/v1/whoami", token=new["token"], expect=200)
        A.call("POST", "/v1/tokens", body, expect=409)

    def test_a_replayed_token_request_does_not_show_the_value_again(self):
        h = {"Idempotency-Key": "tok-1"}
        a = A.call("POST", "/v1/tokens", {"name": "once", "role": "viewer"}, headers=h, expect=201)[1]
        b = A.call("POST", "/v1/tokens", {"name": "once", "role": "viewer"}, headers=h, expect=201)[1]
        self.assertTrue(a["token"].startswith("spt_"))
        self.assertIsNone(b["token"])
        self.assertEqual(a["id"], b["id"])
        self.assertEqual(A.sql("SELECT count(*) FROM idempotency WHERE response LIKE '%%%s%%'" % a["token"]), "0")

    def test_a_teams_engineer_works_for_that_team(self):
        red, blue = A.token("engineer", "red"), A.token("engineer", "blue")
        j = A.job(token=red)
        self.assertEqual(j["team"], "red")
        A.call("POST", "/v1/jobs/%s/cancel" % j["id"], token=blue, expect=403)
        A.call("POST", "/v1/jobs/%s/cancel" % j["id"], token=red, expect=202)
        other = lib.JOB + "config:\n  spotctl:\n    team: blue\n"
        self.assertEqual(A.job(other, token=red, expect=403)["code"], "denied")
        self.assertEqual(A.job(other, token=A.token("lead", "red"))["team"], "blue")

    def test_a_session_is_good_for_its_node_only_while_it_is_the_newest(self):
        node, token = A.node(self.pool, "BOOTING")
        first = A.enrol(node, token)["session"]
        second = A.enrol(node, token)["session"]
        A.call("POST", "/v1/agent/notice", {"kind": "rebalance"}, token=first, expect=401)
        A.call("POST", "/v1/agent/notice", {"kind": "rebalance"}, token=second, expect=200)


if __name__ == "__main__":
    lib.main()
