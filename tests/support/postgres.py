"""Postgres for tests: where its programs are, a prepared data folder, a server of one's own."""
import glob
import json
import os
import pwd
import shutil
import signal
import subprocess

from support.processes import process_tree
from support.wait import until
from world import Failure, free_port

DATABASE = USER = "spotbroker"


def programs():
    """Folder of the newest server's programs."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda p: int(p.split("/")[4]))
    if not found and not shutil.which("postgres"):
        raise Failure("there is no Postgres server: deploy/packages run")
    return os.path.dirname(found[-1] if found else os.path.realpath(shutil.which("postgres")))


def psql(dsn, text, timeout_s=120):
    """Runs the statements, each in a transaction of its own. Returns the output of psql."""
    out = subprocess.run([os.path.join(programs(), "psql"), "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", dsn], input=text, capture_output=True,
                         text=True, timeout=timeout_s)
    if out.returncode != 0:
        raise Failure("%s\n%s" % (out.stderr.strip(), text))
    return out.stdout.strip()


def lend(path):
    """Postgres does not run as root: gives the folder to its user. Returns the words that run a program as that user."""
    if os.geteuid() != 0:
        return []
    who = pwd.getpwnam("postgres")
    os.chown(path, who.pw_uid, who.pw_gid)
    return ["setpriv", "--reuid=%d" % who.pw_uid, "--regid=%d" % who.pw_gid, "--clear-groups"]


def copy_image(build, data):
    """Copies the prepared data folder (pg_image.h) to data: the database spotbroker, migrated. False: there is none."""
    maker = os.path.join(build, "tests/support/pg_image")
    if not os.path.exists(maker):
        return False
    made = subprocess.run([maker], capture_output=True, text=True, timeout=120)
    if made.returncode != 0:
        return False
    return subprocess.run(["cp", "-a", "--reflink=auto", "--", made.stdout.strip(), data]).returncode == 0


def prepare_local(build, data_home):
    """So that spotd --local finds its database made and migrated."""
    folder = os.path.join(data_home, "spotbroker", "postgres")
    os.makedirs(folder, mode=0o700)
    if os.geteuid() == 0:  # as spotd makes them: the database of root runs as another user
        for path in (data_home, os.path.dirname(folder)):
            os.chmod(path, 0o711)
        lend(folder)
    copy_image(build, os.path.join(folder, "data"))


def local_dsn(data_home):
    """Of the private Postgres of a daemon that runs."""
    for root, _, names in os.walk(data_home):
        if "postmaster.pid" in names:
            with open(os.path.join(root, "postmaster.pid"), encoding="utf-8") as f:
                lines = f.read().splitlines()
            return "host=%s port=%s dbname=%s user=%s" % (lines[4], lines[3], DATABASE, USER)
    raise Failure("no database runs below %s" % data_home)


class Postgres:
    """A server by itself, on a port of the loopback. settings: lines of its configuration; data: its data folder, where it lies
    outside of DIRECTORY/pg."""

    def __init__(self, directory, settings=(), data=None):
        self.dir = os.path.join(directory, "pg")
        os.makedirs(self.dir, mode=0o755)
        self.as_user = lend(self.dir)
        self.port, self.proc, self.bin = free_port(), None, programs()
        self.data = data or os.path.join(self.dir, "data")
        self.log_path = os.path.join(self.dir, "server.log")
        os.makedirs(self.data, mode=0o700, exist_ok=True)
        lend(self.data)
        self.run("initdb", "-D", self.data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as f:
            f.write("port = %d\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 60\n"
                    "fsync = off\n%s\n" % (self.port, "\n".join(settings)))
        self.start()
        self.sql("CREATE DATABASE " + DATABASE, database="postgres")

    def run(self, program, *words, **kw):
        out = subprocess.run([*self.as_user, os.path.join(self.bin, program), *words], capture_output=True, text=True, cwd=self.dir, **kw)
        if out.returncode != 0:
            raise Failure("%s %s: %s%s" % (program, " ".join(words), out.stdout, out.stderr))
        return out.stdout

    def start(self):
        with open(self.log_path, "ab") as log:
            self.proc = subprocess.Popen([*self.as_user, os.path.join(self.bin, "postgres"), "-D", self.data], stdout=log, stderr=log, cwd=self.dir)

        def look():
            if self.proc.poll() is not None:
                raise Failure("Postgres does not start: see %s" % self.log_path)
            return self.answers()
        until("Postgres answers", 60, look)

    def answers(self):
        return subprocess.run([os.path.join(self.bin, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False).returncode == 0

    def dsn(self, database=DATABASE):
        return "host=127.0.0.1 port=%d user=%s dbname=%s" % (self.port, USER, database)

    def sql(self, text, database=DATABASE):
        return psql(self.dsn(database), text)

    def rows(self, query):
        """Each row as a dictionary."""
        return json.loads(self.sql("SELECT coalesce(json_agg(t), '[]') FROM (%s) t" % query))

    def kill9(self):
        """The whole server, as when its host dies."""
        for pid in (self.proc.pid, *process_tree(self.proc.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.proc.wait()
        os.unlink(os.path.join(self.data, "postmaster.pid"))

    def stop(self):
        if self.proc and self.proc.poll() is None:
            self.proc.send_signal(signal.SIGQUIT)
            self.proc.wait(20)
