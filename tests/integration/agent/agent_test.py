"""The agent against a scripted daemon, object store and metadata service.

usage: agent_test.py SPOT_AGENT SPOT_TRAIN [unittest arguments]
The class Gpu also wants $FAKE_NVML_LIBS: directories "new" and "old" with a libnvidia-ml.so.1 each.
"""
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fake

AGENT, TRAIN = sys.argv[1:3] if len(sys.argv) > 2 else ("", "")
CKPT = {"path": "ckpt", "signal": "USR1", "command": "", "interval_s": 0, "budget_s": 20, "then": "TERM",
        "kill_after_s": 5}


class AgentCase(unittest.TestCase):
    aws = False

    def setUp(self):
        self.daemon = fake.Daemon()
        self.addCleanup(self.daemon.close)
        self.metadata = fake.Metadata() if self.aws else None
        if self.aws:
            self.addCleanup(self.metadata.close)
        self.agent = fake.Agent(AGENT, self.daemon, self.metadata)
        self.addCleanup(self.agent.close)
        self.addCleanup(self.check_nothing_wrong)

    def check_nothing_wrong(self):
        self.assertEqual(self.daemon.wrong, [])

    def _callTestMethod(self, method):
        try:
            method()
        except BaseException:
            sys.stderr.write("\n" + self.agent.consoles())
            raise

    def job(self, run, job="j1", epoch=1, **more):
        doc = {"name": "a job", "workdir": "", "setup": "", "run": run, "envs": {}, "secrets": {}, "num_gpus": 0,
               "max_duration_s": 0, "files": [], "checkpoint": dict(CKPT), "steps_start": 0,
               "restored_from": None, "log_offset": 0}
        checkpoint = more.pop("checkpoint", {})
        doc.update(more)
        doc["checkpoint"].update(checkpoint)
        self.daemon.want("run", job, epoch, doc)
        return doc

    def until(self, condition, what, timeout=30):
        return self.daemon.until(condition, what, timeout)

    def until_log(self, text, job="j1", epoch=1, timeout=30):
        self.until(lambda: text.encode() in self.daemon.log(job, epoch), f"log line {text!r}", timeout)

    def exited(self, job="j1", epoch=1, timeout=30):
        return self.daemon.until_report("EXITED", job, epoch, timeout)

    def leader(self, job="j1", epoch=1):
        path = os.path.join(self.agent.job_dir(job, epoch), "job.json")

        def read():
            try:
                with open(path) as f:
                    doc = json.load(f)
                return doc["leader"] if doc["phase"] == "run" else None
            except (OSError, ValueError):
                return None
        return self.until(read, "job.json says run")


