"""The agent's protocol: enrolment, polls, fencing by epoch, notices."""
import json
import socket
import threading
import time
import lib
from agent_case import A, Case, SPEC, sha


class Enrol(Case):
    def test_the_token_of_the_node_opens_a_session(self):
        s = A.enrol(self.node, self.token, hw={"gpus": [], "gpu_error": "no GPU"})
        self.assertEqual((s["node"], s["poll_hold_ms"]), ("n%d" % self.node, 25000))
        self.assertEqual(A.sql("SELECT encode(session_hash,'hex'), enrol_used_us > 0, hw->>'gpu_error' FROM node WHERE id = %d"
                               % self.node), sha(s["session"]) + "|t|no GPU")
        self.assertEqual(A.sql("SELECT event FROM event WHERE node_id = %d" % self.node), "AGENT_ENROLLED")

    def test_the_node_is_found_by_its_token_alone(self):
        body = {"token": self.token, "boot_id": "b", "instance_ref": "i"}
        self.assertEqual(A.call("POST", "/v1/agent/enrol", body, token=None, expect=200)[1]["node"], "n%d" % self.node)

    def test_wrong_tokens_are_refused(self):
        for bad in (self.token[:-1] + ("0" if self.token[-1] != "0" else "1"), self.token + "0", "", "x", self.token.upper()):
            A.call("POST", "/v1/agent/enrol", {"token": bad, "boot_id": "b"}, token=None, expect=401)

    def test_a_second_boot_is_refused_and_alarmed(self):
        A.enrol(self.node, self.token)
        p = A.enrol(self.node, self.token, boot="boot-2", expect=409)
        self.assertEqual(p["code"], "conflict")
        self.assertEqual(A.sql("SELECT count(*) FROM event WHERE event = 'ENROL_REFUSED' AND node_id = %d" % self.node), "1")

    def test_another_instance_is_refused(self):
        A.sql("UPDATE node SET ref = 'i-real' WHERE id = %d" % self.node)
        A.enrol(self.node, self.token, ref="i-other", expect=409)
        A.enrol(self.node, self.token, ref="i-real")

    def test_a_node_that_is_over_takes_nobody(self):
        A.sql("UPDATE node SET state = 'TERMINATING' WHERE id = %d" % self.node)
        A.enrol(self.node, self.token, expect=409)
        A.sql("UPDATE node SET state = 'GONE' WHERE id = %d" % self.node)
        A.call("POST", "/v1/agent/enrol", {"token": self.token, "boot_id": "b"}, token=None, expect=401)

    def test_a_machine_that_no_row_ever_knew_is_told_to_wait(self):
        """The database is an older backup that was restored; keeping its machines is useless if their agents stop the
        jobs."""
        def ask(ref, expect):
            return A.call("POST", "/v1/agent/enrol", {"token": "0" * 64, "boot_id": "b", "instance_ref": ref}, token=None, expect=expect)
        A.sql("UPDATE node SET ref = 'i-over', state = 'GONE' WHERE id = %d" % self.node)
        ask("i-over", 401)
        _, p, headers = ask("i-of-newer-rows", 429)
        self.assertEqual((p["code"], headers["retry-after"]), ("throttled", "30"))
        # A machine may not know which one it is, if its cloud does not say so.
        now = lib.now()
        ask("", 401)
        try:
            A.sql("INSERT INTO led VALUES (1, %d, %d)" % (now - 3600 * 1000000, now - 900 * 1000000))
            ask("", 429)
            A.sql("INSERT INTO led VALUES (2, %d, %d)" % (now - 5 * 1000000, now))
            ask("", 429)
            A.sql("UPDATE led SET from_us = %d WHERE epoch = 2" % (now - 601 * 1000000))
            ask("", 401)
            A.sql("INSERT INTO orphan (provider, region, ref, kind, first_us, last_us, why, kept) VALUES ('lambda', 'r', 'x', 'instance', 1, 1, '', true)")
            ask("", 429)
        finally:
            A.sql("DELETE FROM led; DELETE FROM orphan WHERE ref = 'x'")

    def test_a_denied_proof_is_refused_and_the_repeat_gets_the_same_answer(self):
        for _ in range(2):
            p = A.enrol(self.node, self.token, proof={"kind": "aws", "verdict": "denied"}, expect=403)
            self.assertEqual((p["code"], p["detail"]), ("denied", "it is another machine"))
        self.assertEqual(A.sql("SELECT enrol_used_us IS NULL, session_hash IS NULL, (SELECT count(*) FROM enrol_proof WHERE "
                               "node_id = node.id) FROM node WHERE id = %d" % self.node), "t|t|1")
        A.enrol(self.node, self.token, proof={"kind": "aws", "verdict": "verified"})

    def test_a_held_enrolment_ends_with_the_verdict(self):
        # Without the notification it is looked for half a second after it was held.
        A.soon(0.4, self.held_enrolment)

    def held_enrolment(self):
        node, token = A.node(self.pool, "BOOTING")
        out = {}
        th = threading.Thread(target=lambda: out.update(s=A.enrol(node, token, proof={"verdict": ""}), t=time.monotonic()))
        th.start()
        A.until_parked()
        t = time.monotonic()
        self.assertEqual(A.sql("SELECT session_hash IS NULL FROM node WHERE id = %d" % node), "t")
        A.sql("UPDATE enrol_proof SET verdict = 'verified' WHERE node_id = %d; NOTIFY spot_api, 'v%d'" % (node, node))
        th.join()
        self.assertEqual(out["s"]["node"], "n%d" % node)
        return out["t"] - t

    def test_a_verdict_of_another_boot_or_proof_opens_nothing(self):
        A.sql("INSERT INTO enrol_proof (node_id, boot_id, sha256, proof, asked_us, verdict) VALUES (%d, 'boot-2', '%s', '{}', 1, "
              "'verified')" % (self.node, sha('{"verdict":""}')))
        self.assertEqual(A.sql("SELECT count(*) FROM enrol_proof WHERE node_id = %d" % self.node), "1")
        body = {"token": self.token, "boot_id": "boot-1", "proof": {"verdict": ""}}
        with self.assertRaises(TimeoutError):
            A.call("POST", "/v1/agent/enrol", body, token=None, timeout=1.5)
        self.assertEqual(A.sql("SELECT session_hash IS NULL FROM node WHERE id = %d" % self.node), "t")

    def test_a_proof_that_nobody_can_judge_ends_with_503_and_words(self):
        t = time.time()
        p = A.enrol(self.node, self.token, proof={"verdict": ""}, expect=503)
        self.assertIn("its cloud is away", p["detail"])
        self.assertTrue(18 < time.time() - t < 60, time.time() - t)

    def test_a_proof_is_an_object_of_at_most_32_kib(self):
        for bad in ("text", [1], {"kind": "x" * 33000}):
            p = A.enrol(self.node, self.token, proof=bad, expect=400)
            self.assertEqual(p["field"], "proof")

    def test_one_node_cannot_fill_the_table_of_proofs(self):
        for i in range(32):
            A.enrol(self.node, self.token, proof={"verdict": "denied", "n": i}, expect=403)
        A.enrol(self.node, self.token, proof={"verdict": "denied", "n": 99}, expect=409)


