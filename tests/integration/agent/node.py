"""The node itself: enrolment, TLS, GPUs, the user data that starts it."""
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest

import fake
from case import AGENT, AgentCase


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
            self.assertEqual(e["proof"], {"kind": "aws", "document": '{"instanceId": "i-0123456789abcdef0"}',
                                          "rsa2048": "c2lnbmF0dXJl"})
            self.assertRegex(e["boot_id"], r"^[0-9a-f-]{36}\.[0-9a-f]{16}$")
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

    def test_a_daemon_that_answers_at_once_does_not_make_it_spin(self):
        self.daemon.set(poll_at_once=True)
        self.agent.start()
        self.until(lambda: self.daemon.haves, "a poll")
        began, n = time.monotonic(), len(self.daemon.haves)
        self.until(lambda: len(self.daemon.haves) >= n + 15, "more polls")
        self.assertGreater(time.monotonic() - began, 3)

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
        self.assertEqual(hw["gpu_fault"], "GPU 1: GPU is lost (15)")

    def rounds(self):
        asked = self.word + ".asked"
        return os.path.getsize(asked) if os.path.exists(asked) else 0

    def begin_waiting(self, word, libs=None):
        self.word = os.path.join(self.agent.home, "nvml-script")
        self.say(word)
        self.agent.more_env = {"LD_LIBRARY_PATH": libs or os.path.join(os.environ["FAKE_NVML_LIBS"], "new"), "FAKE_NVML": self.word}
        self.agent.start()
        # In the third round the agent has heard the first; how long it waits for more is a unit test's (gpu_settles_us).
        self.until(lambda: self.rounds() >= 3, "the GPUs are asked a third time")
        self.assertEqual(self.daemon.enrols, [])
        self.say("two")
        hw = self.until(lambda: self.daemon.enrols and self.daemon.enrols[0], "the enrolment", 20)["hw"]
        self.assertEqual(len(hw["gpus"]), 2)
        self.assertNotIn("gpu_fault", hw)

    def test_enrolment_waits_until_the_gpus_are_in_their_fabric(self):
        self.begin_waiting("joining")

    def test_enrolment_waits_until_cuda_works(self):
        self.begin_waiting("nocuda")

    def test_cuda_is_found_beside_the_driver_though_the_loader_looks_elsewhere(self):
        libs = os.path.join(self.agent.home, "libs")
        os.mkdir(libs)
        name = "libnvidia-ml.so.1"
        os.symlink(os.path.join(os.environ["FAKE_NVML_LIBS"], "new", name), os.path.join(libs, name))
        self.begin_waiting("nocuda", libs)

    def test_gpus_that_cannot_get_into_their_fabric_are_a_fault_at_once(self):
        hw = self.begin("new", "apart")
        self.assertEqual(len(hw["gpus"]), 2)
        self.assertEqual(hw["gpu_fault"], "GPU 1 could not join the NVLink fabric: error (999)")

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

    def helper_of_samples(self):
        """Not the one from before enrolment, which makes room for one with the daemon's interval."""
        self.begin("new")
        self.until(lambda: self.daemon.samples and self.daemon.samples[-1]["gpus"] == 2, "a sample with GPUs", 60)
        (pid,) = self.until(lambda: len(self.helpers()) == 1 and self.helpers(), "the helper")
        return pid

    def test_a_hanging_driver_costs_the_helper_and_nothing_else(self):
        pid = self.helper_of_samples()
        self.say("hang")
        self.until(lambda: self.helpers() and pid not in self.helpers(), "another helper", 60)
        self.assertFalse(fake.alive(pid))
        self.until(lambda: self.daemon.samples[-1]["gpus"] == 0, "a sample without GPUs")
        self.say("two")
        self.until(lambda: self.daemon.samples[-1]["gpus"] == 2, "GPUs again", 60)

    def test_the_gpus_are_asked_as_often_as_the_daemon_wants_samples(self):
        self.begin("new")
        self.until(lambda: self.rounds() >= 5, "five looks", 60)
        self.assertNotIn("gpu.hang", self.agent.consoles())

    def test_a_helper_that_is_killed_is_soon_replaced(self):
        pid = self.helper_of_samples()
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: self.helpers() not in ([], [pid]), "another helper", 40)     # a minute is for one that ends each time
        n = self.rounds()
        self.until(lambda: self.rounds() > n, "a look")

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
    def script(self, sha=None, tools=None, as_argument=False, **fill):
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "../../../src/agent/bootstrap.sh")) as f:
            text = f.read()
        with open(AGENT, "rb") as f:
            self.daemon.downloads["spot-agent"] = f.read()
        values = {"URL": self.daemon.url, "CA_PEM": "", "TOKEN": self.daemon.token, "PROVIDER": "lambda",
                  "INSTALL": "test", "NODE": "n7", "NVML_SHA256": "",
                  "AGENT_SHA256_ARM64": "", "NVML_SHA256_ARM64": "",
                  "AGENT_SHA256": sha or fake.sha(self.daemon.downloads["spot-agent"])}
        values.update(fill)
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        self.assertNotRegex(text, "@[A-Z_0-9]+@")
        self.assertLess(len(text), 6144)    # of 16 KiB; the rest is for a chain of certificates
        path = os.path.join(self.agent.home, "user-data")
        with open(path, "w") as f:
            f.write(text)
        os.remove(os.path.join(self.agent.dir, "boot.json"))
        env = dict(self.agent.env(), SPOT_AGENT_DIR=self.agent.dir)
        if tools:
            env["PATH"] = tools
        self.agent.starts += 1
        with open(os.path.join(self.agent.home, "console.1"), "wb") as out:
            self.agent.process = subprocess.Popen(["sh", "-c", text] if as_argument else ["sh", path], env=env, stdin=subprocess.DEVNULL, stdout=out,
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

    def comes_up(self):
        """By the agent that it asked for: a daemon may have a newer one by then."""
        self.until(lambda: self.daemon.haves, "a poll")
        self.assertEqual(self.daemon.pins, [fake.sha(self.daemon.downloads["spot-agent"])])

    def test_the_user_data_starts_a_node(self):
        pem = "-----BEGIN CERTIFICATE-----\nabc/+=\n-----END CERTIFICATE-----"
        self.script()
        self.comes_up()
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

    def tools(self, *names, **programs):
        """A directory that is the whole PATH: the script's tools, those named, and small programs of ours."""
        where = os.path.join(self.agent.home, "tools")
        os.mkdir(where)
        for name in ("sh", "mkdir", "cat", "mv", "cut", "uname", "date", "sleep", "chmod", "id", *names):
            os.symlink(shutil.which(name), os.path.join(where, name))
        for name, text in programs.items():
            path = os.path.join(where, name)
            if os.path.lexists(path):
                os.remove(path)
            with open(path, "w") as f:
                f.write(text)
            os.chmod(path, 0o755)
        return where

    def test_an_image_without_curl_takes_wget(self):
        if not shutil.which("wget"):
            self.skipTest("no wget here")
        self.script(tools=self.tools("wget", "sha256sum"))
        self.comes_up()

    def test_an_image_with_nothing_but_python_is_enough(self):
        self.script(tools=self.tools("python3"))
        self.comes_up()

    def test_an_image_with_nothing_to_download_with_says_so(self):
        self.script(tools=self.tools("sha256sum"))
        self.assertEqual(self.agent.wait(), 1)
        self.assertIn("the image needs curl, wget or python3", self.agent.consoles())

    def test_an_arm64_machine_takes_the_agent_that_was_built_for_it(self):
        with open(AGENT, "rb") as f:
            self.daemon.downloads["spot-agent-aarch64"] = f.read()
        good = fake.sha(self.daemon.downloads["spot-agent-aarch64"])
        self.script(sha="0" * 64, AGENT_SHA256_ARM64=good,
                    tools=self.tools("python3", uname="#!/bin/sh\necho aarch64\n"))
        self.until(lambda: self.daemon.haves, "a poll")

    def test_a_daemon_without_an_agent_for_the_machine_is_told_on_the_console(self):
        self.script(tools=self.tools("python3", uname="#!/bin/sh\necho aarch64\n"))
        self.assertEqual(self.agent.wait(), 1)
        self.assertIn("the daemon has no spot-agent for aarch64", self.agent.consoles())

    def test_in_a_pod_a_job_is_saved_before_the_script_ends(self):
        self.agent.more_env["SPOT_TERMINATION_GRACE_S"] = "60"
        self.script(as_argument=True, PROVIDER="kubernetes")
        self.job("trap 'echo saving; sleep 1; echo s >ckpt/state; exit 0' USR1; echo up; while :; do sleep 0.1; done")
        self.until_log("up")
        self.agent.process.send_signal(signal.SIGTERM)
        self.until_log("saving")
        self.agent.process.send_signal(signal.SIGTERM)      # a second one changes nothing
        self.assertEqual(self.agent.wait(), 0)
        self.assertEqual(self.daemon.report("EXITED")["reason"], "drained")
        self.assertEqual([c["committed"] for c in self.daemon.checkpoints.values()], [True])

    def test_stopping_the_script_stops_the_agent(self):
        self.script()
        self.until(lambda: self.daemon.haves, "a poll")
        self.agent.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.agent.wait(), 143)
        self.assertEqual(self.agents(), [])
