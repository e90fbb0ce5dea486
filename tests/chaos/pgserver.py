"""A Postgres of a story's own: it can be killed, filled up, and asked past the daemon."""
import glob
import json
import os
import pwd
import signal
import subprocess
import threading
import time

NAME = "spotbroker"


def programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[4]))
    return found[-1] if found else ""


class Postgres:
    """directory: made here, holds data, sock and log. Postgres refuses to run as root: it is then another user's."""

    def __init__(self, directory, data=None, settings=()):
        self.dir, self.data, self.settings = directory, data or os.path.join(directory, "data"), list(settings)
        self.sock = os.path.join(directory, "sock")
        self.user = {}
        os.makedirs(self.sock)
        os.makedirs(self.data, exist_ok=True)
        if os.geteuid() == 0:
            try:
                who = pwd.getpwnam("postgres")
            except KeyError:
                who = pwd.getpwnam("nobody")
            self.user = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
            for path in (directory, self.sock, self.data):
                os.chown(path, who.pw_uid, who.pw_gid)
        os.chmod(self.data, 0o700)
        self.log = open(os.path.join(directory, "log"), "ab")
        self.proc = None
        self.run("initdb", "-D", self.data, "-U", NAME, "-E", "UTF8", "--locale=C.UTF-8", "--auth=trust", "--no-sync")
        self.start()
        self.run("createdb", "-h", self.sock, "-U", NAME, NAME)

    def run(self, program, *args):
        subprocess.run([os.path.join(programs(), program), *args], check=True, stdout=self.log, stderr=self.log, cwd="/", **self.user)

    def start(self):
        """fsync off: the writes of a process outlive its kill -9. Planning would take most of the time of a daemon that
        is killed every few seconds. So each statement has one plan, as for a daemon that runs for long, with its joins
        as they stand."""
        settings = ["listen_addresses=", "unix_socket_directories=" + self.sock, "fsync=off", "shared_buffers=32MB", "jit=off",
                    "plan_cache_mode=force_generic_plan", "join_collapse_limit=1", "from_collapse_limit=1", "log_min_messages=warning", *self.settings]
        self.proc = subprocess.Popen([os.path.join(programs(), "postgres"), "-D", self.data,
                                      *(x for s in settings for x in ("-c", s))],
                                     stdout=self.log, stderr=self.log, cwd="/", start_new_session=True, **self.user)
        end = time.monotonic() + 60
        pause = threading.Event()
        while subprocess.run([os.path.join(programs(), "pg_isready"), "-q", "-h", self.sock], stdout=subprocess.DEVNULL).returncode != 0:
            if self.proc.poll() is not None or time.monotonic() > end:
                raise RuntimeError("Postgres does not start: see %s" % self.log.name)
            pause.wait(0.05)

    def kill9(self):
        """The whole server, as when its host dies. Its children end when they see that it is gone; they hold its memory until then."""
        tree = children(self.proc.pid)
        for pid in (self.proc.pid, *tree):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.proc.wait()
        os.unlink(os.path.join(self.data, "postmaster.pid"))

    def stop(self):
        if self.proc and self.proc.poll() is None:
            self.proc.send_signal(signal.SIGQUIT)
            self.proc.wait(30)
        self.log.close()

    @property
    def socket_path(self):
        return os.path.join(self.sock, ".s.PGSQL.5432")

    def psql(self, sql):
        out = subprocess.run(["psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", self.sock, "-U", NAME, NAME], input=sql,
                             capture_output=True, text=True, timeout=60)
        if out.returncode != 0:
            raise OSError("psql: " + out.stderr.strip())
        return out.stdout.strip()

    def rows(self, query):
        """Each row as a dictionary."""
        return json.loads(self.psql("SELECT coalesce(json_agg(t), '[]') FROM (%s) t" % query))

    def open_clients(self, n):
        """n sessions of somebody else that do nothing; end them with close_clients. They may use reserved places too."""
        made = []
        for _ in range(n):
            p = subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-h", self.sock, "-U", NAME, NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
            p.stdin.write("SELECT 'in';\n")
            p.stdin.flush()
            if p.stdout.readline().strip() != "in":
                p.wait()
                break
            made.append(p)
        return made

    @staticmethod
    def close_clients(clients):
        for p in clients:
            p.kill()
            p.communicate()


def children(pid):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name, encoding="utf-8") as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(name))
        except (OSError, IndexError):
            pass
    return found
