#!/usr/bin/env python3
"""One point of one story: stories.py BUILD STORY[@CLOUD][@TALE] [ARGUMENT...]. Each story's docstring describes it;
run.py has the list of points for a sweep. CLOUD: aws by default; stories that need a machine's own programs have AWS
alone. TALE: the workload (tales.py), by default jobs."""
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chaos  # noqa: E402
from support import e2e  # noqa: E402
from support.spotd import Spotd, program  # noqa: E402
from world import Failure  # noqa: E402
from chaos import Worlds, trouble  # noqa: E402
from relay import Plan, Proxy  # noqa: E402
from lies import story_judge  # noqa: E402,F401
from judge import Broken, judge, need  # noqa: E402
from shims import marks, shim_env, wrap_agent  # noqa: E402
from stories_away import *  # noqa: E402,F401,F403
from stories_node import *  # noqa: E402,F401,F403
from tales import tale, tell_of  # noqa: E402

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def writing_statements():
    """Names of the statements that change something, from the SQL files' own headers."""
    names = set()
    for path in glob.glob(os.path.join(TOP, "src/store/sql/**/*.sql"), recursive=True):
        with open(path, encoding="utf-8") as f:
            for name, rest in re.findall(r"-- name: (\w+)\n(.*?)(?=\n-- name: |\Z)", f.read(), re.S):
                if re.search(r"-- writes: yes", rest):
                    names.add(name)
    return names


# ---- between any two statements ----------------------------------------------------------------

def kill_at(w, mode, at, every, names=None):
    def hit(count, name):
        w.daemon.kill9()
    return Plan(mode, at, every, hit, names=names)


def story_statements(mode, at, every):
    """kill -9 of the daemon at statement AT and every EVERY statements from there on; MODE says on which side of it."""
    at, every = int(at), int(every)
    with Worlds(plan=lambda w: kill_at(w, mode, at, every)) as w:
        tale(w)
        w.proxy.plan = None
        w.tell("%d kills, %d statements; the last ones %s" % (len(w.proxy.hits), w.proxy.count, [n for _, n in w.proxy.hits[-4:]]))
        need(w.proxy.hits, "nothing was killed: the story has fewer than %d statements", at)
        judge(w)


class EachName(Plan):
    """The k-th time that a statement which writes is seen, once for every name."""

    def __init__(self, mode, k, hit):
        super().__init__(mode, None, 0, hit)
        self.k, self.writes, self.times = k, writing_statements(), {}

    def wants(self, name):
        if name not in self.writes and not name.startswith(("BEGIN", "COPY", "COMMIT")):
            return False
        name = name.split(" ")[0]
        self.times[name] = self.times.get(name, 0) + 1
        return self.times[name] == self.k


def story_writes(mode, k):
    """kill -9 of the daemon at the K-th time of every statement that writes, each in its turn."""
    with Worlds(plan=lambda w: EachName(mode, int(k), lambda count, name: w.daemon.kill9())) as w:
        tale(w)
        plan, w.proxy.plan = w.proxy.plan, None
        w.tell("%d kills, each at another statement: %s" % (len(w.proxy.hits), " ".join(n for _, n in w.proxy.hits)))
        w.tell("seen fewer than %s times: %s" % (k, " ".join(sorted(n for n, t in plan.times.items() if t < plan.k)) or "none"))
        need(len(w.proxy.hits) >= 10, "only %d kills", len(w.proxy.hits))
        judge(w)


def story_losses(mode, at, every):
    """The database connection breaks around every EVERY-th statement from AT on; nobody is killed."""
    with Worlds(plan=lambda w: Plan(mode, int(at), int(every), lambda count, name: None)) as w:
        tale(w)
        w.proxy.plan = None
        w.tell("%d connections broken, %d statements" % (len(w.proxy.hits), w.proxy.count))
        ends = w.daemon.ends[w.false_starts:]
        need(len(w.proxy.hits) > 5 and not ends, "broken %d, spotd ended %s", len(w.proxy.hits), ends)
        judge(w)


