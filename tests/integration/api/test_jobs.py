"""Users' calls: jobs, fleets, nodes, rebalancing."""
import contextlib
import json
import threading
import time
import unittest
import lib

A = lib.Apid()


class Submit(unittest.TestCase):
    def test_yaml_and_json_give_the_same_job(self):
        a = A.job()
        b = A.call("POST", "/v1/jobs", {"name": "train", "resources": {"accelerators": "V100:1", "use_spot": True},
                                        "run": "./train.sh"}, expect=201)[1]
        sa, sb = (A.sql("SELECT spec FROM job WHERE id = " + j["id"][1:]) for j in (a, b))
        self.assertEqual(sa, sb)
        self.assertEqual((a["state"], a["name"], a["owner"], a["epoch"], a["attempts"]), ("QUEUED", "train", "root", 0, 0))
        self.assertEqual(a["cost_micros"], 0)
        self.assertEqual(a["source"], lib.JOB)

    def test_submitting_writes_an_event_and_names_the_job_in_the_location(self):
        status, j, h = A.call("POST", "/v1/jobs", lib.JOB, expect=201)
        self.assertEqual(h["location"], "/v1/jobs/" + j["id"])
        events = A.call("GET", "/v1/events?job=" + j["id"], expect=200)[1]["items"]
        self.assertEqual([(e["event"], e["now"], e["actor"]) for e in events], [("SUBMITTED", "QUEUED", "root")])

    def test_the_reply_to_submit_names_obstacles_of_the_job(self):
        A.pool(zone="warned", gpu="V100")
        tight = lib.JOB + "config: {spotctl: {deadline: 10m}}\n"
        self.assertTrue(any("miss the deadline" in w for w in A.job(tight)["warnings"]))
        # Declared work is no guess: an infeasible deadline is refused, with the earliest feasible time.
        p = A.call("POST", "/v1/jobs", tight.replace("deadline", "work: 5h, deadline"), expect=400)[1]
        self.assertIn("cannot be met", p["detail"])
        self.assertEqual(p["field"], "config.spotctl.deadline")
        # A reclaim of one of 60 machines stops all: one machine would be in time, all together are not.
        near = lib.JOB + "num_nodes: %d\nconfig: {spotctl: {work: 5h, deadline: 7h, checkpoint: {path: c}}}\n"
        A.job(near % 2)
        p = A.call("POST", "/v1/jobs", near % 60, expect=400)[1]
        self.assertEqual(p["field"], "config.spotctl.deadline")
        j = A.job(lib.JOB + "config: {spotctl: {start_after: 2h}}\n")
        self.assertTrue(A.call("GET", "/v1/jobs/" + j["id"], expect=200)[1]["not_before_at"])
        self.assertEqual(A.job()["warnings"], [])

    def test_secrets_are_stored_apart_and_never_shown(self):
        j = A.job(lib.JOB + "secrets:\n  HF_TOKEN: hunter2hunter2\n")
        for path in ("", "/why", "/cost"):
            self.assertNotIn("hunter2", str(A.call("GET", "/v1/jobs/" + j["id"] + path, expect=200)[1]))
        self.assertIn("***", j["source"])
        self.assertEqual(A.sql("SELECT secrets->>'HF_TOKEN' FROM job WHERE id = " + j["id"][1:]), "hunter2hunter2")
        self.assertEqual(A.sql("SELECT count(*) FROM job WHERE spec::text LIKE '%hunter2%' OR source LIKE '%hunter2%'"), "0")

    def test_no_way_to_write_a_secret_shows_it(self):
        pem = "-----BEGIN KEY-----\nMIIBVQIBADANBgkqhkiG9w0B\n\nAQEFAASCAT8wggE7AgEAAkEA\n-----END KEY-----\n"
        said = 'say "hunter2hunter2" \\ \u00e9\nand more of it'
        text = "# \u00e9\n" + lib.JOB + "secrets:\n  PEM: |\n%s  DQ: %s\n  SQ: 'it''s hunter3'\n  FOLD: >-\n    of several\n    lines\n" % (
            "".join("    " + l if l.strip() else l for l in pem.splitlines(True)), json.dumps(said))
        want = {"PEM": pem, "DQ": said, "SQ": "it's hunter3", "FOLD": "of several lines"}
        like_json = {"name": "train", "run": "x", "secrets": want}
        for body in (text.encode(), json.dumps(like_json).encode(), json.dumps(like_json, indent=1, ensure_ascii=False).encode()):
            j = A.job(body)
            self.assertEqual(json.loads(A.sql("SELECT secrets FROM job WHERE id = " + j["id"][1:])), want)
            for path in ("", "/why", "/cost"):
                shown = json.dumps(A.call("GET", "/v1/jobs/" + j["id"] + path, expect=200)[1])
                for part in ("hunter2", "hunter3", "MIIB", "AQEF", "and more", "several"):
                    self.assertNotIn(part, shown)
        self.assertIn('SQ: "***"', A.job(text.encode())["source"])

    def test_mounts_that_no_store_can_sign_for_are_refused_with_their_line(self):
        mounts = lib.JOB + "file_mounts:\n  data/a: s3://bucket/a\n  data/b: gs://bucket/b\n"
        A.job(mounts)  # nobody told this daemon of its store: the engine decides
        try:
            A.store("s3://store/prefix")
            p = A.call("POST", "/v1/jobs", mounts, expect=400)[1]
            self.assertEqual((p["code"], p["line"], p["column"]), ("invalid", 8, 11))
            self.assertIn("gs://bucket/b needs a provider of kind gcp", p["detail"])
            A.job(mounts.replace("gs://", "s3://"))
            A.store("")
            p = A.call("POST", "/v1/jobs", mounts, expect=400)[1]
            self.assertEqual((p["line"], "no object store" in p["detail"]), (7, True))
            plan = A.call("POST", "/v1/plan", mounts, expect=200)[1]  # starts nothing: it may be asked all the same
            self.assertEqual(len([w for w in plan["warnings"] if w.startswith("line 7, column 11: file_mounts: data/a: the daemon has no")]), 1)
        finally:
            A.store("?")

    def test_a_job_that_saves_where_there_is_no_store_is_warned(self):
        saves = lib.JOB + "config: {spotctl: {checkpoint: {path: ckpt}}}\n"
        try:
            A.store("")
            self.assertEqual([w for w in A.job(lib.JOB)["warnings"] if "store" in w], [])
            self.assertEqual(len([w for w in A.job(saves)["warnings"] if "no object store" in w]), 1)
        finally:
            A.store("?")
        self.assertEqual([w for w in A.job(saves)["warnings"] if "store" in w], [])

    def test_errors_of_a_job_file_have_line_and_column(self):
        p = A.call("POST", "/v1/jobs", "name: x\nresources:\n  accelerator: V100\nrun: y\n", expect=400)[1]
        self.assertEqual((p["code"], p["line"], p["column"]), ("invalid", 3, 3))

    def test_a_job_names_its_fleet_by_name_or_id(self):
        spec = {"nodes": 1, "resources": {"accelerators": "V100:1"}}
        f = A.call("POST", "/v1/fleets", dict(spec, name="either"), expect=201)[1]
        job = lib.JOB + "config:\n  spotctl:\n    fleet: %s\n"
        for word in (f["id"], "either"):
            self.assertEqual(A.job(job % word)["fleet"], f["id"])
        p = A.call("POST", "/v1/jobs", job % "f999999", expect=400)[1]
        self.assertIn("no active fleet 'f999999'", p["detail"])

    def test_an_unknown_fleet_is_refused(self):
        p = A.call("POST", "/v1/jobs", lib.JOB + "config:\n  spotctl:\n    fleet: nowhere\n", expect=400)[1]
        self.assertIn("nowhere", p["detail"])

    def test_the_baselines_are_stored_at_submit(self):
        A.pool(provider="base", gpu="T4", market="spot", price=0.5)
        A.pool(provider="base", gpu="T4", market="on_demand", price=2.0)
        j = A.job("name: b\nresources:\n  accelerators: T4:1\nrun: x\n")
        base = A.call("GET", "/v1/jobs/%s/cost" % j["id"], expect=200)[1]["baseline"]
        self.assertEqual(base["cheapest"]["price_micros"], 500000)
        self.assertEqual(base["on_demand"]["price_micros"], 2000000)


