#!/usr/bin/env python3
"""Three daemons on one database: one leads again within two seconds of the leader's end, however that ended.
Requests and agents may reach any of them.

SPOT_KILLS: how many leaders are killed (3)."""
import http.client
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402
from support.replicas import Case  # noqa: E402

OPTIONS = {"providers": ("aws",), "regions": "us-east-1", "daemons": 3, "settings": {"engine": {"lease": "1200ms"}}}
KILLS = int(os.environ.get("SPOT_KILLS", "3"))


class Takeover(Case):
    OPTIONS = OPTIONS

    def test_a_killed_leader_is_followed_within_two_seconds_and_no_job_notices(self):
        w = self.world
        job = w.submit(steps=60 * KILLS + 400)
        w.await_steps(job, 5)
        took = []
        for _ in range(KILLS):
            leader = w.await_leader()
            took.append(self.act_after(leader.kill9()))
            leader.start()
        sys.stderr.write("        first act after kill -9: %s s\n" % " ".join("%.2f" % t for t in sorted(took)))
        self.assertLess(max(took), self.late.limit(2.0), took)
        j = w.await_end(job, 120)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 1, 0), j["why"])
        w.await_gone()
        self.consistent()

    def test_b_sigterm_hands_over_at_once(self):
        w = self.world
        leader = w.await_leader()
        took = self.act_after(leader.terminate())
        sys.stderr.write("        first act after SIGTERM: %.2f s\n" % took)
        self.assertLess(took, self.late.limit(1.0))
        self.assertEqual(leader.proc.wait(20), 0)
        leader.start()
        w.await_gone()

    def test_c_a_frozen_leader_changes_nothing_when_it_wakes(self):
        w = self.world
        job = w.submit(steps=700)
        ref = w.node(w.await_steps(job, 20)["node"])["ref"]
        leader = w.await_leader()
        before = leader.text().count("launch.sent")
        took = self.act_after(leader.freeze())
        sys.stderr.write("        first act after SIGSTOP: %.2f s\n" % took)
        try:
            self.assertLess(took, self.late.limit(2.0))
            w.sim("POST", "/reclaim", {"instance": ref, "notice_s": 6})
            w.await_attempt(job, 2, 60)
        finally:
            leader.thaw()
        w.until("it knows that it does not lead", 20, lambda: "engine.follows" in leader.text())
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"]), ("SUCCEEDED", 2), j["why"])
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(700))
        self.assertEqual(leader.text().count("launch.sent"), before)
        w.await_gone()
        self.consistent()

    def test_d_a_launch_that_a_frozen_leader_sent_is_found_by_the_next(self):
        w = self.world
        slow = w.sim("POST", "/fault", {"kind": "delay", "ms": 4000, "match": {"service": "ec2", "action": "RunInstances"}, "count": 1})
        w.await_leader()
        sent = {r: r.text().count("launch.sent") for r in w.replicas}
        job = w.submit(steps=100)
        leader = w.until("the launch is sent", 30, lambda: next((r for r in w.replicas if r.text().count("launch.sent") > sent[r]), None))
        leader.freeze()
        try:
            w.await_leader(leader)
            w.await_attempt(job, 1, 60)
        finally:
            leader.thaw()
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"]), ("SUCCEEDED", 1), j["why"])
        w.sim("DELETE", "/fault?id=%d" % slow["id"])
        books = w.await_gone()
        tokens = [i["token"] for i in books["instances"]]
        self.assertEqual(len(tokens), len(set(tokens)))
        self.consistent()


class Anybody(Case):
    OPTIONS = OPTIONS

    def test_every_daemon_serves_everything(self):
        """Each request of each kind to each daemon: submit, read, cancel, the agents' end, one key of a repeat for all."""
        w = self.world
        leader = w.await_leader()
        followers = [r for r in w.replicas if r is not leader]
        # Agents speak to followers only, too: the leader hears by the rows and NOTIFY.
        w.balancer.remove(leader.port)
        began = time.time()
        job = w.submit(steps=300)
        j = w.await_steps(job, 10)
        wanted = int(w.sql("SELECT min(at_us) FROM decision WHERE job_id = %s" % job[1:])) / 1e6
        self.assertLess(wanted - began, self.late.limit(1.0), "a follower's submit did not wake the leader")
        ref = w.node(j["node"])["ref"]
        w.sim("POST", "/reclaim", {"instance": ref, "notice_s": 20})
        w.await_attempt(job, 2, 60)
        told = w.sql("SELECT (a.signalled_us - n.heard_us) / 1e6 FROM notice n JOIN attempt a ON a.node_id = n.node_id"
                     " WHERE a.job_id = %s ORDER BY a.epoch LIMIT 1" % job[1:])
        sys.stderr.write("        notice at a follower to the job's signal: %s s\n" % told)
        self.assertLess(float(told), self.late.limit(1.0))
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 2, 0), j["why"])
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(300))
        w.balancer.add(leader.port)
        # The same key at any daemon, at the same time: one job.
        text = e2e.JOB.format(name="once", gpus="T4: 1", resources="", steps=5, step_ms=1, interval="never", train=w.store.uri("e2e/spot-train"),
                              before=":", top="", ours="    work: 2h")
        made = []

        def submit(port):
            status, reply = self.post(port, text)
            while status == 409:  # the first is under way
                status, reply = self.post(port, text)
            made.append((status, reply.get("id")))
        threads = [threading.Thread(target=submit, args=(r.port,)) for r in (*w.replicas, *followers) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        ids = {i for status, i in made if status in (200, 201, 202)}
        self.assertEqual(len(ids), 1, made)
        self.assertEqual(w.sql("SELECT count(*) FROM job WHERE name = 'once'"), "1")
        w.ctl("job", "cancel", ids.pop())
        # Only the leader calls the clouds; a machine that stands still for a lease makes another one lead.
        self.assertEqual([r.name for r in followers if "engine.leads" not in r.text()
                          and ("poller.polled" in r.text() or "launch.sent" in r.text())], [])
        metrics = w.ask("GET", "/metrics")[1]
        self.assertIn('spot_leader{holder="', metrics)
        self.assertIn("/%d\"} 1" % leader.proc.pid, metrics)
        w.await_gone()
        self.consistent()

    def post(self, port, text):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        c.request("POST", "/v1/jobs", text, {"Authorization": "Bearer " + self.world.token, "Content-Type": "application/yaml",
                                             "Idempotency-Key": "the-same-for-all-0001"})
        r = c.getresponse()
        body = r.read()
        c.close()
        return r.status, json.loads(body)


if __name__ == "__main__":
    e2e.main()
