"""Jobs from the start to the end: their environment, their files, and how they end."""
import base64
import contextlib
import hashlib
import json
import os
import pwd
import resource
import shutil
import subprocess

import fake
from case import AGENT, TRAIN, AgentCase


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

    def test_nccl_of_several_nodes_uses_the_interface_of_the_rank(self):
        self.agent.start()
        self.job("env | sort", epoch=2, nodes={"count": 2, "rank": 1, "ips": ["192.0.2.1", "127.0.0.1"]},
                 envs={"GLOO_SOCKET_IFNAME": "mine0"})
        self.exited(epoch=2)
        text = self.daemon.log("j1", 2)
        self.assertIn(b"NCCL_SOCKET_IFNAME==lo\n", text)
        self.assertIn(b"GLOO_SOCKET_IFNAME=mine0\n", text)     # the job's own

    def test_a_job_of_one_node_gets_no_variables_of_nccl(self):
        self.agent.start()
        self.job("env | sort", epoch=3)
        self.exited(epoch=3)
        self.assertNotIn(b"_SOCKET_IFNAME", self.daemon.log("j1", 3))

    def test_a_job_finds_the_libraries_of_the_image(self):
        self.agent.more_env = {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
        self.agent.start()
        self.job("echo libraries in $LD_LIBRARY_PATH")
        self.exited()
        self.assertIn(b"libraries in /usr/local/nvidia/lib64\n", self.daemon.log("j1", 1))

    def test_secrets_are_in_the_environment_of_the_job_and_nowhere_else(self):
        secret = "very-secret-" + os.urandom(8).hex()
        self.agent.start()
        self.job("echo ${#KEY}; exec sleep 600", secrets={"KEY": secret}, envs={"PLAIN": secret + "-plain"})
        leader = self.leader()
        self.until_log(str(len(secret)))

        def environment():      # for a moment empty, while exec changes the program
            with open(f"/proc/{leader}/environ", "rb") as f:
                return f.read()
        self.assertIn(secret.encode(), self.until(environment, "the job's environment"))
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

    def test_a_text_that_no_argument_can_hold_runs_like_any_other(self):
        secret = "very-secret-" + os.urandom(8).hex()
        long = f"# {secret}\n" + ("# " + 97 * "x" + "\n") * 2000
        self.agent.start()
        self.job("set -e\n" + long + "cat\n[ -e /proc/self/fd/9 ] && echo open || echo closed\necho up\nread -r x <fifo\nfalse\necho never\n",
                 setup=long + "mkfifo fifo\necho made\n")
        self.until_log("up")
        with open(f"/proc/{self.leader()}/cmdline", "rb") as f:
            self.assertNotIn(secret.encode(), f.read())
        for root, _, names in os.walk(self.agent.home):
            for name in (n for n in names if n != "fifo"):
                with open(os.path.join(root, name), "rb") as f:
                    self.assertNotIn(secret.encode(), f.read(), name)
        self.go_on()
        r = self.exited()
        self.assertEqual((r["reason"], r["exit_code"]), ("error", 1))
        self.assertEqual(self.daemon.log("j1", 1), b"made\nclosed\nup\n")

    def test_the_last_command_of_a_text_takes_the_place_of_its_shell(self):
        """The program's reply to the stop signal is the end of the job: a shell in between would die of the signal."""
        self.agent.start()
        self.job("echo up\npython3 -c 'import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); print(\"waits\", flush=True); signal.pause()'\n",
                 checkpoint={"path": ""})
        self.until_log("waits")
        self.daemon.want("drain", "j1", 1)
        self.assertEqual(self.exited()["exit_code"], 5)

    def test_without_a_store_a_job_finds_its_directory_and_saves_nothing(self):
        self.agent.start()
        self.job("echo $SPOT_CHECKPOINT_DIR; echo out >out/result; echo 7 7 >\"$SPOT_PROGRESS_FILE\"", checkpoint={"path": "", "dir": "out", "interval_s": 0})
        r = self.exited()
        self.assertEqual((r["reason"], r["steps_done"]), ("ok", 7))
        self.assertEqual(self.daemon.log("j1", 1).decode(), f"{self.agent.job_dir('j1', 1)}/work/out\n")
        self.assertEqual(self.daemon.checkpoints, {})

    def test_a_job_with_part_of_a_gpu_and_no_checkpoint_drains(self):
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

    def test_the_next_attempt_replaces_the_one_that_runs(self):
        self.agent.start()
        self.job("echo up; sleep 1000")
        leader = self.leader()
        self.until_log("up")
        self.job("echo again", epoch=2)
        self.assertEqual(self.exited(epoch=2)["reason"], "ok")
        self.assertFalse(fake.alive(leader))

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
        with open(os.path.join(self.agent.job_dir("j1", 1), "job.json")) as f:
            shim = json.load(f)["shim_pid"]
        pids = self.until(lambda: len(p := fake.pids_of(self.agent.job_dir("j1", 1))) >= 5 and p, "processes")
        pids.remove(shim)       # writes down the end of the others and leaves, which takes a moment
        self.daemon.want("kill", "j1", 1, why="cancelled")
        r = self.exited()
        self.assertEqual((r["reason"], r["why"]), ("killed", "cancelled"))
        self.assertEqual([p for p in pids if fake.alive(p)], [])

    def test_an_attempt_that_never_began_here_is_reported_over(self):
        """The simulation found a daemon that waited for the end of a rank which had been placed while it was away."""
        self.agent.start()
        self.daemon.want("kill", "j1", 1, why="rank 1 is lost")
        r = self.exited()
        self.assertEqual((r["reason"], r["why"]), ("killed", "rank 1 is lost"))
        n = len(self.daemon.haves)
        self.daemon.want("idle")
        self.until(lambda: any(h["job"] is None for h in self.daemon.haves[n:]), "idle")
        self.daemon.want("drain", "j2", 1)
        self.assertEqual(self.exited("j2")["reason"], "drained")

    def test_an_attempt_that_never_began_after_another_job_is_reported_over(self):
        """Nobody was there to say that the node was idle in between."""
        self.agent.start()
        self.job("true")
        self.assertEqual(self.exited()["reason"], "ok")
        self.daemon.want("drain", "j2", 1)
        self.assertEqual(self.exited("j2")["reason"], "drained")
        self.daemon.want("kill", "j3", 2, why="rank 1 is lost")
        self.assertEqual(self.exited("j3", 2)["reason"], "killed")

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

    def test_processes_of_a_finished_job_are_ended(self):
        self.agent.start()
        self.job("setsid sleep 1234 & echo $!; exit 0")
        self.exited()
        self.assertFalse(fake.alive(int(self.daemon.log("j1", 1))))

    def test_a_job_over_its_time_is_stopped(self):
        self.agent.start()
        self.job("sleep 600", max_duration_s=1)
        r = self.exited()
        self.assertEqual(r["reason"], "drained")
        self.assertIn("max_duration", r["why"])

    def go_on(self):
        """The job waits for a line in its fifo."""
        with open(os.path.join(self.agent.job_dir("j1", 1), "work", "fifo"), "w") as f:
            f.write("go\n")

    def test_progress_is_reported(self):
        self.agent.start()
        self.job('for i in 1 2 3; do echo "$i 9" >"$SPOT_PROGRESS_FILE.x"; mv "$SPOT_PROGRESS_FILE.x" '
                 '"$SPOT_PROGRESS_FILE"; [ $i != 2 ] || read -r x <fifo; done', setup="mkfifo fifo")
        self.until(lambda: any(r["steps_done"] == 2 and r["steps_total"] == 9 and r["phase"] == "RUNNING"
                               for r in self.daemon.reports), "progress")
        self.go_on()
        self.assertEqual(self.exited()["steps_done"], 3)

    def test_a_large_log_arrives_whole_and_once(self):
        self.agent.start()
        self.job("seq 1 200000")
        self.exited(timeout=60)
        self.assertEqual(self.daemon.log("j1", 1), "".join(f"{i}\n" for i in range(1, 200001)).encode())

    def test_the_end_is_told_after_the_last_of_the_log(self):
        self.daemon.set(log_failures=1)
        self.agent.start()
        self.job("echo the only line")
        self.exited()
        self.assertEqual(self.daemon.log("j1", 1), b"the only line\n")
        self.assertEqual([e[0] for e in self.daemon.events if e[0] == "log" or e[:2] == ("report", "EXITED")],
                         ["log", "report"])

    def test_the_log_goes_on_where_the_daemon_stands(self):
        self.agent.start()
        self.job("for i in 1 2 3 4 5 6; do echo line $i; [ $i != 2 ] || read -r x <fifo; done", log_offset=0, setup="mkfifo fifo")
        self.until_log("line 2")
        with self.daemon.lock:   # a daemon that lost its last commit
            del self.daemon.logs[("j1", 1)][7:]
        self.go_on()
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

    def test_fetched_bytes_are_kept_when_the_urls_expire(self):
        self.daemon.set(url_each=4)
        self.agent.start()
        files = [self.daemon.file("checkpoint", f"f{i}", f"file {i}\n".encode()) for i in range(10, 16)]
        files += [self.daemon.file("mount", f"m{i}", f"mount {i}\n".encode(), pieces=2) for i in range(10, 22)]
        self.job("cat ckpt/f* m*", files=files, restored_from="c1")     # more than the rounds of a mount that does not get on
        self.assertEqual(self.exited(timeout=120)["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1), b"".join(f"file {i}\n".encode() for i in range(10, 16)) +
                         b"".join(f"mount {i}\n".encode() for i in range(10, 22)))
        self.assertEqual(self.daemon.checkpoints, {}, "what was restored is not stored again")
        self.assertEqual([n for n in os.listdir(os.path.join(self.agent.job_dir("j1", 1), "work", "ckpt")) if "part" in n], [])

    def mounted(self, data, told, **more):
        """A file of which nobody of ours knows more than its store tells."""
        f = self.daemon.file("mount", "input", data, **more)
        key = f["chunks"][0]["sha256"]
        f["bytes"], f["chunks"][0]["bytes"], f["chunks"][0]["sha256"] = 0, 0, ""
        self.daemon.told[key] = told
        return f, key

    def gets(self, key):
        return self.daemon.events.count(("get", key))

    def test_a_mount_with_other_bytes_than_its_store_tells_is_fetched_again(self):
        md5 = hashlib.md5(b"mounted\n")
        text = base64.b64encode(md5.digest()).decode()
        ways = [{"ETag": f'"{md5.hexdigest()}"'}, {"x-goog-hash": f"crc32c=AAAAAA==,md5={text}", "ETag": f'"{"0" * 32}"'}, {"Content-MD5": text}]
        self.agent.start()
        for epoch, told in enumerate(ways, 1):
            f, key = self.mounted(b"mounted\n", told)
            before, self.daemon.corrupt[key] = self.gets(key), 1
            self.job("cat input", epoch=epoch, files=[f])
            self.assertEqual(self.exited(epoch=epoch)["reason"], "ok")
            self.assertEqual(self.daemon.log("j1", epoch), b"mounted\n", told)
            self.assertEqual(self.gets(key) - before, 2, told)

    def test_a_wrong_answer_of_the_store_does_not_prevent_a_mount(self):
        self.agent.start()
        f, key = self.mounted(b"mounted\n", {"ETag": f'"{"0" * 32}"'})
        self.job("cat input", files=[f])
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1), b"mounted\n")
        self.assertEqual(self.gets(key), 3)
        self.assertIn("fetch.hash_of_other_bytes", self.agent.consoles())

    def test_nothing_of_longer_bytes_that_were_refused_stays(self):
        self.agent.start()
        f, key = self.mounted(b"mounted\n", {"ETag": f'"{hashlib.md5(b"mounted" + bytes([10])).hexdigest()}"'})
        self.daemon.longer[key] = b"mounted, and more of it"
        self.job("cat input", files=[f])
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1), b"mounted\n")

    def test_expired_urls_are_asked_for_again(self):
        self.agent.start()
        self.daemon.set(url_status=403)
        self.job("cat input", files=[self.daemon.file("mount", "input", b"here\n")])
        self.until(lambda: ("get", fake.sha(b"here\n")) in self.daemon.events, "a refused GET")
        self.daemon.set(url_status=0)
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1), b"here\n")

    def test_a_store_that_refuses_for_a_while_does_not_fail_the_job(self):
        self.agent.start()
        self.daemon.set(url_status=403)
        self.job("cat \"$SPOT_CHECKPOINT_DIR/model\"", files=[self.daemon.file("checkpoint", "model", b"here\n")])
        self.until(lambda: self.agent.consoles().count("job.fetch_refused") >= 6, "more refusals than a wrong file gets", 90)
        self.daemon.set(url_status=0)
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1), b"here\n")

    def test_a_disk_without_room_is_tried_again(self):
        jobs = os.path.join(self.agent.dir, "jobs")
        with open(jobs, "w", encoding="ascii"):
            pass  # a file at the path, so no directory can be made there
        self.agent.start()
        self.job("cat input", files=[self.daemon.file("mount", "input", b"here\n")])
        self.until(lambda: "job.fetch_refused" in self.agent.consoles(), "a first try")
        os.unlink(jobs)
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1), b"here\n")

    def test_a_mount_below_the_home_of_a_service_that_was_told_none(self):
        home, name = pwd.getpwuid(os.getuid()).pw_dir, "spot-test-" + os.urandom(8).hex()
        if not os.access(home, os.W_OK):
            self.skipTest("no home that we may write to")
        self.addCleanup(shutil.rmtree, os.path.join(home, name), ignore_errors=True)
        self.agent.more_env = {"HOME": ""}      # as systemd starts it
        self.agent.start()
        self.job(f"echo $HOME; cat ~/{name}/input", files=[self.daemon.file("mount", f"~/{name}/input", b"here\n")])
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1).decode(), home + "\nhere\n")

    def test_a_path_that_leaves_its_root_is_refused(self):
        self.agent.start()
        self.job("true", files=[self.daemon.file("checkpoint", "../../../evil", b"x")])
        r = self.exited()
        self.assertEqual(r["reason"], "error")
        self.assertIn("evil", r["why"])


