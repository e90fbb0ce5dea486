"""The same work without us: pgbench on bare statements, and nginx with a file of the same size."""
import os
import re
import shutil
import subprocess

from support.postgres import USER, psql
from support.wait import answers, until
from world import Failure, free_port

# The rows of each reply, by plain SQL; of a plan, the prices that suit, in order. A mix has none.
SELECTS = {
    "jobs": "SELECT d.doc::text FROM (SELECT id FROM job ORDER BY id DESC LIMIT 100) x JOIN api_job d ON d.id = x.id;",
    "prices": "SELECT d.doc::text FROM (SELECT pool_id FROM pool_latest ORDER BY price_micros, pool_id LIMIT 50) l "
              "JOIN api_pool d ON d.id = l.pool_id;",
    "nodes": "SELECT d.doc::text FROM (SELECT id FROM node ORDER BY id DESC LIMIT 100) x JOIN api_node d ON d.id = x.id;",
    "job": "\\set id random(1, %(jobs)d)\nSELECT doc::text FROM api_job WHERE id = :id;",
    "plan": "SELECT p.id, l.price_micros FROM pool p JOIN pool_latest l ON l.pool_id = p.id WHERE p.gpu_name LIKE 'H100%%' "
            "ORDER BY l.price_micros;",
}

JSON = ("spec", "secrets", "baseline")  # Columns of job.
GROUPS = 2  # Groups of submits that the daemon has in flight.


def pgbench_program(server):
    """None if it is not installed."""
    beside = os.path.join(server.bin, "pgbench")
    return beside if os.path.exists(beside) else shutil.which("pgbench")


class Pgbench:
    """Runs scripts against one database, with prepared statements, over the TCP port that the daemon uses."""

    def __init__(self, server, database, directory, seconds):
        self.server, self.database, self.dir, self.seconds = server, database, directory, seconds
        self.program = pgbench_program(server)
        # A table with the columns and indexes of job: the queue stays as it is.
        dsn = self.server.dsn(self.database)
        self.columns = psql(dsn, "SELECT string_agg(column_name, ', ') FROM information_schema.columns "
                                 "WHERE table_name = 'job' AND is_generated = 'NEVER' AND column_name <> 'id'")
        psql(dsn, "CREATE TABLE bench_job (LIKE job INCLUDING ALL); "
                  "CREATE TABLE bench_row AS SELECT * FROM job WHERE id = 1; ANALYZE bench_row; "
                  "CREATE TABLE bench_text AS TABLE bench_row; %s; ANALYZE bench_text" % "; ".join(
                      "ALTER TABLE bench_text ALTER %s TYPE text" % c for c in JSON))

    def run(self, script, connections):
        """Transactions a second."""
        path = os.path.join(self.dir, "pgbench.sql")
        with open(path, "w", encoding="utf-8") as f:
            f.write(script + "\n")
        out = subprocess.run([self.program, "-n", "-M", "prepared", "-c", str(connections), "-j", "1", "-T", str(self.seconds), "-f", path,
                              "-h", "127.0.0.1", "-p", str(self.server.port), "-U", USER, self.database],
                             capture_output=True, text=True, timeout=self.seconds + 120)
        found = re.search(r"^tps = ([\d.]+)", out.stdout, re.M)
        if out.returncode != 0 or not found:
            raise Failure("pgbench: " + out.stdout + out.stderr)
        return float(found.group(1))

    def inserts(self, connections):
        """Rows a second, one row a statement."""
        return self.run("INSERT INTO bench_job (%s) SELECT %s FROM bench_row;" % (self.columns, self.columns), connections)

    def inserts_grouped(self, rows):
        """Rows a second over one connection, `rows` of them a statement."""
        script = "INSERT INTO bench_job (%s) SELECT %s FROM bench_row, generate_series(1, %d);" % (self.columns, self.columns, rows)
        return rows * self.run(script, 1)

    def submits_alike(self, rows):
        """Rows a second as a submit stores them: job, event and key, in the tables of the product with their triggers. As the daemon's,
        two groups are in flight, JSON arrives as text, and each group notifies."""
        columns = self.columns.split(", ")
        values = ", ".join("r.%s::jsonb" % c if c in JSON else "r." + c for c in columns)
        group = max(1, rows // GROUPS)
        script = ("WITH j AS (INSERT INTO job (%s) SELECT %s FROM bench_text r, generate_series(1, %d) RETURNING id, owner, created_us), "
                  "e AS (INSERT INTO event (at_us, entity, entity_id, job_id, now, event, why, actor) SELECT created_us, 'job', "
                  "'j' || id, id, 'QUEUED', 'SUBMITTED', 'submitted by ' || owner, owner FROM j), "
                  "k AS (INSERT INTO idempotency (token_id, key, route, body_sha256, created_us, status, response) SELECT 0, 'k-' || id, "
                  "'POST /v1/jobs', repeat('a', 64), created_us, 201, repeat('r', 900) FROM j) "
                  "SELECT pg_notify('bench', min(id)::text) FROM j;" % (", ".join(columns), values, group))
        return group * self.run(script, min(rows, GROUPS))

    def selects(self, name, size, connections):
        """Replies a second; None if the request has no such statement."""
        script = SELECTS.get(name)
        return None if script is None else self.run(script % size._asdict(), connections)


CONFIGURATION = """
worker_processes 1;
daemon off;
pid %(dir)s/nginx.pid;
error_log %(dir)s/nginx.log;
%(user)s
events { worker_connections 1024; }
http {
	access_log off;
	keepalive_requests 100000000;
	client_body_temp_path %(dir)s/t1; proxy_temp_path %(dir)s/t2; fastcgi_temp_path %(dir)s/t3;
	uwsgi_temp_path %(dir)s/t4; scgi_temp_path %(dir)s/t5;
	sendfile on; tcp_nopush off; tcp_nodelay on;
	server { listen 127.0.0.1:%(port)d; root %(dir)s/files; }
}
"""


class Nginx:
    """One worker with static files. program: None if it is not installed."""

    def __init__(self, directory):
        self.program = os.environ.get("BENCH_NGINX") or shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
        self.dir, self.proc = os.path.join(directory, "nginx"), None
        if self.program is None:
            return
        os.makedirs(os.path.join(self.dir, "files"))
        self.port = free_port()
        config = os.path.join(self.dir, "nginx.conf")
        with open(config, "w", encoding="utf-8") as f:
            f.write(CONFIGURATION % {"dir": self.dir, "port": self.port, "user": "user root;" if os.geteuid() == 0 else ""})
        self.proc = subprocess.Popen([self.program, "-p", self.dir, "-c", config, "-e", os.path.join(self.dir, "nginx.log")])

        def serves():
            if self.proc.poll() is not None:
                raise Failure("nginx ended at once: see %s" % self.dir)
            return answers(self.port)
        until("nginx serves", 20, serves)

    def put(self, name, body):
        with open(os.path.join(self.dir, "files", name), "wb") as f:
            f.write(body)

    def stop(self):
        if self.proc is not None:
            self.proc.terminate()
            self.proc.wait(20)
