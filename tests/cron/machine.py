"""A machine of its own on this one, for programs that own a whole machine: systemd, cron.

    m = Machine(DIRECTORY, "name", ["/lib/systemd/systemd", "--system", "--unit=basic.target"], [FOLDER])
    m.shell("systemctl is-system-running --wait")
    m.stop()

The script `machine` beside this file makes it out of namespaces. Its processes end with it, and its files are gone.
"""
import os
import shutil
import subprocess

from support.wait import until
from world import Failure

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("unshare", "nsenter", "setpriv", "pivot_root", "mount", "hostname")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def cgroup_mount():
    """The folder of the unified hierarchy; None where there is none."""
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        found = [line.split() for line in f if " - cgroup2 " in line]
    return found[0][4] if found else None


def refusal(directory):
    """Why no such machine can be made here; None where one can be."""
    if os.geteuid() != 0:
        return "namespaces, cgroups and a cron daemon need root"
    missing = [p for p in PROGRAMS if not shutil.which(p, path=PATH)]
    if missing:
        return "these programs are missing: " + " ".join(missing)
    if not cgroup_mount():
        return "no unified cgroup hierarchy is mounted"
    try:
        Machine(directory, "trial", ["sleep", "infinity"]).stop()
    except (Failure, OSError) as e:
        return "no machine can be made: %s" % e
    return None


class Machine:
    """init: the first process. folders: the same ones in both machines; all others of /tmp are hidden."""

    def __init__(self, directory, name, init, folders=()):
        self.root, self.log_path, self.pid = os.path.join(directory, name), os.path.join(directory, name + ".log"), None
        self.cgroup = os.path.join(cgroup_mount(), "spotbroker-%d-%s" % (os.getpid(), name))
        os.makedirs(self.root)
        os.mkdir(self.cgroup)
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup", "--kill-child=KILL", "--",
                 os.path.join(HERE, "machine"), self.root, *folders, "--", *init]
        with open(self.log_path, "ab") as log:
            self.proc = subprocess.Popen(["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.cgroup, *words], stdin=subprocess.DEVNULL,
                                         stdout=log, stderr=log, env=dict(os.environ, PATH=PATH))
        try:
            until("the machine is there", 60, self.is_up, trouble=self.log)
        except BaseException:
            self.stop()
            raise

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return "\n" + f.read()[-2000:]

    def is_up(self):
        if self.proc.poll() is not None:
            raise Failure("it ended: %s" % self.log().strip())
        with open("/proc/%d/task/%d/children" % (self.proc.pid, self.proc.pid), encoding="ascii") as f:
            children = f.read().split()
        self.pid = int(children[0]) if children else None
        return self.pid and os.path.exists("/proc/%d/root/run/spotbroker-machine" % self.pid)

    # ---- inside --------------------------------------------------------------------------

    def words(self, *command):
        return ["nsenter", "--target", str(self.pid), "--mount", "--uts", "--ipc", "--pid", "--", "env", "-i", "PATH=" + PATH, *command]

    def run(self, *command, text=None, timeout_s=120):
        return subprocess.run(self.words(*command), input=text, capture_output=True, text=True, timeout=timeout_s)

    def shell(self, line, folder="/"):
        """Runs the line as root. Returns its output; fails when it fails."""
        out = self.run("sh", "-ec", "cd '%s'; %s" % (folder, line))
        if out.returncode != 0:
            raise Failure("%s: exit code %d: %s%s" % (line, out.returncode, out.stdout, out.stderr))
        return out.stdout.strip()

    def write(self, path, text, mode=0o644):
        out = self.run("sh", "-ec", 'mkdir -p "${1%/*}"; cat >"$1"; chmod "$2" "$1"', "write", path, "%o" % mode, text=text)
        if out.returncode != 0:
            raise Failure("%s is not written: %s" % (path, out.stderr))

    def read(self, path):
        return self.run("cat", path).stdout

    # ---- the end -------------------------------------------------------------------------

    def stop(self):
        """Kills the first process, and with it all others."""
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        until("its groups are empty", 60, self.groups_removed)
        os.rmdir(self.root)

    def groups_removed(self):
        for folder, _, _ in os.walk(self.cgroup, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                return False
        return True