class Disk(AgentCase):
    """The folder of the jobs is a file system of its own: here it is full, and later it is not."""

    def setUp(self):
        super().setUp()
        self.jobs = os.path.join(self.agent.dir, "jobs")
        os.mkdir(self.jobs)
        if os.geteuid() != 0 or self.mount("size=1m,nr_inodes=1000") != 0:
            self.skipTest("no file system may be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.jobs], check=True)

    def mount(self, options):
        return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", self.jobs], capture_output=True).returncode

    def test_a_disk_that_stays_full_for_long_does_not_fail_the_job(self):
        self.assertEqual(self.mount("remount,nr_inodes=1"), 0)
        self.agent.start()
        self.job("cat input", files=[self.daemon.file("mount", "input", b"here\n")])
        self.until(lambda: self.agent.consoles().count("job.fetch_refused") >= 6, "more tries than a wrong file gets", 90)
        self.assertEqual(self.mount("remount,nr_inodes=1000"), 0)
        self.assertEqual(self.exited(timeout=60)["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1), b"here\n")

    def test_a_supervisor_that_finds_no_room_at_its_start_waits_for_it(self):
        ballast = os.path.join(self.jobs, "ballast")
        with open(ballast, "wb", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(b"x" * 4096)
        self.agent.start()
        self.job("echo here")
        self.until(lambda: os.path.exists(os.path.join(self.agent.job_dir("j1", 1), "log")), "its supervisor")
        os.unlink(ballast)
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1), b"here\n")


class Crowded(AgentCase):
    """A machine without room for one more process, for a user of whom nothing else runs."""
    USER = 54321

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("another user is wanted: only root can be one")

    def become(self):
        os.setgid(self.USER)
        os.setuid(self.USER)

    def agent_of_another_user(self):
        def alone():
            resource.setrlimit(resource.RLIMIT_NPROC, (1, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
            self.become()
        own = os.path.join(self.agent.home, "spot-agent")
        shutil.copy(AGENT, own)
        self.agent.program = own
        subprocess.run(["chown", "-R", str(self.USER), self.agent.home], check=True)
        self.agent.start(before=alone)

    def room(self, pid, processes):
        """As that user: not every root may do it for another."""
        subprocess.run(["prlimit", f"--nproc={processes}:", "--pid", str(pid)], preexec_fn=self.become, check=True)

    def test_a_job_survives_when_no_supervisor_or_shell_can_be_started(self):
        self.agent_of_another_user()
        self.job("echo here")
        self.until(lambda: self.agent.consoles().count("why=\"fork: ") >= 2, "two tries to start its supervisor")
        self.room(self.agent.process.pid, 2)
        path = os.path.join(self.agent.job_dir("j1", 1), "job.json")

        def supervisor():
            with contextlib.suppress(OSError, ValueError), open(path) as f:
                doc = json.load(f)
                return doc["phase"] == "run" and doc["shim_pid"]
        pid = self.until(supervisor, "its supervisor")
        waits = self.waits(pid)
        self.until(lambda: self.waits(pid) >= waits + 2, "another try to start the shell")
        self.room(pid, 100)
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(self.daemon.log("j1", 1), b"here\n")

    def waits(self, pid):
        with open(f"/proc/{pid}/status") as f:
            return int(next(line for line in f if line.startswith("voluntary_ctxt_switches")).split()[1])