class Enrolment(AgentCase):
    aws = True

    def test_lost_reply_is_repeated_and_the_session_is_kept_private(self):
        self.daemon.set(lose_enrol=1)
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.assertEqual(len(self.daemon.enrols), 2)
        first, second = self.daemon.enrols
        for e in (first, second):
            self.assertEqual(e["token"], self.daemon.token)
            self.assertEqual(e["instance_ref"], "i-0123456789abcdef0")
            self.assertEqual(e["proof"]["rsa2048"], "c2lnbmF0dXJl")
            self.assertRegex(e["boot_id"], r"^[0-9a-f-]{36}$")
            self.assertGreater(e["hw"]["vcpus"], 0)
            self.assertGreater(e["hw"]["mem_mib"], 0)
        self.assertEqual(first["boot_id"], second["boot_id"])
        path = os.path.join(self.agent.dir, "session")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(self.agent.dir).st_mode), 0o700)
        self.assertEqual(self.daemon.haves[0]["job"], None)

    def test_a_restart_uses_the_stored_session(self):
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.agent.crash()
        n = len(self.daemon.haves)
        self.agent.start()
        self.until(lambda: len(self.daemon.haves) > n, "another poll")
        self.assertEqual(len(self.daemon.enrols), 1)

    def test_a_refused_session_is_enrolled_again(self):
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.daemon.set(session="ended")
        self.until(lambda: len(self.daemon.enrols) == 2, "a second enrolment")
        n = len(self.daemon.haves)
        self.until(lambda: len(self.daemon.haves) > n, "another poll")

    def test_a_refused_token_ends_the_agent_for_good(self):
        self.daemon.set(enrol_status=403)
        self.agent.start()
        self.assertEqual(self.agent.wait(), 3)

    def test_samples_say_that_there_is_no_gpu(self):
        self.agent.start()
        sample = self.until(lambda: self.daemon.samples[1:] and self.daemon.samples[1], "samples")
        self.assertEqual(sample["gpus"], 0)
        self.assertNotIn("gpu_util", sample)
        self.assertGreater(sample["mem_used_mib"], 0)
        self.assertTrue(0 <= sample["cpu_util"] <= 1)
        self.assertIn("gpu_error", self.daemon.enrols[0]["hw"])

    def test_shutdown_ends_with_0(self):
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.daemon.want("shutdown")
        self.assertEqual(self.agent.wait(), 0)

    def test_a_second_agent_in_the_same_directory_is_refused(self):
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        r = subprocess.run([AGENT, "--dir", self.agent.dir], capture_output=True, text=True)
        self.assertEqual(r.returncode, 1)
        self.assertIn("another agent", r.stderr)


