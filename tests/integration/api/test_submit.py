"""POST /v1/jobs in groups: each row's own outcome, equal keys, failures in the middle of a group, tokens that end."""
import contextlib
import http.client
import json
import os
import tempfile
import threading
import time
import unittest
import lib
import world
from support.spotd import Spotd, program

A = lib.Apid()


class Groups(unittest.TestCase):
    """Submits that arrive together are one statement. A lock on the table of jobs makes them wait for each other."""
    SHAPES = {"plain": "# \u00e9 \\ \"\u2028\n", "who": "config: {spotctl: {team: red, project: p.q, class: eval}}\n",
              "when": "config: {spotctl: {deadline: 300h, start_after: 2h}}\n", "gang": "num_nodes: 3\n",
              "saves": "config: {spotctl: {checkpoint: {path: c}, budget: 12.5}}\n", "fleet": "config: {spotctl: {fleet: group}}\n"}

    @staticmethod
    def text(name, more=""):
        return lib.JOB.replace("train", name, 1) + more

    def send(self, texts, during=lambda: None):
        """Sends (text, key) at once. Returns the replies in order; None: the connection broke."""
        got, port = [None] * len(texts), getattr(self, "port", A.port)

        def one(i, text, key):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            headers = {"Authorization": "Bearer " + A.root, "Content-Type": "application/yaml"}
            with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(c):
                c.request("POST", "/v1/jobs", text, dict(headers, **({"Idempotency-Key": key} if key else {})))
                r = c.getresponse()
                got[i] = (r.status, json.loads(r.read()), r.getheader("Idempotent-Replayed"))
        threads = [threading.Thread(target=one, args=(i, *t)) for i, t in enumerate(texts)]
        with A.locked("job"):
            for t in threads:
                t.start()
            A.until(lambda: A.waiters("job") > 0, "a group waits")
            during()
        for t in threads:
            t.join()
        return got

    @contextlib.contextmanager
    def daemon(self):
        """The real daemon on the same database, to which send() goes."""
        with tempfile.TemporaryDirectory() as d:
            config, state, self.port = os.path.join(d, "c"), os.path.join(d, "s"), world.free_port()
            with open(config, "w", encoding="utf-8") as f:
                f.write("[api]\nlisten = 127.0.0.1:%d\n" % self.port)
            daemon = Spotd([program(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(lib.APID))))), "--config", config,
                            "--role", "api", "--state-file", state], d, dict(os.environ, DATABASE_URL=A.dsn, XDG_DATA_HOME=d))
            daemon.start()
            try:
                daemon.await_state(state)
                yield daemon
            finally:
                daemon.stop()

    def rows(self, prefix):
        """The number of jobs by name."""
        return dict(json.loads(A.sql("SELECT coalesce(json_object_agg(name, n), '{}') FROM (SELECT name, count(*) AS n FROM job "
                                     "WHERE name LIKE '%s-%%' GROUP BY 1) x" % prefix)))

    def test_the_reply_to_submit_is_the_document_of_the_job(self):
        A.call("POST", "/v1/fleets", {"name": "group", "nodes": 1, "resources": {"accelerators": "V100:1"}}, expect=201)
        for name, more in self.SHAPES.items():
            said = A.job(self.text("doc-" + name, more))
            said.pop("warnings")
            shown = A.call("GET", "/v1/jobs/" + said["id"], expect=200)[1]
            self.assertEqual(said, shown, name)
            kept = A.call("POST", "/v1/jobs", self.text(name, more), headers={"Idempotency-Key": "doc-" + name}, expect=201)
            again = A.call("POST", "/v1/jobs", self.text(name, more), headers={"Idempotency-Key": "doc-" + name}, expect=201)
            self.assertEqual((kept[1], again[2]["idempotent-replayed"]), (again[1], "true"))

    def test_each_of_two_hundred_lands_once_with_a_reply_of_its_own(self):
        texts = [(self.text("many-%d" % i), "many-%d" % i if i % 2 else None) for i in range(120)]
        texts += [(self.text("many-%d" % i), "many-%d" % i) for i in range(1, 61, 2)]  # equal keys, equal bodies
        texts += [(self.text("many-%d" % i, "# another\n"), "many-%d" % i) for i in range(61, 81, 2)]
        texts += [(self.text("many-none", "config: {spotctl: {fleet: none}}\n"), "many-fleet-%d" % i) for i in range(20)]
        texts += [(self.text("many-bad", "nonsense: 1\n"), None)] * 20
        groups = lambda: int(A.sql("SELECT count(DISTINCT xmin::text) FROM job WHERE name LIKE 'many-%'"))
        got = self.send(texts)
        by = {}
        for (text, key), (status, doc, replayed) in zip(texts, got):
            name = text.split()[1]
            if name in ("many-none", "many-bad"):
                self.assertEqual(status, 400, doc)
                self.assertIn("no active fleet 'none'" if name == "many-none" else "nonsense", doc["detail"])
            elif status == 201:
                self.assertEqual(doc["name"], name)
                self.assertEqual(by.setdefault(name, doc["id"]), doc["id"])
            else:
                self.assertEqual((status, replayed, int(key[5:]) > 60), (422, None, True), doc)
        self.assertEqual(self.rows("many"), {"many-%d" % i: 1 for i in range(120)})
        self.assertEqual([s for s, _, _ in got].count(422), 10)
        self.assertEqual([r for _, _, r in got].count("true"), 30)
        self.assertLess(groups(), 60)
        events = A.sql("SELECT count(*) FROM event e JOIN job j ON j.id = e.job_id AND e.event = 'SUBMITTED' WHERE j.name LIKE 'many-%'")
        self.assertEqual(events, "120")

    def test_a_row_that_the_database_refuses_fails_alone(self):
        def all_wait():
            A.until(lambda: A.metric("spot_http_connections") >= 40, "all have come")
        # Row 20 has a value that the server cannot store: "program limit exceeded", which is no constraint.
        A.sql("ALTER TABLE job ADD CONSTRAINT odd CHECK (name <> 'odd-30'); "
              "CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'too large' USING ERRCODE = '54000'; END $$; "
              "CREATE TRIGGER odd BEFORE INSERT ON job FOR EACH ROW WHEN (NEW.name = 'odd-20') EXECUTE FUNCTION odd()")
        try:
            got = self.send([(self.text("odd-%d" % i), "odd-%d" % i) for i in range(40)], all_wait)
        finally:
            A.sql("ALTER TABLE job DROP CONSTRAINT odd; DROP FUNCTION odd CASCADE")
        self.assertEqual([s for s, _, _ in got], [{20: 500, 30: 409}.get(i, 201) for i in range(40)])
        self.assertEqual(self.rows("odd"), {"odd-%d" % i: 1 for i in range(40) if i not in (20, 30)})

    def repeated(self, prefix, texts, got):
        """After a group was cut off: a reply is a row, and each row is found by its key."""
        for (_, key), reply in zip(texts, got):
            if reply is not None and reply[0] == 201:
                self.assertEqual(self.rows(prefix).get(key), 1)
        for text, key in texts:
            status, doc, _ = A.call("POST", "/v1/jobs", text, headers={"Idempotency-Key": key}, expect=201)
            self.assertEqual(doc["name"], key)
        self.assertEqual(self.rows(prefix), {key: 1 for _, key in texts})

    def test_a_backend_that_ends_in_a_group_leaves_nothing_half_done(self):
        texts = [(self.text("cut-%d" % i), "cut-%d" % i) for i in range(40)]

        def end():
            A.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE NOT granted AND relation = 'job'::regclass")
        got = self.send(texts, end)
        lost = [key for (_, key), (status, _, _) in zip(texts, got) if status // 100 == 5]
        self.assertTrue(lost)
        for key in lost:
            self.assertEqual(A.sql("SELECT count(*) FROM idempotency WHERE key = '%s'" % key), "0")
            self.assertNotIn(key, self.rows("cut"))
        self.repeated("cut", texts, got)

    def test_a_daemon_that_is_killed_in_a_group_leaves_nothing_half_done(self):
        texts = [(self.text("kill-%d" % i), "kill-%d" % i) for i in range(40)]
        with self.daemon() as daemon:
            got = self.send(texts[:4]) + self.send(texts[4:], daemon.kill9)
        self.assertEqual([r[0] for r in got[:4]], [201] * 4)
        self.assertIn(None, got)
        self.repeated("kill", texts, got)

    def test_one_submit_reads_old_rates_again_and_the_others_go_on(self):
        answered = []

        def submit(sent):
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            with contextlib.closing(c):
                c.request("POST", "/v1/jobs", self.text("rated"), {"Authorization": "Bearer " + A.root, "Content-Type": "application/yaml"})
                answered.append((sent, c.getresponse().status))
        threads = []

        def another(sent, happened):
            def look():
                threads.append(threading.Thread(target=submit, args=(sent,)))
                threads[-1].start()
                return happened()
            return look
        with self.daemon():
            submit("first")
            with A.uncommitted("LOCK TABLE attempt IN ACCESS EXCLUSIVE MODE; SELECT 'locked'"):
                A.until(another("before", lambda: A.waiters("attempt") > 0), "a submit reads the rates again")
                A.until(another("meanwhile", lambda: ("meanwhile", 201) in answered), "another submit uses the old rates")
            for t in threads:
                t.join()
        self.assertEqual({status for _, status in answered}, {201})
        self.assertEqual(len(answered), len(threads) + 1)

    def test_a_token_that_another_daemon_revoked_submits_nothing(self):
        token = A.call("POST", "/v1/tokens", {"name": "silent", "role": "engineer"}, expect=201)[1]["token"]
        A.sql("ALTER TABLE api_token DISABLE TRIGGER api_token_changed")  # so the daemon does not hear of it
        try:
            A.job(self.text("silent-0"), token=token)
            A.sql("UPDATE api_token SET revoked_us = 1 WHERE name = 'silent'")
            self.assertEqual(A.job(self.text("silent-1"), token=token, expect=401)["code"], "unauthenticated")
        finally:
            A.sql("ALTER TABLE api_token ENABLE TRIGGER api_token_changed")
        self.assertEqual(self.rows("silent"), {"silent-0": 1})

    def test_a_change_of_a_token_is_heard_before_the_second_is_over(self):
        tries = iter(range(8))

        def change():
            name = "heard-%d" % next(tries)
            token = A.call("POST", "/v1/tokens", {"name": name, "role": "viewer", "team": "red"}, expect=201)[1]["token"]
            team = lambda: A.call("GET", "/v1/whoami", token=token, expect=200)[1]["team"]
            self.assertEqual(team(), "red")
            A.sql("UPDATE api_token SET team = 'blue' WHERE name = '%s'" % name)
            t = time.monotonic()
            A.until(lambda: team() == "blue", "the daemon hears of it")
            return time.monotonic() - t
        A.soon(0.5, change)


if __name__ == "__main__":
    lib.main()
