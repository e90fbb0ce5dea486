#!/usr/bin/env python3
"""The files of deploy/: systemd accepts the units, cron would run the cron file, commands exist, manual pages are whole.

usage: deploy_test.py SOURCE_ROOT SPOTCTL SPOTD SPOT_AGENT [unittest arguments]
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from spotctl_fake import FakeDaemon, Reply

ROOT = SPOTCTL = SPOTD = AGENT = None


def deploy(*parts):
    return os.path.join(ROOT, "deploy", *parts)


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def setting(unit, key):
    return re.findall(r"^%s=(.*)$" % key, unit, flags=re.M)


class Units(unittest.TestCase):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze here")
    def test_systemd_accepts_every_unit(self):
        with tempfile.TemporaryDirectory() as d:
            units = []
            for path in glob.glob(deploy("systemd", "*.service")) + glob.glob(deploy("systemd", "*.timer")):
                # the programs are not installed; verify wants them to be there
                unit = text(path).replace("/usr/bin/spotd", SPOTD).replace("/usr/bin/spotctl", SPOTCTL)
                units.append(os.path.join(d, os.path.basename(path)))
                with open(units[-1], "w") as f:
                    f.write(unit)
            self.assertGreaterEqual(len(units), 5)
            p = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=120)
            ours = [line for line in p.stderr.splitlines() if d in line or "spot" in line]
            self.assertEqual((p.returncode, ours), (0, []), p.stderr)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze here")
    def test_the_units_are_hardened(self):
        for path in glob.glob(deploy("systemd", "*.service")):
            p = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", path], capture_output=True, text=True,
                               timeout=120)
            m = re.search(r"exposure level for \S+: ([0-9.]+)", p.stdout)
            if m is None:
                self.skipTest("this systemd cannot judge files: " + p.stderr.strip())
            self.assertLess(float(m.group(1)), 3.0, os.path.basename(path))

    def test_no_unit_holds_a_secret(self):
        for path in glob.glob(deploy("systemd", "*")):
            self.assertNotRegex(text(path), r"(?i)(secret|password|access_key)\w*\s*=\s*\S")

    def run_like_the_unit(self, command, **env):
        with FakeDaemon() as d, tempfile.TemporaryDirectory() as home:
            d.on("POST", "/v1/rebalance", Reply(202, {"id": "d5", "state": "pending"}))
            d.on("GET", "/v1/rebalance/d5", Reply(body={"id": "d5", "state": "done", "moves": [{"job": "j1"}], "kept": []}))
            token = os.path.join(home, "token")
            with open(token, "w") as f:
                f.write("tok-en-12345678\n")
            os.chmod(token, 0o400)
            words = command.split()
            self.assertEqual(words[0], "/usr/bin/spotctl")
            p = subprocess.run([SPOTCTL, *words[1:]], capture_output=True, text=True, timeout=60,
                               env={"HOME": "/", "PATH": os.environ["PATH"], "SPOTCTL_URL": d.url, "SPOTCTL_TOKEN_FILE": token, **env})
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertEqual(d.requests[0].headers["Authorization"], "Bearer tok-en-12345678")
            return p.stdout

    def test_the_rebalance_unit_asks_for_a_rebalance_with_its_credential(self):
        unit = text(deploy("systemd", "spotbroker-rebalance.service"))
        self.assertEqual(setting(unit, "LoadCredential"), ["token:/etc/spotbroker/rebalance.token"])
        self.assertIn("SPOTCTL_TOKEN_FILE=%d/token", setting(unit, "Environment")[0])
        self.assertIn("j1", self.run_like_the_unit(setting(unit, "ExecStart")[0]))

    def test_the_timer_names_a_unit_that_is_there_and_a_time_that_comes(self):
        self.assertTrue(os.path.exists(deploy("systemd", "spotbroker-rebalance.service")))
        for when in setting(text(deploy("systemd", "spotbroker-rebalance.timer")), "OnCalendar"):
            if shutil.which("systemd-analyze"):
                p = subprocess.run(["systemd-analyze", "calendar", when], capture_output=True, text=True, timeout=60)
                self.assertEqual(p.returncode, 0, p.stderr)
                self.assertIn("Next elapse", p.stdout)


class Cron(unittest.TestCase):
    """crontab(5), the system form: minute hour day month weekday user command."""

    LIMITS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]

    def field_ok(self, field, low, high):
        for part in field.split(","):
            m = re.fullmatch(r"(\*|\d+(?:-\d+)?)(?:/(\d+))?", part)
            if m is None or (m.group(2) is not None and int(m.group(2)) == 0):
                return False
            if m.group(1) != "*" and not all(low <= int(n) <= high for n in m.group(1).split("-")):
                return False
        return True

    def lines(self):
        jobs, env = [], {}
        for line in text(deploy("systemd", "spotbroker.cron")).splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            m = re.fullmatch(r"(\w+)\s*=\s*(.*)", line)
            if m:
                env[m.group(1)] = m.group(2)
            else:
                jobs.append(line.split(None, 6))
        return jobs, env

    def test_every_line_parses(self):
        jobs, env = self.lines()
        self.assertEqual(len(jobs), 1)
        for job in jobs:
            self.assertEqual(len(job), 7, job)
            for field, (low, high) in zip(job, self.LIMITS):
                self.assertTrue(self.field_ok(field, low, high), field)
            self.assertRegex(job[5], r"^[a-z_][a-z0-9_-]*$")
            self.assertNotIn("%", job[6])  # cron makes it a line end
        self.assertTrue(env["SPOTCTL_URL"].startswith("http"))
        self.assertTrue(text(deploy("systemd", "spotbroker.cron")).endswith("\n"))  # cron ignores an unfinished last line

    def test_the_judge_can_say_no(self):
        for field, limits in (("60", (0, 59)), ("*/0", (0, 59)), ("x", (0, 7)), ("", (0, 7)), ("1-99", (1, 31))):
            self.assertFalse(self.field_ok(field, *limits))

    def test_the_command_runs(self):
        command, _, failed = self.lines()[0][0][6].partition(" || ")
        self.assertTrue(command.endswith(">/dev/null"))
        self.assertEqual(Units.run_like_the_unit(self, command.rsplit(" ", 1)[0]), "j1\n")
        self.assertTrue(failed.startswith("logger "))


class Manual(unittest.TestCase):
    def options(self, program):
        out = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60).stdout
        found = set(re.findall(r"--[a-z][a-z-]+", out))
        self.assertTrue(found)
        return found

    def test_every_option_of_the_daemon_and_of_the_agent_is_in_its_page(self):
        for program, page in ((SPOTD, "spotd.8.scd"), (AGENT, "spot-agent.8.scd")):
            words = text(deploy("man", page))
            for option in self.options(program):
                self.assertIn("*%s*" % option, words)

    def test_every_key_of_job_and_fleet_files_is_in_the_page(self):
        page = text(deploy("man", "spotbroker-job.5.scd")).replace("\\_", "_")
        keys = set()
        for path in glob.glob(os.path.join(ROOT, "src/core/spec/jobspec*.c")) + [os.path.join(ROOT, "src/core/fleet/fleet_spec.c")]:
            for table in re.findall(r"(?:known|resource_keys)\[\] = \{(.*?)\}", text(path), flags=re.S):
                keys.update(re.findall(r'"(\w+)"', table))
        self.assertGreater(len(keys), 40)
        missing = [k for k in sorted(keys) if "*%s*" % k not in page]
        self.assertEqual(missing, [])

    @unittest.skipUnless(shutil.which("scdoc"), "no scdoc here")
    def test_scdoc_accepts_every_page(self):
        pages = [text(p) for p in glob.glob(deploy("man", "*.scd"))]
        pages.append(subprocess.run([SPOTCTL, "man"], capture_output=True, text=True, timeout=60).stdout)
        self.assertEqual(len(pages), 4)
        for page in pages:
            p = subprocess.run(["scdoc"], input=page, capture_output=True, text=True, timeout=60)
            self.assertEqual((p.returncode, p.stderr), (0, ""))
            self.assertIn(".TH", p.stdout)

    def pages(self):
        top = [os.path.join(ROOT, name) for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
        return top + glob.glob(deploy("**", "*.md"), recursive=True)

    def test_links_in_the_manual_lead_somewhere(self):
        seen = 0
        for path in self.pages():
            for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text(path)):
                self.assertTrue(os.path.exists(os.path.join(os.path.dirname(path), link)), "%s: %s" % (path, link))
                seen += 1
        self.assertGreater(seen, 30)

    def test_daemon_options_in_the_manual_exist(self):
        known, seen = self.options(SPOTD), 0
        for path in self.pages():
            for line in re.findall(r"(?:^ {4,}|`)(?:build/src/spotd/)?spotd (--[^`\n]*)", text(path), flags=re.M):
                for option in re.findall(r"--[a-z][a-z-]+", line.split("#")[0]):
                    self.assertIn(option, known, "%s: spotd %s" % (path, line))
                    seen += 1
        self.assertGreater(seen, 10)

    def test_commands_in_the_manual_exist(self):
        seen = 0
        for path in self.pages():
            commands = re.findall(r"(?:^ {4,}(?:\$ )?|`)(?:build/src/spotctl/)?spotctl ([a-z][^`\n]*)", text(path), flags=re.M)
            for line in commands:
                words = [w for w in line.split("#")[0].split() if re.fullmatch(r"[a-z]+|--[a-z-]+", w)]
                noun = [w for w in words if not w.startswith("-")][:2]
                p = subprocess.run([SPOTCTL, *noun, "--help"], capture_output=True, text=True, timeout=60)
                if p.returncode != 0:
                    p = subprocess.run([SPOTCTL, noun[0], "--help"], capture_output=True, text=True, timeout=60)
                self.assertEqual(p.returncode, 0, "%s: spotctl %s" % (path, line))
                for option in words:
                    if option.startswith("--"):
                        self.assertIn(option, p.stdout, "%s: spotctl %s" % (path, line))
                seen += 1
        self.assertGreater(seen, 60)


if __name__ == "__main__":
    ROOT, SPOTCTL, SPOTD, AGENT = (os.path.abspath(p) for p in sys.argv[1:5])
    del sys.argv[1:5]
    unittest.main()
