"""A job of several nodes as its agents see the API: one token for the machines of one launch, each rank for itself."""
import hashlib
import unittest
import lib

A = lib.Apid()
SPEC = """name: gang
num_nodes: 3
run: ./train
resources:
  accelerators: V100:1
config:
  spotctl:
    checkpoint: {path: ckpt, signal: USR1, interval: 60s}
"""


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


class Gang(unittest.TestCase):
    n = 0

    def setUp(self):
        Gang.n += 1
        self.pool = A.pool(zone="g%d" % Gang.n)
        self.job = int(A.job(SPEC)["id"][1:])
        self.shared = "shared-%d" % Gang.n
        self.gang = int(A.sql("INSERT INTO gang (job_id, pool_id, place, want, token, state, created_us) VALUES (%d, %d, 'p%d', 3, '%s', "
                              "'ACQUIRING', 1) RETURNING id" % (self.job, self.pool, Gang.n, self.shared)))
        self.nodes = [A.node(self.pool, "BOOTING", self.job)[0] for _ in range(3)]
        for rank, node in enumerate(self.nodes):
            A.sql("UPDATE node SET gang_id = %d, gang_rank = %d, gang_call = true WHERE id = %d" % (self.gang, rank, node))

    def refs(self):
        for rank, node in enumerate(self.nodes):
            A.sql("UPDATE node SET ref = 'i-%d-%d' WHERE id = %d" % (self.gang, rank, node))

    def enrol(self, rank, expect=200, token=None):
        body = {"token": lib.enrol_token(token or self.shared), "version": "1", "boot_id": "b%d" % rank, "hw": {"ip": "10.0.0.%d" % rank},
                "instance_ref": "i-%d-%d" % (self.gang, rank)}
        return A.call("POST", "/v1/agent/enrol", body, token=None, expect=expect)[1]

    def start(self):
        self.refs()
        self.sessions = [self.enrol(rank)["session"] for rank in range(3)]
        A.sql("UPDATE node SET state = 'READY' WHERE gang_id = %d; UPDATE job SET epoch = 1, state = 'STARTING' WHERE id = %d" % (
            self.gang, self.job))
        A.sql("INSERT INTO attempt (job_id, epoch, rank, node_id, pool_id, market, desired, phase, created_us) SELECT %d, 1, gang_rank, id, "
              "pool_id, 'spot', 'run', 'ASSIGNED', 1 FROM node WHERE gang_id = %d" % (self.job, self.gang))

    def agent(self, rank, what, expect=200, **body):
        return A.call("POST", "/v1/agent/" + what, dict({"job": "j%d" % self.job, "epoch": 1}, **body), token=self.sessions[rank],
                      expect=expect)[1]

    def test_one_token_and_the_instance_says_which_node_it_is(self):
        self.assertEqual(self.enrol(1, 503)["code"], "unavailable")  # the reply of the launch is still out
        self.refs()
        for rank in (2, 0, 1):
            self.assertEqual(self.enrol(rank)["node"], "n%d" % self.nodes[rank])
        self.assertEqual(self.enrol(7, 409)["code"], "conflict")
        self.enrol(1, 401, "tok-that-no-node-has")
        # The token that the row of one rank has for itself was never sent anywhere: it opens nothing.
        self.enrol(1, 401, A.sql("SELECT token FROM node WHERE id = %d" % self.nodes[1]))

    def test_each_rank_is_told_where_the_others_are(self):
        self.start()
        for rank in range(3):
            run = A.call("POST", "/v1/agent/poll", {"have": {"job": None, "epoch": 0, "phase": "", "version": 0}, "hold_ms": 0},
                         token=self.sessions[rank], expect=200)[1]["run"]
            self.assertEqual(run["nodes"], {"count": 3, "rank": rank, "ips": ["10.0.0.0", "10.0.0.1", "10.0.0.2"]})

    def test_each_rank_saves_as_often_as_the_gang_may_be_reclaimed(self):
        self.start()
        A.sql("UPDATE job SET spec = spec || '{\"work_s\": 3600, \"checkpoint\": {\"path\": \"ckpt\"}}' WHERE id = %d;"
              "INSERT INTO decision (at_us, kind, job_id, node_id, inputs, outcome, why) VALUES (1, 'place', %d, %d, '{}', "
              "'{\"pool\": {\"hazard_per_hour\": 3}}', '')" % (self.job, self.job, self.nodes[0]))
        for rank in range(3):
            run = A.call("POST", "/v1/agent/poll", {"have": {"job": None, "epoch": 0, "phase": "", "version": 0}, "hold_ms": 0},
                         token=self.sessions[rank], expect=200)[1]["run"]
            # Young: sqrt(2 x 20 s x 1 h / (3 x 3 x 0.1)).
            self.assertEqual(run["checkpoint"]["interval_s"], 400)

    def test_each_rank_reports_for_itself_alone(self):
        self.start()
        self.agent(1, "report", phase="RUNNING", steps_done=9, steps_total=50)
        self.agent(2, "report", phase="EXITED", reason="error", exit_code=7)
        self.assertEqual(A.sql("SELECT string_agg(phase || ' ' || steps_done, ',' ORDER BY rank) FROM attempt WHERE job_id = %d" % self.job),
                         "ASSIGNED 0,RUNNING 9,EXITED 0")
        # The job's steps are those of rank 0.
        self.assertEqual(A.sql("SELECT steps_done, steps_total FROM job WHERE id = %d" % self.job), "0|0")
        self.agent(0, "report", phase="RUNNING", steps_done=8, steps_total=50)
        j = A.call("GET", "/v1/jobs/%d" % self.job, expect=200)[1]
        self.assertEqual((j["steps_done"], j["steps_total"], j["num_nodes"], j["attempts"]), (8, 50, 3, 1))
        self.assertEqual([(a["rank"], a["node"]) for a in j["attempts_list"]], [(r, "n%d" % n) for r, n in enumerate(self.nodes)])

    def test_logs_are_kept_by_rank(self):
        self.start()
        for rank in (0, 2):
            A.call("POST", "/v1/agent/log?job=j%d&epoch=1&offset=0" % self.job, b"rank %d" % rank, token=self.sessions[rank], expect=200)
        for rank, text in ((0, b"rank 0"), (1, b""), (2, b"rank 2")):
            self.assertEqual(A.call("GET", "/v1/jobs/%d/logs?rank=%d" % (self.job, rank), expect=200)[1] or b"", text)
        A.call("GET", "/v1/jobs/%d/logs?rank=3" % self.job, expect=404)

    def test_a_checkpoint_of_one_rank_is_not_yet_the_jobs(self):
        self.start()
        opened = [self.agent(rank, "checkpoint", reason="periodic", steps=5, chunks=[])["checkpoint"] for rank in range(3)]
        self.assertEqual(A.sql("SELECT string_agg(state, ',') FROM checkpoint WHERE job_id = %d" % self.job), "OPEN,OPEN,OPEN")
        self.agent(1, "checkpoint", reason="periodic", steps=6, chunks=[])
        self.assertEqual(A.sql("SELECT string_agg(state, ',' ORDER BY id) FROM checkpoint WHERE job_id = %d" % self.job),
                         "OPEN,ABANDONED,OPEN,OPEN")
        self.agent(2, "commit", 409, checkpoint=opened[0])  # another rank's
        self.agent(0, "commit", checkpoint=opened[0])
        self.assertEqual(A.sql("SELECT state, set_key, coalesce(set_us, 0) FROM checkpoint WHERE id = " + opened[0][1:]), "COMMITTED|5|0")
        self.assertEqual(A.sql("SELECT coalesce(checkpoint_id, 0) FROM job WHERE id = %d" % self.job), "0")


