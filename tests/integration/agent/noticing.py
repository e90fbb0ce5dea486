"""Each cloud's own channel of notices, and the proof of a node's identity."""
import hashlib
import os
import signal
import time

import clouds
import fake
from case import AGENT, TRAIN, AgentCase


class CloudCase(AgentCase):
    provider = ""

    def setUp(self):
        super().setUp()
        self.agent.close()
        self.agent = fake.Agent(AGENT, self.daemon, provider=self.provider)
        self.addCleanup(self.agent.close)
        # Requests to the metadata service (at localhost) must not go through the proxy.
        self.agent.more_env = {"http_proxy": "http://127.0.0.1:1", "no_proxy": "127.0.0.1"}

    def metadata_at(self, server, variable, value):
        self.addCleanup(server.close)
        self.agent.more_env[variable] = value
        return server

    def train(self, more="", **job):
        doc = self.job(f"'{TRAIN}' --steps 100000 --step-ms 5 {more}", **job)
        self.until(lambda: any(r["steps_done"] > 5 for r in self.daemon.reports), "progress")
        return doc

    def signalled(self):
        r = self.until(lambda: next((r for r in self.daemon.reports if "signalled_us" in r), None), "signalled_us")
        return r["signalled_us"] / 1e6

    def committed(self):
        return [c for c in self.daemon.checkpoints.values() if c["committed"]]

    def order(self):
        return [e[0] if e[0] != "report" else e[1] for e in self.daemon.events
                if e[0] in ("commit", "ack") or e[:2] == ("report", "EXITED")]