class Running(AgentCase):
    def test_setup_and_run_see_the_promised_environment_and_nothing_else(self):
        self.agent.start()
        self.job("env | sort; pwd; echo done >result", setup="echo from setup; echo x >made",
                 envs={"COLOUR": "blue sky"}, secrets={"API_KEY": "s3cr3t-value-0815"}, num_gpus=2, epoch=4,
                 steps_start=12, workdir="code/main")
        self.assertEqual(self.exited(epoch=4)["reason"], "ok")
        text = self.daemon.log("j1", 4).decode()
        env = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        self.assertTrue(text.startswith("from setup\n"))
        base = self.agent.job_dir("j1", 4)
        for name, value in {
                "SPOT_JOB_ID": "j1", "SPOT_JOB_NAME": "a job", "SPOT_EPOCH": "4", "SPOT_NODE_ID": "n7",
                "SPOT_NUM_GPUS": "2", "SPOT_RESTORED": "0", "SPOT_STEPS_START": "12", "COLOUR": "blue sky",
                "API_KEY": "s3cr3t-value-0815", "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "1",
                "SKYPILOT_NUM_GPUS_PER_NODE": "2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "SKYPILOT_TASK_ID": "spot-test-j1",
                "SPOT_CHECKPOINT_DIR": f"{base}/work/code/main/ckpt"}.items():
            self.assertEqual(env.get(name), value, name)
        self.assertRegex(env["SKYPILOT_NODE_IPS"], r"^\d+\.\d+\.\d+\.\d+$")
        self.assertNotIn("AWS_SECRET_ACCESS_KEY", env)
        self.assertIn(f"{base}/work/code/main\n", text)

    def test_secrets_are_in_the_environment_of_the_job_and_nowhere_else(self):
        secret = "very-secret-" + os.urandom(8).hex()
        self.agent.start()
        self.job("echo ${#KEY}; exec sleep 600", secrets={"KEY": secret}, envs={"PLAIN": secret + "-plain"})
        leader = self.leader()
        self.until_log(str(len(secret)))
        with open(f"/proc/{leader}/environ", "rb") as f:
            self.assertIn(secret.encode(), f.read())
        for root, _, names in os.walk(self.agent.home):
            for name in names:
                with open(os.path.join(root, name), "rb") as f:
                    self.assertNotIn(secret.encode(), f.read(), name)
        with open(os.path.join(self.agent.job_dir("j1", 1), "job.json")) as f:
            shim = json.load(f)["shim_pid"]
        for pid in (shim, self.agent.process.pid, leader):
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                self.assertNotIn(secret.encode(), f.read())
        for pid in (shim, self.agent.process.pid):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    self.assertNotIn(secret.encode(), f.read())
            except PermissionError:
                pass    # not dumpable: better still

    def test_a_job_without_a_checkpoint_and_with_part_of_a_gpu_runs_and_drains(self):
        self.agent.start()
        self.job('echo $SPOT_NUM_GPUS; exec sleep 600', num_gpus=1.5, restored_from=None, secrets=None,
                 checkpoint={"path": "", "signal": "", "command": "", "interval_s": 0})
        self.until_log("2\n")
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["reason"], "drained")
        self.assertEqual(self.daemon.checkpoints, {})

    def test_failures_of_setup_and_of_run_are_told_apart(self):
        self.agent.start()
        self.job("echo never", setup="echo no; exit 7")
        r = self.exited()
        self.assertEqual((r["reason"], r["exit_code"]), ("setup_failed", 7))
        self.assertNotIn(b"never", self.daemon.log("j1", 1))
        self.job("exit 9", job="j2")
        r = self.exited("j2")
        self.assertEqual((r["reason"], r["exit_code"]), ("error", 9))
        self.job("kill -SEGV $$", job="j3")
        r = self.exited("j3")
        self.assertEqual((r["reason"], r["exit_signal"]), ("error", 11))
        self.assertNotIn("exit_code", r)

    def test_a_second_job_with_the_same_epoch_runs_after_the_first(self):
        self.agent.start()
        self.job("echo one")
        self.exited()
        self.job("echo two", job="j2")
        self.exited("j2")
        self.assertEqual(self.daemon.log("j2", 1), b"two\n")
        self.assertFalse(os.path.exists(self.agent.job_dir("j1", 1)))
        self.daemon.want("idle")
        self.until(lambda: self.daemon.haves[-1]["job"] is None, "idle")
        self.assertFalse(os.path.exists(self.agent.job_dir("j2", 1)))

    def test_kill_reaches_what_has_left_the_process_group(self):
        self.agent.start()
        self.job("setsid sleep 1234 & setsid bash -c 'sleep 1235 & wait' & echo up; wait")
        self.until_log("up")
        pids = self.until(lambda: len(p := fake.pids_of(self.agent.job_dir("j1", 1))) >= 4 and p, "processes")
        self.daemon.want("kill", "j1", 1, why="cancelled")
        r = self.exited()
        self.assertEqual((r["reason"], r["why"]), ("killed", "cancelled"))
        self.assertEqual([p for p in pids if fake.alive(p)], [])

    def test_in_a_delegated_cgroup_the_job_gets_one_of_its_own(self):
        with open("/proc/self/mounts") as f:
            root = next((line.split()[1] for line in f if line.split()[2] == "cgroup2"), None)
        with open("/proc/self/cgroup") as f:
            own = next((line.strip()[3:] for line in f if line.startswith("0::")), "/")
        group = f"{root}{own.rstrip('/')}/spot-test-{os.getpid()}"
        try:
            os.mkdir(group)
        except OSError:
            self.skipTest("no cgroup v2 that we may write to")

        def gone():
            try:
                os.rmdir(group)
            except OSError:
                return False    # a helper in it is just dying with its agent
            return True
        self.addCleanup(self.until, gone, "the end of all in the test's cgroup")
        self.agent.start(lambda: open(group + "/cgroup.procs", "w").write("0"))
        self.job("setsid sleep 1234 & echo up; wait")
        self.until_log("up")
        (mine,) = [d for d in os.listdir(group) if d.startswith("spot-n7-j1-1-")]
        with open(os.path.join(group, mine, "cgroup.procs")) as f:
            inside = [int(p) for p in f]
        self.assertIn(self.leader(), inside)
        self.assertGreaterEqual(len(inside), 2)
        self.daemon.want("kill", "j1", 1)
        self.assertEqual(self.exited()["reason"], "killed")
        self.assertEqual([p for p in inside if fake.alive(p)], [])
        self.assertEqual([d for d in os.listdir(group) if d.startswith("spot-")], [])
        self.agent.crash()

    def test_what_a_finished_job_left_behind_is_ended(self):
        self.agent.start()
        self.job("setsid sleep 1234 & echo $!; exit 0")
        self.exited()
        self.assertFalse(fake.alive(int(self.daemon.log("j1", 1))))

    def test_a_job_over_its_time_is_stopped(self):
        self.agent.start()
        self.job("sleep 600", max_duration_s=1)
        r = self.exited()
        self.assertEqual(r["reason"], "error")
        self.assertIn("max_duration", r["why"])

    def test_progress_is_reported(self):
        self.agent.start()
        self.job('for i in 1 2 3; do echo "$i 9" >"$SPOT_PROGRESS_FILE.x"; mv "$SPOT_PROGRESS_FILE.x" '
                 '"$SPOT_PROGRESS_FILE"; sleep 1.2; done')
        self.until(lambda: any(r["steps_done"] == 2 and r["steps_total"] == 9 and r["phase"] == "RUNNING"
                               for r in self.daemon.reports), "progress")
        self.assertEqual(self.exited()["steps_done"], 3)

    def test_a_large_log_arrives_whole_and_once(self):
        self.agent.start()
        self.job("seq 1 200000")
        self.exited(timeout=60)
        self.assertEqual(self.daemon.log("j1", 1), "".join(f"{i}\n" for i in range(1, 200001)).encode())

    def test_the_log_goes_on_where_the_daemon_stands(self):
        self.agent.start()
        self.job("for i in 1 2 3 4 5 6; do echo line $i; sleep 0.4; done", log_offset=0)
        self.until_log("line 2")
        with self.daemon.lock:   # a daemon that lost its last commit
            del self.daemon.logs[("j1", 1)][7:]
        self.exited()
        self.assertEqual(self.daemon.log("j1", 1), b"".join(b"line %d\n" % i for i in range(1, 7)))