class Idempotency(unittest.TestCase):
    def jobs(self):
        return int(A.sql("SELECT count(*) FROM job"))

    def asked(self):
        return int(A.sql("SELECT count(*) FROM decision WHERE kind = 'rebalance_request'"))

    def test_the_same_request_again_gives_the_stored_reply(self):
        n = self.jobs()
        h = {"Idempotency-Key": "k-same"}
        a = A.call("POST", "/v1/jobs", lib.JOB, headers=h, expect=201)
        b = A.call("POST", "/v1/jobs", lib.JOB, headers=h, expect=201)
        self.assertEqual(a[1], b[1])
        self.assertEqual(b[2].get("idempotent-replayed"), "true")
        self.assertEqual(self.jobs(), n + 1)

    def test_another_body_under_the_same_key_is_refused(self):
        h = {"Idempotency-Key": "k-other"}
        A.call("POST", "/v1/jobs", lib.JOB, headers=h, expect=201)
        n = self.jobs()
        p = A.call("POST", "/v1/jobs", lib.JOB + "# x\n", headers=h, expect=422)[1]
        self.assertEqual(p["code"], "mismatch")
        p = A.call("POST", "/v1/plan", lib.JOB, headers=h, expect=422)[1]
        self.assertEqual(self.jobs(), n)

    def test_a_refused_request_is_replayed_as_refused(self):
        h = {"Idempotency-Key": "k-bad"}
        a = A.call("POST", "/v1/jobs", "nope", headers=h, expect=400)
        b = A.call("POST", "/v1/jobs", "nope", headers=h, expect=400)
        self.assertEqual(a[1], b[1])
        self.assertEqual(b[2].get("idempotent-replayed"), "true")

    def test_keys_of_two_tokens_do_not_meet(self):
        h = {"Idempotency-Key": "k-two"}
        a = A.call("POST", "/v1/jobs", lib.JOB, headers=h, expect=201)[1]
        b = A.call("POST", "/v1/jobs", lib.JOB, headers=h, token=A.token("engineer"), expect=201)[1]
        self.assertNotEqual(a["id"], b["id"])

    def test_a_request_under_way_is_told_so(self):
        A.sql("""INSERT INTO idempotency (token_id, key, route, body_sha256, created_us) SELECT id, 'k-busy', 'POST /v1/jobs',
            encode(sha256('%s'), 'hex'), %d FROM api_token WHERE name = 'root'""" % (lib.JOB, lib.now()))
        p = A.call("POST", "/v1/jobs", lib.JOB, headers={"Idempotency-Key": "k-busy"}, expect=409)
        self.assertEqual((p[1]["code"], p[2]["retry-after"]), ("conflict", "1"))

    def test_a_key_left_by_a_dead_daemon_is_taken_over(self):
        A.sql("""INSERT INTO idempotency (token_id, key, route, body_sha256, created_us) SELECT id, 'k-dead', 'POST /v1/jobs',
            encode(sha256('%s'), 'hex'), %d FROM api_token WHERE name = 'root'""" % (lib.JOB, lib.now() - 61 * lib.US))
        A.call("POST", "/v1/jobs", lib.JOB, headers={"Idempotency-Key": "k-dead"}, expect=201)

    def test_a_create_whose_reply_was_lost_is_not_done_twice(self):
        h = {"Idempotency-Key": "k-crash"}
        a = A.call("POST", "/v1/jobs", lib.JOB, headers=h, expect=201)[1]
        n = self.jobs()
        # the reference that the create's own statement wrote, before the daemon could store the reply
        A.sql("UPDATE idempotency SET response = 'ref:%s' WHERE key = 'k-crash'" % a["id"])
        b = A.call("POST", "/v1/jobs", lib.JOB, headers=h, expect=201)[1]
        self.assertEqual((b["id"], self.jobs()), (a["id"], n))

    def test_a_key_whose_request_failed_is_let_go_without_the_database(self):
        """A client that retries is served at once, without hearing for a minute that the request is under way."""
        got, h = [], {"Idempotency-Key": "k-away"}
        noted = lambda: int(A.sql("SELECT count(*) FROM idempotency WHERE key = 'k-away'"))

        def end(table):
            A.until(lambda: A.waiters(table) > 0, "a statement waits for " + table)
            return A.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE NOT granted AND relation = '%s'::regclass" % table)
        t = threading.Thread(target=lambda: got.append(A.call("POST", "/v1/rebalance", {"dry_run": True}, headers=h)[0]))
        with A.locked("decision"):
            t.start()
            A.until(lambda: noted() == 1 and A.waiters("decision") > 0, "the act waits")
            with A.locked("idempotency"):
                self.assertEqual((end("decision"), end("idempotency")), ("1", "1"))
                A.until(lambda: A.waiters("idempotency") > 0, "it is tried again")
        t.join()
        self.assertEqual((got[0] // 100, noted()), (5, 0))
        n = self.asked()
        A.call("POST", "/v1/rebalance", {"dry_run": True}, headers=h, expect=202)
        self.assertEqual(self.asked(), n + 1)

    def test_a_reply_is_stored_although_the_database_went_away_then(self):
        """A client that retries gets the answer, without hearing for a minute that the request is under way."""
        job = A.call("POST", "/v1/jobs", lib.JOB, expect=201)[1]["id"]
        for path, key, table in (("/v1/jobs/%s/cancel" % job, "k-done", "job"), ("/v1/tokens", "k-token", "api_token")):
            got, h = [], {"Idempotency-Key": key}
            body = {"name": "k-token", "role": "viewer"} if table == "api_token" else None

            def ask(path=path, body=body, h=h, got=got):
                got.append(A.call("POST", path, body, headers=h)[0])
            t = threading.Thread(target=ask)
            with contextlib.ExitStack() as note:
                with A.locked(table):
                    t.start()
                    A.until(lambda key=key: A.sql("SELECT count(*) FROM idempotency WHERE key = '%s'" % key) == "1", "the key is noted")
                    A.until(lambda table=table: A.waiters(table) > 0, "the work waits")
                    note.enter_context(A.locked("idempotency"))
                for _ in range(5):  # as many connections end one after the other
                    A.until(lambda: A.waiters("idempotency") > 0, "its answer waits")
                    A.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE NOT granted AND relation = 'idempotency'::regclass")
                A.until(lambda: A.waiters("idempotency") > 0, "it is stored again")
            t.join()
            self.assertEqual(got[0] // 100, 2)
            again = A.call("POST", path, body, headers=h)
            self.assertEqual((again[0], again[2].get("idempotent-replayed")), (got[0], "true"))

    def test_a_note_that_failed_is_let_go(self):
        got, h = [], {"Idempotency-Key": "k-note"}
        t = threading.Thread(target=lambda: got.append(A.call("POST", "/v1/rebalance", {"dry_run": True}, headers=h)[0]))
        with A.locked("idempotency"):
            t.start()
            A.until(lambda: A.waiters("idempotency") > 0, "the note waits")
            A.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE NOT granted AND relation = 'idempotency'::regclass")
            A.until(lambda: A.waiters("idempotency") > 0, "it is let go")
        t.join()
        self.assertEqual(got[0] // 100, 5)
        A.call("POST", "/v1/rebalance", {"dry_run": True}, headers=h, expect=202)

    def test_a_create_that_its_repeat_overtook_is_not_done_twice(self):
        n, got = self.asked(), []
        age = lambda: int(A.sql("SELECT coalesce(max(%d - created_us), -1) FROM idempotency WHERE key = 'k-held'" % lib.now()))

        def one():
            got.append(A.call("POST", "/v1/rebalance", {"dry_run": True}, headers={"Idempotency-Key": "k-held"})[:2])
        with A.locked("decision"):
            threads = [threading.Thread(target=one) for _ in range(2)]
            threads[0].start()
            A.until(lambda: age() >= 0 and A.waiters("decision") > 0, "the first waits")
            A.sql("UPDATE idempotency SET created_us = created_us - %d WHERE key = 'k-held'" % (61 * lib.US))
            threads[1].start()
            A.until(lambda: age() < 60 * lib.US, "the second took the key over")
        for t in threads:
            t.join()
        self.assertEqual(self.asked(), n + 1)
        self.assertEqual(sorted(s for s, _ in got), [202, 409], got)
        again = A.call("POST", "/v1/rebalance", {"dry_run": True}, headers={"Idempotency-Key": "k-held"}, expect=202)[1]
        self.assertEqual(again["id"], [j for s, j in got if s == 202][0]["id"])

    def test_a_hundred_copies_at_once_make_one_job(self):
        n, results = self.jobs(), []

        def one():
            results.append(A.call("POST", "/v1/jobs", lib.JOB, headers={"Idempotency-Key": "k-race"})[0])
        threads = [threading.Thread(target=one) for _ in range(40)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(self.jobs(), n + 1)
        self.assertTrue(set(results) <= {201, 409}, results)
        self.assertIn(201, results)


class Lists(unittest.TestCase):
    def test_pages_hold_every_job_once(self):
        made = [A.job("name: page\nrun: x\nresources:\n  accelerators: V100:1\n")["id"] for _ in range(7)]
        seen, cursor = [], ""
        while cursor is not None:
            got = A.call("GET", "/v1/jobs?name=page&limit=3" + (cursor and "&cursor=" + cursor), expect=200)[1]
            seen += [j["id"] for j in got["items"]]
            cursor = got["next"]
        self.assertEqual(seen, made[::-1])

    def test_filters(self):
        j = A.job("name: filt\nrun: x\nresources:\n  accelerators: V100:1\nconfig:\n  spotctl:\n    team: t1\n    project: p1\n")
        other = A.job("name: filt\nrun: x\nresources:\n  accelerators: V100:1\n")
        ids = lambda q: [x["id"] for x in A.call("GET", "/v1/jobs?name=filt&" + q, expect=200)[1]["items"]]
        self.assertEqual(ids("team=t1"), [j["id"]])
        self.assertEqual(ids("project=p1"), [j["id"]])
        self.assertEqual(ids("owner=nobody"), [])
        self.assertEqual(ids("state=active"), [other["id"], j["id"]])
        A.sql("UPDATE job SET state = 'SUCCEEDED' WHERE id = " + j["id"][1:])
        self.assertEqual(ids("state=active"), [other["id"]])
        self.assertEqual(ids("state=SUCCEEDED,FAILED"), [j["id"]])
        self.assertEqual(ids("state=terminal"), [j["id"]])


class One(unittest.TestCase):
    def test_ids_with_and_without_letter(self):
        j = A.job()
        self.assertEqual(A.call("GET", "/v1/jobs/" + j["id"][1:], expect=200)[1]["id"], j["id"])
        for bad in ("j0", "n1", "j", "j1x", "-1", "j99999999999999999999", "j4040404"):
            self.assertEqual(A.call("GET", "/v1/jobs/" + bad, expect=404)[1]["code"], "not_found")

    def test_cancel_is_noted_once_and_shown(self):
        j = A.job()
        a = A.call("POST", "/v1/jobs/%s/cancel" % j["id"], expect=202)[1]
        b = A.call("POST", "/v1/jobs/%s/cancel" % j["id"], {}, expect=202)[1]
        self.assertIsNotNone(a["cancel_at"])
        self.assertEqual(a["cancel_at"], b["cancel_at"])
        self.assertEqual(A.sql("SELECT count(*) FROM event WHERE event = 'CANCEL_ASKED' AND job_id = " + j["id"][1:]), "1")
        A.sql("UPDATE job SET state = 'CANCELLED' WHERE id = " + j["id"][1:])
        A.call("POST", "/v1/jobs/%s/cancel" % j["id"], expect=202)
        A.sql("UPDATE job SET state = 'SUCCEEDED' WHERE id = " + j["id"][1:])
        A.call("POST", "/v1/jobs/%s/cancel" % j["id"], expect=409)

    def wait(self, path, change):
        out = {}

        def ask():
            t = time.time()
            out["reply"] = A.call("GET", path, expect=200)
            out["took"] = time.time() - t
        th = threading.Thread(target=ask)
        th.start()
        if change:
            A.until_parked()
            A.sql(change)
        th.join()
        return out

    def test_a_waiting_reader_is_woken_by_the_notification(self):
        def woken():
            j = A.job()
            i = j["id"][1:]
            out = self.wait("/v1/jobs/%s?wait_state=RUNNING&timeout_s=20" % j["id"],
                            "UPDATE job SET state = 'RUNNING' WHERE id = %s; NOTIFY spot_api, 'j%s'" % (i, i))
            self.assertEqual(out["reply"][1]["state"], "RUNNING")
            return out["took"]
        A.soon(4.5, woken)  # without it: five seconds, each time

    def test_a_lost_notification_costs_seconds_only(self):
        j = A.job()
        out = self.wait("/v1/jobs/%s?wait_state=terminal&timeout_s=20" % j["id"],
                        "UPDATE job SET state = 'FAILED' WHERE id = " + j["id"][1:])
        self.assertEqual(out["reply"][1]["state"], "FAILED")
        self.assertLess(out["took"], 18)

    def test_the_wait_ends_with_what_there_is(self):
        j = A.job()
        out = self.wait("/v1/jobs/%s?wait_state=terminal&timeout_s=1" % j["id"], None)
        self.assertEqual(out["reply"][1]["state"], "QUEUED")
        self.assertGreater(out["took"], 0.9)

    def test_attempts_checkpoints_and_lost_steps(self):
        j, p = int(A.job()["id"][1:]), A.pool(zone="lost")
        for epoch, (start, done) in enumerate([(0, 50), (40, 90), (90, 120)], 1):
            n, _ = A.node(p)
            A.attempt(j, n, epoch, start)
            A.sql("UPDATE attempt SET steps_done = %d, phase='EXITED', exit_reason='%s', ended_us=%d WHERE job_id=%d AND epoch=%d"
                  % (done, "lost" if epoch == 1 else "drained", lib.now(), j, epoch))
        A.sql("INSERT INTO checkpoint (job_id, epoch, state, reason, steps, bytes, created_us, committed_us) "
              "VALUES (%d, 1, 'COMMITTED', 'periodic', 40, 10, 1, 2), (%d, 1, 'ABANDONED', 'notice', 50, 10, 1, NULL)" % (j, j))
        d = A.call("GET", "/v1/jobs/%d" % j, expect=200)[1]
        self.assertEqual(d["lost_steps"], 10)
        self.assertEqual([a["epoch"] for a in d["attempts_list"]], [1, 2, 3])
        self.assertEqual((d["attempts"], d["interruptions"], len(d["checkpoints"])), (3, 1, 1))

    def test_why_shows_decisions_as_they_were_stored(self):
        j = A.job()["id"]
        A.sql("INSERT INTO decision (at_us, kind, job_id, inputs, outcome, why) VALUES (%d, 'wait', %s, "
              "'{\"price$\": 5, \"at@\": 1}', '{}', 'no spot')" % (lib.now(), j[1:]))
        d = A.call("GET", "/v1/jobs/%s/why" % j, expect=200)[1]
        self.assertEqual((d["decisions"][0]["why"], d["decisions"][0]["kind"]), ("no spot", "wait"))
        self.assertEqual(d["verdicts"], [])

    def test_verdicts_come_with_what_was_seen_by_whom(self):
        j = int(A.job()["id"][1:])
        n, _ = A.node(A.pool(zone="verdict"), job=j)
        A.attempt(j, n, 1)
        A.sql("UPDATE node SET last_seen_us = 5000000, said_job = %d, said_epoch = 1, said_step = 7, provider_state = 'gone', provider_seen_us = 9000000, "
              "provider_past = provider_past(provider_past('[]', 'running', 3000000, 'asked'), 'gone', 9000000, 'told'), unanswered = 2, unanswered_us = 8000000, "
              "unanswered_why = 'down' WHERE id = %d; INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us) VALUES (%d, 'interruption', 0, "
              "'imds', '', 4000000); INSERT INTO verdict (at_us, node_id, job_id, epoch, rank, kind, why, seen, step, since_us, missed, false_us, false_why) "
              "SELECT 10000000, id, %d, 1, 0, 'lost', 'w', node_seen(node, 1000000), 7, 5000000, true, 11000000, 'f' FROM node WHERE id = %d" % (j, n, n, j, n))
        v, = A.call("GET", "/v1/jobs/j%d/why" % j, expect=200)[1]["verdicts"]
        self.assertEqual((v["node"], v["job"], v["epoch"], v["verdict"], v["why"], v["missed"]), ("n%d" % n, "j%d" % j, 1, "lost", "w", True))
        self.assertEqual((v["over_since_at"][:19], v["alive_after_at"][:19], v["alive_after_why"]), ("1970-01-01T00:00:05", "1970-01-01T00:00:11", "f"))
        seen = v["seen"]
        self.assertEqual((seen["agent"]["spoke_at"][:19], seen["agent"]["job"], seen["agent"]["step"]), ("1970-01-01T00:00:05", "j%d" % j, 7))
        self.assertEqual([(p["state"], p["by"]) for p in seen["provider"]["past"]], [("running", "asked"), ("gone", "told")])
        self.assertEqual((seen["provider"]["unanswered"], seen["provider"]["unanswered_why"]), (2, "down"))
        self.assertEqual(([o["kind"] for o in seen["notices"]], seen["job"]["epoch"], seen["daemon"]["listens_at"][:19]),
                         (["interruption"], 1, "1970-01-01T00:00:01"))
        self.assertEqual(A.call("GET", "/v1/nodes/n%d" % n, expect=200)[1]["verdicts"], [v])
        text = A.call("GET", "/metrics", token=None, expect=200)[1].decode()
        for line in ('spot_verdicts_total{verdict="lost"} 1', 'spot_false_recoveries_total{verdict="lost"} 1', 'spot_missed_losses_total{verdict="lost"} 1',
                     'spot_false_recoveries_total{verdict="silent"} 0', 'spot_missed_losses_total{verdict="silent"} 0', 'spot_suspected_nodes{when="now"} 0'):
            self.assertIn(line + "\n", text)


class Logs(unittest.TestCase):
    def setUp(self):
        self.j = int(A.job()["id"][1:])
        n, _ = A.node(A.pool(zone="log%d" % self.j))
        A.attempt(self.j, n, 1)

    def add(self, epoch, at, text):
        A.sql("INSERT INTO job_log VALUES (%d, %d, %d, 1, '%s'); NOTIFY spot_api, 'j%d'" % (self.j, epoch, at, text, self.j))

    def get(self, q=""):
        s, data, h = A.call("GET", "/v1/jobs/%d/logs%s" % (self.j, q), expect=200)
        return data.decode(), int(h["x-log-epoch"]), int(h["x-log-next"]), h.get("x-log-end")

    def test_bytes_from_an_offset(self):
        self.add(1, 0, "hello ")
        self.add(1, 6, "world")
        self.assertEqual(self.get(), ("hello world", 1, 11, None))
        self.assertEqual(self.get("?offset=3&epoch=1"), ("lo world", 1, 11, None))
        self.assertEqual(self.get("?offset=11"), ("", 1, 11, None))

    def test_the_end_of_an_attempt_leads_to_the_next(self):
        self.add(1, 0, "one")
        A.sql("UPDATE attempt SET ended_us = 5, phase = 'EXITED' WHERE job_id = %d" % self.j)
        n, _ = A.node(A.pool(zone="log2-%d" % self.j))
        A.attempt(self.j, n, 2)
        self.assertEqual(self.get("?epoch=1"), ("one", 1, 3, None))
        self.assertEqual(self.get("?epoch=1&offset=3"), ("", 2, 0, None))
        self.add(2, 0, "two")
        A.sql("UPDATE job SET state = 'SUCCEEDED' WHERE id = %d; UPDATE attempt SET ended_us = 5 WHERE job_id = %d" % (self.j, self.j))
        self.assertEqual(self.get("?epoch=2&offset=0"), ("two", 2, 3, None))
        self.assertEqual(self.get("?epoch=2&offset=3"), ("", 2, 3, "1"))

    def test_following_is_woken_by_new_bytes(self):
        self.add(1, 0, "a")
        self.end = 1

        def more():
            out = {}
            th = threading.Thread(target=lambda: out.update(r=self.get("?offset=%d&follow_s=20" % self.end), t=time.monotonic()))
            th.start()
            A.until_parked()
            t = time.monotonic()
            self.add(1, self.end, "bc")
            self.end += 2
            th.join()
            self.assertEqual(out["r"], ("bc", 1, self.end, None))
            return out["t"] - t
        A.soon(1.5, more)  # without a notification: two seconds


class Fleets(unittest.TestCase):
    def make(self, name, **more):
        body = {"name": name, "nodes": 2, "resources": {"accelerators": "V100:1"}}
        body.update(more)
        return A.call("POST", "/v1/fleets", body, expect=201)

    def test_life_of_a_fleet(self):
        s, f, h = self.make("life")
        self.assertEqual((f["state"], f["version"], f["spec"]["nodes"], h["etag"]), ("ACTIVE", 1, 2, '"v1"'))
        s, g, h = A.call("PATCH", "/v1/fleets/" + f["id"], {"nodes": 5}, headers={"If-Match": '"v1"'}, expect=200)
        self.assertEqual((g["version"], g["spec"]["nodes"], h["etag"]), (2, 5, '"v2"'))
        p = A.call("PATCH", "/v1/fleets/" + f["id"], {"nodes": 6}, headers={"If-Match": '"v1"'}, expect=412)[1]
        self.assertEqual(p["code"], "conflict")
        g = A.call("PATCH", "/v1/fleets/" + f["id"], {"gpus": 16}, expect=200)[1]
        self.assertEqual(g["spec"].get("gpus"), 16)
        self.assertFalse(g["spec"].get("nodes"))
        self.assertEqual(A.call("DELETE", "/v1/fleets/" + f["id"], expect=202)[1]["state"], "CLOSING")
        A.call("DELETE", "/v1/fleets/" + f["id"], expect=202)
        A.call("PATCH", "/v1/fleets/" + f["id"], {"nodes": 1}, expect=409)

    def test_names_of_live_fleets_are_unique(self):
        self.make("solo")
        A.call("POST", "/v1/fleets", {"name": "solo", "nodes": 1, "resources": {"accelerators": "V100:1"}}, expect=409)

    def test_a_replayed_create_makes_no_second_fleet(self):
        h = {"Idempotency-Key": "fleet-1"}
        body = {"name": "replay", "nodes": 1, "resources": {"accelerators": "V100:1"}}
        a = A.call("POST", "/v1/fleets", body, headers=h, expect=201)[1]
        self.assertEqual(A.call("POST", "/v1/fleets", body, headers=h, expect=201)[1], a)

    def test_lists_and_nodes_of_a_fleet(self):
        f = self.make("nodes")[1]
        A.node(A.pool(zone="fleet"), fleet=f["id"][1:])
        g = A.call("GET", "/v1/fleets/" + f["id"], expect=200)[1]
        self.assertEqual((g["nodes_live"], len(g["nodes"]), g["nodes"][0]["fleet"]), (1, 1, f["id"]))
        items = A.call("GET", "/v1/fleets?state=ACTIVE&limit=1000", expect=200)[1]["items"]
        self.assertIn(f["id"], [x["id"] for x in items])
        got = A.call("GET", "/v1/nodes?fleet=" + f["id"], expect=200)[1]["items"]
        self.assertEqual(len(got), 1)


class Nodes(unittest.TestCase):
    def test_lists_and_filters(self):
        p = A.pool(provider="nodecloud", zone="n1")
        a, _ = A.node(p, "READY")
        b, _ = A.node(p, "GONE")
        ids = lambda q: [x["id"] for x in A.call("GET", "/v1/nodes?provider=nodecloud&" + q, expect=200)[1]["items"]]
        self.assertEqual(ids("state=live"), ["n%d" % a])
        self.assertEqual(ids("state=GONE"), ["n%d" % b])
        self.assertEqual(ids("limit=1"), ["n%d" % b])

    def test_draining_becomes_a_notice_for_the_engine(self):
        n, _ = A.node(A.pool(zone="drain"))
        d = A.call("POST", "/v1/nodes/n%d/drain" % n, expect=202)[1]
        self.assertEqual((d["notices"][0]["kind"], d["notices"][0]["source"]), ("maintenance", "api"))
        A.call("POST", "/v1/nodes/n%d/drain" % n, {}, expect=202)
        self.assertEqual(A.sql("SELECT count(*) FROM notice WHERE node_id = %d" % n), "1")
        w, _ = A.node(A.pool(zone="drain2"), "WANTED")
        A.call("POST", "/v1/nodes/n%d/drain" % w, expect=409)
        A.call("POST", "/v1/nodes/n424242/drain", expect=404)

    def test_ending_a_node(self):
        p = A.pool(zone="end")
        n, _ = A.node(p)
        self.assertEqual(A.call("DELETE", "/v1/nodes/n%d" % n, expect=202)[1]["state"], "READY")
        self.assertEqual(A.sql("SELECT count(*) FROM notice WHERE node_id = %d" % n), "1")
        self.assertEqual(A.call("DELETE", "/v1/nodes/n%d?force=1" % n, expect=202)[1]["state"], "TERMINATING")
        self.assertEqual(A.call("DELETE", "/v1/nodes/n%d?force=1" % n, expect=202)[1]["state"], "TERMINATING")
        w, _ = A.node(p, "WANTED")
        self.assertEqual(A.call("DELETE", "/v1/nodes/n%d" % w, expect=202)[1]["state"], "FAILED")
        x, _ = A.node(p, "LAUNCHING")
        self.assertEqual(A.call("DELETE", "/v1/nodes/n%d" % x, expect=409)[1]["code"], "conflict")
        u, _ = A.node(p, "WANTED")  # to be repeated: an earlier call may have made it
        A.sql("INSERT INTO event (at_us, entity, entity_id, node_id, was, now, event, why, actor) "
              "VALUES (1, 'node', 'n%d', %d, 'LAUNCHING', 'UNKNOWN', 'AMBIGUOUS', '', 'engine')" % (u, u))
        self.assertEqual(A.call("DELETE", "/v1/nodes/n%d" % u, expect=409)[1]["code"], "conflict")
        self.assertEqual(A.sql("SELECT state FROM node WHERE id = %d" % u), "WANTED")


class Rebalance(unittest.TestCase):
    def test_the_outcome_is_waited_for(self):
        s, d, h = A.call("POST", "/v1/rebalance", {"dry_run": True}, expect=202)
        self.assertEqual((d["state"], d["dry_run"], h["location"]), ("pending", True, "/v1/rebalance/" + d["id"]))
        out = {}
        th = threading.Thread(target=lambda: out.update(r=A.call("GET", h["location"] + "?timeout_s=20", expect=200)[1]))
        th.start()
        A.until_parked()
        A.sql("UPDATE decision SET outcome = '{\"state\":\"done\",\"dry_run\":true,\"moves\":[],\"kept\":[]}', why = '0 of 0' "
              "WHERE id = %s; NOTIFY spot_api, '%s'" % (d["id"][1:], d["id"]))
        th.join()
        self.assertEqual((out["r"]["state"], out["r"]["moves"], out["r"]["why"]), ("done", [], "0 of 0"))
        A.call("GET", "/v1/rebalance/d999", expect=404)


class Moves(unittest.TestCase):
    def test_a_move_is_held_against_staying(self):
        a, b = A.pool(zone="stay", itype="g5.xlarge", price=2.0), A.pool(zone="went", itype="g5.xlarge", price=1.0)
        job = int(A.job()["id"][1:])
        node, _ = A.node(b, job=job)
        A.attempt(job, node, 1)
        h, t = 3600 * lib.US, lib.now() - 3 * 3600 * lib.US
        A.sql("SELECT price_partitions_ensure(%d, %d)" % (t, t + 4 * h))
        # Two hours there at a speed of 1.5, while the old pool cost 2 and then 4 dollars.
        A.sql("UPDATE attempt SET started_us = %d, ended_us = %d WHERE job_id = %d;" % (t, t + 2 * h, job) +
              "INSERT INTO price_point VALUES (%d, %d, %d, 2000000, 'x'), (%d, %d, %d, 4000000, 'x');" % (a, t + 1, t, a, t + h, t + h) +
              "INSERT INTO decision (at_us, kind, job_id, node_id, inputs, outcome, why) VALUES (%d, 'rebalance', %d, %d, "
              "'{\"move\": {\"from_pool\": %d, \"speed\": 1.5, \"saving_micros\": 3000000, \"cost_micros\": 500000}}', '{}', 'saves');"
              % (t - 60 * lib.US, job, node, a) +
              "INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, from_us, to_us, price_micros, "
              "price_observed_us, amount_micros) VALUES (%d, 'compute', %d, %d, 'spot', %d, 1, %d, %d, 1000000, 0, 2100000)"
              % (t, node, b, job, t - 6 * 60 * lib.US, t + 2 * h) +
              # Another job on that machine later on is none of its costs.
              ";INSERT INTO ledger (at_us, kind, node_id, pool_id, market, job_id, epoch, from_us, to_us, price_micros, "
              "price_observed_us, amount_micros) VALUES (%d, 'compute', %d, %d, 'spot', %d, 1, %d, %d, 1000000, 0, 700000)"
              % (t, node, b, int(A.job()["id"][1:]), t + 2 * h, t + 3 * h))
        r = A.call("GET", "/v1/moves", expect=200)[1]
        self.assertEqual((r["moves"], r["done"], r["predicted_micros"]), (1, 1, 2500000))
        # 2 h x 3 USD (mean) x 1.5 less 2.1 USD.
        self.assertEqual((r["stay_micros"], r["paid_micros"], r["earned_micros"]), (9000000, 2100000, 6900000))
        i = r["items"][0]
        self.assertEqual((i["from"], i["to"], i["hours"], i["done"]), ("p%d" % a, "p%d" % b, 2, True))
        # It started there a second time: that counts as well, and the time between the two does not.
        A.sql("INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, phase, files, steps_start, steps_done, "
              "created_us, started_us, ended_us, settled) SELECT job_id, 2, node_id, pool_id, market, desired, phase, files, 0, 0, %d, "
              "%d, %d, true FROM attempt WHERE job_id = %d AND epoch = 1" % (t + 5 * h // 2, t + 5 * h // 2, t + 3 * h, job))
        r = A.call("GET", "/v1/moves", expect=200)[1]
        self.assertEqual((r["moves"], r["items"][0]["hours"]), (1, 2.5))
        # 2.5 h at 3.33 USD, the mean over all three hours, x 1.5.
        self.assertAlmostEqual(r["stay_micros"], 12500000, delta=1000)
        self.assertEqual(r["earned_micros"], r["stay_micros"] - 2100000)
        text = A.call("GET", "/metrics", expect=200)[1].decode()
        self.assertIn('spot_moves_total{kind="rebalance"} 1', text)
        self.assertIn('spot_moves_usd{what="predicted"} 2.5', text)
        self.assertIn('spot_moves_usd{what="paid"} 2.1', text)
        self.assertEqual(A.call("GET", "/v1/moves?since=%s" % "2099-01-01T00:00:00Z", expect=200)[1]["moves"], 0)


if __name__ == "__main__":
    lib.main()