class GcpNotices(CloudCase):
    provider = "gcp"

    def setUp(self):
        super().setUp()
        self.cloud = clouds.Gcp()
        self.metadata_at(self.cloud, "GCE_METADATA_HOST", f"localhost:{self.cloud.port}")

    def waiting(self):
        self.cloud.until(lambda: {"instance/preempted", "instance/maintenance-event"} <= self.cloud.hanging(),
                         "hanging GETs")

    def test_a_preemption_signals_the_job_within_a_second_and_all_is_saved(self):
        self.agent.start()
        self.train()
        self.waiting()
        published = self.cloud.put("instance/preempted", "TRUE")
        _, notice = self.until(lambda: self.daemon.notices and self.daemon.notices[0], "the notice")
        self.assertLess(self.signalled() - published, self.late.limit(1.0))
        self.assertEqual((notice["kind"], notice["source"], notice["raw"]), ("interruption", "gcp", "TRUE"))
        self.assertAlmostEqual(notice["deadline_us"] / 1e6, published + 30, delta=self.late.limit(2))
        self.assertAlmostEqual(notice["left_us"] / 1e6, 30, delta=self.late.limit(2))
        self.assertEqual(self.exited()["reason"], "drained")
        self.assertEqual(len(self.committed()), 1)
        self.assertEqual(self.order(), ["commit", "EXITED"])
        self.assertEqual(self.notices(), 1)

    def test_the_first_question_does_not_wait_and_the_next_ones_carry_the_etag(self):
        self.agent.start()
        self.waiting()
        asked = [q for key, q in self.cloud.asked if key == "instance/preempted"]
        self.assertEqual(asked[0], {})
        self.assertEqual(asked[1], {"wait_for_change": "true", "timeout_sec": "60",
                                    "last_etag": self.cloud.etag("instance/preempted")})
        self.until(lambda: self.daemon.haves, "a poll")
        self.assertEqual(len([1 for key, q in self.cloud.asked if key == "instance/preempted"]), 2)

    def test_a_preemption_that_came_before_us_is_seen(self):
        self.cloud.put("instance/preempted", "TRUE\n")
        self.agent.start()
        _, notice = self.until(lambda: self.daemon.notices and self.daemon.notices[0], "the notice")
        self.assertEqual(notice["kind"], "interruption")

    def test_the_loop_survives_restarts_of_the_server(self):
        self.agent.start()
        self.train()
        for _ in range(3):
            self.waiting()
            self.cloud.asked.clear()
            self.cloud.restart()
        self.waiting()
        self.cloud.restart(down=True)
        self.cloud.put("instance/preempted", "TRUE")    # nobody hears of it
        n = len(self.cloud.asked)
        self.cloud.until(lambda: len(self.cloud.asked) > n + 3, "questions while it is down")
        self.assertEqual(self.daemon.notices, [])
        with self.cloud.lock:
            self.cloud.down = False
        signalled = self.signalled()
        self.assertLess(signalled - self.cloud.first_read["instance/preempted"], self.late.limit(1.0))

    def test_503_is_asked_again_but_not_in_a_storm(self):
        self.cloud.status = 503
        self.agent.start()
        self.cloud.until(lambda: len(self.cloud.asked) > 12, "questions")
        began, n = time.monotonic(), len(self.cloud.asked)
        self.cloud.until(lambda: len(self.cloud.asked) >= n + 6, "more questions")
        self.assertGreater(time.monotonic() - began, 1.5)
        self.cloud.status = 0
        self.cloud.put("instance/preempted", "TRUE")
        self.until(lambda: self.daemon.notices, "the notice", 60)

    def test_an_answer_that_is_not_googles_is_rejected(self):
        self.cloud.flavor = False
        self.cloud.put("instance/preempted", "TRUE")
        self.agent.start()
        self.cloud.until(lambda: len(self.cloud.asked) > 6, "questions")
        self.assertNotIn("notice.seen", self.agent.consoles())

    def test_only_a_maintenance_that_ends_the_machine_is_passed_on(self):
        self.agent.start()
        self.train()
        leader = self.leader()
        self.waiting()
        self.cloud.put("instance/maintenance-event", "MIGRATE_ON_HOST_MAINTENANCE")
        self.cloud.put("instance/maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE")
        _, notice = self.until(lambda: self.daemon.notices and self.daemon.notices[0], "the notice")
        self.assertEqual((notice["kind"], notice["raw"]), ("maintenance", "TERMINATE_ON_HOST_MAINTENANCE"))
        self.assertTrue(fake.alive(leader))

    def test_a_shutdown_beside_the_notice_waits_until_the_job_is_saved(self):
        self.agent.start()
        self.train()
        self.waiting()
        self.agent.process.send_signal(signal.SIGTERM)      # systemd, upon ACPI soft-off
        self.cloud.put("instance/preempted", "TRUE")
        self.assertEqual(self.agent.wait(), 143)
        self.assertEqual(self.order(), ["commit", "EXITED"])
        self.assertEqual(self.daemon.notices[0][1]["kind"], "interruption")

    def test_a_stop_without_a_notice_leaves_the_job_running(self):
        self.agent.start()
        self.train()
        leader = self.leader()
        self.waiting()
        self.agent.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.agent.wait(), 143)
        self.assertTrue(fake.alive(leader))
        self.assertEqual(self.daemon.checkpoints, {})

    def test_it_proves_itself_by_a_token_for_our_audience(self):
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        (e,) = self.daemon.enrols
        self.assertEqual(e["proof"], {"kind": "gcp", "jwt": "header.payload.signature"})
        self.assertEqual(e["instance_ref"], "us-central1-a/4520031799277581759")
        (query,) = [q for key, q in self.cloud.asked if key.endswith("/identity")]
        self.assertEqual(query, {"audience": self.daemon.url, "format": "full"})

    def test_without_a_service_account_it_enrols_without_a_proof(self):
        del self.cloud.values["instance/service-accounts/default/identity"]
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.assertEqual(self.daemon.enrols[0]["proof"], {})
        self.assertEqual(self.daemon.enrols[0]["instance_ref"], "us-central1-a/4520031799277581759")