class Files(AgentCase):
    def test_restore_and_run_to_the_same_result_as_without_interruption(self):
        whole, part = os.path.join(self.agent.home, "whole"), os.path.join(self.agent.home, "part")
        quiet = {"stdout": subprocess.DEVNULL, "check": True}
        subprocess.run([TRAIN, "--steps", "200", "--dir", whole], **quiet)
        subprocess.run([TRAIN, "--steps", "80", "--dir", part], **quiet)
        with open(os.path.join(part, "model.ckpt"), "rb") as f:
            model = f.read()
        self.agent.start()
        self.job(f"'{TRAIN}' --steps 200 && cat data/sub/mounted", steps_start=80, restored_from="c1",
                 files=[self.daemon.file("checkpoint", "model.ckpt", model, 0o600, pieces=5),
                        self.daemon.file("checkpoint", "empty", b""),
                        self.daemon.file("mount", "data/sub/mounted", b"mounted bytes\n", 0o755)])
        r = self.exited(timeout=60)
        self.assertEqual((r["reason"], r["steps_done"], r["steps_total"]), ("ok", 200, 200))
        log = self.daemon.log("j1", 1).decode()
        self.assertIn("step 80: resumed", log)
        self.assertIn("mounted bytes", log)
        final = [c for c in self.daemon.checkpoints.values() if c["committed"]]
        self.assertEqual([(c["reason"], c["steps"]) for c in final], [("final", 200)])
        with open(os.path.join(whole, "result.txt"), "rb") as f:
            want = f.read()
        got = next(c for c in final[0]["chunks"] if c["path"] == "result.txt")
        self.assertEqual(self.daemon.objects[got["sha256"]], want)
        self.assertEqual(sorted(c["path"] for c in final[0]["chunks"]), ["empty", "model.ckpt", "result.txt"])
        order = [e[0] for e in self.daemon.events if e[0] == "commit" or e[:2] == ("report", "EXITED")]
        self.assertEqual(order, ["commit", "report"])

    def test_wrong_bytes_are_refused_and_fetched_again(self):
        self.agent.start()
        f = self.daemon.file("mount", "input", b"0123456789" * 1000, pieces=3)
        self.daemon.corrupt[f["chunks"][1]["sha256"]] = 2
        self.job("sha256sum <input", files=[f])
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertIn(fake.sha(b"0123456789" * 1000).encode(), self.daemon.log("j1", 1))
        gets = [e for e in self.daemon.events if e == ("get", f["chunks"][1]["sha256"])]
        self.assertEqual(len(gets), 3)

    def test_expired_urls_are_asked_for_again(self):
        self.agent.start()
        self.daemon.set(url_status=403)
        self.job("cat input", files=[self.daemon.file("mount", "input", b"here\n")])
        self.until(lambda: ("get", fake.sha(b"here\n")) in self.daemon.events, "a refused GET")
        self.daemon.set(url_status=0)
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1), b"here\n")

    def test_a_path_that_leaves_its_root_is_refused(self):
        self.agent.start()
        self.job("true", files=[self.daemon.file("checkpoint", "../../../evil", b"x")])
        r = self.exited()
        self.assertEqual(r["reason"], "error")
        self.assertIn("evil", r["why"])


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
        self.assertAlmostEqual(notice["deadline_us"] / 1e6, published + 120, delta=2)
        self.assertLess(saving["signalled_us"] / 1e6 - published, 1.0)
        self.assertLess(notice_at - published, 1.0)
        self.assertEqual(r["reason"], "drained")
        (c,) = self.committed()
        self.assertEqual(c["reason"], "notice")
        self.assertEqual([x["path"] for x in c["fresh"]], ["model.ckpt"])
        self.assertEqual(sorted(x["path"] for x in c["chunks"]), ["model.ckpt", "static.bin"])
        self.assertEqual(c["steps"], r["steps_done"])       # nothing was computed in vain
        self.assertGreater(c["steps"], 0)
        order = [e[0] for e in self.daemon.events if e[0] in ("put", "commit") or e[:2] == ("report", "EXITED")]
        self.assertEqual(order, ["put", "commit", "report"])
        self.assertEqual(len(self.daemon.notices), 1)
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

    def test_rebalance_saves_once_and_the_job_goes_on(self):
        self.agent.start()
        self.train()
        leader = self.leader()
        self.metadata.rebalance()
        self.until(lambda: self.committed(), "a checkpoint")
        self.assertEqual(self.daemon.notices[0][1]["kind"], "rebalance")
        self.metadata.put("meta-data/events/recommendations/rebalance", '{"noticeTime":"2030-01-01T00:00:00Z"}')
        self.until(lambda: len(self.daemon.notices) == 2, "the second recommendation")
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

    def test_a_job_that_ignores_the_signal_costs_its_budget_and_stores_nothing(self):
        self.agent.start()
        self.job("trap '' USR1; trap : TERM; echo half >ckpt/torn; echo up; while :; do echo more >>ckpt/torn; "
                 "sleep 0.2; done", checkpoint={"budget_s": 1, "kill_after_s": 1})
        self.until_log("up")
        began = time.monotonic()
        self.daemon.want("drain", "j1", 1)
        r = self.exited()
        self.assertEqual(r["reason"], "drained")
        self.assertLess(time.monotonic() - began, 15)
        self.assertEqual(self.daemon.checkpoints, {})

    def test_a_job_that_knows_nothing_of_us_is_stored_when_its_files_are_at_rest(self):
        self.agent.start()
        self.job("touch -d '1 hour ago' ckpt/old; echo up; exec sleep 600")
        self.until_log("up")
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["reason"], "drained")
        (c,) = self.committed()
        self.assertEqual([x["path"] for x in c["chunks"]], ["old"])

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

    def test_a_job_given_after_the_notice_is_not_started(self):
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        self.metadata.interruption(120)
        self.until(lambda: self.daemon.notices, "the notice")
        self.job("echo never")
        self.assertEqual(self.exited()["reason"], "drained")

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


