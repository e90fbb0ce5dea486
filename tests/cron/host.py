"""A machine on which the manual was followed: the programs, the users and the files of deploy/docs/operating.md."""
import os
import shlex
import socket
import threading

from machine import Machine
from support import e2e
from support.wait import until

SOURCE = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SYSTEMD = ["/lib/systemd/systemd", "--system", "--unit=basic.target"]
SERVICE, TIMER = "spotbroker-rebalance.service", "spotbroker-rebalance.timer"
TOKEN_FILE = "/etc/spotbroker/rebalance.token"


def documented():
    """The commands of the manual's page for operators, without their comments."""
    with open(os.path.join(SOURCE, "deploy/docs/operating.md"), encoding="utf-8") as f:
        return {line.split(" #")[0].strip() for line in f if line.startswith("    ")}


class Host(Machine):
    """conf: the daemon's configuration file; folder: for the machine's own files."""

    def __init__(self, folder, name, init, conf):
        super().__init__(folder, name, init, [SOURCE, e2e.BUILD, folder])
        self.commands = documented()
        try:
            self.install(conf)
        except BaseException:
            self.stop()
            raise

    def operate(self, line):
        """Runs a command of the manual in the folder of the sources, as the manual does."""
        if line not in self.commands:
            raise AssertionError("deploy/docs/operating.md does not have this command: " + line)
        return self.shell(line, SOURCE)

    def install(self, conf):
        programs = [os.path.join(e2e.BUILD, "src", p, p) for p in ("spotctl", "spotd")]
        self.shell("install -m 0755 %s /usr/bin" % " ".join(map(shlex.quote, programs)))  # meson install does it for an operator
        self.shell("if id spotbroker; then userdel spotbroker; fi")
        self.operate("useradd --system spotbroker")
        self.operate("install -d -m 0750 -g spotbroker /etc/spotbroker")
        self.write("/etc/spotbroker/spotd.conf", conf, 0o640)
        self.shell("chgrp spotbroker /etc/spotbroker/spotd.conf")
        self.operate("cp deploy/systemd/*.service deploy/systemd/*.timer /etc/systemd/system/")

    def make_token(self):
        """Returns the token of the timer, from its file."""
        self.operate("(umask 077; spotd --config /etc/spotbroker/spotd.conf --create-token rebalance --role service > %s)" % TOKEN_FILE)
        return self.read(TOKEN_FILE).strip()

    def edit(self, path, changes):
        """An operator's editor: each text is there exactly once."""
        text = self.read(path)
        for old, new in changes.items():
            if text.count(old) != 1:
                raise AssertionError("%s has %r %d times" % (path, old, text.count(old)))
            text = text.replace(old, new)
        self.write(path, text)

    def stop(self):
        """Keeps the journal beside the files of the world."""
        if self.pid and self.proc.poll() is None:
            with open(self.root + ".journal", "w", encoding="utf-8") as f:
                f.write(self.journal())
        super().stop()

    # ---- systemd -------------------------------------------------------------------------

    def boot(self):
        """Waits until systemd has reached its target."""
        until("systemd has booted", 90, lambda: self.run("systemctl", "is-active", "basic.target").stdout.strip() == "active",
              pause=0.2, trouble=lambda: self.journal("-n", "40"))

    def shown(self, unit, name):
        return self.shell("systemctl show --value -p %s %s" % (name, unit))

    def journal(self, *words):
        return self.run("journalctl", "--no-pager", *words).stdout


class Syslog:
    """Keeps the lines that programs of a machine send to its /dev/log."""

    def __init__(self, path):
        self.socket, self.lines = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), []
        self.socket.bind(path)
        os.chmod(path, 0o666)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                self.lines.append(self.socket.recv(65536).decode("utf-8", "replace"))
            except OSError:
                return

    def text(self):
        return "\n".join(self.lines)
