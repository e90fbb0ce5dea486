"""The agent's protocol: checkpoints, logs, samples."""
import threading
import lib
from agent_case import A, Case, sha


class Checkpoint(Case):
    def open(self, named, expect=200, **more):
        body = {"job": "j%d" % self.job, "epoch": 1, "reason": "periodic", "steps": 5,
                "chunks": [{"path": p, "seq": s, "bytes": len(t), "mode": 420, "sha256": sha(t)} for p, s, t in named]}
        body.update(more)
        return self.agent("checkpoint", body, expect)

    def mint(self, held=True):
        """Plays the engine when it sees an open checkpoint; held: only when the agent's request waits for it."""
        def run():
            c = A.until(lambda: A.sql("SELECT id FROM checkpoint WHERE job_id = %d AND state = 'OPEN' AND urls_us IS NULL" % self.job), "an open one")
            if held:
                A.until_parked()
            A.sql("UPDATE checkpoint_chunk SET upload_url = 'http://store/' || object_key WHERE checkpoint_id = %s AND fresh; "
                  "UPDATE checkpoint SET urls_us = 1 WHERE id = %s; NOTIFY spot_api, 'c%s'" % (c, c, c))
        th = threading.Thread(target=run)
        th.start()
        return th

    def test_only_what_is_new_is_uploaded(self):
        self.start()
        th = self.mint()
        a = self.open([("a", 0, "AAAA"), ("d/b", 0, "BB"), ("d/b", 1, "CC")])
        th.join()
        self.assertEqual([(u["path"], u["seq"]) for u in a["uploads"]], [("a", 0), ("d/b", 0), ("d/b", 1)])
        self.assertTrue(all(u["url"].startswith("http://store/") for u in a["uploads"]))
        self.agent("commit", {"job": "j%d" % self.job, "epoch": 1, "checkpoint": a["checkpoint"]})
        self.agent("commit", {"job": "j%d" % self.job, "epoch": 1, "checkpoint": a["checkpoint"]})
        j = A.call("GET", "/v1/jobs/%d" % self.job, expect=200)[1]
        self.assertEqual((j["checkpoint"]["id"], j["checkpoint"]["steps"], j["checkpoint"]["bytes"]), (a["checkpoint"], 5, 8))
        self.assertEqual(A.sql("SELECT count(upload_url) FROM checkpoint_chunk WHERE checkpoint_id = " + a["checkpoint"][1:]), "0")
        th = self.mint()
        b = self.open([("a", 0, "AAAA"), ("d/b", 0, "XX"), ("d/b", 1, "CC")], steps=6)
        th.join()
        self.assertEqual([(u["path"], u["seq"]) for u in b["uploads"]], [("d/b", 0)])
        c = self.open([("a", 0, "AAAA")], steps=7)
        self.assertEqual(c["uploads"], [])
        self.assertEqual(self.agent("commit", {"job": "j%d" % self.job, "epoch": 1, "checkpoint": b["checkpoint"]}, 409)["code"],
                         "conflict")
        self.agent("commit", {"job": "j%d" % self.job, "epoch": 1, "checkpoint": c["checkpoint"]})
        self.assertEqual(A.sql("SELECT checkpoint_id FROM job WHERE id = %d" % self.job), c["checkpoint"][1:])

    def test_uncommitted_bytes_are_not_counted_as_stored(self):
        self.start()
        self.mint(held=False)
        self.open([("a", 0, "ZZ")])
        self.mint(held=False)
        self.assertEqual(len(self.open([("a", 0, "ZZ")])["uploads"]), 1)

    def test_bytes_of_another_job_are_not_counted_as_stored(self):
        """They go with that job."""
        self.start()
        th = self.mint()
        a = self.open([("a", 0, "SAME")])
        th.join()
        self.agent("commit", {"job": "j%d" % self.job, "epoch": 1, "checkpoint": a["checkpoint"]})
        self.node, self.token = A.node(self.pool, "BOOTING")
        self.start()
        th = self.mint()
        b = self.open([("a", 0, "SAME")])
        th.join()
        self.assertEqual(len(b["uploads"]), 1)

    def test_a_request_that_came_twice_is_no_end_of_the_attempt(self):
        self.start()
        first, second = {}, {}
        th = threading.Thread(target=lambda: first.update(self.open([("a", 0, "twice")], expect=503)))
        th.start()
        A.until_parked()
        later = threading.Thread(target=lambda: second.update(self.open([("a", 0, "another")])))
        later.start()
        th.join()
        self.assertEqual(first["code"], "unavailable")
        self.mint(held=False).join()
        later.join()
        self.agent("commit", {"job": "j%d" % self.job, "epoch": 1, "checkpoint": second["checkpoint"]})

    def test_the_same_request_again_goes_on_with_its_checkpoint(self):
        """Signing many URLs takes longer than a request is held. Nobody gets an incomplete set."""
        self.start()
        named = [("a", 0, "A"), ("a", 1, "B"), ("b", 0, "C")]
        got = [{}, {}]
        first = threading.Thread(target=lambda: got[0].update(self.open(named)))
        first.start()
        A.until_parked()
        A.sql("UPDATE checkpoint_chunk SET upload_url = 'http://store/part' WHERE seq = 1 AND checkpoint_id = "
              "(SELECT max(id) FROM checkpoint WHERE job_id = %d)" % self.job)
        again = threading.Thread(target=lambda: got[1].update(self.open(named)))
        again.start()
        A.until_parked(2)
        self.mint(held=False).join()
        first.join()
        again.join()
        self.assertEqual(got[0], got[1])
        self.assertEqual(len(got[0]["uploads"]), 3)
        self.assertEqual(A.sql("SELECT count(*) FROM checkpoint WHERE job_id = %d" % self.job), "1")

    def test_commit_needs_the_urls(self):
        self.start()
        th = threading.Thread(target=lambda: self.open([("a", 0, "late")]))
        th.start()
        c = A.until(lambda: A.sql("SELECT max(id) FROM checkpoint WHERE job_id = %d" % self.job), "the checkpoint")
        self.agent("commit", {"job": "j%d" % self.job, "epoch": 1, "checkpoint": "c" + c}, 409)
        self.mint(held=False)
        th.join()
        self.agent("commit", {"job": "j%d" % self.job, "epoch": 1, "checkpoint": "c" + c})

    def test_bad_chunks_are_refused(self):
        self.start()
        ok = {"path": "a", "seq": 0, "bytes": 1, "sha256": "0" * 64}
        for bad in ({"path": "/a"}, {"path": "../a"}, {"path": "a/../b"}, {"path": "a//b"}, {"path": "."}, {"path": ""}, {"path": "a/"},
                    {"path": "a\nb"}, {"path": "x" * 1025}, {"sha256": "0" * 63}, {"sha256": "G" * 64}, {"sha256": "A" * 64},
                    {"bytes": -1}, {"bytes": (64 << 20) + 1}, {"seq": -1}, {"mode": -1}, {"bytes": "1"}, {"seq": 1.5}):
            p = self.open([], 400, chunks=[dict(ok, **bad)])
            self.assertEqual(p["code"], "invalid", bad)
        self.open([], 400, chunks=[ok, ok])
        self.open([], 400, chunks={})
        self.open([], 400, reason="because")
        self.open([], 400, steps=-1)


    def refusals(self):
        why = A.call("GET", "/v1/jobs/%d/why" % self.job, expect=200)[1]
        found = [e for e in why["events"] if e["event"] == "CHECKPOINT_REFUSED"]
        events = A.call("GET", "/v1/events?job=j%d&limit=1000" % self.job, expect=200)[1]["items"]
        self.assertEqual([e["id"] for e in found], [e["id"] for e in events if e["event"] == "CHECKPOINT_REFUSED"])
        self.assertTrue(all(e["actor"] == "n%d" % self.node and e["epoch"] == 1 for e in found))
        return [e["why"] for e in found]

    def test_an_owner_is_told_that_saves_are_refused_and_why(self):
        self.start()
        counted = A.metric("spot_checkpoints_refused_total")
        many = [{"path": "model", "seq": i, "bytes": 64 << 20, "mode": 420, "sha256": "%064x" % i} for i in range(20001)]
        for _ in range(3):
            p = self.open([], 400, chunks=many)
        self.assertIn("more than 20000 chunks", p["detail"])
        self.assertEqual(p["field"], "chunks")
        self.assertEqual(len(self.refusals()), 1)
        self.assertIn("checkpoint refused: the list has more than 20000 chunks (one for each 64 MiB of a file, 1342 GB in all)",
                      self.refusals()[0])
        self.open([("a\tb", 0, "x")], 400)
        self.assertIn("file 'a?b': path must be relative", self.refusals()[1])
        self.open([("same", 0, "x"), ("same", 0, "x")], 400)
        self.assertEqual(len(self.refusals()), 3)
        self.assertEqual(A.metric("spot_checkpoints_refused_total"), counted + 5)
        # A request that was refused before a checkpoint was stored, and is refused again, is reported again.
        self.agent("commit", {"job": "j%d" % self.job, "epoch": 1, "checkpoint": self.open([])["checkpoint"]})
        self.open([], 400, chunks=many)
        self.open([], 400, chunks=many)
        self.assertEqual(len(self.refusals()), 4)
        for i in range(20):
            self.open([("%d\t" % i, 0, "x")], 400)
        self.assertEqual(len(self.refusals()), 16)
        # Two hundred later events do not hide it.
        A.sql("INSERT INTO event (at_us, entity, entity_id, job_id, event) SELECT 1, 'attempt', 'x', %d, 'PHASE' FROM generate_series(1, 300)" % self.job)
        self.assertEqual(len([e for e in A.call("GET", "/v1/jobs/%d/why" % self.job, expect=200)[1]["events"]
                              if e["event"] == "CHECKPOINT_REFUSED"]), 16)

    def test_a_refusal_to_a_past_attempt_is_no_event(self):
        self.start()
        self.move_away()
        self.open([("a\tb", 0, "x")], 400)
        self.assertEqual(self.refusals(), [])