class Survival(AgentCase):
    def test_killed_and_started_again_it_adopts_the_job(self):
        self.agent.start()
        self.job("for i in $(seq 1 40); do echo line $i; sleep 0.1; done; exit 5")
        leader = self.leader()
        self.until_log("line 5")
        self.agent.crash()
        self.assertTrue(fake.alive(leader))
        n = len(self.daemon.haves)
        self.agent.start()
        have = self.until(lambda: self.daemon.haves[n:] and self.daemon.haves[n], "a poll of the new agent")
        self.assertEqual((have["job"], have["epoch"], have["phase"]), ("j1", 1, "RUNNING"))
        self.assertEqual(self.leader(), leader)
        r = self.exited()
        self.assertEqual((r["reason"], r["exit_code"]), ("error", 5))
        self.assertEqual(self.daemon.log("j1", 1), "".join(f"line {i}\n" for i in range(1, 41)).encode())
        self.assertEqual(len(self.daemon.enrols), 1)

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
            return [t for i, t in enumerate(at) if i == 0 or t - at[i - 1] > 0.1]
        self.until(lambda: len(apart()) >= 5, "polls", 60)
        self.assertGreater(apart()[4] - apart()[0], 3.5)    # 0.5 1 2 4 seconds, jittered by half

    def test_an_orphan_stops_its_job_and_leaves(self):
        self.agent.close()
        self.agent = fake.Agent(AGENT, self.daemon, orphan_timeout_s=3)
        self.addCleanup(self.agent.close)
        self.agent.start()
        self.job("trap 'echo term; exit 1' TERM; echo up; while :; do sleep 0.1; done")
        leader = self.leader()
        self.until_log("up")
        self.daemon.set(down=True)
        self.assertEqual(self.agent.wait(), 0)
        self.assertFalse(fake.alive(leader))

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