def story_migrate(stride, first=1):
    """Kills spotd --migrate on an empty database around each STRIDE-th statement from the FIRST on, in turn (of each
    mode one later). Then it is finished, and the schema must be that of an undisturbed run."""
    with tempfile.TemporaryDirectory(prefix="spotchaos-") as top:
        os.chmod(top, 0o711)
        pg = chaos.start_postgres(top)
        proxy = Proxy(pg.port)
        points = 0
        try:
            proc = {}

            def migrate(name):
                env = dict(os.environ, DATABASE_URL=chaos.database_url(proxy.port, database=name))
                daemon = proc["p"] = Spotd([program(e2e.BUILD), "--migrate"], top, env, "migrate")
                daemon.start()
                try:
                    return daemon.proc.wait(60)
                finally:
                    daemon.stop()

            def schema(name):
                text = pg.run("pg_dump", "-s", "-d", pg.dsn(name))
                return [line for line in text.splitlines() if not line.startswith(("\\restrict", "\\unrestrict"))]

            pg.sql("CREATE DATABASE calm", database="postgres")
            proxy.count = 0
            need(migrate("calm") == 0, "spotd --migrate fails")
            total, whole = proxy.count, schema("calm")
            for k, mode in enumerate(("before", "sent", "replied")):
                for n in range(1 + (int(first) - 1 + k) % int(stride), total + 1, int(stride)):
                    pg.sql("CREATE DATABASE torn", database="postgres")
                    proxy.count = 0
                    proxy.plan = Plan(mode, n, 0, lambda count, name: proc["p"].kill9())
                    killed = migrate("torn")
                    proxy.plan = None
                    need(killed == -signal.SIGKILL or mode == "replied", "statement %d %s: not killed, exit %d", n, mode, killed)
                    need(migrate("torn") == 0, "statement %d %s: spotd --migrate does not finish after a kill", n, mode)
                    need(schema("torn") == whole, "statement %d %s: another schema", n, mode)
                    pg.sql("DROP DATABASE torn WITH (FORCE)", database="postgres")
                    points += 1
            print("%d kills within %d statements of the migrations, the same schema each time" % (points, total))
        finally:
            proxy.stop()
            pg.stop()


# ---- n-th call failures ---------------------------------------------------------------------------

def story_calls(kind, at, every):
    """Calls of KIND (db, http, serve, disk) fail in the daemon: the AT-th and every EVERY-th from there on. Each start
    of it counts anew."""
    with tempfile.TemporaryDirectory(prefix="spotchaos-") as top:
        mark = os.path.join(top, "mark")

        def arm(w):
            w.first_extra = shim_env(kind, at, every, "spotd", mark, w.proxy.port)
        with Worlds(plan=arm) as w:
            tale(w)
            got = marks(mark)
            w.tell("%d calls failed (%s); spotd ended by itself %d times" % (
                len(got), ", ".join(sorted({m.split()[1] for m in got})), len(w.daemon.ends)))
            need(got, "no call failed")
            # The judge must be able to ask: a daemon without the shim.
            w.daemon.extra.clear()
            w.daemon.kill9()
            w.await_ready()
            judge(w)


def story_start(kind):
    """The daemon starts with its n-th call of KIND failing, n = 1, 2, ... until a start in which none failed. It comes
    up, or ends with words; and comes up the next time."""
    with tempfile.TemporaryDirectory(prefix="spotchaos-") as top, Worlds() as w:
        w.daemon.stop()
        silent, ended, n = [], 0, 0
        while True:
            n += 1
            mark = os.path.join(top, "mark%d" % n)
            env = dict(w.daemon.env, **shim_env(kind, n, 0, "spotd", mark, w.proxy.port))
            daemon = Spotd([program(e2e.BUILD), "--config", w.daemon.config], top, env, "start%d" % n)
            daemon.start()
            started = up_or_over(w, daemon)
            words = daemon.text()
            if daemon.alive():
                need(daemon.end(timeout_s=20) == 0, "%s call %d: spotd does not stop in good order\n%s", kind, n, words)
            elif not words.strip() or daemon.proc.returncode < 0:
                silent.append(n)
            daemon.stop()
            ended += not started
            if not marks(mark):
                break
            need(n < 3000, "a start has more calls than that?")
        print("%s: %d starts with one failing call, %d of them given up with words" % (kind, n - 1, ended))
        need(not silent, "%s calls %s: spotd died or ended without a word", kind, silent)
        w.daemon = chaos.KeptSpotd(w.dir, w.daemon.config, w.daemon.env)
        w.daemon.start()
        w.await_ready()


def up_or_over(w, daemon):
    """True: it serves. False: it ended."""
    end = time.monotonic() + 30
    pause = threading.Event()
    while daemon.alive():
        try:
            if w.ask("GET", "/readyz")[0] == 200:
                return True
        except OSError:
            pass
        if time.monotonic() > end:
            daemon.kill9()
            raise Broken("spotd neither comes up nor ends")
        pause.wait(0.02)
    return False