class AzureNotices(CloudCase):
    provider = "azure"

    def setUp(self):
        super().setUp()
        self.cloud = clouds.Azure()
        self.cloud.on_ack = lambda: self.daemon.events.append(("ack",))
        self.metadata_at(self.cloud, "AZURE_POD_IDENTITY_AUTHORITY_HOST", f"http://localhost:{self.cloud.port}/")

    def event_polls(self):
        return [t for t, where, _ in self.cloud.asked if where == "/metadata/scheduledevents"]

    def polls_more(self, n):
        have = len(self.event_polls())
        self.cloud.until(lambda: len(self.event_polls()) >= have + n, f"{n} more polls")

    def test_a_preemption_is_saved_and_approved_only_then(self):
        self.agent.start()
        self.train()
        name = self.cloud.event()
        at = time.time() + 30
        self.assertLess(self.signalled() - self.cloud.first_read[name], self.late.limit(1.0))
        _, notice = self.until(lambda: self.daemon.notices and self.daemon.notices[0], "the notice")
        self.assertEqual((notice["kind"], notice["source"]), ("interruption", "azure"))
        self.assertAlmostEqual(notice["deadline_us"] / 1e6, at, delta=self.late.limit(2))
        self.cloud.until(lambda: self.cloud.acks, "the approval")
        self.assertEqual(self.cloud.acks, [[name]])
        self.assertEqual(self.order(), ["commit", "EXITED", "ack"])
        self.cloud.event(name=name, status="Started")       # the same one, later
        self.polls_more(3)
        self.assertEqual((self.notices(), self.cloud.acks), (1, [[name]]))

    def test_nothing_is_approved_while_the_save_is_not_committed(self):
        self.agent.start()
        self.train()
        self.daemon.set(put_failures=4)
        name = self.cloud.event()
        self.until(lambda: self.daemon.put_failures == 0, "the store's refusals")
        self.assertEqual(self.cloud.acks, [])
        self.cloud.until(lambda: self.cloud.acks, "the approval")
        self.assertEqual((self.cloud.acks, self.order()), ([[name]], ["commit", "EXITED", "ack"]))

    def test_events_of_other_machines_are_none_of_ours(self):
        self.agent.start()
        self.train()
        leader = self.leader()
        self.cloud.event(resources=["sb-other-78"])
        self.polls_more(3)
        self.assertEqual((self.daemon.notices, self.cloud.acks), ([], []))
        self.assertTrue(fake.alive(leader))

    def test_an_event_of_several_machines_is_obeyed_and_never_approved(self):
        self.agent.start()
        self.train()
        self.cloud.event(resources=["sb-other-78", self.cloud.name])
        self.assertEqual(self.exited()["reason"], "drained")
        self.polls_more(3)
        self.assertEqual(self.cloud.acks, [])

    def test_a_slow_first_call_holds_nothing_up(self):
        self.cloud.awake = False
        self.agent.start()
        self.train()            # runs although the service does not answer yet
        self.assertEqual(len(self.event_polls()), 1)
        name = self.cloud.event()
        with self.cloud.lock:
            self.cloud.awake = True
            self.cloud.lock.notify_all()
        self.assertLess(self.signalled() - self.cloud.first_read[name], self.late.limit(1.0))

    def test_it_asks_once_a_second_also_after_410_429_and_500(self):
        self.agent.start()
        self.polls_more(4)
        polls = self.event_polls()[1:]
        self.assertGreater((polls[-1] - polls[0]) / (len(polls) - 1), 0.8)  # two may come closer together than they were sent
        with self.cloud.lock:
            self.cloud.faults = [(410, []), (429, [("Retry-After", "2")]), (500, [])]
        self.cloud.until(lambda: not self.cloud.faults, "the faults")
        self.cloud.event()
        self.until(lambda: self.daemon.notices, "the notice", 15)

    def test_a_redeploy_is_told_a_freeze_is_not(self):
        self.agent.start()
        self.train()
        leader = self.leader()
        self.cloud.event(kind="Freeze", in_s=900)
        self.cloud.event(kind="SomethingNew", in_s=900)
        self.polls_more(2)
        self.assertEqual(self.daemon.notices, [])
        self.cloud.event(kind="Redeploy", in_s=600)
        _, notice = self.until(lambda: self.daemon.notices and self.daemon.notices[0], "the notice")
        self.assertEqual(notice["kind"], "maintenance")
        self.assertAlmostEqual(notice["deadline_us"] / 1e6, time.time() + 600, delta=4)
        self.polls_more(2)
        self.assertTrue(fake.alive(leader))
        self.assertEqual(self.cloud.acks, [])

    def test_a_lost_approval_is_repeated(self):
        self.cloud.ack_status = [500, 429]
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        name = self.cloud.event()
        self.cloud.until(lambda: len(self.cloud.acks) == 3, "three approvals")
        self.polls_more(2)
        self.assertEqual(self.cloud.acks, [[name]] * 3)

    def test_it_proves_itself_by_attested_data_made_for_its_token(self):
        self.daemon.set(enrol_later=1)      # the daemon is still asking its provider
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.assertEqual(len(self.daemon.enrols), 2)
        first = int.from_bytes(hashlib.sha256(self.daemon.token.encode()).digest()[:4], "big")
        for e in self.daemon.enrols:
            self.assertEqual(e["proof"], {"kind": "azure", "pkcs7": f"TUlJ{first:010d}"})
            self.assertEqual(e["instance_ref"], "sb-lease-77")

    def test_a_refused_proof_is_final_and_its_words_are_kept(self):
        self.daemon.set(enrol_status=403)
        self.agent.start()
        self.assertEqual(self.agent.wait(), 3)
        self.assertIn("the proof is of another machine", self.agent.consoles())


