"""A spotd process: starts, is waited for, gets signals, stops."""
import json
import os
import signal
import subprocess
import time

from support.wait import until
from world import Failure


def program(build):
    """SPOT_TEST_SPOTD names another program, e.g. the one that loses its lease at every write."""
    return os.environ.get("SPOT_TEST_SPOTD") or os.path.join(build, "src/spotd/spotd")


def create_token(words, env, name="tests"):
    """words: program and arguments of a daemon. Returns the secret of a new admin token."""
    out = subprocess.run([*words, "--create-token", name, "--role", "admin"], env=env, capture_output=True, text=True, timeout=120)
    if out.returncode != 0:
        raise Failure("no token: " + out.stderr)
    return out.stdout.strip()


class Spotd:
    """words: program and arguments; its output goes to DIRECTORY/NAME.log. Each start reads env, and extra over it."""

    def __init__(self, words, directory, env, name="spotd"):
        self.words, self.env, self.extra, self.name = list(words), env, {}, name
        self.log = open(os.path.join(directory, name + ".log"), "ab")
        self.proc, self.frozen = None, False

    def start(self):
        self.proc = subprocess.Popen(self.words, stdout=self.log, stderr=subprocess.STDOUT, env=dict(self.env, **self.extra))

    def alive(self):
        return self.proc is not None and self.proc.poll() is None

    def text(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            return f.read()

    def trouble(self):
        return "\n" + "\n".join(self.text().splitlines()[-15:])

    # ---- waiting -------------------------------------------------------------------------

    def await_up(self, up, timeout_s=90):
        """The first true value of up(); fails at once when the process ends."""
        def look():
            if not self.alive():
                raise Failure("%s ended at once:%s" % (self.name, self.trouble()))
            return up()
        return until("%s is ready" % self.name, timeout_s, look, trouble=self.trouble)

    def await_state(self, path):
        """The content of --state-file, once the daemon serves."""
        self.await_up(lambda: os.path.exists(path))
        with open(path, encoding="utf-8") as f:
            return json.load(f)

    def await_log(self, words, timeout_s=60):
        until("%s says %r" % (self.name, words), timeout_s, lambda: words in self.text(), trouble=self.trouble)

    # ---- ending --------------------------------------------------------------------------

    def send(self, number):
        """Returns the moment of it."""
        at = time.time()
        self.proc.send_signal(number)
        return at

    def kill9(self):
        at = self.send(signal.SIGKILL)
        self.proc.wait()
        return at

    def freeze(self):
        self.frozen = True
        return self.send(signal.SIGSTOP)

    def thaw(self):
        self.frozen = False
        return self.send(signal.SIGCONT)

    def end(self, number=signal.SIGTERM, timeout_s=40):
        """Returns the exit code."""
        self.send(number)
        return self.proc.wait(timeout_s)

    def stop(self):
        """Stops the daemon in any state, also frozen."""
        if self.alive():
            if self.frozen:
                self.thaw()
            try:
                self.end(timeout_s=30)
            except subprocess.TimeoutExpired:
                self.kill9()
        self.log.close()