def make_ca(where, name):
    """A CA and a certificate for 127.0.0.1 signed by it."""
    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=where)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout"]
    openssl("req", "-x509", *key, f"{name}-ca.key", "-out", f"{name}-ca.pem", "-days", "2", "-subj", f"/CN={name} CA")
    openssl("req", *key, f"{name}.key", "-out", f"{name}.csr", "-subj", "/CN=127.0.0.1")
    with open(os.path.join(where, "ext"), "w") as f:
        f.write("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{name}-ca.pem", "-CAkey", f"{name}-ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "ext", "-out", f"{name}.pem")
    with open(os.path.join(where, f"{name}-ca.pem")) as f:
        return f.read(), (os.path.join(where, f"{name}.pem"), os.path.join(where, f"{name}.key"))


@unittest.skipUnless(shutil.which("openssl"), "no openssl program")
class Tls(AgentCase):
    def setUp(self):
        self.where = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.where)
        self.ca, pair = make_ca(self.where, "one")
        self.other_ca, _ = make_ca(self.where, "two")
        self.daemon = fake.Daemon(pair)
        self.addCleanup(self.daemon.close)
        self.addCleanup(self.check_nothing_wrong)

    def begin(self, ca):
        self.agent = fake.Agent(AGENT, self.daemon, ca_pem=ca)
        self.addCleanup(self.agent.close)
        self.agent.start()

    def test_the_daemon_and_its_store_are_verified_by_the_given_ca(self):
        self.begin(self.ca)
        self.job("cat input >ckpt/copy", files=[self.daemon.file("mount", "input", b"bytes\n")])
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(len([c for c in self.daemon.checkpoints.values() if c["committed"]]), 1)

    def refuses(self):
        def told():
            return "enrol.retry" in self.agent.consoles() and self.agent.consoles()
        text = self.until(told, "a refused connection")
        self.assertRegex(text, "(?i)certificate")
        self.assertEqual(self.daemon.requests, [])

    def test_another_ca_is_refused(self):
        self.begin(self.other_ca)
        self.refuses()

    def test_without_a_ca_only_the_machines_are_believed(self):
        self.begin(None)
        self.refuses()