class Poll(Case):
    def test_an_idle_node_is_told_idle_after_the_hold(self):
        self.session = A.enrol(self.node, self.token)["session"]
        t = time.time()
        w = self.poll(hold=600)
        self.assertEqual((w["desired"], w["orphan_timeout_s"]), ("idle", 900))     # of 899.5: never 0 by rounding
        self.assertGreater(time.time() - t, 0.5)

    def test_a_placed_job_comes_with_everything_to_run_it(self):
        self.start(steps=7)
        w = self.poll(hold=5000)
        self.assertEqual((w["desired"], w["job"], w["epoch"], w["version"]), ("run", "j%d" % self.job, 1, 1))
        r = w["run"]
        self.assertEqual((r["name"], r["setup"].strip(), r["run"].strip()), ("train", "make", "./train"))
        self.assertEqual((r["envs"], r["secrets"], r["num_gpus"], r["steps_start"]), ({"A": "1"}, {"KEY": "sesame-sesame"}, 1, 7))
        self.assertEqual(r["max_duration_s"], 0)
        self.assertEqual((r["checkpoint"]["path"], r["checkpoint"]["signal"], r["checkpoint"]["interval_s"]), ("ckpt", "USR1", 60))

    def test_without_a_store_an_agent_saves_nothing_and_the_job_says_why(self):
        self.start()
        show = "/v1/jobs/%d" % self.job

        def store(there):
            A.store("?" if there else "")
            A.until(lambda: (A.call("GET", show, expect=200)[1]["not_stored"] is None) == there, "another store")
        self.addCleanup(store, True)
        store(False)
        self.assertIn("[checkpoint] store is empty", A.call("GET", show, expect=200)[1]["not_stored"])
        self.assertEqual([self.poll(hold=5000)["run"]["checkpoint"][k] for k in ("path", "dir", "interval_s")], ["", "ckpt", 0])

    def test_an_attempt_may_run_longer_than_its_job_so_that_we_speak_first(self):
        self.start()
        A.sql("UPDATE job SET spec = spec || '{\"max_duration_s\": 60}' WHERE id = %d" % self.job)
        self.assertEqual(self.poll(hold=5000)["run"]["max_duration_s"], 180)

    def interval(self, **spec):
        self.start()
        A.sql("UPDATE job SET spec = spec || '{\"work_s\": 3600, \"checkpoint\": {\"path\": \"ckpt\"}}' || '%s' WHERE id = %d;"
              "INSERT INTO decision (at_us, kind, job_id, node_id, inputs, outcome, why) VALUES (1, 'place', %d, %d, '{}', "
              "'{\"pool\": {\"hazard_per_hour\": 4}}', '')" % (json.dumps(spec), self.job, self.job, self.node))
        return self.poll(hold=5000)["run"]["checkpoint"]["interval_s"]

    def test_the_interval_goes_by_the_hazard_of_the_decision(self):
        # Young: sqrt(2 x 20 s x 1 h / (4 x 0.1)).
        self.assertEqual(self.interval(), 600)

    def test_a_machine_taken_over_keeps_the_hazard_that_it_was_chosen_by(self):
        other = int(A.job(SPEC)["id"][1:])
        self.start()
        A.sql("UPDATE job SET spec = spec || '{\"work_s\": 3600, \"checkpoint\": {\"path\": \"ckpt\"}}' WHERE id = %d;"
              "INSERT INTO decision (at_us, kind, job_id, node_id, inputs, outcome, why) VALUES (1, 'place', %d, %d, '{}', "
              "'{\"pool\": {\"hazard_per_hour\": 4}}', '')" % (self.job, other, self.node))
        self.assertEqual(self.poll(hold=5000)["run"]["checkpoint"]["interval_s"], 600)

    def test_a_fleet_node_has_the_hazard_of_its_decision(self):
        fleet = int(A.sql("INSERT INTO fleet (name, owner, team, project, spec, state, created_us, updated_us) VALUES ('h', 'me', 'ml', 'p', '{}', "
                          "'ACTIVE', 1, 1) RETURNING id"))
        first, _ = A.node(self.pool, fleet=fleet)
        self.start()
        A.sql("UPDATE job SET spec = spec || '{\"work_s\": 3600, \"checkpoint\": {\"path\": \"ckpt\"}}' WHERE id = %d;"
              "UPDATE node SET fleet_id = %d WHERE id = %d;"
              "INSERT INTO decision (at_us, kind, node_id, inputs, outcome, why) VALUES (1, 'place', %d, '{}', "
              "'{\"pool\": {\"hazard_per_hour\": 4}}', '')" % (self.job, fleet, self.node, first))
        self.assertEqual(self.poll(hold=5000)["run"]["checkpoint"]["interval_s"], 600)

    def test_the_interval_is_bounded_by_the_slack_before_a_deadline(self):
        # An hour of work, four minutes of restart, and twenty minutes of slack: a quarter of that.
        left = self.interval(deadline_us=int((time.time() + 3600 + 240 + 1200) * lib.US))
        self.assertTrue(285 <= left <= 300, left)

    def test_a_job_that_the_agent_has_is_not_sent_again(self):
        self.start()
        t = time.time()
        w = self.poll("j%d" % self.job, 1, 1, hold=500)
        self.assertGreater(time.time() - t, 0.4)
        self.assertNotIn("run", w)

    def test_a_parked_poll_is_woken_by_the_notification(self):
        self.start()
        out = {}
        th = threading.Thread(target=lambda: out.update(w=self.poll("j%d" % self.job, 1, 1, hold=20000), t=time.time()))
        th.start()
        A.until_parked()
        t = time.time()
        A.sql("UPDATE attempt SET desired = 'drain', version = 2, drain_deadline_us = 77, drain_why = 'notice' WHERE job_id = %d; "
              "NOTIFY spot_api, 'n%d'" % (self.job, self.node))
        th.join()
        self.assertEqual((out["w"]["desired"], out["w"]["version"], out["w"]["deadline_us"], out["w"]["why"]),
                         ("drain", 2, 77, "notice"))
        self.assertLess(out["t"] - t, 15)

    def poll_bytes(self, hold):
        body = json.dumps({"have": {"job": None}, "hold_ms": hold}).encode()
        return b"POST /v1/agent/poll HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s" % (
            self.session.encode(), len(body), body)

    def test_a_parked_poll_ends_with_its_client(self):
        self.session = A.enrol(self.node, self.token)["session"]
        with socket.create_connection(("127.0.0.1", A.port)) as s:
            s.sendall(self.poll_bytes(60000))
            A.until_parked()
        A.until(lambda: A.metric("spot_http_parked") == 0, "the poll is gone")
        self.assertEqual(self.poll()["desired"], "idle")

    def test_the_connection_of_a_parked_poll_serves_the_next_request(self):
        self.session = A.enrol(self.node, self.token)["session"]
        with socket.create_connection(("127.0.0.1", A.port)) as s, s.makefile("rb") as f:
            for _ in range(2):
                s.sendall(self.poll_bytes(300) + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                replies = []
                for _ in range(2):
                    head = [f.readline().decode().strip()]
                    while head[-1]:
                        head.append(f.readline().decode().strip())
                    length = [int(line.split(":")[1]) for line in head if line.lower().startswith("content-length:")][0]
                    replies.append((head, f.read(length)))
                (poll, body), (health, _) = replies
                self.assertEqual((poll[0], json.loads(body)["desired"], health[0]), ("HTTP/1.1 200 OK", "idle", "HTTP/1.1 200 OK"))
                self.assertIn("Cache-Control: no-store", poll)

    def test_sixty_parked_polls_answer_their_own_node_only(self):
        self.start()
        threads = [threading.Thread(target=lambda: self.poll("j%d" % self.job, 1, 1, hold=10000)) for _ in range(60)]
        for th in threads:
            th.start()
        A.until_parked(60)
        for th in threads:
            th.join()
        self.assertEqual(A.metric("spot_http_parked"), 0)

    def test_a_zombie_is_told_to_kill(self):
        self.start()
        self.move_away()
        w = self.poll("j%d" % self.job, 1, 1, hold=5000)
        self.assertEqual((w["desired"], w["job"], w["epoch"]), ("kill", "j%d" % self.job, 1))

    def test_a_finished_attempt_leads_to_idle(self):
        self.start()
        self.report("EXITED", reason="ok", exit_code=0)
        w = self.agent("poll", {"have": {"job": "j%d" % self.job, "epoch": 1, "phase": "EXITED", "version": 1}, "hold_ms": 5000})
        self.assertEqual((w["desired"], w["job"]), ("idle", None))

    def test_an_end_that_was_told_to_a_lost_database_is_asked_for(self):
        self.start()
        w = self.agent("poll", {"have": {"job": "j%d" % self.job, "epoch": 1, "phase": "EXITED", "version": 1}, "hold_ms": 60000})
        self.assertEqual((w["desired"], w["job"], w["epoch"]), ("run", "j%d" % self.job, 1))
        self.assertNotIn("run", w)

    def test_a_clock_that_was_set_back_does_not_hide_todays_job(self):
        self.start()
        self.report("EXITED", reason="ok", exit_code=0)
        A.sql("UPDATE attempt SET created_us = created_us + %d WHERE job_id = %d" % (lib.HOUR, self.job))
        second = int(A.job(SPEC)["id"][1:])
        A.attempt(second, self.node, 1)
        w = self.poll(hold=5000)
        self.assertEqual((w["desired"], w["job"], w["run"]["name"]), ("run", "j%d" % second, "train"))

    def test_a_node_that_goes_is_told_to_shut_down(self):
        self.start()
        A.sql("UPDATE node SET state = 'TERMINATING' WHERE id = %d" % self.node)
        self.assertEqual(self.poll(hold=5000)["desired"], "shutdown")

    def test_it_says_that_it_is_there_to_be_spoken_to(self):
        beats = lambda: int(A.sql("SELECT coalesce(sum(beats), 0) FROM listener"))
        first = beats()
        A.until(lambda: beats() > first, "another beat")

    def test_heartbeats_and_progress_are_written_within_seconds(self):
        self.start()
        self.poll("j%d" % self.job, 1, 1, steps_done=42)
        A.until(lambda: self.attempt("steps_done") == "42", "the steps are written", 30)
        self.assertEqual(A.sql("SELECT steps_done FROM job WHERE id = %d" % self.job), "42")
        self.assertEqual(A.sql("SELECT last_seen_us > %d FROM node WHERE id = %d" % (lib.now() - 10 * lib.US, self.node)), "t")

    def test_a_machine_without_work_is_heard_as_well(self):
        self.session = A.enrol(self.node, self.token)["session"]
        A.sql("UPDATE node SET state = 'READY', last_seen_us = 1 WHERE id = %d" % self.node)
        self.poll()
        A.until(lambda: A.sql("SELECT last_seen_us > 1 FROM node WHERE id = %d" % self.node) == "t", "its word is written", 30)

    def test_each_word_moves_the_last_word_on_despite_a_clock_ahead(self):
        self.start()
        ahead = lib.now() + 3600 * lib.US
        A.sql("UPDATE node SET last_seen_us = %d WHERE id = %d" % (ahead, self.node))
        seen = lambda: int(A.sql("SELECT last_seen_us FROM node WHERE id = %d" % self.node))
        self.poll("j%d" % self.job, 1, 1, steps_done=42)
        A.until(lambda: seen() > ahead, "the word is written", 30)
        first = seen()
        self.poll("j%d" % self.job, 1, 1, steps_done=43)
        A.until(lambda: seen() > first, "the next word is written", 30)
        self.assertLess(seen(), ahead + lib.US)

    def test_the_last_word_is_kept_also_of_a_node_that_was_given_up(self):
        self.start()
        A.sql("UPDATE node SET state = 'TERMINATING' WHERE id = %d; UPDATE attempt SET ended_us = 1, phase = 'EXITED', steps_done = 40 "
              "WHERE job_id = %d" % (self.node, self.job))
        said = "SELECT said_job, said_epoch, said_step, last_seen_us > %d FROM node WHERE id = %d" % (lib.now() - 10 * lib.US, self.node)
        self.poll("j%d" % self.job, 1, 1, steps_done=42)
        A.until(lambda: A.sql(said) == "%d|1|42|t" % self.job, "the word is written", 30)
        A.sql("UPDATE node SET last_seen_us = NULL WHERE id = %d; UPDATE job SET epoch = 2 WHERE id = %d" % (self.node, self.job))
        self.agent("report", {"job": "j%d" % self.job, "epoch": 1, "phase": "EXITED", "reason": "ok", "steps_done": 43}, 409)
        self.assertEqual(A.sql(said), "%d|1|43|t" % self.job)
        self.assertEqual(self.attempt("steps_done"), "40")


class Report(Case):
    def test_phases_and_exit(self):
        self.start()
        self.report("SETUP")
        self.report("RUNNING", steps_done=3, steps_total=100)
        self.assertEqual(self.attempt("phase, started_us > 0, steps_done"), "RUNNING|t|3")
        self.assertEqual(A.sql("SELECT steps_total FROM job WHERE id = %d" % self.job), "100")
        self.report("SAVING", signalled_us=123)
        self.report("EXITED", reason="drained", exit_code=0, steps_done=9)
        self.assertEqual(self.attempt("phase, exit_reason, exit_code, ended_us > 0, signalled_us, settled, steps_done"),
                         "EXITED|drained|0|t|123|f|9")

    def test_a_running_job_has_begun_once(self):
        self.start()
        self.report("RUNNING")
        A.sql("UPDATE attempt SET started_us = 7 WHERE job_id = %d; UPDATE job SET started_us = 7 WHERE id = %d" % (self.job, self.job))
        self.report("SAVING")
        self.report("RUNNING", steps_done=1)
        self.assertEqual(self.attempt("phase, steps_done, started_us"), "RUNNING|1|7")
        self.assertEqual(A.sql("SELECT started_us FROM job WHERE id = %d" % self.job), "7")

    def test_an_attempt_that_was_given_up_is_not_believed_any_more(self):
        self.start()
        self.report("RUNNING", steps_done=1)
        A.sql("UPDATE attempt SET ended_us = 1, exit_reason = 'lost' WHERE job_id = %d" % self.job)
        base = {"job": "j%d" % self.job, "epoch": 1}
        self.assertEqual(self.report("RUNNING", 409, steps_done=5)["code"], "stale_epoch")
        self.assertEqual(self.report("EXITED", 409, reason="ok", exit_code=0)["code"], "stale_epoch")
        self.assertEqual(self.agent("checkpoint", dict(base, reason="periodic", chunks=[]), 409)["code"], "stale_epoch")
        self.assertEqual(self.attempt("phase, steps_done, exit_reason, ended_us"), "RUNNING|1|lost|1")

    def test_an_attempt_that_stopped_before_it_was_told_to_says_why(self):
        self.start()

        def ends(reason, **more):
            self.report("EXITED", reason=reason, **more)
            why = self.attempt("drain_why")
            self.job = int(A.job(SPEC)["id"][1:])
            A.attempt(self.job, self.node, 1)
            return why

        self.assertEqual(ends("drained", why="the node was restarted"), "the node was restarted")
        self.assertEqual(ends("drained"), "its agent was told to stop")
        self.agent("notice", {"kind": "interruption", "deadline_us": lib.now() + 400 * lib.US, "source": "sigterm", "raw": "SIGTERM"})
        self.assertEqual(ends("drained"), "interruption notice (sigterm)")
        self.assertEqual(ends("ok", exit_code=0), "")
        A.sql("UPDATE attempt SET desired = 'drain', version = 2, drain_why = 'moves' WHERE job_id = %d" % self.job)
        self.assertEqual(ends("drained", why="told"), "moves")

    def test_the_exit_may_be_said_twice_the_same_way_only(self):
        self.start()
        self.report("EXITED", reason="ok", exit_code=0)
        self.report("EXITED", reason="ok", exit_code=0)
        self.assertEqual(self.report("EXITED", 409, reason="error")["code"], "stale_epoch")
        self.assertEqual(self.report("RUNNING", 409)["code"], "stale_epoch")

    def test_an_old_epoch_is_refused_everywhere(self):
        self.start()
        c = self.agent("checkpoint", {"job": "j%d" % self.job, "epoch": 1, "reason": "periodic", "chunks": []})["checkpoint"]
        self.move_away()
        base = {"job": "j%d" % self.job, "epoch": 1}
        for what, more in [("report", {"phase": "RUNNING"}), ("report", {"phase": "EXITED", "reason": "ok"}),
                           ("checkpoint", {"reason": "periodic", "chunks": []}), ("commit", {"checkpoint": c})]:
            self.assertEqual(self.agent(what, dict(base, **more), 409)["code"], "stale_epoch", what)
        self.assertEqual(A.sql("SELECT phase FROM attempt WHERE job_id = %d AND epoch = 2" % self.job), "ASSIGNED")
        self.assertEqual(A.sql("SELECT coalesce(checkpoint_id, 0) FROM job WHERE id = %d" % self.job), "0")

    def test_the_epoch_alone_refuses_though_the_attempt_never_ended(self):
        self.start()
        c = self.agent("checkpoint", {"job": "j%d" % self.job, "epoch": 1, "reason": "periodic", "chunks": []})["checkpoint"]
        A.sql("UPDATE job SET epoch = 2 WHERE id = %d" % self.job)
        base = {"job": "j%d" % self.job, "epoch": 1}
        for what, more in [("report", {"phase": "RUNNING", "steps_done": 77}), ("report", {"phase": "EXITED", "reason": "ok"}),
                           ("checkpoint", {"reason": "periodic", "chunks": []}), ("commit", {"checkpoint": c})]:
            self.assertEqual(self.agent(what, dict(base, **more), 409)["code"], "stale_epoch", what)
        self.assertEqual(self.attempt("phase"), "ASSIGNED")
        self.assertEqual(A.sql("SELECT steps_done, coalesce(checkpoint_id, 0) FROM job WHERE id = %d" % self.job), "0|0")

    def test_a_node_reports_for_its_own_attempt_only(self):
        self.start()
        thief, token = A.node(self.pool, "BOOTING")
        session = A.enrol(thief, token, boot="thief")["session"]
        body = {"job": "j%d" % self.job, "epoch": 1, "phase": "EXITED", "reason": "ok"}
        self.assertEqual(self.agent("report", body, 409, session)["code"], "stale_epoch")
        A.call("POST", "/v1/agent/log?job=j%d&epoch=1&offset=0" % self.job, b"x", token=session, expect=409)
        self.assertEqual(self.attempt("phase"), "ASSIGNED")


class Notice(Case):
    def test_the_earliest_deadline_counts_and_the_event_is_written_once(self):
        self.start()
        for d in (900, 500, 0, 700):
            self.agent("notice", {"kind": "interruption", "deadline_us": d, "source": "imds", "raw": "{}"})
        self.assertEqual(A.sql("SELECT kind, deadline_us, source FROM notice WHERE node_id = %d" % self.node), "interruption|500|imds")
        self.assertEqual(A.sql("SELECT count(*) FROM event WHERE event = 'NOTICE_HEARD' AND node_id = %d" % self.node), "1")
        self.assertEqual(A.call("GET", "/v1/nodes/n%d" % self.node, expect=200)[1]["notice"]["kind"], "interruption")

    def test_a_deadline_that_is_sooner_is_handled_again(self):
        self.start()
        at = lib.now() + 400 * lib.US
        row = "SELECT source, handled_us IS NULL FROM notice WHERE node_id = %d" % self.node
        self.agent("notice", {"kind": "interruption", "deadline_us": at, "source": "sigterm", "raw": "SIGTERM"})
        for sooner_us, source, found in ((0, "again", "sigterm|f"), (lib.US // 2, "jitter", "sigterm|f"), (388 * lib.US, "real", "real|t")):
            A.sql("UPDATE notice SET handled_us = 1 WHERE node_id = %d" % self.node)
            self.agent("notice", {"kind": "interruption", "deadline_us": at - sooner_us, "source": source, "raw": ""})
            self.assertEqual(A.sql(row), found)

    def test_moments_are_durations_and_the_first_of_each_counts(self):
        self.start()
        times = "SELECT left_signal_us, left_saved_us, first_step_us FROM attempt WHERE job_id = %d" % self.job
        report = {"job": "j%d" % self.job, "epoch": 1, "phase": "RUNNING", "steps_done": 0, "steps_total": 9, "why": ""}
        self.agent("report", report)
        self.assertEqual(A.sql(times), "||")
        before = lib.now()
        self.agent("report", dict(report, steps_done=1, first_step_ago_us=3 * lib.US))
        self.agent("report", dict(report, steps_done=2, left_signal_ago_us=2 * lib.US, left_saved_ago_us=lib.US, first_step_ago_us=3 * lib.US))
        self.agent("report", dict(report, steps_done=3, left_signal_ago_us=0, left_saved_ago_us=0))
        signal, saved, first = (int(x) for x in A.sql(times).split("|"))
        self.assertLess(abs(first - before + 3 * lib.US), lib.US)
        self.assertAlmostEqual((saved - signal) / lib.US, 1, places=5)
        self.assertLess(abs(saved - before + lib.US), lib.US)

    def test_the_first_step_of_an_older_agent_is_that_of_its_report(self):
        self.start()
        before = lib.now()
        self.agent("report", {"job": "j%d" % self.job, "epoch": 1, "phase": "RUNNING", "steps_done": 4, "steps_total": 9, "why": ""})
        self.assertGreaterEqual(int(A.sql("SELECT first_step_us FROM attempt WHERE job_id = %d" % self.job)), before)

    def test_a_notice_counts_from_the_time_that_the_agent_heard_it(self):
        self.start()
        before = lib.now()
        self.agent("notice", {"kind": "interruption", "deadline_us": 0, "source": "imds", "raw": "", "heard_ago_us": 7 * lib.US})
        self.assertLess(abs(int(A.sql("SELECT heard_us FROM notice WHERE node_id = %d" % self.node)) - before + 7 * lib.US), lib.US)

    def test_a_span_counts_from_its_arrival_whatever_the_clock_of_the_machine_says(self):
        self.start()
        for wrong in (-lib.HOUR, lib.HOUR):
            A.sql("DELETE FROM notice WHERE node_id = %d" % self.node)
            self.agent("notice", {"kind": "interruption", "deadline_us": lib.now() + wrong, "left_us": 30 * lib.US, "source": "gcp", "raw": "TRUE"})
            left = int(A.sql("SELECT deadline_us - heard_us FROM notice WHERE node_id = %d" % self.node))
            self.assertEqual(left, 30 * lib.US)

    def test_a_drain_says_how_long_is_left(self):
        self.start()
        A.sql("UPDATE attempt SET desired = 'drain', version = 2, drain_deadline_us = %d WHERE job_id = %d" % (lib.now() + 40 * lib.US, self.job))
        w = self.poll("j%d" % self.job, 1, 1)
        self.assertAlmostEqual(w["left_us"] / lib.US, 40, delta=5)
        A.sql("UPDATE attempt SET version = 3, drain_deadline_us = NULL WHERE job_id = %d" % self.job)
        self.assertNotIn("left_us", self.poll("j%d" % self.job, 1, 2))


if __name__ == "__main__":
    lib.main()