class Set(unittest.TestCase):
    """Equal nodes that one call launched, under the token of the first."""

    def enrol(self, k, expect=200, token=None):
        body = {"token": lib.enrol_token(token or self.token), "version": "1", "boot_id": "b%d" % k, "hw": {}, "instance_ref": "i-set-%d" % k}
        return A.call("POST", "/v1/agent/enrol", body, token=None, expect=expect)[1]

    def test_the_instance_says_which_node_of_the_set_it_is(self):
        pool = A.pool(zone="set")
        nodes = [A.node(pool, "BOOTING")[0] for _ in range(3)]
        self.token = A.sql("SELECT token FROM node WHERE id = %d" % nodes[0])
        A.sql("UPDATE node SET ref = NULL, set_id = %d, set_want = 3 WHERE id IN (%d, %d, %d)" % (nodes[0], *nodes))
        self.assertEqual(self.enrol(1, 503)["code"], "unavailable")  # the reply of the launch is still out
        for k, node in enumerate(nodes):
            A.sql("UPDATE node SET ref = 'i-set-%d' WHERE id = %d" % (k, node))
        for k in (2, 0, 1):
            self.assertEqual(self.enrol(k)["node"], "n%d" % nodes[k])
        self.assertEqual(self.enrol(7, 409)["code"], "conflict")
        self.enrol(1, 401, A.sql("SELECT token FROM node WHERE id = %d" % nodes[1]))


if __name__ == "__main__":
    lib.main()