class PodNotices(CloudCase):
    provider = "kubernetes"

    def setUp(self):
        super().setUp()
        self.token = os.path.join(self.agent.home, "token")
        with open(self.token, "w") as f:
            f.write("service.account.token")
        self.agent.more_env.update(SPOT_TERMINATION_GRACE_S="60", SPOT_IDENTITY_TOKEN_FILE=self.token)

    def test_sigterm_is_the_notice_and_a_second_one_changes_nothing(self):
        self.agent.start()
        self.train()
        began = time.time()
        self.agent.process.send_signal(signal.SIGTERM)
        self.assertLess(self.signalled() - began, self.late.limit(1.0))
        self.agent.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.agent.wait(), 0)
        notice = self.daemon.notices[0][1]
        self.assertEqual((notice["kind"], notice["source"]), ("interruption", "sigterm"))
        self.assertAlmostEqual(notice["deadline_us"] / 1e6, began + 60, delta=self.late.limit(2))
        self.assertEqual(self.order(), ["commit", "EXITED"])
        self.assertEqual((len(self.committed()), self.notices()), (1, 1))
        self.assertEqual(self.daemon.report("EXITED")["reason"], "drained")

    def test_it_ends_before_its_grace_whatever_the_job_does(self):
        self.agent.more_env["SPOT_TERMINATION_GRACE_S"] = "8"
        self.agent.start()
        self.job("trap '' USR1 TERM; echo up; while :; do sleep 0.1; done", checkpoint={"budget_s": 300})
        self.until_log("up")
        self.daemon.set(down=True)
        began = time.monotonic()
        self.agent.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.agent.wait(), 0)
        self.assertLess(time.monotonic() - began, self.late.limit(8))

    def test_without_a_job_it_tells_and_leaves(self):
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.agent.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.agent.wait(), 0)
        self.assertEqual(self.daemon.notices[0][1]["kind"], "interruption")

    def test_it_proves_itself_by_its_service_account(self):
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.assertEqual(self.daemon.enrols[0]["proof"], {"kind": "kubernetes", "token": "service.account.token"})
        self.assertEqual(self.daemon.enrols[0]["instance_ref"], "")
        self.assertNotIn("service.account.token", self.agent.consoles())

    def test_without_a_token_it_enrols_all_the_same(self):
        os.remove(self.token)
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.assertEqual(self.daemon.enrols[0]["proof"], {})