def story_agent_calls(kind, at, every):
    """The same in the agents: http, disk. Their job is none of it."""
    with tempfile.TemporaryDirectory(prefix="spotchaos-") as top:
        os.chmod(top, 0o755)
        mark = os.path.join(top, "mark")
        with Worlds(plan=lambda w: wrap_agent(w, shim_env(kind, at, every, "spot-agent", mark))) as w:
            tale(w)
            got = marks(mark)
            w.tell("%d calls of agents failed (%s)" % (len(got), ", ".join(sorted({m.split()[1] for m in got}))))
            need(got, "no call failed")
            judge(w)


# ---- the database -----------------------------------------------------------------------------

def story_postgres(seed):
    """kill -9 of the whole Postgres at random moments, and started again after a while."""
    rng = random.Random(int(seed))
    with Worlds() as w:
        kills = []

        def kill(over):
            while not over.wait(rng.uniform(0.5, 5)):
                w.pg.kill9()
                kills.append(1)
                over.wait(rng.uniform(0, 3))
                w.pg.start()
        with trouble(kill):
            tale(w)
        w.tell("%d kills of Postgres, %d ends of spotd" % (len(kills), len(w.daemon.ends)))
        need(len(kills) >= 2, "Postgres was killed %d times", len(kills))
        judge(w)


def story_disk_full(seed):
    """Postgres runs on a file system of its own, which fills up to the last byte during the story and is freed again.
    If Postgres ends, the supervisor starts it again."""
    rng = random.Random(int(seed))
    with chaos.small_disk("192m") as top:
        disk_fills(rng, top)


def disk_fills(rng, top):
    settings = ["min_wal_size=32MB", "max_wal_size=48MB", "wal_init_zero=on"]
    with Worlds(postgres={"data": os.path.join(top, "data"), "settings": settings}) as w:
        full = []

        def fill(over):
            while not over.wait(rng.uniform(2, 5)):
                with chaos.full_disk(top):
                    full.append(w.proxy.count)
                    over.wait(rng.uniform(2, 6))
                if w.pg.proc.poll() is not None:
                    w.tell("Postgres gave up")
                    w.pg.start()
        with trouble(fill):
            tale(w)
        text = w.daemon.text() + open(w.pg.log_path, encoding="utf-8", errors="replace").read()
        w.tell("full %d times; 'No space left' was said %d times" % (len(full), text.count("No space left")))
        need(full and "No space left" in text, "the disk was never full for anybody")
        judge(w)


def open_clients(pg, n):
    """n sessions of somebody else that do nothing; end them with close_clients. They may use reserved places too."""
    made = []
    for _ in range(n):
        p = subprocess.Popen(["psql", "-XqAt", pg.dsn()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        p.stdin.write("SELECT 'in';\n")
        p.stdin.flush()
        if p.stdout.readline().strip() != "in":
            p.wait()
            break
        made.append(p)
    return made


def close_clients(clients):
    for p in clients:
        p.kill()
        p.communicate()


def story_connections(seed):
    """Somebody else takes every connection of the server, also those that the daemon had; later it lets go of them."""
    rng = random.Random(int(seed))
    with Worlds(postgres={"settings": ["max_connections=40", "superuser_reserved_connections=1"]}) as w:
        done = []

        def take_all(over):
            while not over.wait(rng.uniform(1, 4)):
                w.proxy.cut_all()
                held = open_clients(w.pg, 40)
                w.proxy.cut_all()
                held += open_clients(w.pg, 40)
                refused = w.daemon.text().count("too many clients") + w.daemon.text().count("remaining connection slots")
                if rng.random() < 0.5:
                    w.daemon.kill9()  # its next start finds no place either
                over.wait(rng.uniform(2, 6))
                close_clients(held)
                done.append((len(held), refused))
        with trouble(take_all):
            tale(w)
        w.tell("all connections taken %d times (%s), %d ends of spotd" % (len(done), done, len(w.daemon.ends)))
        need(done, "nobody took the connections")
        judge(w)


def main():
    e2e.BUILD = os.path.abspath(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    stories = {k[len("story_"):]: v for k, v in globals().items() if k.startswith("story_")}
    name, *more = sys.argv[2].split("@")
    tell_of(more)
    try:
        stories[name](*sys.argv[3:])
    except (Broken, Failure) as e:
        print("BROKEN: %s" % e, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