class LogAndSample(Case):
    def log(self, offset, data, expect=200, epoch=1):
        return A.call("POST", "/v1/agent/log?job=j%d&epoch=%d&offset=%d" % (self.job, epoch, offset), data, token=self.session,
                      expect=expect)[1]

    def test_bytes_are_stored_once(self):
        self.start()
        self.assertEqual(self.log(0, b"hello\x00\xff"), {"next_offset": 7})
        self.assertEqual(self.log(0, b"hello\x00\xff"), {"next_offset": 7})
        self.assertEqual(self.log(9, b"later"), {"next_offset": 7})
        self.assertEqual(self.log(7, b" more"), {"next_offset": 12})
        self.assertEqual(self.log(12, b""), {"next_offset": 12})
        s, data, h = A.call("GET", "/v1/jobs/%d/logs" % self.job, expect=200)
        self.assertEqual((data, h["x-log-next"]), (b"hello\x00\xff more", "12"))
        self.assertEqual(self.log(0, b"x", 409, epoch=2)["code"], "stale_epoch")
        self.assertEqual(self.log(12, b"x" * (256 << 10)), {"next_offset": 12 + (256 << 10)})
        self.assertEqual(self.log(0, b"x" * ((256 << 10) + 1), 413)["code"], "too_large")

    def test_the_last_words_of_an_ended_attempt_are_taken(self):
        self.start()
        self.report("EXITED", reason="ok", exit_code=0)
        self.assertEqual(self.log(0, b"bye"), {"next_offset": 3})

    def test_samples(self):
        self.start()
        t = lib.now() - lib.US
        self.agent("sample", {"at_us": t, "gpus": 1, "gpu_util": 0.93, "gpu_mem_used_mib": 100, "gpu_mem_total_mib": 16000,
                              "gpu_power_mw": 250000, "cpu_util": 0.1, "mem_used_mib": 900})
        self.agent("sample", {"at_us": t, "gpus": 1})
        self.agent("sample", {"gpus": 0})
        s = A.call("GET", "/v1/nodes/n%d" % self.node, expect=200)[1]["samples"]
        self.assertEqual((len(s), s[0]["gpu_util"], s[1]["gpus"], s[1]["gpu_util"]), (2, 0.93, 0, None))
        self.agent("sample", {"gpus": -1}, 400)
        self.agent("sample", {"gpus": 1, "gpu_util": -0.5}, 400)


if __name__ == "__main__":
    lib.main()
