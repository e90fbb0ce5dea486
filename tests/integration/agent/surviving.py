"""State that survives crashes of either side."""
import contextlib
import json
import os
import shutil
import signal

import fake
from case import AGENT, TRAIN, AgentCase


class Survival(AgentCase):
    def test_killed_and_started_again_it_adopts_the_job(self):
        self.agent.start()
        self.job("for i in $(seq 1 40); do echo line $i; sleep 0.1; done; exit 5")
        leader = self.leader()
        self.until_log("line 5")
        self.adopted_after_crash(leader)
        self.assertEqual(self.leader(), leader)
        r = self.exited()
        self.assertEqual((r["reason"], r["exit_code"]), ("error", 5))
        self.assertEqual(self.daemon.log("j1", 1), "".join(f"line {i}\n" for i in range(1, 41)).encode())
        self.assertEqual(len(self.daemon.enrols), 1)

    def test_killed_before_it_has_started_the_supervisor_it_begins_the_job_anew(self):
        mark = os.path.join(self.agent.home, "again")
        self.agent.start()
        self.job(f"[ ! -e '{mark}' ] || exit 0; echo up; exec sleep 600")
        self.until_log("up")
        self.agent.crash()
        for pid in fake.pids_of(self.agent.home):
            os.kill(pid, signal.SIGKILL)
        base = self.agent.job_dir("j1", 1)
        shutil.rmtree(base)
        for name in ("work/ckpt", "progress"):
            os.makedirs(os.path.join(base, name))
        self.state(lambda s: s["job"].update(phase=2, running_us=0, log_sent=0))
        with open(mark, "w"):
            pass
        self.daemon.set(logs={})
        self.agent.start()
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertIn("job.never_begun", self.agent.consoles())

    def test_the_end_of_a_job_while_no_agent_ran_is_found(self):
        self.agent.start()
        self.job("echo up; read -r x <fifo; echo out >ckpt/result; echo 7 7 >\"$SPOT_PROGRESS_FILE\"",
                 setup="mkfifo fifo")
        self.until_log("up")
        self.agent.crash()
        base = self.agent.job_dir("j1", 1)
        with open(os.path.join(base, "work", "fifo"), "w") as f:
            f.write("go\n")
        self.until(lambda: os.path.exists(os.path.join(base, "exit.json")), "exit.json")
        self.agent.start()
        r = self.exited()
        self.assertEqual((r["reason"], r["exit_code"], r["steps_done"]), ("ok", 0, 7))
        self.assertEqual([c["reason"] for c in self.daemon.checkpoints.values() if c["committed"]], ["final"])

    def test_killed_while_it_drains_it_still_drains(self):
        self.agent.start()
        self.job(f"'{TRAIN}' --steps 100000 --step-ms 5")
        self.until(lambda: any(r["steps_done"] > 5 for r in self.daemon.reports), "progress")
        self.daemon.set(url_status=0)
        self.daemon.want("drain", "j1", 1)
        self.until(lambda: self.daemon.checkpoints, "a checkpoint")
        self.agent.crash()
        self.agent.start()
        self.assertEqual(self.exited()["reason"], "drained")
        self.assertTrue([c for c in self.daemon.checkpoints.values() if c["committed"]])

    def test_killed_between_stop_and_end_it_knows_that_the_end_was_asked_for(self):
        self.agent.start()
        self.job("trap 'echo 5 >\"$SPOT_SAVED_FILE\"' USR1; trap 'echo stopping; read -r x <fifo; exit 3' TERM; "
                 "mkfifo fifo; echo s >ckpt/state; echo up; while :; do sleep 0.1; done", checkpoint={"kill_after_s": 60})
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.until_log("stopping")
        self.agent.crash()
        base = self.agent.job_dir("j1", 1)
        with open(os.path.join(base, "work", "fifo"), "w") as f:
            f.write("go\n")
        self.until(lambda: os.path.exists(os.path.join(base, "exit.json")), "exit.json")
        self.agent.start()
        self.assertEqual(self.exited()["reason"], "drained")
        self.assertEqual([c["steps"] for c in self.daemon.checkpoints.values() if c["committed"]], [5])

    def test_after_a_reboot_the_job_is_told_to_be_lost_not_failed(self):
        self.agent.start()
        self.job("echo up; sleep 600")
        self.until_log("up")
        self.agent.crash()
        self.another_boot()
        self.agent.start()
        r = self.exited()
        self.assertEqual((r["reason"], r["why"]), ("drained", "the node was restarted"))

    def test_a_kill_ends_the_last_save_of_a_job_that_is_over(self):
        # The simulation found it (seed 163295): the store refused for an hour, and the machine that did not tell the end was given up.
        self.agent.start()
        self.daemon.set(put_failures=1000)
        self.job("echo out >ckpt/result; echo 7 7 >\"$SPOT_PROGRESS_FILE\"")
        self.until(lambda: self.daemon.checkpoints, "a checkpoint is begun")
        self.assertIsNone(self.daemon.report("EXITED"))
        self.daemon.want("kill", "j1", 1, why="cancelled")
        r = self.exited()
        self.assertEqual((r["reason"], r["why"], r["exit_code"]), ("killed", "cancelled", 0))
        self.daemon.want("idle")
        self.until(lambda: self.daemon.haves[-1]["job"] is None, "a poll without a job")

    def another_boot(self):
        for pid in fake.pids_of(self.agent.home):
            os.kill(pid, signal.SIGKILL)
        self.state(lambda s: s.update(boot_id="00000000-0000-0000-0000-000000000000"))

    def state(self, change):
        """Changes the state that the agent wrote for its successor."""
        path = os.path.join(self.agent.dir, "state.json")
        with open(path) as f:
            state = json.load(f)
        change(state)
        with open(path, "w") as f:
            json.dump(state, f)

    def reboot_while_stored(self, power_cut):
        """Its end as the agent tells it after that."""
        self.agent.start()
        self.daemon.set(put_failures=1000)
        self.job("echo out >ckpt/result; echo 7 7 >\"$SPOT_PROGRESS_FILE\"")
        self.until(lambda: self.daemon.checkpoints, "a checkpoint is begun")
        safe = os.path.join(self.agent.job_dir("j1", 1), "safe")
        self.until(lambda: os.path.getsize(safe), "what it left is on the disk")
        self.agent.crash()
        self.another_boot()
        if power_cut:
            os.truncate(safe, 0)
        self.daemon.set(put_failures=0)
        self.agent.start()
        return self.exited()

    def test_a_reboot_while_its_result_is_stored_loses_no_result(self):
        # A job that ended well must have its result stored, whichever process stores it.
        r = self.reboot_while_stored(power_cut=False)
        self.assertEqual((r["reason"], r["exit_code"], r["steps_done"]), ("ok", 0, 7))
        self.assertEqual([(c["reason"], c["steps"]) for c in self.daemon.checkpoints.values() if c["committed"]], [("final", 7)])

    def test_a_result_that_was_not_on_the_disk_is_none(self):
        r = self.reboot_while_stored(power_cut=True)
        self.assertEqual((r["reason"], r["why"]), ("drained", "the node was restarted"))
        self.assertEqual([c for c in self.daemon.checkpoints.values() if c["committed"]], [])

    def test_killed_while_it_stores_it_does_not_call_the_signal_an_end(self):
        self.agent.start()
        self.daemon.set(put_failures=1000)
        self.job("trap 'echo s >ckpt/state; echo 7 100 >\"$SPOT_PROGRESS_FILE\"; exit 0' USR1; echo up; while :; do sleep 0.1; done")
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.until(lambda: self.daemon.checkpoints, "a checkpoint is begun")
        self.agent.crash()
        self.daemon.set(put_failures=0)
        self.agent.start()
        self.assertEqual(self.exited()["reason"], "drained")
        self.assertEqual([c["steps"] for c in self.daemon.checkpoints.values() if c["committed"]], [7])

    def test_a_daemon_that_has_forgotten_the_end_is_told_again(self):
        # Its database failed over to a standby that was some seconds behind.
        for restarted in (False, True):
            epoch = 2 if restarted else 1
            if not restarted:
                self.agent.start()
            self.job("echo out >ckpt/result; echo 7 7 >\"$SPOT_PROGRESS_FILE\"", epoch=epoch)
            self.exited(epoch=epoch)
            self.until(lambda: self.daemon.haves[-1]["phase"] == "EXITED", "a poll that says so")
            if restarted:
                self.agent.crash()
                self.agent.start()
            self.daemon.set(reports=[], checkpoints={}, objects={})
            self.daemon.want("run" if restarted else "drain", "j1", epoch, {})
            r = self.exited(epoch=epoch)
            self.assertEqual((r["reason"], r["exit_code"], r["steps_done"]), ("ok", 0, 7))
            self.assertEqual([(c["reason"], c["steps"]) for c in self.daemon.checkpoints.values() if c["committed"]], [("final", 7)])
            self.daemon.want("idle")
            self.until(lambda: self.daemon.haves[-1]["job"] is None, "a poll without a job")

    def test_a_page_that_is_not_the_daemons_ends_nothing(self):
        self.daemon.set(foreign={"enrol": 2})
        self.agent.start()
        self.job("echo up; read -r x <fifo", setup="mkfifo fifo")
        self.until_log("up")
        leader = self.leader()
        self.daemon.set(foreign={"poll": 2, "report": 2})
        self.daemon.want("run", "j1", 1, {})
        self.until(lambda: self.daemon.foreign["poll"] == 0 and len(self.daemon.haves) > 1 and self.daemon.haves[-1]["version"] == self.daemon.version,
                   "polls that hear more than that")
        self.assertTrue(fake.alive(leader))
        with open(os.path.join(self.agent.job_dir("j1", 1), "work", "fifo"), "w") as f:
            f.write("go\n")
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(self.daemon.foreign, {"poll": 0, "report": 0})
        self.assertIsNone(self.agent.process.poll())

    def test_a_stale_epoch_kills_what_runs(self):
        self.agent.start()
        self.job("echo up; sleep 600")
        leader = self.leader()
        self.until_log("up")
        with self.daemon.lock:
            self.daemon.fenced.add(("j1", 1))
        self.daemon.want("drain", "j1", 1)      # whatever it reports next is refused
        self.until(lambda: not fake.alive(leader), "the job's end")
        self.until(lambda: self.daemon.haves[-1]["job"] is None, "a poll without a job")
        self.assertFalse(os.path.exists(self.agent.job_dir("j1", 1)))
        self.assertIsNone(self.agent.process.poll())

    def test_the_daemon_may_be_away_for_a_while(self):
        self.agent.start()
        self.job("for i in $(seq 1 30); do echo line $i; sleep 0.1; done; echo r >ckpt/result")
        leader = self.leader()
        self.until_log("line 3")
        self.daemon.set(down=True)
        self.until(lambda: not fake.alive(leader), "the job's own end")
        self.daemon.set(down=False)
        self.assertEqual(self.exited(timeout=60)["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1), "".join(f"line {i}\n" for i in range(1, 31)).encode())

    def test_repeats_grow_apart_while_the_daemon_is_away(self):
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.daemon.set(down=True, requests=[])
        # A request on a kept connection that turns out closed is repeated at once, by libcurl: not counted.
        def apart():
            at = [r[0] for r in self.daemon.requests if r[1] == "poll"]
            return [t for i, t in enumerate(at) if i == 0 or t - at[i - 1] > 0.2]
        self.until(lambda: len(apart()) >= 5, "polls", 60)
        self.assertGreater(apart()[4] - apart()[0], 3.5)    # 0.5 1 2 4 seconds, jittered by half

    def test_an_orphan_stops_its_job_and_leaves(self):
        self.agent.close()
        self.agent = fake.Agent(AGENT, self.daemon, orphan_timeout_s=10)
        self.addCleanup(self.agent.close)
        self.agent.start()
        self.job("trap 'echo term; exit 1' TERM; echo up; while :; do sleep 0.1; done")
        leader = self.leader()
        self.until_log("up")
        self.daemon.set(down=True)
        self.assertEqual(self.agent.wait(), 0)
        self.assertFalse(fake.alive(leader))

    def orphan(self, **boot):
        """Starts an agent with a job that writes down its signals to save and to end. Returns that file."""
        self.agent.close()
        self.agent = fake.Agent(AGENT, self.daemon, **boot)
        self.addCleanup(self.agent.close)
        saved = os.path.join(self.agent.home, "said")
        self.agent.start()
        self.job(f"trap 'echo save >>\"{saved}\"; echo 7 >ckpt/model; echo 7 >\"$SPOT_SAVED_FILE\"' USR1; "
                 f"trap 'echo term >>\"{saved}\"; exit 1' TERM; echo up; while :; do sleep 0.1; done")
        self.until_log("up")
        return saved

    def test_an_orphan_lets_its_job_save_before_it_ends(self):
        self.daemon.set(orphan_timeout_s=3)
        saved = self.orphan(orphan_timeout_s=3600)
        leader = self.leader()
        self.daemon.set(down=True)
        # The agent keeps the save for a daemon that comes back within the save's budget, the time to stop and a minute.
        def said():
            with contextlib.suppress(OSError), open(saved, encoding="utf-8") as f:
                return f.read().split()
        self.until(lambda: "term" in (said() or []), "save and stop")
        self.assertEqual(said(), ["save", "term"])
        self.until(lambda: not fake.alive(leader), "the job's end")
        self.assertIsNone(self.agent.process.poll())
        self.daemon.set(down=False)
        ended = self.exited()
        self.assertEqual((ended["reason"], ended["why"]), ("drained", "the agent had no contact with the daemon for too long"))
        (c,) = self.daemon.checkpoints.values()
        self.assertEqual((c["reason"], c["steps"], bool(c["committed"])), ("drain", 7, True))
        self.assertIsNone(self.agent.process.poll())

    def test_the_daemons_orphan_timeout_outlives_the_agent(self):
        self.daemon.set(orphan_timeout_s=3)
        self.orphan(orphan_timeout_s=3600)
        leader = self.leader()
        self.agent.crash()
        self.daemon.set(down=True)
        self.agent.start()
        self.until(lambda: not fake.alive(leader), "the job's end")

    def test_an_agent_that_is_told_so_is_never_an_orphan(self):
        self.daemon.set(orphan_timeout_s=0)
        saved = self.orphan(orphan_timeout_s=1)
        leader = self.leader()
        self.daemon.set(down=True, requests=[])
        self.until(lambda: sum(r[1] == "poll" for r in self.daemon.requests) >= 6, "polls in vain")
        self.assertFalse(os.path.exists(saved))
        self.assertTrue(fake.alive(leader))

    def test_a_stop_of_the_agent_leaves_the_job_running(self):
        self.agent.start()
        self.job("sleep 600")
        leader = self.leader()
        self.agent.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.agent.wait(), 143)
        self.assertTrue(fake.alive(leader))

    def test_a_killed_supervisor_ends_the_job_as_an_error(self):
        self.agent.start()
        self.job("sleep 600")
        leader = self.leader()
        with open(os.path.join(self.agent.job_dir("j1", 1), "job.json")) as f:
            os.kill(json.load(f)["shim_pid"], signal.SIGKILL)
        r = self.exited()
        self.assertEqual(r["reason"], "error")
        self.assertIn("supervisor", r["why"])
        self.until(lambda: not fake.alive(leader), "the job's end")

    def test_a_killed_supervisor_leaves_nothing_of_the_job(self):
        self.agent.start()
        self.job("setsid sleep 1236 & setsid bash -c 'sleep 1237 & wait' & echo up; wait")
        self.until_log("up")
        pids = self.until(lambda: len(p := fake.pids_of(self.agent.job_dir("j1", 1))) >= 5 and p, "processes")
        with open(os.path.join(self.agent.job_dir("j1", 1), "job.json")) as f:
            os.kill(json.load(f)["shim_pid"], signal.SIGKILL)
        self.assertEqual(self.exited()["reason"], "error")
        self.until(lambda: not any(fake.alive(p) for p in pids), "the end of all of it")