@unittest.skipUnless(os.environ.get("FAKE_NVML_LIBS"), "FAKE_NVML_LIBS is not set")
class Gpu(AgentCase):
    def begin(self, lib, word="two"):
        self.word = os.path.join(self.agent.home, "nvml-script")
        self.say(word)
        self.agent.more_env = {"LD_LIBRARY_PATH": os.path.join(os.environ["FAKE_NVML_LIBS"], lib),
                               "FAKE_NVML": self.word}
        self.agent.start()
        self.until(lambda: self.daemon.enrols, "the enrolment", 40)
        return self.daemon.enrols[0]["hw"]

    def say(self, word):
        with open(self.word + ".new", "w") as f:
            f.write(word)
        os.rename(self.word + ".new", self.word)

    def test_gpus_are_told_at_enrolment_and_in_samples(self):
        hw = self.begin("new")
        self.assertEqual(hw["gpus"], [{"uuid": f"GPU-{i}", "name": "NVIDIA ?Test? GPU", "mem_mib": 81920,
                                       "driver": "550.54.15"} for i in range(2)])
        self.assertNotIn("gpu_error", hw)
        sample = self.until(lambda: self.daemon.samples and self.daemon.samples[-1], "a sample")
        self.assertEqual({k: v for k, v in sample.items() if k.startswith("gpu")},
                         {"gpus": 2, "gpu_util": 0.5, "gpu_mem_used_mib": 2001, "gpu_mem_total_mib": 163840,
                          "gpu_power_mw": 600001})

    def test_an_old_library_is_read_by_its_old_symbols(self):
        hw = self.begin("old")
        self.assertEqual([g["mem_mib"] for g in hw["gpus"]], [16384, 16384])
        sample = self.until(lambda: self.daemon.samples and self.daemon.samples[-1], "a sample")
        self.assertEqual(sample["gpu_mem_used_mib"], 201)

    def test_a_lost_gpu_is_an_error_and_no_figures(self):
        hw = self.begin("new", "lost")
        self.assertEqual((hw["gpus"], hw["gpu_error"]), ([], "GPU 1: GPU is lost (15)"))

    def helpers(self):
        found = []
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/environ", "rb") as f:
                    mine = self.word.encode() in f.read()
                with open(f"/proc/{name}/comm") as f:
                    if mine and f.read() == "spot-nvml\n" and fake.alive(int(name)):
                        found.append(int(name))
            except OSError:
                pass
        return found

    def test_a_hanging_driver_costs_the_helper_and_nothing_else(self):
        self.begin("new")
        (pid,) = self.until(self.helpers, "the helper")
        self.say("hang")
        self.until(lambda: self.helpers() and pid not in self.helpers(), "another helper", 60)
        self.assertFalse(fake.alive(pid))
        self.until(lambda: self.daemon.samples[-1]["gpus"] == 0, "a sample without GPUs")
        self.say("two")
        self.until(lambda: self.daemon.samples[-1]["gpus"] == 2, "GPUs again", 60)

    def test_nvidia_smi_is_asked_where_there_is_no_library(self):
        tools = os.path.join(self.agent.home, "tools")
        os.mkdir(tools)
        with open(os.path.join(tools, "nvidia-smi"), "w") as f:
            f.write("#!/bin/sh\necho 'GPU-abc, Tesla T4, 535.1, 15360, 12, [N/A], 70.5'\n")
        os.chmod(os.path.join(tools, "nvidia-smi"), 0o755)
        self.agent.more_env = {"PATH": tools + ":" + os.environ["PATH"]}
        self.agent.start()
        hw = self.until(lambda: self.daemon.enrols and self.daemon.enrols[0], "the enrolment")["hw"]
        self.assertEqual(hw["gpus"], [{"uuid": "GPU-abc", "name": "Tesla T4", "mem_mib": 15360, "driver": "535.1"}])
        sample = self.until(lambda: self.daemon.samples and self.daemon.samples[-1], "a sample")
        self.assertEqual((sample["gpus"], sample["gpu_power_mw"]), (1, 70500))
        self.assertNotIn("gpu_util", sample)


