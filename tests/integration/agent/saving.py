"""Notices, drains and checkpoints."""
import json
import os
import time

import fake
from case import TRAIN, AgentCase


class Checkpoints(AgentCase):
    aws = True

    def train(self, more="", **job):
        return self.job(f"'{TRAIN}' --steps 100000 --step-ms 5 {more}", **job)

    def committed(self):
        return [c for c in self.daemon.checkpoints.values() if c["committed"]]

    def test_notice_signal_save_upload_of_what_changed_commit_drained(self):
        big = os.urandom(300000)
        self.agent.start()
        self.train(files=[self.daemon.file("checkpoint", "static.bin", big)])
        self.leader()
        self.until(lambda: (self.daemon.report("RUNNING") or {}).get("steps_total") or
                   any(r["steps_done"] > 5 for r in self.daemon.reports), "progress")
        published = self.metadata.interruption(120)
        notice_at, notice = self.until(lambda: self.daemon.notices and self.daemon.notices[0], "the notice")
        saving = self.until(lambda: next((r for r in self.daemon.reports if "signalled_us" in r), None),
                            "signalled_us")
        r = self.exited()
        self.assertEqual((notice["kind"], notice["source"]), ("interruption", "imds"))
        self.assertAlmostEqual(notice["deadline_us"] / 1e6, published + 120, delta=self.late.limit(2))
        self.assertLess(saving["signalled_us"] / 1e6 - published, self.late.limit(1.0))
        self.assertLess(notice_at - published, self.late.limit(1.0))
        self.assertEqual(r["reason"], "drained")
        (c,) = self.committed()
        self.assertEqual(c["reason"], "notice")
        self.assertEqual([x["path"] for x in c["fresh"]], ["model.ckpt"])
        self.assertEqual(sorted(x["path"] for x in c["chunks"]), ["model.ckpt", "static.bin"])
        self.assertEqual(c["steps"], r["steps_done"])       # nothing was computed in vain
        self.assertGreater(c["steps"], 0)
        order = [e[0] for e in self.daemon.events if e[0] in ("put", "commit") or e[:2] == ("report", "EXITED")]
        self.assertEqual(order, ["put", "commit", "report"])
        self.assertEqual(self.notices(), 1)
        self.assertIsNone(self.agent.process.poll())        # stays until it is told or dies

    def test_a_shell_between_us_and_the_program_survives_the_signal(self):
        self.agent.start()
        self.job(f"echo begin\n'{TRAIN}' --steps 100000 --step-ms 5\necho the shell went on with $?\n")
        self.until_log("begin")
        self.until(lambda: any(r["steps_done"] > 5 for r in self.daemon.reports), "progress")
        self.daemon.want("drain", "j1", 1, why="moving")
        r = self.exited()
        self.assertEqual(r["reason"], "drained")
        (c,) = self.committed()
        self.assertEqual((c["reason"], c["steps"]), ("drain", r["steps_done"]))

    def test_a_shell_in_between_lives_through_a_checkpoint(self):
        self.agent.start()
        self.job(f"echo begin\n'{TRAIN}' --steps 100000 --step-ms 5\necho end\n", checkpoint={"interval_s": 1})
        leader = self.leader()
        self.until(lambda: len(self.committed()) >= 2, "two checkpoints")
        self.assertTrue(fake.alive(leader))
        self.assertIsNone(self.daemon.report("EXITED"))

    def test_rebalance_saves_once_and_the_job_goes_on(self):
        self.agent.start()
        self.train()
        leader = self.leader()
        self.metadata.rebalance()
        self.until(lambda: self.committed(), "a checkpoint")
        _, notice = self.until(lambda: self.daemon.notices and self.daemon.notices[0], "the notice")
        self.assertEqual(notice["kind"], "rebalance")
        self.metadata.put("meta-data/events/recommendations/rebalance", '{"noticeTime":"2030-01-01T00:00:00Z"}')
        self.until(lambda: any("2030" in n["raw"] for _, n in self.daemon.notices), "the second recommendation")
        self.assertEqual(self.notices(), 2)
        self.assertTrue(fake.alive(leader))
        self.assertEqual(len(self.daemon.checkpoints), 1)
        self.assertIsNone(self.daemon.report("EXITED"))

    def test_periodic_checkpoints_upload_only_what_changed_and_the_job_goes_on(self):
        self.agent.start()
        self.train(files=[self.daemon.file("checkpoint", "static.bin", os.urandom(100000))],
                   checkpoint={"interval_s": 1})
        leader = self.leader()
        self.until(lambda: len(self.committed()) >= 3, "three checkpoints")
        done = self.committed()
        for c in done:
            self.assertEqual(c["reason"], "periodic")
            self.assertEqual([x["path"] for x in c["fresh"]], ["model.ckpt"])
        self.assertLess(done[0]["steps"], done[1]["steps"])
        self.assertTrue(fake.alive(leader))

    def test_the_time_for_a_drain_does_not_depend_on_the_machines_clock(self):
        self.agent.start()
        self.job("trap 'for i in $(seq 40); do sleep 0.2; done; echo 7 >ckpt/slow; echo 7 >\"$SPOT_SAVED_FILE\"' USR1; trap : TERM; echo up; while :; do sleep 0.2; done")
        self.until_log("up")
        self.daemon.want("drain", "j1", 1, deadline_us=int((time.time() - 3600) * 1e6), left_us=60 * 10**6)
        self.assertEqual(self.exited()["reason"], "drained")
        (c,) = self.committed()
        self.assertEqual([x["path"] for x in c["chunks"]], ["slow"])

    def test_a_job_that_ignores_the_signal_costs_its_budget_and_stores_nothing(self):
        self.agent.start()
        self.job("trap '' USR1; trap : TERM; echo half >ckpt/torn; echo up; while :; do echo more >>ckpt/torn; "
                 "sleep 0.2; done", checkpoint={"budget_s": 1, "kill_after_s": 1})
        self.until_log("up")
        began = time.monotonic()
        self.daemon.want("drain", "j1", 1)
        r = self.exited()
        self.assertEqual(r["reason"], "drained")
        self.assertLess(time.monotonic() - began, self.late.limit(15))
        self.assertEqual(self.daemon.checkpoints, {})

    def test_a_job_unaware_of_us_is_stored_when_its_files_rest(self):
        self.agent.start()
        self.job("touch -d '1 hour ago' ckpt/old; echo '9 100' >\"$SPOT_PROGRESS_FILE\"; echo up; exec sleep 600", steps_start=5)
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["steps_done"], 9)
        (c,) = self.committed()
        self.assertEqual([x["path"] for x in c["chunks"]], ["old"])
        self.assertEqual(c["steps"], 5, "of which step the files are nobody knows: of the first that it began with, or later")

    def test_a_rank_stores_no_files_of_a_step_that_nobody_knows(self):
        self.agent.start()
        self.job("touch -d '1 hour ago' ckpt/old; echo up; exec sleep 600", steps_start=5, checkpoint={"budget_s": 1},
                 nodes={"count": 2, "rank": 1, "ips": ["192.0.2.1", "192.0.2.2"]})
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["reason"], "drained")
        self.assertEqual(self.daemon.checkpoints, {})

    TWO = {"count": 2, "rank": 1, "ips": ["192.0.2.1", "192.0.2.2"]}

    def test_a_rank_with_nothing_to_save_saves_nothing_at_the_common_step(self):
        self.agent.start()
        self.job("trap 'echo 7 >\"$SPOT_SAVED_FILE\"' USR1; echo up; while :; do sleep 0.1; done", nodes=self.TWO)
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["reason"], "drained")
        self.assertEqual([(c["steps"], c["chunks"]) for c in self.committed()], [(7, [])])

    def test_a_rank_whose_files_have_not_changed_takes_part_in_the_next_save(self):
        self.agent.start()
        self.job("trap 'echo >\"$SPOT_SAVED_FILE\"' USR1; echo s >ckpt/state; echo up; while :; do sleep 0.1; done",
                 nodes=self.TWO, checkpoint={"interval_s": 1})
        self.until(lambda: len(self.committed()) >= 2, "two saves")
        self.assertEqual([c["path"] for c in self.committed()[1]["chunks"]], ["state"])
        self.assertEqual(len([e for e in self.daemon.events if e[0] == "put"]), 1)

    def test_one_machine_stores_no_save_of_nothing_and_none_twice(self):
        self.agent.start()
        self.job("trap 'echo 7 >\"$SPOT_SAVED_FILE\"' USR1; echo up; while :; do sleep 0.1; done")
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.exited()
        self.assertEqual(self.daemon.checkpoints, {})

    def test_a_kill_in_a_second_save_over_the_first_leaves_no_save(self):
        self.agent.start()
        self.job("trap 'echo whole >ckpt/model; echo 100 >\"$SPOT_SAVED_FILE\"' USR1; "
                 "trap 'sleep 0.1; echo half >ckpt/model; sleep 600' TERM; echo up; while :; do sleep 0.1; done", checkpoint={"kill_after_s": 1})
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["reason"], "drained")
        self.assertEqual(self.daemon.checkpoints, {})
        self.assertIn("wrote over the save", self.agent.consoles())

    def test_a_program_killed_after_its_only_save_has_saved(self):
        self.agent.start()
        self.job("trap 'echo whole >ckpt/model; echo 100 >\"$SPOT_SAVED_FILE\"' USR1; trap 'sleep 600' TERM; echo up; "
                 "while :; do sleep 0.1; done", checkpoint={"kill_after_s": 1})
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["reason"], "drained")
        self.assertEqual([c["steps"] for c in self.committed()], [100])

    def test_stored_chunks_are_not_sent_again_when_the_urls_expire(self):
        self.daemon.set(url_each=4)
        self.agent.start()
        self.job("trap 'for i in $(seq 32); do echo $i >ckpt/$i; done; echo 7 >\"$SPOT_SAVED_FILE\"' USR1; echo up; while :; do sleep 0.1; done",
                 checkpoint={"interval_s": 1})
        (c, *_) = self.until(self.committed, "a save of more rounds than one that does not get on has")
        self.assertEqual(len(c["chunks"]), 32)
        lists = [len(x["fresh"]) for x in self.daemon.checkpoints.values()]
        self.assertGreater(len(lists), 6)
        self.assertLess(len([e for e in self.daemon.events if e[0] == "put"]), 32 + 4 * len(lists), "but what was under way when another one was refused")

    def test_a_command_can_save_instead_of_a_signal(self):
        self.agent.start()
        self.job("echo up; exec sleep 600", secrets={"KEY": "from-the-job"},
                 checkpoint={"command": 'echo "$KEY" >ckpt/by-command; echo 42 >"$SPOT_SAVED_FILE"'})
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.exited()
        (c,) = self.committed()
        self.assertEqual((c["steps"], [x["path"] for x in c["chunks"]]), (42, ["by-command"]))
        self.assertEqual(self.daemon.objects[c["chunks"][0]["sha256"]], b"from-the-job\n")

    def test_a_job_over_its_time_saves_first_when_no_daemon_answers(self):
        self.agent.start()
        self.train(max_duration_s=2)
        r = self.exited()
        self.assertEqual((r["reason"], r["why"]), ("drained", "max_duration is over by the agent's clock"))
        (c,) = self.committed()
        self.assertEqual((c["reason"], c["steps"]), ("drain", r["steps_done"]))
        self.assertGreater(c["steps"], 0)

    def test_the_notice_file_is_there_before_the_signal(self):
        self.agent.start()
        self.job("trap 'cat \"$SPOT_NOTICE_FILE\"; echo 5 >\"$SPOT_SAVED_FILE\"' USR1; echo up; "
                 "while :; do sleep 0.1; done")
        self.until_log("up")
        self.metadata.interruption(120)
        self.exited()
        self.assertRegex(self.daemon.log("j1", 1).decode(), r'\{"kind":"interruption","deadline_us":\d{16}\}')

    def test_a_job_that_leaves_with_0_upon_the_notice_has_saved_not_finished(self):
        self.agent.start()
        self.job("trap 'echo s >ckpt/state; exit 0' USR1; echo up; while :; do sleep 0.1; done")
        self.until_log("up")
        self.metadata.interruption(120)
        self.assertEqual(self.exited()["reason"], "drained")
        self.assertEqual(len(self.committed()), 1)

    SAVES_ONCE = ("trap 'trap : USR1; echo s >ckpt/state; echo 3 >\"$SPOT_SAVED_FILE\"' USR1; "
                  "trap 'echo 9 100 >\"$SPOT_PROGRESS_FILE\"; exit 0' TERM; echo up; while :; do sleep 0.1; done")

    def leaves_with_0_at_step_9_with_the_files_of_step_3(self):
        r = self.exited()
        self.assertEqual((r["reason"], r["steps_done"]), ("drained", 9))
        self.assertEqual([c["steps"] for c in self.committed()], [3])

    def test_an_exit_with_0_and_no_step_has_the_step_of_its_files(self):
        self.agent.start()
        self.job(self.SAVES_ONCE, checkpoint={"interval_s": 1, "budget_s": 10})
        self.until(lambda: "why=committed" in self.agent.consoles(), "a checkpoint whose end the agent knows")
        self.daemon.want("drain", "j1", 1)
        self.leaves_with_0_at_step_9_with_the_files_of_step_3()

    def test_and_so_is_a_rank_that_would_pass_for_a_later_set(self):
        self.agent.start()
        self.job(self.SAVES_ONCE, checkpoint={"interval_s": 1, "budget_s": 10}, nodes=self.TWO)
        self.until(lambda: "why=committed" in self.agent.consoles(), "a checkpoint whose end the agent knows")
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["steps_done"], 9)
        self.assertEqual({c["steps"] for c in self.committed()}, {3})

    def test_and_so_is_a_rank_that_began_with_them(self):
        self.agent.start()
        self.job("trap : USR1; trap 'echo 9 100 >\"$SPOT_PROGRESS_FILE\"; exit 0' TERM; echo up; "
                 "while :; do sleep 0.1; done", checkpoint={"budget_s": 1}, nodes=self.TWO, steps_start=4, restored_from="c1",
                 files=[self.daemon.file("checkpoint", "state", b"of step 4")])
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["steps_done"], 9)
        self.assertEqual([c["steps"] for c in self.committed()], [4])

    def drained_while_it_is_stored(self):
        def in_the_midst():     # the agent waits for our answer
            self.daemon.on_checkpoint = None
            self.daemon.want("drain", "j1", 1)
            self.daemon.lock.wait_for(lambda: self.daemon.report("EXITED", "j1", 1), timeout=60)
        self.daemon.set(on_checkpoint=in_the_midst)
        self.agent.start()
        self.job("leave() { echo 9 100 >\"$SPOT_PROGRESS_FILE\"; exit 0; }; "
                 "trap 'trap leave USR1; echo s >ckpt/state; echo 3 >\"$SPOT_SAVED_FILE\"' USR1; while :; do sleep 0.1; done",
                 checkpoint={"interval_s": 1})
        self.leaves_with_0_at_step_9_with_the_files_of_step_3()

    def test_and_so_it_is_where_nobody_has_stored_them_yet(self):
        self.drained_while_it_is_stored()

    def test_and_so_it_is_where_a_daemon_has_forgotten_the_end(self):
        self.drained_while_it_is_stored()
        self.until(lambda: self.daemon.haves[-1]["phase"] == "EXITED", "a poll that says so")
        for restarted in (False, True):
            if restarted:
                self.agent.crash()
                self.agent.start()
            self.daemon.set(reports=[], checkpoints={}, objects={})
            self.daemon.want("run" if restarted else "drain", "j1", 1, {})
            self.leaves_with_0_at_step_9_with_the_files_of_step_3()

    def test_a_save_without_a_number_has_the_step_of_its_request(self):
        self.agent.start()
        self.job("echo 5 100 >\"$SPOT_PROGRESS_FILE\"; trap 'echo s >ckpt/state; echo >\"$SPOT_SAVED_FILE\"' USR1; "
                 "trap 'echo 9 100 >\"$SPOT_PROGRESS_FILE\"; exit 0' TERM; echo up; while :; do sleep 0.1; done")
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.assertEqual((self.exited()["steps_done"], [c["steps"] for c in self.committed()]), (9, [5]))

    def test_a_notice_in_the_midst_of_a_periodic_save_is_heeded(self):
        self.agent.start()

        def in_the_midst():     # the agent waits for our answer
            self.daemon.on_checkpoint = None
            self.metadata.interruption(120)
            self.daemon.lock.wait_for(lambda: self.daemon.notices, timeout=60)
        self.daemon.set(on_checkpoint=in_the_midst)
        self.train(checkpoint={"interval_s": 1})
        r = self.exited()
        self.assertEqual(r["reason"], "drained")
        last = self.committed()[-1]
        self.assertEqual((last["reason"], last["steps"]), ("notice", r["steps_done"]))

    def test_a_job_given_after_the_notice_is_not_started(self):
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.metadata.interruption(120)
        self.until(lambda: self.daemon.notices, "the notice")
        self.job("echo never")
        self.assertEqual(self.exited()["reason"], "drained")

    def test_a_file_that_changes_under_the_upload_is_stored_as_what_it_is(self):
        self.agent.start()
        self.job("trap 'echo old >ckpt/state; echo 3 >\"$SPOT_SAVED_FILE\"' USR1; echo up; "
                 "while :; do sleep 0.1; done")
        self.until_log("up")
        path = os.path.join(self.agent.job_dir("j1", 1), "work", "ckpt", "state")
        count = []

        def change():
            count.append(1)
            if len(count) == 1:     # after the scan, before the first byte is sent; same length
                with open(path, "w") as f:
                    f.write("new\n")
        self.daemon.set(on_checkpoint=change)
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["reason"], "drained")
        (c,) = self.committed()
        self.assertEqual(self.daemon.objects[c["chunks"][0]["sha256"]], b"new\n")
        self.assertEqual(len(self.daemon.checkpoints), 2)

    def test_a_store_that_refuses_is_asked_again(self):
        self.agent.start()
        self.train()
        self.until(lambda: any(r["steps_done"] > 5 for r in self.daemon.reports), "progress")
        self.daemon.set(put_failures=3)
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["reason"], "drained")
        self.assertEqual(len(self.committed()), 1)
        self.assertEqual(self.daemon.put_failures, 0)

    def save_once(self, **store):
        self.agent.start()
        self.train()
        self.until(lambda: any(r["steps_done"] > 5 for r in self.daemon.reports), "progress")
        self.daemon.set(**store)
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["reason"], "drained")
        (c,) = self.committed()
        return c["chunks"]

    def test_bytes_that_changed_on_their_way_to_the_store_are_sent_again(self):
        """A checkpoint that counts and cannot be restored is the worst there is; that store reports the bytes that it
        received."""
        chunks = self.save_once(put_flips=2)
        self.assertEqual(self.daemon.put_flips, 0)
        for c in chunks:
            self.assertEqual(fake.sha(self.daemon.objects[c["sha256"]]), c["sha256"])
        self.assertEqual(self.agent.consoles().count("upload.other_bytes"), 2)

    def test_a_store_with_a_count_of_its_own_is_believed_in_the_end(self):
        self.daemon.set(put_etag='"00112233445566778899aabbccddeeff"')
        self.agent.start()
        self.job("i=0; trap 'i=$((i+1)); echo $i >ckpt/f; echo $i >\"$SPOT_SAVED_FILE\"' USR1; while :; do sleep 0.1; done",
                 checkpoint={"interval_s": 1})
        self.until(lambda: len({c["chunks"][0]["sha256"] for c in self.committed()}) >= 3, "three checkpoints")
        self.assertEqual(self.agent.consoles().count("upload.other_bytes"), 3)  # not three times each

    def test_a_job_whose_last_checkpoint_cannot_be_stored_has_not_succeeded(self):
        self.agent.start()
        self.job("mkdir -p ckpt/" + 70 * "x/" + "; echo out >ckpt/result")
        r = self.exited()
        self.assertEqual((r["reason"], r["exit_code"]), ("error", 0))
        self.assertIn("too deep", r["why"])
        self.assertEqual(self.daemon.checkpoints, {})

    def test_maintenance_is_passed_on_and_nothing_else_happens(self):
        self.agent.start()
        self.train()
        leader = self.leader()
        self.metadata.put("meta-data/events/maintenance/scheduled", json.dumps(
            [{"NotBefore": "21 Jan 2039 09:00:43 GMT", "Code": "instance-retirement", "State": "active"}]))
        _, n = self.until(lambda: self.daemon.notices and self.daemon.notices[0], "the notice")
        self.assertEqual((n["kind"], n["deadline_us"]), ("maintenance", 2179213243000000))
        self.assertTrue(fake.alive(leader))
        self.assertEqual(self.daemon.checkpoints, {})
