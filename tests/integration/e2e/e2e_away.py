#!/usr/bin/env python3
"""The daemon is away: jobs run on, end, and are saved; afterwards everything is told."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402


class Away(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1", "settings": {"engine": {"lease": "1500ms"}}}

    def test_jobs_run_on_and_end_while_the_daemon_is_away(self):
        w = self.world
        short, long = w.submit(name="short", steps=300), w.submit(name="long", steps=540)
        refs = {}
        for job in (short, long):
            refs[job] = w.node(w.await_steps(job, 10)["node"])["ref"]
        before = len(w.sim("GET", "/state")["launches"])
        w.stop_daemon()
        began = w.local_steps(long, refs[long])
        # As the job counts them: its steps are 50 ms each. Ten seconds are for the other one to begin.
        w.until("fifteen seconds of the job", 60, lambda: w.local_steps(long, refs[long]) >= min(began + 300, 540))
        w.until("the end of the short one", 60, lambda: w.local_steps(short, refs[short]) == 300)
        w.start_daemon()
        for job, steps in ((short, 300), (long, 540)):
            j = w.await_end(job, 60)
            self.assertEqual((j["state"], j["attempts"], j["lost_steps"], j["steps_done"]), ("SUCCEEDED", 1, 0, steps))
            self.assertEqual(w.result_of(job), w.result_of_uninterrupted(steps))
        self.assertEqual(len(w.sim("GET", "/state")["launches"]), before)
        w.await_gone()

    def test_a_notice_that_nobody_could_hear_is_still_answered_by_a_checkpoint(self):
        w = self.world
        job = w.submit(name="unheard", steps=700, step_ms=25)
        j = w.await_steps(job, 20)
        ref = w.node(j["node"])["ref"]
        w.stop_daemon(signal.SIGKILL)
        w.sim("POST", "/reclaim", {"instance": ref, "notice_s": 45})
        # The agent hears it from the machine and has the job save; where to put the bytes only the daemon can tell.
        w.until("the job has saved", 15, lambda: w.agent_file(ref, job, "saved"))
        w.start_daemon()
        j = w.await_attempt(job, 2, 40)
        first, second = j["attempts_list"][:2]
        self.assertEqual((first["exit_reason"], second["steps_start"]), ("drained", first["steps_done"]))
        self.assertGreaterEqual(second["steps_start"], 20)
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"], j["interruptions"], j["lost_steps"]), ("SUCCEEDED", 2, 1, 0))
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(700))
        w.await_gone()

    def test_an_agent_without_a_daemon_saves_its_job_which_goes_on(self):
        w = self.world
        w.write_config(w.config_text().replace("[api]\n", "[api]\norphan_timeout = 1m\n"))
        w.daemon.proc.send_signal(signal.SIGHUP)
        w.until("the setting is taken", 20, lambda: "config.reloaded" in w.log())
        job = w.submit(name="alone", steps=3000)
        j = w.await_steps(job, 20)
        ref = w.node(j["node"])["ref"]
        w.stop_daemon()
        w.until("the job has saved", 120, lambda: w.agent_file(ref, job, "saved"))
        saved = w.local_steps(job, ref)
        w.until("the job is over", 60, lambda: w.agent_file(ref, job, "exit.json"))
        w.start_daemon()
        j = w.await_attempt(job, 2, 90)
        first, second = j["attempts_list"][:2]
        self.assertEqual((first["exit_reason"], first["drain_why"]), ("drained", "the agent had no contact with the daemon for too long"))
        self.assertGreaterEqual(second["steps_start"], saved)
        self.assertEqual(second["steps_start"], first["steps_done"])
        self.assertEqual(j["lost_steps"], 0)
        w.ctl("job", "cancel", job)
        w.await_end(job)
        w.write_config(w.config_text())
        w.await_gone()


if __name__ == "__main__":
    e2e.main()