class Bootstrap(AgentCase):
    def script(self, sha=None, **fill):
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "../../../src/agent/bootstrap.sh")) as f:
            text = f.read()
        with open(AGENT, "rb") as f:
            self.daemon.downloads["spot-agent"] = f.read()
        values = {"URL": self.daemon.url, "CA_PEM": "", "TOKEN": self.daemon.token, "PROVIDER": "lambda",
                  "INSTALL": "test", "NODE": "n7", "NVML_SHA256": "",
                  "AGENT_SHA256": sha or fake.sha(self.daemon.downloads["spot-agent"])}
        values.update(fill)
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        self.assertNotRegex(text, "@[A-Z_0-9]+@")
        self.assertLess(len(text), 4096)
        path = os.path.join(self.agent.home, "user-data")
        with open(path, "w") as f:
            f.write(text)
        os.remove(os.path.join(self.agent.dir, "boot.json"))
        env = dict(self.agent.env(), SPOT_AGENT_DIR=self.agent.dir)
        self.agent.starts += 1
        with open(os.path.join(self.agent.home, "console.1"), "wb") as out:
            self.agent.process = subprocess.Popen(["sh", path], env=env, stdin=subprocess.DEVNULL, stdout=out,
                                                  stderr=out, start_new_session=True)

    def agents(self):
        found = []
        for pid in fake.pids_of(self.agent.dir):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    line = f.read().split(b"\0")
            except OSError:
                continue
            if line[0].endswith(b"spot-agent"):
                found.append(pid)
        return found

    def test_the_user_data_starts_a_node(self):
        pem = "-----BEGIN CERTIFICATE-----\nabc/+=\n-----END CERTIFICATE-----"
        self.script()
        self.until(lambda: self.daemon.haves, "a poll")
        path = os.path.join(self.agent.dir, "boot.json")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path) as f:
            boot = json.load(f)
        self.assertEqual((boot["url"], boot["token"], boot["node"], boot["ca_pem"]),
                         (self.daemon.url, self.daemon.token, "n7", ""))
        (pid,) = self.agents()
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: self.agents() not in ([], [pid]), "another agent")
        self.daemon.want("shutdown")
        self.assertEqual(self.agent.wait(), 0)
        self.assertIn("BEGIN", pem)

    def test_a_ca_certificate_gets_into_boot_json_as_it_is(self):
        pem = "-----BEGIN CERTIFICATE-----\nabc/+=\ndef==\n-----END CERTIFICATE-----"
        self.script(CA_PEM=pem)
        path = os.path.join(self.agent.dir, "boot.json")
        self.until(lambda: os.path.exists(path), "boot.json")
        with open(path) as f:
            self.assertEqual(json.load(f)["ca_pem"], pem + "\n")

    def test_other_bytes_than_the_pinned_ones_are_never_run(self):
        self.script(sha="0" * 64)
        loaded = os.path.join(self.agent.dir, "spot-agent.new")
        self.until(lambda: os.path.exists(loaded), "a download")
        self.assertFalse(os.path.exists(os.path.join(self.agent.dir, "spot-agent")))
        self.assertEqual(self.daemon.enrols, [])

    def test_stopping_the_script_stops_the_agent(self):
        self.script()
        self.until(lambda: self.daemon.haves, "a poll")
        self.agent.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.agent.wait(), 143)
        self.assertEqual(self.agents(), [])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:], verbosity=2)
